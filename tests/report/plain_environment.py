"""Two environments of a third party, for tests of the report: one without a panel, one with a panel of blocks alone."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from heartloop.core.blocks import (
    Card,
    Chart,
    Column,
    Details,
    LeaderboardColumn,
    PanelInput,
    PanelOutput,
    Point,
    Range,
    ReportPanel,
    Row,
    Series,
    Table,
    Text,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.registry import GROUP
from heartloop.environments.spec import EnvironmentSpec, Options, Role, Scale
from heartloop.scoring.statistics import estimate
from tests.report.talks import transcript

__all__ = ["BLOCKS", "ENTRIES", "PLAIN", "plain_talk"]


def _course(transcript: Transcript) -> list[float]:
    return [0.0, *(turn.state["ease"] for turn in transcript.turns if turn.state is not None)]


def _spec(name: str, report: ReportPanel | None) -> EnvironmentSpec:
    scale = Scale(
        points=1.0, low=0.0, high=10.0, start=0.0, success_at=8.0, failure_below=2.0, zones=(), ticks=(0, 5, 10), group="place",
        group_title="place of work", group_order=("office",), course=_course, change_limit=3.0, title="ease", of="Ease",
        reached="reached {0:g}", fell="fell below {0:g}",
    )  # fmt: skip
    none = "tests.report.plain_environment:absent"
    return EnvironmentSpec(
        name=name, title=name.capitalize(), about="A first day at work.", source="a test", roles=(Role("user", "plays"),),
        options=Options, scale=scale, scenarios=none, environment=none, embedded=none, simulator=none, stored=none, report=report,
    )  # fmt: skip


def _build(page: PanelInput) -> PanelOutput:
    rows, series = [], []
    for place, row in enumerate(page.models):
        behind = page.behind(row)
        seen = estimate([dialogue.score or 0.0 for dialogue in behind], [dialogue.scenario for dialogue in behind])
        rows.append(Row(row.model, (seen, len(behind), "<b>said</b>", None), place))
        points = tuple(Point(turn, value) for turn, value in enumerate(_course(behind[0])))
        series.append(Series(row.model, points, place))
    columns = (Column("Ease", range=Range(0, 10, 5)), Column("Dialogues"), Column("Words"), Column("Empty"))
    bars = tuple(Series(one.name, (Point("office", one.points[-1].y, 1.0, 9.0),), one.model) for one in series)
    return PanelOutput(
        blocks=(
            Table("Ease again", columns, tuple(rows), "Mean ease."),
            Chart("Ease by turn", "lines", tuple(series), "turn", "ease"),
            Chart("Ease by place", "bars", bars, "place", "ease", low=0.0, high=10.0),
            Card("Rules", (("Turns", "two"),)),
            Text("About", ("One paragraph.",)),
        ),
        columns=(LeaderboardColumn("Lift", {row.model: 1.25 for row in page.models}, 2),),
        leaderboard_help="Lift is a constant.",
        facts=(("Colour", "blue"),),
        warnings=("Only a test.",),
    )


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    return TurnView(details=(Details("Notes", (("tone", "2 of 5", "<i>short</i>"),), open=True),))


PLAIN = _spec("plain", None)
BLOCKS = _spec("blocks", ReportPanel(build=_build, question="Who arrives?", lede="It starts at {start}.", turn=_turn))
ENTRIES = {name: EntryPoint(name, f"tests.report.plain_environment:{name.upper()}", GROUP) for name in ("plain", "blocks")}


def plain_talk(environment: str, model: str, scenario: str, *states: float) -> Transcript:
    """A dialogue of one number that starts at 0."""
    before = (0.0, *states)
    return transcript(
        environment, model, scenario, opening="Hello.", start={"ease": 0.0},
        facts={"place": "office", "title": f"Title of {scenario}", "person": "Ana, 40", "theme": "work"},
        turns=tuple(
            Turn(
                index=n, reply=f"Reply {n}.", state={"ease": now}, change={"ease": now - before[n]}, thoughts={"why": "x"},
                message="So.",
            )
            for n, now in enumerate(states)
        ),
        score=states[-1],
    )  # fmt: skip
