"""The published tables, and what our own statistics make of them: counts, ranks, correlations and sums come out as printed.

Do not fix one of these tests without a decision (docs/decisions): the numbers are the papers'.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from heartloop.core.errors import UseError
from heartloop.environments.eibench.scoring import weighted_mean
from heartloop.environments.report import PrintedRow, published, published_names
from heartloop.environments.sage.scenario import INTENTIONS
from heartloop.environments.sage.scoring import summarise
from heartloop.scoring.agreement import mean_pairwise_pearson, spearman
from heartloop.validity.rankings import rank_p

PACKAGES = [f"heartloop.environments.{name}" for name in ("sage", "eibench", "empa", "perm", "eqbench", "stances")]
TABLES = {name: package for package in PACKAGES for name in published_names(package)}
CAPABILITIES = ("empathic_depth", "core_insight", "solution_crafting", "dialogue_guidance", "style_adaptability")


def table_of(name: str) -> list[PrintedRow]:
    return published(TABLES[name], name)


def number(row: PrintedRow, column: str) -> float:
    value = row[column]
    assert isinstance(value, int | float), f"{column} is {value!r}"
    return float(value)


def column(rows: list[PrintedRow], name: str) -> list[float]:
    return [number(row, name) for row in rows]


def by_model(rows: list[PrintedRow], name: str, *, without: str = "") -> dict[str, float]:
    return {str(row["model"]): number(row, name) for row in rows if row["model"] != without}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_read(name: str) -> None:
    rows = table_of(name)
    assert rows
    for key in rows[0]:
        assert len({type(row[key]) for row in rows if row[key] is not None}) == 1, f"{key} is of one type"


def test_numbers_are_numbers_signs_included_and_empty_cells_are_none() -> None:
    first = table_of("eibench_table04_leaderboard")[0]
    assert (first["model"], first["qwen3_max_charm"], first["arena_elo"]) == ("Claude-Sonnet-4.6", 43.8, 1548)
    assert table_of("rlver_table01_sentient_and_chitchat")[0]["rl_algorithm"] is None
    assert table_of("sage_table02_leaderboard")[0]["date"] == "2025-03-26"


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(UseError, match="no published table 'sage_table99'; expected one of rlver_script_settings, "):
        published(PACKAGES[0], "sage_table99")


def attainable(success: int, failure: int) -> tuple[float, float]:
    """Smallest and largest mean of 100 final emotions with these counts: failures lie in [0, 10), the rest in [10, 100)."""
    rest = 100 - success - failure
    low = summarise([100.0] * success + [0.0] * failure + [10.0] * rest)
    high = summarise([100.0] * success + [9.999] * failure + [99.999] * rest)
    assert (low.success, low.failure) == (high.success, high.failure) == (success, failure)
    return low.mean, high.mean


def test_the_bounds_of_a_mean_worked_by_hand() -> None:
    # 51 successes, 4 failures, 45 others: from 5100 + 0 + 450 = 5550 to nearly 5100 + 40 + 4500 = 9640, over 100.
    assert attainable(51, 4) == pytest.approx((55.5, 96.4), abs=0.001)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("sage_table02_leaderboard", ("sentient_score", "success_count", "failure_count")),
        *(
            (table, (f"{half}_score", f"{half}_success_percent", f"{half}_failure_percent"))
            for table in ("rlver_table01_sentient_and_chitchat", "rlver_table10_llama_sentient_and_chitchat")
            for half in ("sentient", "chitchat")
        ),
    ],
)
def test_every_score_is_attainable_from_its_counts(table: str, kind: tuple[str, str, str]) -> None:
    for row in table_of(table):
        score, success, failure = (number(row, name) for name in kind)
        low, high = attainable(int(success), int(failure))
        assert low - 0.05 <= score <= high + 0.05, row["model"]


def test_the_topics_are_our_intentions_and_sum_to_100() -> None:
    counts = column(table_of("sage_table03_topics"), "test_count")
    assert sum(counts) == 100
    assert sorted(counts) == sorted(row.cases for row in INTENTIONS.values() if row.family == "support")


def test_the_strategies_are_24_in_7_groups() -> None:
    groups = [row["group_id"] for row in table_of("sage_table04_strategies")]
    assert [groups.count(group) for group in "ABCDEFG"] == [5, 3, 2, 3, 4, 5, 2]


@pytest.mark.parametrize(
    ("table", "rank", "score"),
    [
        ("sage_table02_leaderboard", "sentient_rank", "sentient_score"),
        ("sage_figure01a_leaderboard_vs_arena", "sentient_rank", "sentient_score"),
        ("eibench_table04_leaderboard", "qwen3_max_rank", "qwen3_max_average"),
        ("eibench_table04_leaderboard", "ds_v4_pro_rank", "ds_v4_pro_average"),
        ("eibench_table04_leaderboard", "arena_rank", "arena_elo"),
        ("empa_table07_leaderboard", "rank", "epm_q"),
    ],
)
def test_ranks_are_a_permutation_and_follow_the_scores(table: str, rank: str, score: str) -> None:
    rows = sorted(table_of(table), key=lambda row: number(row, rank))
    assert column(rows, rank) == list(range(1, len(rows) + 1))
    assert column(rows, score) == sorted(column(rows, score), reverse=True)


def test_simulators_agree_at_least_to_084() -> None:
    rows = table_of("sage_table01_agent_rank_correlation")
    apart = [number(row, "spearman_rho") for row in rows if row["agent_a"] != row["agent_b"]]
    assert (len(apart), min(apart)) == (6, 0.84)


def test_the_agreement_of_appendix_b_is_not_that_of_table_1() -> None:
    """Appendix B: above 0.91 for every pair of user simulators; two of the six pairs of Table 1 are not."""
    rows = table_of("sage_table01_agent_rank_correlation")
    apart = sorted(number(row, "spearman_rho") for row in rows if row["agent_a"] != row["agent_b"])
    assert [rho for rho in apart if rho <= 0.91] == [0.84, 0.85]


@pytest.mark.parametrize(
    ("table", "models", "rho", "p"),
    [("sage_table02_leaderboard", 18, 0.77, 0.0002), ("sage_figure01a_leaderboard_vs_arena", 11, 0.67, 0.023)],
)
def test_emotion_and_arena_rank_the_models_more_alike_than_the_paper_says(table: str, models: int, rho: float, p: float) -> None:
    """SAGE calls the two orthogonal (section 1); over its 18 models rho is 0.77."""
    rows = table_of(table)
    assert len(rows) == models
    emotion, arena = column(rows, "sentient_score"), column(rows, "arena_score")
    assert spearman(by_model(rows, "sentient_score"), by_model(rows, "arena_score")) == pytest.approx(rho, abs=0.005)
    assert rank_p(emotion, arena) == pytest.approx(p, rel=0.02)


def test_the_judges_of_rlver_agree_as_printed() -> None:
    rows = table_of("rlver_table05_core_capability_by_judge")
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    found = {
        name: mean_pairwise_pearson([column([r for r in rows if r["judge"] == j], name) for j in judges]) for name in CAPABILITIES
    }
    assert {name: round(r, 3) for name, r in found.items()} == {
        "empathic_depth": 0.981, "core_insight": 0.943, "solution_crafting": 0.671, "dialogue_guidance": 0.778,
        "style_adaptability": 0.822,
    }  # fmt: skip
    printed = table_of("rlver_table05_average_judge_correlation")
    assert {row["capability"]: row["average_correlation"] for row in printed} == {n: round(r, 3) for n, r in found.items()}


def test_table_7_of_rlver_is_the_mean_over_the_judges_of_table_5() -> None:
    rows = table_of("rlver_table05_core_capability_by_judge")
    for row in table_of("rlver_table07_judge_scores_and_human_win_rates"):
        if row["measure"] == "llm_judge_score":
            mine = [r for r in rows if r["model"] == row["model"]]
            for name in CAPABILITIES:
                printed = number(row, name.replace("style_adaptability", "style_flexibility"))
                assert float(np.mean(column(mine, name))) == pytest.approx(printed, abs=0.0006)


def test_judges_and_people_agree_as_rlver_prints() -> None:
    rows = table_of("rlver_table07_judge_scores_and_human_win_rates")
    kinds: dict[str, dict[str, float]] = {}
    for row in rows:
        for name in row:
            if name not in ("model", "measure"):
                kinds.setdefault(str(row["measure"]), {})[f"{row['model']} {name}"] = number(row, name)
    first, second = kinds.values()
    assert len(first.keys() & second.keys()) == 15
    assert round(spearman(first, second), 3) == 0.899
    assert table_of("rlver_table07_judge_human_correlation")[0]["value"] == 0.899


def test_simulators_and_people_agree_as_eibench_prints_with_self_scored_models_left_out() -> None:
    rows = table_of("eibench_table04_leaderboard")
    table = {
        "Qwen3-Max": by_model(rows, "qwen3_max_average", without="Qwen3-Max"),
        "DS-V4-Pro": by_model(rows, "ds_v4_pro_average", without="DeepSeek-V4-Pro"),
        "Arena": by_model(rows, "arena_elo"),
    }
    for row in table_of("eibench_table05_rank_correlation"):
        assert round(spearman(table[str(row["ranking_a"])], table[str(row["ranking_b"])]), 2) == row["spearman_rho"]
    for a, b, shared, rho in (
        ("DS-V4-Pro", "Qwen3-Max", 13, 0.93), ("Arena", "Qwen3-Max", 14, 0.82), ("Arena", "DS-V4-Pro", 14, 0.70),
    ):  # fmt: skip
        assert (len(table[a].keys() & table[b].keys()), round(spearman(table[a], table[b]), 2)) == (shared, rho)


def test_epm_q_is_a_weighted_sum() -> None:
    for row in table_of("empa_table07_leaderboard"):
        sum_of_parts = 0.4 * number(row, "outcome") + 0.2 * number(row, "efficiency") + 0.4 * number(row, "stability")
        assert sum_of_parts == pytest.approx(number(row, "epm_q"), abs=0.01)  # four numbers, each rounded by up to 0.005


def test_perm_repeats_its_own_rows() -> None:
    board = {row["model"]: row for row in table_of("perm_table01_eqbench3")}
    full = table_of("perm_table02_ablation")[0]
    assert {name: full[name] for name in full if name != "variant"} == {
        name: board["PERM"][name] for name in full if name != "variant"
    }
    weights = {row["lambda_bys"]: row["overall"] for row in table_of("perm_table06_bystander_coefficient")}
    assert weights[0.5] == board["PERM"]["overall"]
    for row in table_of("perm_table03_user_study"):
        half = number(row, "ci95_half_width_percent")
        assert half <= number(row, "win_rate_percent") <= 100 - half


def test_the_improvements_of_perm_are_reproduced() -> None:
    rows = {(row["backbone"], row["model"]): row for row in table_of("perm_table07_backbones")}
    board = {row["model"]: row for row in table_of("perm_table01_eqbench3")}
    base = "Qwen2.5-7B-Instruct"
    for before, after, printed in (
        *(
            (rows[b, "base"], rows[b, "PERM"], rows[b, "PERM over base"])
            for b in ("Llama-3.1-8B-Instruct", "Qwen3-4B-Instruct-2507")
        ),
        (board[base], board["PERM"], board[f"PERM over {base}"]),
    ):
        for name in printed.keys() - {"backbone", "method_group", "model", "measure"}:
            assert round(100 * (number(after, name) / number(before, name) - 1), 1) == printed[name]


def test_table_8_is_possible_for_five_replies() -> None:
    """A flip takes a reply after the one that upheld: a dialogue with turn of flip t >= 1 has at most 5 - t flips, one with 0 at
    most 4, so mean flips are at most 5 - mean turn."""
    for row in table_of("rlver_table08_sycon_bench"):
        tof, nof = number(row, "turn_of_flip"), number(row, "number_of_flips")
        assert 0.0 <= tof <= 5.0
        assert 0.0 <= nof <= min(4.0, 5.0 - tof), row["model"]


def test_table_8_flips_fall_with_training_and_the_turn_moves_by_a_quarter_at_most() -> None:
    rows = table_of("rlver_table08_sycon_bench")
    tof, nof = by_model(rows, "turn_of_flip"), by_model(rows, "number_of_flips")
    base = "Qwen2.5-7B-Instruct"
    trained = [model for model in tof if model != base]
    assert [round(tof[model] - tof[base], 2) for model in trained] == [0.24, -0.11]
    assert [round(nof[model] - nof[base], 2) for model in trained] == [-0.04, -0.33]
    assert np.mean(column(rows, "turn_of_flip")) == pytest.approx(1.1133, abs=5e-5)
    assert np.mean(column(rows, "number_of_flips")) == pytest.approx(1.9467, abs=5e-5)


SCENES = ("charm", "defense", "repair", "support")


@pytest.mark.parametrize(
    ("table", "prefix", "within"), [("eibench_table04_leaderboard", "qwen3_max_", 0.061), ("eibench_table07_ablation", "", 0.05)]
)
def test_averages_of_eibench_weigh_its_scenes_by_their_test_scenarios(table: str, prefix: str, within: float) -> None:
    """Rounding allows 0.1: 0.05 of the average, and as much of the weighted scenes."""
    counts = {str(row["scene"]).lower(): int(number(row, "test_count")) for row in table_of("eibench_table03_anchor_statistics")}
    off = []
    for row in table_of(table):
        mean = weighted_mean({scene: [number(row, prefix + scene)] * counts[scene] for scene in SCENES})
        off.append(abs((mean or 0.0) - number(row, f"{prefix}average")))
    assert max(off) <= within


def test_elo_of_the_arena_is_about_its_start() -> None:
    """Each battle moves two ratings by as much, so their mean stays at 1500; of 15 rounded ones it is 1499.8."""
    start = next(row["value"] for row in table_of("eibench_text_settings") if row["setting"] == "arena_elo_initial")
    found = np.mean(column(table_of("eibench_table04_leaderboard"), "arena_elo"))
    assert (start, round(float(found), 1)) == ("1500", 1499.8)


def test_the_gains_that_eibench_names_are_those_of_table_6() -> None:
    """The abstract: SAGE +12.4 (points), EQ-Bench3 +20.9 % (of its Elo), EIBench -22.4 to +22.4; all of the 8B model."""
    rows = {str(row["model"]): row for row in table_of("eibench_table06_main_results")}
    base, trained = rows["Qwen3-8B base"], rows["CTC-GRPO 8B"]
    assert round(number(trained, "sage") - number(base, "sage"), 1) == 12.4
    assert round(100 * (number(trained, "eqbench3_elo") / number(base, "eqbench3_elo") - 1), 1) == 20.9
    board = {str(row["model"]): row for row in table_of("eibench_table04_leaderboard")}
    for size in ("8B", "32B"):
        for ours, theirs in (("eibench_qwen3_max", "qwen3_max_average"), ("eibench_deepseek_v4_pro", "ds_v4_pro_average")):
            assert rows[f"Qwen3-{size} base"][ours] == board[f"Qwen3-{size}"][theirs]
    assert trained["eibench_qwen3_max"] == table_of("eibench_table07_ablation")[0]["average"] == 22.4


def test_the_bands_of_behaviour_cover_each_axis_without_overlap() -> None:
    by_axis: dict[str, list[tuple[float, float]]] = {}
    for row in table_of("eibench_figure09_anchor_bands"):
        by_axis.setdefault(str(row["axis"]), []).append((number(row, "band_low"), number(row, "band_high")))
    assert len(by_axis) == 2
    for bands in by_axis.values():
        bands.sort()
        assert (bands[0][0], bands[-1][1]) == (0, 100)
        assert all(after[0] == before[1] + 1 for before, after in pairwise(bands))


def test_the_topics_of_rlver_are_500_and_100_with_sages_test_counts() -> None:
    rows = table_of("rlver_table04_topics")
    assert (sum(column(rows, "training_count")), sum(column(rows, "testing_count"))) == (500, 100)
    assert sorted(column(rows, "testing_count")) == sorted(column(table_of("sage_table03_topics"), "test_count"))


def test_the_ends_of_empas_indices_are_ends_of_their_ranges() -> None:
    values = {str(row["setting"]): number(row, "value") for row in table_of("empa_table10_bounds_settings")}
    for name in (key.removesuffix("_raw_low") for key in values if key.endswith("_raw_low")):
        ends = {values[f"{name}_raw_low"], values[f"{name}_raw_high"]}
        assert {values[f"{name}_x0_score_0"], values[f"{name}_x100_score_100"]} == ends
