"""The score card, worked by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from heartloop.core.dialogue import Call, Failure, Transcript, Usage
from heartloop.core.errors import UseError
from heartloop.evaluation.leaderboard import cautions, in_lines, leaderboard, ranking, scripted_note
from heartloop.evaluation.scores import Cause, GroupMean, ScoreCard, score_card
from heartloop.evaluation.store import write_scores
from heartloop.models.budget import Meter, Price
from heartloop.scoring.statistics import Shape
from tests.report.talks import talk


def test_a_card_worked_by_hand(dialogues: list[Transcript]) -> None:
    card = score_card(dialogues, {})
    # s3 failed for x/plain, so the common set is {s1, s2}:
    #   good  (100 + 55) / 2 = 77.5, one success;  plain (45 + 30) / 2 = 37.5;  mute (5 + 5) / 2 = 5, two failures
    assert [(m.model, m.rank, m.headline.mean, m.headline.success, m.headline.failure) for m in card.models] == [
        ("x/good", 1, 77.5, 1, 0), ("x/plain", 2, 37.5, 0, 0), ("x/mute", 3, 5.0, 0, 2), ("heartloop/garbage", None, 5.0, 0, 1),
    ]  # fmt: skip
    assert card.common == 2
    assert (card.played, card.scored, card.unscored) == (10, 9, 1)
    good, plain, mute, garbage = card.models
    assert good.own.n == 3
    assert good.own.mean == pytest.approx((100 + 55 + 45) / 3)
    # one success of two scenarios, z = 1.96: middle 0.5, reach 1.95996 / 2.92073 * sqrt(0.125 + 0.24009) = 0.40547
    ends = (good.headline.success_percent, good.headline.success_low, good.headline.success_high)
    assert ends == pytest.approx((50.0, 9.453, 90.547), abs=1e-3)
    # two clusters, 100 and 55: error 22.5, t 12.7: beyond the scale on both sides
    assert (good.headline.low, good.headline.high) == (0.0, 100.0)
    assert garbage.headline.low is None  # one person gives no interval
    assert plain.causes == (Cause(role="user", kind="AnswerError", n=1),)
    assert plain.flagged
    assert card.flagged  # 1 of 10
    assert mute.silences == 6
    assert good.median_turns == 3
    assert mute.tokens_per_dialogue == pytest.approx((0 + 100 + 100) / 3)
    assert good.groups == (GroupMean(key="advice", n=1, mean=55.0), GroupMean(key="listen", n=1, mean=100.0))
    assert good.stops == {"success": 1, "turn_limit": 2}


def test_characters_a_reply_worked_by_hand() -> None:
    """Over replies and not over dialogues: (4 + 4 + 7) / 3; an unscored dialogue counts nowhere."""
    lost = talk("m", "s3", [1], text="not counted", stop="failed", failure=Failure(role="user", kind="AnswerError", detail=""))
    card = score_card([talk("m", "s1", [1, 1], text="Yes."), talk("m", "s2", [1], text="And so?"), lost], {})
    assert card.models[0].characters_per_reply == 5.0
    assert score_card([lost], {}).models[0].characters_per_reply is None


def test_replies_repeated_in_other_scenarios_worked_by_hand() -> None:
    def saying(scenario: str, *replies: str, **more: Any) -> Transcript:
        talked = talk("x/m", scenario, [1] * len(replies), **more)
        turns = [turn.model_copy(update={"reply": said}) for turn, said in zip(talked.turns, replies, strict=True)]
        return talked.model_copy(update={"turns": tuple(turns)})

    failed = saying("s3", "And then?", failure=Failure(role="user", kind="AnswerError", detail="no JSON"))
    again = saying("s2", "And then?", repeat=1)
    card = score_card([saying("s1", "I see.", "Which door?"), saying("s2", "i  SEE.", "And then?"), again, failed], {})
    assert card.models[0].said_to_others == pytest.approx(2 / 5)  # "And then?" to others was said in vain
    assert len(cautions(card)) == 1
    assert score_card([saying("s1", "I see.")], {}).models[0].said_to_others is None


def test_replies_that_a_bot_failed_to_give_are_counted_and_named_under_the_table() -> None:
    fine = talk("m", "s1", [5, 5])
    failed = fine.model_copy(update={"turns": tuple(turn.model_copy(update={"error": "it raised"}) for turn in fine.turns)})
    for dialogue, number in ((fine, 0), (failed, 2)):
        card = score_card([dialogue], {})
        assert card.models[0].failed_replies == number
        assert any("failed at 2 replies" in caution for caution in cautions(card)) == bool(number)


def test_rank_groups_worked_by_hand() -> None:
    # To a: b differs by 10, -1, 4, which is within chance; c by 15, 15, 16: t 46. b and c differ by 5, 16, 12: t 3.4, p 0.08
    finals = {"a": (60, 60, 60), "b": (50, 61, 56), "c": (45, 45, 44)}
    mine = [talk(m, s, [end - 40]) for m, ends in finals.items() for s, end in zip(("s1", "s2", "s3"), ends, strict=True)]
    rows = score_card(mine, {}).models
    assert [(row.model, row.group) for row in rows] == [("a", "A"), ("b", "A"), ("c", "B")]
    assert [(row.best_rank, row.worst_rank) for row in rows] == [(1, 2), (1, 3), (2, 3)]


def test_other_bounds_only_recount(dialogues: list[Transcript]) -> None:
    # on s1 and s2: good 100 and 55, plain 45 and 30, mute 5 and 5
    usual, other = score_card(dialogues, {}), score_card(dialogues, {"options": {"success_at": 55, "failure_below": 31}})
    assert (usual.success_at, usual.failure_below) == (100, 10)
    assert (other.success_at, other.failure_below) == (55, 31)
    assert [(m.headline.success, m.headline.failure) for m in other.models[:3]] == [(2, 0), (0, 1), (0, 2)]
    assert [m.headline.mean for m in other.models] == [m.headline.mean for m in usual.models]
    with pytest.raises(UseError, match="failure below success"):
        score_card(dialogues, {"options": {"success_at": 30, "failure_below": 31}})


def test_the_notes_name_what_is_missing(dialogues: list[Transcript]) -> None:
    notes = " ".join(score_card(dialogues, {"models": ["x/good", "x/absent"], "scenarios": ["s1", "s2", "s3"]}).notes)
    assert "1 of 10 dialogues (10%) is unscored (1 x" in notes
    assert "uses the 2 dialogues scored for every model; the best-covered model has 3, x/plain only 2" in notes
    assert "x/absent has no scored dialogue" in notes
    assert "unfinished: 5 of 15" in notes  # garbage lacks 2, absent 3


def test_a_retried_dialogue_counts_once_the_last_time() -> None:
    failed = talk("m", "s1", [5], stop="failed", failure=Failure(role="policy", kind="TransportError", detail="timeout"))
    card = score_card([failed, talk("m", "s2", [0]), talk("m", "s1", [10])], {})
    assert (card.played, card.scored, card.unscored, card.replaced) == (2, 2, 0, 1)
    assert card.models[0].own.mean == 45.0


def test_a_person_whose_story_changed_is_not_the_same_person() -> None:
    card = score_card([talk("a", "s1", [5]), talk("b", "s1", [9], fingerprint="other")], {})
    assert card.common == 0
    assert [model.standing for model in card.models] == ["unranked", "unranked"]
    assert "share no scored scenario" in card.notes[0]


def test_equal_means_share_a_rank() -> None:
    card = score_card([talk("a", "s1", [5]), talk("b", "s1", [5]), talk("c", "s1", [0])], {})
    assert [model.rank for model in card.models] == [1, 1, 3]


def test_models_that_tie_are_listed_by_turns_which_the_terminal_shows() -> None:
    both = [talk("slow", "s1", [6] * 10), talk("quick", "s1", [10] * 6)]
    console = Console(width=80, file=StringIO(), color_system=None, record=True)
    console.print(leaderboard(score_card(both, {})))
    text = console.export_text()
    assert [(row.model, row.rank) for row in score_card(both, {}).models] == [("quick", 1), ("slow", 1)]
    assert re.search(r"turns", text)
    assert "turns" not in str([column.header for column in ranking(score_card(both[:1], {})).columns])


def test_a_reask_that_failed_in_vain_is_not_a_repair() -> None:
    def call(turn: int, reask: int, purpose: str = "feel") -> Call:
        return Call(role="user", purpose=purpose, turn=turn, text="?", reask=reask, usage=Usage(prompt_tokens=7))

    mended = [call(0, 0), call(0, 1), call(1, 0), call(1, 1), call(1, 2)]
    broken = Failure(role="user", kind="AnswerError", detail="no number")
    fine = talk("m", "s1", [5, 5], calls=mended, counts={"re-asks": 3})
    failed = talk("m", "s2", [5], calls=mended, counts={"re-asks": 3}, stop="failed", failure=broken)
    farewell = [*mended, call(1, 0, "speak"), call(1, 1, "speak")]
    lost = talk("m", "s3", [5, 5], calls=farewell, counts={"re-asks": 4, "lost farewells": 1})
    row = score_card([fine, failed, lost], {}).models[0]
    # fine: turns 0 and 1; failed: turn 0 alone; lost: both appraisals, not the farewell
    assert (row.reasks, row.repaired, row.lost_farewells) == (10, 5, 1)
    assert row.roles["policy"].calls == 0


def test_a_barely_scored_model_does_not_take_the_ranking_along() -> None:
    """`full` has all 20 scored, `half` 10 of 20, `bare` 1 of 20: half is enough, less is not ranked and shrinks nothing."""
    broken = Failure(role="user", kind="TransportError", detail="timeout")

    def played(model: str, scored: int) -> list[Transcript]:
        lost = [talk(model, f"s{n}", [], stop="failed", failure=broken) for n in range(scored, 20)]
        return [*(talk(model, f"s{n}", [10]) for n in range(scored)), *lost]

    card = score_card([*played("full", 20), *played("half", 10), *played("bare", 1)], {})
    assert [row.standing for row in card.models] == ["ranked", "ranked", "unranked"]
    assert ([row.headline.n for row in card.models], card.common) == ([10, 10, 1], 10)
    alone = score_card(played("bare", 1), {})
    assert (alone.models[0].standing, alone.common) == ("unranked", 0)


def test_seeds_add_up_and_the_interval_is_over_people() -> None:
    """Final emotions 50 for s1 and 30 for s2 under each of three seeds: two clusters with an error of 10, whatever the seeds."""
    people = [talk("m", "s1", [10]), talk("m", "s2", [-10])]
    card = score_card([person.model_copy(update={"seed": seed}) for seed in (0, 1, 2) for person in people], {})
    assert (card.replaced, card.common) == (0, 6)
    seen = card.models[0].headline
    assert (seen.n, seen.mean, seen.low, seen.high) == (6, 40.0, 0.0, 100.0)
    assert seen.shape is Shape.NEAR_NORMAL


def test_cost_is_what_the_meter_says() -> None:
    """Free models cost nothing without a price, and what it says with one; a paid model without a price leaves no sum."""
    usage = {
        "policy": Usage(prompt_tokens=1_000_000, completion_tokens=500_000),
        "user": Usage(prompt_tokens=3_000_000, completion_tokens=1_000_000),
    }
    pair = {"openai/a": Price(2.0, 8.0)}
    cases: list[tuple[str, str, dict[str, Price], float | None]] = [
        ("vllm/qwen", "python:my.user", {}, 0.0),
        ("vllm/qwen", "embedded", {"vllm/qwen": Price(1.0, 2.0)}, 2.0),  # 1 + 1
        ("openai/a", "embedded", pair, 6.0),  # 2 + 4
        ("openai/a", "openai/b", {**pair, "openai/b": Price(1.0, 1.0)}, 10.0),  # 2 + 4 + 3 + 1
        ("openai/a", "embedded", {}, None),
    ]
    for policy, simulator, prices, expected in cases:
        meter = Meter(prices=prices)
        meter.record(policy, "policy", usage["policy"])
        meter.record(simulator, "user", usage["user"])
        dialogue = talk(policy, "s1", [5], user=simulator).model_copy(update={"usage": usage})
        by_hand = {name: price._asdict() for name, price in prices.items()}  # as settings.json has it
        assert [score_card([dialogue], {"prices": form}).models[0].cost for form in (prices, by_hand)] == [expected] * 2
        assert meter.spend().cost == expected


def test_nothing_scored_is_said_and_nothing_is_ranked() -> None:
    broken = Failure(role="user", kind="TransportError", detail="timeout")
    card = score_card([talk("m", "s1", [], stop="failed", failure=broken)], {})
    assert card.models[0].rank is None
    assert card.models[0].headline.mean is None
    assert "1 of 1 dialogue (100%) is unscored (1 x user simulator: no answer)" in card.notes[0]
    assert "no model is ranked" in card.notes[-1]
    empty = score_card(
        [], {"environment": "sage", "models": ["m"], "options": {"preset": "corrected"}, "roles": {"user": "openai/x"}}
    )
    assert (empty.played, empty.presets, empty.simulators, empty.models[0].played) == (0, ("corrected",), ("openai/x",), 0)


def test_scores_are_written_beside_the_transcripts(dialogues: list[Transcript], write_run: Callable[..., Path]) -> None:
    run = write_run(dialogues)
    card = write_scores(run, prices={"x/good": Price(1.0, 1.0)})
    assert ScoreCard.model_validate_json((run / "scores.json").read_text(encoding="utf-8")) == card
    assert card.models[0].cost == pytest.approx(3 * 1100 / 1e6)
    assert card.models[1].cost is None
    assert card.models[3].cost == 0.0  # heartloop/garbage is free
    assert sorted(path.name for path in run.iterdir()) == ["scores.json", "settings.json", "transcripts.jsonl"]


def test_an_unknown_environment_is_refused_and_two_share_no_card() -> None:
    strange = talk("m", "s1", [1]).model_copy(update={"environment": "chess"})
    with pytest.raises(UseError, match="chess"):
        score_card([strange], {})
    other = strange.model_copy(update={"environment": "eibench"})
    with pytest.raises(UseError, match="dialogues of sage and eibench"):
        score_card([talk("m", "s1", [1]), other], {})


def test_the_notes_of_the_terminal_table_are_as_wide_as_the_terminal() -> None:
    card = score_card([talk(model, "s1", [gain]) for model, gain in (("a", 5), ("b", 3))], {})
    console = Console(width=200, file=StringIO(), color_system=None, record=True)
    console.print(leaderboard(card))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    rule = next(line for line in lines if "──" in line)
    assert max(map(len, lines)) > len(rule)


def test_the_terminal_table_fits_80_columns_whatever_a_model_is_called() -> None:
    name = "openrouter/a-very-long-model-name/with-[bold]markup[/bold]-and-more-of-it"
    two = [talk(model, s, [5] * 12) for s in ("s1", "s2") for model in (name, "m")]
    console = Console(width=80, file=StringIO(), color_system=None, record=True)
    console.print(leaderboard(score_card([*two, talk("heartloop/garbage", "s1", [-5])], {})))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    first_words = re.findall(r"^ *(?:[\d–]+ +[A-Z] +)?(\S+)", text, re.MULTILINE)
    assert name in "".join(first_words)  # wrapped, not cut, and its brackets are no markup
    assert in_lines(name).splitlines() == [word for word in first_words if word in in_lines(name).splitlines()][:4]
    assert re.search(r"^ *1–2 A ", text, re.MULTILINE)  # its rank interval and group


@pytest.mark.parametrize(
    ("roles", "models", "warned"),
    [
        ({"user": "lab/person"}, ["heartloop/counsellor", "x/good"], True),
        ({"user": "lab/person"}, ["x/good"], False),
        ({"user": "embedded"}, ["heartloop/counsellor"], False),
        ({"judge": "lab/judge"}, ["heartloop/counsellor"], False),  # one written message, or a rejudged run
    ],
)
def test_a_baseline_for_written_lines_is_marked_where_the_user_finds_its_own(
    roles: dict[str, str], models: list[str], warned: bool
) -> None:
    card = score_card([talk(model, "s1", [1]) for model in models], {"roles": roles})
    assert any("no upper baseline" in note for note in card.notes) is warned


@pytest.mark.parametrize(
    ("models", "note"),
    [
        (["heartloop/echo", "lab/a"], "scripted baselines: heartloop/echo"),
        (["heartloop/echo", "heartloop/silent", "python:my:echo"], "not a scripted baseline: python:my:echo"),
        (["lab/a", "lab/b"], ""),
        (["heartloop/echo"], ""),
    ],
)
def test_the_note_on_scripts_lists_the_shorter_side(models: list[str], note: str) -> None:
    assert scripted_note(models) == note
