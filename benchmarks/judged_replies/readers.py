"""How well readers predict judged changes, cross-validated on the tuning part. `python -m benchmarks.judged_replies.readers`

What is predicted is of another voice and another scenario than everything that was fitted on. Replies that nobody wrote (those
of baselines, attacks and a small language model) are fitted on, and predicted by fits on other scenarios. Readers: ridge on
n-grams and counts; the same with a kernel on word vectors, relevance and counts; a network over word vectors; the mean of the
last two, which ships. A reader predicts aspects; the change is predicted from them by a linear map, as environments do. The
sealed part is not read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.judged_replies.collect import scalar
from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.fitting.data import JudgedReply, read_examples, read_table, standardised
from heartloop.fitting.embedded import UNFITTED_VOICES, folds
from heartloop.fitting.fits import design_of, predict_folds, prepared, together
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import DEFAULT_LAYOUT, features_of

RESULTS = Path(__file__).parent.parent / "results" / "readers.json"
PAGE = PAGES / "readers.md"
NGRAM_ALPHA = 2.0
TIERS = ("good", "middling", "poor", "harmful")


def r(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return round(float(np.corrcoef(first, second)[0, 1]), 3)


def judged_change(examples: Sequence[JudgedReply]) -> NDArray[np.float64]:
    """The judged changes as one number each, standardised by environment, shape (examples,)."""
    return standardised(examples, lambda example: scalar(example.environment, list(example.change)))


def agreement(examples: Sequence[JudgedReply], predicted: NDArray[np.float64]) -> dict[str, Any]:
    """How predictions of the change agree with the judges, on the written replies: in all, by tier and environment.

    Minimal edits are counted apart: they differ in what form does not show."""
    judged = judged_change(examples)
    tier = np.array([example.tier for example in examples])
    names = np.array([example.environment for example in examples])
    voices = np.array([example.voice for example in examples])
    edited = np.array([example.kind.startswith("edit of") for example in examples])
    written = (tier != "none") & ~edited
    return {
        "replies": int(written.sum()),
        "r": r(predicted[written], judged[written]),
        "edits": int(edited.sum()),
        "r_of_edits": r(predicted[edited], judged[edited]) if edited.any() else 0.0,
        "tiers": {
            name: {
                "mean": round(float(predicted[written & (tier == name)].mean()), 2),
                "r": r(predicted[written & (tier == name)], judged[written & (tier == name)]),
            }
            for name in TIERS
        },
        "environments": {
            name: r(predicted[written & (names == name)], judged[written & (names == name)]) for name in sorted(set(names))
        },
        "not_written": {
            name: {
                "predicted": round(float(predicted[voices == name].mean()), 2),
                "judged": round(float(judged[voices == name].mean()), 2),
            }
            for name in sorted(set(voices[tier == "none"]))
        },
    }  # fmt: skip


def examples(half: str = "tuning") -> list[JudgedReply]:
    return read_examples(FOLDER, half)


def ngram_kernel(rows: Sequence[JudgedReply]) -> NDArray[np.float64]:
    return design_of([features_of(row.reply, row.context) for row in rows], DEFAULT_LAYOUT).kernel


def cross_validated(rows: Sequence[JudgedReply], kernel: NDArray[np.float64], share: float = 1.0) -> dict[str, Any]:
    """The agreement of ridge on n-grams.

    Args:
        kernel: `ngram_kernel` of the rows.
    """
    predicted = predict_folds(kernel, judged_change(rows)[:, None], folds(rows, share), NGRAM_ALPHA)
    return agreement(rows, predicted[:, 0])


def by_aspects(rows: Sequence[JudgedReply], marks: NDArray[np.float64]) -> NDArray[np.float64]:
    """The change as a linear map of predicted aspects, shape (rows, ASPECTS), fitted for each environment on other scenarios."""
    judged = judged_change(rows)
    design = np.hstack([marks, np.ones((len(rows), 1))])
    names, part = (np.array(column) for column in ([row.environment for row in rows], [_quarter(row.scenario) for row in rows]))
    predicted = np.zeros(len(rows))
    for name in sorted(set(names)):
        for number in range(4):
            train, test = (names == name) & (part != number), (names == name) & (part == number)
            square = design[train].T @ design[train] + np.eye(design.shape[1])
            predicted[test] = design[test] @ np.linalg.solve(square, design[train].T @ judged[train])
    return predicted


def _quarter(scenario: str) -> int:
    return crc32(scenario.encode()) % 4


def measure(processes: int) -> dict[str, Any]:
    rows = [row for row in examples() if row.voice not in UNFITTED_VOICES]
    pairs = list(folds(rows))
    shared = prepared(rows, judged_change(rows), read_table(FOLDER / "word_vectors.npz"))
    ridge, networks = shared.held_out_ridge(pairs), shared.held_out_networks(pairs, processes=processes)
    predicted = {
        "n-grams and counts": predict_folds(shared.design.kernel, shared.targets, pairs, NGRAM_ALPHA),
        "with a kernel": ridge,
        "network": networks,
        "both": together(ridge, networks),
    }
    return results_of(rows, {name: np.clip(values[:, : len(ASPECTS)], 0.0, 4.0) for name, values in predicted.items()})


def results_of(rows: Sequence[JudgedReply], predicted: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """The agreement of readers by the aspects that they predict, shape (rows, ASPECTS)."""
    marks = np.array([row.aspects for row in rows])
    written = np.array([row.tier != "none" for row in rows])
    results = {
        name: {
            **agreement(rows, by_aspects(rows, values)),
            "aspects": {aspect: r(values[written, n], marks[written, n]) for n, aspect in enumerate(ASPECTS)},
        }
        for name, values in predicted.items()
    }
    lengths = np.log1p([len(row.reply.split()) for row in rows])
    return {**machine("numpy", "scipy"), "length_r": r(lengths[written], judged_change(rows)[written]), "readers": results}


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    readers = results["readers"]

    def row(title: str, values: Sequence[float]) -> str:
        return f"| {title} | {' | '.join(f'{value:.2f}' for value in values)} |"

    first = next(iter(readers.values()))
    lines = [
        f"{first['replies']} written replies of the tuning part, predicted by fits on other voices and scenarios. "
        f"{results['machine']}, Python {results['python']}. Length alone: r {results['length_r']:.2f}.",
        "",
        f"| | {' | '.join(readers)} |",
        f"|---|{'---:|' * len(readers)}",
        row("**r of the change**", [one["r"] for one in readers.values()]),
        row(f"r among {first['edits']} minimal edits", [one["r_of_edits"] for one in readers.values()]),
        *(row(f"r in {name}", [one["environments"][name] for one in readers.values()]) for name in first["environments"]),
        *(row(f"r among {name} replies", [one["tiers"][name]["r"] for one in readers.values()]) for name in TIERS),
        *(row(f"mean prediction, {name}", [one["tiers"][name]["mean"] for one in readers.values()]) for name in TIERS),
        *(
            row(
                f"mean prediction, {name} (judged {values['judged']:.2f})",
                [one["not_written"][name]["predicted"] for one in readers.values()],
            )
            for name, values in first["not_written"].items()
        ),
        *(row(f"r of {name}", [one["aspects"][name] for one in readers.values()]) for name in ASPECTS),
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2, help="processes that fit networks")
    results = measure(parser.parse_args().processes)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "judged_replies/readers", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
