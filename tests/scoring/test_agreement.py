"""Agreement of judges and of rankings.

1. Judges agree by the mean of Pearson's r over all their pairs.
2. Rankings agree by Spearman's rho, each pair over what both hold; ties share their mean rank.
3. What has no correlation is refused, not turned into a number.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import mean_pairwise_pearson, spearman_matrix


def test_three_judges_worked_by_hand() -> None:
    # a = 1 2 3, b = 2 2 5, c = 3 2 1. Deviations: a -1 0 1, b -1 -1 2, c 1 0 -1.
    # r(a, b) = 3 / sqrt(2 * 6) = 0.8660, r(a, c) = -1, r(b, c) = -0.8660: mean -1/3.
    assert mean_pairwise_pearson([[1, 2, 3], [2, 2, 5], [3, 2, 1]]) == pytest.approx(-1 / 3)
    assert mean_pairwise_pearson([[1, 2, 3], [2, 2, 5]]) == pytest.approx(3 / math.sqrt(12))


def test_spearman_with_a_tie_worked_by_hand() -> None:
    # a ranks 1 2 3 4, b = 10 20 20 5 ranks 2 3.5 3.5 1. Deviations -1.5 -.5 .5 1.5 and -.5 1 1 -1.5:
    # .75 - .5 + .5 - 2.25 = -1.5 over sqrt(5 * 4.5) = 4.7434.
    table = {"a": {"w": 1, "x": 2, "y": 3, "z": 4}, "b": {"w": 10, "x": 20, "y": 20, "z": 5}}
    assert spearman_matrix(table).between("a", "b") == pytest.approx(-1.5 / math.sqrt(22.5))


def test_an_entry_missing_in_one_ranking_is_left_out_of_its_pairs_only() -> None:
    first = {"w": 1, "x": 2, "y": 3, "z": 0}
    found = spearman_matrix({"a": first, "b": {"w": 1, "x": 2, "y": 3}, "c": {"w": 3, "x": 2, "y": 1, "z": 4}})
    assert found.names == ("a", "b", "c")
    assert found.n_r_r.tolist() == [[4, 3, 4], [3, 3, 3], [4, 3, 4]]
    assert found.rho_r_r == pytest.approx(np.array([[1, 1, -1], [1, 1, -1], [-1, -1, 1]]))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=3, max_size=9, unique_by=(lambda p: p[0], lambda p: p[1])
    )
)
def test_rho_is_symmetric_and_knows_order_alone(points: list[tuple[int, int]]) -> None:
    a = {str(i): float(x) for i, (x, _) in enumerate(points)}
    b = {str(i): float(y) for i, (_, y) in enumerate(points)}
    rho = spearman_matrix({"a": a, "b": b}).between("a", "b")
    assert rho == pytest.approx(spearman_matrix({"b": b, "a": a}).between("a", "b"))
    assert rho == pytest.approx(spearman_matrix({"a": {k: v**3 for k, v in a.items()}, "b": b}).between("a", "b"))
    assert rho == pytest.approx(-spearman_matrix({"a": {k: -v for k, v in a.items()}, "b": b}).between("a", "b"))
    assert -1.0 - 1e-9 <= rho <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([[1, 2, 3]], r"shape \(1, 3\); expected at least two judges by two models"),
        ([[1], [2]], r"shape \(2, 1\)"),
        ([1, 2, 3], r"shape \(3,\)"),
        ([[1, 2], [3, 3]], "judge 2 .*3"),
        ([[1, 2], [3, math.nan]], "judge 2 .*finite"),
    ],
)
def test_judges_without_a_correlation_are_refused(scores: list[list[float]], said: str) -> None:
    with pytest.raises(UseError, match=said):
        mean_pairwise_pearson(scores)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"a": {"x": 1.0, "y": 2.0}}, "got 1 rankings; expected at least two"),
        ({"a": {"x": 1.0, "y": 2.0}, "b": {"y": 2.0, "z": 1.0}}, "'a' and 'b' share 1 entries"),
        ({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 2.0, "y": 2.0}}, "b .*2"),
        ({"a": {"x": 1.0, "y": math.inf}, "b": {"x": 2.0, "y": 3.0}}, "a .*finite"),
    ],
)
def test_rankings_without_a_correlation_are_refused(table: dict[str, dict[str, float]], said: str) -> None:
    with pytest.raises(UseError, match=said):
        spearman_matrix(table)
