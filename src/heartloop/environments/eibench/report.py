"""The report panel of EIBench: a plane of both axes for all dialogues and for one, and published results.

In the plane of all dialogues, coordinates are axis scores (EIBench Eq. 1), with the start in the middle: the relation is
horizontal, the negative emotion vertical and inverted. The plane of one dialogue has the units of the state.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from heartloop.core.blocks import Column, PanelInput, PanelOutput, Published, PublishedTable, ReportPanel, Row, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.core.text import short_number
from heartloop.environments.eibench.environment import anchors_of, relation_weight_of, states_of
from heartloop.environments.eibench.scenario import SCENES
from heartloop.environments.eibench.scoring import axis_score
from heartloop.environments.report import printed, published
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


def published_results() -> Published:
    score = Column("", entry="published-outcome")
    scenes: dict[str, Column] = {scene: score._replace(name=scene.capitalize()) for scene in SCENES}
    rank = Column("#", digits=0, entry="published-eibench-rank")
    general = {"aime_2025": "AIME 2025", "gpqa_diamond": "GPQA Diamond", "humaneval_plus": "HumanEval+", "ifeval": "IFEval"}
    tables = (
        printed(
            __package__,
            "eibench_table04_leaderboard",
            {
                "qwen3_max_rank": rank,
                **{f"qwen3_max_{scene}": column for scene, column in scenes.items()},
                "qwen3_max_average": score._replace(name="Mean, Qwen3-Max"),
                "ds_v4_pro_average": score._replace(name="Mean, DS-V4-Pro"),
                "ds_v4_pro_rank": rank._replace(name="# there"),
            },
            source="EIBench, Table 4",
            title="Leaderboard with two user simulators",
            help="Outcome times 100, by scene with Qwen3-Max as the user simulator, and the scenario-weighted mean with it and "
            "with DeepSeek-V4-Pro. The paper prints no interval.",
        ),
        printed(
            __package__,
            "eibench_table07_ablation",
            {**scenes, "average": score._replace(name="Average")},
            head="variant",
            source="EIBench, Table 7",
            title="CTC-GRPO without one of its parts",
            help="Outcome times 100 by scene, and the scenario-weighted mean.",
            corner="Training",
            fold=True,
        ),
        PublishedTable(
            source="EIBench, Table 8",
            title="General capability before and after training",
            help="Percent. Whether training for people costs something elsewhere.",
            columns=tuple(Column(name, entry="published-model") for name in general.values()),
            rows=tuple(
                Row(f"{row['base_model']}, {row['variant']}", tuple(row[name] for name in general))
                for row in published(__package__, "eibench_table08_general_capability")
            ),
            fold=True,
        ),
    )
    return Published(
        title="four scenes, two user simulators",
        tables=tables,
        conditions="EIBench’s were measured with Qwen3-Max and DeepSeek-V4-Pro as user simulators, on its 213 scenarios in "
        "Chinese, which are not part of this project.",
        papers=("EIBench: A Simulator-Based Benchmark and Turn-Credit RL for Emotion Management",),
    )


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


PANEL = ReportPanel(
    build=build,
    question="Emotion management in four scenes",
    lede="The model has to win the user over (charm), hold a boundary (defense), repair a mistake of its own (repair) or give "
    "comfort (support). Each reply changes the user's negative emotion and relation to the model by at most {change_limit}. The "
    "score is the final state between the scenario's anchors: 100 is success on both axes, 0 the start, -100 failure on both.",
    trajectories=("Outcome by turn", "0 is the start."),
    groups=(
        "Outcome by scene",
        "The score on the leaderboard is the mean over all scenarios, so scenes are weighted by their number of scenarios.",
    ),
    agreement="EIBench reports 0.93 between two user simulators over its models (Table 5).",
    scenario=_scenario,
    thoughts={
        "need": "Need",
        "quality": "Quality of the reply",
        "inertia": "Inertia",
        "changes": "Changes",
        "tone": "Tone",
    },
    thoughts_title="Reflection of the user simulator",
    dialogue=_plane,
    published=published_results,
    package=__package__,
)


def arena() -> ExternalRanking:
    """Elo of the models in EIBench's arena of people (Table 4)."""
    rows: Any = published(__package__, "eibench_table04_leaderboard")
    ratings = {row["model"]: float(row["arena_elo"]) for row in rows if row["arena_elo"] is not None}
    return ExternalRanking(ratings, "0.82 with Qwen3-Max as the user, 0.70 with DeepSeek-V4-Pro (Table 5)")
