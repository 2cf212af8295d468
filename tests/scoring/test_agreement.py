"""Agreement of judges and of rankings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.agreement import kappa, mean_pairwise_pearson, nominal_alpha, spearman


def test_three_judges_worked_by_hand() -> None:
    # a = 1 2 3, b = 2 2 5, c = 3 2 1. Deviations: a -1 0 1, b -1 -1 2, c 1 0 -1.
    # r(a, b) = 3 / sqrt(2 * 6) = 0.8660, r(a, c) = -1, r(b, c) = -0.8660: mean -1/3.
    assert mean_pairwise_pearson([[1, 2, 3], [2, 2, 5], [3, 2, 1]]) == pytest.approx(-1 / 3)
    assert mean_pairwise_pearson([[1, 2, 3], [2, 2, 5]]) == pytest.approx(3 / math.sqrt(12))


def test_spearman_with_a_tie_worked_by_hand() -> None:
    # a ranks 1 2 3 4, b = 10 20 20 5 ranks 2 3.5 3.5 1. Deviations -1.5 -.5 .5 1.5 and -.5 1 1 -1.5:
    # .75 - .5 + .5 - 2.25 = -1.5 over sqrt(5 * 4.5) = 4.7434. An entry of one ranking alone is left out.
    a, b = {"w": 1.0, "x": 2.0, "y": 3.0, "z": 4.0, "v": 9.0}, {"w": 10.0, "x": 20.0, "y": 20.0, "z": 5.0, "u": 0.0}
    assert spearman(a, b) == pytest.approx(-1.5 / math.sqrt(22.5))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=3, max_size=9, unique_by=(lambda p: p[0], lambda p: p[1])
    )
)
def test_rho_is_symmetric_and_depends_on_order_alone(points: list[tuple[int, int]]) -> None:
    a = {str(i): float(x) for i, (x, _) in enumerate(points)}
    b = {str(i): float(y) for i, (_, y) in enumerate(points)}
    rho = spearman(a, b)
    assert rho == pytest.approx(spearman(b, a))
    assert rho == pytest.approx(spearman({k: v**3 for k, v in a.items()}, b))
    assert rho == pytest.approx(-spearman({k: -v for k, v in a.items()}, b))
    assert -1.0 - 1e-9 <= rho <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[1, 2, 3]], r"shape \(1, 3\); expected at least two judges by two models"),
        ([1, 2, 3], r"shape \(3,\)"),
        ([[1, 2], [3, 3]], "judge 2 .*3"),
        ([[1, 2], [3, math.nan]], "judge 2 .*finite"),
    ],
)
def test_judges_without_a_correlation_are_refused(scores: list[list[float]], said: str) -> None:
    with pytest.raises(UseError, match=said):
        mean_pairwise_pearson(scores)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"x": 1.0, "y": 2.0}, {"y": 2.0, "z": 1.0}, "share 1 entries; expected at least two"),
        ({"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 2.0}, "second .*2"),
        ({"x": 1.0, "y": math.inf}, {"x": 2.0, "y": 3.0}, "first .*finite"),
    ],
)
def test_rankings_without_a_correlation_are_refused(first: dict[str, float], second: dict[str, float], said: str) -> None:
    with pytest.raises(UseError, match=said):
        spearman(first, second)


RATINGS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]  # fmt: skip
"""Krippendorff 2011, part E, whose nominal alpha is printed as 0.743."""


class TestAlpha:
    """Krippendorff's alpha."""

    def test_as_printed(self) -> None:
        assert nominal_alpha(RATINGS) == pytest.approx(0.743, abs=5e-4)

    @pytest.mark.parametrize(
        ("ratings", "said"),
        [
            ([[1, 2], [1]], "units"),
            ([], "units"),
            ([[1, None], [None, 2]], "no unit that two judges rated"),
            ([[1, 1], [1, 1]], "only ratings of 1"),
            ([[1, math.nan], [1, 2]], "not finite"),
        ],
    )
    def test_what_has_none_is_refused(self, ratings: list[list[float | None]], said: str) -> None:
        with pytest.raises(UseError, match=said):
            nominal_alpha(ratings)


def test_kappa_of_a_table_of_two_raters_by_hand() -> None:
    """Equal 20 + 15 of 50. Shares of yes 25/50 and 30/50: chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5, kappa (0.7 - 0.5) / 0.5."""
    assert kappa([[1, 1]] * 20 + [[1, 0]] * 5 + [[0, 1]] * 10 + [[0, 0]] * 15) == pytest.approx(0.4)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5).flatmap(lambda j: st.lists(st.lists(st.integers(0, 2), min_size=j, max_size=j), min_size=2, max_size=9)))
def test_kappa_as_in_statsmodels(ratings: list[list[int]]) -> None:
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    if len({value for unit in ratings for value in unit}) < 2:
        with pytest.raises(UseError):
            kappa(ratings)
    elif len(ratings[0]) == 2:
        table = rater.to_table(np.array(ratings), bins=3)[0]
        assert kappa(ratings) == pytest.approx(rater.cohens_kappa(table, return_results=False))
    else:
        assert kappa(ratings) == pytest.approx(rater.fleiss_kappa(rater.aggregate_raters(np.array(ratings))[0]))


def test_kappa_needs_the_same_raters_for_each_unit() -> None:
    for ratings in ([], [[1, 0], [1]], [[1], [0]]):
        with pytest.raises(UseError):
            kappa(ratings)
