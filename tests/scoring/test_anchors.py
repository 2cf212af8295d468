"""EIBench's numbers, worked by hand, and the properties Eq. 1 promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.eibench.scoring import (
    GAP,
    Anchors,
    anchor_problem,
    axis_score,
    move,
    outcome,
    process_rewards,
    repaired,
    weighted_mean,
)

ANGER = Anchors(start=75, success=30, fail=95)
TRUST = Anchors(start=15, success=50, fail=0)


class TestAxisScore:
    @pytest.mark.parametrize(
        ("x", "score"),
        [
            (75, 0.0),
            (30, 1.0),
            (95, -1.0),
            (52.5, 0.5),  # 22.5 of the 45 points towards success
            (66, 0.2),  # 9 of 45
            (80, -0.25),  # 5 of the 20 points towards failure
            (0, 1.0),  # beyond success
            (100, -1.0),  # beyond failure
        ],
    )
    def test_anger_falls_towards_success(self, x: float, score: float) -> None:
        assert axis_score(x, ANGER) == pytest.approx(score)

    @pytest.mark.parametrize(("x", "score"), [(15, 0.0), (50, 1.0), (0, -1.0), (22, 0.2), (12, -0.2), (100, 1.0)])
    def test_trust_rises_towards_success(self, x: float, score: float) -> None:
        assert axis_score(x, TRUST) == pytest.approx(score)


def anchors_of(start: int, good: int, bad: int, *, falling: bool) -> Anchors:
    sign = -1 if falling else 1
    return Anchors(start, start + sign * good, start - sign * bad)


ANCHORS = st.builds(anchors_of, st.integers(10, 90), st.integers(10, 80), st.integers(10, 80), falling=st.booleans())
STATES = st.floats(0, 100)


class TestAxisScoreProperties:
    @given(ANCHORS)
    def test_zero_at_the_start_and_one_at_the_anchors(self, anchors: Anchors) -> None:
        assert axis_score(anchors.start, anchors) == 0.0
        assert axis_score(anchors.success, anchors) == 1.0
        assert axis_score(anchors.fail, anchors) == -1.0

    @given(ANCHORS, STATES)
    def test_beyond_the_anchors_it_stays(self, anchors: Anchors, x: float) -> None:
        beyond = anchors.success + (x if anchors.success > anchors.start else -x)
        short = anchors.fail + (x if anchors.fail > anchors.start else -x)
        assert axis_score(beyond, anchors) == 1.0
        assert axis_score(short, anchors) == -1.0

    @given(ANCHORS, STATES, STATES)
    def test_monotone_towards_success(self, anchors: Anchors, x: float, y: float) -> None:
        low, high = sorted((axis_score(x, anchors), axis_score(y, anchors)))
        nearer, farther = (x, y) if (x > y) == (anchors.success > anchors.start) else (y, x)
        assert axis_score(nearer, anchors) == high or x == y
        assert axis_score(farther, anchors) == low or x == y

    @given(ANCHORS, STATES)
    def test_the_branch_follows_the_direction(self, anchors: Anchors, x: float) -> None:
        assume(x != anchors.start)
        towards_success = (x > anchors.start) == (anchors.success > anchors.start)
        assert (axis_score(x, anchors) > 0) == towards_success
        assert -1.0 <= axis_score(x, anchors) <= 1.0


class TestOutcome:
    def test_the_mean_of_both_axes(self) -> None:
        # a from 75 to 52.5 is half way (+0.5); t from 15 to 0 is failure (-1)
        assert outcome(52.5, 0, ANGER, TRUST) == pytest.approx(-0.25)

    def test_the_weight_is_the_relations(self) -> None:
        assert outcome(30, 15, ANGER, TRUST, relation_weight=0.25) == pytest.approx(0.75)
        assert outcome(30, 15, ANGER, TRUST, relation_weight=1.0) == 0.0

    @pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
    def test_a_weight_that_is_none_is_refused(self, weight: float) -> None:
        with pytest.raises(InputError, match="relation_weight"):
            outcome(30, 15, ANGER, TRUST, relation_weight=weight)


class TestProcessRewards:
    def test_worked_by_hand(self) -> None:
        # turn 1: a -5, t +3 -> (5 + 3)/200 = 0.04; turn 2: a +10, t -2 -> -0.06
        assert process_rewards([75, 70, 80], [15, 18, 16]) == pytest.approx([0.04, -0.06])

    def test_no_turn_no_reward(self) -> None:
        assert process_rewards([75], [15]).shape == (0,)

    def test_axes_of_different_length_are_refused(self) -> None:
        with pytest.raises(InputError, match="3 states of a and 2 of t"):
            process_rewards([1, 2, 3], [1, 2])
        with pytest.raises(InputError, match="0 states"):
            process_rewards([], [])

    @given(st.lists(st.tuples(STATES, STATES), min_size=1, max_size=20))
    def test_their_sum_is_the_way_from_first_to_last(self, states: list[tuple[float, float]]) -> None:
        a, t = [s[0] for s in states], [s[1] for s in states]
        assert np.sum(process_rewards(a, t)) == pytest.approx((a[0] - a[-1] + t[-1] - t[0]) / 200, abs=1e-9)


class TestMove:
    def test_changes_are_cut_to_ten_and_states_to_their_range(self) -> None:
        assert move(50, 14) == 60
        assert move(50, -14) == 40
        assert move(96, 8) == 100
        assert move(3, -8) == 0


class TestAnchorRules:
    @pytest.mark.parametrize(
        ("a", "t", "said"),
        [
            (Anchors(75, 30, 96), TRUST, "anchors of a are start 75, success 30, fail 96; expected multiples of 5"),
            (Anchors(75, 80, 95), TRUST, "success < start < fail"),
            (Anchors(75, 75, 95), TRUST, "each at least 5 from the start"),
            (ANGER, Anchors(15, 50, 15), "anchors of t"),
            (ANGER, Anchors(0, 50, 0), "fail < start < success"),
            (ANGER, Anchors(15, 105, 0), "from 0 to 100"),
        ],
    )
    def test_others_are_refused_with_their_values(self, a: Anchors, t: Anchors, said: str) -> None:
        assert said in anchor_problem(a, t)

    def test_the_margin_is_the_releases_and_ours_is_wider(self) -> None:
        assert anchor_problem(Anchors(75, 70, 95), TRUST) == ""
        assert "each at least 10 from the start" in anchor_problem(Anchors(75, 70, 95), TRUST, GAP)

    @pytest.mark.parametrize(
        ("given", "better", "found"),
        [
            (Anchors(72, 33, 97), -1, Anchors(70, 35, 95)),  # rounded only
            (Anchors(75, 75, 60), -1, Anchors(75, 70, 80)),  # neither end on its side: 5 beyond the start
            (Anchors(20, 10, 40), 1, Anchors(20, 25, 15)),
            (Anchors(98, 104, 99), -1, Anchors(100, 95, 100)),  # no room above the start: a gap of 0 stays
        ],
    )
    def test_the_repair_of_the_release(self, given: Anchors, better: int, found: Anchors) -> None:
        assert repaired(given, better) == found


class TestMeans:
    def test_every_scenario_counts_once(self) -> None:
        outcomes = {"charm": [0.4, 0.6], "defense": [-0.2], "repair": []}
        assert weighted_mean(outcomes) == pytest.approx(0.8 / 3)

    def test_nothing_scored_is_no_number(self) -> None:
        assert weighted_mean({"charm": []}) is None
