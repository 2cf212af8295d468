"""Records runs whose roles are played at a desk. Run again, it goes on through the cache where it stopped.

    python -m benchmarks.recorded.desk serve /tmp/desk
    python -m benchmarks.recorded.record play sage eibench --cache /tmp/recorded.sqlite --out /tmp/recorded
    python -m benchmarks.recorded.record export sage eibench --cache /tmp/recorded.sqlite --out /tmp/replayed
    python -m benchmarks.recorded.record judge sage eibench --cache /tmp/second.sqlite --out /tmp/second
    python -m benchmarks.recorded.record export-judged --cache /tmp/second.sqlite

`judge` lets the second reader judge a third of the scenarios again, and one reader one scenario of SAGE and EIBench three times.
`export` replays the runs from the cache alone and writes the answers that they use into `heartloop.models.recordings`, or into
`data/recorded/answers` those that are not part of the demo.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from heartloop.evaluation.api import evaluate
from heartloop.models import recorded

_HEARTLOOP = [sys.executable, "-m", "heartloop.cli"]
_FILE = tomllib.loads((Path(__file__).parent / "runs.toml").read_text(encoding="utf-8"))
CAPTION: str = _FILE.pop("caption")
RUNS: dict[str, dict[str, Any]] = _FILE
SECOND = "recorded/second"
"""The reader that judges a third of the scenarios again."""
AGAIN = ("recorded/again-1", "recorded/again-2", "recorded/again-3")
"""One reader three times, for the noise; each time without memory of the others."""
FURTHER = Path(__file__).parents[2] / "data" / "recorded" / "answers"


def replay(recording: recorded.Recording, out: Path) -> None:
    """Replays recorded dialogues into a run directory; no model is called."""
    evaluate(
        recording.environment, recording.policies, user=recorded.READER, scenario_ids=recording.scenarios,
        options=recording.options, out=out, progress=False,
    )  # fmt: skip


def third(recording: recorded.Recording) -> recorded.Recording:
    return recording._replace(scenarios=recording.scenarios[::3])


def for_noise(recording: recorded.Recording) -> recorded.Recording:
    return recording._replace(scenarios=recording.scenarios[1:2])


def rejudged(run: Path, judge: str, *more: str, address: str | None = None) -> Path:
    """Judges a run again: from the recordings, or at an address."""
    out = run.with_name(f"{run.name}-{judge.rpartition('/')[2]}")
    variables = {**os.environ, "HEARTLOOP_RECORDINGS": str(FURTHER)}
    variables |= {"RECORDED_BASE_URL": address, "RECORDED_API_KEY": "none"} if address else {}
    words = [*_HEARTLOOP, "rejudge", str(run), "--judge", judge, "--out", str(out), "--yes", "--no-report", *more]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=variables)
    return out


def judge(environment: str, cache: Path, out: Path, port: int) -> None:
    recording = next(one for one in recorded.recordings() if one.environment == environment)
    parts = [(third(recording), "third", SECOND)]
    parts += [(for_noise(recording), "noise", name) for name in AGAIN if environment in ("sage", "eibench")]
    waiting = ["--cache", str(cache), "--timeout", "20000", "--retries", "0", "--max-connections", "64", "--retry-failed"]
    with ThreadPoolExecutor() as pool:
        for part, kind, name in parts:
            run = out / f"{environment}-{kind}"
            if not (run / "settings.json").exists():
                replay(part, run)
            pool.submit(rejudged, run, name, *waiting, address=f"http://127.0.0.1:{port}/{environment}-{kind}/v1")


def export_judged(cache: Path) -> None:
    """All answers of the judges; the cache has no others."""
    rows = sqlite3.connect(cache).execute("SELECT question, nth, model, text FROM answers ORDER BY question, nth").fetchall()
    lines: list[dict[str, Any]] = [dict.fromkeys(recorded.Recording._fields, "")]  # a header without runs
    for question, nth, model, answer in rows:
        lines.append({"key": question.hex()[: recorded.KEY_LETTERS], "nth": nth, "model": model, "text": answer})
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (FURTHER / "judged-again.jsonl").write_text(text, encoding="utf-8")


def command(environment: str, policy: str, part_of: slice, cache: Path, out: Path) -> list[str]:
    part = RUNS[environment]
    scenarios = part["scenarios"][part_of]
    options = [f"{name}={value}" for name, value in part.get("options", {}).items()]
    return [
        *_HEARTLOOP, "eval", part.get("environment", environment), "--user", "recorded/reader", "--model", policy,
        *(word for scenario in scenarios for word in ("--scenario", scenario)),
        *(word for option in options for word in ("-E", option)),
        "--cache", str(cache), "--out", str(out / f"{environment}-{policy.partition('/')[2]}-{scenarios[0]}-{len(scenarios)}"),
        "--timeout", "20000", "--retries", "0", "--max-connections", "64", "--yes", "--no-report", "--retry-failed",
    ]  # fmt: skip


def export(environment: str, first: int | None, cache: Path, out: Path) -> None:
    part = RUNS[environment]
    rows = (
        sqlite3.connect(cache)
        .execute("SELECT question, nth, model, text FROM answers WHERE repeat = 0 AND attempt = 0")
        .fetchall()
    )
    found = {(question.hex()[: recorded.KEY_LETTERS], nth): (model, text) for question, nth, model, text in rows}
    used = _Used({key: text for key, (_, text) in found.items()})
    header = {
        "environment": part.get("environment", environment),
        "scenarios": part["scenarios"][:first],
        "policies": part["policies"],
        "options": part.get("options", {}),
        "caption": CAPTION,
    }
    recorded.answers = lambda further="": used  # type: ignore[assignment]
    replay(recorded.Recording(**header), out / environment)
    folder = FURTHER if part.get("further") else Path(recorded.__file__).parent / "recordings"
    path = folder / f"{environment}.jsonl"
    lines = [json.dumps(header, ensure_ascii=False)]
    for key, nth in sorted(used.seen):
        model, text = found[key, nth]
        one = {"key": key, **({"nth": nth} if nth else {}), "model": model, "text": text}
        lines.append(json.dumps(one, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{environment}: {len(used.seen)} answers of {len(found)} in the cache, {path.stat().st_size // 1024} KiB")


class _Used(dict[Any, str]):
    """Answers that note which of them are looked up."""

    def __init__(self, answers: Mapping[Any, str]) -> None:
        super().__init__(answers)
        self.seen: set[Any] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self.seen.add(key)
        return super().get(key, default)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["play", "export", "judge", "export-judged"])
    parser.add_argument("environments", nargs="*", choices=[*RUNS, []])
    parser.add_argument("--first", type=int, help="number of scenarios; default: all")
    parser.add_argument("--skip", type=int, default=0, help="number of scenarios at the beginning to leave out")
    parser.add_argument("--policy", help="one policy; default: all")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("/tmp/recorded"))
    parser.add_argument("--port", type=int, default=9001)
    args = parser.parse_args()
    if args.action == "export":
        for environment in args.environments:
            export(environment, args.first, args.cache, args.out)
        return
    if args.action == "export-judged":
        export_judged(args.cache)
        return
    if args.action == "judge":
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: judge(name, args.cache, args.out, args.port), args.environments))
        return
    playing = []
    for environment in args.environments:
        part = RUNS[environment]
        for policy in [args.policy] if args.policy else part["policies"]:
            base = f"http://127.0.0.1:{args.port}/{environment}-{policy.partition('/')[2]}/v1"
            log = args.out / f"{environment}-{policy.partition('/')[2]}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a") as file:
                words = command(environment, policy, slice(args.skip, args.first), args.cache, args.out)
                variables = {**os.environ, "RECORDED_BASE_URL": base, "RECORDED_API_KEY": "none"}
                playing.append(subprocess.Popen(words, env=variables, stdout=file, stderr=file, stdin=subprocess.DEVNULL))
    sys.exit(max(process.wait() for process in playing))


if __name__ == "__main__":
    main()
