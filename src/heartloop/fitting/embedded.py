"""From judged replies to the weights of the embedded user: `python -m heartloop.fitting.embedded data/judged_replies`.

Aspects are predicted by the mean of ridge and a small network over word vectors; the change by an ensemble of ridge fits. A
linear map with bounded signs from predicted and judged aspects together gives the change of each environment: predictions alone
would reward whoever is merely coherent, judged marks alone do not know how far the reader can be trusted. It is stretched until
held-out predictions have the spread of the judged changes (at most `STRETCH` times). Floors have the thresholds that one in
1,000 good replies passes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from heartloop.environments.reading import LearnedReading
from heartloop.environments.registry import specs
from heartloop.fitting.data import JudgedReply, read_examples, read_lines, read_table, standardised
from heartloop.fitting.fits import ALPHA, Floats, Mask, RidgeDesign, correlation, fit, predict_folds, prepared, together
from heartloop.reader.aspects import ASPECTS, HARMFUL_ASPECTS, STRATEGIES
from heartloop.reader.features import features_of
from heartloop.reader.model import CombinedModel, LinearModel
from heartloop.reader.reader import EMBEDDED_WEIGHTS, MEMBERS, REPEATED, Output, again_of
from heartloop.reader.word_vectors import WordTable

STRETCH = 1.8
FALSE_ALARMS = 0.001
SCENARIO_FOLDS = 4
NETWORKS = 1
PROCESSES = 2
TRAINED = ("trained", "trained_second")
"""Voices of policies that were trained against the readers; the weights are fitted on the first."""
TIMES = 5
"""How often a reply of a trained policy counts: such replies are few in the data, and are what a reward reads most of."""
UNFITTED_VOICES = ("grandparent", "colleague", TRAINED[1])
_SHARED, _OWN = 2.0, 40.0  # ridge of the weights that all kinds of people share, and of how one kind differs


def folds(examples: Sequence[JudgedReply], share: float = 1.0) -> Iterator[tuple[Mask, Mask]]:
    """Masks of what is fitted on and what is predicted: neither the voice nor the scenario of what is predicted was fitted on.

    Written replies are predicted by fits without the replies that reuse their sentences: in another dialogue such a sentence is
    judged otherwise, and a fit that has seen it there has seen what it is tested on.
    """
    draw = np.random.default_rng(0)
    scenarios, scenario = np.unique([example.scenario for example in examples], return_inverse=True)
    fold = draw.integers(0, SCENARIO_FOLDS, len(scenarios))[scenario]
    kept = np.isin(scenarios, draw.permutation(scenarios)[: round(share * len(scenarios))])[scenario]
    voice = np.array([example.voice for example in examples])
    written = np.array([example.tier != "none" for example in examples])
    reused = np.array([example.voice == "search" or example.kind in ("elsewhere", "shuffled") for example in examples])
    for number in range(SCENARIO_FOLDS):
        for name in sorted(set(voice[written])):
            yield kept & ~reused & (voice != name) & (fold != number), (voice == name) & (fold == number)
        yield kept & (fold != number), ~written & (fold == number)


def change_of(example: JudgedReply, outputs: Sequence[Output]) -> float:
    """A judged change as one number in [-1, 1]: the mean of its parts, each as a share of the distance from what does nothing."""
    parts = [
        output.better * (value - output.neutral) / max(output.high - output.neutral, output.neutral - output.low)
        for output, value in zip(outputs, example.change, strict=True)
    ]
    return float(np.mean(parts))


def without_words(examples: Sequence[JudgedReply]) -> list[JudgedReply]:
    return [example for example in examples if not any(c.isalnum() for c in example.reply)]


def readings() -> dict[str, LearnedReading]:
    """Of all environments that use the learned reader, by name."""
    return {spec.name: spec.reading for spec in specs() if spec.reading is not None}


def fit_reader(
    examples: Sequence[JudgedReply],
    labels: Mapping[str, Sequence[str]],
    table: WordTable,
    networks: int = NETWORKS,
    processes: int = 1,
    seed: int = 0,
) -> tuple[CombinedModel, Floats]:
    """The shipped reader, from replies and the strategies of some by id, and aspects of replies that a fit had not seen.

    These have shape (examples, aspects); they are predicted with one network.
    """
    outputs = {name: reading.outputs for name, reading in readings().items()}
    change = standardised(examples, lambda example: change_of(example, outputs[example.environment]))
    shared = prepared(examples, change, table, seed)
    pairs = list(folds(examples))
    predicted = shared.held_out_ridge(pairs)
    if networks:
        predicted = together(predicted, shared.held_out_networks(pairs, seed, processes))
    held_out = np.clip(predicted[:, : len(ASPECTS)], 0.0, 4.0)
    aspects, landmarks = shared.ridge()
    members = _members(examples, shared.design, change)
    strategies, thresholds = _strategies(examples, shared.design, labels)
    good = np.array([example.tier == "good" for example in examples])
    silence = np.mean([example.aspects for example in without_words(examples)], axis=0)
    card = {
        "examples": len({example.id for example in examples}),
        "silence": [round(float(x), 2) for x in silence],
        "floors": {
            name: round(float(np.quantile(held_out[good, ASPECTS.index(name)], 1.0 - FALSE_ALARMS)), 3)
            for name in ("danger", "hostility")
        },
        "strategies": thresholds,
        "seed": seed,
    }
    parts = (aspects, *members, strategies)
    linear = aspects._replace(
        outputs=tuple(name for part in parts for name in part.outputs),
        ngrams=np.concatenate([part.ngrams for part in parts], 1),
        counts=np.concatenate([part.counts for part in parts], 1),
        offset=np.concatenate([part.offset for part in parts]),
        card=card,
    )
    every = np.ones(len(examples), bool)
    fitted = [shared.network(every, seed + number) for number in range(networks)]
    return CombinedModel(linear.rounded(), table, landmarks, fitted), held_out


def _members(examples: Sequence[JudgedReply], design: RidgeDesign, change: Floats) -> list[LinearModel]:
    """The members of the ensemble, each fitted on all but a quarter of the scenarios."""
    scenarios, scenario = np.unique([example.scenario for example in examples], return_inverse=True)
    left_out = np.random.default_rng(1).integers(0, MEMBERS, len(scenarios))[scenario]
    return [fit(design, change[:, None], (f"change-{n}",), ALPHA, rows=left_out != n) for n in range(MEMBERS)]


def _strategies(
    examples: Sequence[JudgedReply], design: RidgeDesign, labels: Mapping[str, Sequence[str]]
) -> tuple[LinearModel, dict[str, float]]:
    """A fit of each strategy on the labelled replies; a strategy's threshold is where it is named as often as it was labelled."""
    rows = np.array([example.id in labels for example in examples])
    used = np.array([[float(name in labels.get(example.id, ())) for name in STRATEGIES] for example in examples])
    model = fit(design, used, tuple(STRATEGIES), ALPHA, rows=rows)
    predicted = predict_folds(design.kernel, used, ((train & rows, test & rows) for train, test in folds(examples)), ALPHA)[rows]
    share = used[rows].mean(0)
    cuts = {name: float(np.nanquantile(predicted[:, n], 1.0 - share[n])) for n, name in enumerate(STRATEGIES)}
    return model, {name: round(cut, 3) for name, cut in cuts.items()}


def fit_effect(examples: Sequence[JudgedReply], held_out: Floats, reading: LearnedReading) -> dict[str, Any]:
    """The weights of one environment, in the form of `effect.json`, from its examples and their aspects as predicted by fits that
    have not seen them, shape (examples, aspects). What is reported counts each example once.
    """
    kinds = [example.group for example in examples]
    judged = np.array([example.change for example in examples], np.float64)
    quiet = [example.change for example in without_words(examples)]
    repeats = [
        example.change
        for example in examples
        if example.context.replies and again_of(features_of(example.reply, example.context)) >= REPEATED
    ]
    again = repeats or quiet  # without examples, repetition counts as silence
    groups = sorted(set(kinds))
    typical = held_out.mean(0)
    tables: dict[str, Any] = {group: {"weights": {}, "offset": {}} for group in groups}
    agreement: dict[str, Any] = {}
    once = np.sort(np.unique([example.id for example in examples], return_index=True)[1])
    rows = [groups.index(kind) for kind in kinds]
    marks = np.vstack([held_out, [example.aspects for example in examples]]) - typical
    for n, output in enumerate(reading.outputs):
        weights, offsets = _one_output(marks, np.tile(judged[:, n], 2), [*kinds, *kinds], groups, output)
        predicted = np.array([offsets[row] + weights[row] @ own for row, own in zip(rows, marks[: len(rows)], strict=True)])
        predicted, true = predicted[once], judged[once, n]
        stretch = min(STRETCH, float(true.std() / (predicted.std() or 1.0)))
        agreement[output.name] = {"r": correlation(predicted, true), "stretch": round(stretch, 2)}
        mean = float(judged[:, n].mean())
        for group, own, offset in zip(groups, weights * stretch, mean + (offsets - mean) * stretch, strict=True):
            tables[group]["weights"][output.name] = dict(zip(ASPECTS, np.round(own, 4).tolist(), strict=True))
            tables[group]["offset"][output.name] = round(float(offset - own @ typical), 4)
    return {
        "outputs": [output._asdict() for output in reading.outputs],
        "typical": dict(zip(ASPECTS, np.round(typical, 3).tolist(), strict=True)),
        "deviation": dict(zip((o.name for o in reading.outputs), np.round(judged[once].std(0), 3).tolist(), strict=True)),
        "silence": dict(zip((o.name for o in reading.outputs), np.round(np.array(quiet).mean(0), 2).tolist(), strict=True)),
        "repetition": dict(zip((o.name for o in reading.outputs), np.round(np.array(again).mean(0), 2).tolist(), strict=True)),
        "agreement": agreement,
        "examples": len(once),
        "groups": tables,
    }


def _one_output(
    marks: Floats, judged: Floats, kinds: Sequence[str], groups: Sequence[str], output: Output
) -> tuple[Floats, Floats]:
    """Weights, shape (groups, aspects), and offsets, shape (groups,), of centred marks.

    Hostility and danger never better anything, the other harmful aspects and the good ones never act against their sign for all
    kinds together; a single kind may like advice.
    """
    signs = np.array([-1.0 if name in HARMFUL_ASPECTS else 1.0 for name in ASPECTS]) * output.better
    mean = float(judged.mean())
    count = len(ASPECTS)
    stacked = np.vstack([marks * signs, np.sqrt(_SHARED) * np.eye(count)])
    shared = signs * lsq_linear(stacked, np.concatenate([judged - mean, np.zeros(count)]), bounds=(0.0, np.inf)).x
    weights = np.tile(shared, (len(groups), 1))
    offsets = np.full(len(groups), mean)
    rest = judged - mean - marks @ shared
    for n, group in enumerate(groups):
        mine = np.array([kind == group for kind in kinds])
        design = np.hstack([marks[mine], np.ones((int(mine.sum()), 1))])
        own = np.linalg.solve(design.T @ design + _OWN * np.eye(count + 1), design.T @ rest[mine])
        weights[n] += own[:count]
        offsets[n] += own[count]
        for name in ("hostility", "danger"):
            place = ASPECTS.index(name)
            weights[n, place] = signs[place] * max(0.0, signs[place] * weights[n, place])
    return weights, offsets


def labels_in(folder: Path) -> dict[str, Sequence[str]]:
    """The labelled strategies by the id of the reply; the first labeller's where there are two."""
    return {row["id"]: row["strategies"] for row in reversed(read_lines(folder / "strategies.jsonl"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="judged replies, in the form of data/judged_replies")
    parser.add_argument("--networks", type=int, default=NETWORKS, help="networks that are averaged; 0 fits ridge only")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="processes that fit networks")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    examples = [example for example in read_examples(folder, "tuning") if example.voice not in UNFITTED_VOICES]
    examples += (TIMES - 1) * [example for example in examples if example.voice in TRAINED]
    vectors = read_table(folder / "word_vectors.npz")
    model, held_out = fit_reader(examples, labels_in(folder), vectors, chosen.networks, chosen.processes, chosen.seed)
    EMBEDDED_WEIGHTS.parent.mkdir(exist_ok=True)
    EMBEDDED_WEIGHTS.write_bytes(model.to_bytes())
    print(EMBEDDED_WEIGHTS.name, model.hash, len(EMBEDDED_WEIGHTS.read_bytes()), "bytes", model.linear.card["floors"])
    for name, reading in readings().items():
        mine = np.array([example.environment == name for example in examples])
        table = fit_effect([e for e, m in zip(examples, mine, strict=True) if m], held_out[mine], reading)
        path = Path(str(resources.files(reading.package) / "effect.json"))
        path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        print(name, table["examples"], table["agreement"])


if __name__ == "__main__":
    main()
