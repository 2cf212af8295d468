"""Metrics of a step's dialogues, worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from heartloop.training.metrics import dialogue_metrics


def dialogue(
    score: float, *reply_tokens: int, group: str = "charm", scenario: str = "a", said: Sequence[str] = (), **counts: int
) -> dict[str, Any]:
    return {
        "scenario": scenario, "said": list(said),
        "group": group, "score": score, "return": score, "stop": "goodbye" if len(reply_tokens) < 2 else "turn_limit",
        "turns": len(reply_tokens), "samples": len(reply_tokens), "reply_tokens": list(reply_tokens), "counts": counts,
        "user_calls": len(reply_tokens),
        "user_prompt_tokens": 100 * len(reply_tokens), "user_completion_tokens": 10 * len(reply_tokens),
    }  # fmt: skip


def test_a_step_in_numbers() -> None:
    dialogues = [
        dialogue(0.5, 10, 20, silences=1),
        dialogue(-0.5, 30, 0, silences=1, overflows=1),  # the second prompt did not fit
        dialogue(0.2, 12, group="repair"),
    ]
    found = dialogue_metrics(dialogues, ["a", "a", "b"], expected=6)
    assert (found["dialogue/scored"], found["dialogue/failed"]) == (3, 3)
    assert found["dialogue/score"] == pytest.approx(0.2 / 3)
    assert found["dialogue/score/charm"] == 0.0
    assert found["dialogue/score/repair"] == pytest.approx(0.2)
    assert found["dialogue/group_std"] == pytest.approx(math.sqrt(0.5))  # of group a alone, sample std
    assert found["dialogue/lone_groups"] == 1
    assert found["dialogue/turns"] == pytest.approx(5 / 3)
    assert found["dialogue/reply_tokens/turn_1"] == pytest.approx(52 / 3)
    assert found["dialogue/reply_tokens/turn_2"] == 10
    assert (found["dialogue/counts/silences"], found["dialogue/counts/overflows"]) == (2, 1)
    assert found["dialogue/stops/goodbye"] == pytest.approx(1 / 3)
    assert found["dialogue/tokens"] == 10 + 20 + 30 + 0 + 12
    assert (found["user/calls"], found["user/prompt_tokens"], found["user/completion_tokens"]) == (5, 500, 50)


def test_repeated_replies_are_shares_of_all_replies() -> None:
    dialogues = [
        dialogue(0.1, 5, 5, scenario="a", said=["I see.", "I  see."]),
        dialogue(0.1, 5, 5, scenario="a", said=["Which door?", ""]),  # another rollout of the same scenario
        dialogue(0.1, 5, scenario="a", said=["Which door?"]),
        dialogue(0.1, 5, 5, 5, scenario="b", said=["i see.", "And then?", ""]),
    ]
    found = dialogue_metrics(dialogues, ["a"] * 3 + ["b"], expected=4)
    assert (found["dialogue/said_before"], found["dialogue/said_to_others"]) == (1 / 8, 3 / 8)


def test_a_step_without_a_scored_dialogue_has_no_means() -> None:
    assert dialogue_metrics([], [], expected=4) == {"dialogue/failed": 4.0, "dialogue/scored": 0.0}


def test_parts_of_the_reward_are_means_over_those_that_have_them() -> None:
    good, poor, broken = ({**dialogue(0.1, 10), "terms": terms} for terms in (
        {"form": 1.0, "reception": 4.0}, {"form": 1.0, "reception": 1.0}, {"form": 0.0},
    ))  # fmt: skip
    found = dialogue_metrics([good, poor, broken, broken], ["a"] * 4, expected=4)
    assert (found["dialogue/parts/form"], found["dialogue/parts/reception"]) == (0.5, 2.5)
