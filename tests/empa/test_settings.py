"""What EMPA prints of its settings and rates, compared with the presets, the shipped scenarios and the example configuration."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from heartloop.environments.empa.environment import EmpaOptions
from heartloop.environments.empa.scenario import DOMAINS, difficulty_of, load_scenarios
from heartloop.environments.empa.scoring import AXES, INDICES, LEVELS, Case, composite, form_keys, increment, indices_of, trace
from heartloop.environments.report import PrintedRow, published
from heartloop.evaluation.settings import read_config

PACKAGE = "heartloop.environments.empa"
PRINTED = {str(row["setting"]): row["value"] for row in published(PACKAGE, "empa_settings")}
BOUNDS = {str(row["setting"]): row["value"] for row in published(PACKAGE, "empa_table10_bounds_settings")}
EXAMPLE = Path(__file__).parents[2] / "examples" / "empa_table7.yaml"
FULL = dict.fromkeys(form_keys(), 0) | dict.fromkeys(("C.Prog", "A.Prog", "P.Prog"), 2)
WORST = dict.fromkeys(form_keys(), 0) | dict.fromkeys(("C.Neg", "A.Neg", "P.Neg"), -2)


def number(name: str) -> float:
    return float(str(PRINTED[name]))


def test_the_example_configuration_has_the_sampling_of_table_7() -> None:
    config = read_config(EXAMPLE).values
    request = {name.removeprefix("policy."): value for name, value in config["request"].items()}
    assert request == {name: number(name) for name in ("temperature", "top_p", "presence_penalty", "max_tokens")}
    assert config["option"]["window"] == EmpaOptions().window == number("judge_window_minimum_turns")


def test_weights_and_parts_of_epm_q() -> None:
    weights = [number(f"epm_q_weight_{name}") for name in INDICES]
    assert [composite(*(float(name == other) for other in INDICES)) for name in INDICES] == weights
    assert {len(names) for names in INDICES.values()} == {number("sub_metrics_per_dimension")}


def test_the_constants_of_preset_paper() -> None:
    """One window of the most progress from (-10, -10, -10): v = (2, 2, 2), energy rho_max, net score 6, |P_0| 17.32."""
    assert {level for levels in LEVELS.values() for level in levels} == set(range(int(number("mdep_axis_min")), 3))
    assert number("mdep_axis_max") == max(increment(FULL, preset="paper"))
    path = trace(Case((-10.0, -10.0, -10.0), [FULL]), preset="paper")
    assert path.total == pytest.approx(number("rho_max"), abs=5e-4)
    indices = indices_of(path, preset="paper")
    assert indices.density == indices.projection == pytest.approx(100)
    assert indices.net == pytest.approx(100 * 6 / (number("physical_to_scale_factor_alpha") * 300**0.5))


def test_the_bounds_of_table_10() -> None:
    """Nothing happens: the middle of RDI's and alignment's bounds. The worst form: three axes of 2 are beyond the bound 3."""
    low, high = number("index_clamp_low"), number("index_clamp_high")
    none = indices_of(trace(Case((-10.0, 0.0, 0.0), [dict.fromkeys(form_keys(), 0)]), preset="paper"), preset="paper")
    for name, value in (("relative_distance_improvement", none.rdi), ("alignment_index", none.alignment)):
        zero, hundred = (float(str(BOUNDS[f"{name}_{end}"])) for end in ("x0_score_0", "x100_score_100"))
        assert value == pytest.approx(high * (0 - zero) / (hundred - zero))
    assert (none.penalty, BOUNDS["penalty_rate_x100_score_100"]) == (high, 0)
    one = dict.fromkeys(form_keys(), 0) | {"C.Neg": -1}
    penalty = indices_of(trace(Case((-10.0, 0.0, 0.0), [one]), preset="paper"), preset="paper").penalty
    assert penalty == pytest.approx(high * (1 - 1 / float(str(BOUNDS["penalty_rate_x0_score_0"]))))
    assert indices_of(trace(Case((-10.0, 0.0, 0.0), [WORST]), preset="paper"), preset="paper").penalty == low


def test_the_shipped_scenarios_are_distributed_as_the_papers() -> None:
    scenarios = load_scenarios("cases")
    assert len(scenarios) == number("benchmark_cases")
    assert Counter(s.axis for s in scenarios) == dict.fromkeys(AXES, number("cases_per_need_axis"))
    assert len(DOMAINS) == number("life_domains")
    assert Counter(s.domain for s in scenarios) == dict.fromkeys(DOMAINS, number("cases_per_life_domain"))
    tiers = ("easy", "medium", "hard", "extreme")
    assert Counter(s.difficulty for s in scenarios) == {tier: number(f"difficulty_{tier}_cases") for tier in tiers}
    high = sum(s.threshold == "high" for s in scenarios)
    assert 100 * high / len(scenarios) == number("high_empathy_threshold_users_percent")


def test_difficulty_is_cut_at_the_mean_and_one_deviation_to_either_side() -> None:
    mean, spread = number("initial_deficit_mean"), number("initial_deficit_std")
    cuts = [mean - spread, mean, mean + spread]
    assert [difficulty_of(cut - 0.001) for cut in cuts] == ["easy", "medium", "hard"]
    assert [difficulty_of(cut + 0.001) for cut in cuts] == ["medium", "hard", "extreme"]


def attainable(n: int, percent: float) -> bool:
    """Whether a count out of n gives this percentage to one decimal."""
    return any(round(100 * k / n, 1) == percent for k in range(n + 1))


@pytest.mark.parametrize("table", ["empa_table05_perturbation", "empa_table06_ablation"])
def test_the_rates_of_tables_5_and_6_follow_from_n_but_for_one(table: str) -> None:
    """85.9 % of 98 is no count: 84 are 85.7 %, 85 are 86.7 %."""
    rows = published(PACKAGE, table)
    rates = [(row, name) for row in rows for name in row if name.endswith("rate_percent")]
    odd = [(str(row["dataset"]), float(str(row[name]))) for row, name in rates if not attainable(*_counted(row, name))]
    assert odd == ([("Sycophancy", 85.9)] if table.endswith("ablation") else [])
    for row in rows:
        if "ci95_low" in row:
            low, mean, high = (float(str(row[name])) for name in ("ci95_low", "mean", "ci95_high"))
            assert low < mean < high
            assert high - mean == pytest.approx(mean - low, abs=0.0151)  # symmetric, up to rounding


def _counted(row: PrintedRow, name: str) -> tuple[int, float]:
    return int(str(row["n"])), float(str(row[name]))
