"""Pairs of dialogues before and after training in shuffled order, for judges that do not know which is which, and their answers.

Writes `pairs.jsonl` and `pairs.md` for the judges, and `key.json`, which they do not get. A judge answers with a JSON-lines file,
`{"pair": 1, "better": "A"}` with A, B or same, and may mark each dialogue by itself: `care_a` and `care_b`, from 0 (the person
would feel hurt or ignored) over 1 (nothing in it for the person) to 4 (as a kind friend). Does not cover who judges.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript

__all__ = ["PAIRS", "QUESTION", "judged", "write_pairs"]

PAIRS = 40
QUESTION = (
    "Each pair shows the same person with two partners. In which dialogue does the partner take better care of the person: "
    "understands what is said, stays with it, says something that helps or is good to hear? Judge what is said, not its length. "
    'Answer every pair with A, B or same, one line each: {"pair": 1, "better": "A"}'
)


def write_pairs(pairs: Sequence[tuple[Transcript, Transcript, str]], folder: Path, *, seed: str) -> None:
    """Writes what judges read, and the key.

    Args:
        pairs: before and after, of one scenario each, and where the second is from.
        seed: decides the order of the pairs and the sides.
    """
    draw = random.Random(seed)
    order = draw.sample(range(len(pairs)), len(pairs))
    rows, key, text = [], [], [f"# {len(pairs)} pairs\n\n{QUESTION}\n"]
    for number, place in enumerate(order, start=1):
        before, after, origin = pairs[place]
        first = draw.random() < 0.5
        sides = {"A": after if first else before, "B": before if first else after}
        rows.append({"pair": number, **{side: _lines(transcript) for side, transcript in sides.items()}})
        key.append({"pair": number, "after": "A" if first else "B", "scenario": after.scenario, "from": origin})
        text.append(f"\n## Pair {number}\n")
        for side, transcript in sides.items():
            text.append(
                f"\n### {side}\n\n" + "\n".join(f"- **{who}**: {' '.join(said.split())}" for who, said in _lines(transcript))
            )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    (folder / "pairs.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    (folder / "key.json").write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")


def _lines(transcript: Transcript) -> list[tuple[str, str]]:
    lines = [] if transcript.opening is None else [("person", transcript.opening)]
    for turn in transcript.turns:
        lines.append(("partner", turn.reply or "(says nothing)"))
        if turn.message:
            lines.append(("person", turn.message))
    return lines


def judged(key: Sequence[Mapping[str, Any]], answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """How often each judge preferred the dialogue after training, and how often two judges agree.

    Args:
        key: as `write_pairs` writes it.
        answers: the lines of each judge, by the judge's name.

    Raises:
        SystemExit: an answer to no pair, a pair without an answer, or another answer than A, B or same.
    """
    after = {row["pair"]: row["after"] for row in key}
    chosen: dict[str, dict[int, str]] = {}
    for judge, rows in answers.items():
        given = {row["pair"]: row["better"] for row in rows}
        if given.keys() != after.keys() or not set(given.values()) <= {"A", "B", "same"} or len(given) != len(rows):
            raise SystemExit(f"{judge} has {len(rows)} answers; expected A, B or same to each of the {len(after)} pairs, once")
        chosen[judge] = {
            pair: "same" if side == "same" else "after" if side == after[pair] else "before" for pair, side in given.items()
        }
    found: dict[str, Any] = {"pairs": len(after), "judges": {}}
    for judge, by_pair in chosen.items():
        counts = {what: sum(choice == what for choice in by_pair.values()) for what in ("after", "before", "same")}
        found["judges"][judge] = {**counts, "p": _sign_test(counts["after"], counts["before"])}
        if all("care_a" in row and "care_b" in row for row in answers[judge]):
            found["judges"][judge]["care"] = _care(after, answers[judge])
    for one, other in pairwise(chosen):
        found["agreement"] = sum(chosen[one][pair] == chosen[other][pair] for pair in after) / len(after)
        both = [chosen[one][pair] for pair in after if chosen[one][pair] == chosen[other][pair]]
        found["both"] = {what: both.count(what) for what in ("after", "before", "same")}
    return found


def _care(after: Mapping[int, str], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean marks of the dialogues before and after, and the share of dialogues with a mark of at least 2 ("a little")."""
    marks: dict[str, list[float]] = {"before": [], "after": []}
    for row in rows:
        for side in "AB":
            marks["after" if side == after[row["pair"]] else "before"].append(float(row[f"care_{side.lower()}"]))
    means = {when: sum(given) / len(given) for when, given in marks.items()}
    return means | {f"{when}, at least 2": sum(mark >= 2 for mark in given) / len(given) for when, given in marks.items()}


def _sign_test(wins: int, losses: int) -> float:
    """Two-sided p of as many wins or more of the pairs that were decided, if each side wins half.

    >>> round(_sign_test(8, 2), 4), _sign_test(3, 3)  # 2 (1 + 10 + 45) / 1,024
    (0.1094, 1.0)
    """
    decided, most = wins + losses, max(wins, losses)
    tail = sum(math.comb(decided, more) for more in range(most, decided + 1)) / 2**decided
    return float(min(1.0, 2.0 * tail))
