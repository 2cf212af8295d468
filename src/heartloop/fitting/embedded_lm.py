"""From judged replies to the weights of `embedded-lm`: `python -m heartloop.fitting.embedded_lm data/judged_replies`.

Covers the second reader (`appraisal/weights/embedded-lm.npz`) and its effect in each environment (`effect-lm.json` in its
folder). It is fitted on replies of the tuning half in the voices of `SECOND_READER`, unknown to the n-gram reader. The
marks and changes of a reply without words, which has no voice, and of one that repeats are those of the whole tuning half.
Otherwise as `fitting.embedded`. Needs the extra `local`. The states of the replies are kept in a scratch file, so that an
interrupted computation goes on where it stopped.

Support strategies are not predicted: no reply in these voices is labelled. There are too few good replies to count one false
alarm in 1,000, so the thresholds of the floors continue the highest tenth of their marks by an exponential distribution.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.effect import effect_file
from heartloop.appraisal.lm_reader import LM_WEIGHTS, KernelModel, kernel, rounded
from heartloop.appraisal.names import EMBEDDED_LM
from heartloop.appraisal.reader import MEMBERS
from heartloop.appraisal.states import CUT_SHA256, WIDTH, local_model
from heartloop.fitting.embedded import (
    FALSE_ALARMS,
    SECOND_READER,
    change_of,
    emphasised,
    fit_effect,
    folds,
    members_of,
    readings,
    repeating,
    without_words,
)
from heartloop.fitting.examples import Example, read_examples, standardised
from heartloop.fitting.ridge import dual_of, predict_folds

__all__ = ["ALPHA", "COMPONENTS", "FittedLm", "components_of", "fit_lm", "main", "states_of", "tail_of"]

ALPHA = 0.2
COMPONENTS = 128
"""Principal components of the states that the kernel sees."""


def states_of(examples: Sequence[Example], scratch: Path) -> NDArray[np.float64]:
    """The states of replies, shape (examples, width).

    Args:
        scratch: file in which they are kept.
    """
    known: dict[str, NDArray[Any]] = {}
    if scratch.exists():
        with np.load(scratch) as arrays:
            if str(arrays["model"]) == CUT_SHA256:
                known = dict(zip(map(str, arrays["ids"]), arrays["states"], strict=True))
    rest = [example for example in examples if example.id not in known]
    for number, example in enumerate(sorted(rest, key=lambda one: (one.scenario, one.context)), 1):
        known[example.id] = local_model().state(example.reply, example.context)
        if number % 50 == 0 or number == len(rest):
            np.savez(scratch, model=CUT_SHA256, ids=np.array(list(known)), states=np.array(list(known.values())))
            print(f"{number} of {len(rest)} states", flush=True)
    return np.array([known[example.id] for example in examples], np.float64).reshape(-1, WIDTH)


class FittedLm(NamedTuple):
    """A reader with what it predicted of replies that it had not seen."""

    model: KernelModel
    held_out: NDArray[np.float64]
    """Aspects and the change, shape (examples, aspects + 1)."""


def components_of(states: NDArray[np.float64], count: int = COMPONENTS) -> KernelModel:
    """A model that standardises and projects, and predicts nothing yet."""
    center, spread = states.mean(0), np.maximum(states.std(0), 1e-6)
    _, _, rows = np.linalg.svd((states - center) / spread, full_matrices=False)
    rows = rows[:count]
    signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])  # a component has no sign of its own
    empty = np.zeros((0, len(rows)), np.int8)
    nothing = np.zeros((0, 0), np.float32)
    return KernelModel(
        (), center.astype(np.float32), spread.astype(np.float32), (rows * signs[:, None]).T.astype(np.float16), empty, nothing,
        np.zeros(0, np.float32), {},
    )  # fmt: skip


def fit_lm(
    examples: Sequence[Example], states: NDArray[np.float64], silence: Sequence[float], *, components: int = COMPONENTS,
    alpha: float = ALPHA,
) -> FittedLm:  # fmt: skip
    """The reader on states.

    Args:
        states: of the examples, shape (examples, width).
        silence: mark of each aspect for a reply without words.
    """
    outputs = {name: reading.outputs for name, reading in readings().items()}
    change = standardised(examples, lambda example: change_of(example, outputs[example.environment]))
    targets = np.column_stack([np.array([example.aspects for example in examples]), change])
    blank = components_of(states, components)
    support = rounded(blank.projected(states))
    similar = kernel(support, support)
    held_out = predict_folds(similar, targets, folds(examples), alpha)
    held_out[:, : len(ASPECTS)] = np.clip(held_out[:, : len(ASPECTS)], 0.0, 4.0)
    everything = np.ones(len(examples), bool)
    fits = [(targets[:, : len(ASPECTS)], everything), *((change[:, None], kept) for kept in members_of(examples))]
    dual, offset = np.zeros((len(examples), len(ASPECTS) + MEMBERS)), np.zeros(len(ASPECTS) + MEMBERS)
    place = 0
    for values, kept in fits:
        columns = slice(place, place + values.shape[1])
        offset[columns] = values[kept].mean(0)
        dual[kept, columns] = dual_of(similar[np.ix_(kept, kept)], values[kept] - offset[columns], alpha)
        place = columns.stop
    good = np.array([example.tier == "good" for example in examples])
    model = blank._replace(
        outputs=(*ASPECTS, *(f"change-{n}" for n in range(MEMBERS))),
        support=support,
        dual=dual.astype(np.float32),
        offset=offset.astype(np.float32),
        card={
            "examples": len(examples),
            "silence": list(silence),
            "floors": {name: tail_of(held_out[good, ASPECTS.index(name)]) for name in ("danger", "hostility")},
            "strategies": {},
        },
    )
    return FittedLm(model, held_out)


def tail_of(marks: NDArray[np.float64]) -> float:
    """The mark that `FALSE_ALARMS` of these replies would pass: their highest tenth, continued; 4 where none is higher."""
    start = float(np.quantile(marks, 0.9))
    if not np.any(marks > start):
        return 4.0
    excess = float(np.mean(marks[marks > start] - start))
    return round(start + excess * float(np.log(0.1 / FALSE_ALARMS)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="judged replies, in the form of data/judged_replies")
    parser.add_argument("--scratch", type=Path, default=Path("states-lm.npz"), help="file that keeps the states")
    chosen = parser.parse_args()
    tuning = read_examples(chosen.folder, "tuning")
    silent, again = without_words(tuning), repeating(tuning)
    examples = emphasised([example for example in tuning if example.voice in SECOND_READER])
    silence = np.mean([example.aspects for example in silent], axis=0).round(2).tolist()
    fitted = fit_lm(examples, states_of(examples, chosen.scratch), silence)
    LM_WEIGHTS.write_bytes(fitted.model.to_bytes())
    print(LM_WEIGHTS.name, fitted.model.hash, len(LM_WEIGHTS.read_bytes()), "bytes", fitted.model.card["floors"])
    for name, reading in readings().items():
        mine = np.array([example.environment == name for example in examples])
        own = [example for example in examples if example.environment == name]
        quiet = [example for example in silent if example.environment == name]
        said_again = [example for example in again if example.environment == name]
        groups = sorted({example.group for example in tuning if example.environment == name})
        marks = fitted.held_out[mine, : len(ASPECTS)]
        table = fit_effect(own, marks, reading, silent=quiet, repeated=said_again, groups=groups)
        path = Path(str(resources.files(reading.package) / effect_file(EMBEDDED_LM)))
        path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        print(name, table["examples"], table["agreement"])


if __name__ == "__main__":
    main()
