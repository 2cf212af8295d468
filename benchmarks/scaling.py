"""One process, two workers, and three nodes of which one is lost: `python -m benchmarks.scaling`

Plays the same dialogues by `heartloop eval` in one process, with `--ray` on this machine, and on a cluster of three nodes with
one CPU each (`ray.cluster_utils`), of which one is removed without notice when a third of the dialogues are finished. SAGE with a
baseline and the embedded user, which only compute, and with `benchmarks.answer_server`, which answers after half a second; with
`--local`, also with the small language model, one thread a process. Writes the table in `docs/scaling.md` and takes about ten
minutes; `--quick` only prints it, after about three. Needs the extra ray.

The wall time is the command's own number: from the start of the first dialogue or of the workers to the end of the last dialogue,
without loading and scores. CPU is user and system, from start to end of all processes of the command or the cluster; memory is
the largest resident size of one process. Both are sampled ten times a second. Dialogues played twice would be in the run twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from heartloop.evaluation.store import stored_transcripts, transcript_files

PAGE = DOCS / "scaling.md"
ALONE, TWO, LOST = "one process", "two workers", "three nodes, one lost"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Row(NamedTuple):
    dialogues: int
    seconds: float
    command_seconds: float
    cpu: Mapping[str, float]
    """Seconds of the command, the workers, and Ray's own processes."""
    memory: Mapping[str, int]
    """Bytes of the largest process of each."""
    twice: int


class Sampler(threading.Thread):
    """CPU and memory of the processes below this one, while it is entered."""

    def __init__(self, command: Callable[[], int | None]) -> None:
        super().__init__(daemon=True)
        self._command, self._done = command, threading.Event()
        self._cpu: dict[tuple[str, int], float] = {}
        self._names: dict[int, str] = {}
        self.memory: Counter[str] = Counter()

    @property
    def cpu(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for (kind, _), seconds in self._cpu.items():
            found[kind] += seconds  # type: ignore[assignment]
        return found

    def run(self) -> None:
        while not self._done.wait(0.1):
            parents: dict[int, int] = {}
            fields: dict[int, list[str]] = {}
            for stat in Path("/proc").glob("[0-9]*/stat"):
                with contextlib.suppress(OSError):
                    fields[int(stat.parent.name)] = after = stat.read_text().rpartition(")")[2].split()
                    parents[int(stat.parent.name)] = int(after[1])
            for process in fields:
                above = process
                while above in parents and above != os.getpid():
                    above = parents[above]
                if above == os.getpid() and process != above:
                    self._add(process, fields[process])

    def _add(self, process: int, fields: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # a process that ended has no command line left, one that begins may get another
            self._names[process] = Path(f"/proc/{process}/cmdline").read_text() or self._names.get(process, "")
        name = self._names.get(process, "")
        if "answer_server" in name:
            return
        local = "heartloop.models.local" in name
        kind = "command" if process == self._command() else "workers" if name.startswith("ray::_Worker") or local else "ray"
        for other in {"command", "workers", "ray"} - {kind}:
            self._cpu.pop((other, process), None)
        self._cpu[kind, process] = (int(fields[11]) + int(fields[12])) / _TICKS
        self.memory[kind] = max(self.memory[kind], int(fields[21]) * _PAGE)

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()


@contextlib.contextmanager
def answers() -> Iterator[int]:
    """The port of an answer server."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.answer_server"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def play(how: str, words: Sequence[str], folder: Path, **environment: str) -> Row:
    running: subprocess.Popen[str] | None = None
    run = folder / how.replace(" ", "-")
    with Sampler(lambda: None if running is None else running.pid) as sampler, contextlib.ExitStack() as stack:
        further: tuple[str, ...] = ("--ray",) if how == TWO else ()
        cluster: Any = None
        if how == LOST:
            os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
            from ray.cluster_utils import Cluster

            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": _QUICK})
            stack.callback(cluster.shutdown)
            for _ in range(2):
                cluster.add_node(num_cpus=1)
            further = ("--ray", cluster.address)
        began = time.monotonic()
        running = subprocess.Popen(
            [sys.executable, "-m", "heartloop.cli", "eval", "sage", *words, "--no-report", "--out", str(run), *further],
            env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if cluster is not None:
            planned = int(words[words.index("--repeats") + 1]) * int(words[words.index("--limit") + 1])
            while running.poll() is None and sum(f.read_bytes().count(b"\n") for f in transcript_files(run)) < planned / 3:
                time.sleep(0.1)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        out, _ = running.communicate()
        took = time.monotonic() - began
    if running.returncode or (played := re.search(r"dialogues played in ([\d.]+) s", out)) is None:
        raise RuntimeError(f"{how}: exit code {running.returncode}: {out[-500:]}")
    times = Counter(one.key for one in stored_transcripts(run))
    return Row(len(times), float(played[1]), took, dict(sampler.cpu), dict(sampler.memory), times.total() - len(times))


_QUICK = {
    "health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 4,
}  # fmt: skip


def measure(*, quick: bool, local: bool) -> dict[str, dict[str, Row]]:
    repeats = "5" if quick else "40"
    plans: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "embedded": (("-m", "heartloop/counsellor", "--user", "embedded", "--limit", "100", "--repeats", repeats), {}),
    }
    if local:
        one = ("-m", "local/smollm2", "--user", "embedded", "--limit", "10" if quick else "24", "--repeats", "1")
        plans["small language model"] = ((*one, "--request", "policy.max_tokens=60"), {"OMP_NUM_THREADS": "1"})
    found: dict[str, dict[str, Row]] = {}
    with tempfile.TemporaryDirectory() as folder, answers() as port:
        address = {"LAB_BASE_URL": f"http://127.0.0.1:{port}/0.5/v1", "LAB_API_KEY": "none"}
        words = ("-m", "lab/policy", "--user", "lab/person", "--yes", "--max-connections", "64", "--limit", "100")
        plans["endpoint"] = ((*words, "--repeats", "1" if quick else "4"), address)
        for title, (arguments, environment) in plans.items():
            place = Path(folder) / title
            place.mkdir()
            found[title] = {}
            for how in (ALONE, TWO) if title.startswith("small") else (ALONE, TWO, LOST):
                found[title][how] = play(how, arguments, place, **environment)
                print(f"{title}, {how}: {found[title][how]}", file=sys.stderr)
    return found


def table(found: Mapping[str, Mapping[str, Row]]) -> str:
    lines = [
        "| dialogues | | wall | speed-up | CPU of the command | of the workers | of Ray | a dialogue | memory of the command "
        "| of a worker | played twice |",
        "|:---|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for title, rows in found.items():
        for how, row in rows.items():
            of = [f"{row.cpu.get(kind, 0.0):.1f} s" for kind in ("command", "workers", "ray")]
            memory = [f"{row.memory.get(kind, 0) / 2**20:.0f} MB" for kind in ("command", "workers")]
            each = f"{1000 * (row.cpu.get('command', 0.0) + row.cpu.get('workers', 0.0)) / row.dialogues:.1f} ms"
            cells = [f"{row.dialogues:,} {title}", how, f"{row.seconds:.1f} s", f"{rows[ALONE].seconds / row.seconds:.2f}"]
            lines.append(f"| {' | '.join([*cells, *of, each, *memory, str(row.twice)])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures one process, two workers, and three nodes of which one is lost.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--local", action="store_true", help="also local/smollm2 (extra local)")
    given = parser.parse_args()
    found = measure(quick=given.quick, local=given.local)
    where = machine("ray")
    text = f"{where['machine']}, {where['system']}, Python {where['python']}, Ray {where['ray']}.\n\n{table(found)}"
    print(text)
    if not given.quick:
        rewrite(PAGE, "scaling", text)


if __name__ == "__main__":
    main()
