"""The interval of a mean: a t interval over scenarios, with a mark where it covers less than it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import Interval, Shape, mean_interval, share_interval

SCENARIOS = [10.0, 25.0, 40.0, 55.0, 70.0, 85.0]
T1, T2 = 12.7062, 4.30265
"""97.5 % quantiles of Student's t with 1 and 2 degrees of freedom, from a table."""


def test_clusters_of_unequal_size_worked_by_hand() -> None:
    # a: 0 and 0, b: 90. Mean 30. Residual sums: 0 - 2 * 30 = -60 and 90 - 30 = 60; error sqrt(2 / 1 * 7200) / 3 = 40
    assert mean_interval([0.0, 0.0, 90.0], clusters=["a", "a", "b"])[:3] == pytest.approx(
        (30, 30 - T1 * 40, 30 + T1 * 40), rel=1e-5
    )


def test_as_the_cluster_robust_regression_of_statsmodels() -> None:
    ols = pytest.importorskip("statsmodels.api").OLS
    random = np.random.default_rng(3)
    clusters = random.integers(0, 12, 60)
    values = random.normal(50, 10, 60) + 5.0 * clusters
    fitted = ols(values, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    assert mean_interval(values.tolist(), clusters=clusters.tolist())[1:3] == pytest.approx(fitted.conf_int()[0])


def test_one_cluster_gives_a_mean_and_no_ends() -> None:
    for interval in (mean_interval([40.0]), mean_interval([30.0, 50.0], clusters=["a", "a"])):
        assert interval.mean == 40.0
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert interval.shape is Shape.SINGLE


def test_equal_clusters_are_marked() -> None:
    assert mean_interval([100.0] * 10) == Interval(100.0, 100.0, 100.0, Shape.CONSTANT)
    assert mean_interval([0.1 + 0.2, 0.3, 0.3]).shape is Shape.CONSTANT  # equal but for rounding


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([0.0] + [100.0] * 9, Shape.SKEWED),  # skewness -3.2; 25 * 10 clusters would do
        ([0.0, 0.0] + [100.0] * 8, Shape.SKEWED),
        ([0.0] * 5 + [100.0] * 5, Shape.NEAR_NORMAL),
        ([0.0] * 20 + [100.0] * 80, Shape.NEAR_NORMAL),  # skewness -1.52; 25 * 2.3 = 58 clusters do
        ([0.0, 1.0], Shape.NEAR_NORMAL),
    ],
)
def test_too_skewed_for_so_few_is_marked(values: list[float], shape: Shape) -> None:
    assert mean_interval(values).shape is shape


@pytest.mark.parametrize("n", [10, 30, 100])
def test_normal_scores_are_seldom_marked_and_covered(n: int) -> None:
    found = [mean_interval(row) for row in np.random.default_rng(n).normal(0.0, 1.0, (2_000, n)).tolist()]
    assert np.mean([one.shape is Shape.SKEWED for one in found]) < 0.08
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.015)


def test_an_end_beyond_the_scale_is_moved_to_it() -> None:
    assert mean_interval([90.0, 100.0], within=(0.0, 100.0))[1:3] == pytest.approx((95 - T1 * 5, 100.0), rel=1e-5)
    beyond = mean_interval([90.0, 104.0], within=(0.0, 100.0))  # a score may exceed the scale
    assert beyond.high == 104.0


def test_no_values_and_other_clusters_are_refused() -> None:
    with pytest.raises(UseError, match="no values"):
        mean_interval([])
    with pytest.raises(UseError, match="3 values and 2 clusters"):
        mean_interval([1.0, 2.0, 3.0], clusters=["a", "b"])


@settings(max_examples=40)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=12))
def test_the_interval_lies_within_the_scale(values: list[float]) -> None:
    interval = mean_interval(values, within=(0.0, 100.0))
    assert -1e-9 <= interval.low <= interval.mean + 1e-9
    assert interval.mean - 1e-9 <= interval.high <= 100.0 + 1e-9
    assert interval.mean == pytest.approx(sum(values) / len(values))


class TestShare:
    """Wilson's interval."""

    def test_worked_by_hand(self) -> None:
        # 0 of 10, z = 1.96: middle and reach are both z^2 / (2 n) / (1 + z^2 / n) = 0.19207 / 1.38415
        assert share_interval(0, 10)[:3] == pytest.approx((0.0, 0.0, 2 * 0.19207 / 1.38415), abs=1e-4)

    def test_repeats_are_no_further_trials(self) -> None:
        assert share_interval(6, 20, clusters=10) == share_interval(3, 10)
        # 3 of 20 in 5 scenarios, share 0.15: middle (0.15 + 0.38415) / 1.76829, reach 1.95996 / 1.76829 * sqrt(0.0255 + 0.03841)
        assert share_interval(3, 20, clusters=5)[:3] == pytest.approx((0.15, 0.02185, 0.58229), abs=1e-4)

    @pytest.mark.parametrize("clusters", [0, 11])
    def test_as_many_clusters_as_trials_at_most(self, clusters: int) -> None:
        with pytest.raises(UseError, match=f"got {clusters} clusters of 10"):
            share_interval(3, 10, clusters=clusters)

    @pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
    def test_what_is_no_share_is_refused(self, successes: int, n: int) -> None:
        with pytest.raises(UseError, match=f"got {successes} of {n}"):
            share_interval(successes, n)
