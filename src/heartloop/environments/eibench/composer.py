"""The training set of EIBench: 2,009 scenarios, composed from hand-written situation cores.

Every keyword of the seed pools has a core: a situation with slots for details, roles by relationship, openings by intensity,
concerns, beats and lines. The composer adds a place and names (`places`), a manner of speaking with its lines (`manners.toml`, by
personality) and anchors (`pools.toml`, by intensity). It uses no combination of keyword, relationship, intensity and personality
of the test set. The result is deterministic.

Does not cover near-duplicates of test scenarios (checked by `heartloop.authoring` and the tests), nor writing with a model.
"""

from __future__ import annotations

import functools
import json
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from heartloop.core.errors import InputError
from heartloop.environments.eibench.scenario import (
    LINES,
    SCENES,
    AxisAnchors,
    EIBenchBeat,
    EIBenchConcern,
    EIBenchLines,
    EIBenchScenario,
    ModelProfile,
    ScenarioAnchors,
    Scene,
    Seed,
    UserProfile,
    pools,
)
from heartloop.environments.eibench.scoring import GAP, STEP
from heartloop.environments.records import read_records
from heartloop.environments.writing import places
from heartloop.environments.written import Matter, Part, Tag

__all__ = [
    "SIZES",
    "Combination",
    "Core",
    "Openings",
    "RoleTexts",
    "combinations",
    "compose",
    "fill_slots",
    "load_cores",
    "train_set",
]

SIZES: Mapping[Scene, int] = {"charm": 504, "defense": 496, "repair": 503, "support": 506}
"""Number of scenarios per scene (EIBench Table 3)."""

_SLOT = re.compile(r"\{([a-z_]+)\}")
_PRONOUNS = {
    "woman": {"they": "she", "them": "her", "their": "her", "themself": "herself"},
    "man": {"they": "he", "them": "him", "their": "his", "themself": "himself"},
}


class RoleTexts(Part):
    """Roles of both sides under one relationship."""

    user: str = Field(min_length=5)
    model: str = Field(min_length=5)


class Openings(Part):
    """Opening lines of the user, by intensity."""

    low: str = Field(min_length=15, max_length=300)
    mid: str = Field(min_length=15, max_length=300)
    high: str = Field(min_length=15, max_length=300)


class Core(Part):
    """One hand-written situation. Texts may contain slots: those of `slots`, `name`, `other` (the model's name), `place`, and the
    user's pronouns `they`, `them`, `their`, `themself`."""

    id: str
    scene: Scene
    theme: str
    keyword: str
    title: str = Field(min_length=5, max_length=60)
    tags: tuple[Tag, ...] = Field(min_length=1)
    ages: tuple[int, int]
    slots: Mapping[str, tuple[str, ...]]
    """Three or four details per slot; all are compatible with each other."""
    roles: Mapping[str, RoleTexts]
    background: str = Field(min_length=150)
    rules: tuple[str, ...] = Field(min_length=2, max_length=3)
    goal: str = Field(min_length=20)
    model_background: str = Field(min_length=60)
    knows: tuple[str, ...] = Field(min_length=2, max_length=5)
    limits: tuple[str, ...] = Field(min_length=1, max_length=4)
    model_goal: str = Field(min_length=20)
    openings: Openings | None = None
    concerns: tuple[EIBenchConcern, ...] = Field(min_length=4, max_length=6)
    demand: Matter | None = None
    wrongs: tuple[Matter, ...] = ()
    ways: tuple[Matter, ...] = ()
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    beats: tuple[EIBenchBeat, ...] = Field(min_length=7, max_length=9)
    lines: Mapping[str, tuple[str, ...]]
    """Two lines each of `settled`, `broken_off` and the scene's two groups; the personality provides the others."""

    @model_validator(mode="after")
    def _fits_the_pools(self) -> Core:
        fitting = pools().scenes[self.scene].get(self.theme, {}).get(self.keyword)
        if fitting is None:
            raise ValueError(f"{self.theme!r} / {self.keyword!r} is not in the pool of scene {self.scene!r}")
        if set(self.roles) != set(fitting):
            raise ValueError(f"roles are {sorted(self.roles)}; expected one for each of {sorted(fitting)}")
        if (self.openings is None) != (self.scene == "charm"):
            raise ValueError("openings belong to every scene but charm")
        expected = {"settled", "broken_off", *LINES[self.scene]}
        if set(self.lines) != expected or any(len(lines) != 2 for lines in self.lines.values()):
            raise ValueError(f"lines are {sorted(self.lines)}; expected two each of {sorted(expected)}")
        slots = {*self.slots, "name", "other", "place", "they", "them", "their", "themself"}
        used = set(_SLOT.findall(json.dumps(self.model_dump(mode="json", exclude={"slots"})).replace("{They}", "{they}")))
        if unknown := used - slots:
            raise ValueError(f"slots without a value: {', '.join(sorted(unknown))}")
        if unused := set(self.slots) - used:
            raise ValueError(f"slots that no text uses: {', '.join(sorted(unused))}")
        return self


class Combination(NamedTuple):
    """What a scenario is made from; the keyword determines the theme."""

    keyword: str
    relationship: str
    intensity: str
    personality: str

    @classmethod
    def of(cls, seed: Seed) -> Self:
        return cls(seed.keyword, seed.relationship, seed.intensity, seed.personality)

    def seed(self, theme: str) -> Seed:
        return Seed(theme=theme, **self._asdict())


def combinations(keyword: str, relationships: Sequence[str], used: set[Combination]) -> list[Combination]:
    """All combinations of a keyword with these relationships that are not in `used`, in a fixed order."""
    choices = product(sorted(relationships), pools().intensities, pools().personalities)
    return [one for choice in choices if (one := Combination(keyword, *choice)) not in used]


@functools.cache
def _table(name: str) -> Mapping[str, Any]:
    return tomllib.loads((resources.files(__package__) / name).read_text(encoding="utf-8"))


def load_cores(path: Path | None = None) -> list[Core]:
    """The shipped situation cores, or those of a file.

    Raises:
        InputError: the first invalid record, with file, line and field.
    """
    if path is not None:
        return read_records(path, path.read_text(encoding="utf-8"), Core, correction="correct or remove that line")
    with resources.as_file(resources.files(__package__) / "scenarios" / "cores.jsonl") as shipped:
        return read_records(shipped, shipped.read_text(encoding="utf-8"), Core, correction="correct or remove that line")


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """Fills the slots of a text. A value is capitalised in a slot with a capital (`{They}`) and at the start of a sentence.

    Raises:
        InputError: a slot has no value.

    >>> fill_slots("{they} left. {They} came back with {item}.", {"they": "she", "item": "a pram"})
    'She left. She came back with a pram.'
    """
    if "{" not in text:
        return text

    def value(slot: re.Match[str]) -> str:
        name = slot[1]
        if name.lower() not in values:
            raise InputError(f"slot {{{name}}} has no value in {text[:80]!r}; expected one of {', '.join(sorted(values))}")
        word = values[name.lower()]
        before = text[: slot.start()].rstrip()
        starts = not before or before[-1] in ".!?…" or before.endswith(('."', '!"', '?"'))
        return word[:1].upper() + word[1:] if starts or name[0].isupper() else word

    return re.sub(r"\{([A-Za-z_]+)\}", value, text)


def compose(core: Core, seed: Seed, number: int) -> EIBenchScenario:
    """One scenario of a core. The seed combination determines user, details, manner and anchors; `number` is part of the id."""
    rng = random.Random(f"{core.id}|{seed.relationship}|{seed.intensity}|{seed.personality}")
    place = rng.choice(places())
    names = {"woman": place.women, "man": place.men}
    gender = rng.choice(("woman", "man"))
    name = rng.choice(names[gender])
    other = rng.choice([n for n in (*names["woman"], *names["man"]) if n != name])
    values = {
        **{slot: choices[rng.randrange(len(choices))] for slot, choices in core.slots.items()},
        **_PRONOUNS[gender],
        "name": name,
        "other": other,
        "place": place.name.split(",")[0],
    }

    def fill(text: str) -> str:
        return fill_slots(text, values)

    def fill_all(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(fill(text) for text in texts)

    def matter(one: Any) -> dict[str, Any]:
        return {**one.model_dump(), "text": fill(one.text), "cues": tuple(fill(cue).lower() for cue in one.cues)}

    manner = _table("manners.toml")[seed.personality]
    role = core.roles[seed.relationship]
    opening = None
    if core.openings is not None:
        share = pools().intensities[seed.intensity]
        opening = fill(core.openings.low if share < 0.35 else core.openings.mid if share < 0.65 else core.openings.high)
    generic = {
        group: tuple(rng.sample(manner[group], count))
        for group, count in (("acks", 3), ("missed", 3), ("cold", 3), ("repeat", 2), ("silence", 2))
    }
    return EIBenchScenario(
        id=core.id + f"-{number:02d}",
        scene=core.scene,
        title=fill(core.title),
        tags=core.tags,
        seed=seed,
        place=place.name,
        user=UserProfile(
            name=name,
            age=rng.randint(*core.ages),
            gender=gender,
            role=fill(role.user),
            background=fill(core.background),
            speaking_style=rng.choice(manner["styles"]),
            rules=(*fill_all(core.rules), rng.choice(manner["rules"])),
            goal=fill(core.goal),
        ),
        model=ModelProfile(
            name=other,
            role=fill(role.model),
            background=fill(core.model_background),
            knows=fill_all(core.knows),
            limits=fill_all(core.limits),
            goal=fill(core.model_goal),
        ),
        opening=opening,
        anchors=_anchors(core.scene, seed.intensity, rng),
        concerns=tuple(EIBenchConcern.model_validate(matter(c)) for c in core.concerns),
        demand=None if core.demand is None else Matter.model_validate(matter(core.demand)),
        wrongs=tuple(Matter.model_validate(matter(m)) for m in core.wrongs),
        ways=tuple(Matter.model_validate(matter(m)) for m in core.ways),
        sores=tuple(Matter.model_validate(matter(m)) for m in core.sores),
        beats=tuple(EIBenchBeat(kind=b.kind, concern=b.concern, text=fill(b.text)) for b in core.beats),
        lines=EIBenchLines(**generic, **{group: fill_all(lines) for group, lines in core.lines.items()}),
    )


def train_set(
    excluded: Sequence[Seed], *, cores: Sequence[Core] | None = None, sizes: Mapping[Scene, int] = SIZES
) -> list[EIBenchScenario]:
    """The training set, scene by scene, without the combinations of `excluded` (the test set's seeds).

    Raises:
        InputError: a scene's cores have too few free combinations for its size.
    """
    cores = load_cores() if cores is None else cores
    used = set(map(Combination.of, excluded))
    scenarios: list[EIBenchScenario] = []
    for scene in SCENES:
        own = [core for core in cores if core.scene == scene]
        free = {core.id: _combinations(core, used) for core in own}
        if sum(map(len, free.values())) < sizes[scene]:
            raise InputError(
                f"{len(own)} cores of {scene} leave {sum(map(len, free.values()))} free combinations; expected {sizes[scene]}"
            )
        count, round_ = 0, 0
        while count < sizes[scene]:
            for core in own:
                if count < sizes[scene] and round_ < len(free[core.id]):
                    scenarios.append(compose(core, free[core.id][round_].seed(core.theme), round_ + 1))
                    count += 1
            round_ += 1
    return scenarios


def _combinations(core: Core, used: set[Combination]) -> list[Combination]:
    """All unused combinations of a core, shuffled by its id."""
    free = combinations(core.keyword, tuple(core.roles), used)
    random.Random(core.id).shuffle(free)
    return free


def _anchors(scene: Scene, intensity: str, rng: random.Random) -> ScenarioAnchors:
    table = _table("pools.toml")["anchors"][scene]
    low, high = table["a_start"]
    a = STEP * round((low + pools().intensities[intensity] * (high - low)) / STEP)
    t = rng.choice(table["t_start"])
    return ScenarioAnchors(
        a=AxisAnchors(
            start=a, success=min(rng.choice(table["a_success"]), a - GAP), fail=max(rng.choice(table["a_fail"]), a + GAP)
        ),
        t=AxisAnchors(
            start=t, success=max(rng.choice(table["t_success"]), t + GAP), fail=min(rng.choice(table["t_fail"]), t - GAP)
        ),
    )
