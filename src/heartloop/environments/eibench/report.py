"""The report panel of EIBench: a plane of both axes for all dialogues and for one, and published results.

In the plane of all dialogues, coordinates are axis scores (EIBench Eq. 1), with the start in the middle: the relation is
horizontal, the negative emotion vertical and inverted. The plane of one dialogue has the units of the state.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from heartloop.core.blocks import PanelInput, PanelOutput, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.core.text import short_number
from heartloop.environments.eibench.environment import anchors_of, relation_weight_of, states_of
from heartloop.environments.eibench.scoring import axis_score
from heartloop.environments.report import panel_of, published, results_of
from heartloop.environments.spec import ExternalRanking


def build(page: PanelInput) -> PanelOutput:
    planes = [(n, row, plane) for n, row in enumerate(page.models) if (plane := plane_of(page.behind(row))) is not None]
    return PanelOutput(sections=(("planes", "Axes"),) if planes else (), context={"planes": planes})


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    titles = {
        "played": "The model plays",
        "task": "Its task",
        "limits": "Its limits",
        "goal": "Goal of the user, which the model does not see",
    }
    rows = tuple((words, facts[name]) for name, words in titles.items() if facts.get(name))
    return ScenarioView(facts=rows, model_plays=facts.get("played", "").split(",")[0])


def _plane(transcript: Transcript) -> dict[str, Any]:
    anchors, states = anchors_of(transcript), states_of(transcript)
    if anchors is None or not {"a", "t"} <= transcript.start.keys():
        return {}
    return {
        "anchors": {axis: [short_number(value) for value in values] for axis, values in zip("at", anchors, strict=True)},
        "path": [[short_number(a), short_number(t)] for a, t in states],
        "axes": [[short_number(a), short_number(t)] for a, t in axis_course(transcript)],
        "weight": relation_weight_of(transcript),
    }


_SIDE, _MARGIN = 180.0, 24.0
_MOST_PATHS = 150  # maximum number of paths in one plane; with more dialogues every k-th is drawn


class Plane(NamedTuple):
    """The plane of one model; `paths`, `ends` and `mean_at` are in pixels."""

    n: int
    drawn: int
    paths: list[str]
    ends: list[tuple[float, float]]
    mean: tuple[float, float]
    """Mean final axis scores of a and t over all dialogues, in [-1, 1]."""
    mean_at: tuple[float, float]


def plane_of(dialogues: Sequence[Transcript]) -> Plane | None:
    courses = [course for dialogue in dialogues if (course := axis_course(dialogue))]
    if not courses:
        return None
    shown = courses[:: -(-len(courses) // _MOST_PATHS)]
    mean = (statistics.fmean(c[-1][0] for c in courses), statistics.fmean(c[-1][1] for c in courses))
    paths = ["M" + "L".join(f"{x:g} {y:g}" for x, y in map(_pixel, course)) for course in shown]
    return Plane(len(courses), len(shown), paths, [_pixel(course[-1]) for course in shown], mean, _pixel(mean))


def axis_course(dialogue: Transcript) -> list[tuple[float, float]]:
    """Axis scores of a and t, in [-1, 1], at the start and after each judged reply; empty without anchors."""
    anchors = anchors_of(dialogue)
    return [(axis_score(a, anchors[0]), axis_score(t, anchors[1])) for a, t in states_of(dialogue)] if anchors else []


def _pixel(scores: tuple[float, float]) -> tuple[float, float]:
    a, t = scores
    return (round(_MARGIN + _SIDE * (t + 1.0) / 2.0, 1), round(_MARGIN + _SIDE * (1.0 - a) / 2.0, 1))


PANEL = panel_of(__package__, build=build, scenario=_scenario, dialogue=_plane, published=partial(results_of, __package__))


def arena() -> ExternalRanking:
    """Elo of the models in EIBench's arena of people (Table 4)."""
    rows: Any = published(__package__, "eibench_table04_leaderboard")
    ratings = {row["model"]: float(row["arena_elo"]) for row in rows if row["arena_elo"] is not None}
    return ExternalRanking(ratings, "0.82 with Qwen3-Max as the user, 0.70 with DeepSeek-V4-Pro (Table 5)")
