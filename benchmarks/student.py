"""How well does a student predict a judge it was fitted on? `python -m benchmarks.student LOGS`

LOGS is a folder with the released SAGE logs (JSON lines, one file per model). All ways of leaving two
models out, each with 30 of the people left out too: a fit on the other models and people predicts the changes of the two models
with the 30. Model means are compared for every way of pairing the models up, so that each model is predicted by a fit that has
not seen it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.environments.sage.scoring import step
from heartloop.fitting.ridge import predict_folds
from heartloop.fitting.student import ALPHA, JudgedRows, read_rows

RESULTS = Path(__file__).parent / "results" / "student.json"
PAGE = PAGES / "student.md"
START = 40.0
PEOPLE_LEFT_OUT = 30


def final_emotion(changes: Sequence[float]) -> float:
    """The emotion at the end of a dialogue with these changes; the end rules of a dialogue are not applied again."""
    emotion = START
    for change in changes:
        emotion = step(emotion, change)
    return emotion


def split(rows: JudgedRows, pair: tuple[int, int], number: int) -> dict[str, Any]:
    """One way of leaving two models out."""
    people = np.random.default_rng(number).permutation(len(rows.scenarios))[:PEOPLE_LEFT_OUT]
    theirs, mine = np.isin(rows.scenario, people), np.isin(rows.model, pair)
    test = mine & theirs
    predicted = predict_folds(rows.design.matrix, rows.targets, [(~mine & ~theirs, test)], ALPHA)[:, 0]
    judged = rows.targets[:, 0]
    finals = [
        (int(rows.model[here][0]), final_emotion(judged[here]), final_emotion(predicted[here]))
        for here in (test & (rows.dialogue == dialogue) for dialogue in np.unique(rows.dialogue[test]))
    ]
    by_dialogue = np.array([row[1:] for row in finals])
    return {
        "models": [rows.models[model] for model in pair],
        "turn_r": float(np.corrcoef(judged[test], predicted[test])[0, 1]),
        "dialogue_r": float(np.corrcoef(by_dialogue.T)[0, 1]),
        "length_r": float(np.corrcoef(judged[test], rows.length[test])[0, 1]),
        "means": {rows.models[m]: [mean(row[side] for row in finals if row[0] == m) for side in (1, 2)] for m in pair},
    }


def pairings(models: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Every way of pairing the models up."""
    if not models:
        yield []
    for other in models[1:]:
        rest = [model for model in models[1:] if model != other]
        yield from ([(models[0], other), *more] for more in pairings(rest))


def measure(rows: JudgedRows) -> dict[str, Any]:
    """All splits, and the rank correlation of the model means under every pairing."""
    pairs = list(combinations(range(len(rows.models)), 2))
    splits = {pair: split(rows, pair, number) for number, pair in enumerate(pairs)}
    ranks = []
    for pairing in pairings(range(len(rows.models))):
        means = [both for pair in pairing for both in splits[pair]["means"].values()]
        ranks.append(float(spearmanr(*zip(*means, strict=True))[0]))
    return {
        "splits": list(splits.values()),
        "spearman": {"median": median(ranks), "lowest": min(ranks), "highest": max(ranks), "pairings": len(ranks)},
    }


def main() -> None:
    """Prints and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    arguments = parser.parse_args()
    from heartloop.cli.main import app

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        app(["import", "sage-logs", str(arguments.logs), "--out", str(run)], standalone_mode=False)
        rows = read_rows([run])
    results = {**machine("numpy", "scipy"), "replies": len(rows.targets), "people": len(rows.scenarios), **measure(rows)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "student", table(results))
    print(table(results))


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    splits = results["splits"]

    def over(key: str) -> str:
        values = [one[key] for one in splits]
        return f"{mean(values):.2f} | {min(values):.2f} | {max(values):.2f}"

    ranks = results["spearman"]
    by_model: dict[str, list[list[float]]] = {}
    for one in splits:
        for model, both in one["means"].items():
            by_model.setdefault(model, []).append(both)
    rows = sorted(((model, *np.mean(values, 0)) for model, values in by_model.items()), key=lambda row: -row[1])
    lines = "\n".join(f"| {model} | {judged:.1f} | {predicted:.1f} |" for model, judged, predicted in rows)
    return (
        f"{results['replies']} judged replies, {len(by_model)} models, {results['people']} people; {len(splits)} ways of leaving "
        f"two models and {PEOPLE_LEFT_OUT} people out. {results['machine']}, Python {results['python']}.\n\n"
        "| | mean | lowest split | highest split |\n|---|---:|---:|---:|\n"
        f"| r of single changes | {over('turn_r')} |\n| r of final emotions | {over('dialogue_r')} |\n"
        f"| r of changes and reply length alone | {over('length_r')} |\n\n"
        f"Rank correlation (Spearman) of the model means, over all {ranks['pairings']} ways of pairing the models up: median "
        f"**{ranks['median']:.2f}**, from {ranks['lowest']:.2f} to {ranks['highest']:.2f}.\n\n"
        "Mean final emotion of each model over the splits that left it out:\n\n"
        f"| model | judged | predicted |\n|---|---:|---:|\n{lines}\n"
    )


if __name__ == "__main__":
    main()
