"""Two models on the same dialogues: difference, test, effect, sample size, rank groups.

1. The difference is b - a; swapping the two flips its sign and nothing else.
2. Identical runs: difference 0, p 1, effect 0.
3. People are the evidence: signs are flipped by scenario, effects are taken over scenario means.
4. p is exact while few scenarios differ, else drawn, seeded and never 0.
5. The sample size is the normal approximation, rounded up.
6. A rank group ends where a paired interval to its first model excludes 0.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import (
    EXACT_UP_TO,
    Interval,
    cluster_means,
    cohens_dz,
    paired_difference,
    permutation_p,
    rank_biserial,
    rank_groups,
    sample_size_for,
)

SCORES = st.floats(0, 100).map(lambda value: round(value, 1))
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=10)


class TestDifference:
    """b - a with the interval over people."""

    def test_two_people_worked_by_hand(self) -> None:
        # differences 10 and -2: mean 4; resamples have -2, 4, 10 with 1/4, 1/2, 1/4
        assert paired_difference([40.0, 50.0], [50.0, 48.0]) == Interval(4.0, -2.0, 10.0)

    def test_repeats_of_a_person_travel_together(self) -> None:
        # differences 6 and 2 with one person, 10 with the other: mean 18 / 3 = 6; resamples aa 8/2 = 4, ab 6, bb 10
        assert paired_difference([0.0, 0.0, 0.0], [6.0, 2.0, 10.0], clusters=["a", "a", "b"]) == Interval(6.0, 4.0, 10.0)

    def test_one_person_gives_no_interval(self) -> None:
        assert math.isnan(paired_difference([1.0, 2.0], [3.0, 3.0], clusters=["a", "a"]).low)

    def test_what_is_no_pair_is_refused(self) -> None:
        with pytest.raises(UseError, match="got 2 and 1 values; expected pairs"):
            paired_difference([1.0, 2.0], [1.0])
        with pytest.raises(UseError, match="no values"):
            paired_difference([], [])


class TestPermutation:
    """Sign flips of whole people."""

    @pytest.mark.parametrize(
        ("differences", "p"),
        [
            ([5.0], 1.0),  # +5 and -5: both as large
            ([1.0, 2.0, 3.0], 2 / 8),  # only +++ and --- reach 6
            ([1.0, -2.0, 3.0], 6 / 8),  # |sum| 2; the patterns give 6, 2, 4, 0 and their opposites: three of four reach 2
            ([3.0, 3.0, 0.0], 2 / 4),  # a zero flips to itself and drops out
            ([0.0, 0.0], 1.0),
        ],
    )
    def test_worked_by_hand(self, differences: list[float], p: float) -> None:
        assert permutation_p(differences) == p

    def test_a_persons_repeats_flip_together(self) -> None:
        # people's sums 3 and 4: patterns 7, 1 and their opposites, so 2 of 4; pair by pair it would be 2 of 8
        assert permutation_p([1.0, 2.0, 4.0], clusters=["a", "a", "b"]) == 0.5

    def test_exact_is_what_counting_all_patterns_gives(self) -> None:
        values = [3.5, -1.25, 8.0, 0.5, -2.0, 4.75, 1.0]
        hits = sum(abs(sum(s * v for s, v in zip(signs, values, strict=True))) >= sum(values)
                   for signs in product((1, -1), repeat=len(values)))  # fmt: skip
        assert permutation_p(values) == hits / 2 ** len(values)

    def test_rounding_does_not_hide_a_tie(self) -> None:
        assert permutation_p([0.1, 0.2, -0.3]) == 1.0  # the sum is 5.6e-17 in floats and 0 in truth

    def test_many_people_are_drawn_seeded_and_p_is_never_zero(self) -> None:
        values = [1.0] * (EXACT_UP_TO + 10)  # exact: 2 / 2^30
        assert permutation_p(values, draws=999) == 1 / 1000
        mixed = [float(v) for v in range(-14, 20)]
        assert permutation_p(mixed, seed=1) == permutation_p(mixed, seed=1)

    def test_drawn_agrees_with_exact(self) -> None:
        values = [float(v) for v in np.random.default_rng(5).normal(0.35, 1.0, EXACT_UP_TO)]
        exact = permutation_p(values)
        drawn = permutation_p([*values, 1e-7], draws=20_000)  # one more person of no weight: one too many to count
        assert 0.05 < exact < 0.6
        assert drawn == pytest.approx(exact, abs=0.02)


class TestEffect:
    """Effect sizes over people."""

    def test_dz_worked_by_hand(self) -> None:
        # people 4 (from 6 and 2), 10 and 1: mean 5, deviations -1, 5, -4, variance 42 / 2 = 21
        assert cluster_means([6.0, 10.0, 2.0, 1.0], ["a", "b", "a", "c"]) == [4.0, 10.0, 1.0]
        assert cohens_dz([6.0, 10.0, 2.0, 1.0], clusters=["a", "b", "a", "c"]) == pytest.approx(5 / math.sqrt(21))

    def test_dz_without_spread(self) -> None:
        assert cohens_dz([0.0, 0.0]) == 0.0
        assert cohens_dz([-0.1, -0.1, -0.1]) == -math.inf
        assert math.isnan(cohens_dz([3.0]))

    def test_rank_biserial_worked_by_hand(self) -> None:
        # sizes 2, 2, 5, 7 have ranks 1.5, 1.5, 3, 4 of 10; below zero 1.5, so (8.5 - 1.5) / 10
        assert rank_biserial([2.0, -2.0, 5.0, 7.0, 0.0]) == pytest.approx(0.7)
        assert rank_biserial([1.0, 2.0]) == 1.0
        assert rank_biserial([0.0]) == 0.0


@settings(max_examples=60)
@given(PAIRS)
def test_swapping_the_two_flips_the_sign_and_nothing_else(pairs: list[tuple[float, float]]) -> None:
    a, b = [list(side) for side in zip(*pairs, strict=True)]
    there, back = paired_difference(a, b, resamples=200), paired_difference(b, a, resamples=200)
    assert back == pytest.approx(Interval(-there.mean, -there.high, -there.low), abs=1e-9)
    forth = [y - x for x, y in pairs]
    other = [x - y for x, y in pairs]
    assert permutation_p(other) == permutation_p(forth)
    assert cohens_dz(other) == -cohens_dz(forth)
    assert rank_biserial(other) == -rank_biserial(forth)


@settings(max_examples=60)
@given(st.lists(SCORES, min_size=2, max_size=40))
def test_identical_runs_differ_by_nothing(scores: list[float]) -> None:
    assert paired_difference(scores, scores, resamples=50) == Interval(0.0, 0.0, 0.0)
    zeros = [0.0] * len(scores)
    assert (permutation_p(zeros), cohens_dz(zeros), rank_biserial(zeros)) == (1.0, 0.0, 0.0)
    assert rank_groups([scores, scores], resamples=50) == [1, 1]


@settings(max_examples=60)
@given(PAIRS)
def test_p_and_effects_stay_in_their_ranges(pairs: list[tuple[float, float]]) -> None:
    differences = [y - x for x, y in pairs]
    assert 2 / 2 ** len(pairs) <= permutation_p(differences) <= 1.0
    assert -1.0 <= rank_biserial(differences) <= 1.0


class TestSampleSize:
    """How many people it takes."""

    def test_worked_by_hand(self) -> None:
        # (1.95996 + 0.84162)^2 = 7.84888; (10 / 5)^2 = 4 -> 31.4; (20 / 2)^2 = 100 -> 784.9
        assert sample_size_for(5.0, 10.0) == 32
        assert sample_size_for(-2.0, 20.0) == 785
        # 90 %: (1.95996 + 1.28155)^2 = 10.50742 -> 42.03
        assert sample_size_for(5.0, 10.0, power=0.9) == 43

    def test_two_at_least(self) -> None:
        assert sample_size_for(5.0, 0.0) == 2

    def test_half_the_difference_takes_four_times_the_people(self) -> None:
        assert sample_size_for(1.0, 20.0) == pytest.approx(4 * sample_size_for(2.0, 20.0), abs=4)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ({"difference": 0.0, "sd": 1.0}, "difference is 0.0"),
            ({"difference": math.nan, "sd": 1.0}, "difference is nan"),
            ({"difference": 1.0, "sd": -1.0}, r"sd is -1\.0"),
            ({"difference": 1.0, "sd": math.inf}, "sd is inf"),
            ({"difference": 1.0, "sd": 1.0, "power": 1.0}, r"power is 1\.0"),
            ({"difference": 1.0, "sd": 1.0, "level": 95.0}, r"level is 95\.0"),
        ],
    )
    def test_what_has_no_answer_is_refused(self, words: dict[str, float], said: str) -> None:
        with pytest.raises(UseError, match=said):
            sample_size_for(**words)


class TestRankGroups:
    """Models by falling mean; a paired interval to the group's first that excludes 0 starts the next."""

    def test_worked_by_hand(self) -> None:
        # By mean: second 71.5, third 70.5, first 41. To 71.5: differences -1 and 3 include 0, 30 and 31 do not.
        assert rank_groups([[40.0, 42.0], [70.0, 73.0], [71.0, 70.0]]) == [2, 1, 1]

    def test_the_measure_is_the_groups_first_not_the_model_before(self) -> None:
        # each falls by 1 or stays, so neighbours are not told apart; from the first, the third is 1 or 2 below
        assert rank_groups([[50.0, 50.0], [49.0, 50.0], [48.0, 49.0], [48.0, 48.0]]) == [1, 1, 2, 2]

    def test_one_person_tells_nobody_apart(self) -> None:
        assert rank_groups([[90.0, 80.0], [10.0, 10.0]], clusters=["a", "a"]) == [1, 1]

    def test_pairing_tells_apart_what_separate_intervals_do_not(self) -> None:
        people = [10.0, 30.0, 50.0, 70.0, 90.0]
        assert rank_groups([people, [value - 2 for value in people]]) == [1, 2]

    def test_none_and_unequal(self) -> None:
        assert rank_groups([]) == []
        with pytest.raises(UseError, match="different numbers of values"):
            rank_groups([[1.0], [1.0, 2.0]])
