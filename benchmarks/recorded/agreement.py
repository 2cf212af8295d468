"""What agrees with what on the recorded runs: `python -m benchmarks.recorded.agreement`

Replays the recorded runs. The recorded second reader judges a third of their scenarios again, the embedded user all of them. The
table on the page: by dialogue, by reply, and the order of policies; intervals are over scenarios.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.page import PAGES, rewrite
from benchmarks.recorded.record import FURTHER, SECOND, replay, third
from heartloop.core.chat import EMBEDDED
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.evaluation.api import load_run
from heartloop.evaluation.compare import agreement
from heartloop.evaluation.scores import points_of
from heartloop.models.recorded import Recording, recordings
from heartloop.scoring.agreement import spearman

RESULTS = Path(__file__).parent.parent / "results" / "agreement.json"
PAGE = PAGES / "agreement.md"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for one in recordings() for row in measured(one, Path(folder) / one.environment)]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "recorded/agreement", table(rows))


def measured(recording: Recording, folder: Path) -> Iterator[dict[str, Any]]:
    whole, part = folder / "all", folder / "third"
    replay(recording, whole)
    yield row(recording.environment, "embedded user", whole, rejudged(whole, EMBEDDED))
    if (FURTHER / f"{recording.environment}.jsonl").is_file():
        replay(third(recording), part)
        yield row(recording.environment, "second reader", part, rejudged(part, SECOND))


def rejudged(run: Path, judge: str) -> Path:
    out = run.with_name(f"{run.name}-{judge.rpartition('/')[2]}")
    command = ["heartloop", "rejudge", str(run), "--judge", judge, "--out", str(out), "--yes", "--no-report"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HEARTLOOP_RECORDINGS": str(FURTHER)})
    return out


def row(environment: str, judge: str, first: Path, second: Path) -> dict[str, Any]:
    ours, theirs = load_run(first).transcripts, load_run(second).transcripts
    agreed = agreement(ours, theirs)
    assert agreed.difference is not None
    try:
        order: float | None = spearman(by_policy(ours), by_policy(theirs))
    except UseError:  # all equal
        order = None
    return {
        "environment": environment, "judge": judge, "dialogues": agreed.dialogues, "r": agreed.pearson,
        "difference": [agreed.difference.mean, agreed.difference.low, agreed.difference.high],
        "replies": agreed.replies, "r_replies": agreed.by_reply, "direction": agreed.signs, "order": order,
        "means": by_policy(theirs), "readers_means": by_policy(ours),
    }  # fmt: skip


def by_policy(transcripts: Sequence[Transcript]) -> dict[str, float]:
    scores: dict[str, list[float]] = defaultdict(list)
    for transcript in transcripts:
        if (points := points_of(transcript)) is not None:
            scores[transcript.model].append(points)
    return {model: round(fmean(values), 2) for model, values in scores.items()}


def table(rows: Sequence[dict[str, Any]]) -> str:
    columns = ["environment", "judge", "dialogues", "r", "mean difference (95 % interval)", "replies", "r by reply"]
    columns += ["same direction", "order of policies"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for one in rows:
        mean, low, high = one["difference"]
        cells = [
            one["environment"], one["judge"], str(one["dialogues"]), number(one["r"]), f"{mean:+.1f} ({low:+.1f} to {high:+.1f})",
            str(one["replies"]), number(one["r_replies"]), f"{one['direction']:.0%}", number(one["order"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
