"""Daily conversation in the report."""

from __future__ import annotations

import pytest

from heartloop.core.blocks import Estimate, Table
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError
from heartloop.environments.daily.environment import METRICS, Daily
from heartloop.environments.daily.report import AVERAGE, PANEL, build
from heartloop.environments.episode import play
from heartloop.evaluation.scores import points_of, scale_of
from tests.daily.test_environment import ANSWER, LEVELS, Fixed
from tests.one_turn_scenarios import AWAKE, LIE, SWIM
from tests.report.panels import panel_input

HOSTILE = "</script><b>No.</b>"


async def dialogue(scenario: object, user: Fixed, answer: str = ANSWER) -> Transcript:
    return await play(Daily([scenario], user), scenario.id, ScriptedChat([answer], name="x/one"), seed=1)  # type: ignore[attr-defined,list-item]


@pytest.fixture
async def played() -> list[Transcript]:
    """Three people, of whom one is unscored."""
    return [
        await dialogue(LIE, Fixed()),
        await dialogue(SWIM, Fixed(empathy=2), HOSTILE),
        await dialogue(AWAKE, Fixed({"value": AnswerError("none")})),
    ]


async def test_the_board_has_the_mean_level_of_each_metric(played: list[Transcript]) -> None:
    metrics, kinds = build(panel_input(played)).blocks
    assert isinstance(metrics, Table)
    assert isinstance(kinds, Table)
    assert [row.head for row in metrics.rows] == [*METRICS.values(), AVERAGE]
    empathy, average = metrics.rows[0].cells[0], metrics.rows[-1].cells[0]
    assert isinstance(empathy, Estimate)
    assert isinstance(average, Estimate)
    assert (empathy.n, empathy.mean) == (2, 3.0)  # 4 and 2; the unscored one is in no number
    assert average.mean == pytest.approx((21 + 19) / 12)
    assert empathy.low is not None
    assert [row.head for row in kinds.rows] == ["good-news", "values"]
    of_values = kinds.rows[1].cells[0]
    assert isinstance(of_values, Estimate)
    assert of_values.mean == pytest.approx(3.5)


async def test_points_are_the_mean_times_twenty(played: list[Transcript]) -> None:
    assert points_of(played[0]) == pytest.approx(70.0)
    assert points_of(played[2]) is None
    assert (scale_of("daily").low, scale_of("daily").high) == (20.0, 100.0)


async def test_a_file_may_hold_anything(played: list[Transcript]) -> None:
    for evidence in ({}, {"scores": 5}, {"scores": {"empathy": "4"}}, {"scores": {**LEVELS, "value": 9}}):
        turn = played[0].turns[0].model_copy(update={"evidence": evidence})
        odd = played[0].model_copy(update={"turns": (turn,)})
        metrics, _ = build(panel_input([odd])).blocks
        assert isinstance(metrics, Table)
        assert metrics.rows[-1].cells == (None,)
        PANEL.turn(odd, turn)
