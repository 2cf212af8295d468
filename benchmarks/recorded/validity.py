"""Do the scores of the recorded runs mean anything? `python -m benchmarks.recorded.validity`

Replays SAGE and puts the questions of three validity suites about it to a further recorded reader, who sees neither scores nor
names of policies. With an argument, a directory, what `heartloop validate` writes is kept there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.page import PAGES, rewrite
from benchmarks.recorded.record import FURTHER, replay
from heartloop.models.recorded import recordings

JUDGE = "recorded/validity"
SUITES = ("utterance", "blri", "capabilities")
SCENARIOS = 4


def validated(folder: Path) -> str:
    """What `heartloop validate` prints."""
    if not (folder / "run").exists():
        replay(next(one for one in recordings() if one.environment == "sage"), folder / "run")
    command = ["heartloop", "validate", str(folder / "run"), *(word for suite in SUITES for word in ("--suite", suite))]
    command += ["--judge", JUDGE, "--limit", str(SCENARIOS), "--out", str(folder / "validity"), "--yes"]
    command += [
        "--timeout",
        "20000",
        "--retries",
        "0",
        *(["--cache", cache] if (cache := os.environ.get("HEARTLOOP_CACHE")) else []),
    ]
    environment = {"HEARTLOOP_RECORDINGS": str(FURTHER), **os.environ, "COLUMNS": "100"}
    return subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout


def main() -> None:
    if len(sys.argv) > 1:
        print(validated(Path(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = validated(Path(folder)).partition("\nNumbers:")[0]
    rewrite(
        PAGES / "validity.md", "recorded/validity", "\n".join(["```text", *map(str.rstrip, text.strip().splitlines()), "```"])
    )


if __name__ == "__main__":
    main()
