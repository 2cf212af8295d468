"""The scale of EIBench's score: the outcome times 100, in [-100, 100]."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.environments.eibench.environment import anchors_of, relation_weight_of
from heartloop.environments.eibench.scenario import SCENES
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, outcome, weighted_mean
from heartloop.environments.spec import Scale, Sums, Zone

__all__ = ["SCALE"]


def _outcomes(transcript: Transcript) -> list[float]:
    anchors = anchors_of(transcript)
    if anchors is None:
        return []
    weight = relation_weight_of(transcript)
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [100.0 * outcome(s["a"], s["t"], *anchors, relation_weight=weight) for s in states if {"a", "t"} <= s.keys()]


def _by_scene(dialogues: Sequence[tuple[str, float]]) -> dict[str, list[float]]:
    scenes: dict[str, list[float]] = {}
    for scene, points in dialogues:
        scenes.setdefault(scene, []).append(points)
    return scenes


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The scenario-weighted mean over the scenes."""
    mean = weighted_mean(_by_scene(dialogues))
    success, failure = sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues)
    return Sums(float("nan") if mean is None else mean, success, failure)


SCALE = Scale(
    points=100.0,
    low=-100.0,
    high=100.0,
    start=0.0,
    success_at=100.0,
    failure_below=0.0,
    sums=_sums,
    group="scene",
    group_title="scene",
    group_order=tuple(SCENES),
    group_intervals=True,
    course=_outcomes,
    rules=lambda transcript: transcript.facts.get("relation_weight"),
    title="outcome",
    states={"a": "negative emotion", "t": "relation"},
    of="Outcome, -100 to 100, mean over all scenarios; 0: final state equals start state",
    fell="ended below {0:g}",
    zones=(Zone("", "a", 50, 100), Zone("", "b", 0, 50), Zone("", "c", -50, 0), Zone("", "f", -100, -50)),
    ticks=(-100, -50, 0, 50, 100),
    change_limit=CHANGE_LIMIT,
)
