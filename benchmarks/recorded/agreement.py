"""What agrees with what on the recorded runs: `python -m benchmarks.recorded.agreement`

Replays the recorded runs. The recorded second reader judges a third of their scenarios again, the embedded user all of them. The
table on the page: by dialogue, by reply, and the order of policies; intervals are over scenarios.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from benchmarks.page import PAGES, rewrite
from benchmarks.recorded.record import AGAIN, SECOND, for_noise, rejudged, replay, third
from heartloop.core.chat import EMBEDDED
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.evaluation.api import load_run
from heartloop.evaluation.compare import agreement
from heartloop.evaluation.digests import digest_of
from heartloop.evaluation.scores import points_of
from heartloop.models.recorded import Recording, recordings
from heartloop.scoring.agreement import spearman
from heartloop.validity.noise import pair_share

RESULTS = Path(__file__).parent.parent / "results" / "agreement.json"
PAGE = PAGES / "agreement.md"
NOISE = ("sage", "eibench")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for one in recordings() for row in measured(one, Path(folder) / one.environment)]
        repeated = [noise(one, Path(folder) / one.environment) for one in recordings() if one.environment in NOISE]
    results = {"agreement": rows, "noise": repeated}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "recorded/agreement", table(results))


def measured(recording: Recording, folder: Path) -> Iterator[dict[str, Any]]:
    whole, part = folder / "all", folder / "third"
    replay(recording, whole)
    yield row(recording.environment, "embedded user", whole, rejudged(whole, EMBEDDED))
    replay(third(recording), part)
    yield row(recording.environment, "second reader", part, rejudged(part, SECOND))


def noise(recording: Recording, folder: Path) -> dict[str, Any]:
    """How far three judgements of the same replies by one reader differ."""
    replay(for_noise(recording), folder / "noise")
    judged = [{one.key: one for one in load_run(rejudged(folder / "noise", judge)).transcripts} for judge in AGAIN]
    moves = [
        zip(*([after - before for before, after in pairwise(digest_of(read[key]).course)] for read in judged), strict=False)
        for key in judged[0]
    ]
    replies = [changes for dialogue in moves for changes in dialogue]
    sd = math.sqrt(fmean(variance(changes) for changes in replies))
    direction = fmean(pair_share(changes) for changes in replies)
    return {"environment": recording.environment, "replies": len(replies), "sd": sd, "direction": direction}


def row(environment: str, judge: str, first: Path, second: Path) -> dict[str, Any]:
    ours, theirs = load_run(first).transcripts, load_run(second).transcripts
    agreed = agreement(ours, theirs)
    assert agreed.difference is not None
    ends = [end if math.isfinite(end) else None for end in (agreed.difference.low, agreed.difference.high)]
    try:
        order: float | None = spearman(by_policy(ours), by_policy(theirs))
    except UseError:  # all equal
        order = None
    return {
        "environment": environment, "judge": judge, "dialogues": agreed.dialogues, "r": agreed.pearson,
        "difference": [agreed.difference.mean, *ends],
        "replies": agreed.replies, "r_replies": agreed.by_reply, "direction": agreed.signs, "order": order,
        "means": by_policy(theirs), "readers_means": by_policy(ours),
    }  # fmt: skip


def by_policy(transcripts: Sequence[Transcript]) -> dict[str, float]:
    scores: dict[str, list[float]] = defaultdict(list)
    for transcript in transcripts:
        if (points := points_of(transcript)) is not None:
            scores[transcript.model].append(points)
    return {model: round(fmean(values), 2) for model, values in scores.items()}


def table(results: Mapping[str, Any]) -> str:
    columns = ["environment", "judge", "dialogues", "r", "mean difference (95 % interval)", "replies", "r by reply"]
    columns += ["same direction", "order of policies"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for one in results["agreement"]:
        mean, low, high = one["difference"]
        interval = f" ({low:+.1f} to {high:+.1f})" if low is not None else ""
        cells = [
            one["environment"], one["judge"], str(one["dialogues"]), number(one["r"]), f"{mean:+.1f}{interval}",
            str(one["replies"]), number(one["r_replies"]), f"{one['direction']:.0%}", number(one["order"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    repeated = [
        f"{one['environment']}: {one['replies']} replies judged three times: the change of the score has an SD of "
        f"{one['sd']:.1f} points, and {one['direction']:.0%} of the pairs have the same direction."
        for one in results["noise"]
    ]
    return "\n\n".join(["\n".join(lines), *repeated])


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
