"""Ranks of several models: groups and intervals from one family of corrected tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.ranks import Rank, holm, paired_p, ranks

SCORES = st.floats(0, 100).map(lambda value: round(value, 1))


class TestHolm:
    """The smallest p times n, the next times n - 1, never falling."""

    def test_worked_by_hand(self) -> None:
        # sorted 0.01 * 4 = 0.04, 0.02 * 3 = 0.06, 0.03 * 2 = 0.06, 0.5 * 1
        assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
        assert holm([0.6, 0.7]) == [1.0, 1.0]
        assert holm([]) == []

    def test_what_is_no_p_is_refused(self) -> None:
        with pytest.raises(UseError, match=r"got p 1\.5"):
            holm([0.1, 1.5])


class TestPaired:
    """The t test over scenarios."""

    def test_as_in_scipy(self) -> None:
        from scipy.stats import ttest_1samp

        values = np.random.default_rng(2).normal(0.4, 1.0, 9)
        assert paired_p(values.tolist()) == pytest.approx(ttest_1samp(values, 0.0).pvalue)
        halves = [half for value in values for half in (value - 1, value + 1)]  # repeats around the same means
        assert paired_p(halves, clusters=[i // 2 for i in range(18)]) == pytest.approx(ttest_1samp(values, 0.0).pvalue)

    @pytest.mark.parametrize(("values", "p"), [([0.0, 0.0], 1.0), ([2.0, 2.0], 0.5), ([5.0], 1.0)])
    def test_without_spread(self, values: list[float], p: float) -> None:
        assert paired_p(values) == p


class TestRanks:
    """Groups and intervals."""

    def test_the_measure_is_the_groups_first_not_the_model_before(self) -> None:
        # Each pair differs by its falls plus 2, 0 or -2, twice, four times and twice: error sqrt(16 / 7 / 8) = 0.5345, 7 degrees
        # of freedom. Falls 3.4, 2.5, 1.9, 1.5, 1.0, 0.9; Holm asks for p 1/120, 1/100, 1/80, 1/60, which is t 3.64, 3.50, 3.34,
        # 3.13, or 1.94, 1.87, 1.79, 1.67: told apart are first and third, first and fourth, second and fourth.
        patterns = [
            [1, 1, 1, 1, -1, -1, -1, -1], [1, 1, -1, -1, 1, 1, -1, -1],
            [1, -1, 1, -1, 1, -1, 1, -1], [1, 1, -1, -1, -1, -1, 1, 1],
        ]  # fmt: skip
        rows = [[x - fall for x in row] for row, fall in zip(patterns, (0.0, 1.5, 2.5, 3.4), strict=True)]
        assert ranks(rows) == [Rank(1, 1, 2), Rank(1, 1, 3), Rank(2, 2, 4), Rank(2, 3, 4)]

    def test_one_scenario_tells_nobody_apart(self) -> None:
        assert ranks([[90.0, 80.0], [10.0, 10.0]], clusters=["a", "a"]) == [Rank(1, 1, 2), Rank(1, 1, 2)]

    def test_none_and_unequal(self) -> None:
        assert ranks([]) == []
        assert ranks([[1.0, 2.0]]) == [Rank(1, 1, 1)]
        with pytest.raises(UseError, match="different numbers of values"):
            ranks([[1.0], [1.0, 2.0]])

    @pytest.mark.parametrize("scenarios", [2, 3, 5, 8])
    def test_equal_models_with_scores_in_steps_are_seldom_told_apart_on_few_scenarios(self, scenarios: int) -> None:
        random = np.random.default_rng(3)
        apart = sum(
            any(one != Rank(1, 1, 3) for one in ranks(np.rint(random.normal(50, 1, (3, scenarios))).tolist())) for _ in range(300)
        )
        assert apart / 300 <= 0.075  # 0.05, and twice its deviation

    @pytest.mark.slow
    def test_equal_models_are_seldom_told_apart_and_nearly_equal_ones_are_covered(self) -> None:
        random = np.random.default_rng(7)
        apart = uncorrected = covered = 0
        for _ in range(60):
            rows = random.normal(50, 10, (4, 12)).tolist()
            apart += any(one != Rank(1, 1, 4) for one in ranks(rows))
            uncorrected += any(
                paired_p([x - y for x, y in zip(a, b, strict=True)]) < 0.05 for i, a in enumerate(rows) for b in rows[:i]
            )
            found = ranks((random.normal(0, 1.0, (3, 20)) + np.array([[3.0], [2.9], [0.0]])).tolist())
            covered += all(one.best <= rank <= one.worst for rank, one in enumerate(found, start=1))
        assert apart / 60 <= 0.1  # 0.05, and twice its deviation
        assert uncorrected / 60 > 0.1
        assert covered / 60 >= 0.9


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(SCORES, min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_rank_lies_in_its_interval(rows: list[list[float]]) -> None:
    found = ranks(rows)
    means = [sum(row) for row in rows]
    for mean, one in zip(means, found, strict=True):
        above, level = sum(other > mean + 1e-9 for other in means), sum(abs(other - mean) <= 1e-9 for other in means)
        assert one.best <= above + level
        assert above + 1 <= one.worst
