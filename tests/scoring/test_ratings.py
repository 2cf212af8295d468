"""Ratings from comparisons of two: TrueSkill's update worked by hand, margins as wins, and the scale of two anchors."""

from __future__ import annotations

import math

import pytest

from heartloop.core.errors import UseError
from heartloop.scoring.ratings import Rating, anchored, trueskill

START, NOISE = Rating(1200.0, 350 / 3), 350 / 6


def rate(*matches: tuple[str, str, float], most_wins: int = 1) -> dict[str, Rating]:
    return trueskill(matches, most_wins=most_wins, start=START, noise=NOISE)


def test_a_win_of_equals() -> None:
    # c^2 = 2 (350/6)^2 + 2 (350/3)^2 = 34027.8, c = 184.466; at 0, density over distribution = sqrt(2 / pi) = 0.797885
    # shift = (350/3)^2 / c * 0.797885 = 58.873; deviation = 350/3 * sqrt(1 - (350/3)^2 / c^2 * 2 / pi) = 100.723
    after = rate(("a", "b", 1.0))
    assert after["a"] == pytest.approx((1258.873, 100.723), abs=1e-3)
    assert after["b"] == pytest.approx((1141.127, 100.723), abs=1e-3)
    assert rate(("b", "a", 0.0)) == {"a": after["a"], "b": after["b"]}


def test_a_draw_is_the_limit_of_a_draw_margin_of_0() -> None:
    # after that win: c^2 = 2 (350/6)^2 + 2 * 100.723^2 = 27096; t = 117.746 / c = 0.71531; the shift is -t, the factor 1
    # 1258.873 - 100.723^2 / c * t = 1214.79; 100.723 * sqrt(1 - 100.723^2 / c^2) = 79.665
    after = rate(("a", "b", 1.0), ("a", "b", 0.5))
    assert after["a"] == pytest.approx((1214.787, 79.665), abs=1e-2)
    assert rate(("a", "b", 0.5))["a"].mean == 1200.0


def test_a_margin_is_wins_in_a_row() -> None:
    assert rate(("a", "b", 0.7), most_wins=5) == rate(*[("a", "b", 1.0)] * 2)
    assert rate(("a", "b", 0.51), most_wins=5) == rate(("a", "b", 1.0))
    # 0.55 is two steps of 1/40 above 0.5, and 2.0000000000000018 of them in floating point: three wins, as released
    assert rate(("a", "b", 0.55), most_wins=20) == rate(*[("a", "b", 1.0)] * 3)


def test_a_surprise_beyond_all_floating_point_is_finite() -> None:
    after = trueskill([("a", "b", 1.0), ("b", "a", 1.0)], most_wins=5000, start=Rating(0.0, 1000.0), noise=1e-3)
    assert all(math.isfinite(number) for rating in after.values() for number in rating)


@pytest.mark.parametrize("match", [("a", "a", 1.0), ("a", "b", 1.5), ("a", "b", math.nan)])
def test_other_matches_are_refused(match: tuple[str, str, float]) -> None:
    with pytest.raises(UseError, match="expected two names and a share"):
        rate(match)


PRINTED = {  # ratings and normalised Elo of May 2025, printed by generate_results_html.ipynb of EQ-bench/eqbench3
    "o3": (1561.3, 1500.0),
    "chatgpt-4o-latest-2025-03-27": (1456.6, 1261.0),
    "deepseek-ai/DeepSeek-R1": (1423.3, 1185.1),
    "claude-3-7-sonnet-20250219": (1364.6, 1051.2),
    "gpt-4.1-nano": (1307.6, 921.0),
    "Qwen/Qwen3-8B": (1264.6, 822.9),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (1125.7, 505.8),
    "google/gemma-2-9b-it": (1108.5, 466.4),
    "meta-llama/llama-3.2-1b-instruct": (991.8, 200.0),
}


def test_the_printed_elo_follows_from_the_printed_ratings_and_two_anchors() -> None:
    scale = anchored(
        {name: rating for name, (rating, _) in PRINTED.items()}, {"o3": 1500.0, "meta-llama/llama-3.2-1b-instruct": 200.0}
    )
    assert scale is not None
    for rating, elo in PRINTED.values():
        assert scale[0] * rating + scale[1] == pytest.approx(elo, abs=0.3)  # 2.28 Elo a point; the ratings are rounded to 0.1


def test_without_two_different_anchors_there_is_no_scale() -> None:
    assert anchored({"a": 30.0, "b": 10.0}, {"a": 100.0, "b": 0.0}) == (5.0, -50.0)
    assert anchored({"a": 30.0}, {"a": 100.0, "b": 0.0}) is None
    assert anchored({"a": 30.0, "b": 30.0}, {"a": 100.0, "b": 0.0}) is None
