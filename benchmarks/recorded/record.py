"""Records runs whose roles are played at a desk. Run again, it goes on through the cache where it stopped.

python -m benchmarks.recorded.desk serve /tmp/desk
python -m benchmarks.recorded.record play sage eibench --cache /tmp/recorded.sqlite --out /tmp/recorded
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

RUNS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "runs.toml").read_text(encoding="utf-8"))
FEW = 4


def command(environment: str, policy: str, first: int | None, cache: Path, out: Path) -> list[str]:
    part = RUNS[environment]
    scenarios = part["scenarios"][:FEW] if policy in part.get("few", ()) else part["scenarios"][:first]
    options = [f"{name}={value}" for name, value in part.get("options", {}).items()]
    return [
        "heartloop", "eval", environment, "--user", "recorded/reader", "--model", policy,
        *(word for scenario in scenarios for word in ("--scenario", scenario)),
        *(word for option in options for word in ("-E", option)),
        "--cache", str(cache), "--out", str(out / f"{environment}-{policy.partition('/')[2]}-{len(scenarios)}"),
        "--timeout", "20000", "--retries", "0", "--max-connections", "64", "--yes", "--no-report", "--retry-failed",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["play"])
    parser.add_argument("environments", nargs="+", choices=list(RUNS))
    parser.add_argument("--first", type=int, help="number of scenarios; default: all")
    parser.add_argument("--policy", help="one policy; default: all")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--port", type=int, default=9001)
    args = parser.parse_args()
    playing = []
    for environment in args.environments:
        part = RUNS[environment]
        for policy in [args.policy] if args.policy else [*part["policies"], *part.get("few", ())]:
            base = f"http://127.0.0.1:{args.port}/{environment}-{policy.partition('/')[2]}/v1"
            log = args.out / f"{environment}-{policy.partition('/')[2]}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a") as file:
                words = command(environment, policy, args.first, args.cache, args.out)
                variables = {**os.environ, "RECORDED_BASE_URL": base, "RECORDED_API_KEY": "none"}
                playing.append(subprocess.Popen(words, env=variables, stdout=file, stderr=file, stdin=subprocess.DEVNULL))
    sys.exit(max(process.wait() for process in playing))


if __name__ == "__main__":
    main()
