"""PERM's page, worked by hand: grades, ablations, pairs of grades, and the steps of a sum."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import Estimate, Table
from heartloop.core.dialogue import Transcript
from heartloop.environments.perm.report import (
    FAMILIES,
    VARIANTS,
    ablated,
    answer,
    build,
    graded,
    marks_of,
    pair_table,
)
from heartloop.environments.perm.scenario import EMOTIONS
from tests.report.talks import PERM, WriteRun, pages_of_runs, perm_talk

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


def board_of(run: Path) -> Mapping[str, Any]:
    board: Mapping[str, Any] = build(pages_of_runs(run)[0].panel_input).context["perm"]
    return board


@pytest.fixture
def board(write_run: WriteRun) -> Mapping[str, Any]:
    return board_of(write_run(perm_talks(), **PERM))


def cells_of(table: Table) -> dict[str, dict[str, Any]]:
    """The cells of a table, by row and column."""
    return {row.head: dict(zip([column.name for column in table.columns], row.cells, strict=True)) for row in table.rows}


def means_of(cells: Mapping[str, Any]) -> dict[str, float]:
    return {name: round(cell.mean, 2) for name, cell in cells.items() if isinstance(cell, Estimate)}


def test_grades_are_means_over_graded_answers_and_answers_are_counted(board: Mapping[str, Any]) -> None:
    # ranked on s1 and s2, which are scored for every model: s3 of x/third is not
    cells = cells_of(board["grades"])
    assert means_of(cells["x/even"]) == {"Reward": 70, "Resonation": 4, "Expression": 4, "Reception": 4, "Bystander": 80}
    assert cells["x/showy"]["Resonation"].n == 2
    assert cells["heartloop/garbage"]["Resonation"] is None
    assert {model: row["Answers"] for model, row in cells.items()} == {
        "x/even": "3 graded, 0 invalid, 0 unscored",
        "x/showy": "2 graded, 1 invalid (1: no line is `# Analysis`), 0 unscored",
        "x/third": "2 graded, 0 invalid, 1 unscored",
        "heartloop/garbage": "0 graded, 3 invalid (3: a heading occurs twice), 0 unscored",
    }


def test_a_broken_form_enters_the_reward_at_its_price_and_no_grade(write_run: WriteRun) -> None:
    talks = [perm_talk("x/a", "s1", EVEN), perm_talk("x/a", "s2", None, broken="no response")]
    board = board_of(write_run(talks, **PERM))
    cells = cells_of(board["grades"])["x/a"]
    assert cells["Reward"].mean == pytest.approx((70 - 50) / 2)
    assert cells["Bystander"].mean == 80
    assert cells_of(board["ablations"][0])["x/a"]["All parts"].startswith("10.0")


def test_the_sum_in_points(board: Mapping[str, Any]) -> None:
    cells = cells_of(board["terms"])
    assert list(means_of(cells["x/showy"]).values()) == [42.86, -20, 0, 100]
    assert cells["x/third"]["Length penalty"].mean == -5  # one of two answers is 100 tokens too long: -10 and 0


def test_the_five_marks_are_there_or_none_is() -> None:
    five = {"relevant": 20, "clear": 0, "concise": 3.5, "sober": 1, "accurate": 2}
    assert marks_of({"bystander": five}) == five
    for wrong in ({**five, "clear": 21}, {**five, "clear": "much"}, {"relevant": 3}, "five", None):
        assert marks_of({"bystander": wrong}) == {}


def test_families_hold_every_emotion_once() -> None:
    assert sorted(emotion for family in FAMILIES.values() for emotion in family) == sorted(EMOTIONS)


def test_emotions_and_wants_are_means_of_the_reward(board: Mapping[str, Any]) -> None:
    by_name = {name: (cells, lines) for name, cells, lines in board["emotions"]}
    assert list(by_name) == ["sure of oneself", "sad"]
    (even, showy, third, _), lines = by_name["sad"]
    assert even.mean == pytest.approx(70)
    assert showy.mean == pytest.approx(100 * (3 / 7 - 0.2))
    assert third.n == 1
    assert by_name["sure of oneself"][0][-1][:2] == (-50, 3)  # garbage, all of it broken
    assert lines[0][0] == "sad"
    assert cells_of(board["wants"])["x/even"]["Company"].mean == pytest.approx(70)


def test_ablation_worked_by_hand(board: Mapping[str, Any]) -> None:
    answers = {row.model: answers for _, row, answers in board["shown"]}
    assert {name: round(ablated(answers["x/showy"], "released", name), 2) for name in VARIANTS} == {
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
    third = [ablated(answers["x/third"], "released", name) for name in ("all parts", "no length")]
    assert third == pytest.approx([10, 15])
    assert ablated(answers["x/even"], "unit", "all parts") == pytest.approx(65)  # 0.75 - 0.1
    assert ablated(answers["x/showy"], "unit", "all parts") == pytest.approx(-20)  # one share is 0


def test_the_order_of_models_and_what_a_part_does_to_it(board: Mapping[str, Any]) -> None:
    released, _ = board["ablations"]
    assert {row.head: row.cells[:2] for row in released.rows} == {
        "x/even": ("70.0 #1", "70.0 #2 ▼ 1"),
        "x/showy": ("22.9 #2", "80.0 #1 ▲ 1"),
        "x/third": ("10.0 #3", "10.0 #3"),
        "heartloop/garbage": ("-50.0", "-50.0"),
        # ranks 1 2 3 against 2 1 3: 1 - 6 x (1 + 1 + 0) / (3 x 8) = 0.5
        "Spearman’s ρ with the full reward, 3 models": ("1.00", "0.50"),
    }


def test_a_variant_keeps_the_weight_that_was_played_with_unless_it_sets_one() -> None:
    found = [g for g in [graded(perm_talk("m", "s", SHOWY, weight=0.1))] if g is not None]
    assert ablated(found, "released", "all parts") == pytest.approx(100 * (3 / 7 - 0.04))
    assert ablated(found, "released", "bystander 0.5") == pytest.approx(100 * (3 / 7 - 0.2))


def test_a_pair_is_counted_once_and_higher_is_further_up() -> None:
    talks = [perm_talk("m", f"s{n}", grades) for n, grades in enumerate([EVEN, EVEN, SHOWY, (1, 5, 5, 100), (2, 2, 3, 19)])]
    found = [g for talk in talks if (g := graded(talk)) is not None]
    broken = graded(perm_talk("m", "s9", None, broken="empty"))
    assert broken is not None
    pairs = pair_table("resonation", "reception", [*found, broken])
    assert pairs["rows"] == [
        ("5", [2, 0, 0, 0, 0]), ("4", [0, 0, 0, 2, 0]), ("3", [0, 1, 0, 0, 0]), ("2", [0] * 5), ("1", [0] * 5),
    ]  # fmt: skip
    assert (pairs["n"], pairs["most"]) == (5, 2)
    assert dict(pair_table("expression", "bystander", found)["rows"]) == {
        "80–100": [0, 0, 0, 2, 1], "60–79": [0, 0, 0, 0, 1], "40–59": [0] * 5, "20–39": [0] * 5, "0–19": [0, 1, 0, 0, 0],
    }  # fmt: skip
    assert pair_table("resonation", "reception", found[:1])["rho"] is None


def test_all_models_together_leave_failure_cases_out(board: Mapping[str, Any]) -> None:
    assert {pairs["n"] for pairs in board["pairs"]} == {6}
    assert [row.model for _, row, _ in board["pairs_by_model"]][-1] == "heartloop/garbage"


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
        assert graded(odd) is None
        assert answer(odd)["answer"].keys() == {"parts"}
