"""Numbers in a page are those of the committed result, and the benchmarks play what they say.

1. What a benchmark writes into a page is what its committed result file says.
2. The answers of the speed benchmarks' server are accepted at once by the persons of both environments.
3. A page without a place for the numbers is refused, and the words around the place stay.
4. Of training runs only whole ones count; what is missing is said; the interval is one over seeds; the curves are the numbers';
   replies are counted.
5. Training runs are made side by side where that is asked for, each once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import (
    cache_cost,
    coverage,
    embedded_speed,
    empa_validity,
    esconv,
    language_model_page,
    language_model_training,
    learning,
    learning_replies,
    order,
    perm_sweep,
    student,
    throughput,
    validity,
)  # fmt: skip
from benchmarks.answer_server import completion
from benchmarks.judged_replies import card, readers, sealed
from benchmarks.page import part, rewrite
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.episode import play
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
        ("judged_replies/readers", readers.PAGE, readers.RESULTS, readers.table),
        ("judged_replies/sealed", sealed.PAGE, sealed.RESULTS, sealed.table),
        ("coverage", coverage.PAGE, coverage.RESULTS, coverage.table),
        ("order", order.PAGE, order.RESULTS, order.table),
        ("judged_replies/card", card.PAGE, card.RESULTS, card.table),
        ("validity", validity.PAGE, validity.RESULTS, validity.table),
        ("cache_cost", cache_cost.PAGE, cache_cost.RESULTS, cache_cost.sentence),
    ],
)
def test_a_page_holds_the_committed_numbers(
    script: str, page: Path, results: Path, told: Callable[[Mapping[str, Any]], str]
) -> None:
    assert part(page, script) == told(json.loads(results.read_text(encoding="utf-8"))).strip()


@pytest.mark.parametrize(("environment", "calls_a_turn"), [("sage", 3), ("eibench", 2)])
async def test_the_benchmark_plays_whole_dialogues(environment: str, calls_a_turn: int) -> None:
    """No answer is asked for again: the policy's call a turn, and the person's two or one."""
    case = throughput.Case(2, 2, 0.0, environment)
    bodies: list[bytes] = []
    played = case.over(case.people, throughput._Recorded(throughput.PERSON, bodies))
    for job in case.settings(played).jobs:
        found = await play(played, job.scenario, throughput._Recorded(throughput.POLICY, bodies), seed=job.seed)
        assert found.scored
        assert found.stop in {"goodbye", "turn_limit"}
        assert "re-asks" not in found.counts
        last = found.stop == "turn_limit" and environment == "sage"  # nothing is answered after the last reply
        assert len(found.calls) == calls_a_turn * len(found.turns) - last
    assert all(isinstance(read_reply(completion(body), []), Reply) for body in bodies)
    assert [len(chain) for chain in await throughput.chains_of(case)] == [len(found) for found in _per_dialogue(bodies)]


def _per_dialogue(bodies: list[bytes]) -> list[list[bytes]]:
    """The bodies split where a policy is first asked: with no reply of its own yet."""
    chains: list[list[bytes]] = []
    for body in bodies:
        asked = json.loads(body)
        if asked["model"] == throughput.POLICY and not any(m["role"] == "assistant" for m in asked["messages"]):
            chains.append([])
        chains[-1].append(body)
    return chains


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
    assert len({job.name for job in learning.JOBS}) == len(learning.JOBS)


def test_rows_are_compared_seed_by_seed() -> None:
    """What differs between seeds falls out of the difference; scores of 100 have one decimal."""

    def run(before: float, after: float) -> dict[str, Any]:
        return {**MADE, "whole": True, "held_out": [{"step": 0, "mean": before}, {"step": 20, "mean": after}], "training": []}

    sage = [job for job in learning.JOBS if job.group == "sage" and job.seed < 2]
    runs = {
        job.name: run(10.0, 12.0 + 8 * job.seed + (job.what == "ppo") * (1 + job.seed)) for job in sage
    }  # changes: grpo 2 and 10, ppo 3 and 12
    told = learning.table({"system": "s", "python": "3", "runs": runs})
    assert "| grpo | 2 | 20 | +10.0 | +16.0 | +6.0 ± 50.8 |  | 2 |" in told  # 12.706 x 5.657 / sqrt(2)
    assert "| ppo | 2 | 20 | +10.0 | +17.5 | +7.5 ± 57.2 | +1.5 ± 6.4 | 2 |" in told  # 12.706 x 0.707 / sqrt(2)


def test_the_pictures_of_learning_are_those_of_the_committed_numbers() -> None:
    """Each is on the page, is markup that a reader of XML takes, and has a line in both panels for every row of its table."""
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


def test_runs_are_made_side_by_side_once_the_warm_start_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first makes the warm start while the others wait; a whole run is not made again, a failed one stops nothing."""
    policy = tmp_path / "policies" / "0" / "curve.jsonl"
    begun: list[tuple[str, bool]] = []
    jobs = learning.JOBS[:3]

    class Process:
        def __init__(self, words: list[str]) -> None:
            self.out = Path(words[words.index("--out") + 1])
            begun.append((self.out.name, policy.exists()))
            self.asked = 0

        def poll(self) -> int | None:
            self.asked += 1
            if self.asked == 2:
                policy.parent.mkdir(parents=True, exist_ok=True)
                policy.touch()
            return None

        def wait(self) -> int:
            if self.out.name == jobs[1].name:
                return 1
            self.out.mkdir()
            (self.out / "settings.json").write_text(json.dumps({"recipe": {"batch": {"steps": 0}}}))
            (self.out / "metrics.jsonl").write_text(json.dumps({"step": 0, "data": {"held_out/score": 0.5}}) + "\n")
            return 0

    monkeypatch.setattr("benchmarks.learning.subprocess.Popen", Process)
    monkeypatch.setattr("benchmarks.learning.time.sleep", lambda _: None)
    written: list[int] = []
    learning.make(jobs, tmp_path, lambda _, made: written.append(len(made)), at_once=2)
    assert sorted(name for name, _ in begun) == [job.name for job in jobs]
    assert [there for _, there in begun] == [False, True, True]
    assert written == [1, 2, 3, 3]
    made = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
    assert {run["at_once"] for run in made.values()} == {2}
    begun.clear()
    learning.make(jobs, tmp_path, lambda *_: None)
    assert [name for name, _ in begun] == [jobs[1].name]


def test_replies_are_counted_before_and_after(tmp_path: Path) -> None:
    """In shares of all replies of the first and the last evaluation, over the files of all workers; one evaluation is nothing."""

    def talk(*replies: tuple[str, str | None]) -> str:
        turns = tuple(Turn(index=n, reply=r, state={}, evidence={"worst": w, "best": None}) for n, (r, w) in enumerate(replies))
        shared = {"environment": "eibench", "scenario": "a", "fingerprint": "1", "model": "m", "preset": "paper", "start": {}}
        ended = {"user": "embedded", "opening": None, "turns": turns, "stop": "turn_limit", "score": 0.0}
        return Transcript.model_validate({**shared, **ended}).model_dump_json()

    folder = tmp_path / "transcripts"
    folder.mkdir()
    (folder / "held_out-000000-1.jsonl").write_text(talk(('I hear "it', "broken"), ("Go on.", None)) + "\n")
    assert learning_replies.replies_of(tmp_path) is None
    (folder / "held_out-000020-1.jsonl").write_text("not read, for it is neither first nor last\n")
    (folder / "held_out-000040-1.jsonl").write_text(talk(("Go on.", "untouched"), ("And then?", None)) + "\n")
    (folder / "held_out-000040-2.jsonl").write_text(talk(("Go on.", "untouched"), ("Go on.", "repetition")) + "\n")
    counted = learning_replies.replies_of(tmp_path)
    assert counted is not None
    assert counted["before"] == {
        "replies": 2, "quoting": 0.5, "asking": 0.0, "ending": 0.5, "different": 1.0, "worst/broken": 0.5,
    }  # fmt: skip
    after = {"quoting": 0.0, "asking": 0.25, "ending": 1.0, "different": 0.5, "worst/untouched": 0.5, "worst/repetition": 0.25}
    assert counted["after"] == {"replies": 4, **after}
    more = {**counted, "after": {**counted["after"], "asking": 0.75}}
    told = learning_replies.replies_table({"learning": [{"replies": counted}, {"replies": more}], "control": [{}]})
    assert "| share of replies | learning: before | after | min to max |\n" in told  # the control was not counted
    assert "| contain a question mark | 0 % | 50 % | 25 to 75 % |" in told
    assert learning_replies.replies_table({"control": [{}]}) == ""


def test_in_sage_it_is_counted_what_replies_did_and_who_left(tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    shared = {"environment": "sage", "fingerprint": "1", "model": "m", "preset": "paper", "start": {}, "user": "embedded"}
    for step, changes, stop in ((0, (-10.0, -2.0), "failure"), (20, (3.0, 0.0), "turn_limit")):
        turns = tuple(Turn(index=n, reply="Well.", state={}, change={"emotion": c}) for n, c in enumerate(changes))
        ended = {"scenario": "a", "opening": None, "turns": turns, "stop": stop, "score": 0.0}
        (folder / f"held_out-{step:06d}-1.jsonl").write_text(
            Transcript.model_validate({**shared, **ended}).model_dump_json() + "\n"
        )
    counted = learning_replies.replies_of(tmp_path)
    assert counted is not None
    moves = [{name: shares[name] for name in ("lifting", "still", "costing", "left")} for shares in counted.values()]
    assert moves == [
        {"lifting": 0.0, "still": 0.0, "costing": 0.5, "left": 1.0},
        {"lifting": 0.5, "still": 0.5, "costing": 0.0, "left": 0.0},
    ]
    assert "| dialogues that the person left | 100 % | 0 % | 0 to 0 % |" in learning_replies.replies_table(
        {"ppo": [{"replies": counted}]}
    )


def test_the_sweep_in_perm_shows_each_part_before_and_after(tmp_path: Path) -> None:
    for job, after, reception in ((perm_sweep.JOBS[0], 0.3, 3.0), (perm_sweep.JOBS[4], 0.1, 2.0)):  # seeds 0 and 1 of 0.1
        out = tmp_path / job.name
        out.mkdir()
        (out / "settings.json").write_text(json.dumps({"recipe": {"batch": {"steps": 20}}}))
        held: list[dict[str, Any]] = [
            {"step": s, "data": {"held_out/score": v, "held_out/parts/form": f, "held_out/parts/reception": r}}
            for s, v, f, r in ((0, 0.0, 0.5, 1.0), (20, after, 1.0, reception))
        ]
        step = {"dialogue/score": 0.1, "dialogue/reply_tokens": 60.0, "timing_s/step": 9.0}
        lines = [held[0], {"step": 20, "data": {**step, **held[1]["data"]}}]
        (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs: dict[str, Any] = {}
    for job in perm_sweep.JOBS:
        if (found := learning.found_of(tmp_path / job.name, {**MADE, "seconds": 300.0})) is not None:
            runs[job.name] = {**found, "parts": perm_sweep.parts_of(tmp_path / job.name)}
    told = perm_sweep.table({"system": "s", "python": "3", "runs": runs})
    # changes 0.3 and 0.1: 12.706 x 0.1414 / sqrt(2) = 1.271
    assert "| 0.1 | 2 | 20 | +0.000 | +0.200 | +0.200 ± 1.271 | +0.100, +0.300 | 5 |" in told
    assert "| 0.1 |  |  | 1.00 → 2.50 (2.00 to 3.00) |  | 50% → 100% (100% to 100%) |  |" in told
    assert "Missing: 0.5 seed 0" in told
    assert len({job.name for job in perm_sweep.JOBS}) == len(perm_sweep.JOBS) == 12
