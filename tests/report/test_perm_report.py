"""What stands on PERM's page, worked by hand.

1. Grades are averaged over graded answers alone; a broken form is counted, enters the reward at its price, and nothing else.
2. Sums, ablations and orders follow from the stored grades: no other formula, no call.
3. Pairs are counts; every graded answer stands in exactly one cell.
4. The best, the worst and the samples apart lead to their answers with what was said of them.
5. The face of the page names preset, share and weight; hostile text stays text.
"""

from __future__ import annotations

from typing import get_args

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.report import (
    FAMILIES,
    MOST_APART,
    VARIANTS,
    PermBoard,
    ablations,
    answer,
    graded,
    marks_of,
    pair_table,
)
from heartloop.environments.perm.scenario import EMOTIONS, Want
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.page import Page
from tests.report.perm_bench import PERM, perm_talk
from tests.report.sage_bench import WriteRun

EVEN = (4, 4, 4, 80)
"""By `released` shares of 0.8 and so a mean of 0.8; the bystander takes 0.5 x 0.2 = 0.1: 70 points."""
SHOWY = (1, 5, 5, 60)
"""Shares 0.2, 1, 1: the mean is 3 / (5 + 1 + 1) = 3/7; the bystander takes 0.2: 22.857 points."""


def perm_talks() -> list[Transcript]:
    """Three models: one even, one showy with a broken form, one with an unscored answer; a failure case."""
    return [
        perm_talk("x/even", "s1", EVEN),
        perm_talk("x/even", "s2", EVEN, emotion="sad", want="company"),
        perm_talk("x/even", "s3", (5, 4, 4, 90), emotion="sad", want="company"),
        perm_talk("x/showy", "s1", SHOWY),
        perm_talk("x/showy", "s2", SHOWY, emotion="sad", want="company"),
        perm_talk("x/showy", "s3", None, broken="no analysis", emotion="sad", want="company"),
        perm_talk("x/third", "s1", (2, 2, 2, 50), tokens=868),
        perm_talk("x/third", "s2", (2, 2, 2, 50), emotion="sad", want="company"),
        perm_talk("x/third", "s3", None, emotion="sad", want="company"),
        *(perm_talk("heartloop/garbage", s, None, broken="twice") for s in ("s1", "s2", "s3")),
    ]


@pytest.fixture
def page(write_run: WriteRun) -> Page:
    measurement = comparable([read_run(write_run(perm_talks(), **PERM))])[0]
    return Page(measurement, score_card(measurement.transcripts, measurement.settings), 1)


@pytest.fixture
def board(page: Page) -> PermBoard:
    return PermBoard(page.panel_input)


# --- 1. grades ------------------------------------------------------------------------------------


def test_grades_are_means_over_graded_answers_and_a_broken_form_has_none(board: PermBoard) -> None:
    # ranked on s1 and s2, which are scored for every model: s3 of x/third is not
    assert {name: seen.mean for name, seen in board.grades["x/even"].items()} == {
        "resonation": 4, "expression": 4, "reception": 4, "bystander": 80,
    }  # fmt: skip
    assert board.grades["x/showy"]["resonation"].n == 2
    assert "heartloop/garbage" not in board.grades


def test_answers_are_counted_by_what_became_of_them(board: PermBoard) -> None:
    assert board.answers["x/even"]._asdict() == {"graded": 3, "broken": 0, "kinds": [], "unscored": 0}
    assert board.answers["x/showy"].kinds == [("no line is `# Analysis`", 1)]
    assert board.answers["x/third"]._asdict() == {"graded": 2, "broken": 0, "kinds": [], "unscored": 1}
    garbage = board.answers["heartloop/garbage"]
    assert (garbage.graded, garbage.kinds) == (0, [("a heading occurs twice", 3)])
    assert board.broken == 1  # a failure case is there to be broken


def test_a_broken_form_enters_the_reward_at_its_price_and_no_grade(write_run: WriteRun) -> None:
    talks = [perm_talk("x/a", "s1", EVEN), perm_talk("x/a", "s2", None, broken="no response")]
    measurement = comparable([read_run(write_run(talks, **PERM))])[0]
    page = Page(measurement, score_card(measurement.transcripts, measurement.settings), 1)
    board = PermBoard(page.panel_input)
    assert page.card.models[0].headline.mean == pytest.approx((70 - 50) / 2)
    assert board.grades["x/a"]["bystander"].mean == 80
    assert board.ablations[0].rows[0].cells[0].mean == pytest.approx(10)


def test_the_sum_in_points(board: PermBoard) -> None:
    sums = board.means(board.sums)
    told = {model: {name: round(seen.mean, 2) for name, seen in parts.items()} for model, parts in sums.items()}
    assert told["x/showy"] == {"empathy": 42.86, "bystander": -20, "length": 0, "tokens": 100}
    assert told["x/third"]["length"] == -5  # one of two answers is 100 tokens too long: -10 and 0


def test_the_five_marks_are_there_or_none_is() -> None:
    five = {"relevant": 20, "clear": 0, "concise": 3.5, "sober": 1, "accurate": 2}
    assert marks_of({"bystander": five}) == five
    for wrong in ({**five, "clear": 21}, {**five, "clear": "much"}, {"relevant": 3}, "five", None):
        assert marks_of({"bystander": wrong}) == {}


def test_families_hold_every_emotion_once_and_wants_are_all_there(board: PermBoard) -> None:
    members = [emotion for family in FAMILIES.values() for emotion in family]
    assert sorted(members) == sorted(EMOTIONS)
    assert board.wants == get_args(Want)


def test_emotions_and_wants_are_means_of_the_reward(board: PermBoard) -> None:
    by_name = {family.name: family for family in board.emotions}
    assert list(by_name) == ["sure of oneself", "sad"]
    even, showy, third, _ = by_name["sad"].cells
    assert even.mean == pytest.approx(70)
    assert showy.mean == pytest.approx(100 * (3 / 7 - 0.2))
    assert third.n == 1
    assert by_name["sure of oneself"].cells[-1][:2] == (-50, 3)  # garbage, all of it broken
    assert by_name["sad"].lines[0][0] == "sad"
    assert board.by_want["x/even"]["company"].mean == pytest.approx(70)


# --- 2. ablation ----------------------------------------------------------------------------------


def test_ablation_worked_by_hand(board: PermBoard) -> None:
    released, unit = board.ablations
    assert (released.preset, released.own, unit.preset, unit.own) == ("released", True, "unit", False)
    names = [variant.name for variant in VARIANTS]
    rows = {line.score.model: dict(zip(names, line.cells, strict=True)) for line in released.rows}
    told = {name: round(cell.mean, 2) for name, cell in rows["x/showy"].items()}
    assert told == {
        "all parts": 22.86,
        "no resonation": 80,  # shares 1 and 1, less 0.2
        "no expression": 13.33,  # 2 / (5 + 1) = 1/3, less 0.2
        "no reception": 13.33,
        "no bystander": 42.86,
        "bystander 0.1": 38.86,
        "bystander 0.5": 22.86,
        "bystander 1.0": 2.86,
        "no length": 22.86,
    }
    # x/third: shares 0.4, the bystander takes 0.25, the length 0.05 on average: 10; without the length 15
    assert rows["x/third"]["no length"].mean - rows["x/third"]["all parts"].mean == pytest.approx(5)
    by_unit = {line.score.model: line.cells[0].mean for line in unit.rows}
    assert by_unit["x/even"] == pytest.approx(65)  # 0.75 - 0.1
    assert by_unit["x/showy"] == pytest.approx(-20)  # one share is 0


def test_the_order_of_models_and_what_a_part_does_to_it(board: PermBoard) -> None:
    released = board.ablations[0]
    ranks = {line.score.model: [(cell.rank, cell.moved) for cell in line.cells[:2]] for line in released.rows}
    assert ranks == {
        "x/even": [(1, 0), (2, -1)],
        "x/showy": [(2, 0), (1, 1)],
        "x/third": [(3, 0), (3, 0)],
        "heartloop/garbage": [(None, 0), (None, 0)],
    }
    # ranks 1 2 3 against 2 1 3: 1 - 6 x (1 + 1 + 0) / (3 x 8) = 0.5
    assert released.agreement[:2] == [pytest.approx(1), pytest.approx(0.5)]
    assert released.ranked == 3


def test_one_model_has_no_order(board: PermBoard) -> None:
    alone = ablations(board.members[:1], "released")[0]
    assert alone.agreement == [None] * len(VARIANTS)
    assert ablations([], "released") == []


def test_a_variant_keeps_the_weight_that_was_played_with_unless_it_sets_one() -> None:
    found = [g for g in [graded(0, perm_talk("m", "s", SHOWY, weight=0.1))] if g is not None]
    row = score_card([found[0].dialogue], {}).models[0]
    cells = dict(
        zip([variant.name for variant in VARIANTS], ablations([(0, row, found)], "released")[0].rows[0].cells, strict=True)
    )
    assert cells["all parts"].mean == pytest.approx(100 * (3 / 7 - 0.04))
    assert cells["bystander 0.5"].mean == pytest.approx(100 * (3 / 7 - 0.2))


# --- 3. pairs -------------------------------------------------------------------------------------


def test_a_pair_is_counted_once_and_higher_is_further_up() -> None:
    talks = [perm_talk("m", f"s{n}", grades) for n, grades in enumerate([EVEN, EVEN, SHOWY, (1, 5, 5, 100), (2, 2, 3, 19)])]
    found = [g for n, talk in enumerate(talks) if (g := graded(n, talk)) is not None]
    table = pair_table("resonation", "reception", [*found, graded(9, perm_talk("m", "s9", None, broken="empty"))])  # type: ignore[list-item]
    assert [name for name, _ in table.rows] == ["5", "4", "3", "2", "1"]
    assert [[count.n for count in counts] for _, counts in table.rows] == [
        [2, 0, 0, 0, 0], [0, 0, 0, 2, 0], [0, 1, 0, 0, 0], [0] * 5, [0] * 5,
    ]  # fmt: skip
    assert table.n == 5
    beside = pair_table("expression", "bystander", found)
    told = {name: [count.n for count in counts] for name, counts in beside.rows}
    assert told == {
        "80–100": [0, 0, 0, 2, 1], "60–79": [0, 0, 0, 0, 1], "40–59": [0] * 5, "20–39": [0] * 5, "0–19": [0, 1, 0, 0, 0],
    }  # fmt: skip
    assert pair_table("resonation", "reception", found[:1]).rho is None


def test_all_models_together_leave_failure_cases_out(board: PermBoard) -> None:
    assert {table.n for table in board.pairs} == {6}
    assert [row.model for _, row, _ in board.pairs_by_model][-1] == "heartloop/garbage"


# --- 4. samples -----------------------------------------------------------------------------------


def test_best_and_worst_come_with_what_was_said(board: PermBoard) -> None:
    third = next(mine for mine in board.samples if mine.score.model == "x/third")
    assert [round(found.points) for found in third.best] == [15, 5]
    assert third.worst == []  # no answer is both
    said = third.best[0].judged
    assert [(one.judge, one.score, one.top) for one in said] == [
        ("resonation", 2, 5), ("expression", 2, 5), ("reception", 2, 5), ("bystander", 50, 100),
    ]  # fmt: skip
    assert (said[0].reason, said[0].quote) == ("The resonation judge has a reason.", "x/third sees that it matters.")
    garbage = next(mine for mine in board.samples if mine.score.model == "heartloop/garbage")
    assert (garbage.best[0].broken, garbage.best[0].judged) == ("a heading occurs twice", [])


def test_the_samples_apart_are_those_with_the_largest_spread_and_failure_cases_do_not_widen_it(board: PermBoard) -> None:
    first = board.apart[0]
    assert first.spread == pytest.approx(70 - 5)  # s1: x/third lost 10 to its length
    assert [None if cell is None else round(cell.points) for cell in first.cells] == [70, 23, 5, -50]
    assert len(board.apart) == 2 <= MOST_APART


# --- 5. the page and the answer -------------------------------------------------------------------


def test_an_answer_opened_has_both_parts_the_judges_and_the_sum() -> None:
    shown = answer(perm_talk("m", "s", SHOWY, tokens=868))["answer"]
    assert [name for name, _ in shown["parts"]] == ["Analysis", "Response"]
    assert [(one["name"], one["part"], one["score"], one["top"]) for one in shown["judges"]] == [
        ("resonation", 0, 1, 5), ("expression", 1, 5, 5), ("reception", 1, 5, 5), ("bystander", 1, 60, 100),
    ]  # fmt: skip
    assert shown["judges"][0]["places"] == [[0, len("m sees that it matters")]]
    assert shown["judges"][0]["seen"] == [["feelings", "pride"], ["need", "no"]]
    assert [mark for _, _, mark in shown["judges"][3]["marks"]] == [12] * 5
    assert shown["sum"] == [
        ["resonation", "1 / 5 = 0.20"],
        ["expression", "5 / 5 = 1.00"],
        ["reception", "5 / 5 = 1.00"],
        ["harmonic mean", "3 / (1/0.20 + 1/1.00 + 1/1.00) = 0.429"],
        ["bystander", "0.5 × (60 / 100 − 1) = −0.200"],
        ["length", "−0.001 × max(868 − 768, 0) = −0.100"],
        ["reward", "0.429 − 0.200 − 0.100 = 0.129"],
    ]


def test_the_sum_by_unit_and_without_a_bystander() -> None:
    told = dict(answer(perm_talk("m", "s", SHOWY, preset="unit", weight=0.0))["answer"]["sum"])
    assert told["resonation"] == "(1 − 1) / 4 = 0.00"
    assert told["harmonic mean"] == "a share is 0, so the mean is 0: 0.000"
    assert told["bystander"] == "the weight is 0: 0"
    assert told["reward"] == "0.000 + 0.000 + 0.000 = 0.000"


def test_the_sum_tells_what_was_left_out() -> None:
    talk = perm_talk("m", "s", SHOWY)
    facts = {**talk.facts, "without": "resonation length"}
    told = dict(answer(talk.model_copy(update={"facts": facts}))["answer"]["sum"])
    assert (told["resonation"], told["length"]) == ("left out", "left out: 0")
    assert told["harmonic mean"] == "2 / (1/1.00 + 1/1.00) = 1.000"
    assert told["reward"] == "1.000 − 0.200 + 0.000 = 0.800"


def test_a_broken_or_unscored_answer_is_shown_as_such() -> None:
    broken = answer(perm_talk("m", "s", None, broken="text before"))["answer"]
    assert broken["broken"] == "text precedes `# Analysis`"
    assert broken["sum"] == [["reward", "-50 points: the form is invalid, so the answer is not judged"]]
    assert "judges" not in broken
    assert answer(perm_talk("m", "s", None)) == {}


def test_grades_that_do_not_fit_are_no_grades() -> None:
    talk = perm_talk("m", "s", EVEN)
    for wrong in ({"scores": {"resonation": 4}}, {"scores": "four"}, {"tokens": "many"}, {"scores": None}):
        turn = talk.turns[0].model_copy(update={"evidence": {**talk.turns[0].evidence, **wrong}})
        odd = talk.model_copy(update={"turns": (turn,)})
        assert graded(0, odd) is None
        assert answer(odd)["answer"].keys() == {"parts"}
