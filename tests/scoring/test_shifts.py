"""What a perturbation does to a score, worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.effects import TIE, shift, wilcoxon_p

SCORES = st.lists(st.integers(-50, 50), min_size=2, max_size=12)


def test_four_pairs_by_hand() -> None:
    """Changes -1, 0, -3, 1: mean -0.75, median -0.5; the scores 2, 4, 6, 4 have variance 8 / 3."""
    found = shift([2, 4, 6, 4], [1, 4, 3, 5])
    assert (found.n, found.mean, found.median, found.decrease_rate, found.tie_rate) == (4, -0.75, -0.5, 0.5, 0.25)
    spread = math.sqrt(8 / 3)
    assert found.standardised == pytest.approx(-0.75 / spread)
    assert found.sensitivity == pytest.approx(1.25 / spread), "sizes 1, 0, 3, 1"


def test_a_change_below_a_hundredth_of_the_spread_is_a_tie() -> None:
    found = shift([0.0, 10.0, 20.0], [-0.09, 9.8, 20.0], scale=10.0)
    assert TIE * 10.0 == 0.1
    assert [found.decrease_rate, found.tie_rate] == pytest.approx([1 / 3, 2 / 3])
    assert found.mean == pytest.approx(-0.29 / 3), "a tie still counts in the mean"


@settings(max_examples=25, deadline=None)
@given(SCORES, st.data(), st.sampled_from([0.25, 3.0, 8.0]))
def test_another_unit_changes_nothing_that_has_none(before: list[int], data: st.DataObject, unit: float) -> None:
    after = data.draw(st.lists(st.integers(-50, 50), min_size=len(before), max_size=len(before)))
    here = shift([float(x) for x in before], [float(x) for x in after])
    there = shift([unit * x for x in before], [unit * x for x in after])
    assert [here.decrease_rate, here.tie_rate, here.p] == pytest.approx([there.decrease_rate, there.tie_rate, there.p])
    assert here.standardised == pytest.approx(there.standardised, nan_ok=True)
    assert here.decrease_rate + here.tie_rate <= 1.0 + 1e-12


def test_a_case_counts_once() -> None:
    """Changes -1, -1, -1 of one case and +1 of another: -0.5 over pairs, 0 over cases."""
    found = shift([0.0] * 4, [-1.0, -1.0, -1.0, 1.0], clusters=["a", "a", "a", "b"], scale=1.0)
    assert (found.mean, found.cluster_mean, found.clusters) == (-0.5, 0.0, 2)
    # residual sums -3 + 1.5 and 1 + 0.5: error sqrt(2 * 2 * 2.25) / 4 = 0.75, t 12.7062 with two cases
    assert (found.low, found.high) == pytest.approx((-0.5 - 12.7062 * 0.75, -0.5 + 12.7062 * 0.75), rel=1e-5)


def test_a_score_that_is_always_the_same_has_no_standardised_shift() -> None:
    assert math.isnan(shift([3.0, 3.0], [1.0, 2.0]).standardised)


@pytest.mark.parametrize(("before", "after"), [([], []), ([1.0], [1.0, 2.0]), ([math.nan], [1.0])])
def test_what_is_no_pair_is_refused(before: list[float], after: list[float]) -> None:
    with pytest.raises(UseError, match="shift got"):
        shift(before, after)


def test_wilcoxon_by_hand() -> None:
    """1, -2, 3, 4: ranks below 0 sum to 2. Of 16 patterns {}, {1}, {2} have a sum of at most 2; two-sided 6 / 16."""
    assert wilcoxon_p([1.0, -2.0, 3.0, 4.0]) == pytest.approx(6 / 16)
    assert wilcoxon_p([0.0, 1.0, 2.0, 3.0]) == pytest.approx(2 / 8), "a zero is left out"
    assert wilcoxon_p([1.0, 1.0, -1.0]) == 1.0, "ranks 2, 2, 2: every pattern has a sum of at least 2 on either side"
    assert wilcoxon_p([0.0, 0.0]) == 1.0
    many = [float(n) for n in range(1, 26)]
    assert wilcoxon_p(many) < 1e-4 < wilcoxon_p([*many[:12], *(-x for x in many[12:])]), "more than twenty: approximated"
    with pytest.raises(UseError, match="got 0 values"):
        wilcoxon_p([])
