"""Word vectors, and how near a reply comes to its dialogue in meaning, by token and for the reply (`RELEVANCE`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.reader.features import READ_CHARACTERS, Context, folded

PARTS = ("last", "messages", "unsaid", "sore", "known", "demand", "replies")
"""Parts of a context that a reply is compared with: `known` includes what the policy could offer, `demand` what it did wrong."""

_MESSAGES = PARTS.index("messages")
_OF_A_PART = ("mean", "near", "same", "nearest", "centre", "sum")
RELEVANCE = (
    *(f"{part}_{name}" for part in PARTS for name in _OF_A_PART),
    "least_sentence", "best_sentence", "least_sentence_messages", "best_sentence_messages", "any_mean", "new", "sentences",
)  # fmt: skip

TOKEN_FEATURES = (*PARTS, "said", "weight", "unknown")
"""Names of the features of a token: the highest cosine to a word of each part; whether a message has the word; its weight."""

_PUNCTUATION = '.?!,:;*\n"-…'
_ENDS = ".?!…\n"
_STREAM = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[.?!,:;*\n\"…-]")
_LONGEST = 200  # tokens of a reply that are read
_CONTENT = 0.35  # a word of at least this weight is a content word
_NEAR, _SAME, _HALF = 0.6, 0.99, 0.5
_SKIPPED, _WIDTH = 2, 64
"""Nearness leaves out the first components, which tell how frequent a word is, and uses this many after them."""
_KEPT = 2_000


class WordTable(NamedTuple):
    words: tuple[str, ...]
    steps: NDArray[np.int8]
    """Principal components of each word's vector, most variance first, shape (words, width), up to a factor for each word."""
    weights: NDArray[np.float16]
    """From 0 for the most frequent words to 1, shape (words,)."""


class Tokens(NamedTuple):
    ids: NDArray[np.int64]
    """Rows of `WordVectors.vectors`, shape (tokens,), at least one."""
    features: NDArray[np.float32]
    """Shape (tokens, TOKEN_FEATURES)."""
    relevance: NDArray[np.float32]
    """Shape (RELEVANCE,)."""


class _Part(NamedTuple):
    ids: NDArray[np.int64]
    """Content words, each once."""
    near: NDArray[np.float32]
    centre: NDArray[np.float32]
    """Direction of their weighted sum, shape (_WIDTH,)."""


class WordVectors:
    """Vectors of words, of an unknown word and of punctuation marks."""

    def __init__(self, table: WordTable) -> None:
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
        self._content = lru_cache(_KEPT)(self._content_of)
        self._part = lru_cache(_KEPT)(self._part_of)

    def _stream(self, text: str) -> list[int]:
        place, unknown = self._place, self.unknown
        return [place.get(token, unknown) for token in _STREAM.findall(folded(text[:READ_CHARACTERS]))]

    def _content_of(self, text: str) -> NDArray[np.int64]:
        """Content words of a text, each once."""
        ids = np.unique(np.array(self._stream(text), np.int64))
        return ids[self._weights[ids] > _CONTENT]

    def _part_of(self, texts: tuple[str, ...]) -> _Part:
        ids = np.unique(np.concatenate([np.empty(0, np.int64), *map(self._content, texts)]))
        near = self._near[ids]
        centre = self._weights[ids] @ near
        return _Part(ids, near, (centre / max(1e-6, float(np.linalg.norm(centre)))).astype(np.float32))

    def read(self, reply: str, context: Context) -> Tokens:
        order: dict[int, int] = {}
        stream = self._stream(reply)[:_LONGEST] or [self.unknown]
        place = np.array([order.setdefault(token, len(order)) for token in stream])
        ids, distinct = np.array(stream), np.array(list(order))
        parts = [
            self._part(texts)
            for texts in (
                context.messages[-1:], context.messages, context.unsaid, context.sore, context.known + context.ways,
                context.demand + context.wrongs, context.replies,
            )
        ]  # fmt: skip
        features = np.zeros((len(distinct), len(TOKEN_FEATURES)), np.float32)
        best = features[:, : len(PARTS)]
        mine = self._near[distinct]
        filled = [n for n, part in enumerate(parts) if len(part.ids)]
        if filled:
            starts = np.cumsum([0, *(len(parts[n].ids) for n in filled[:-1])])
            near = np.concatenate([parts[n].near for n in filled])
            best[:, filled] = np.maximum.reduceat(near @ mine.T, starts, axis=0).T
        weights = self._weights[distinct]
        said = parts[_MESSAGES].ids
        if len(said):
            features[:, len(PARTS)] = said[np.minimum(said.searchsorted(distinct), len(said) - 1)] == distinct
        features[:, len(PARTS) + 1] = weights
        features[:, len(PARTS) + 2] = distinct == self.unknown
        relevance = self._relevance(ids, place, mine, weights, best, np.array([part.centre for part in parts]))
        return Tokens(ids, features[place], relevance)

    def _relevance(
        self,
        ids: NDArray[np.int64],
        place: NDArray[np.int64],
        near: NDArray[np.float32],
        weights: NDArray[np.float32],
        best: NDArray[np.float32],
        centres: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """`place`: of each token among the distinct ones, whose vectors, weights and nearness follow."""
        content = np.flatnonzero(weights > _CONTENT)
        out = np.zeros((len(PARTS), len(_OF_A_PART)), np.float32)
        rest = np.array([0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0], np.float32)
        if len(content):
            mine, scale = best[content], weights[content]
            share = scale / scale.sum()
            out[:, 0], out[:, 1], out[:, 2] = share @ mine, share @ (mine > _NEAR), share @ (mine > _SAME)
            out[:, 3] = np.sort(mine, axis=0)[-3:].mean(0)
            out[:, 5] = np.minimum(scale @ np.maximum(mine - _HALF, 0.0), 3.0)
            centre = scale @ near[content]
            out[:, 4] = centres @ (centre / max(1e-6, float(np.sqrt(centre @ centre))))
            highest = best.max(1)
            nearest = highest[content]
            rest[4:6] = share @ nearest, scale @ (1.0 - nearest) / 5.0
            here = np.flatnonzero((weights > _CONTENT)[place])
            tokens = place[here]
            sentence = np.cumsum(self._ends[ids])[here]
            starts = np.concatenate([[0], np.flatnonzero(sentence[1:] != sentence[:-1]) + 1])
            weighted = weights[tokens]
            rows = np.stack([weighted, weighted * highest[tokens], weighted * best[tokens, _MESSAGES]])
            sums = np.add.reduceat(rows, starts, axis=1)
            means = sums[1:] / sums[0]
            rest[0:4:2], rest[1:4:2] = means.min(1), means.max(1)
            rest[6] = len(starts) / 4.0
        return np.concatenate([out.ravel(), rest])


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (rows / np.maximum(length, 1e-6)).astype(np.float32)
    return unit
