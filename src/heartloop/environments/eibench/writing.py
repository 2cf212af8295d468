"""Writing new EIBench scenarios with a model, in three stages: two profiles, three anchor states, the user's lines.

Seeds are those of EIBench Table 9, without the combinations of the test set. Ours: a place and given names are drawn too, and
anchors that break a rule are asked for again; the variant `released` repairs them as the authors' code (section 3.2.2).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import zip_longest
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.eibench.composer import Combination, combinations
from heartloop.environments.eibench.scenario import (
    LINES,
    SCENES,
    EIBenchBeat,
    EIBenchConcern,
    EIBenchLines,
    EIBenchScenario,
    ModelProfile,
    Scene,
    Seed,
    UserProfile,
    pools,
    problems_of,
)
from heartloop.environments.eibench.scoring import GAP, MARGIN, Anchors, anchor_problem, repaired
from heartloop.environments.writing import (
    Answer,
    Seeded,
    Stage,
    Writing,
    as_json,
    at_age,
    check_only,
    check_size,
    problems_of_person,
    run_number,
    someone_else,
)
from heartloop.environments.written import Matter, Sentences, Tags, problems_in_tags


class _Profile(Answer):
    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    user: UserProfile
    model: ModelProfile
    opening: str | None = Field(default=None, min_length=15, max_length=300)


_Place = Annotated[int, Sent(minimum=0, maximum=100)]  # `anchor_problem` says what is wrong with another


class _State(Answer):
    shows: Sentences = Field(min_length=15)
    a: _Place
    t: _Place


class _Anchors(Answer):
    start: _State
    success: _State
    fail: _State

    def of(self, axis: str) -> Anchors:
        return Anchors(*(getattr(getattr(self, name), axis) for name in Anchors._fields))


class _Voice(Answer):
    concerns: tuple[EIBenchConcern, ...] = Field(min_length=4, max_length=6)
    demand: Matter | None = None
    wrongs: Annotated[tuple[Matter, ...], Sent(maxItems=2)] = ()
    ways: Annotated[tuple[Matter, ...], Sent(maxItems=3)] = ()
    sores: tuple[Matter, ...] = Field(min_length=1, max_length=3)
    beats: tuple[EIBenchBeat, ...] = Field(min_length=7, max_length=9)
    lines: EIBenchLines


_SCENES = packaged_table(__package__, "scenes.toml")


class EIBenchWriting(Writing):
    """New EIBench scenarios, stratified by scene, without the seed combinations of `shipped` (default: the test set)."""

    name = "eibench"
    scenario = EIBenchScenario
    stages = (
        Stage("profile", load_prompt(__package__, "eibench_profile"), _Profile),
        Stage("anchors", load_prompt(__package__, "eibench_anchors"), _Anchors),
        Stage("voice", load_prompt(__package__, "eibench_voice"), _Voice),
    )
    audit = load_prompt(__package__, "audit_eibench")
    fixed = ("id", "scene", "seed", "place", "name", "age", "gender", "key", "kind", "concern", "depth")
    sets = ("test",)
    gap: ClassVar[int] = GAP

    def reachable(self, scene: str) -> Mapping[str, Sequence[int]]:
        """Ranges of the success anchors of a scene, by axis; empty if none bind."""
        return {}

    def anchors(self, answer: _Anchors) -> tuple[Anchors, Anchors]:
        """Those of a and of t that a scenario gets."""
        return answer.of("a"), answer.of("t")

    def problem_of_anchors(self, scene: str, a: Anchors, t: Anchors) -> str:
        if problem := anchor_problem(a, t, self.gap):
            return problem
        outside = [
            f"the success of {axis} is {anchors.success:g}; expected {low} to {high} in {scene}"
            for axis, anchors in (("a", a), ("t", t))
            for low, high in [self.reachable(scene).get(axis, (0, 100))]
            if not low <= anchors.success <= high
        ]
        return "; ".join(outside)

    def _rules(self, scene: str) -> dict[str, str]:
        """The rules of anchors as values of the blanks of a prompt."""
        ranges = " and ".join(f"{axis} from {low} to {high}" for axis, (low, high) in self.reachable(scene).items())
        return {"gap": str(self.gap), "reachable": f" In this scene success has {ranges}." if ranges else ""}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        check_only(only, SCENES, "a scene")
        check_size(n, seed)
        used = frozenset(Combination.of(one.seed) for one in self.shipped)
        mixed = _mixed(seed, tuple(scene for scene in SCENES if not only or scene in only), used)
        if n > len(mixed):
            raise UseError(f"--limit is {n}; there are {len(mixed)} combinations of {' and '.join(only) or 'all scenes'}")
        names: set[str] = set()
        return [_seeded(scene, one.seed(theme), n, seed, names) for n, (scene, theme, one) in enumerate(mixed[:n], start=1)]

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        facts, options = seeded.facts, pools()
        scene, levels = _SCENES[facts["scene"]], list(options.intensity)
        values = {
            **scene,
            **facts,
            "intensity_place": f"{levels.index(facts['intensity']) + 1} of {len(levels)}, from {levels[0]} to {levels[-1]}",
            "young": at_age(facts["gender"], 17),
            "relationship": options.relationship[facts["relationship"]],
            "personality_means": options.personality[facts["personality"]],
            "opening_form": scene["opening_form"].replace("{other}", facts["other"]),
            "own_lines": "".join(f', "{group}": ["..."]' for group in LINES[facts["scene"]]),
            **self._rules(facts["scene"]),
            **{name: as_json(answer) for name, answer in done.items()},
        }
        return {name: values[name] for name in stage.prompt.blanks}

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer, facts = done[stage.name], seeded.facts
        if isinstance(answer, _Profile):
            problems = problems_of_person("user.", answer.user, facts)
            if answer.model.name != facts["other"]:
                problems.append(f"model.name is {answer.model.name!r}, expected {facts['other']!r}")
            if (answer.opening is None) != (facts["scene"] == "charm"):
                problems.append("opening: in charm the model speaks first, so it is null; every other scene needs one")
            if re.search(r"[(*\[]", answer.opening or ""):
                problems.append("opening has brackets or asterisks")
            return problems + problems_in_tags(answer.tags)
        if isinstance(answer, _Anchors):
            problem = self.problem_of_anchors(facts["scene"], *self.anchors(answer))
            return [problem] if problem else []
        return self.problems_of_whole(seeded, done, problems_of)

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        problem = self.problem_of_anchors(scenario["scene"], *(Anchors(**scenario["anchors"][axis]) for axis in "at"))
        return [problem] if problem else []

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        answer = done["anchors"]
        assert isinstance(answer, _Anchors)
        return {
            "id": seeded.id,
            "scene": seeded.facts["scene"],
            "seed": {name: seeded.facts[name] for name in Seed.model_fields},
            "place": seeded.facts["place"],
            **done["profile"].model_dump(mode="json"),
            "anchors": {axis: anchors._asdict() for axis, anchors in zip("at", self.anchors(answer), strict=True)},
            **done["voice"].model_dump(mode="json"),
        }

    def audited_for(self, scenario: Mapping[str, Any], done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        anchors = done["anchors"]
        assert isinstance(anchors, _Anchors)
        states = {name: getattr(anchors, name) for name in _Anchors.model_fields}
        shows = "\n".join(f"  {name} (a {state.a}, t {state.t}): {state.shows}" for name, state in states.items())
        means = {name: _SCENES[scenario["scene"]][name] for name in ("emotion_means", "relation_means")}
        return {**means, **self._rules(scenario["scene"]), "shows": shows, "field": "anchors.a.success", "value": "35"}


class EIBenchReleasedWriting(EIBenchWriting):
    """Anchors by the authors' code: ranges of success by scene, margin 5, and its repair instead of asking again.

    Departure: a success outside its range is asked for again; in their code only the prompt names the ranges.
    """

    gap = MARGIN

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"anchors": "released"}

    def reachable(self, scene: str) -> Mapping[str, Sequence[int]]:
        ranges: Mapping[str, Sequence[int]] = packaged_table(__package__, "pools.toml")["reachable"][scene]
        return ranges

    def anchors(self, answer: _Anchors) -> tuple[Anchors, Anchors]:
        return repaired(answer.of("a"), -1), repaired(answer.of("t"), 1)


@lru_cache(maxsize=16)
def _mixed(seed: int, scenes: tuple[Scene, ...], used: frozenset[Combination]) -> list[tuple[Scene, str, Combination]]:
    rng = random.Random(f"eibench|{seed}")
    by_scene = [_alternating(scene, used, rng) for scene in scenes]
    return [one for row in zip_longest(*by_scene) for one in row if one is not None]


def _alternating(scene: Scene, used: Set[Combination], rng: random.Random) -> list[tuple[Scene, str, Combination]]:
    pool = [(theme, keyword, fit) for theme, keywords in pools().scenes[scene].items() for keyword, fit in keywords.items()]
    rng.shuffle(pool)
    free = [[(scene, theme, one) for one in combinations(keyword, fit, used, rng)] for theme, keyword, fit in pool]
    return [one for row in zip_longest(*free) for one in row if one is not None]


def _seeded(scene: Scene, seed: Seed, number: int, run: int, names: set[str]) -> Seeded:
    """A seed with place, gender and given names, the first one not of `names`."""
    rng = random.Random(f"eibench|{run}|{number}")
    place, gender, name = someone_else(rng, names)
    other = rng.choice([n for n in (*place.women, *place.men) if n != name])
    slug = re.sub(r"[^a-z0-9]+", "-", seed.keyword.lower()).strip("-")
    facts = {"scene": scene, **seed.model_dump(), "place": place.name, "gender": gender, "name": name, "other": other}
    return Seeded(number, f"{scene}-{slug}-{run_number(run, number)}", facts)
