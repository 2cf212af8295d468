"""What authors and judges return: checked, merged, and written to the data folder."""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from benchmarks.judged_replies.contexts import FOLDER, write
from heartloop.fitting.data import read_lines
from heartloop.fitting.embedded import readings
from heartloop.reader.aspects import ASPECTS

CHANGES: Mapping[str, Sequence[tuple[str, float, float]]] = {
    name: tuple((output.name, output.low, output.high) for output in reading.outputs) for name, reading in readings().items()
}
"""Parts of a judged change, with their ranges, by environment."""


def loose(path: Path) -> Iterable[dict[str, Any]]:
    """The JSON lines of a file; a line that does not parse is named and left out."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                print(f"{path.name}:{number}: {error}: {line[:80]}")


def problems_of_judgement(row: Mapping[str, Any], environment: str) -> list[str]:
    parts = CHANGES[environment]
    found = []
    aspects, change = row.get("aspects", ()), row.get("change", ())
    if len(aspects) != len(ASPECTS) or not all(isinstance(x, int) and 0 <= x <= 4 for x in aspects):
        found.append(f"aspects {aspects}")
    if len(change) != len(parts) or not all(low <= x <= high for x, (_, low, high) in zip(change, parts, strict=True)):
        found.append(f"change {change}")
    return found


def scalar(environment: str, change: Sequence[float]) -> float:
    """A judged change as one number in [-1, 1] or [0, 1], to compare judges: better is higher."""
    if environment == "sage":
        return change[0] / 10
    if environment == "eibench":
        return (change[1] - change[0]) / 20
    if environment == "empa":
        return sum(change) / 6
    if environment == "perm":
        return ((change[0] + change[1] - 2) / 8 + sum(change[2:]) / 100) / 2
    return sum(x - 1 for x in change) / 24


def weighted_kappa(first: Sequence[int], second: Sequence[int]) -> float:
    """Cohen's kappa with quadratic weights, of marks from 0 to 4."""
    return float(cohen_kappa_score(first, second, labels=range(5), weights="quadratic"))


def agreement(rows: Sequence[Mapping[str, Any]], tiers: Mapping[str, str]) -> None:
    """Prints kappa per aspect and r of the change between the first two judges of each reply."""
    both: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        both[row["id"]].append(row)
    pairs = [(a, b) for a, b, *_ in (group for group in both.values() if len(group) > 1)]
    print(len(pairs), "replies judged twice")
    for number, name in enumerate(ASPECTS):
        a, b = ([pair[side]["aspects"][number] for pair in pairs] for side in (0, 1))
        print(f"{name:14} kappa {weighted_kappa(a, b):.2f}  mean {np.mean(a):.2f} {np.mean(b):.2f}")
    values = np.array([[scalar(row["environment"], row["change"]) for row in pair] for pair in pairs])
    print("change r", round(float(np.corrcoef(values.T)[0, 1]), 3))
    for tier in ("good", "middling", "poor", "harmful"):
        mine = np.array([tiers.get(pair[0]["id"]) == tier for pair in pairs])
        if mine.sum() > 2:
            print(
                f"  {tier:9} n {mine.sum():4} mean {values[mine].mean():+.2f} sd {values[mine].std():.2f} "
                f"r {np.corrcoef(values[mine].T)[0, 1]:.2f}"
            )
    for environment in CHANGES:
        mine = np.array([pair[0]["environment"] == environment for pair in pairs])
        if mine.sum() > 2:
            changes = np.array([[row["change"] for row in pair] for pair, m in zip(pairs, mine, strict=True) if m])
            parts = [f"{name} {np.corrcoef(changes[:, :, n].T)[0, 1]:.2f}" for n, (name, _, _) in enumerate(CHANGES[environment])]
            print(f"  {environment:8} n {mine.sum():4} r {np.corrcoef(values[mine].T)[0, 1]:.2f}  {'  '.join(parts)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("bridges", "replies", "judgements"))
    parser.add_argument("files", type=Path, nargs="+")
    chosen = parser.parse_args()
    contexts = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl")}
    if chosen.what == "bridges":
        for path in chosen.files:
            for row in loose(path):
                context = contexts[row["id"]]
                if len(row["replies"]) != context["turn"]:
                    print(path.name, row["id"], len(row["replies"]), "replies; expected", context["turn"])
                else:
                    context["replies"] = row["replies"]
        write(FOLDER / "contexts.jsonl", contexts.values())
        print("without earlier replies:", [c["id"] for c in contexts.values() if len(c["replies"]) != c["turn"]])
        return
    slots = {row["id"]: row for row in read_lines(FOLDER / "slots.jsonl")}
    if chosen.what == "replies":
        path = FOLDER / "replies.jsonl"
        kept = {row["id"]: row for row in read_lines(path)} if path.exists() else {}
        for file in chosen.files:
            for row in loose(file):
                if row.get("id") not in slots or not str(row.get("reply", "")).strip():
                    print(file.name, "unknown or empty:", row)
                    continue
                kept[row["id"]] = {**slots[row["id"]], "reply": row["reply"]}
        write(path, kept.values())
        print(len(kept), "of", len(slots), "replies")
        lengths = [(len(row["reply"].split()), row["words"]) for row in kept.values()]
        print("length r with target", round(float(np.corrcoef(np.array(lengths).T)[0, 1]), 2))
        starts = Counter((row["voice"], " ".join(row["reply"].lower().split()[:3])) for row in kept.values())
        print("openings:", starts.most_common(8))
        return
    path = FOLDER / "judgements.jsonl"
    rows = {(row["id"], row["judge"]): row for row in read_lines(path)} if path.exists() else {}
    replies = {row["id"]: row for row in read_lines(FOLDER / "replies.jsonl")}
    for file in chosen.files:
        judge = file.stem.split("_")[1]
        for row in loose(file):
            if row.get("id") not in replies:
                print(file.name, "unknown:", str(row)[:100])
                continue
            environment = contexts[replies[row["id"]]["context"]]["environment"]
            if problems := problems_of_judgement(row, environment):
                print(file.name, row["id"], environment, problems)
                continue
            rows[row["id"], judge] = {
                "id": row["id"], "judge": judge, "environment": environment,
                "aspects": row["aspects"], "change": row["change"], "why": row.get("why", ""),
            }  # fmt: skip
    write(path, rows.values())
    agreement(list(rows.values()), {row["id"]: row["tier"] for row in replies.values()})


if __name__ == "__main__":
    main()
