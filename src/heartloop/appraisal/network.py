"""A small convolutional network over the words of a reply, applied with numpy.

Covers the forward pass. Does not cover fitting (`heartloop.fitting.network`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSE_SCALE", "WIDTH", "Network", "gelu", "neighbours", "starting_vectors"]

WIDTH = 64
"""Of the word vectors."""

DENSE_SCALE = 0.3
"""Factor of the standardised counts beside the pooled words."""

_SLOPE, _CUBE = np.float32(0.7978845608), np.float32(0.044715)


class Network(NamedTuple):
    """Word vectors and token features; a linear layer; two convolutions of width 3 with residuals, the second over every other
    token; mean and maximum over the tokens; one hidden layer, which also sees the counts; the outputs."""

    moves: NDArray[np.int8]
    """By how many steps the vector of each id was moved in fitting, shape (ids, WIDTH)."""
    size: NDArray[np.float32]
    """Of a step, shape ()."""
    entry: NDArray[np.floating[Any]]
    """Shape (WIDTH + token features + 1, channels); the last row is the bias, as in all layers."""
    first: NDArray[np.floating[Any]]
    """Shape (3 * channels + 1, channels)."""
    second: NDArray[np.floating[Any]]
    hidden: NDArray[np.floating[Any]]
    """Shape (2 * channels + counts + 1, hidden)."""
    output: NDArray[np.floating[Any]]
    """Shape (hidden + 1, outputs); in the units of the outputs."""

    def wide(self) -> Network:
        """The same in single precision, which numpy computes faster; files have half precision."""
        return Network(self.moves, self.size, *(array.astype(np.float32) for array in self[2:]))

    def apply(self, words: NDArray[np.float32], features: NDArray[np.float32], dense: NDArray[np.float32]) -> NDArray[np.float32]:
        """The outputs, shape (outputs,).

        Args:
            words: vectors of the tokens, at least one, shape (tokens, WIDTH).
            features: shape (tokens, token features).
            dense: standardised counts, shape (counts,).
        """
        tokens = gelu(np.hstack([words, features]) @ self.entry[:-1] + self.entry[-1])
        for layer, step in ((self.first, 1), (self.second, 2)):
            tokens = tokens + gelu(neighbours(tokens, step) @ layer[:-1] + layer[-1])
        pooled = np.concatenate([tokens.mean(0), tokens.max(0), dense * np.float32(DENSE_SCALE)])
        outputs: NDArray[np.float32] = gelu(pooled @ self.hidden[:-1] + self.hidden[-1]) @ self.output[:-1] + self.output[-1]
        return outputs


def starting_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first components of word vectors at length 2, shape (ids, WIDTH); nought for ids without a vector."""
    first = vectors[:, :WIDTH]
    start: NDArray[np.float32] = first * (2.0 / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-6))
    return start


def neighbours(tokens: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    """Each token beside those `step` before and after it, shape (tokens, 3 * channels)."""
    count, channels = tokens.shape
    seen = np.zeros((count, 3 * channels), np.float32)
    seen[step:, :channels] = tokens[:-step]
    seen[:, channels : 2 * channels] = tokens
    seen[:-step, 2 * channels :] = tokens[step:]
    return seen


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gaussian error linear unit in the approximation with tanh (Hendrycks and Gimpel 2016)."""
    gate: NDArray[np.float32] = np.tanh(_SLOPE * x * (np.float32(1.0) + _CUBE * x * x))
    return np.float32(0.5) * x * (np.float32(1.0) + gate)
