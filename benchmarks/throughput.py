"""Speed of an evaluation relative to its endpoint: `python -m benchmarks.throughput`

Runs a whole evaluation (`work_through`, a run directory, metered calls, the LLM user simulator with its prompts) against a local
endpoint with a fixed latency, in a process of its own, and for comparison a bare aiohttp loop that makes the same calls. SAGE,
with two calls of the user simulator per turn, and EIBench, with one; SAGE also with Inspect, and one dialogue after the other,
as its released code runs. Prints the table, writes it with the machine to `benchmarks/results/throughput.json` and
`benchmarks/results/throughput.md`. Takes about eight minutes; `--quick` about one.

The ideal is the larger of the longest dialogue's number of calls times the latency, and all calls times the latency over the
concurrency. CPU is the client's alone, user and system, from opening the run directory to closing it. The endpoint runs on the
same machine: with fewer than two free cores it slows what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import aiohttp
from pydantic_core import to_json

from benchmarks.answer_server import completion
from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, Transcript, read_transcripts
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Ready
from heartloop.evaluation.runner import player, work_through
from heartloop.evaluation.settings import EvaluationSettings, settings_of
from heartloop.evaluation.store import RunDirectory
from heartloop.models.budget import Meter, Metered
from heartloop.models.formats import Habits, read_reply
from heartloop.models.names import close, resolve

RESULTS = Path(__file__).parent / "results" / "throughput.json"
PAGE = PAGES / "throughput.md"
NAMES = {
    "heartloop": "heartloop",
    "floor": "bare aiohttp loop",
    "inspect": "Inspect",
    "sequential": "one dialogue after the other",
}
TITLES = {"sage": "SAGE", "eibench": "EIBench"}
TARGETS = (
    ("wall / ideal at 1 s and concurrency 200", "over_ideal", 1.0, 1.10),
    ("wall / ideal at 50 ms and concurrency 50", "over_ideal", 0.05, 1.25),
    ("CPU per call at 50 ms and concurrency 50, ms", "cpu_ms_per_call", 0.05, 0.75),
)
"""Targets: in words, which number of the row with which latency, and its maximum."""
POLICY, PERSON = "bench/policy", "bench/person"


class Case(NamedTuple):
    """What is played: number of dialogues, concurrency, latency in seconds, environment."""

    dialogues: int
    in_flight: int
    latency: float
    environment: str = "sage"

    def over(self, people: Sequence[Any], person: ChatModel) -> Ready:
        """The environment over some scenarios, all played by one user simulator."""
        spec = load_environment(self.environment)
        return spec.make(people, spec.players({"user": person}))

    def settings(self, environment: Ready) -> EvaluationSettings:
        """Settings of a run with exactly so many dialogues."""
        repeats = max(1, self.dialogues // len(environment.scenarios))
        chosen = load_environment(self.environment).set_of(None)
        return settings_of(environment, [POLICY], roles={"user": PERSON}, scenario_set=chosen, repeats=repeats)

    @property
    def people(self) -> list[Any]:
        """The first shipped people, or all of them as often as it takes."""
        scenarios = load_environment(self.environment).load()
        if self.dialogues > len(scenarios) and self.dialogues % len(scenarios):
            raise SystemExit(f"{self.dialogues} dialogues are no multiple of {len(scenarios)} people")
        return list(scenarios[: self.dialogues])


def run_heartloop(case: Case, *, afterwards: bool = False) -> dict[str, Any]:
    """The evaluation as `heartloop eval` runs it. With `afterwards`, scores and report as well, timed apart."""
    meter = Meter()
    found = {name: resolve(name, max_connections=case.in_flight) for name in (POLICY, PERSON)}
    environment = case.over(case.people, Metered(found[PERSON], meter, "user"))
    settings = case.settings(environment)

    def keep(transcript: Transcript) -> None:
        meter.finish([(transcript.models[role], role, usage) for role, usage in transcript.usage.items()])

    async def go(directory: RunDirectory) -> None:
        try:
            await work_through(
                directory,
                player(environment, {POLICY: Metered(found[POLICY], meter, "policy")}),
                max_connections=case.in_flight,
                finished=keep,
                affords=meter.affords,
                report=lambda _: None,
            )
        finally:
            await close(found.values())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        wall, cpu = time.perf_counter(), time.process_time()
        with RunDirectory(path, settings) as directory:
            asyncio.run(go(directory))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = peak_megabytes()
        chains, failed = [], 0
        for transcript in read_transcripts(path / "transcripts.jsonl"):
            chains.append(len(transcript.calls))
            failed += not transcript.scored
        if failed or len(chains) != case.dialogues:
            raise SystemExit(f"{failed} dialogues failed, {len(chains)} of {case.dialogues} were played; nothing was measured")
        more = _afterwards(path) if afterwards else {}
        size = (path / "transcripts.jsonl").stat().st_size / 1e6
    return {**timed(case, chains, wall, cpu), "peak_mb": peak, "transcripts_mb": size, **more}


def _afterwards(path: Path) -> dict[str, Any]:
    """What follows the playing: reading the run, its scores, its report."""
    from heartloop.evaluation.store import read_run, write_scores
    from heartloop.report.site import write_site

    started = time.perf_counter()
    run = read_run(path)
    write_scores(run)
    scored = time.perf_counter()
    write_site([run], path / "report")
    return {"scores_s": scored - started, "report_s": time.perf_counter() - scored, "peak_with_report_mb": peak_megabytes()}


def timed(case: Case, chains: Sequence[int], wall: float, cpu: float) -> dict[str, Any]:
    """One measurement against its ideal."""
    calls = sum(chains)
    ideal = max(max(chains) * case.latency, calls * case.latency / case.in_flight)
    return {
        **case._asdict(),
        "calls": calls,
        "longest": max(chains),
        "wall_s": wall,
        "ideal_s": ideal,
        "over_ideal": wall / ideal if ideal else None,
        "cpu_ms_per_call": 1000.0 * cpu / calls,
        "dialogues_per_s": len(chains) / wall,
    }


def peak_megabytes() -> float:
    """The most memory this process held at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


class _Recorded:
    """A model that answers as the server would and keeps the bodies it was asked with."""

    def __init__(self, name: str, bodies: list[bytes]) -> None:
        self.name = name
        self._bodies = bodies

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        body = to_json(Habits().body(self.name, messages, schema, sampling or Sampling()))
        self._bodies.append(body)
        reply = read_reply(completion(body), messages)
        assert isinstance(reply, Reply)
        return reply


async def chains_of(case: Case) -> list[list[bytes]]:
    """The request bodies of every dialogue, in order."""
    people = case.people
    chains: list[list[bytes]] = []
    for job in case.settings(case.over(people, _Recorded(PERSON, []))).jobs:
        bodies: list[bytes] = []
        alone = case.over([next(s for s in people if s.id == job.scenario)], _Recorded(PERSON, bodies))
        await play(alone, job.scenario, _Recorded(POLICY, bodies), seed=job.seed, repeat=job.repeat)
        chains.append(bodies)
    return chains


def run_floor(case: Case) -> dict[str, Any]:
    """The same calls by a bare aiohttp loop: bodies made beforehand, answers read and thrown away."""
    chains = asyncio.run(chains_of(case))
    url = os.environ["BENCH_BASE_URL"] + "/chat/completions"

    async def go() -> None:
        queue = iter(chains)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def worker() -> None:
                for chain in queue:
                    for body in chain:
                        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
                            await response.read()

            await asyncio.gather(*(worker() for _ in range(case.in_flight)))

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(go())
    return timed(case, [len(chain) for chain in chains], time.perf_counter() - wall, time.process_time() - cpu)


def run_inspect(case: Case) -> dict[str, Any]:
    """The same dialogues with Inspect and its own provider for such endpoints; at most one per scenario."""
    tasks = importlib.import_module("heartloop.integrations.inspect.task").TASKS
    inspect_ai = importlib.import_module("inspect_ai")

    os.environ["BENCH_API_KEY"] = "not-needed"
    os.environ["INSPECT_DISABLE_MODEL_API_PROXY"] = "1"
    chains = asyncio.run(chains_of(case))

    def go(dialogues: int, folder: str) -> Any:
        (log,) = inspect_ai.eval(
            tasks["sage"](),
            model="openai-api/bench/policy",
            model_roles={"user": "openai-api/bench/person"},
            limit=dialogues,
            max_samples=case.in_flight,
            max_connections=case.in_flight,
            seed=0,
            log_dir=folder,
            display="none",
        )
        return log

    with tempfile.TemporaryDirectory() as folder:
        go(1, folder)  # what it imports and sets up once is no part of a call
        wall, cpu = time.perf_counter(), time.process_time()
        log = go(case.dialogues, folder)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        samples = log.samples or []
        if log.status != "success" or len(samples) != case.dialogues or any(sample.error for sample in samples):
            raise SystemExit(f"Inspect ended as {log.status} with {len(samples)} samples; nothing was measured")
    return {**timed(case, [len(chain) for chain in chains], wall, cpu), "peak_mb": peak_megabytes()}


MEASURES = {"heartloop": run_heartloop, "floor": run_floor, "sequential": run_heartloop, "inspect": run_inspect}


def inspect_missing() -> str | None:
    """Why Inspect cannot be measured here; `None` if it can."""
    if importlib.util.find_spec("inspect_ai") is None:
        return "inspect_ai is not installed (pip install -e '.[inspect]')"
    if importlib.util.find_spec("openai") is None:
        return "openai, which Inspect's provider needs, is not installed"
    try:
        there = importlib.util.find_spec("heartloop.integrations.inspect.task") is not None
    except ModuleNotFoundError:
        there = False
    return None if there else "this version has no Inspect integration"


@contextlib.contextmanager
def served() -> Iterator[int]:
    """The answer server in a process of its own; its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.answer_server"], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    ) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def measured(port: int, measure: str, case: Case, *more: str) -> dict[str, Any]:
    """One measurement in a fresh process."""
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "benchmarks.throughput", "--measure", measure, "--case", json.dumps(case), *more]
    environment = {**os.environ, "BENCH_BASE_URL": f"http://127.0.0.1:{port}/{case.latency:g}/v1"}
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = {"measure": measure, **json.loads(done.stdout.splitlines()[-1])}
    ratio = f"{found['over_ideal']:.3f} x ideal" if found["over_ideal"] else ""
    print(
        f"{case.environment:7} {measure:10} {case.dialogues:5} dialogues, {case.in_flight:3} in flight, {case.latency:g} s: "
        f"{found['wall_s']:.2f} s {ratio}, {found['cpu_ms_per_call']:.2f} ms CPU a call",
        flush=True,
    )
    return found


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of every number over equal measurements."""
    numbers = {key: median(run[key] for run in runs) for key, value in runs[0].items() if isinstance(value, (int, float))}
    return {**runs[0], **numbers, "repeats": len(runs)}


def main() -> None:
    """Runs everything, prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of it, for a look; writes nothing unless --out is given")
    parser.add_argument("--out", type=Path, help=f"by default {RESULTS.name} in benchmarks/results")
    parser.add_argument("--measure", choices=sorted(MEASURES), help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--afterwards", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        case = Case(*json.loads(arguments.case))
        more = {"afterwards": True} if arguments.afterwards else {}
        print(json.dumps(MEASURES[arguments.measure](case, **more)))
        return
    found = whole(quick=arguments.quick)
    print("\n" + table(found))
    out = arguments.out or (None if arguments.quick else RESULTS)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if out == RESULTS:
        rewrite(PAGE, "throughput", table(found))


def whole(*, quick: bool) -> dict[str, Any]:
    """Every measurement, one after the other."""
    far, near = Case(200, 200, 1.0), Case(100 if quick else 800, 50, 0.05)
    bench_far, bench_near = Case(200, 200, 1.0, "eibench"), Case(100 if quick else 1278, 50, 0.05, "eibench")
    small, large = Case(100, 50, 0.0), Case(300 if quick else 1000, 50, 0.0)
    started = time.monotonic()
    rows: list[dict[str, Any]] = []
    with served() as port:
        if not quick:
            rows += [measured(port, name, case) for case in (far, bench_far) for name in ("heartloop", "floor")]
        for case in (near, bench_near):
            pairs = [(measured(port, "heartloop", case), measured(port, "floor", case)) for _ in range(1 if quick else 3)]
            rows += [middle(runs) for runs in zip(*pairs, strict=True)]
        missing = inspect_missing()
        if missing is None:
            rows.append(measured(port, "inspect", Case(100, 50, 0.05)))
        else:
            print(f"inspect    left out: {missing}", flush=True)
        rows.append(measured(port, "sequential", Case(4, 1, 0.05)))
        memory = [measured(port, "heartloop", case, "--afterwards") for case in (small, large)]
    return {
        **machine("aiohttp", "pydantic", "inspect_ai"),
        "rows": rows,
        "memory": memory,
        "left_out": {"inspect": missing} if missing else {},
        "seconds": round(time.monotonic() - started),
    }


def table(found: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    versions = ", ".join(f"{name} {found[name]}" for name in ("aiohttp", "pydantic", "inspect_ai") if name in found)
    lines = [
        f"{found['machine']}, {found['system']}, Python {found['python']}, {versions}.",
        "",
        "| | latency | concurrency | dialogues | calls | | wall | ideal | wall / ideal | CPU per call | dialogues / s |",
        "|:---|---:|---:|---:|---:|:---|---:|---:|---:|---:|---:|",
    ]
    for row in found["rows"]:
        lines.append(
            f"| {TITLES[row['environment']]} | {row['latency']:g} s | {row['in_flight']} | {row['dialogues']} | "
            f"{row['calls']:,.0f} | {NAMES[row['measure']]} | "
            f"{row['wall_s']:.1f} s | {row['ideal_s']:.1f} s | {row['over_ideal']:.2f} | {row['cpu_ms_per_call']:.2f} ms | "
            f"{row['dialogues_per_s']:.2f} |"
        )
    lines += [f"\n{NAMES[name]}: left out, {reason}." for name, reason in found["left_out"].items()]
    lines += [
        "",
        "| dialogues | peak memory while playing | with scores and report | transcripts | scores | report |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found["memory"]:
        memory = f"{row['peak_mb']:.0f} MB | {row['peak_with_report_mb']:.0f} MB | {row['transcripts_mb']:.1f} MB"
        lines.append(f"| {row['dialogues']:,} | {memory} | {row['scores_s']:.1f} s | {row['report_s']:.1f} s |")
    lines += ["", f"| target | at most | {' | '.join(TITLES.values())} |", f"|:---|---:|{'---:|' * len(TITLES)}"]
    for words, number, latency, most in TARGETS:
        cells = []
        for environment in TITLES:
            ours = [
                r[number]
                for r in found["rows"]
                if (r["measure"], r["environment"]) == ("heartloop", environment) and r["latency"] == latency
            ]
            cells += [f"{value:.2f}{'' if value <= most else ' (missed)'}" for value in ours] or ["not measured"]
        lines.append(f"| {words} | {most:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
