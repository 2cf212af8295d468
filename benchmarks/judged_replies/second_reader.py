"""How well the reader `embedded-lm` predicts judged changes. `python -m benchmarks.judged_replies.second_reader`

1. On the two voices that it is fitted on, cross-validated: fitted on the one voice, tested on the other and on other scenarios.
2. On the five other voices of the tuning half, none of which it is fitted on: 600 replies, listed in `second_reader_sample.txt`.
   These are one reply of each tier in 150 contexts, drawn by the hash of their ids among the contexts that have every tier.
3. On the same 600 the n-gram reader, by fits on other voices and scenarios, and how far the two readers' predictions agree.

Needs the extra `local`. The sealed part is not read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.judged_replies.readers import NGRAM_ALPHA, PAGE, TIERS, agreement, judged_change, ngram_kernel, r
from benchmarks.machine import machine
from benchmarks.page import rewrite
from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.lm_reader import LM_WEIGHTS, KernelModel
from heartloop.fitting.embedded import SECOND_READER, TIMES, TRAINED, emphasised, folds
from heartloop.fitting.embedded_lm import fit_lm, states_of
from heartloop.fitting.examples import Example, read_examples
from heartloop.fitting.ridge import predict_folds

RESULTS = Path(__file__).parent.parent / "results" / "second_reader.json"
SAMPLE = Path(__file__).with_name("second_reader_sample.txt")


def summary(rows: Sequence[Example], predicted: NDArray[np.float64]) -> dict[str, Any]:
    """The agreement with the judges, and r of each aspect.

    Args:
        predicted: aspects and the change, shape (rows, aspects + 1).
    """
    marks = np.array([row.aspects for row in rows])
    aspects = {name: r(predicted[:, n], marks[:, n]) for n, name in enumerate(ASPECTS)}
    return {**agreement(rows, predicted[:, -1]), "aspects": aspects}


def measure(states: Path) -> dict[str, Any]:
    tuning = read_examples(FOLDER, "tuning")
    own = [row for row in tuning if row.voice in SECOND_READER]
    first = [row for row in tuning if row.voice not in SECOND_READER]
    ids = set(SAMPLE.read_text(encoding="utf-8").split())
    unseen = [row for row in first if row.id in ids]
    counted = emphasised(own)
    crossed = fit_lm(counted, states_of(counted, states), [0.0] * len(ASPECTS)).held_out[: len(own)]
    model = KernelModel.load(LM_WEIGHTS)
    values = np.array([model.apply(state.astype(np.float32)) for state in states_of(unseen, states)], np.float64)
    second = np.column_stack([values[:, : len(ASPECTS)], values[:, len(ASPECTS) :].mean(1)])
    targets = np.column_stack([np.array([row.aspects for row in first]), judged_change(first)])
    chosen = np.array([row.id in ids for row in first])
    ngrams = predict_folds(ngram_kernel(first), targets, folds(first), NGRAM_ALPHA)[chosen]
    written = [row for row in own if row.tier in TIERS]
    floors = [(ASPECTS.index(name), threshold) for name, threshold in model.card["floors"].items()]
    under = np.any([second[:, place] >= threshold for place, threshold in floors], axis=0)
    tiers = np.array([row.tier for row in unseen])
    return {
        **machine("numpy", "scipy"),
        "weights": model.hash,
        "fitted_on": len(own),
        "of_trained_policies": sum(row.voice == TRAINED[1] for row in own),
        "voices": sorted({row.voice for row in written}),
        "readers": {
            "embedded-lm, own voices": summary(own, crossed),
            "embedded-lm, other voices": summary(unseen, second),
            "n-grams, the same replies": summary(unseen, ngrams),
        },
        "under_a_floor": {tier: round(float(under[tiers == tier].mean()), 3) for tier in TIERS},
        "between_readers": r(second[:, -1], ngrams[:, -1]),
        "mean_of_both": r(second[:, -1] / second[:, -1].std() + ngrams[:, -1] / ngrams[:, -1].std(), judged_change(unseen)),
    }


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    readers = results["readers"]

    def row(title: str, values: Sequence[float]) -> str:
        return f"| {title} | {' | '.join(f'{value:.2f}' for value in values)} |"

    counts = [one["replies"] for one in readers.values()]
    first = next(iter(readers.values()))
    lines = [
        f"`embedded-lm` is fitted on {results['fitted_on']} replies: two voices ({' and '.join(results['voices'])}) and "
        f"{results['of_trained_policies']} replies of trained policies, each of which counts {TIMES} times. The n-gram reader "
        f"has seen none of them. {results['machine']}, Python {results['python']}.",
        "",
        f"| | {' | '.join(readers)} |",
        f"|---|{'---:|' * len(readers)}",
        f"| replies | {' | '.join(map(str, counts))} |",
        row("**r of the change**", [one["r"] for one in readers.values()]),
        *(row(f"r in {name}", [one["environments"][name] for one in readers.values()]) for name in first["environments"]),
        *(row(f"r among {name} replies", [one["tiers"][name]["r"] for one in readers.values()]) for name in TIERS),
        *(row(f"mean prediction, {name}", [one["tiers"][name]["mean"] for one in readers.values()]) for name in TIERS),
        *(row(f"r of {name}", [one["aspects"][name] for one in readers.values()]) for name in ASPECTS),
        "",
        f"r of the two readers' predictions with each other on the replies in other voices: {results['between_readers']:.2f}; "
        f"r of their mean with the judges: {results['mean_of_both']:.2f}.",
        "",
        "Replies in other voices that `embedded-lm` reads as dangerous or hostile enough for a floor: "
        + ", ".join(f"{share:.1%} of the {tier} ones" for tier, share in results["under_a_floor"].items())
        + ".",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, default=Path("states-lm.npz"), help="file that keeps the states")
    results = measure(parser.parse_args().scratch)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "judged_replies/second_reader", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
