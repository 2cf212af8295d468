"""The report panel of daily conversation: six metrics by model and by kind of query, and each answer's grades and reasons.

Levels, 1 to 5, are of the same dialogues as the leaderboard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.core.blocks import (
    Column,
    Details,
    Estimate,
    PanelInput,
    PanelOutput,
    Range,
    ReportPanel,
    Row,
    ScenarioView,
    Table,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import UseError
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.daily.scoring import HIGHEST, LOWEST, METRICS, average
from heartloop.scoring.statistics import estimate

AVERAGE = "Avg."
"""The paper's name of the mean of the six."""

_RANGE = Range(float(LOWEST), float(HIGHEST), float(LOWEST))
_HELP = "Mean level of each metric, 1 to 5, with its 95 % interval over scenarios. The leaderboard shows their mean times 20."
_EMBEDDED = " The embedded judge reads no dates: an answer that puts an event on a wrong day is not noticed."


def build(page: PanelInput) -> PanelOutput:
    """Two tables: metrics, and kinds of query, by model."""
    behind = [[(d, levels) for d in page.behind(row) if (levels := _levels(d))] for row in page.models]
    by_metric = [means(graded) for graded in behind]
    by_kind = {kind: [means([(d, v) for d, v in graded if d.facts.get("kind") == kind])[AVERAGE] for graded in behind]
               for kind in KINDS if any(d.facts.get("kind") == kind for graded in behind for d, _ in graded)}  # fmt: skip
    columns = tuple(Column(row.model, 2, _RANGE) for row in page.models)
    names = {**METRICS, AVERAGE: AVERAGE}
    metrics = tuple(Row(title, tuple(levels[name] for levels in by_metric)) for name, title in names.items())
    kinds = tuple(Row(kind, tuple(estimates)) for kind, estimates in by_kind.items())
    return PanelOutput(
        blocks=(
            Table("Six metrics", columns, metrics, _HELP + _EMBEDDED * page.embedded, "Metric", "daily-metrics", models=True),
            Table("By kind of query", columns, kinds, "Mean of the six.", "Kind", "daily-kind", models=True),
        )
    )


def means(graded: Sequence[tuple[Transcript, Mapping[str, int]]]) -> dict[str, Estimate | None]:
    """The mean level of each metric over dialogues with their levels, and the mean of the six."""
    scenarios = [d.scenario for d, _ in graded]
    within = (float(LOWEST), float(HIGHEST))
    by_metric = {name: estimate([float(levels[name]) for _, levels in graded], scenarios, within=within) for name in METRICS}
    return {**by_metric, AVERAGE: estimate([average(levels) for _, levels in graded], scenarios, within=within)}


def _levels(dialogue: Transcript) -> dict[str, int]:
    """The six levels of a scored dialogue; empty if they are missing or invalid."""
    if dialogue.score is None or not dialogue.turns:
        return {}
    levels = _mapping(dialogue.turns[0].evidence.get("scores"))
    try:
        average(levels)
    except (UseError, TypeError):
        return {}
    return levels


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """The grades of an answer: each metric's level, reason and quote."""
    scores, reasons, quotes = (_mapping(turn.evidence.get(name)) for name in ("scores", "reasons", "quotes"))
    rows = tuple(
        (title, f"{score} of {HIGHEST}", str(reasons.get(name, "")) + (f" “{quotes[name]}”" if quotes.get(name) else ""))
        for name, title in METRICS.items()
        if isinstance(score := scores.get(name), int)
    )
    return TurnView(details=(Details("Six grades and their reasons", rows, open=True),) if rows else ())


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    named = {"about": "What the companion's profile says", "today": "The day", "notes": "Notes of earlier conversations",
             "events": "Noted events"}  # fmt: skip
    line = (facts.get("person"), f"wants {facts['want']}" if facts.get("want") else "")
    return ScenarioView(
        " · ".join(filter(None, line)), tuple((words, facts[name]) for name, words in named.items() if facts.get(name))
    )


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


PANEL = ReportPanel(
    build=build,
    question="Quality of one answer in everyday conversation",
    lede="In each scenario a person talks to a companion that has notes of earlier conversations and a list of events. The model "
    "answers once. Six judges grade the answer, one per metric: empathy, topic guidance, value guidance, intention following, "
    "fluency and colloquial expression, 1 to 5 each. The score is their mean times 20.",
    leaves_out=frozenset({"trajectories", "groups"}),
    scenario=_scenario,
    turn=_turn,
    package=__package__,
    glossary="templates/glossary.html",
)
