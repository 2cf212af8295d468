"""The report panel of daily conversation: six metrics by model and by kind of query, and each answer's grades and reasons."""

from __future__ import annotations

from heartloop.core.blocks import Column, Details, PanelInput, PanelOutput, Range, Row, Table, TurnView
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import UseError
from heartloop.environments.daily.environment import HIGHEST, LOWEST, METRICS, average
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.report import mapping_of, mean_of, panel_of, scenario_view

AVERAGE = "Avg."  # the paper's name of the mean of the six

_RANGE = Range(float(LOWEST), float(HIGHEST), float(LOWEST))
_HELP = "Mean level of each metric, 1 to 5, with its 95 % interval over scenarios. The leaderboard shows their mean times 20."
_EMBEDDED = " The embedded judge reads no dates: an answer that puts an event on a wrong day is not noticed."


def build(page: PanelInput) -> PanelOutput:
    behind = [[(levels, d) for d in page.behind(row) if (levels := _levels(d))] for row in page.models]
    within = (_RANGE.low, _RANGE.high)
    metrics = tuple(
        Row(title, tuple(mean_of(((levels[name], d) for levels, d in graded), within) for graded in behind))
        for name, title in {**METRICS, AVERAGE: AVERAGE}.items()
    )
    by_kind = {
        kind: [[(levels[AVERAGE], d) for levels, d in graded if d.facts.get("kind") == kind] for graded in behind]
        for kind in KINDS
    }
    kinds = tuple(Row(kind, tuple(mean_of(seen, within) for seen in models)) for kind, models in by_kind.items() if any(models))
    columns = tuple(Column(row.model, 2, _RANGE) for row in page.models)
    return PanelOutput(
        blocks=(
            Table("Six metrics", columns, metrics, _HELP + _EMBEDDED * page.embedded, "Metric", "daily-metrics", models=True),
            Table("By kind of query", columns, kinds, "Mean of the six.", "Kind", "daily-kind", models=True),
        )
    )


def _levels(dialogue: Transcript) -> dict[str, float]:
    """The six levels of a scored dialogue, and their mean; empty if they are missing or invalid."""
    if dialogue.score is None or not dialogue.turns:
        return {}
    levels = mapping_of(dialogue.turns[0].evidence.get("scores"))
    try:
        return {**levels, AVERAGE: average(levels)}
    except (UseError, TypeError):
        return {}


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    scores, reasons, quotes = (mapping_of(turn.evidence.get(name)) for name in ("scores", "reasons", "quotes"))
    rows = tuple(
        (title, f"{score} of {HIGHEST}", str(reasons.get(name, "")) + (f" “{quotes[name]}”" if quotes.get(name) else ""))
        for name, title in METRICS.items()
        if isinstance(score := scores.get(name), int)
    )
    return TurnView(details=(Details("Six grades and their reasons", rows, open=True),) if rows else ())


PANEL = panel_of(
    __package__,
    build=build,
    leaves_out=frozenset({"trajectories", "groups"}),
    scenario=scenario_view(
        {"person": "{}", "want": "wants {}"},
        {
            "about": "What the companion's profile says",
            "today": "The day",
            "notes": "Notes of earlier conversations",
            "events": "Noted events",
        },
    ),
    turn=_turn,
)
