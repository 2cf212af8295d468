"""Training runs in a report, as a specification."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.blocks import Chart
from heartloop.core.errors import InputError
from heartloop.report.training import (
    Metric,
    TrainingPage,
    TrainingRun,
    arms_of,
    band_of,
    held_out_pairs,
    is_training_run,
    notes_of,
    pages_of,
    read_training_run,
    smoothed,
    summary_of,
    training_tables,
)
from heartloop.training.recipe import read_recipe
from tests.report.talks import talk
from tests.report.training_bench import training_run, write_held_out

CURVES = st.dictionaries(st.integers(0, 300), st.floats(-1e6, 1e6), min_size=1)


class TestCurves:
    def test_a_band_worked_by_hand(self) -> None:
        band = band_of([{1: 0.0, 2: 10.0, 3: 99.0}, {1: 4.0, 2: 4.0}])
        assert band is not None
        assert band.raw == {1: 2.0, 2: 7.0}  # step 3 is not every seed's
        assert band.mean == pytest.approx({1: 2.0, 2: 3.0})  # the mean of 2 and 4
        assert (band.low, band.high) == ({1: 0.0, 2: 2.0}, {1: 4.0, 2: 4.0})

    @given(CURVES)
    def test_a_smoothed_curve_stays_within_what_was_measured(self, curve: dict[int, float]) -> None:
        soft = smoothed(curve)
        assert list(soft) == list(curve)
        assert min(curve.values()) - 1e-6 <= min(soft.values()) <= max(soft.values()) <= max(curve.values()) + 1e-6


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., TrainingRun]:
    """A run of one step, or of the steps whose metrics are given."""

    def make(name: str = "run", *settings: str, steps: Mapping[int, Mapping[str, float]] = {}, **more: Any) -> TrainingRun:
        folder = training_run(tmp_path / name, *settings, **{"made": 0 if steps else 1, **more})
        if steps:
            lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in steps.items()]
            (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
        return read_training_run(folder)

    return make


Made = Callable[..., TrainingRun]


class TestRuns:
    def test_seeds_are_one_arm_and_variants_have_names(self, made: Made) -> None:
        runs = [
            made("a"),
            made("b", "machine.workers=2", "watching.keep=1", seed=1),  # where it ran and how it was watched decide nothing
            made("c", variants=("no_process",)),
            made("d", "optimiser.learning_rate=0.002"),
            made("e", recipe="rlver_grpo_tiny"),
        ]
        usual = read_recipe("ctc_grpo_tiny").optimiser.learning_rate
        assert [(arm.name, len(arm.runs)) for arm in arms_of(runs)] == [
            (f"ctc_grpo_tiny (optimiser.learning_rate {usual:g})", 2),
            ("ctc_grpo_tiny no_process", 1),
            ("ctc_grpo_tiny (optimiser.learning_rate 0.002)", 1),
            ("rlver_grpo_tiny", 1),
        ]
        assert [page.environment for page in pages_of(runs)] == ["EIBench", "SAGE"]

    def test_a_name_has_three_differences_at_most(self, made: Made) -> None:
        more = ["algorithm.alpha=3", "algorithm.clip=0.3", "batch.scenarios=4", "batch.steps=9", "scenarios.train_limit=5"]
        arms = arms_of([made("a"), made("b", *more)])
        assert arms[1].name == "ctc_grpo_tiny (algorithm.alpha 3, algorithm.clip 0.3, batch.scenarios 4, 2 more settings)"

    def test_other_scenarios_are_another_arm(self, made: Made) -> None:
        runs = [made("a"), made("b", scenarios={"train": {"a": "changed"}, "held_out": {"d": "4"}})]
        assert [arm.name for arm in arms_of(runs)] == ["ctc_grpo_tiny · a", "ctc_grpo_tiny · b"]
        assert "held-out scores do not compare" in notes_of(runs)[-1]

    def test_an_evaluation_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "settings.json").write_text('{"models": []}', encoding="utf-8")
        assert not is_training_run(tmp_path)
        assert not is_training_run(tmp_path / "absent")
        with pytest.raises(InputError, match="is no training run"):
            read_training_run(tmp_path)


def drawn(*runs: TrainingRun) -> dict[str, tuple[Metric, Chart]]:
    return {metric.name: (metric, chart) for _, panels in TrainingPage(runs).groups for metric, chart in panels}


class TestPage:
    def test_quantities_of_every_kind_are_drawn(self, made: Made) -> None:
        assert drawn(made(made=60)).keys() >= {
            "held_out/score",
            "held_out/score/repair",
            "dialogue/counts/truncated",
            "actor/entropy",
            "user/calls",
            "timing_s/step",
        }

    def test_each_declared_term_is_drawn_held_out_and_in_training(self, made: Made) -> None:
        terms = {"form": 0.9, "resonation": 2.1, "expression": 3.0, "reception": 2.5, "bystander": 61.0, "response_tokens": 31.0}
        logged = {f"{where}/parts/{name}": value for where in ("dialogue", "held_out") for name, value in terms.items()}
        found = drawn(made(recipe="perm_grpo_tiny", data={**logged, "dialogue/parts/own_term": 0.5}))
        assert {name for name in found if "/parts/" in name} == {*logged, "dialogue/parts/own_term"}

    def test_what_never_went_wrong_is_not_drawn(self, made: Made) -> None:
        found = drawn(made(data={"dialogue/failed": 0.0, "dialogue/counts/re-asks": 0.0, "dialogue/counts/overflows": 1.0}))
        assert not {"dialogue/failed", "dialogue/counts/re-asks", "dialogue/counts/silences"} & set(found)
        assert found["dialogue/counts/overflows"][0].title == "Counted: overflows"  # none that we know by name

    def test_a_count_that_is_not_logged_is_nought_and_a_score_is_left_out(self, made: Made) -> None:
        steps = {
            0: {"held_out/score": 0.1},  # an evaluation alone counts no training dialogue
            1: {"dialogue/scored": 4.0, "dialogue/counts/re-asks": 2.0, "dialogue/score/charm": 0.5},
            2: {"dialogue/scored": 4.0},
        }
        found = made(steps=steps)
        assert found.curve("dialogue/counts/re-asks") == {1: 2.0, 2: 0.0}
        assert found.curve("dialogue/score/charm") == {1: 0.5}

    def test_scores_are_in_points(self, made: Made) -> None:
        _, chart = drawn(made(steps={0: {"held_out/score": 0.25}}))["held_out/score"]
        assert [point.y for point in chart.series[0].points] == [25.0]

    def test_lengths_by_turn_worked_by_hand(self, made: Made) -> None:
        turn = "dialogue/reply_tokens/turn_"
        run = made(steps={1: {f"{turn}1": 10.0, f"{turn}2": 30.0}, 2: {f"{turn}1": 20.0}})  # turn 2 came once
        (arch,) = TrainingPage([run]).arches
        assert [(line.name, [point.y for point in line.points]) for line in arch.series] == [("step 2", [15.0, 30.0])]

    def test_lengths_are_in_characters_where_they_were_logged(self, made: Made) -> None:
        length = {"dialogue/reply_tokens/turn_1": 10.0, "dialogue/reply_characters/turn_1": 44.0}
        (arch,) = TrainingPage([made(steps={1: length})]).arches
        assert (arch.y, [point.y for line in arch.series for point in line.points]) == ("characters", [44.0])

    def test_settings_that_differ(self, made: Made) -> None:
        page = TrainingPage([made("a"), made("b", variants=("no_floor",), seed=3)])
        assert page.differences == [("algorithm.sigma_min", ["0.1", "1e-06"])]


class TestDialogues:
    """Held-out dialogues of the first and the last step."""

    def test_the_same_scenario_at_both_ends(self, made: Made) -> None:
        run = made(recipe="rlver_ppo_tiny")
        write_held_out(
            run.path,
            {
                0: [talk("", "a", [0]), talk("", "b", [5]), talk("", "c", [0]), talk("", "only at first", [0])],
                20: [talk("", "a", [60])],  # neither the first nor the last
                40: [talk("", "a", [20]), talk("", "b", [-5]), talk("", "c", [3]), talk("", "only at last", [40])],
            },
        )
        pairs = held_out_pairs(run)
        assert [(pair.first.scenario, pair.change) for pair in pairs] == [("b", -10.0), ("c", 3.0), ("a", 20.0)]
        assert {(pair.first.model, pair.last.model) for pair in pairs} == {("step 0", "step 40")}

    def test_the_best_the_median_and_the_worst_change_are_shown(self, made: Made) -> None:
        run = made(recipe="rlver_ppo_tiny")
        changes = {"a": 20.0, "b": -10.0, "c": 3.0, "d": 4.0}
        write_held_out(run.path, {0: [talk("", name, [0]) for name in changes]})
        write_held_out(run.path, {40: [talk("", name, [change]) for name, change in changes.items()]})
        page = TrainingPage([run])
        ((_, pairs, shown),) = page.examples
        assert [(kind, pair.first.scenario) for kind, pair, _ in shown] == [
            ("Best", "a"), ("Median", "c"), ("Worst", "b"),
        ]  # fmt: skip
        assert len(pairs) == 4
        assert page.held_out is not None
        assert {address for *_, addresses in shown for address in addresses.split()} <= set(page.held_out.ids)
        assert page.held_out.dialogues[0].seed == page.held_out.dialogues[1].seed  # by which the page finds the same scenario

    def test_a_step_that_was_made_twice_counts_once(self, made: Made) -> None:
        run = made(recipe="rlver_ppo_tiny")
        write_held_out(run.path, {0: [talk("", "a", [0])], 40: [talk("", "a", [1])]}, process=9)
        for file in (run.path / "transcripts").iterdir():
            os.utime(file, (1, 1))
        write_held_out(run.path, {40: [talk("", "a", [2])]}, process=1)
        assert [pair.change for pair in held_out_pairs(run)] == [2.0]

    def test_one_evaluation_is_no_comparison(self, made: Made) -> None:
        run = made(recipe="rlver_ppo_tiny")
        assert TrainingPage([run]).held_out is None
        write_held_out(run.path, {0: [talk("", "a", [0])]})
        assert TrainingPage([run]).examples == []

    def test_runs_of_one_name_keep_their_dialogues(self, made: Made) -> None:
        runs = [made(f"{folder}/run", recipe="rlver_ppo_tiny", seed=seed) for seed, folder in enumerate("xy")]
        for run in runs:
            write_held_out(run.path, {0: [talk("", "a", [0])], 40: [talk("", "a", [1])]})
        page = TrainingPage(runs)
        assert page.held_out is not None
        assert len(page.held_out.dialogues) == 4
        assert len(page.examples) == 1  # of the first of two seeds


class TestSummary:
    def test_change_is_seed_by_seed(self, made: Made) -> None:
        ends = [(-0.3, 0.1), (-0.1, 0.1)]
        runs = [
            made(f"{seed}", "batch.steps=2", seed=seed, steps={0: {"held_out/score": first}, 2: {"held_out/score": last}})
            for seed, (first, last) in enumerate(ends)
        ]
        (arm,) = arms_of(runs)
        course = summary_of(arm)["held_out"]
        assert course["change"] == pytest.approx((30.0, 20.0, 40.0, 2))  # 40 and 20 points
        assert (course["first"].mean, course["last"].mean) == pytest.approx((-20.0, 10.0))

    def test_failures_precede_every_number(self, made: Made) -> None:
        data = {"dialogue/failed": 4.0, "training/skipped_updates": 1.0, "actor/grad_norm": float("nan")}
        run = made(made=10, data=data)
        (note,) = notes_of([run])
        assert note.startswith("run: 10 of 60 steps made; rerun the same command")
        assert "40 of 200 training dialogues failed (20.0%, more than the 5% allowed)" in note  # 16 scored a step
        assert "10 steps without an update" in note
        assert "actor/grad_norm is not finite from step 1 on" in note
        assert summary_of(arms_of([run])[0])["failed_share"] == pytest.approx(0.2)

    def test_cost_is_known_where_every_run_has_prices(self, made: Made) -> None:
        priced, plain = made("a", made=10, data={"user/cost": 0.5}), made("b", made=10, seed=1)
        assert summary_of(arms_of([priced])[0])["cost"] == pytest.approx(5.0)
        assert summary_of(arms_of([priced, plain])[0])["cost"] is None


class TestTerminal:
    def test_the_table_fits_80_columns_and_names_every_arm(self, tmp_path: Path) -> None:
        from rich.console import Console

        runs = [
            training_run(tmp_path / "a"),
            training_run(tmp_path / "b", seed=1),
            training_run(tmp_path / "c", variants=("control",)),
        ]
        console = Console(width=80, record=True, file=io.StringIO())
        for table in training_tables(runs):
            console.print(table)
        said = console.export_text()
        assert max(map(len, said.splitlines())) <= 80
        assert all(word in said for word in ("ctc_grpo_tiny", "control", "held out", "→", "User simulator and judges: "))

    def test_a_broken_run_is_one_sentence(self, tmp_path: Path) -> None:
        run = training_run(tmp_path / "run", made=5)
        (run / "metrics.jsonl").write_text("{\n", encoding="utf-8")
        done = CliRunner().invoke(app, ["report", str(run)])
        assert isinstance(done.exception, InputError)
        assert "metrics.jsonl, line 1" in str(done.exception)
