"""Training runs in a report, as a specification."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.report.site import write_site
from heartloop.report.training import (
    TrainingPage,
    arms_of,
    band_of,
    groups_of,
    is_training_run,
    notes_of,
    read_training_run,
    smoothed,
    summary_of,
    training_tables,
)
from heartloop.training.recipe import read_recipe
from tests.report.training_bench import training_run

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


class TestRuns:
    def test_seeds_are_one_arm_and_variants_have_names(self, tmp_path: Path) -> None:
        runs = [
            training_run(tmp_path / "a", made=2),
            training_run(tmp_path / "b", made=2, seed=1),
            training_run(tmp_path / "c", made=2, variants=("no_process",)),
            training_run(tmp_path / "d", "optimiser.learning_rate=0.002", made=2),
            training_run(tmp_path / "e", made=2, recipe="rlver_grpo_tiny"),
        ]
        arms = arms_of([read_training_run(run) for run in runs])
        usual = read_recipe("ctc_grpo_tiny").optimiser.learning_rate
        assert [(arm.name, len(arm.runs)) for arm in arms] == [
            (f"ctc_grpo_tiny (optimiser.learning_rate {usual:g})", 2),
            ("ctc_grpo_tiny no_process", 1),
            ("ctc_grpo_tiny (optimiser.learning_rate 0.002)", 1),
            ("rlver_grpo_tiny", 1),
        ]

    def test_a_name_tells_three_differences_at_most(self, tmp_path: Path) -> None:
        more = (
            "algorithm.alpha=3", "algorithm.clip=0.3", "batch.scenarios=4", "optimiser.weight_decay=0.1",
            "scenarios.train_limit=50",
        )  # fmt: skip
        runs = [training_run(tmp_path / "a", made=1), training_run(tmp_path / "b", *more, made=1)]
        arms = arms_of([read_training_run(run) for run in runs])
        assert arms[1].name == "ctc_grpo_tiny (algorithm.alpha 3, algorithm.clip 0.3, batch.scenarios 4, 2 more settings)"

    def test_other_people_are_another_arm(self, tmp_path: Path) -> None:
        others = {"train": {"a": "changed"}, "held_out": {"c": "3"}}
        runs = [training_run(tmp_path / "a", made=1), training_run(tmp_path / "b", made=1, scenarios=others)]
        arms = arms_of([read_training_run(run) for run in runs])
        assert [arm.name for arm in arms] == ["ctc_grpo_tiny · a", "ctc_grpo_tiny · b"]

    def test_an_evaluation_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "settings.json").write_text('{"models": []}', encoding="utf-8")
        assert not is_training_run(tmp_path)
        assert not is_training_run(tmp_path / "absent")
        with pytest.raises(InputError, match="is no training run"):
            read_training_run(tmp_path)


def page_of(*runs: Path) -> TrainingPage:
    return TrainingPage([read_training_run(run) for run in runs])


class TestPage:
    def test_every_quantity_of_a_run_is_drawn(self, tmp_path: Path) -> None:
        drawn = {metric.name for _, panels in page_of(training_run(tmp_path / "run")).groups for metric, _ in panels}
        assert drawn >= {
            "held_out/score", "dialogue/score", "dialogue/return", "dialogue/score/charm", "held_out/score/repair",
            "dialogue/turns", "dialogue/reply_tokens", "dialogue/counts/truncated", "dialogue/counts/clamped_changes",
            "dialogue/said_before", "dialogue/said_to_others",
            "actor/entropy", "actor/ppo_kl", "actor/grad_norm", "dialogue/group_std", "user/calls",
            "user/prompt_tokens", "perf/throughput", "timing_s/step",
        }  # fmt: skip

    def test_each_declared_term_is_drawn_held_out_and_in_training(self, tmp_path: Path) -> None:
        terms = {"form": 0.9, "resonation": 2.1, "expression": 3.0, "reception": 2.5, "bystander": 61.0, "response_tokens": 31.0}
        logged = {f"{where}/parts/{name}": value for where in ("dialogue", "held_out") for name, value in terms.items()}
        run = read_training_run(training_run(tmp_path / "a", recipe="perm_grpo_tiny", made=3, data=logged))
        page = TrainingPage([run])
        (panels,) = [panels for group, panels in page.groups if group.id == "terms"]
        assert {metric.name for metric, _ in panels} == logged.keys()
        assert {metric.title for metric, _ in panels} >= {"Held out: Reception", "Training: Reception"}

    def test_what_never_went_wrong_is_not_drawn(self, tmp_path: Path) -> None:
        data = {"dialogue/failed": 0.0, "dialogue/counts/re-asks": 0.0, "dialogue/counts/overflows": 1.0}
        found = {
            metric.name: metric for _, panels in page_of(training_run(tmp_path / "r", data=data)).groups for metric, _ in panels
        }
        assert not {"dialogue/failed", "dialogue/counts/re-asks", "dialogue/counts/silences"} & set(found)
        assert found["dialogue/counts/overflows"].title == "Counted: overflows"  # none that we know by name

    def test_a_count_that_is_not_logged_is_nought_and_a_score_is_left_out(self, tmp_path: Path) -> None:
        run = training_run(tmp_path / "run", "batch.steps=3", made=0)
        logged: list[dict[str, float]] = [
            {"held_out/score": 0.1},  # an evaluation alone counts no training dialogue
            {"dialogue/scored": 4.0, "dialogue/counts/re-asks": 2.0, "dialogue/score/charm": 0.5},
            {"dialogue/scored": 4.0},
        ]
        lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(logged)]
        (run / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
        found = read_training_run(run)
        assert found.curve("dialogue/counts/re-asks") == {1: 2.0, 2: 0.0}
        assert found.curve("dialogue/score/charm") == {1: 0.5}

    def test_every_metric_has_an_entry_of_its_own(self) -> None:
        terms = load_environment("perm").training
        assert terms is not None
        metrics = [metric for group in groups_of("perm", terms.metrics) for metric in group.metrics]
        assert len({metric.entry for metric in metrics}) == len(metrics)
        assert len({metric.name for metric in metrics}) == len({metric.title for metric in metrics}) == len(metrics)

    def test_scores_are_in_points(self, tmp_path: Path) -> None:
        run = training_run(tmp_path / "run", made=20)
        (held_out,) = [chart for _, panels in page_of(run).groups for metric, chart in panels if metric.name == "held_out/score"]
        logged = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["data"]["held_out/score"]
        assert held_out.series[0].points[0].y == pytest.approx(100 * logged)
        sage = page_of(training_run(tmp_path / "sage", made=1, recipe="rlver_ppo_tiny"))
        assert sage.scale is not None
        assert sage.scale.points == 1.0

    def test_lengths_by_turn_worked_by_hand(self, tmp_path: Path) -> None:
        run = training_run(tmp_path / "run", "batch.steps=3", made=0)
        lines = [
            {"step": 1, "data": {"dialogue/reply_tokens/turn_1": 10.0, "dialogue/reply_tokens/turn_2": 30.0}},
            {"step": 2, "data": {"dialogue/reply_tokens/turn_1": 20.0}},
        ]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        (arch,) = page_of(run).arches
        assert [(line.name, [point.y for point in line.points]) for line in arch.series] == [
            ("step 2", [15.0, 30.0])
        ]  # turn 2 came once

    def test_settings_that_differ_stand_side_by_side(self, tmp_path: Path) -> None:
        page = page_of(training_run(tmp_path / "a", made=1), training_run(tmp_path / "b", made=1, variants=("no_floor",), seed=3))
        assert page.differences == [("algorithm.sigma_min", ["0.1", "1e-06"])]


class TestSummary:
    def test_change_is_seed_by_seed(self, tmp_path: Path) -> None:
        runs = []
        for seed, (first, last) in enumerate([(-0.3, 0.1), (-0.1, 0.1)]):
            run = training_run(tmp_path / f"{seed}", "batch.steps=2", seed=seed, made=0)
            lines = [{"step": 0, "data": {"held_out/score": first}}, {"step": 2, "data": {"held_out/score": last}}]
            (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            runs.append(read_training_run(run))
        (arm,) = arms_of(runs)
        course = summary_of(arm)["held_out"]
        assert course is not None
        assert course["change"] == pytest.approx((30.0, 20.0, 40.0, 2))  # 40 and 20 points
        assert (course["first"].mean, course["last"].mean) == pytest.approx((-20.0, 10.0))

    def test_failures_are_said(self, tmp_path: Path) -> None:
        data = {"dialogue/failed": 4.0, "training/skipped_updates": 1.0, "actor/grad_norm": float("nan")}
        run = read_training_run(training_run(tmp_path / "run", made=10, data=data))
        (note,) = notes_of([run])
        assert note.startswith("run: 10 of 60 steps made; rerun the same command")
        assert "40 of 200 training dialogues failed (20.0%, more than the 5% allowed)" in note  # 16 scored a step
        assert "10 steps without an update" in note
        assert "actor/grad_norm is not finite from step 1 on" in note
        assert summary_of(arms_of([run])[0])["failed_share"] == pytest.approx(0.2)

    def test_cost_is_told_where_every_run_has_prices(self, tmp_path: Path) -> None:
        priced = training_run(tmp_path / "a", made=10, data={"user/cost": 0.5})
        plain = training_run(tmp_path / "b", made=10, seed=1)
        assert summary_of(arms_of([read_training_run(priced)])[0])["cost"] == pytest.approx(5.0)
        assert summary_of(arms_of([read_training_run(priced), read_training_run(plain)])[0])["cost"] is None


class TestSite:
    def test_beside_evaluations_it_has_a_page_of_its_own(
        self, tmp_path: Path, dialogues: list[Transcript], write_run: Callable[..., Path]
    ) -> None:
        evaluated = write_run(dialogues, "evaluated")
        trained = training_run(tmp_path / "trained", made=2)
        site = write_site([evaluated, trained], tmp_path / "site").parent
        assert 'href="training.html"' in (site / "index.html").read_text(encoding="utf-8")
        assert (site / "training.html").is_file()
        write_site([evaluated], site)
        assert not (site / "training.html").exists()
        write_site([trained], site)
        assert not (site / "settings.html").exists()


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

    def test_it_needs_no_extra(self, tmp_path: Path) -> None:
        run = training_run(tmp_path / "run", made=2)
        program = (
            "import sys\n"
            "from pathlib import Path\n"
            "from heartloop.report.site import write_site\n"
            f"write_site([Path({str(run)!r})], Path({str(tmp_path / 'site')!r}))\n"
            "print(*sorted({'torch', 'ray', 'verl', 'heartloop.training'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split() == []
