"""Fits the aspects of the combined reader (`reader.model`): ridge on n-grams, counts and a kernel, and a network.

Covers the fits on all replies and on folds, and displaced replies as further examples for the network. Does not cover the other
outputs, the thresholds and the effects (`fitting.embedded`).
"""

from __future__ import annotations

import multiprocessing
import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.fitting.examples import Example
from heartloop.fitting.network import Inputs, fit_network
from heartloop.fitting.ridge import Design, design_of, dual_of, linear_of, predict_folds
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import DEFAULT_LAYOUT, Context, Features, features_of
from heartloop.reader.linear import LinearModel
from heartloop.reader.model import NETWORK_SHARE, SHARPNESS, Landmarks, Network, dense_inputs, kernel_inputs, starting_vectors
from heartloop.reader.word_vectors import Table, Tokens, WordVectors

__all__ = ["ALPHA", "DISPLACED", "LANDMARKS", "Displaced", "Folds", "Prepared", "displaced", "prepared", "together"]

ALPHA = 2.0
LANDMARKS = 500
DISPLACED = 400
"""Displaced replies that a network is fitted on at most."""
_KERNEL_WEIGHT = 3.0
"""Of the kernel beside the n-grams."""
_RIDGE = 1e-4
"""Of the kernel among landmarks."""
_CHANGE_WEIGHT = 3.0
"""Of the change beside an aspect, in the loss of the network."""
_DRAWN = 3 * DISPLACED
"""A fold can use those only whose scenarios it is fitted on."""
_GOOD = 0.8
"""Displaced replies come from replies at least this good, in standard units of the change."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

_Mask = NDArray[np.bool_]
Folds = Sequence[tuple[_Mask, _Mask]]
"""Masks over the examples: what is fitted on, what is predicted."""


class Displaced(NamedTuple):
    """A reply out of place."""

    reply: str
    context: Context
    sources: tuple[int, ...]
    """Rows of the examples that its sentences come from."""
    place: int
    """Row of the example that its context comes from."""
    mixed: bool
    """Put together from sentences of several replies."""


def displaced(examples: Sequence[Example], change: NDArray[np.float64], seed: int = 0) -> list[Displaced]:
    """Good replies in another scenario's dialogue, and sentences of several good replies put together."""
    draw = np.random.default_rng(seed)
    good = [n for n, e in enumerate(examples) if e.tier in ("good", "middling") and change[n] > _GOOD]
    by_environment: dict[str, list[int]] = defaultdict(list)
    for n, example in enumerate(examples):
        by_environment[example.environment].append(n)
    sentences: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for n in good:
        parts = [part for part in _SENTENCE.split(examples[n].reply) if 4 <= len(part.split()) <= 25]
        sentences[examples[n].environment] += [(part, n) for part in parts]
    rows: list[Displaced] = []
    for number in range(_DRAWN if good else 0):
        source = int(draw.choice(good))
        name = examples[source].environment
        place = int(draw.choice(by_environment[name]))
        text, sources, mixed = examples[source].reply, [source], bool(number % 2 and sentences[name])
        if mixed:
            chosen = [sentences[name][k] for k in draw.integers(0, len(sentences[name]), int(draw.integers(2, 5)))]
            text, sources = " ".join(part for part, _ in chosen), [n for _, n in chosen]
        if all(examples[n].scenario != examples[place].scenario for n in sources):
            rows.append(Displaced(text, examples[place].context, tuple(sources), place, mixed))
    return rows


class Prepared(NamedTuple):
    """Everything that fits on any of the examples share."""

    examples: Sequence[Example]
    targets: NDArray[np.float64]
    """The marks of all aspects and the change in standard units, shape (examples, ASPECTS + 1)."""
    words: WordVectors
    tokens: Sequence[Tokens]
    """Of the examples and then of the displaced replies."""
    dense: NDArray[np.float32]
    """Likewise."""
    extra: Sequence[Displaced]
    design: Design
    """Of n-grams and counts."""
    landmarks: Landmarks
    """Without weights."""
    root: NDArray[np.float64]
    """Square root of the inverse of the kernel among landmarks, times that of the kernel's weight."""
    terms: NDArray[np.float64]
    """Of the kernel in ridge, shape (examples, landmarks)."""

    def ridge(self) -> tuple[LinearModel, Landmarks]:
        """Ridge on all examples: its linear part, and its landmarks."""
        design, marks = self.design, self.targets[:, : len(ASPECTS)]
        mean = marks.mean(0)
        dual = dual_of(design.kernel + self.terms @ self.terms.T, marks - mean, ALPHA)
        linear = linear_of(design, dual, mean, ASPECTS, DEFAULT_LAYOUT, {})
        return linear, self.landmarks._replace(weights=(self.root @ (self.terms.T @ dual)).astype(np.float32))

    def network(self, rows: _Mask, seed: int) -> Network:
        """The network fitted on these examples, and on replies displaced among their scenarios.

        Whole replies out of place are taken to be judged like those of kind `elsewhere`, mixtures like those of voice `search`.
        """
        scenarios = {example.scenario for example, chosen in zip(self.examples, rows, strict=True) if chosen}
        here = np.array([example.scenario in scenarios for example in self.examples])
        alike = [
            here & np.array([example.kind == "elsewhere" for example in self.examples]),
            here & np.array([example.voice == "search" for example in self.examples]),
        ]
        usable = [
            n
            for n, row in enumerate(self.extra)
            if rows[list(row.sources)].all() and here[row.place] and alike[int(row.mixed)].any()
        ][:DISPLACED]
        chosen = [*np.flatnonzero(rows).tolist(), *(len(rows) + n for n in usable)]
        inputs = Inputs([self.tokens[n].ids for n in chosen], [self.tokens[n].features for n in chosen], self.dense[chosen])
        means = [self.targets[alike[int(self.extra[n].mixed)]].mean(0) for n in usable]
        weights = np.array([*(1.0 for _ in ASPECTS), _CHANGE_WEIGHT])
        targets = np.vstack([self.targets[rows], *means])
        return fit_network(inputs, targets, weights, starting_vectors(self.words.vectors), self.words.unknown, seed)

    def held_out_ridge(self, folds: Folds) -> NDArray[np.float64]:
        """The targets as predicted by fits of ridge on folds, shape (examples, ASPECTS + 1); nan where no fold tests a row."""
        return predict_folds(self.design.kernel + self.terms @ self.terms.T, self.targets, folds, ALPHA)

    def held_out_networks(self, folds: Folds, seed: int = 0, processes: int = 1) -> NDArray[np.float64]:
        """Likewise by one network for each fold."""
        global _shared  # forked processes see it without a copy
        _shared = self
        predicted = np.full_like(self.targets, np.nan)
        with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
            jobs = [pool.submit(_fold, train, test, seed) for train, test in folds]
            for (_, test), job in zip(folds, jobs, strict=True):
                predicted[test] = job.result()
        return predicted

    def held_out(self, folds: Folds, networks: int, seed: int = 0, processes: int = 1) -> NDArray[np.float64]:
        """Likewise by the two together, or by ridge where there are no networks."""
        ridge = self.held_out_ridge(folds)
        return together(ridge, self.held_out_networks(folds, seed, processes)) if networks else ridge


_shared: Prepared


def _fold(train: _Mask, test: _Mask, seed: int) -> NDArray[np.float64]:
    from threadpoolctl import threadpool_limits  # comes with scikit-learn (extra authoring)

    with threadpool_limits(1):
        start = starting_vectors(_shared.words.vectors)
        network = _shared.network(train, seed).wide()
        vectors = start + network.moves * network.size
        rows = [(_shared.tokens[n], _shared.dense[n]) for n in np.flatnonzero(test).tolist()]
        predicted = [network.apply(vectors[tokens.ids], tokens.features, dense) for tokens, dense in rows]
        return np.array(predicted, np.float64).reshape(-1, _shared.targets.shape[1])


def together(ridge: NDArray[np.float64], networks: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the combined model makes of the predictions of its parts."""
    return ridge + NETWORK_SHARE * (networks - ridge)


def prepared(examples: Sequence[Example], change: NDArray[np.float64], table: Table, seed: int = 0) -> Prepared:
    """The features of examples and of displaced replies.

    Args:
        change: judged change of the examples in standard units, shape (examples,).
    """
    words, extra = WordVectors(table), displaced(examples, change, seed)
    every = [(e.reply, e.context) for e in examples] + [(row.reply, row.context) for row in extra]
    features: list[Features] = [features_of(reply, context) for reply, context in every]
    tokens = [words.read(reply, context) for reply, context in every]
    inputs = np.array([kernel_inputs(f.counts, t, words) for f, t in zip(features, tokens, strict=True)])
    own = inputs[: len(examples)]
    center, spread = own.mean(0), own.std(0) + np.float32(1e-6)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(own))[:LANDMARKS])
    points = (own[chosen] - center) / spread
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float16)
    landmarks = Landmarks(center, spread, points, np.zeros((len(points), len(ASPECTS)), np.float32))
    wide = points.astype(np.float64)
    values, basis = np.linalg.eigh(np.exp(SHARPNESS * (wide @ wide.T - 1.0)))
    root = (basis / np.sqrt(np.maximum(values, 0.0) + _RIDGE)) * np.sqrt(_KERNEL_WEIGHT)
    return Prepared(
        examples,
        np.column_stack([np.array([example.aspects for example in examples]), change]),
        words,
        tokens,
        dense_inputs(inputs, center, spread),
        extra,
        design_of(features[: len(examples)], DEFAULT_LAYOUT),
        landmarks,
        root,
        landmarks.near(own).astype(np.float64) @ root,
    )
