"""Models of the reader and their files: a linear model from features to named outputs, and the embedded reader's own.

That one adds a kernel between counts and mean word vector of a reply and those of a few replies, the landmarks. A file is an NPZ
archive with a JSON head.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from heartloop.core.errors import InputError
from heartloop.reader.features import COUNTS, Context, FeatureLayout, ReplyFeatures, features_of, tokens_of

Head: TypeAlias = dict[str, Any]
Rows: TypeAlias = Mapping[str, NDArray[Any]]

_BLAS = ThreadpoolController().select(user_api="blas")


class Form(NamedTuple):
    origin: str
    fixed: Mapping[str, Any]
    """Entries that the head of every file of the form has: `format`, and the names of the features that the weights belong to."""


def packed(form: Form, head: Mapping[str, Any], arrays: Rows) -> bytes:
    """The file: the same bytes for the same head and arrays."""
    text = json.dumps({**form.fixed, **head}, sort_keys=True)
    file = io.BytesIO()
    named: dict[str, Any] = {"head": np.frombuffer(text.encode(), np.uint8), **arrays}
    np.savez_compressed(file, **named)
    return file.getvalue()


def one_thread() -> AbstractContextManager[Any]:
    """Within it, products of matrices use one thread: on a busy machine, threads take longer to wait for each other than one
    takes for products as small as a reply's."""
    limit: AbstractContextManager[Any] = _BLAS.limit(limits=1)
    return limit


@contextmanager
def opened(form: Form, path: Path, within: bytes | None = None) -> Iterator[tuple[Head, Rows]]:
    """Head and arrays of a file that `packed` made, or of the content of one `within` it.

    It raises `InputError` also if the body of `with` misses an entry or array.
    """
    try:
        content = path.read_bytes() if within is None else within
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(arrays.pop("head").tobytes())
        for name, value in json.loads(json.dumps(form.fixed)).items():
            if head.get(name) != value:
                other = f"format {head.get(name)}; expected {value}," if name == "format" else f"other {name} than this version,"
                raise InputError(f"{path} has {other} as {form.origin} writes: make it again")
        yield head, arrays
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, BadZipFile, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such archive of weights"
        raise InputError(f"cannot read {path}: {reason}; expected a file that {form.origin} wrote") from None


def digest(head: Any, arrays: Iterable[NDArray[Any]]) -> str:
    """First 12 hex digits of the SHA-256 of a value in JSON and of arrays."""
    content = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:12]


STUDENT = Form("`heartloop student fit`", {"format": 2, "counts": COUNTS})
"""A user's file. Format 1 counted `own_overlap` against all earlier replies together, 2 against one of them."""
SHIPPED = Form("`benchmarks.embedded`", {"format": 1, "counts": COUNTS})
"""Shipped weights, fitted with the features of their version, alone or within a reader's file."""

_ROWS = ("ngrams", "counts", "center", "spread", "offset")


class LinearModel(NamedTuple):
    """`outputs = offset + n-grams @ ngrams + (counts - center) / spread @ counts`."""

    layout: FeatureLayout
    outputs: tuple[str, ...]
    ngrams: NDArray[np.float16]
    """Shape (buckets, outputs)."""
    counts: NDArray[np.float32]
    """Shape (counts, outputs)."""
    center: NDArray[np.float32]
    spread: NDArray[np.float32]
    """Of each count, shape (counts,)."""
    offset: NDArray[np.float32]
    card: Mapping[str, Any]

    def predict(self, reply: str, context: Context) -> NDArray[np.float32]:
        return self.apply(features_of(reply, context, self.layout))

    def apply(self, features: ReplyFeatures) -> NDArray[np.float32]:
        counts = (features.counts - self.center) / self.spread
        with one_thread():
            ngrams = features.values @ self.ngrams[features.buckets].astype(np.float32)
            values: NDArray[np.float32] = (self.offset + counts @ self.counts + ngrams).astype(np.float32)
        return values

    def rounded(self) -> LinearModel:
        """The same with n-gram weights in 255 steps for each output, which the file keeps in a byte each."""
        return self._replace(ngrams=_from_bytes(*self.steps()))

    def steps(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """N-gram weights as whole steps from -127 to 127, and the size of a step of each output."""
        wide = self.ngrams.astype(np.float32)
        size = (np.abs(wide).max(0, initial=0.0) / 127.0).astype(np.float32)
        size[size == 0] = 1.0
        return np.round(wide / size).astype(np.int8), size

    def to_bytes(self, form: Form = STUDENT) -> bytes:
        """The file: an NPZ archive, the same bytes for the same model. N-gram weights take one byte where none is lost by it."""
        arrays = {name: getattr(self, name) for name in _ROWS}
        steps, size = self.steps()
        if np.array_equal(_from_bytes(steps, size), self.ngrams):
            arrays |= {"ngrams": steps, "size": size}
        return packed(form, {"layout": self.layout._asdict(), "outputs": self.outputs, "card": self.card}, arrays)

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the weights and the layout; the card does not count."""
        return digest([self.layout, self.outputs], (getattr(self, name) for name in _ROWS))

    @classmethod
    def load(cls, path: Path, form: Form = STUDENT, within: bytes | None = None) -> LinearModel:
        """Reads a file that `to_bytes` made in this form; `within` as in `opened`."""
        with opened(form, path, within) as (head, arrays):
            rows = {name: arrays[name] for name in _ROWS}
            if "size" in arrays:
                rows["ngrams"] = _from_bytes(rows["ngrams"], arrays["size"])
            layout: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in head["layout"].items()
            }
            return cls(FeatureLayout(**layout), tuple(head["outputs"]), **rows, card=head["card"])


def _from_bytes(steps: NDArray[np.int8], size: NDArray[np.float32]) -> NDArray[np.float16]:
    return (steps.astype(np.float32) * size).astype(np.float16)


SHARPNESS = 2.0
"""The kernel is `exp(SHARPNESS * (cosine - 1))`."""
_LONGEST = 200  # words of a reply whose vectors are read
_READER = Form("`benchmarks.embedded`", {"format": 2})


class WordTable(NamedTuple):
    words: tuple[str, ...]
    steps: NDArray[np.int8]
    """Principal components of each word's vector, up to a factor for each word, shape (words, width)."""


class WordVectors:
    def __init__(self, table: WordTable) -> None:
        self._place = {word: n for n, word in enumerate(table.words)}
        self._steps = table.steps

    def mean(self, reply: str) -> NDArray[np.float32]:
        """The sum of the vectors of length 1 of a reply's words over the number of its words, shape (width,)."""
        tokens = tokens_of(reply)[:_LONGEST]
        rows = self._steps[[self._place[token] for token in tokens if token in self._place]].astype(np.float32)
        lengths = np.sqrt(np.einsum("nw,nw->n", rows, rows))
        mean: NDArray[np.float32] = (rows / np.maximum(lengths, 1e-6)[:, None]).sum(0) / np.float32(max(1, len(tokens)))
        return mean


class Landmarks(NamedTuple):
    """Regression on the kernel between a reply and a few others: `exp(SHARPNESS * (cosine - 1)) @ weights`."""

    center: NDArray[np.float32]
    """Of the inputs, the counts and the mean word vector, shape (inputs,)."""
    spread: NDArray[np.float32]
    points: NDArray[np.float16]
    """Inputs of the landmarks, standardised and of length 1, shape (landmarks, inputs)."""
    weights: NDArray[np.float16]
    """Shape (landmarks, outputs)."""

    def near(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The kernel between rows of inputs, shape (..., inputs), and the landmarks, shape (..., landmarks)."""
        rows = (inputs - self.center) / self.spread
        rows /= np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
        near: NDArray[np.float32] = np.exp(SHARPNESS * (rows @ self.points.T.astype(np.float32, copy=False) - 1.0))
        return near


class ReaderModel:
    """A linear model of n-grams and counts, plus landmarks, with the same outputs."""

    def __init__(self, linear: LinearModel, table: WordTable, landmarks: Landmarks) -> None:
        self.linear, self.table, self.landmarks = linear, table, landmarks
        self.words = WordVectors(table)
        self._ngrams, self._size = linear.steps()  # a byte each: memory is what takes time
        self._landmarks = landmarks._replace(points=landmarks.points.astype(np.float32))
        self._weights = landmarks.weights.astype(np.float32)

    def apply(self, features: ReplyFeatures, reply: str) -> NDArray[np.float32]:
        linear = self.linear
        with one_thread():
            ngrams = features.values @ self._ngrams[features.buckets].astype(np.float32) * self._size
            counts = (features.counts - linear.center) / linear.spread @ linear.counts
            near = self._landmarks.near(np.concatenate([features.counts, self.words.mean(reply)]))
            values: NDArray[np.float32] = linear.offset + counts + ngrams + near @ self._weights
        return values

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**{f"landmarks-{name}": array for name, array in self.landmarks._asdict().items()}, "steps": self.table.steps}

    def to_bytes(self) -> bytes:
        linear = np.frombuffer(self.linear.to_bytes(SHIPPED), np.uint8)
        words = np.frombuffer("\n".join(self.table.words).encode(), np.uint8)
        return packed(_READER, {}, {"linear": linear, "words": words, **self._arrays})

    @cached_property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the weights, the words and the layout; the card does not count."""
        names = sorted(self._arrays)
        return digest([self.linear.hash, self.table.words, names], (self._arrays[name] for name in names))

    @classmethod
    def load(cls, path: Path) -> ReaderModel:
        with opened(_READER, path) as (_, arrays):
            landmarks = Landmarks(*(arrays[f"landmarks-{name}"] for name in Landmarks._fields))
            table = WordTable(tuple(arrays["words"].tobytes().decode().split("\n")), arrays["steps"])
            linear = LinearModel.load(path, SHIPPED, arrays["linear"].tobytes())
        return cls(linear, table, landmarks)
