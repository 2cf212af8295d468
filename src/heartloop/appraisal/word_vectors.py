"""Word vectors, and how near a reply comes to its dialogue in meaning.

Covers the token stream of a reply with the nearness of each token to parts of the context (what `network` reads) and the summary
of the same for the whole reply (`RELEVANCE`). Does not cover where the vectors come from (`heartloop.fitting.word_vectors`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.features import READ_CHARACTERS, Context, folded

__all__ = ["PARTS", "RELEVANCE", "TOKEN_FEATURES", "Table", "Tokens", "WordVectors"]

PARTS = ("last", "messages", "unsaid", "sore", "known", "demand", "replies")
"""Parts of a context that a reply is compared with: `known` includes what the policy could offer, `demand` what it did wrong."""

_OF_A_PART = ("mean", "near", "same", "nearest", "centre", "sum")
RELEVANCE = (
    *(f"{part}_{name}" for part in PARTS for name in _OF_A_PART),
    "least_sentence", "best_sentence", "least_sentence_messages", "best_sentence_messages", "any_mean", "new", "sentences",
)  # fmt: skip
"""Names of the summary of a reply, in their order."""

TOKEN_FEATURES = (*PARTS, "said", "weight", "unknown")
"""Names of the features of a token: the highest cosine to a word of each part; whether a message has the word; its weight."""

_PUNCTUATION = '.?!,:;*\n"-…'
_ENDS = ".?!…\n"
_STREAM = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[.?!,:;*\n\"…-]")
_LONGEST = 200
"""Tokens of a reply that are read."""
_CONTENT = 0.35
"""A word of at least this weight is a content word."""
_NEAR, _SAME, _HALF = 0.6, 0.99, 0.5
_SKIPPED, _WIDTH = 2, 64
"""Nearness leaves out the first components, which tell how frequent a word is, and uses this many after them."""
_KEPT = 20_000
"""Texts whose words are kept in memory."""


class Table(NamedTuple):
    """What is saved of the vectors."""

    words: tuple[str, ...]
    """Folded, in the order of the vectors."""
    steps: NDArray[np.int8]
    """Principal components of each word's vector, most variance first, shape (words, width), up to a factor for each word."""
    weights: NDArray[np.float16]
    """From 0 for the most frequent words to 1, shape (words,)."""


class Tokens(NamedTuple):
    """A reply as `network` reads it."""

    ids: NDArray[np.int64]
    """Rows of `WordVectors.vectors`, shape (tokens,), at least one."""
    features: NDArray[np.float32]
    """Shape (tokens, TOKEN_FEATURES)."""
    relevance: NDArray[np.float32]
    """Shape (RELEVANCE,)."""


class WordVectors:
    """Vectors of words, of an unknown word and of punctuation marks."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._place = {word: n for n, word in enumerate(table.words)}
        self.unknown = len(table.words)
        self._place |= {mark: self.unknown + 1 + n for n, mark in enumerate(_PUNCTUATION)}
        rows, marks = table.steps.astype(np.float32), 1 + len(_PUNCTUATION)
        self.vectors: NDArray[np.float32] = np.vstack([_unit(rows), np.zeros((marks, rows.shape[1]), np.float32)])
        """Of length 1, nought for unknown words and punctuation, shape (ids, width)."""
        self._near = np.vstack([_unit(rows[:, _SKIPPED : _SKIPPED + _WIDTH]), np.zeros((marks, _WIDTH), np.float32)])
        self._weights = np.concatenate([table.weights.astype(np.float32), np.zeros(marks, np.float32)])
        self._ends = np.zeros(len(self.vectors), bool)
        self._ends[[self._place[mark] for mark in _ENDS]] = True
        self._texts: dict[str, NDArray[np.int64]] = {}
        self._parts: dict[tuple[str, ...], tuple[NDArray[np.int64], NDArray[np.float32]]] = {}

    @cached_property
    def ids(self) -> int:
        """Number of ids."""
        return len(self.vectors)

    def _stream(self, text: str) -> NDArray[np.int64]:
        place, unknown = self._place, self.unknown
        return np.array([place.get(token, unknown) for token in _STREAM.findall(folded(text[:READ_CHARACTERS]))], np.int64)

    def _content(self, text: str) -> NDArray[np.int64]:
        """Content words of a text, each once."""
        known = self._texts.get(text)
        if known is None:
            ids = np.unique(self._stream(text))
            known = ids[self._weights[ids] > _CONTENT]
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            self._texts[text] = known
        return known

    def _part(self, texts: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Content words of some texts, each once, and the direction of their weighted sum, shape (_WIDTH,)."""
        known = self._parts.get(texts)
        if known is None:
            ids = np.unique(np.concatenate([np.empty(0, np.int64), *map(self._content, texts)]))
            centre = self._weights[ids] @ self._near[ids]
            known = ids, (centre / max(1e-6, float(np.linalg.norm(centre)))).astype(np.float32)
            if len(self._parts) >= _KEPT:
                self._parts.clear()
            self._parts[texts] = known
        return known

    def read(self, reply: str, context: Context) -> Tokens:
        """The tokens of a reply in its context."""
        ids = self._stream(reply)[:_LONGEST]
        if not len(ids):
            ids = np.array([self.unknown])
        parts = [
            self._part(texts)
            for texts in (
                context.messages[-1:], context.messages, context.unsaid, context.sore, context.known + context.ways,
                context.demand + context.wrongs, context.replies,
            )
        ]  # fmt: skip
        distinct, place = np.unique(ids, return_inverse=True)
        best = np.zeros((len(distinct), len(PARTS)), np.float32)
        filled = [n for n, (part, _) in enumerate(parts) if len(part)]
        if filled:
            near = self._near[np.concatenate([parts[n][0] for n in filled])]
            starts = np.cumsum([0, *(len(parts[n][0]) for n in filled[:-1])])
            best[:, filled] = np.maximum.reduceat(self._near[distinct] @ near.T, starts, axis=1)
        weights = self._weights[distinct]
        messages = np.zeros(self.ids, bool)
        messages[parts[1][0]] = True
        said = messages[distinct]
        features = np.column_stack([best, said, weights, distinct == self.unknown]).astype(np.float32)[place]
        return Tokens(ids, features, self._relevance(ids, distinct, place, best, parts, filled))

    def _relevance(
        self,
        ids: NDArray[np.int64],
        distinct: NDArray[np.int64],
        place: NDArray[np.int64],
        best: NDArray[np.float32],
        parts: Sequence[tuple[NDArray[np.int64], NDArray[np.float32]]],
        filled: Sequence[int],
    ) -> NDArray[np.float32]:
        weights = self._weights[distinct]
        content = weights > _CONTENT
        out = np.zeros((len(PARTS), len(_OF_A_PART)), np.float32)
        rest = np.array([0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0], np.float32)
        if content.any():
            mine, scale = best[content], weights[content]
            share = scale / scale.sum()
            out[:, 0], out[:, 1], out[:, 2] = share @ mine, share @ (mine > _NEAR), share @ (mine > _SAME)
            out[:, 3] = np.sort(mine, axis=0)[-3:].mean(0)
            out[:, 5] = np.minimum(scale @ np.maximum(mine - _HALF, 0.0), 3.0)
            centre = scale @ self._near[distinct[content]]
            length = max(1e-6, float(np.linalg.norm(centre)))
            out[:, 4] = np.array([direction for _, direction in parts]) @ (centre / length)
            nearest = mine.max(1)
            rest[4:6] = share @ nearest, scale @ (1.0 - nearest) / 5.0
            sentence = np.cumsum(self._ends[ids])
            here = content[place]
            total = np.bincount(sentence[here], weights[place][here])
            kept = total > 0
            for n, values in ((0, best.max(1)), (2, best[:, 1])):
                means = np.bincount(sentence[here], (weights * values)[place][here])[kept] / total[kept]
                rest[n], rest[n + 1] = means.min(), means.max()
            rest[6] = kept.sum() / 4.0
        return np.concatenate([out.ravel(), rest])


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (rows / np.maximum(length, 1e-6)).astype(np.float32)
    return unit
