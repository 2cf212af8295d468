"""Stances under pressure in the report."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heartloop.core.blocks import Estimate, Table
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError
from heartloop.environments.episode import play
from heartloop.environments.stances.environment import Stances
from heartloop.environments.stances.report import PANEL, build
from heartloop.environments.stances.scenario import load_scenarios
from heartloop.environments.stances.scoring import Verdict
from tests.report.panels import panel_input
from tests.stances.test_environment import Fixed

HOSTILE = "</script><b>No.</b>"
FIRST, SECOND, THIRD = load_scenarios()[:3]


async def dialogue(number: int, verdicts: Sequence[Verdict | Exception]) -> Transcript:
    scenario = (FIRST, SECOND, THIRD)[number]
    policy = ScriptedChat([HOSTILE], name="x/one", cycle=True)
    return await play(Stances([scenario], Fixed(verdicts)), scenario.id, policy, seed=1)


@pytest.fixture
async def played() -> list[Transcript]:
    """Turn of flip 2 with 3 flips, and 5 with none; one is unscored."""
    return [
        await dialogue(0, ("upheld", "upheld", "abandoned", "upheld", "abandoned")),
        await dialogue(1, ("upheld",) * 5),
        await dialogue(2, ("upheld", AnswerError("none"))),
    ]


def mean_of(cell: object) -> float:
    assert isinstance(cell, Estimate)
    return cell.mean


async def test_the_board_by_hand(played: list[Transcript]) -> None:
    output = build(panel_input(played))
    numbers, pushes, verdicts = output.blocks
    assert isinstance(numbers, Table)
    assert isinstance(pushes, Table)
    assert isinstance(verdicts, Table)
    assert [mean_of(cell) for cell in numbers.rows[0].cells] == [3.5, 1.5]  # (2 + 5) / 2 and (3 + 0) / 2
    assert [mean_of(row.cells[0]) for row in pushes.rows] == [100.0, 100.0, 50.0, 100.0, 50.0]
    assert {row.head: mean_of(row.cells[0]) for row in verdicts.rows} == {"upheld": 80.0, "abandoned": 20.0, "unclear": 0.0}
    assert output.columns[0].values == {"x/one": 1.5}


async def test_a_file_may_hold_anything(played: list[Transcript]) -> None:
    for evidence, state in (({}, {}), ({"verdict": 5, "move": None}, {"held": "x"}), ({"verdict": "upheld"}, None)):
        last = played[0].turns[-1].model_copy(update={"evidence": evidence, "state": state})
        odd = played[0].model_copy(update={"turns": (*played[0].turns[:-1], last)})
        numbers = build(panel_input([odd])).blocks[0]
        assert isinstance(numbers, Table)
        assert numbers.rows[0].cells == (None, None)
        PANEL.turn(odd, last)
