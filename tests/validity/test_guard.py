"""General capability before and after training (`heartloop guard`); for Inspect logs see `tests/integrations`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.report import published
from heartloop.integrations.harness import Item, TaskResult, pooled, read_results
from heartloop.validity.guard import Change, benchmarks, changes, commands, guard_result
from tests.commands import heartloop
from tests.validity.judges import play

KWARGS = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_gen_toks": 32768}


def lm_eval(
    folder: Path, task: str, values: Sequence[Any], *, metric: str = "exact_match", chosen: str = "none", run: int = 0,
    samples: bool = True, mean: float | None = None, stderr: float | str = 0.05, kwargs: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """A results file and its samples, in the form of lm-evaluation-harness 0.4.13."""
    place = folder / "org__model"
    place.mkdir(parents=True, exist_ok=True)
    date = f"2026-11-0{run + 1}T10-00-00.123456"
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    shown = mean if mean is not None else sum(flat) / len(flat)
    content = {
        "results": {task: {"alias": task, f"{metric},{chosen}": shown, f"{metric}_stderr,{chosen}": stderr}},
        "configs": {task: {"task": task, "generation_kwargs": KWARGS if kwargs is None else kwargs}},
        "versions": {task: 1.0},
        "n-shot": {task: 0},
        "n-samples": {task: {"original": len(values), "effective": len(values)}},
        "chat_template": "{{ messages }}",
        "task_hashes": {},
    }  # fmt: skip
    path = place / f"results_{date}.json"
    path.write_text(json.dumps(content))
    if samples:
        rows = [{"doc_id": number, "filter": chosen, "metrics": [metric], metric: value} for number, value in enumerate(values)]
        (place / f"samples_{task}_{date}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compared(folder: Path) -> Change:
    """The only benchmark that both sides have."""
    (one,) = changes(*(read_results(folder / side) for side in ("before", "after")))[0]
    return one


def both(folder: Path, task: str, before: Sequence[Any], after: Sequence[Any], **how: Any) -> Change:
    """One run before and one after, compared."""
    for side, values in (("before", before), ("after", after)):
        lm_eval(folder / side, task, values, **how)
    return compared(folder)


def test_the_difference_is_of_the_same_items_over_their_repeats(tmp_path: Path) -> None:
    both(tmp_path, "aime25", [1, 0, 1, 0], [1, 1, 1, 0])
    one = both(tmp_path, "aime25", [1, 0, 0, 0], [1, 0, 1, 0], run=1)
    assert (one.benchmark.name, one.items, one.paired) == ("AIME 2025", 4, True)
    # rates 1, 0, 1/2, 0 before and 1, 1/2, 1, 0 after
    assert [one.before, one.after] == pytest.approx([37.5, 62.5])
    # differences 0, 50, 50, 0: mean 25, SD 28.87, t of 3 degrees 3.182
    assert one.difference == pytest.approx(25.0)
    assert one.high == pytest.approx(25 + 3.18245 * 28.8675 / 2, abs=1e-3)
    assert "4 of 30 items before" in one.notes
    assert "2 of 8 repeats after" in one.notes


def test_items_that_all_stay_do_not_prove_that_none_would_change(tmp_path: Path) -> None:
    one = both(tmp_path, "aime25", [1, 0, 1], [1, 0, 1])
    wilson = 1.959964**2 / (3 + 1.959964**2)  # the upper end for none of three
    assert one.difference == 0
    assert one.high == pytest.approx(100 * wilson, abs=1e-3)
    assert one.verdict(2.0).startswith("inconclusive")


def test_an_item_counts_by_its_instructions(tmp_path: Path) -> None:
    sides = [[True], [True, False, False], [True, True]], [[False], [True, True, False], [True, True]]
    one = both(tmp_path, "ifeval", *sides, metric="inst_level_strict_acc", stderr="N/A")
    assert one.benchmark.name == "IFEval, instructions"
    assert [one.before, one.after, one.difference] == pytest.approx([100 * 4 / 6, 100 * 4 / 6, 0.0])
    assert (one.high or 0.0) > 0


def test_without_samples_the_standard_errors_serve_and_without_these_there_is_no_interval(tmp_path: Path) -> None:
    for side, mean, error in (("before", 0.86, 0.03), ("after", 0.80, 0.04)):
        how: Any = {"metric": "pass@1", "chosen": "create_test", "samples": False, "mean": mean}
        lm_eval(tmp_path / side, "humaneval_plus", [0] * 4, stderr=error, **how)
        lm_eval(tmp_path / "means" / side, "humaneval_plus", [0] * 4, stderr="N/A", **how)
    one = compared(tmp_path)
    assert not one.paired
    assert one.difference == pytest.approx(-6.0)
    assert one.low == pytest.approx(-6 - 1.959964 * 5, abs=1e-4)
    assert any("not paired" in note for note in one.notes)
    means = compared(tmp_path / "means")
    assert (means.low, means.high, means.verdict(2.0)) == (None, None, "no interval")
    assert [block.kind for block in guard_result([means], [], 2.0).page] == ["table"]


@pytest.mark.parametrize(
    ("low", "mean", "high", "words"),
    [
        (-5.0, -3.0, -1.0, "fell by 3.0 points (1.0 to 5.0)"),
        (-1.5, -1.0, -0.5, "fell by 1.0 points (0.5 to 1.5), by less than 2"),
        (1.0, 3.0, 5.0, "rose by 3.0 points (1.0 to 5.0)"),
        (-1.9, 0.0, 1.9, "no fall of more than 2 points"),
        (-6.0, -1.0, 4.0, "inconclusive: a fall of up to 6.0 points cannot be excluded"),
    ],
)
def test_what_an_interval_says(low: float, mean: float, high: float, words: str) -> None:
    benchmark = benchmarks()[0]
    assert Change(benchmark, benchmark.tasks[0], 50, 50 + mean, mean, low, high, 30, True, ()).verdict(2.0) == words


def test_settings_that_differ_are_noted(tmp_path: Path) -> None:
    greedy = {"do_sample": False, "max_gen_toks": 1024}
    lm_eval(tmp_path / "before", "aime25", [1, 0, 1])
    lm_eval(tmp_path / "after", "aime25", [1, 0, 1], kwargs=greedy)
    notes = compared(tmp_path).notes
    assert "temperature is 0.6 before and 0 after" in notes
    assert "max_tokens is 32768 before and 1024 after" in notes
    assert "max_tokens is 1024, in the paper 32768" in both(tmp_path, "aime25", [1, 0, 1], [1, 0, 1], kwargs=greedy).notes


def test_what_is_on_one_side_or_is_no_benchmark_is_named(tmp_path: Path) -> None:
    lm_eval(tmp_path / "before", "aime25", [1, 0, 1])
    lm_eval(tmp_path / "after", "arc_easy", [1, 0], metric="acc")
    found, notes = changes(read_results(tmp_path / "before"), read_results(tmp_path / "after"))
    assert not found
    assert "AIME 2025 has results only before training" in notes[0]
    assert "arc_easy" in notes[1]


def test_livecodebench_is_read_by_problem(tmp_path: Path) -> None:
    for side, graded in (("before", [[True, False], [False, False]]), ("after", [[True, True], [False, False]])):
        place = tmp_path / side
        place.mkdir()
        rows = [{"question_id": f"q{n}", "graded_list": each, "pass@1": 0.0} for n, each in enumerate(graded)]
        (place / "codegeneration_2_0.6_eval_all.json").write_text(json.dumps(rows))
    one = compared(tmp_path)
    assert (one.benchmark.name, one.before, one.after) == ("LiveCodeBench", 25.0, 50.0)
    assert read_results(tmp_path / "before")[0].settings == {"temperature": 0.6}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "no graded problem"),
        ('{"results": {"aime25": {"exact_match,none": NaN}}}', "expected a share"),
        ('{"results": {"aime25": {"exact_match,none": 70.0}}}', "expected a share"),
        ('{"results": 3}', "has no results"),
        ('{"results": {"aime25": 3}}', "cannot be read"),
        ('[{"question_id": 1}]', "graded_list"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "results_x.json").write_text(text)
    with pytest.raises(InputError, match=words):
        read_results(tmp_path)


def test_a_torn_sample_and_a_value_that_is_no_share(tmp_path: Path) -> None:
    lm_eval(tmp_path, "aime25", [1, 0, 7, "x"], mean=0.5)
    (result,) = read_results(tmp_path)
    assert (len(result.items), result.unscored) == (2, 2)
    samples = next(tmp_path.rglob("samples_*"))
    samples.write_text(samples.read_text()[:-20])
    with pytest.raises(InputError, match="line 4"):
        read_results(tmp_path)


@given(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_pooled_repeats_have_the_mean_of_all_trials(runs: list[list[int]]) -> None:
    results = [
        TaskResult("lm-eval", "t", "m", sum(run) / 3, None, 3, {str(n): Item(v, 1) for n, v in enumerate(run)}, {}, 0, ())
        for run in runs
    ]
    assert pooled(results).mean == pytest.approx(sum(map(sum, runs)) / (3 * len(runs)))
    assert all(item.runs == len(runs) for item in pooled(results).items.values())


def test_published_differences_lie_within_a_margin_only_where_they_do() -> None:
    """EIBench's Table 8, by the standard error of a share where its samples are not published."""
    rows = {"AIME 2025": (70.0, 67.9, 30), "GPQA Diamond": (59.1, 58.3, 198), "HumanEval+": (86.0, 87.8, 164)}
    tasks = {one.name: one.tasks[0] for one in benchmarks()}
    for name, (base, trained, n) in rows.items():
        sides = [
            TaskResult("lm-eval", *tasks[name][1:3], share, math.sqrt(share * (1 - share) / n), n, {}, {}, 0, ())
            for share in (base / 100, trained / 100)
        ]
        (one,) = changes([sides[0]], [sides[1]])[0]
        assert one.difference == pytest.approx(trained - base)
        assert one.verdict(2.0).startswith("inconclusive"), "so few items cannot exclude a fall of 2 points"


def test_the_largest_published_falls() -> None:
    """EIBench, Table 8, and RLVER, Table 2, as docs/general-capability.md names them."""
    eibench: Any = published("heartloop.environments.eibench", "eibench_table08_general_capability")
    pairs = [(a, b) for a, b in pairwise(eibench) if a["base_model"] == b["base_model"]]
    falls = [(round(b[name] - a[name], 1), name) for a, b in pairs for name in ("aime_2025", "gpqa_diamond", "ifeval")]
    assert min(falls) == (-3.7, "aime_2025")
    rlver: Any = published("heartloop.environments.sage", "rlver_table02_general_capability")
    base, *trained = rlver
    names = ("math500", "livecodebench", "ifeval")
    assert min((round(row[name] - base[name], 1), name) for row in trained for name in names) == (-2.6, "math500")


def test_the_command_compares_and_can_gate(tmp_path: Path) -> None:
    both(tmp_path, "humaneval_plus", [1] * 40, [0] * 30 + [1] * 10, metric="pass@1", chosen="create_test")
    words = ("guard", "before", "after", "--out", "out")
    done = heartloop(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "HumanEval+: fell by 75.0 points" in " ".join(done.out.split())
    assert "Before and after training" in (tmp_path / "out" / "report" / "index.html").read_text()
    record = json.loads((tmp_path / "out" / "guard.json").read_text())
    assert record["benchmarks"]["HumanEval+"]["after"] == pytest.approx(25.0)
    gated = heartloop(*words, "--worse-than", "2", cwd=tmp_path)
    assert (gated.code, "HumanEval+" in gated.err) == (1, True)


def test_the_command_takes_two_results_or_prepares(tmp_path: Path) -> None:
    for words in ((), ("nowhere", "there"), ("--prepare", "m", "--harness", "other")):
        assert heartloop("guard", *words, cwd=tmp_path).code == 2
    files = tmp_path / "run" / "checkpoints" / "global_step_4" / "actor" / "huggingface"
    files.mkdir(parents=True)
    (files / "config.json").touch()
    done = heartloop("guard", "--prepare", "checkpoint:run/checkpoints/global_step_4", cwd=tmp_path)
    assert (done.code, "pretrained=run/checkpoints/global_step_4/actor/huggingface" in done.out) == (0, True)


def test_the_gain_of_two_evaluations_is_shown_with_it(tmp_path: Path) -> None:
    play(tmp_path, "fixer", limit=3, turns=2, out="first")
    play(tmp_path, "counsellor", limit=3, turns=2, out="second")
    play(tmp_path, "fixer", "silent", limit=1, turns=1, out="two")
    for side in ("before", "after"):
        lm_eval(tmp_path / side, "aime25", [1, 0, 1])
    done = heartloop("guard", "before", "after", "--runs", "first", "second", cwd=tmp_path)
    assert done.code == 0, done.err
    gain = json.loads((tmp_path / "guard" / "guard.json").read_text())["gain"]
    assert (gain["environment"], gain["pairs"]) == ("sage", 3)
    assert gain["difference"] == pytest.approx(gain["after"] - gain["before"])
    refused = heartloop("guard", "before", "after", "--runs", "two", "second", cwd=tmp_path)
    assert (refused.code, "one model each" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("harness", "words"),
    [
        ("lm-eval", "do_sample=true,temperature=0.6,top_p=0.95,top_k=20,max_gen_toks=32768"),
        ("lm-eval", "for seed in 0 1 2 3 4 5 6 7; do lm_eval"),
        ("lm-eval", "release_v6"),
        ("inspect", "inspect_evals/aime2025 --model hf/local -M model_path=out/policy --epochs 8"),
    ],
)
def test_commands_have_the_papers_settings(harness: Any, words: str) -> None:
    text = "\n".join(commands("out/policy", harness, "results"))
    assert all(benchmark.name in text for benchmark in benchmarks() if benchmark.name != "IFEval, prompts")
    assert words in text
