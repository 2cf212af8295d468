"""PERM's published numbers that can be recomputed, and its settings against the constants of the reward."""

from __future__ import annotations

from math import sqrt

import pytest

from heartloop.environments.perm.environment import DIMENSIONS, SPEC
from heartloop.environments.perm.scenario import EMOTIONS
from heartloop.environments.perm.scoring import FREE_TOKENS, LENGTH_WEIGHT, PARTS, normalised, perm_reward
from heartloop.environments.report import published

TABLE_3 = published("heartloop.environments.perm", "perm_table03_user_study")


def half_width(share: float, n: float) -> float:
    """Of the 95 % interval of a share, in percent."""
    return 100 * 1.96 * sqrt(share * (1 - share) / n)


def test_each_half_width_of_table_3_gives_a_number_of_judgements() -> None:
    numbers = []
    for row in TABLE_3:
        share, half = float(str(row["win_rate_percent"])) / 100, float(str(row["ci95_half_width_percent"])) / 100
        numbers.append(share * (1 - share) * (1.96 / half) ** 2)
    assert numbers == pytest.approx([95.7, 90.5, 95.7, 79.8, 79.3, 90.7, 80.1, 89.2], abs=0.06)


def test_each_comparison_of_table_3_has_one_number_of_judgements_but_for_one_half_width() -> None:
    n = {("EmpatheticDialogues", "PERM vs. Base"): 96, ("EQ-Bench3", "PERM vs. Base"): 80}
    unlike = {}
    for row in TABLE_3:
        number, rate = n.get((str(row["dataset"]), str(row["comparison"])), 90), float(str(row["win_rate_percent"]))
        won = round(rate / 100 * number)
        assert round(100 * won / number, 1) == pytest.approx(rate, abs=0.051), f"{won} of {number}"
        expected = round(half_width(won / number, number), 1)
        if expected != row["ci95_half_width_percent"]:
            unlike[row["dataset"], row["dimension"], row["comparison"]] = (expected, row["ci95_half_width_percent"])
    assert unlike == {("EmpatheticDialogues", "Overall EI", "PERM vs. RM"): (10.1, 10.7)}


def test_the_reward_has_the_published_settings() -> None:
    settings = {str(row["setting"]): str(row["value"]) for row in published("heartloop.environments.perm", "perm_settings")}
    ours = {
        "source_emotions": len(EMOTIONS),
        "lambda_bys": SPEC.options.model_fields["bystander_weight"].default,
        "lambda_len": -LENGTH_WEIGHT,
        "length_penalty_threshold_tokens": FREE_TOKENS,
        "reward_normalised_min": normalised(float(settings["judge_score_min"]), preset="unit"),
        "reward_normalised_max": normalised(float(settings["judge_score_max"]), preset="unit"),
        "empathy_reward_components": len(PARTS),
        "bystander_penalty_offset": perm_reward(5, 5, 5, 0, 0, bystander_weight=1.0).bystander,
        "bystander_dimensions": len(DIMENSIONS),
        "bystander_total_max": len(DIMENSIONS) * float(settings["bystander_dimension_max"]),
    }
    assert {name: float(settings[name]) for name in ours} == pytest.approx(ours)
