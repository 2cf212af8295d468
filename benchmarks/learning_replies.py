"""Features of replies before and after training, counted in the transcripts of held-out scenarios.

Covers counting (`replies_of`) and the table of it (`replies_table`). What words are said is for people to read; does not cover
scores (`learning`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript, read_transcripts

__all__ = ["ends_with_punctuation", "replies_of", "replies_table"]

MARKS = {"quoting": "contain a quotation mark", "asking": "contain a question mark", "ending": "end with punctuation"}
WORST = {
    "untouched": "refers to nothing", "unwelcome": "unwelcome", "repetition": "repetition", "broken": "broken speech",
    "ruled": "only the rule", "template": "stock sympathy", "flattery": "flattery",
}  # fmt: skip
"""What was worst in a reply, as the embedded user writes it down, in words."""
BEST = {
    "bound": "refers to what was said", "presence": "presence", "question": "a question", "praise": "praise or encouragement",
    "insight": "insight", "way": "a way out", "cost": "a cost taken on", "owned": "a fault owned",
}  # fmt: skip

MOVES = {"lifting": "raise the emotion", "still": "leave it unchanged", "costing": "lower it by eight points or more"}
"""In SAGE, where the state is one number."""
COSTING = -8


def ends_with_punctuation(reply: str) -> bool:
    """A quotation mark behind it does not count."""
    return reply.rstrip('"')[-1:] in (".", "!", "?", "…")


def replies_of(run: Path) -> dict[str, dict[str, float]] | None:
    """Shares of all replies to people held out, `before` (first evaluation) and `after` (last); `None` with fewer than two."""
    by_step: dict[int, list[Path]] = {}
    for path in sorted((run / "transcripts").glob("held_out-*.jsonl")):
        by_step.setdefault(int(path.name.split("-")[1]), []).append(path)
    if len(by_step) < 2:
        return None
    return {when: _shares([talk for path in by_step[step] for talk in read_transcripts(path)])
            for when, step in (("before", min(by_step)), ("after", max(by_step)))}  # fmt: skip


def _shares(talks: Sequence[Transcript]) -> dict[str, float]:
    turns = [turn for talk in talks for turn in talk.turns]
    replies = [turn.reply for turn in turns]
    marks = {
        "quoting": sum('"' in reply or "\N{LEFT DOUBLE QUOTATION MARK}" in reply for reply in replies),
        "asking": sum("?" in reply for reply in replies),
        "ending": sum(map(ends_with_punctuation, replies)),
        "different": len(set(replies)),
    }
    found: dict[str, float] = {"replies": len(replies), **{name: round(count / len(replies), 4) for name, count in marks.items()}}
    for kind in ("worst", "best"):
        counted = Counter(turn.evidence.get(kind) for turn in turns)
        found |= {f"{kind}/{name}": round(count / len(replies), 4) for name, count in counted.most_common() if name}
    moved = [turn.change["emotion"] for turn in turns if turn.change and "emotion" in turn.change]
    if moved:
        counts = {"lifting": sum(m > 0 for m in moved), "still": moved.count(0), "costing": sum(m <= COSTING for m in moved)}
        found |= {name: round(count / len(moved), 4) for name, count in counts.items()}
        found["left"] = round(sum(talk.stop == "failure" for talk in talks) / len(talks), 4)
    return found


def replies_table(by_what: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Per cent of replies before and after, means over seeds, with the lowest and the highest seed after.

    Args:
        by_what: for each row of the table of scores its runs; those without `replies` are left out.
    """
    counted = {what: [run["replies"] for run in runs if run.get("replies")] for what, runs in by_what.items()}
    counted = {what: found for what, found in counted.items() if found}
    if not counted:
        return ""
    lines = ["| share of replies |", "|:---|"]
    for what in counted:
        lines[0] += f" {what}: before | after | min to max |"
        lines[1] += "---:|---:|---:|"
    rows = {
        **MARKS, "different": "are unique",
        **{f"worst/{name}": f"largest fault: {words}" for name, words in WORST.items()},
        **{f"best/{name}": f"largest merit: {words}" for name, words in BEST.items()},
        **MOVES, "left": "dialogues that the person left",
    }  # fmt: skip
    known = {name for found in counted.values() for shares in found for when in ("before", "after") for name in shares[when]}
    for name, words in rows.items():
        if name not in known:
            continue
        line = f"| {words} |"
        for found in counted.values():
            before, after = ([100 * shares[when].get(name, 0.0) for shares in found] for when in ("before", "after"))
            line += (
                f" {statistics.fmean(before):.0f} % | {statistics.fmean(after):.0f} % | {min(after):.0f} to {max(after):.0f} % |"
            )
        lines.append(line)
    return "\n".join(lines)
