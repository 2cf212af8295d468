"""Fits the network over word vectors (`reader.model`) with numpy: forward and backward pass, AdamW, one cycle of rates.

Covers training on given arrays. The same seed gives the same weights on the same machine and number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.reader.model import DENSE_SCALE, Network, gelu, neighbours

__all__ = ["EPOCHS", "Inputs", "fit_network"]

EPOCHS = 10
_CHANNELS, _HIDDEN = 96, 64
_BATCH, _RATE, _DECAY = 48, 2e-3, 1e-2
_WARM = 0.15
"""Share of the steps in which the rate rises."""
_DROPOUT, _UNKNOWN = 0.2, 0.08
"""Shares of inputs and of whole words left out in training."""
_SCATTER = 0.25
"""Standard deviation of the first vectors of unknown words and punctuation."""
_GAP = 2
"""Empty tokens between the replies of a batch, so that no convolution sees another reply."""

_Array = NDArray[np.float32]


class Inputs(NamedTuple):
    """Replies as the network reads them."""

    ids: Sequence[NDArray[np.int64]]
    """Of the tokens of each reply, each at least one."""
    features: Sequence[_Array]
    dense: _Array
    """Standardised counts, shape (replies, counts)."""


def fit_network(
    inputs: Inputs, targets: NDArray[np.float64], weights: NDArray[np.float64], vectors: _Array, unknown: int, seed: int
) -> Network:
    """The network fitted on all replies.

    Args:
        targets: shape (replies, outputs).
        weights: of the outputs in the loss, shape (outputs,).
        vectors: where the vectors of all ids start, shape (ids, width).
        unknown: id that words are replaced by at times; from it on, ids have no vector to start from.
    """
    draw = np.random.default_rng(seed)
    center, spread = targets.mean(0), targets.std(0) + 1e-9
    goals = ((targets - center) / spread).astype(np.float32)
    importance = (weights / weights.size).astype(np.float32)
    used = np.unique(np.concatenate([*inputs.ids, [unknown]]))
    place = np.zeros(len(vectors), np.int64)
    place[used] = np.arange(len(used))
    ids = [place[row] for row in inputs.ids]
    layers = _initial(vectors[used], inputs.features[0].shape[1], inputs.dense.shape[1], targets.shape[1], draw)
    optimiser = _Adam(layers)
    lengths = np.array([len(row) for row in ids])
    steps = EPOCHS * -(-len(ids) // _BATCH)
    for epoch in range(EPOCHS):
        order = np.argsort(lengths + draw.uniform(0, 6, len(ids)), kind="stable")
        batches = [order[n : n + _BATCH] for n in range(0, len(ids), _BATCH)]
        for number, chosen in enumerate(draw.permutation(len(batches))):
            rows = batches[chosen]
            batch = _packed([ids[n] for n in rows], [inputs.features[n] for n in rows], inputs.dense[rows])
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
    """The tokens of some replies one after another, with gaps between them."""

    ids: NDArray[np.int64]
    features: _Array
    real: NDArray[np.bool_]
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
