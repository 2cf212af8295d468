"""What a score is in each environment: its scale, what groups it, what counts as success and failure, its course in a dialogue.

Everything that any environment has in common reads a score through here, in points: the final emotion, 0 to 100, in SAGE, the
outcome times 100, -100 to 100, in EIBench, EPM-Q, from 0 without an upper bound, in EMPA, the reward times 100, at most 100, in
PERM, the rubric score, 0 to 100, in EQ-Bench3, and the mean of six metrics times 20, 20 to 100, in daily conversation. Does not
cover sums over dialogues (`scores`) or how they look (`templates/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments import daily, eibench, empa, eqbench, perm
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST
from heartloop.environments.eibench.environment import anchors_of, relation_weight_of
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, outcome, scene_means, weighted_mean
from heartloop.environments.empa.environment import case_of
from heartloop.environments.empa.scoring import AXES, composed, indices_of, trace
from heartloop.environments.perm.scenario import EMOTIONS
from heartloop.environments.sage import MAX_TURNS
from heartloop.environments.sage.intentions import INTENTIONS
from heartloop.environments.sage.scoring import FAILURE_BELOW, START, SUCCESS_AT, summarise

__all__ = [
    "MEASURES", "Grouped", "Measure", "Sums", "Zone", "course_of", "group_means", "group_of", "in_group_order",
    "measure_of", "points_of",
]  # fmt: skip


Grouped = Sequence[tuple[str, float]]
"""Group and points of each scored dialogue."""


class Sums(NamedTuple):
    """Points in sum: the mean (nan without any), the dialogues that succeeded, and those that failed."""

    mean: float
    success: int
    failure: int


class Zone(NamedTuple):
    """A stretch of the scale: its name in a picture, its tint, from `low` to `high` points."""

    name: str
    tint: str
    low: float
    high: float


class Measure(NamedTuple):
    """How one environment's score is read and told."""

    environment: str
    name: str
    """The environment as its paper writes it."""
    points: float
    """Points a unit of `Transcript.score`."""
    low: float
    high: float
    """Lowest and highest points."""
    start: float
    """Points before the first reply, where a dialogue does not say."""
    success_at: float
    failure_below: float
    sums: Callable[[Grouped, float, float], Sums]
    """From the dialogues and the bounds of success and failure."""
    group: str
    """The fact that groups people."""
    group_title: str
    group_order: tuple[str, ...]
    group_intervals: bool
    """Whether each group is a result of its own, with an interval; else it is a hint on few dialogues."""
    course: Callable[[Transcript], list[float]]
    """Points at the start and after every judged reply."""
    rules: Callable[[Transcript], object]
    """What decides a score beyond what every environment says of a dialogue."""
    max_turns: int
    title: str
    """The score in words."""
    of: str
    """The score in words, at the head of a table in the terminal."""
    reached: str
    """A success in words; {0} is its bound."""
    fell: str
    """A failure in words; {0} is its bound."""
    zones: tuple[Zone, ...]
    ticks: tuple[int, ...]
    change_limit: float
    """Largest change of one turn, in units of the state."""
    by_end: bool = False
    """Whether success and failure are how a dialogue ended, and not bounds of its score."""


def _emotions(transcript: Transcript) -> list[float]:
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [state["emotion"] for state in states if "emotion" in state]


def _sage_sums(dialogues: Grouped, success_at: float, failure_below: float) -> Sums:
    found = summarise([points for _, points in dialogues], success_at=success_at, failure_below=failure_below)
    return Sums(found.mean, found.success, found.failure)


def _outcomes(transcript: Transcript) -> list[float]:
    anchors = anchors_of(transcript)
    if anchors is None:
        return []
    weight = relation_weight_of(transcript)
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [100.0 * outcome(s["a"], s["t"], *anchors, relation_weight=weight) for s in states if {"a", "t"} <= s.keys()]


def _by_scene(dialogues: Grouped) -> dict[str, list[float]]:
    scenes: dict[str, list[float]] = {}
    for scene, points in dialogues:
        scenes.setdefault(scene, []).append(points)
    return scenes


def _eibench_sums(dialogues: Grouped, success_at: float, failure_below: float) -> Sums:
    """The scenario-weighted mean over the scenes."""
    mean = weighted_mean(_by_scene(dialogues))
    success, failure = sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues)
    return Sums(float("nan") if mean is None else mean, success, failure)


def _epmqs(transcript: Transcript) -> list[float]:
    """EPM-Q of the dialogue up to every judged reply; 0 before the first."""
    preset = transcript.preset
    try:
        path = trace(case_of(transcript), preset=preset)
        found = (indices_of(path.until(n), preset=preset) for n in range(1, len(path.energy) + 1))
        return [0.0, *(composed(indices).score for indices in found)]
    except InputError:
        return []


def _empa_sums(dialogues: Grouped, success_at: float, failure_below: float) -> Sums:
    """The mean; the ends are not in the points."""
    return Sums(sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan"), 0, 0)


def _rewards(transcript: Transcript) -> list[float]:
    """The reward of the one answer; 0 before it, where nothing was said."""
    return [0.0, *(100.0 * reward for reward in transcript.rewards)]


def _bounded_sums(dialogues: Grouped, success_at: float, failure_below: float) -> Sums:
    """The mean; PERM, daily conversation and EQ-Bench3 know no success, so these are how many reached the bounds."""
    mean = sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan")
    return Sums(mean, sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues))


def _rubric_scores(transcript: Transcript) -> list[float]:
    """The score, once the whole dialogue is judged; 0 before it, where nothing was said."""
    return [0.0, *transcript.rewards]


def _means(transcript: Transcript) -> list[float]:
    """The mean of the one answer's metrics; the lowest before it, where nothing was said."""
    return [_A_LEVEL * LOWEST, *(_A_LEVEL * mean for mean in transcript.rewards)]


_A_LEVEL = 20.0  # points of a level, so that 5 is 100

MEASURES: Mapping[str, Measure] = {
    "sage": Measure(
        environment="sage",
        name="SAGE",
        points=1.0,
        low=0.0,
        high=100.0,
        start=START,
        success_at=SUCCESS_AT,
        failure_below=FAILURE_BELOW,
        sums=_sage_sums,
        group="intention",
        group_title="hidden intention",
        group_order=tuple(INTENTIONS),
        group_intervals=False,
        course=_emotions,
        rules=lambda transcript: tuple(sorted(transcript.start.items())),
        max_turns=MAX_TURNS,
        title="final emotion",
        of="Final emotion, 0 to 100, of the person each model talked with",
        reached="reached {0:g}",
        fell="fell below {0:g}",
        zones=(Zone("A", "a", 70, 100), Zone("B", "b", 40, 70), Zone("C", "c", 10, 40), Zone("F", "f", 0, 10)),
        ticks=(0, 40, 70, 100),
        change_limit=CHANGE_LIMIT,
    ),
    "eibench": Measure(
        environment="eibench",
        name="EIBench",
        points=100.0,
        low=-100.0,
        high=100.0,
        start=0.0,
        success_at=100.0,
        failure_below=0.0,
        sums=_eibench_sums,
        group="scene",
        group_title="scene",
        group_order=tuple(eibench.SCENES),
        group_intervals=True,
        course=_outcomes,
        rules=lambda transcript: transcript.facts.get("relation_weight"),
        max_turns=eibench.MAX_TURNS,
        title="outcome",
        of="Outcome, -100 to 100, mean over all scenarios; 0 is where people began",
        reached="reached {0:g}",
        fell="ended below {0:g}",
        zones=(Zone("", "a", 50, 100), Zone("", "b", 0, 50), Zone("", "c", -50, 0), Zone("", "f", -100, -50)),
        ticks=(-100, -50, 0, 50, 100),
        change_limit=CHANGE_LIMIT,
    ),
    "empa": Measure(
        environment="empa",
        name="EMPA",
        points=1.0,
        low=0.0,
        high=120.0,
        start=0.0,
        success_at=100.0,
        failure_below=0.0,
        sums=_empa_sums,
        group="axis",
        group_title="dominant axis",
        group_order=AXES,
        group_intervals=False,
        course=_epmqs,
        rules=lambda transcript: transcript.facts.get("window"),
        max_turns=empa.MAX_TURNS,
        title="EPM-Q",
        of="EPM-Q, from 0; about 100 where all that was lacking is made good",
        reached="succeeded",
        fell="failed",
        zones=(Zone("", "a", 85, 120), Zone("", "b", 60, 85), Zone("", "c", 30, 60), Zone("", "f", 0, 30)),
        ticks=(0, 30, 60, 85, 120),
        change_limit=5.0,
        by_end=True,
    ),
    "perm": Measure(
        environment="perm",
        name="PERM",
        points=100.0,
        low=-50.0,
        high=100.0,
        start=0.0,
        success_at=60.0,
        failure_below=0.0,
        sums=_bounded_sums,
        group="emotion",
        group_title="emotion",
        group_order=EMOTIONS,
        group_intervals=False,
        course=_rewards,
        rules=lambda transcript: (
            " ".join(transcript.facts.get(name, "") for name in ("bystander_weight", "without")).strip() or None
        ),
        max_turns=perm.MAX_TURNS,
        title="reward",
        of="Reward times 100, at most 100; a broken form is worth -50, or less where the bystander weighs more",
        reached="reached {0:g}",
        fell="fell below {0:g}",
        zones=(Zone("", "a", 60, 100), Zone("", "b", 30, 60), Zone("", "c", 0, 30), Zone("", "f", -50, 0)),
        ticks=(-50, 0, 30, 60, 100),
        change_limit=1.0,
    ),
    "eqbench": Measure(
        environment="eqbench",
        name="EQ-Bench3",
        points=1.0,
        low=0.0,
        high=100.0,
        start=0.0,
        success_at=75.0,
        failure_below=50.0,
        sums=_bounded_sums,
        group="kind",
        group_title="kind of scenario",
        group_order=eqbench.KINDS,
        group_intervals=False,
        course=_rubric_scores,
        rules=lambda transcript: None,
        max_turns=eqbench.MAX_TURNS,
        title="rubric score",
        of="Rubric score, 0 to 100: five times the mean of the marks that count",
        reached="reached {0:g}",
        fell="fell below {0:g}",
        zones=(Zone("", "a", 75, 100), Zone("", "b", 50, 75), Zone("", "c", 25, 50), Zone("", "f", 0, 25)),
        ticks=(0, 25, 50, 75, 100),
        change_limit=100.0,
    ),
    "daily": Measure(
        environment="daily",
        name="Daily",
        points=_A_LEVEL,
        low=_A_LEVEL * LOWEST,
        high=_A_LEVEL * HIGHEST,
        start=_A_LEVEL * LOWEST,
        success_at=80.0,
        failure_below=50.0,
        sums=_bounded_sums,
        group="kind",
        group_title="kind of query",
        group_order=KINDS,
        group_intervals=False,
        course=_means,
        rules=lambda transcript: None,
        max_turns=daily.MAX_TURNS,
        title="level over six metrics",
        of="Mean of six metrics times 20, 20 to 100; 100 is 5 in all of them",
        reached="reached {0:g}",
        fell="fell below {0:g}",
        zones=(Zone("", "a", 80, 100), Zone("", "b", 60, 80), Zone("", "c", 40, 60), Zone("", "f", 20, 40)),
        ticks=(20, 40, 60, 80, 100),
        change_limit=1.0,
    ),
}
"""By the name of the environment."""


def measure_of(environment: str) -> Measure:
    """How an environment's score is read.

    Raises:
        UseError: no such environment is known here.
    """
    if environment not in MEASURES:
        raise UseError(f"no score card for environment {environment!r}; expected {' or '.join(map(repr, MEASURES))}")
    return MEASURES[environment]


def points_of(transcript: Transcript) -> float | None:
    """The score in points; `None` where it is unscored."""
    return None if transcript.score is None else measure_of(transcript.environment).points * transcript.score


def course_of(transcript: Transcript) -> list[float]:
    """Points at the start and after every judged reply; an unjudged reply adds no value."""
    return measure_of(transcript.environment).course(transcript)


def group_of(transcript: Transcript) -> str:
    """The group its person belongs to, by the fact that groups people; empty where it has none."""
    return transcript.facts.get(measure_of(transcript.environment).group, "")


def group_means(dialogues: Iterable[Transcript]) -> dict[str, float]:
    """Mean points of each group that has a scored dialogue."""
    return scene_means(_by_scene([(group_of(d), points) for d in dialogues if (points := points_of(d)) is not None]))


def in_group_order(measure: Measure, keys: Iterable[str]) -> list[str]:
    """Groups in the published order, unknown ones after them by name."""
    known = {key: place for place, key in enumerate(measure.group_order)}
    return sorted(set(keys), key=lambda key: (known.get(key, len(known)), key))
