"""The report panel of stances under pressure: turns and flips, verdicts by push, and each verdict's reason."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from heartloop.core.blocks import (
    Column,
    Details,
    Estimate,
    LeaderboardColumn,
    PanelInput,
    PanelOutput,
    Published,
    Range,
    Row,
    Table,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.report import mean_of, panel_of, results_of, scenario_view
from heartloop.environments.stances.environment import MAX_TURNS
from heartloop.environments.stances.scenario import MOVES
from heartloop.environments.stances.scoring import STATE, VERDICTS

STAND_IN = (
    "The embedded judge is a stand-in that reads phrases, not positions. Of 40 written replies that its rules were not set by, "
    "it called 27 as labelled, of 40 replies of a small language model 14. These numbers rank no model: judge with a language "
    "model (heartloop rejudge RUN --judge MODEL)."
)
"""Warning on every page whose judge was embedded; `tests/stances/test_embedded_user.py` counts the numbers."""

_PERCENT = Range(0.0, 100.0, 0.0)
_TURNS = Column("Turn of flip", 2, Range(0.0, float(MAX_TURNS), 0.0), "stances-mean")
_FLIPS = Column("Number of flips", 2, Range(0.0, float(MAX_TURNS - 1), 0.0), "stances-flips")


def build(page: PanelInput) -> PanelOutput:
    behind = [page.behind(row) for row in page.models]
    numbers = _numbers(page)
    columns = tuple(Column(row.model, range=_PERCENT) for row in page.models)
    pushes = tuple(
        Row(f"{number}. {move}", tuple(_share(dialogues, move, "upheld") for dialogues in behind))
        for number, move in enumerate(MOVES, 1)
    )
    verdicts = tuple(Row(verdict, tuple(_share(dialogues, None, verdict) for dialogues in behind)) for verdict in VERDICTS)
    flips = {row.head: cell.mean for row in numbers if isinstance(cell := row.cells[1], Estimate)}
    return PanelOutput(
        blocks=(
            Table(
                "Turn and number of flips",
                (_TURNS, _FLIPS),
                numbers,
                "Mean with its 95 % interval over scenarios. Higher turns and fewer flips are better.",
                entry="stances-mean",
            ),
            Table(
                "Replies that uphold the stance, by push",
                columns,
                pushes,
                "Percent of the replies, with the 95 % interval over scenarios. The pushes come in this order in every scenario.",
                "Push",
                "stances-push",
                models=True,
            ),
            Table("Verdicts", columns, verdicts, "Percent of all replies, as judged.", "Verdict", "stances-mean", models=True),
        ),
        columns=(LeaderboardColumn("Flips", flips, 2, "stances-flips"),),
        warnings=(STAND_IN,) if page.embedded else (),
    )


def _numbers(page: PanelInput) -> tuple[Row, ...]:
    """Mean turn and number of flips of every model; dialogues without a valid last state are left out."""
    rows = []
    for place, row in enumerate(page.models):
        last = [(d.turns[-1].state, d) for d in page.behind(row) if d.scored and d.turns]
        valid = [(state, d) for state, d in last if state and all(isinstance(state.get(name), float) for name in STATE)]
        rows.append(Row(row.model, tuple(mean_of((state[name], d) for state, d in valid) for name in STATE), place))
    return tuple(rows)


def _share(dialogues: Sequence[Transcript], move: str | None, verdict: str) -> Estimate | None:
    shares = []
    for dialogue in dialogues:
        given = [t.evidence.get("verdict") for t in dialogue.turns if move is None or t.evidence.get("move") == move]
        if dialogue.scored and given:
            shares.append((100.0 * fmean(one == verdict for one in given), dialogue))
    return mean_of(shares)


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    evidence = turn.evidence
    if evidence.get("verdict") not in VERDICTS:
        return TurnView()
    row = (str(evidence["verdict"]), "", str(evidence.get("reason", "")))
    return TurnView(details=(Details(f"The judge, of this reply to: {evidence.get('move', '')}", (row,), open=True),))


def published_results() -> Published:
    results = results_of(__package__)
    return results._replace(measured=lambda page: Table("", results.tables[0].columns, _numbers(page)))


PANEL = panel_of(
    __package__,
    build=build,
    scenario=scenario_view(
        {"person": "{}"}, {"topic": "The question", "stance": "Assigned stance", "claim": "What the user holds"}
    ),
    turn=_turn,
    published=published_results,
    learned=False,
)
