"""The interval of a mean: a percentile bootstrap that resamples whole scenarios.

1. The mean is the plain mean of all values; the ends come from resampled clusters.
2. Repeats of one scenario are no new evidence: agreeing repeats do not narrow the interval.
3. One cluster has no spread to resample: the ends are nan, not a feigned certainty.
4. The same seed gives the same interval.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import Interval, bootstrap_interval

SCENARIOS = [10.0, 25.0, 40.0, 55.0, 70.0, 85.0]


def test_two_values_worked_by_hand() -> None:
    # Resamples of {0, 100} have means 0, 50, 100 with 1/4, 1/2, 1/4: the 2.5 % and 97.5 % points are 0 and 100,
    # and the 30 % and 70 % points are both 50.
    assert bootstrap_interval([0.0, 100.0]) == Interval(50.0, 0.0, 100.0)
    assert bootstrap_interval([0.0, 100.0], level=0.4) == Interval(50.0, 50.0, 50.0)


def test_clusters_of_unequal_size_worked_by_hand() -> None:
    # a: 0 and 0, b: 90. Mean 90 / 3 = 30. Resamples aa: 0 / 4, ab: 90 / 3 = 30, bb: 180 / 2 = 90.
    assert bootstrap_interval([0.0, 0.0, 90.0], clusters=["a", "a", "b"]) == Interval(30.0, 0.0, 90.0)
    assert bootstrap_interval([0.0, 0.0, 90.0], clusters=["a", "a", "b"], level=0.4) == Interval(30.0, 30.0, 30.0)


def test_clusters_need_not_stand_together() -> None:
    apart = bootstrap_interval([1.0, 5.0, 3.0, 9.0], clusters=["a", "b", "a", "b"])
    together = bootstrap_interval([1.0, 3.0, 5.0, 9.0], clusters=["a", "a", "b", "b"])
    assert apart == together


def test_repeats_that_agree_do_not_feign_more_evidence() -> None:
    repeated = [value for value in SCENARIOS for _ in range(8)]
    labels = [index for index in range(len(SCENARIOS)) for _ in range(8)]
    once = bootstrap_interval(SCENARIOS)
    clustered = bootstrap_interval(repeated, clusters=labels)
    naive = bootstrap_interval(repeated)
    assert clustered == once
    assert clustered.high - clustered.low > 2 * (naive.high - naive.low)


def test_one_cluster_gives_a_mean_and_no_ends() -> None:
    for interval in (bootstrap_interval([40.0]), bootstrap_interval([30.0, 50.0], clusters=["a", "a"])):
        assert interval.mean == 40.0
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)


def test_the_seed_decides_and_nothing_else() -> None:
    values = [float(v) for v in range(0, 100, 7)]
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, seed=1, resamples=50) != bootstrap_interval(values, seed=2, resamples=50)


def test_a_higher_level_is_a_wider_interval() -> None:
    narrow, wide = bootstrap_interval(SCENARIOS, level=0.5), bootstrap_interval(SCENARIOS, level=0.99)
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_no_values_are_refused() -> None:
    with pytest.raises(UseError, match="no values"):
        bootstrap_interval([])


def test_labels_that_do_not_match_the_values_are_refused() -> None:
    with pytest.raises(UseError, match="3 values and 2 clusters"):
        bootstrap_interval([1.0, 2.0, 3.0], clusters=["a", "b"])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan])
def test_a_level_outside_0_to_1_is_refused(level: float) -> None:
    with pytest.raises(UseError, match="level is"):
        bootstrap_interval([1.0, 2.0], level=level)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=12))
def test_the_interval_lies_within_the_values(values: list[float]) -> None:
    interval = bootstrap_interval(values, resamples=200)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
    assert interval.mean == pytest.approx(sum(values) / len(values))
