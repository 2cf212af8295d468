"""PERM's reward."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.perm.scoring import (
    BROKEN_FORMAT,
    BYSTANDER_WEIGHT,
    FREE_TOKENS,
    PARTS,
    PRESETS,
    harmonic_mean,
    normalised,
    perm_reward,
)

SCORES = st.integers(1, 5)


def test_by_hand() -> None:
    """4, 3, 2 are 0.8, 0.6, 0.4: 3 / (1.25 + 1.6667 + 2.5) = 0.5538; 0.5 x (0.7 - 1) = -0.15; 32 tokens too many."""
    found = perm_reward(4, 3, 2, 70, 800)
    assert found == pytest.approx((3 / (5 / 4 + 5 / 3 + 5 / 2) - 0.15 - 0.032, 3 / (5 / 4 + 5 / 3 + 5 / 2), -0.15, -0.032))
    unit = perm_reward(4, 3, 2, 70, 800, preset="unit")  # 0.75, 0.5, 0.25
    assert unit.empathy == pytest.approx(3 / (4 / 3 + 2 + 4))


def test_the_best_is_1_and_the_worst_is_what_a_broken_format_is_worth() -> None:
    for preset in PRESETS:
        assert perm_reward(5, 5, 5, 100, FREE_TOKENS, preset=preset) == (1.0, 1.0, 0.0, 0.0)
    worst = min(perm_reward(1, 1, 1, 0, 0, preset=preset).total for preset in PRESETS)
    assert worst == BROKEN_FORMAT


def test_a_part_that_is_0_makes_the_mean_0() -> None:
    assert perm_reward(1, 5, 5, 100, 0, preset="unit").empathy == 0.0
    assert perm_reward(1, 5, 5, 100, 0, preset="released").empathy == pytest.approx(3 / 7)


@pytest.mark.parametrize(
    ("parts", "mean"),
    [
        (("expression", "reception"), 2 / (5 / 3 + 5 / 2)),
        (("resonation", "reception"), 2 / (5 / 4 + 5 / 2)),
        (("reception",), 0.4),
    ],
)
def test_a_part_switched_off_leaves_the_mean_of_the_rest(parts: Any, mean: float) -> None:
    given: dict[str, Any] = {"resonation": 4, "expression": 3, "reception": 2}
    res, exp, rec = (given[part] if part in parts else None for part in PARTS)
    assert perm_reward(res, exp, rec, 70, 10, parts=parts).empathy == pytest.approx(mean)


def test_bystander_and_length_can_be_switched_off() -> None:
    assert perm_reward(4, 3, 2, None, 5000, bystander_weight=0, length_weight=0)[2:] == (0.0, 0.0)
    assert math.copysign(1, perm_reward(5, 5, 5, 100, 0).length) == 1.0


@pytest.mark.parametrize(
    ("scores", "settings", "said"),
    [
        ((None, 3, 2, 70, 10), {}, "resonation is None"),
        ((4, 3, 2, None, 10), {}, "bystander is None"),
        ((4, float("nan"), 2, 70, 10), {}, "score is nan"),
        ((0, 3, 2, 70, 10), {}, "score is 0; expected a number from 1 to 5"),
        ((4, 3, 6, 70, 10), {}, "score is 6"),
        ((4, 3, 2, 101, 10), {}, "bystander is 101"),
        ((4, 3, 2, 70, -1), {}, "tokens is -1"),
        ((4, 3, 2, 70, 10), {"preset": "paper"}, "unknown preset 'paper'"),
        ((4, 3, 2, 70, 10), {"parts": ()}, "at least one part"),
        ((4, 3, 2, 70, 10), {"parts": ("warmth",)}, "parts are warmth"),
        ((4, 3, 2, 70, 10), {"parts": ("reception", "reception")}, "each once"),
        ((4, 3, 2, 70, 10), {"bystander_weight": float("inf")}, "bystander_weight is inf"),
    ],
)
def test_what_cannot_be_a_reward(scores: Any, settings: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        perm_reward(*scores, **settings)


@given(SCORES, SCORES, SCORES, st.integers(0, 100), st.integers(0, 4000), st.sampled_from(PRESETS))
def test_the_total_is_the_sum_of_its_parts_and_stays_in_range(
    res: int, exp: int, rec: int, bystander: int, tokens: int, preset: str
) -> None:
    found = perm_reward(res, exp, rec, bystander, tokens, preset=preset)
    assert found.total == pytest.approx(found.empathy + found.bystander + found.length)
    shares = [normalised(score, preset=preset) for score in (res, exp, rec)]
    assert min(shares) - 1e-12 <= found.empathy <= sum(shares) / 3 + 1e-12  # a harmonic mean is at most the arithmetic one
    assert -BYSTANDER_WEIGHT <= found.bystander <= 0
    assert found.length <= 0


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(0, 99), st.integers(0, 2000), st.sampled_from(PARTS))
def test_more_of_a_part_is_never_less_and_more_tokens_never_more(
    scores: list[int], bystander: int, tokens: int, part: Any
) -> None:
    res, exp, rec = scores
    for preset in PRESETS:
        before = perm_reward(res, exp, rec, bystander, tokens, preset=preset).total
        up = [score + (name == part) for score, name in zip(scores, PARTS, strict=True)]
        assert perm_reward(up[0], up[1], up[2], bystander, tokens, preset=preset).total >= before
        assert perm_reward(res, exp, rec, bystander + 1, tokens, preset=preset).total > before
        assert perm_reward(res, exp, rec, bystander, tokens + 1, preset=preset).total <= before


@given(st.lists(st.floats(1e-300, 1.0), min_size=1, max_size=5))
def test_the_mean_knows_no_overflow(shares: list[float]) -> None:
    found = harmonic_mean(shares)
    assert min(shares) * (1 - 1e-12) <= found <= max(shares) * (1 + 1e-12)
