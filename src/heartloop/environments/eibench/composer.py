"""The sets of EIBench: the shipped test set, and the training set of 2,009 scenarios, composed from hand-written situation cores.

Every keyword of the seed pools has a core. The composer adds a place and names, a manner of speaking (`manners.toml`, by
personality) and anchors (`pools.toml`, by intensity), and uses no seed combination of the test set. It is deterministic.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib import resources
from itertools import product, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Self

from heartloop.core.errors import InputError
from heartloop.core.system import packaged_table
from heartloop.environments.eibench.scenario import (
    FORM,
    SETS,
    AnyEIBenchScenario,
    EIBenchBeat,
    EIBenchConcern,
    EIBenchReleasedScenario,
    EIBenchScenario,
    Scene,
    Seed,
    line_of,
    lines_of,
    load_any,
    load_scenarios,
    pools,
    problems_of,
    text_of,
)
from heartloop.environments.eibench.scoring import GAP, STEP, Anchors
from heartloop.environments.records import by_tags, load_own_or_imported
from heartloop.environments.report import published
from heartloop.environments.spec import Scenarios
from heartloop.environments.writing import places
from heartloop.environments.written import Matter, Part, Tag, beats_of

SIZES: Mapping[Scene, int] = {"charm": 504, "defense": 496, "repair": 503, "support": 506}
"""Number of scenarios per scene (EIBench Table 3)."""

_PRONOUNS = {
    "woman": {"they": "she", "them": "her", "their": "her", "themself": "herself"},
    "man": {"they": "he", "them": "him", "their": "his", "themself": "himself"},
}


class Core(Part):
    """One hand-written situation; the rules of `EIBenchScenario` apply to what is composed from it.

    Texts may contain slots: those of `slots`, `name`, `other` (the model's name), `place`, and the user's pronouns `they`,
    `them`, `their`, `themself`.
    """

    id: str
    scene: Scene
    theme: str
    keyword: str
    title: str
    tags: tuple[Tag, ...]
    ages: tuple[int, int]
    slots: Mapping[str, tuple[str, ...]]
    roles: Mapping[str, Mapping[str, str]]
    background: str
    rules: tuple[str, ...]
    goal: str
    model_background: str
    knows: tuple[str, ...]
    limits: tuple[str, ...]
    model_goal: str
    openings: Mapping[str, str] | None = None
    """Opening lines by intensity: `low`, `mid`, `high`; none in Charm."""
    concerns: tuple[EIBenchConcern, ...]
    demand: Matter | None = None
    wrongs: tuple[Matter, ...] = ()
    ways: tuple[Matter, ...] = ()
    sores: tuple[Matter, ...]
    beats: tuple[EIBenchBeat, ...]
    lines: Mapping[str, tuple[str, ...]]
    """Two lines each of `settled`, `broken_off` and the scene's two groups; the personality provides the others."""


class Combination(NamedTuple):
    keyword: str
    relationship: str
    intensity: str
    personality: str

    @classmethod
    def of(cls, seed: Seed) -> Self:
        return cls(seed.keyword, seed.relationship, seed.intensity, seed.personality)

    def seed(self, theme: str) -> Seed:
        return Seed(theme=theme, **self._asdict())


def combinations(keyword: str, relationships: Iterable[str], used: Set[Combination], rng: random.Random) -> list[Combination]:
    """The combinations of a keyword with these relationships that are not in `used`, shuffled."""
    choices = product(sorted(relationships), pools().intensity, pools().personality)
    unused = [one for choice in choices if (one := Combination(keyword, *choice)) not in used]
    rng.shuffle(unused)
    return unused


def load_cores() -> list[Core]:
    text = (resources.files(__package__) / "scenarios" / "cores.jsonl").read_text(encoding="utf-8")
    return [Core.model_validate_json(line) for line in text.splitlines()]


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """Fills the slots of a text. A value is capitalised in a slot with a capital (`{They}`) and at the start of a sentence.

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


def _filled(part: Any, values: Mapping[str, str], *, cues: bool = False) -> Any:
    if isinstance(part, str):
        return fill_slots(part, values).lower() if cues else fill_slots(part, values)
    if isinstance(part, Mapping):
        return {name: _filled(value, values, cues=name == "cues") for name, value in part.items()}
    return [_filled(one, values, cues=cues) for one in part] if isinstance(part, (list, tuple)) else part


def compose(core: Core, seed: Seed, number: int) -> EIBenchScenario:
    """One scenario of a core. The seed combination determines user, details, manner and anchors; `number` is part of the id."""
    rng = random.Random(f"{core.id}|{seed.relationship}|{seed.intensity}|{seed.personality}")
    place = rng.choice(places())
    gender, name = place.someone(rng)
    other = rng.choice([n for n in (*place.women, *place.men) if n != name])
    values = {
        **{slot: choices[rng.randrange(len(choices))] for slot, choices in core.slots.items()},
        **_PRONOUNS[gender],
        "name": name,
        "other": other,
        "place": place.name.split(",")[0],
    }
    texts = _filled(core.model_dump(exclude={"slots"}), values)
    manner = packaged_table(__package__, "manners.toml")[seed.personality]
    role, openings = texts["roles"][seed.relationship], texts["openings"]
    share = pools().intensity[seed.intensity]
    sizes = {"acks": 3, "missed": 3, "cold": 3, "repeat": 2, "silence": 2}
    generic = {group: tuple(rng.sample(manner[group], count)) for group, count in sizes.items()}
    user = {
        "name": name,
        "age": rng.randint(*core.ages),
        "gender": gender,
        "role": role["user"],
        "background": texts["background"],
        "speaking_style": rng.choice(manner["styles"]),
        "rules": (*texts["rules"], rng.choice(manner["rules"])),
        "goal": texts["goal"],
    }
    model = {
        "name": other,
        "role": role["model"],
        "background": texts["model_background"],
        "knows": texts["knows"],
        "limits": texts["limits"],
        "goal": texts["model_goal"],
    }
    same = ("scene", "title", "tags", "concerns", "demand", "wrongs", "ways", "sores", "beats")
    return EIBenchScenario.model_validate(
        {
            **{field: texts[field] for field in same},
            "id": f"{core.id}-{number:02d}",
            "seed": seed,
            "place": place.name,
            "user": user,
            "model": model,
            "opening": openings and openings["low" if share < 0.35 else "mid" if share < 0.65 else "high"],
            "anchors": _anchors(core.scene, seed.intensity, rng),
            "lines": {**generic, **texts["lines"]},
        }
    )


@functools.cache
def training() -> tuple[EIBenchScenario, ...]:
    """The training set, scene by scene, composed once per process, without the seed combinations of the test set."""
    used = {Combination.of(scenario.seed) for scenario in load_scenarios("test")}
    cores = load_cores()
    scenarios: list[EIBenchScenario] = []
    for scene, size in SIZES.items():
        free: list[list[tuple[Core, int, Combination]]] = []
        for core in (core for core in cores if core.scene == scene):
            unused = combinations(core.keyword, core.roles, used, random.Random(core.id))
            free.append([(core, number, one) for number, one in enumerate(unused, start=1)])
        rows = [one for row in zip_longest(*free) for one in row if one is not None]
        scenarios += [compose(core, one.seed(core.theme), number) for core, number, one in rows[:size]]
    return tuple(scenarios)


def _anchors(scene: Scene, intensity: str, rng: random.Random) -> dict[str, dict[str, int]]:
    bounds = packaged_table(__package__, "pools.toml")["anchors"][scene]
    low, high = bounds["a_start"]
    a = STEP * round((low + pools().intensity[intensity] * (high - low)) / STEP)
    t = rng.choice(bounds["t_start"])
    success, fail = min(rng.choice(bounds["a_success"]), a - GAP), max(rng.choice(bounds["a_fail"]), a + GAP)
    better, worse = max(rng.choice(bounds["t_success"]), t + GAP), min(rng.choice(bounds["t_fail"]), t - GAP)
    return {"a": {"start": a, "success": success, "fail": fail}, "t": {"start": t, "success": better, "fail": worse}}


def load_set(name: str = "test", *, exclude_tags: Sequence[str] = ()) -> list[AnyEIBenchScenario]:
    if name == "train":
        return by_tags(training(), name, exclude_tags=exclude_tags)
    form, command = EIBenchReleasedScenario, "eibench-scenarios"
    return load_own_or_imported(load_any, name, form, command=command, released="aggressor_profile", exclude_tags=exclude_tags)


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    own = "anchors" in record or "aggressor_profile" in record or ("scene" in record and "player" not in record)
    return own or record.get("form") == FORM


def _spread(scenario: AnyEIBenchScenario) -> dict[str, float | str]:
    anchors: dict[str, float | str] = {
        f"{state} {axis}": float(getattr(of, state))
        for state in Anchors._fields
        for axis, of in zip("at", scenario.axes, strict=True)
    }
    return anchors if isinstance(scenario, EIBenchReleasedScenario) else anchors | scenario.seed.model_dump(exclude={"keyword"})


def _table_3() -> dict[str, dict[str, str]]:
    """By scene; n is of the training and the test set, anchors are of the training set."""
    return {
        str(row["scene"]).lower(): {
            "n": f"{row['train_count']}/{row['test_count']}",
            **{f"{s} {x}": f"{row[f'{s}_{x}_mean']} ± {row[f'{s}_{x}_std']}" for s in Anchors._fields for x in "at"},
        }
        for row in published(__package__, "eibench_table03_anchor_statistics")
    }


SCENARIOS = Scenarios(
    sets=SETS,
    template=__package__,
    load=load_set,
    owns=_owns,
    line=line_of,
    text=text_of,
    need=lambda s: text_of(s) if isinstance(s, EIBenchReleasedScenario) else s.user.goal,
    problems=problems_of,
    written=lambda s: not isinstance(s, EIBenchReleasedScenario),
    identity=lambda s: (s.user.name, s.user.role),
    lines=lines_of,
    story=lambda s: " ".join([s.opening or "", s.user.background, *(beat.text for beat in beats_of(s))]),
    spread=_spread,
    printed=_table_3,
    questions={
        "anchors": "Do the numbers fit: the start as the person feels at first, success within reach, failure clearly worse?"
    },
)
