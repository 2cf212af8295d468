"""Ridge regression on n-grams, counts and a kernel, and a network over word vectors; the two together fit `reader.model`.

Ridge is in its dual form, `w = X' (X X' + alpha I)^-1 (y - mean)`: exact, and quick if there are fewer rows than n-grams. The
network is fitted with numpy by AdamW; the same seed gives the same weights on the same machine and number of threads.
"""

from __future__ import annotations

import multiprocessing
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from heartloop.fitting.data import JudgedReply
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import DEFAULT_LAYOUT, Context, FeatureLayout, ReplyFeatures, features_of
from heartloop.reader.model import (
    DENSE_SCALE,
    NETWORK_SHARE,
    SHARPNESS,
    Landmarks,
    LinearModel,
    Network,
    dense_inputs,
    gelu,
    kernel_inputs,
    neighbours,
    one_thread,
    starting_vectors,
)
from heartloop.reader.word_vectors import Tokens, WordTable, WordVectors

COUNTS_WEIGHT = 0.1
"""Scale of a standardised count beside the n-grams."""


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Folds = Iterable[tuple[Mask, Mask]]
"""Masks of the rows that are fitted on and of those that are predicted."""


class RidgeDesign(NamedTuple):
    layout: FeatureLayout
    ngrams: Any
    """Sparse matrix, shape (rows, buckets)."""
    counts: Floats
    """Standardised, shape (rows, counts)."""
    center: Floats
    spread: Floats
    kernel: Floats


def design_of(features: Sequence[ReplyFeatures], layout: FeatureLayout) -> RidgeDesign:
    lengths = np.cumsum([0, *(len(row.buckets) for row in features)])
    values, buckets = np.concatenate([row.values for row in features]), np.concatenate([row.buckets for row in features])
    ngrams = csr_matrix((values.astype(np.float64), buckets, lengths), shape=(len(features), layout.buckets))
    raw = np.array([row.counts for row in features], np.float64)
    center, spread = raw.mean(0), raw.std(0)
    spread[spread < 1e-6] = 1.0
    counts = (raw - center) / spread
    kernel = np.asarray((ngrams @ ngrams.T).todense()) + COUNTS_WEIGHT**2 * counts @ counts.T
    return RidgeDesign(layout, ngrams, counts, center, spread, kernel)


def dual_of(kernel: Floats, targets: Floats, alpha: float) -> Floats:
    """`(kernel + alpha I)^-1 targets`, shape (rows, outputs)."""
    factor = cho_factor(kernel + alpha * np.eye(len(kernel)), lower=True, overwrite_a=True, check_finite=False)
    solved: Floats = cho_solve(factor, targets, check_finite=False)
    return solved


def predict_folds(kernel: Floats, targets: Floats, folds: Folds, alpha: float) -> Floats:
    """Predictions of the targets, shape (rows, outputs), each by a fit that has not seen the row; nan if no fold tests a row."""
    predicted = np.full_like(targets, np.nan)
    for train, test in folds:
        mean = targets[train].mean(0)
        dual = dual_of(kernel[np.ix_(train, train)], targets[train] - mean, alpha)
        predicted[test] = mean + kernel[np.ix_(test, train)] @ dual
    return predicted


def fit(design: RidgeDesign, targets: Floats, names: Sequence[str], alpha: float, rows: Mask | None = None) -> LinearModel:
    """The fitted model of targets, shape (rows, outputs), by default on all rows; its card is empty."""
    chosen = np.ones(len(targets), bool) if rows is None else rows
    mean = targets[chosen].mean(0)
    dual = np.zeros_like(targets)
    dual[chosen] = dual_of(design.kernel[np.ix_(chosen, chosen)], targets[chosen] - mean, alpha)
    return linear_of(design, dual, mean, names)


def linear_of(design: RidgeDesign, dual: Floats, mean: Floats, names: Sequence[str]) -> LinearModel:
    """The linear model of a dual solution, shape (rows, outputs), of targets less their mean, shape (outputs,)."""
    return LinearModel(
        design.layout,
        tuple(names),
        (design.ngrams.T @ dual).astype(np.float16),
        (COUNTS_WEIGHT**2 * design.counts.T @ dual).astype(np.float32),
        design.center.astype(np.float32),
        design.spread.astype(np.float32),
        mean.astype(np.float32),
        {},
    )


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's r, rounded; 0 if one of the two is constant."""
    return round(float(np.corrcoef(first, second)[0, 1]), 3) if first.std() > 0 and second.std() > 0 else 0.0


EPOCHS = 10
_CHANNELS, _HIDDEN = 96, 64
_BATCH, _RATE, _DECAY = 48, 2e-3, 1e-2
_WARM = 0.15  # share of the steps in which the rate rises
_DROPOUT, _UNKNOWN = 0.2, 0.08  # shares of inputs and of whole words left out in training
_SCATTER = 0.25  # standard deviation of the first vectors of unknown words and punctuation
_GAP = 2  # empty tokens between the replies of a batch, so that no convolution sees another reply

_Array = NDArray[np.float32]


def fit_network(
    tokens: Sequence[Tokens], dense: _Array, targets: Floats, weights: Floats, vectors: _Array, unknown: int, seed: int
) -> Network:
    """The network fitted on targets, shape (replies, outputs), whose outputs have these weights in the loss.

    Args:
        dense: standardised counts, shape (replies, counts).
        vectors: where the vectors of all ids start, shape (ids, width).
        unknown: id that words are replaced by at times; from it on, ids have no vector to start from.
    """
    draw = np.random.default_rng(seed)
    center, spread = targets.mean(0), targets.std(0) + 1e-9
    goals = ((targets - center) / spread).astype(np.float32)
    importance = (weights / weights.size).astype(np.float32)
    used = np.unique(np.concatenate([*(reply.ids for reply in tokens), [unknown]]))
    place = np.zeros(len(vectors), np.int64)
    place[used] = np.arange(len(used))
    ids, features = [place[reply.ids] for reply in tokens], [reply.features for reply in tokens]
    layers = _initial(vectors[used], features[0].shape[1], dense.shape[1], targets.shape[1], draw)
    optimiser = _Adam(layers)
    lengths = np.array([len(row) for row in ids])
    steps = EPOCHS * -(-len(ids) // _BATCH)
    for epoch in range(EPOCHS):
        order = np.argsort(lengths + draw.uniform(0, 6, len(ids)), kind="stable")
        batches = [order[n : n + _BATCH] for n in range(0, len(ids), _BATCH)]
        for number, chosen in enumerate(draw.permutation(len(batches))):
            rows = batches[chosen]
            batch = _packed([ids[n] for n in rows], [features[n] for n in rows], dense[rows])
            gradient = _gradient(layers, batch, goals[rows], importance, int(place[unknown]), draw)
            optimiser.step(layers, gradient, _rate((epoch * len(batches) + number) / steps))
    output = layers[5] * spread.astype(np.float32)
    output[-1] += center.astype(np.float32)
    moves = np.zeros(vectors.shape, np.float32)
    moves[used] = layers[0] - vectors[used]
    size = np.float32(np.abs(moves).max() / 127.0)
    rounded = np.round(moves / size).astype(np.int8)
    return Network(rounded, np.array(size), *(layer.astype(np.float16) for layer in (*layers[1:5], output)))


def _initial(vectors: _Array, features: int, counts: int, outputs: int, draw: np.random.Generator) -> list[_Array]:
    shapes = [
        (vectors.shape[1] + features, _CHANNELS), (3 * _CHANNELS, _CHANNELS), (3 * _CHANNELS, _CHANNELS),
        (2 * _CHANNELS + counts, _HIDDEN), (_HIDDEN, outputs),
    ]  # fmt: skip
    layers = [draw.uniform(-1, 1, (rows + 1, columns)) / np.sqrt(rows) for rows, columns in shapes]
    words = np.where(np.any(vectors, 1, keepdims=True), vectors, draw.normal(0.0, _SCATTER, vectors.shape).astype(np.float32))
    return [words, *(layer.astype(np.float32) for layer in layers)]


class _Batch(NamedTuple):
    ids: NDArray[np.int64]
    features: _Array
    real: Mask
    """False in gaps."""
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    dense: _Array


def _packed(ids: Sequence[NDArray[np.int64]], features: Sequence[_Array], dense: _Array) -> _Batch:
    lengths = np.array([len(row) for row in ids])
    starts = np.cumsum(lengths + _GAP) - lengths - _GAP
    real = np.zeros(int((lengths + _GAP).sum()), bool)
    every = np.concatenate([np.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)])
    real[every] = True
    all_ids, all_features = np.zeros(len(real), np.int64), np.zeros((len(real), features[0].shape[1]), np.float32)
    all_ids[every], all_features[every] = np.concatenate(ids), np.concatenate(features)
    return _Batch(all_ids, all_features, real, starts, lengths, dense)


def _gradient(
    layers: Sequence[_Array], batch: _Batch, goals: _Array, importance: _Array, unknown: int, draw: np.random.Generator
) -> list[_Array]:
    """Of the mean squared error, weighted by importance, with a random part of the inputs left out."""
    words, entry, first, second, hidden, output = layers
    mask = batch.real[:, None].astype(np.float32)
    ids = np.where(draw.random(len(batch.ids), np.float32) < _UNKNOWN, unknown, batch.ids)
    kept = _dropout((len(ids), entry.shape[0] - 1), draw) * mask
    seen_0 = np.hstack([words[ids], batch.features]) * kept
    into_0 = seen_0 @ entry[:-1] + entry[-1]
    tokens_0 = gelu(into_0) * mask
    seen_1 = neighbours(tokens_0, 1)
    into_1 = seen_1 @ first[:-1] + first[-1]
    tokens_1 = (tokens_0 + gelu(into_1)) * mask
    seen_2 = neighbours(tokens_1, 2)
    into_2 = seen_2 @ second[:-1] + second[-1]
    tokens_2 = (tokens_1 + gelu(into_2)) * mask
    masked = np.where(batch.real[:, None], tokens_2, np.float32(-1e9))
    highest = np.maximum.reduceat(masked, batch.starts)
    length = batch.lengths[:, None].astype(np.float32)
    pooled = np.hstack([np.add.reduceat(tokens_2, batch.starts) / length, highest, batch.dense * np.float32(DENSE_SCALE)])
    kept_pooled, kept_hidden = _dropout(pooled.shape, draw), _dropout((len(pooled), hidden.shape[1]), draw)
    pooled *= kept_pooled
    into_h = pooled @ hidden[:-1] + hidden[-1]
    inner = gelu(into_h) * kept_hidden
    error = (inner @ output[:-1] + output[-1] - goals) * importance * np.float32(2.0 / len(goals))

    into = (error @ output[:-1].T) * kept_hidden * _slope(into_h)
    back = (into @ hidden[:-1].T) * kept_pooled
    channels = tokens_2.shape[1]
    reply = np.repeat(np.arange(len(goals)), batch.lengths + _GAP)
    back_2 = ((back[:, :channels] / length)[reply] + (masked == highest[reply]) * back[:, channels : 2 * channels][reply]) * mask
    inner_2 = back_2 * _slope(into_2)
    back_1 = (back_2 + _gathered(inner_2 @ second[:-1].T, 2)) * mask
    inner_1 = back_1 * _slope(into_1)
    back_0 = (back_1 + _gathered(inner_1 @ first[:-1].T, 1)) * mask * _slope(into_0)
    back_words = ((back_0 @ entry[:-1].T) * kept)[:, : words.shape[1]]
    order = np.argsort(ids, kind="stable")
    distinct, begin = np.unique(ids[order], return_index=True)
    of_words = np.zeros_like(words)
    of_words[distinct] = np.add.reduceat(back_words[order], begin)
    pairs = ((seen_0, back_0), (seen_1, inner_1), (seen_2, inner_2), (pooled, into), (inner, error))
    return [of_words, *(np.vstack([seen.T @ back, back.sum(0)]) for seen, back in pairs)]


def _dropout(shape: tuple[int, ...], draw: np.random.Generator) -> _Array:
    return (draw.random(shape, np.float32) >= _DROPOUT) * np.float32(1.0 / (1.0 - _DROPOUT))


def _slope(x: _Array) -> _Array:
    """Derivative of `gelu`."""
    gate = np.tanh(np.float32(0.7978845608) * x * (np.float32(1.0) + np.float32(0.044715) * x * x))
    inner = np.float32(0.7978845608) * (np.float32(1.0) + np.float32(3 * 0.044715) * x * x)
    slope: _Array = np.float32(0.5) * (np.float32(1.0) + gate + x * (np.float32(1.0) - gate * gate) * inner)
    return slope


def _gathered(back: _Array, step: int) -> _Array:
    """Gradient of the tokens from that of `neighbours`."""
    channels = back.shape[1] // 3
    tokens = back[:, channels : 2 * channels].copy()
    tokens[:-step] += back[step:, :channels]
    tokens[step:] += back[:-step, 2 * channels :]
    return tokens


def _rate(done: float) -> float:
    """One cycle (Smith and Topin 2018): cosines from 1/25 of the highest rate up to it, and down to nearly nought."""
    low, share = (1 / 25, (_WARM - done) / _WARM) if done < _WARM else (1e-6, (done - _WARM) / (1 - _WARM))
    return _RATE * (low + (1 - low) * 0.5 * (1 + float(np.cos(np.pi * share))))


class _Adam:
    """AdamW (Loshchilov and Hutter 2019)."""

    def __init__(self, layers: Sequence[_Array]) -> None:
        self._mean, self._square = ([np.zeros_like(layer) for layer in layers] for _ in range(2))
        self._steps = 0

    def step(self, layers: Sequence[_Array], gradients: Sequence[_Array], rate: float) -> None:
        self._steps += 1
        first, second = (np.float32(1 - beta**self._steps) for beta in (0.9, 0.999))
        for number, (layer, gradient, mean, square) in enumerate(zip(layers, gradients, self._mean, self._square, strict=True)):
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient * gradient - square)
            if number:  # word vectors keep their start
                layer *= np.float32(1 - rate * _DECAY)
            layer -= np.float32(rate) * (mean / first) / (np.sqrt(square / second) + np.float32(1e-8))


ALPHA = 2.0
LANDMARKS = 500
DISPLACED = 400
"""Displaced replies that a network is fitted on at most."""
_KERNEL_WEIGHT = 3.0  # of the kernel beside the n-grams
_RIDGE = 1e-4  # of the kernel among landmarks
_CHANGE_WEIGHT = 3.0  # of the change beside an aspect, in the loss of the network
_DRAWN = 3 * DISPLACED  # a fold can use those only whose scenarios it is fitted on
_GOOD = 0.8  # displaced replies come from replies at least this good, in standard units of the change
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Displaced(NamedTuple):
    reply: str
    context: Context
    sources: tuple[int, ...]
    """Rows of the examples that its sentences come from."""
    place: int
    """Row of the example that its context comes from."""
    mixed: bool
    """Put together from sentences of several replies."""


def displaced(examples: Sequence[JudgedReply], change: Floats, seed: int = 0) -> list[Displaced]:
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
    """Everything that fits on any of the examples share; tokens and dense inputs of the examples and then of the displaced."""

    examples: Sequence[JudgedReply]
    targets: Floats
    """The marks of all aspects and the change in standard units, shape (examples, ASPECTS + 1)."""
    words: WordVectors
    tokens: Sequence[Tokens]
    dense: _Array
    extra: Sequence[Displaced]
    design: RidgeDesign
    landmarks: Landmarks
    """Without weights."""
    root: Floats
    """Square root of the inverse of the kernel among landmarks, times that of the kernel's weight."""
    terms: Floats
    """Of the kernel in ridge, shape (examples, landmarks)."""

    def ridge(self) -> tuple[LinearModel, Landmarks]:
        """Ridge on all examples: its linear part, and its landmarks."""
        design, marks = self.design, self.targets[:, : len(ASPECTS)]
        mean = marks.mean(0)
        dual = dual_of(design.kernel + self.terms @ self.terms.T, marks - mean, ALPHA)
        linear = linear_of(design, dual, mean, ASPECTS)
        return linear, self.landmarks._replace(weights=(self.root @ (self.terms.T @ dual)).astype(np.float32))

    def network(self, rows: Mask, seed: int) -> Network:
        """The network fitted on these examples, and on replies displaced among their scenarios.

        Whole replies out of place are taken to be judged like those of kind `elsewhere`, mixtures like those of voice `search`.
        """
        scenarios = {example.scenario for example, chosen in zip(self.examples, rows, strict=True) if chosen}
        here = np.array([example.scenario in scenarios for example in self.examples])
        whole = here & np.array([example.kind == "elsewhere" for example in self.examples])
        mixture = here & np.array([example.voice == "search" for example in self.examples])
        alike = [mixture if row.mixed else whole for row in self.extra]
        fits = [rows[list(row.sources)].all() and here[row.place] for row in self.extra]
        usable = [n for n, like in enumerate(alike) if fits[n] and like.any()][:DISPLACED]
        chosen = [*np.flatnonzero(rows).tolist(), *(len(rows) + n for n in usable)]
        means = [self.targets[alike[n]].mean(0) for n in usable]
        weights = np.array([*(1.0 for _ in ASPECTS), _CHANGE_WEIGHT])
        targets = np.vstack([self.targets[rows], *means])
        tokens, start = [self.tokens[n] for n in chosen], starting_vectors(self.words.vectors)
        return fit_network(tokens, self.dense[chosen], targets, weights, start, self.words.unknown, seed)

    def held_out_ridge(self, folds: Folds) -> Floats:
        """The targets as predicted by fits of ridge on folds, shape (examples, ASPECTS + 1); nan where no fold tests a row."""
        return predict_folds(self.design.kernel + self.terms @ self.terms.T, self.targets, folds, ALPHA)

    def held_out_networks(self, folds: Folds, seed: int = 0, processes: int = 1) -> Floats:
        """The same by one network for each fold."""
        global _shared  # forked processes see it without a copy
        _shared = self
        predicted = np.full_like(self.targets, np.nan)
        with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
            for test, job in [(test, pool.submit(_fold, train, test, seed)) for train, test in folds]:
                predicted[test] = job.result()
        return predicted


_shared: Prepared


def _fold(train: Mask, test: Mask, seed: int) -> Floats:
    with one_thread():
        start = starting_vectors(_shared.words.vectors)
        network = _shared.network(train, seed).wide()
        vectors = start + network.moves * network.size
        rows = [(_shared.tokens[n], _shared.dense[n]) for n in np.flatnonzero(test).tolist()]
        predicted = [network.apply(vectors[tokens.ids], tokens.features, dense) for tokens, dense in rows]
        return np.array(predicted, np.float64).reshape(-1, _shared.targets.shape[1])


def together(ridge: Floats, networks: Floats) -> Floats:
    """What the combined model makes of the predictions of its parts."""
    return ridge + NETWORK_SHARE * (networks - ridge)


def prepared(examples: Sequence[JudgedReply], change: Floats, table: WordTable, seed: int = 0) -> Prepared:
    """The features of examples and of displaced replies; `change` is the judged one in standard units, shape (examples,)."""
    words, extra = WordVectors(table), displaced(examples, change, seed)
    every = [(e.reply, e.context) for e in examples] + [(row.reply, row.context) for row in extra]
    features: list[ReplyFeatures] = [features_of(reply, context) for reply, context in every]
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
