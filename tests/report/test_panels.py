"""Report panels: of a third party's environment (its scale alone, or blocks), and of daily, EQ-Bench3 and stances."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import (
    Card,
    Chart,
    Column,
    Details,
    Estimate,
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
    shade,
)
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Failure, Transcript, Turn
from heartloop.core.errors import AnswerError
from heartloop.environments import registry
from heartloop.environments.daily import report as daily_report
from heartloop.environments.daily.environment import METRICS, Daily
from heartloop.environments.episode import play
from heartloop.environments.eqbench import report as eqbench_report
from heartloop.environments.registry import specs
from heartloop.environments.spec import EnvironmentSpec, Options, Role, Scale
from heartloop.environments.stances import report as stances_report
from heartloop.environments.stances.environment import Stances
from heartloop.environments.stances.scenario import load_scenarios
from heartloop.environments.stances.scoring import Verdict
from heartloop.report.site import write_site
from heartloop.scoring.statistics import estimate
from tests.daily import test_environment as daily_test
from tests.one_turn_scenarios import AWAKE, LIE, SWIM
from tests.report.talks import HOSTILE, WriteRun, pages_of_runs, panel_input, talk, transcript
from tests.stances import test_environment as stances_test


def _course(transcript: Transcript) -> list[float]:
    return [0.0, *(turn.state["ease"] for turn in transcript.turns if turn.state is not None)]


def plain_spec(name: str, report: ReportPanel | None) -> EnvironmentSpec:
    scale = Scale(
        points=1.0, low=0.0, high=10.0, start=0.0, success_at=8.0, failure_below=2.0, zones=(), ticks=(0, 5, 10), group="place",
        group_title="place of work", group_order=("office",), course=_course, change_limit=3.0, title="ease", of="Ease",
        reached="reached {0:g}", fell="fell below {0:g}",
    )  # fmt: skip
    none = "tests.report.test_panels:absent"
    return EnvironmentSpec(
        name=name, title=name.capitalize(), about="A first day at work.", source="a test", roles=(Role("user", "plays"),),
        options=Options, scale=scale, scenarios=none, environment=none, embedded=none, simulator=none, stored=none,
        report=report or ReportPanel(),
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


PLAIN = plain_spec("plain", None)
BLOCKS = plain_spec("blocks", ReportPanel(build=_build, question="Who arrives?", lede="It starts at {start}.", turn=_turn))
ENTRIES = {name: EntryPoint(name, f"tests.report.test_panels:{name.upper()}", registry.GROUP) for name in ("plain", "blocks")}


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


@pytest.fixture
def report(write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """The report of two models with two scenarios each."""
    known = registry._entries()
    monkeypatch.setattr(registry, "_entries", lambda: {**known, **ENTRIES})

    def write(name: str) -> Path:
        talks = [plain_talk(name, model, s, 2.0, end) for model, end in (("x/a", 9.0), ("x/b", 1.0)) for s in ("s1", "s2")]
        return write_site([write_run(talks, environment=name)], tmp_path / "site")

    return write


def _ids(html: str) -> set[str]:
    return set(re.findall(r'<section id="([^"]+)"', html))


def test_without_a_panel_there_is_what_follows_from_the_scale(report: Callable[[str], Path]) -> None:
    assert {"leaderboard", "trajectories", "groups", "dialogues"} <= _ids(report("plain").read_text(encoding="utf-8"))


def test_a_panel_of_blocks_adds_sections_columns_facts_and_details(report: Callable[[str], Path]) -> None:
    index = report("blocks")
    html = index.read_text(encoding="utf-8")
    assert {"ease-again", "ease-by-turn", "ease-by-place", "rules", "about"} <= _ids(html)
    assert "<dt>Colour</dt><dd>blue</dd>" in html
    assert "Only a test." in html
    assert re.search(r'data-label="lift">1\.25</td>', html)
    assert '<td role="cell" class="num" data-label="Dialogues"><b>2</b></td>' in html
    assert "&lt;b&gt;said&lt;/b&gt;" in html
    assert '<td role="cell" data-label="Empty">–</td>' in html
    listing, chunk = (
        json.loads(re.sub(r"^.*?,|\);\n$", "", (index.parent / "data/1" / file).read_text()))
        for file in ("list.js", "dialogues-0.js")
    )
    assert listing["scenarios"][0]["line"] == "Ana, 40 · office · work"
    assert chunk["dialogues"][0]["turns"][0]["details"] == [["Notes", [["tone", "2 of 5", "<i>short</i>"]], True]]


def test_a_shade_grows_to_both_sides_of_the_neutral_value() -> None:
    assert shade([60, 80], Range(0, 100, 40)) == (70, 2, 0.5, False)
    assert shade([10], Range(0, 100, 40)) == (10, 1, 0.75, True)
    assert shade([40], Range(0, 100, 40)) == (40, 1, 0, False)
    assert shade([130], Range(0, 100, 40)) == (130, 1, 1, False)
    assert shade([], Range(0, 100, 40)) == (None, 0, 0, False)


NEUTRAL = {"sage": 40, "eibench": 0, "perm": 0, "empa": 60, "daily": 60, "eqbench": 50, "stances": 2.5}


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.name)
def test_nothing_below_the_start_is_green(spec: EnvironmentSpec) -> None:
    among = spec.scale.colours()
    assert among.neutral == NEUTRAL[spec.name]
    assert among.neutral >= spec.scale.start
    assert shade([among.neutral - 0.1], among).below
    assert all(zone.low >= among.neutral for zone in spec.scale.zones if zone.tint in ("a", "b"))


def test_bands_follow_the_start_of_the_dialogues(write_run: WriteRun) -> None:
    """Band B of SAGE goes from 40 to 70: not green where dialogues start at 50."""
    (page,) = pages_of_runs(write_run([talk("x/a", "s1", [1], start={"emotion": 50.0})], options={"start": 50}))
    assert {zone.name: zone.tint for zone in page.zones} == {"S": "s", "A": "a", "B": "c", "C": "c", "F": "f"}


def means(block: object) -> dict[str, float | None]:
    """The first cell of each row."""
    assert isinstance(block, Table)
    return {row.head: cell.mean if isinstance(cell := row.cells[0], Estimate) else None for row in block.rows}


async def daily_talk(scenario: Any, user: daily_test.Fixed) -> Transcript:
    return await play(Daily([scenario], user), scenario.id, ScriptedChat([daily_test.ANSWER], name="x/one"), seed=1)


async def test_daily_shows_the_mean_level_of_each_metric_and_kind() -> None:
    fixed = daily_test.Fixed
    unscored = await daily_talk(AWAKE, fixed({"value": AnswerError("none")}))
    played = [await daily_talk(LIE, fixed()), await daily_talk(SWIM, fixed(empathy=2)), unscored]
    metrics, kinds = map(means, daily_report.build(panel_input(played)).blocks)
    assert list(metrics) == [*METRICS.values(), daily_report.AVERAGE]
    assert metrics[METRICS["empathy"]] == 3.0  # 4 and 2; the unscored one is in no number
    assert metrics[daily_report.AVERAGE] == pytest.approx((21 + 19) / 12)
    assert kinds == {"good-news": pytest.approx(19 / 6), "values": pytest.approx(3.5)}


async def stances_talk(number: int, verdicts: Sequence[Verdict | Exception]) -> Transcript:
    scenario = load_scenarios()[number]
    policy = ScriptedChat([HOSTILE], name="x/one", cycle=True)
    return await play(Stances([scenario], stances_test.Fixed(verdicts)), scenario.id, policy, seed=1)


async def test_stances_by_hand() -> None:
    """Turn of flip 2 with 3 flips, and 5 with none; one is unscored."""
    played = [
        await stances_talk(0, ("upheld", "upheld", "abandoned", "upheld", "abandoned")),
        await stances_talk(1, ("upheld",) * 5),
        await stances_talk(2, ("upheld", AnswerError("none"))),
    ]
    output = stances_report.build(panel_input(played))
    numbers, pushes, verdicts = output.blocks
    assert means(numbers) == {"x/one": 3.5}  # (2 + 5) / 2
    assert list(means(pushes).values()) == [100.0, 100.0, 50.0, 100.0, 50.0]
    assert means(verdicts) == {"upheld": 80.0, "abandoned": 20.0, "unclear": 0.0}
    assert output.columns[0].values == {"x/one": 1.5}  # flips, (3 + 0) / 2


def eqbench_talk(model: str, scenario: str, kind: str, marks: dict[str, float], style: dict[str, float]) -> Transcript:
    """A dialogue of two turns with its marks; without marks it is unscored."""
    score = 5 * sum(marks.values()) / len(marks) if marks else None
    evidence = {"counted": marks, "style": style} if marks else {}
    return transcript(
        "eqbench",
        model,
        scenario,
        facts={"kind": kind},
        opening="A prompt.",
        start={},
        turns=(Turn(index=0, reply="# I feel\nsad"), Turn(index=1, reply="Well.", state={}, change={}, evidence=evidence)),
        failure=None if marks else Failure(role="rubric judge", kind="AnswerError", detail="no marks"),
        score=score,
        rewards=() if score is None else (score,),
    )


EQBENCH = [
    eqbench_talk("x/good", "1", "role-play", {"demonstrated_empathy": 14, "depth_of_insight": 10}, {"warmth": 18}),
    eqbench_talk("x/good", "2", "role-play", {"demonstrated_empathy": 16, "depth_of_insight": 14}, {"warmth": 16}),
    eqbench_talk("x/good", "401", "analysis", {"depth_of_insight": 6, "accuracy": 8}, {}),
    eqbench_talk("x/good", "3", "conversation", {}, {}),
]


def test_marks_of_eqbench_that_count_come_first_each_with_its_mean_and_interval() -> None:
    blocks = eqbench_report.build(panel_input(EQBENCH)).blocks
    counted, style, kinds = (block for block in blocks if isinstance(block, Table))
    assert [row.head for row in counted.rows] == ["demonstrated empathy", "depth of insight", "accuracy"]
    assert [row.head for row in style.rows] == ["warmth"]
    insight, accuracy, play = counted.rows[1].cells[0], counted.rows[2].cells[0], kinds.rows[0].cells[0]
    assert isinstance(insight, Estimate)
    assert isinstance(accuracy, Estimate)
    assert isinstance(play, Estimate)
    # (10 + 14 + 6) / 3, over role-plays and the analysis, standard deviation 4
    assert insight[:3] == pytest.approx((3, 10.0, 10 - 4.30265 * 4 / 3**0.5), rel=1e-4)
    assert (accuracy.mean, accuracy.low) == (8.0, None)  # one scenario has no interval
    assert [column.name for column in kinds.columns] == ["Role-play", "Analysis"]
    assert play.mean == pytest.approx((60 + 75) / 2)
    of_paper = {name for name in eqbench_report.PRINTED if eqbench_report.mean_mark(EQBENCH, name)}
    assert of_paper == {"depth_of_insight", "demonstrated_empathy", "warmth"}


@pytest.mark.parametrize(
    ("environment", "changes"),
    [
        ("daily", {"evidence": {}}),
        ("daily", {"evidence": {"scores": 5}}),
        ("daily", {"evidence": {"scores": {"empathy": "4"}}}),
        ("daily", {"evidence": {"scores": {**daily_test.LEVELS, "value": 9}}}),
        ("stances", {"evidence": {}, "state": {}}),
        ("stances", {"evidence": {"verdict": 5, "move": None}, "state": {"other": 1.0}}),
        ("stances", {"evidence": {"verdict": "upheld"}, "state": None}),
        ("eqbench", {"evidence": {"counted": ["x"]}}),
    ],
)
async def test_a_file_may_hold_anything(environment: str, changes: dict[str, Any]) -> None:
    if environment == "daily":
        talk = await daily_talk(LIE, daily_test.Fixed())
    else:
        talk = EQBENCH[0] if environment == "eqbench" else await stances_talk(1, ("upheld",) * 5)
    last = talk.turns[-1].model_copy(update=changes)
    odd = talk.model_copy(update={"turns": (*talk.turns[:-1], last)})
    panel = registry.load_environment(environment).report
    first = panel.build(panel_input([odd])).blocks[0]
    assert isinstance(first, Table)
    if environment == "eqbench":
        assert first.title == "By kind of scenario", "there is no table of marks"
    else:
        assert set(first.rows[-1].cells) == {None}
    panel.turn(odd, last)
