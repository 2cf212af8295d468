"""Would judges agree? Texts of the gate's search over its bar, for two blind judges: `python -m benchmarks.gate.judged`

    export FOLDER     for each judge a Markdown file in the form of data/judged_replies/briefs/judges.md, and the key
    read KEY FILES    the judgements (JSON lines, `NAME_JUDGE_...jsonl`), to benchmarks/results/gate_judged.json and the page

Beside the texts stand good replies to the same messages, so that a judge cannot know that all were found by search.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.gate.__main__ import PAGE, RESULTS
from benchmarks.gate.search import LEAGUES, LESS
from benchmarks.gate.target import target_of
from benchmarks.judged_replies.assignments import judges
from benchmarks.judged_replies.collect import loose, problems_of_judgement
from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.page import rewrite
from heartloop.fitting.data import read_lines

__all__ = ["table"]

JUDGED = RESULTS.with_name("gate_judged.json")
TEXTS = 12
"""Of a league in an environment, drawn from those over the bar."""


def drawn(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The texts to judge, and one good reply to the same message beside each in the league of sentences."""
    draw = random.Random("gate judged")
    replies = {row["id"]: row for row in read_lines(FOLDER / "replies.jsonl")}
    names = iter(draw.sample(range(100_000, 1_000_000), 1_000))
    for environment, found in results["environments"].items():
        good = {row.context: row for row in target_of(environment).of_tier("good")}
        contexts = {row.id: row.context for row in target_of(environment).examples}
        for league in LEAGUES:
            over = [one for one in found["search"] if one[league]["points"] > found["good"] - LESS]
            for one in draw.sample(over, min(TEXTS, len(over))):
                shown = {"environment": environment, "context": replies[one["reply_of"]]["context"]}
                text = one[league]
                yield {"id": f"g{next(names)}", **shown, "kind": league, "text": text["text"], "predicted": text["points"]}
                beside = good.get(contexts[one["reply_of"]])
                if league == LEAGUES[0] and beside is not None:
                    yield {"id": f"g{next(names)}", **shown, "kind": "good", "text": beside.reply, "predicted": None}


def export(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(drawn(json.loads(RESULTS.read_text(encoding="utf-8"))))
    said: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        said.setdefault(row["context"], []).append((row["id"], row["text"]))
    for judge in ("A", "B"):
        judges(read_lines(FOLDER / "contexts.jsonl"), said, folder, len(rows), judge)
    (folder / "key.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def points_of(environment: str, change: Sequence[float]) -> float:
    target = target_of(environment)
    return target.points_of({output.name: float(x) for output, x in zip(target.effect.outputs, change, strict=True)})


def read(key: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Each text with what two judges made of it, in points of 100."""
    rows = {row["id"]: {**row, "judged": {}} for row in json.loads(key.read_text(encoding="utf-8"))}
    for file in files:
        judge = file.stem.split("_")[1]
        for row in loose(file):
            known = rows[row["id"]]
            if problems := problems_of_judgement(row, known["environment"]):
                raise SystemExit(f"{file.name}, {row['id']}: {problems}")
            known["judged"][judge] = round(points_of(known["environment"], row["change"]), 2)
    if missing := [name for name, row in rows.items() if len(row["judged"]) < 2]:
        raise SystemExit(f"not judged twice: {', '.join(missing[:5])} ({len(missing)} in all)")
    weights = json.loads(RESULTS.read_text(encoding="utf-8"))["reader"]
    return {"reader": weights, "texts": list(rows.values())}


def table(results: Mapping[str, Any]) -> str:
    """The judgements as Markdown."""
    texts = results["texts"]
    both = np.array([list(row["judged"].values())[:2] for row in texts])
    names = list(dict.fromkeys(row["environment"] for row in texts))
    good = {
        name: fmean(x for row in texts if row["environment"] == name and row["kind"] == "good" for x in row["judged"].values())
        for name in names
    }
    lines = [
        f"{len(texts)} texts, two judges each, who agree at r {np.corrcoef(both.T)[0, 1]:.2f}. Weights of the reader "
        f"{results['reader']}. Points of 100.\n",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
    ]
    for kind in ("good", *LEAGUES):
        cells, near = [], []
        for name in names:
            mine = [row for row in texts if row["environment"] == name and row["kind"] == kind]
            means = [fmean(row["judged"].values()) for row in mine]
            predicted = f", predicted {fmean(row['predicted'] for row in mine):.1f}" if mine and kind != "good" else ""
            cells.append(f"{fmean(means):.1f} ({len(mine)}{predicted})" if mine else "none")
            near.append(f"{sum(x >= good[name] - LESS for x in means)} of {len(mine)}")
        what = "good replies to the same messages" if kind == "good" else f"found, {kind}"
        lines.append(f"| {what}: judged, mean (texts) | " + " | ".join(cells) + " |")
        if kind != "good":
            lines.append(f"| of them judged near good (less {LESS:g}) | " + " | ".join(near) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("export").add_argument("folder", type=Path)
    reading = commands.add_parser("read")
    reading.add_argument("key", type=Path)
    reading.add_argument("files", type=Path, nargs="+")
    chosen = parser.parse_args()
    if chosen.what == "export":
        export(chosen.folder)
        return
    results = read(chosen.key, chosen.files)
    JUDGED.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rewrite(PAGE, "gate/judged", table(results))


if __name__ == "__main__":
    main()
