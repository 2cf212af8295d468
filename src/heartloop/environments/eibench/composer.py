"""The training set of EIBench: 2,009 scenarios put together from hand-written situation cores.

Every keyword of the seed pools has a core: a situation with slots for details, a role for each relationship that fits, an
opening for three strengths of feeling, concerns, beats and lines. The composer joins it with a place and names (`places`), a
manner of speaking and its lines (`manners.toml`, by personality) and anchors (`pools.toml`, by intensity). No combination of
keyword, relationship, intensity and personality of the test set is used. Deterministic: the same files give the same set, word
by word.

Does not cover near-duplicates of test scenarios (`heartloop.authoring` and the tests check them), nor writing with a model.
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
    Beat,
    Concern,
    Lines,
    ModelProfile,
    Scenario,
    ScenarioAnchors,
    Scene,
    Seed,
    UserProfile,
    pools,
)
from heartloop.environments.eibench.scoring import GAP, STEP
from heartloop.environments.places import places
from heartloop.environments.records import Matter, Part, Tag, read_records

__all__ = [
    "SIZES",
    "Combination",
    "Core",
    "Openings",
    "Role",
    "combinations",
    "compose",
    "fill_slots",
    "load_cores",
    "train_set",
]

SIZES: Mapping[Scene, int] = {"charm": 504, "defense": 496, "repair": 503, "support": 506}
"""Scenarios a scene in the training set (EIBench Table 3)."""

_SLOT = re.compile(r"\{([a-z_]+)\}")
_PRONOUNS = {
    "woman": {"they": "she", "them": "her", "their": "her", "themself": "herself"},
    "man": {"they": "he", "them": "him", "their": "his", "themself": "himself"},
}


class Role(Part):
    """Who the two are to each other under one relationship."""

    user: str = Field(min_length=5)
    model: str = Field(min_length=5)


class Openings(Part):
    """First words of the person, by strength of feeling."""

    low: str = Field(min_length=15, max_length=300)
    mid: str = Field(min_length=15, max_length=300)
    high: str = Field(min_length=15, max_length=300)


class Core(Part):
    """One hand-written situation. Texts may hold slots: its own, `name`, `other` (the model's name), `place`, and the person's
    pronouns `they`, `them`, `their`, `themself` (with a capital after a full stop)."""

    id: str
    scene: Scene
    theme: str
    keyword: str
    title: str = Field(min_length=5, max_length=60)
    tags: tuple[Tag, ...] = Field(min_length=1)
    ages: tuple[int, int]
    slots: Mapping[str, tuple[str, ...]]
    """Details by name, three or four to choose from; any choice fits any other."""
    roles: Mapping[str, Role]
    background: str = Field(min_length=150)
    rules: tuple[str, ...] = Field(min_length=2, max_length=3)
    goal: str = Field(min_length=20)
    model_background: str = Field(min_length=60)
    knows: tuple[str, ...] = Field(min_length=2, max_length=5)
    limits: tuple[str, ...] = Field(min_length=1, max_length=4)
    model_goal: str = Field(min_length=20)
    openings: Openings | None = None
    concerns: tuple[Concern, ...] = Field(min_length=4, max_length=6)
    demand: Matter | None = None
    wrongs: tuple[Matter, ...] = ()
    ways: tuple[Matter, ...] = ()
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    beats: tuple[Beat, ...] = Field(min_length=7, max_length=9)
    lines: Mapping[str, tuple[str, ...]]
    """`settled`, `broken_off` and the scene's own two groups, two lines each; the rest come from the personality."""

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
        known = {*self.slots, "name", "other", "place", "they", "them", "their", "themself"}
        used = set(_SLOT.findall(json.dumps(self.model_dump(mode="json", exclude={"slots"})).replace("{They}", "{they}")))
        if unknown := used - known:
            raise ValueError(f"slots without a value: {', '.join(sorted(unknown))}")
        if unused := set(self.slots) - used:
            raise ValueError(f"slots that no text uses: {', '.join(sorted(unused))}")
        return self


class Combination(NamedTuple):
    """What a scenario was made from; the keyword stands for its theme, too."""

    keyword: str
    relationship: str
    intensity: str
    personality: str

    @classmethod
    def of(cls, seed: Seed) -> Self:
        """That of a seed."""
        return cls(seed.keyword, seed.relationship, seed.intensity, seed.personality)

    def seed(self, theme: str) -> Seed:
        """The seed with this combination."""
        return Seed(theme=theme, **self._asdict())


def combinations(keyword: str, relationships: Sequence[str], taken: set[Combination]) -> list[Combination]:
    """Every combination of a keyword with these relationships that is not `taken`, in a fixed order."""
    known = pools()
    choices = product(sorted(relationships), known.intensities, known.personalities)
    return [found for choice in choices if (found := Combination(keyword, *choice)) not in taken]


@functools.cache
def _table(name: str) -> Mapping[str, Any]:
    return tomllib.loads((resources.files(__package__) / name).read_text(encoding="utf-8"))


def load_cores(path: Path | None = None) -> list[Core]:
    """The hand-written situation cores, or those of a file.

    Raises:
        InputError: with file, line and field, for the first record that does not fit.
    """
    if path is not None:
        return read_records(path, path.read_text(encoding="utf-8"), Core, correction="correct or remove that line")
    with resources.as_file(resources.files(__package__) / "scenarios" / "cores.jsonl") as shipped:
        return read_records(shipped, shipped.read_text(encoding="utf-8"), Core, correction="correct or remove that line")


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """A text with its slots filled; a slot written `{They}` or at the start of a sentence gets a capital.

    Raises:
        InputError: a slot has no value.

    >>> fill_slots("{they} left. {They} came back with {item}.", {"they": "she", "item": "a pram"})
    'She left. She came back with a pram.'
    """
    if "{" not in text:  # as most texts
        return text

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name.lower() not in values:
            raise InputError(f"slot {{{name}}} has no value in {text[:80]!r}; expected one of {', '.join(sorted(values))}")
        word = values[name.lower()]
        before = text[: found.start()].rstrip()
        starts = not before or before[-1] in ".!?…" or before.endswith(('."', '!"', '?"'))
        return word[:1].upper() + word[1:] if starts or name[0].isupper() else word

    return re.sub(r"\{([A-Za-z_]+)\}", value, text)


def compose(core: Core, seed: Seed, number: int) -> Scenario:
    """One scenario of a core: person, details, manner and anchors follow from the seed combination and the number."""
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

    def told(text: str) -> str:
        return fill_slots(text, values)

    def all_told(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(told(text) for text in texts)

    def matter(one: Any) -> dict[str, Any]:
        return {**one.model_dump(), "text": told(one.text), "cues": tuple(told(cue).lower() for cue in one.cues)}

    manner = _table("manners.toml")[seed.personality]
    role = core.roles[seed.relationship]
    opening = None
    if core.openings is not None:
        share = pools().intensities[seed.intensity]
        opening = told(core.openings.low if share < 0.35 else core.openings.mid if share < 0.65 else core.openings.high)
    generic = {
        group: tuple(rng.sample(manner[group], count))
        for group, count in (("acks", 3), ("missed", 3), ("cold", 3), ("repeat", 2), ("silence", 2))
    }
    return Scenario(
        id=core.id + f"-{number:02d}",
        scene=core.scene,
        title=told(core.title),
        tags=core.tags,
        seed=seed,
        place=place.name,
        user=UserProfile(
            name=name,
            age=rng.randint(*core.ages),
            gender=gender,
            role=told(role.user),
            background=told(core.background),
            speaking_style=rng.choice(manner["styles"]),
            rules=(*all_told(core.rules), rng.choice(manner["rules"])),
            goal=told(core.goal),
        ),
        model=ModelProfile(
            name=other,
            role=told(role.model),
            background=told(core.model_background),
            knows=all_told(core.knows),
            limits=all_told(core.limits),
            goal=told(core.model_goal),
        ),
        opening=opening,
        anchors=_anchors(core.scene, seed.intensity, rng),
        concerns=tuple(Concern.model_validate(matter(c)) for c in core.concerns),
        demand=None if core.demand is None else Matter.model_validate(matter(core.demand)),
        wrongs=tuple(Matter.model_validate(matter(m)) for m in core.wrongs),
        ways=tuple(Matter.model_validate(matter(m)) for m in core.ways),
        sores=tuple(Matter.model_validate(matter(m)) for m in core.sores),
        beats=tuple(Beat(kind=b.kind, concern=b.concern, text=told(b.text)) for b in core.beats),
        lines=Lines(**generic, **{group: all_told(lines) for group, lines in core.lines.items()}),
    )


def train_set(
    taken: Sequence[Seed], *, cores: Sequence[Core] | None = None, sizes: Mapping[Scene, int] = SIZES
) -> list[Scenario]:
    """The training set, scene by scene, without any combination in `taken` (those of the test set).

    Raises:
        InputError: a scene's cores have too few free combinations for its size.
    """
    cores = load_cores() if cores is None else cores
    used = set(map(Combination.of, taken))
    found: list[Scenario] = []
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
                    found.append(compose(core, free[core.id][round_].seed(core.theme), round_ + 1))
                    count += 1
            round_ += 1
    return found


def _combinations(core: Core, used: set[Combination]) -> list[Combination]:
    """Every free combination of a core, in an order that depends on its id alone."""
    found = combinations(core.keyword, tuple(core.roles), used)
    random.Random(core.id).shuffle(found)
    return found


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
