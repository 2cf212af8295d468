"""Advantages and rewards, worked by hand, and what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.sage.scoring import step
from heartloop.scoring.credit import (
    REWARDS,
    RewardKind,
    broken_format_return,
    dialogue_rewards,
    format_penalty,
    group_advantages,
    immediate_advantages,
    keeps_format,
    outcome_reward,
    rewards_to_go,
    turn_advantages,
    turn_rewards,
)

CENTS = st.integers(-100, 100).map(lambda cents: cents / 100)
GROUPS = st.lists(CENTS, min_size=2, max_size=8)
PROCESS = st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=8)
ROLLOUTS = st.lists(st.tuples(CENTS, PROCESS), min_size=2, max_size=8)
NO_NUMBERS = [float("nan"), float("inf"), float("-inf")]


class TestGroupAdvantages:
    def test_worked_by_hand(self) -> None:
        # mean 0.2; squares 0.16 + 0.04 + 0.04 + 0.16 = 0.4; /3 = 0.1333, root 0.36515
        found = group_advantages([0.6, 0.4, 0.0, -0.2])
        assert found == pytest.approx([0.4 / 0.36515, 0.2 / 0.36515, -0.2 / 0.36515, -0.4 / 0.36515], abs=1e-4)

    def test_the_floor_holds_near_ties_down(self) -> None:
        # std of 0.31 and 0.29 is 0.01414: without a floor 0.01/0.01414, with one 0.01/0.1
        assert group_advantages([0.31, 0.29], sigma_min=0.0) == pytest.approx([0.70711, -0.70711], abs=1e-4)
        assert group_advantages([0.31, 0.29]) == pytest.approx([0.1, -0.1])

    @pytest.mark.parametrize("outcomes", [[], [0.7], [0.1, 0.1, 0.1], [1 / 3] * 7])
    @pytest.mark.parametrize("sigma_min", [0.0, 0.1])
    def test_without_a_contrast_zeros(self, outcomes: list[float], sigma_min: float) -> None:
        found = group_advantages(outcomes, sigma_min=sigma_min)
        assert found.shape == (len(outcomes),)
        assert not found.any()

    @given(GROUPS, st.sampled_from([0, 1]), st.sampled_from([0.0, 0.1]))
    def test_they_sum_to_zero_and_keep_the_order(self, outcomes: list[float], ddof: int, sigma_min: float) -> None:
        found = group_advantages(outcomes, ddof=ddof, sigma_min=sigma_min)
        assert found.sum() == pytest.approx(0.0, abs=1e-9)
        assert list(np.argsort(found, kind="stable")) == list(np.argsort(outcomes, kind="stable"))

    @given(GROUPS, st.integers(-100, 100))
    def test_a_shift_of_the_group_moves_nothing(self, outcomes: list[float], shift: int) -> None:
        moved = [outcome + shift for outcome in outcomes]
        assert group_advantages(moved) == pytest.approx(group_advantages(outcomes), abs=1e-9)

    @given(GROUPS, st.floats(1.0, 100.0))
    def test_a_scale_moves_nothing_without_the_floor_and_never_shrinks_with_it(self, outcomes: list[float], scale: float) -> None:
        grown = [outcome * scale for outcome in outcomes]
        assert group_advantages(grown, sigma_min=0.0) == pytest.approx(group_advantages(outcomes, sigma_min=0.0), abs=1e-9)
        assert (abs(group_advantages(grown)) >= abs(group_advantages(outcomes)) - 1e-9).all()

    @pytest.mark.parametrize("bad", NO_NUMBERS)
    def test_an_unscored_rollout_is_not_taken(self, bad: float) -> None:
        with pytest.raises(InputError, match=r"outcomes hold -?(nan|inf) at 1"):
            group_advantages([0.1, bad, 0.3])

    @pytest.mark.parametrize(
        ("more", "said"), [({"sigma_min": -0.1}, "sigma_min"), ({"sigma_min": float("nan")}, "sigma_min"), ({"ddof": 2}, "ddof")]
    )
    def test_settings_that_are_none(self, more: dict[str, float], said: str) -> None:
        with pytest.raises(InputError, match=said):
            group_advantages([0.1, 0.2], **more)  # type: ignore[arg-type]


class TestTurnAdvantages:
    @pytest.mark.parametrize(
        ("settings", "first", "second"),
        [
            # group: mean 0.1, std 0.28284; +-0.2/0.28284 = +-0.70711
            # first rollout: mean of 0.05 and -0.01 is 0.02, so +-0.03 x 15 = +-0.45; second: one turn, its own mean
            ({}, [1.15711, 0.25711], [-0.70711]),
            # 0.70711 + 15 x 0.05, 0.70711 - 15 x 0.01; -0.70711 + 15 x 0.04
            ({"centre": False}, [1.45711, 0.55711], [-0.10711]),
            ({"alpha": 0}, [0.70711, 0.70711], [-0.70711]),  # every turn has the rollout's advantage
        ],
    )
    def test_worked_by_hand(self, settings: dict[str, Any], first: list[float], second: list[float]) -> None:
        found = turn_advantages([0.3, -0.1], [[0.05, -0.01], [0.04]], **settings)
        assert found[0] == pytest.approx(first, abs=1e-4)
        assert found[1] == pytest.approx(second, abs=1e-4)

    @given(ROLLOUTS, st.floats(0, 20))
    def test_centred_credit_sums_to_zero_so_the_rollouts_advantage_is_unchanged(
        self, rollouts: list[tuple[float, list[float]]], alpha: float
    ) -> None:
        outcomes = [outcome for outcome, _ in rollouts]
        found = turn_advantages(outcomes, [process for _, process in rollouts], alpha=alpha)
        for turns, group in zip(found, group_advantages(outcomes), strict=True):
            assert (turns - group).sum() == pytest.approx(0.0, abs=1e-9)
            assert turns.mean() == pytest.approx(group, abs=1e-9)

    @given(ROLLOUTS, st.floats(-1, 1))
    def test_centred_a_rollout_that_went_better_throughout_gets_the_same(
        self, rollouts: list[tuple[float, list[float]]], shift: float
    ) -> None:
        outcomes, process = [outcome for outcome, _ in rollouts], [process for _, process in rollouts]
        moved = [[reward + shift for reward in process[0]], *process[1:]]
        for before, after in zip(turn_advantages(outcomes, process), turn_advantages(outcomes, moved), strict=True):
            assert after == pytest.approx(before, abs=1e-9)

    def test_a_group_of_one_has_nothing_to_learn_from(self) -> None:
        assert [list(turns) for turns in turn_advantages([0.9], [[0.05, -0.05]])] == [[0.0, 0.0]]
        assert turn_advantages([], []) == []

    def test_equal_ends_still_tell_the_turns_apart(self) -> None:
        first, second = turn_advantages([0.2, 0.2], [[0.05, -0.05], [0.0, 0.0]], alpha=10)
        assert first == pytest.approx([0.5, -0.5])
        assert not second.any()

    def test_a_rollout_without_a_turn_has_no_advantage_to_give(self) -> None:
        first, second = turn_advantages([0.2, 0.4], [[], [0.1]])
        assert first.shape == (0,)
        assert second.shape == (1,)

    @pytest.mark.parametrize("bad", NO_NUMBERS)
    def test_numbers_that_are_none(self, bad: float) -> None:
        with pytest.raises(InputError, match=r"process rewards of rollout 1 hold -?(nan|inf) at 0"):
            turn_advantages([0.2, 0.4], [[0.1], [bad]])
        with pytest.raises(InputError, match="alpha"):
            turn_advantages([0.2, 0.4], [[0.1], [0.1]], alpha=bad)

    def test_every_rollout_has_process_rewards(self) -> None:
        with pytest.raises(InputError, match="2 outcomes and process rewards of 1 rollouts"):
            turn_advantages([0.2, 0.4], [[0.1]])


class TestRewardKinds:
    """Two dialogues with the same person: emotions of 40, 50, 45 and of 40, 35, 40."""

    EMOTIONS = ([40, 50, 45], [40, 35, 40])

    def rewards(self, kind: RewardKind) -> list[np.ndarray]:
        return [dialogue_rewards(outcome_reward(e[-1]), turn_rewards(e), kind) for e in self.EMOTIONS]

    @pytest.mark.parametrize(
        ("kind", "first", "second"),
        [
            # 0, 0.45; 0, 0.40: mean 0.2125, std 0.24622
            ("outcome", [-0.86305, 0.96458], [-0.86305, 0.76151]),
            # 1, -0.5; -0.5, 0.5: mean 0.125, squares 1.6875, std 0.75
            ("turn", [1.16667, -0.83333], [-0.83333, 0.5]),
            # half of both: 0.5, -0.025; -0.25, 0.45: mean 0.16875, squares 0.40172, std 0.36593
            ("mixed", [0.90523, -0.52947], [-1.14434, 0.76859]),
            # 0.725, -0.025; -0.05, 0.45: mean 0.275, squares 0.42875, std 0.37804
            ("mixed_each", [1.19034, -0.79356], [-0.85969, 0.46291]),
        ],
    )
    def test_credited_with_its_own_reward_a_turn_has_another_advantage_by_each_kind(
        self, kind: RewardKind, first: list[float], second: list[float]
    ) -> None:
        found = immediate_advantages(self.rewards(kind))
        assert found[0] == pytest.approx(first, abs=1e-4)
        assert found[1] == pytest.approx(second, abs=1e-4)

    def test_summed_over_a_dialogue_the_three_kinds_are_one(self) -> None:
        """Returns of 0.45 and 0.40, 0.5 and 0, 0.475 and 0.2: two returns are always +-0.7071 from their mean."""
        for kind in ("outcome", "turn", "mixed"):
            returns = [rewards.sum() for rewards in self.rewards(kind)]
            assert group_advantages(returns, sigma_min=0.0) == pytest.approx([0.70711, -0.70711], abs=1e-4)
        # longer dialogues gain where the outcome counts on each turn: 0.7 and 0.4 here
        assert [rewards.sum() for rewards in self.rewards("mixed_each")] == pytest.approx([0.7, 0.4])

    @given(st.integers(0, 100), st.lists(st.lists(st.integers(-10, 10), min_size=1, max_size=8), min_size=2, max_size=5))
    def test_what_telescopes(self, start: int, dialogues: list[list[int]]) -> None:
        """Turn rewards sum to ten times the outcome less start/10; from a turn on, less the emotion before it, which is known."""
        outcomes, sums, halves = [], [], []
        for changes in dialogues:
            emotions = [float(start)]
            for change in changes:
                emotions.append(step(emotions[-1], change))
            outcome, turns = outcome_reward(emotions[-1]), turn_rewards(emotions)
            assert turns.sum() == pytest.approx(10 * outcome - start / 10)
            assert rewards_to_go(turns) == pytest.approx(10 * outcome - np.array(emotions[:-1]) / 10)
            outcomes.append(outcome)
            sums.append(turns.sum())
            halves.append(dialogue_rewards(outcome, turns, "mixed").sum())
        if np.ptp(outcomes):
            for returns in (sums, halves):
                expected = group_advantages(outcomes, sigma_min=0.0)
                assert group_advantages(returns, sigma_min=0.0) == pytest.approx(expected, abs=1e-6)

    def test_a_group_of_one_has_nothing_to_learn_from(self) -> None:
        assert [list(turns) for turns in immediate_advantages([[0.5, -0.5]])] == [[0.0, 0.0]]
        assert immediate_advantages([]) == []


class TestFormatPenalty:
    """EIBench's released training: 0.2 times the share of replies without a thought, 0.05 once for any broken reply."""

    @pytest.mark.parametrize(
        ("replies", "penalty"),
        [
            (["<think>a</think>b", "<think>c</think>d"], 0.0),
            (["b", "<think>c</think>d"], 0.2 / 2 + 0.05),
            (["<think> </think>b", "<think>c</think>d", "e", "f"], 0.2 * 3 / 4 + 0.05),
            (["<think>a</think>"], 0.05),  # a thought, and no reply
            (["<think>a</think>b</think>", "<think>c</think>d"], 0.05),
            (["<think>a</think>b<think>c</think>d"], 0.05),
            (["", "b"], 0.25),
            ([], 0.0),
        ],
    )
    def test_worked_by_hand(self, replies: list[str], penalty: float) -> None:
        assert format_penalty(replies) == pytest.approx(penalty)

    def test_a_template_may_have_opened_the_block(self) -> None:
        assert format_penalty(["a</think>b"], opened=True) == 0.0
        assert format_penalty(["a</think>b"]) == pytest.approx(0.25)


class TestRewards:
    def test_turns_worked_by_hand(self) -> None:
        assert turn_rewards([30, 36, 33, 33]) == pytest.approx([0.6, -0.3, 0.0])
        assert turn_rewards([30]).shape == (0,)

    @pytest.mark.parametrize("emotion", [-1.0, 100.5, float("nan")])
    def test_an_emotion_is_from_0_to_100(self, emotion: float) -> None:
        with pytest.raises(InputError):
            outcome_reward(emotion)
        with pytest.raises(InputError):
            turn_rewards([30, emotion])

    def test_an_unknown_kind_and_no_turn_are_refused(self) -> None:
        with pytest.raises(InputError, match="unknown reward 'both'"):
            dialogue_rewards(0.3, [0.1], "both")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="0 turns"):
            dialogue_rewards(0.3, [], "outcome")
        with pytest.raises(InputError, match="outcome nan"):
            dialogue_rewards(float("nan"), [0.1], "turn")


class TestFormat:
    @pytest.mark.parametrize(
        "reply",
        ["<think>a</think>b", "\n<think>\nshe is hurt\n</think>\n\nThat.", "<think></think>b", "<think>2 < 3</think>a <b> c"],
    )
    def test_kept(self, reply: str) -> None:
        assert keeps_format(reply)

    @pytest.mark.parametrize(
        "reply",
        [
            "", "b", "<think>a", "<think>a</think>", "<think>a</think> \n", "a</think>b", "so <think>a</think>b",
            "<think>a</think>b</think>c", "<think>a</think>b<think>c</think>", "<think>a<think>b</think>c", "<THINK>a</THINK>b",
        ],
    )  # fmt: skip
    def test_broken(self, reply: str) -> None:
        assert not keeps_format(reply)

    def test_a_template_may_have_opened_the_block(self) -> None:
        assert keeps_format("a</think>b", opened=True)
        assert not keeps_format("<think>a</think>b", opened=True)
        assert not keeps_format("b", opened=True)

    @given(st.floats(0, 100), st.lists(st.floats(-10, 10), min_size=1, max_size=10), st.sampled_from(REWARDS))
    def test_no_valid_dialogue_is_worth_less_than_a_broken_one(
        self, start: float, changes: list[float], kind: RewardKind
    ) -> None:
        emotions = [start]
        for change in changes:
            emotions.append(step(emotions[-1], change))
        valid = dialogue_rewards(outcome_reward(emotions[-1]), turn_rewards(emotions), kind).sum()
        assert valid >= broken_format_return(kind, worst_outcome=0.0, worst_turns=-start / 10) - 1e-9
