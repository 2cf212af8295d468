"""The report of EQ-Bench3 runs: marks with intervals, PERM's printed table apart, sections and marks in a dialogue."""

from __future__ import annotations

import pytest

from heartloop.core.blocks import Estimate, Table
from heartloop.core.dialogue import Failure, Transcript, Turn
from heartloop.environments.eqbench.report import PRINTED, build, mean_mark
from tests.report.panels import panel_input
from tests.report.sage_bench import transcript

HOSTILE = "</script><img src=x onerror='hacked=1'>"


def talk(model: str, scenario: str, kind: str, marks: dict[str, float], style: dict[str, float] | None = None) -> Transcript:
    """A dialogue of two turns with its marks; without marks it is unscored."""
    score = 5 * sum(marks.values()) / len(marks) if marks else None
    first = {"part": "answer", "sections": {"I feel": HOSTILE, "I say": ""}, "missing": ["I say"]}
    last = {"part": "debrief", "counted": marks, "style": style or {}, "reasoning": f"Because {HOSTILE}"}
    return transcript(
        "eqbench",
        model,
        scenario,
        variant="repaired",
        user="lab/judge",
        facts={
            "kind": kind, "category": "Neighbours", "theme": "Neighbours", "title": f"Scene {scenario}",
            "person": "Written prompts",
        },
        models={"policy": model, "judge": "lab/judge"},
        opening="A prompt.",
        start={},
        turns=(
            Turn(index=0, reply="# I feel\nsad", evidence=first, message="Now reflect."),
            Turn(index=1, reply="It went well.", state={}, change={}, evidence=last if marks else {}, thoughts={"judge": "x"}),
        ),
        failure=None if marks else Failure(role="rubric judge", kind="AnswerError", detail="no marks"),
        score=score,
        rewards=() if score is None else (score,),
        counts={"missing sections": 1},
    )  # fmt: skip


DIALOGUES = [
    talk("x/good", "1", "role-play", {"demonstrated_empathy": 14, "depth_of_insight": 10}, {"warmth": 18}),
    talk("x/good", "2", "role-play", {"demonstrated_empathy": 16, "depth_of_insight": 14}, {"warmth": 16}),
    talk("x/good", "401", "analysis", {"depth_of_insight": 6, "accuracy": 8}),
    talk("x/poor", "1", "role-play", {"demonstrated_empathy": 4, "depth_of_insight": 2}, {"warmth": 2}),
    talk("x/poor", "2", "role-play", {"demonstrated_empathy": 6, "depth_of_insight": 4}, {"warmth": 4}),
    talk("x/poor", "401", "analysis", {"depth_of_insight": 3, "accuracy": 3}),
    talk("x/poor", "3", "conversation", {}),
]


@pytest.fixture
def tables() -> list[Table]:
    return [block for block in build(panel_input(DIALOGUES)).blocks if isinstance(block, Table)]


class TestMarks:
    def test_those_that_count_come_first_each_with_its_mean_and_interval(self, tables: list[Table]) -> None:
        counted, style, _ = tables
        assert [row.head for row in counted.rows] == ["demonstrated empathy", "depth of insight", "accuracy"]
        assert [row.head for row in style.rows] == ["warmth"]
        insight, accuracy = counted.rows[1].cells[0], counted.rows[2].cells[0]
        assert isinstance(insight, Estimate)
        assert isinstance(accuracy, Estimate)
        assert (insight.mean, insight.n) == (10.0, 3)  # (10 + 14 + 6) / 3, over role-plays and the analysis
        assert insight.low is not None
        assert insight.low == pytest.approx(10 - 4.30265 * 4 / 3**0.5, rel=1e-4)  # standard deviation 4
        assert (accuracy.mean, accuracy.low) == (8.0, None)  # one scenario has no interval

    def test_the_seven_of_the_printed_table_and_kinds(self, tables: list[Table]) -> None:
        mine = [dialogue for dialogue in DIALOGUES if dialogue.model == "x/good"]
        assert {name for name in PRINTED if mean_mark(mine, name)} == {"depth_of_insight", "demonstrated_empathy", "warmth"}
        kinds = tables[-1]
        assert [column.name for column in kinds.columns] == ["Role-play", "Analysis"]
        play = kinds.rows[0].cells[0]
        assert isinstance(play, Estimate)
        assert play.mean == pytest.approx((60 + 75) / 2)

    def test_marks_that_are_no_numbers_are_passed_over(self) -> None:
        turn = DIALOGUES[0].turns[0].model_copy(update={"evidence": {"counted": ["x"]}})
        odd = DIALOGUES[0].model_copy(update={"turns": (turn,)})
        assert [block.title for block in build(panel_input([odd])).blocks] == ["By kind of scenario"]
