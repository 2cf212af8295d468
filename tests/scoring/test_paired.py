"""Two models on the same dialogues: difference, test, effect.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import (
    EXACT_UP_TO,
    Interval,
    Shape,
    cluster_means,
    cohens_dz,
    paired_difference,
    permutation_p,
    rank_biserial,
)

T1 = 12.7062
"""97.5 % quantile of Student's t with 1 degree of freedom."""
SCORES = st.floats(0, 100).map(lambda value: round(value, 1))
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=10)


class TestDifference:
    """b - a with the interval over people."""

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

    def test_rounding_does_not_hide_a_tie(self) -> None:
        assert permutation_p([0.1, 0.2, -0.3]) == 1.0  # the sum is 5.6e-17 in floats and 0 in truth

    def test_many_people_are_drawn_seeded_and_p_is_never_zero(self) -> None:
        values = [1.0] * (EXACT_UP_TO + 17)  # exact: 2 / 2^30
        assert permutation_p(values, draws=999) == 2 / 1000
        mixed = [float(v) for v in range(-14, 20)]
        assert permutation_p(mixed, seed=1) == permutation_p(mixed, seed=1)


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
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert back[:3] == pytest.approx((-there.mean, -there.high, -there.low), abs=1e-9)
    assert back.shape is there.shape
    forth = [y - x for x, y in pairs]
    other = [x - y for x, y in pairs]
    assert permutation_p(other) == permutation_p(forth)
    assert cohens_dz(other) == -cohens_dz(forth)
    assert rank_biserial(other) == -rank_biserial(forth)


@settings(max_examples=60)
@given(st.lists(SCORES, min_size=2, max_size=40))
def test_identical_runs_differ_by_nothing(scores: list[float]) -> None:
    assert paired_difference(scores, scores) == Interval(0.0, 0.0, 0.0, Shape.CONSTANT)
    zeros = [0.0] * len(scores)
    assert (permutation_p(zeros), cohens_dz(zeros), rank_biserial(zeros)) == (1.0, 0.0, 0.0)


@settings(max_examples=60)
@given(PAIRS)
def test_p_and_effects_stay_in_their_ranges(pairs: list[tuple[float, float]]) -> None:
    differences = [y - x for x, y in pairs]
    assert 2 / 2 ** len(pairs) <= permutation_p(differences) <= 1.0
    assert -1.0 <= rank_biserial(differences) <= 1.0
