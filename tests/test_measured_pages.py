"""Numbers in a page are those of the committed result, and the benchmarks play what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import (
    alpha_sweep,
    cache_cost,
    coverage,
    embedded_speed,
    empa_validity,
    esconv,
    fault_page,
    language_model_page,
    language_model_training,
    learning,
    order,
    perm_sweep,
    providers,
    run_cost,
    student,
    throughput,
)  # fmt: skip
from benchmarks.answer_server import completion
from benchmarks.embedded import measure
from benchmarks.page import part, rewrite
from benchmarks.programme import RESULTS as PROGRAMMES
from benchmarks.recorded import agreement
from heartloop.core.chat import Reply
from heartloop.environments.episode import play
from heartloop.environments.report import published
from heartloop.models.formats import read_reply


@pytest.mark.parametrize(
    ("script", "page", "results", "told"),
    [
        ("throughput", throughput.PAGE, throughput.RESULTS, throughput.table),
        ("embedded_speed", embedded_speed.PAGE, embedded_speed.RESULTS, embedded_speed.table),
        ("empa_validity", empa_validity.PAGE, empa_validity.RESULTS, empa_validity.table),
        ("esconv", esconv.PAGE, esconv.RESULTS, esconv.table),
        ("learning", learning.PAGE, learning.RESULTS, learning.table),
        ("language_model_training", language_model_page.PAGE, language_model_training.RESULTS, language_model_page.table),
        ("perm_sweep", perm_sweep.PAGE, perm_sweep.RESULTS, perm_sweep.table),
        ("student", student.PAGE, student.RESULTS, student.table),
        ("embedded/measure", measure.PAGE, measure.RESULTS, measure.table),
        ("coverage", coverage.PAGE, coverage.RESULTS, coverage.table),
        ("order", order.PAGE, order.RESULTS, order.table),
        ("recorded/agreement", agreement.PAGE, agreement.RESULTS, agreement.table),
        ("providers", providers.PAGE, providers.RESULTS, providers.page),
        ("run_cost", run_cost.PAGE, run_cost.RESULTS, run_cost.table),
        ("cache_cost", cache_cost.PAGE, cache_cost.RESULTS, cache_cost.sentence),
    ],
)
def test_a_page_holds_the_committed_numbers(
    script: str, page: Path, results: Path, told: Callable[[Mapping[str, Any]], str]
) -> None:
    assert part(page, script) == told(json.loads(results.read_text(encoding="utf-8"))).strip()


def test_the_page_of_the_fault_programmes_is_current_and_every_check_passed() -> None:
    assert {name: part(fault_page.PAGE, name) for name in fault_page.parts()} == fault_page.parts()
    for name in ("faults", "kills"):
        assert all(json.loads((PROGRAMMES / f"{name}.json").read_text())["checks"].values()), name
    assert json.loads((PROGRAMMES / "fuzz.json").read_text())["broken"] == []
    assert json.loads((PROGRAMMES / "canary.json").read_text())["runs with traces"] == 0


@pytest.mark.parametrize(("environment", "calls_a_turn"), [("sage", 3), ("eibench", 2)])
async def test_the_benchmark_plays_whole_dialogues(environment: str, calls_a_turn: int) -> None:
    """No answer is asked for again: the policy's call a turn, and the person's two or one."""
    case = throughput.Case(2, 2, 0.0, environment)
    bodies: list[bytes] = []
    played = case.over(case.people, throughput._Recorded(throughput.PERSON, bodies))
    for job in case.settings(played).jobs:
        found = await play(played, job.scenario, throughput._Recorded(throughput.POLICY, bodies), seed=job.seed)
        assert found.scored
        assert found.stop in {"settled", "broken_off", "goodbye", "turn_limit"}
        assert "re-asks" not in found.counts
        last = found.stop == "turn_limit" and environment == "sage"  # nothing is answered after the last reply
        assert len(found.calls) == calls_a_turn * len(found.turns) - last
    assert all(isinstance(read_reply(completion(body), []), Reply) for body in bodies)
    assert sum(map(len, await throughput.chains_of(case))) == len(bodies)


def test_only_the_part_of_the_benchmark_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- written by benchmarks/speed.py -->\nold\n<!-- end -->\nafter\n")
    rewrite(page, "speed", "new\n")
    assert part(page, "speed") == "new"
    assert page.read_text() == "before\n<!-- written by benchmarks/speed.py -->\n\nnew\n\n<!-- end -->\nafter\n"
    with pytest.raises(SystemExit, match=r"no line '<!-- written by benchmarks/other\.py -->'"):
        rewrite(page, "other", "new")


MADE: dict[str, Any] = {"seconds": 120.0, "machine": "2 cores of a kind", "at_once": 2}


def test_learning_counts_whole_runs_and_says_what_is_missing(tmp_path: Path) -> None:
    def run(job: learning.Job, after: float, *, last: int) -> None:
        out = tmp_path / job.name
        out.mkdir()
        (out / "settings.json").write_text(json.dumps({"recipe": {"batch": {"steps": 40}}}))
        held = [{"step": s, "data": {"held_out/score": v, "held_out/score/charm": v}} for s, v in ((0, -0.3), (last, after))]
        step = {"dialogue/score": -0.2, "dialogue/reply_tokens": 20.0, "timing_s/step": 9.0, "dialogue/failed": 0.0}
        lines = [held[0], {"step": 1, "data": step}, held[1]]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    seeds = learning.JOBS[:3]
    run(seeds[0], 0.0, last=40)
    run(seeds[1], 0.1, last=40)
    run(seeds[2], 0.9, last=20)  # cut off
    found = {job.name: learning.found_of(tmp_path / job.name, MADE) for job in seeds}
    assert learning.found_of(tmp_path / "none", {}) is None
    told = learning.table({"system": "s", "python": "3", "runs": found})
    # changes 0.3 and 0.4: 12.706 x 0.0707 / sqrt(2) = 0.635
    assert "| learning | 2 | 40 | -0.300 | +0.050 | +0.350 ± 0.635 | -0.30 → +0.05 | 2 |" in told
    assert "Made on 2 cores of a kind (2 runs two at a time)." in told
    elsewhere = {"system": "s", "python": "3", "runs": {}, "elsewhere": {seeds[0].name: found[seeds[0].name]}}
    assert "| another warm start | 1 | 40 | -0.300 | +0.000 | +0.300 |" in learning.table(elsewhere)
    assert "Missing: learning seed 2, control seed 0" in told


def test_the_pictures_of_learning_are_those_of_the_committed_numbers() -> None:
    """Each is on the page, and has a line in both panels for every row of its table."""
    results = json.loads(learning.RESULTS.read_text(encoding="utf-8"))
    drawn = learning.pictures(results)
    assert set(drawn) <= set(learning.HEADINGS)
    for group, picture in drawn.items():
        path = learning.picture_of(group)
        assert path.read_text(encoding="utf-8") == picture
        assert f"]({path.name})" in part(learning.PAGE, "learning")
        root = ElementTree.fromstring(picture)
        lines = [found for found in root.iter("{http://www.w3.org/2000/svg}path") if found.get("class") == "line"]
        rows = {job.what for job in learning.JOBS if job.group == group and results["runs"].get(job.name, {}).get("whole")}
        assert len(lines) == 2 * len(rows)


def test_the_sweep_of_alpha_worked_by_hand(tmp_path: Path) -> None:
    """Figure 3 from runs: the mean of two seeds at the alphas that both have; a run that was cut off is left out."""

    def run(alpha: float, seed: int, score: float, *, last: int = 20) -> Path:
        out = tmp_path / f"{alpha}-{seed}"
        out.mkdir()
        recipe = {"batch": {"steps": 20}, "algorithm": {"alpha": alpha}, "seed": seed}
        (out / "settings.json").write_text(json.dumps({"recipe": recipe}))
        line = {"step": last, "data": {"held_out/score": score, "held_out/score/charm": score + 0.1}}
        (out / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        return out

    runs = [run(0, 0, -0.2), run(0, 1, -0.4), run(15, 0, 0.1), run(15, 1, 0.3), run(20, 0, 0.0), run(20, 1, 0.0, last=10)]
    found = alpha_sweep.scores_of(runs)
    assert list(found) == ["mean", "charm"]
    assert "| 0 | 2 | -0.300 | -0.200 |" in alpha_sweep.table(found)
    assert "| 15 | 2 | +0.200 | +0.300 |" in alpha_sweep.table(found)
    assert "| 20 | 1 | +0.000 | +0.100 |" in alpha_sweep.table(found)
    root = ElementTree.fromstring(alpha_sweep.picture(found))
    lines = [one for one in root.iter("{http://www.w3.org/2000/svg}path") if one.get("class") == "line"]
    assert len(lines) == 2
    assert all((one.get("d") or "").count("L") == 1 for one in lines), "two alphas that both seeds have"
    printed = {row["setting"]: row["value"] for row in published("heartloop.environments.eibench", "eibench_text_settings")}
    swept = [job.settings[0] for job in alpha_sweep.jobs_of("ctc_grpo_qwen3_8b", [0], ())]
    assert swept == [f"algorithm.alpha={alpha}" for alpha in str(printed["turn_credit_weight_alpha_sweep"]).split()]
