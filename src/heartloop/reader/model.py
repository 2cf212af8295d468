"""Models of the reader and their files: a linear model from features to named outputs, and the embedded reader's own.

That one is ridge on n-grams, a kernel on landmarks, and a small convolutional network. A file is an NPZ archive with a JSON head.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from heartloop.core.errors import InputError
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import COUNTS, Context, FeatureLayout, ReplyFeatures, features_of
from heartloop.reader.word_vectors import RELEVANCE, TOKEN_FEATURES, Tokens, WordTable, WordVectors

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
SHIPPED = Form("`heartloop.fitting`", {"format": 1, "counts": COUNTS})
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


WIDTH = 64
"""Of the word vectors."""

_READER = Form("`heartloop.fitting.embedded`", {"format": 1, "relevance": RELEVANCE, "tokens": TOKEN_FEATURES})
CLIP = 4.0
"""Standardised counts are cut to this for the network."""
SHARPNESS = 2.0
"""The kernel is `exp(SHARPNESS * (cosine - 1))`."""
NETWORK_SHARE = 0.5
"""Of the networks in a mark; the rest is ridge's."""
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
        """Shape (outputs,), from vectors and features of at least one token, and standardised counts, shape (counts,)."""
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


class Landmarks(NamedTuple):
    """Regression on the kernel between a reply and a few others: `exp(SHARPNESS * (cosine - 1)) @ weights`."""

    center: NDArray[np.float32]
    """Of the inputs, shape (inputs,)."""
    spread: NDArray[np.float32]
    points: NDArray[np.float16]
    """Inputs of the landmarks, standardised and of length 1, shape (landmarks, inputs)."""
    weights: NDArray[np.float32]
    """Shape (landmarks, aspects)."""

    def near(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The kernel between rows of inputs, shape (replies, inputs), and the landmarks, shape (replies, landmarks)."""
        rows = (inputs - self.center) / self.spread
        rows /= np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
        near: NDArray[np.float32] = np.exp(SHARPNESS * (rows @ self.points.T.astype(rows.dtype, copy=False) - 1.0))
        return near


class CombinedModel:
    """Aspects: the mean of ridge on n-grams, counts and landmarks, and of networks. All else: ridge on n-grams and counts.

    The first outputs of the linear part are `ASPECTS`, those of any number of networks the aspects and the change.
    """

    def __init__(self, linear: LinearModel, table: WordTable, landmarks: Landmarks, networks: Sequence[Network]) -> None:
        self.linear, self.table, self.landmarks, self.networks = linear, table, landmarks, tuple(networks)
        self.words = WordVectors(table)
        self._landmarks = landmarks._replace(points=landmarks.points.astype(np.float32))
        self._ngrams, self._size = linear.steps()  # a byte each: memory is what takes time
        self._networks = [network.wide() for network in networks]
        start = starting_vectors(self.words.vectors)
        self._vectors = [start + network.moves * network.size for network in networks]

    def predict(self, reply: str, context: Context) -> NDArray[np.float32]:
        return self.apply(features_of(reply, context, self.linear.layout), self.words.read(reply, context))

    def apply(self, features: ReplyFeatures, tokens: Tokens) -> NDArray[np.float32]:
        linear, count = self.linear, len(ASPECTS)
        counts = (features.counts - linear.center) / linear.spread
        ngrams = features.values @ self._ngrams[features.buckets].astype(np.float32) * self._size
        values: NDArray[np.float32] = linear.offset + counts @ linear.counts + ngrams
        inputs = kernel_inputs(features.counts, tokens, self.words)
        values[:count] += self._landmarks.near(inputs) @ self._landmarks.weights
        if self.networks:
            dense = dense_inputs(inputs, self._landmarks.center, self._landmarks.spread)
            pairs = zip(self._networks, self._vectors, strict=True)
            marks = [network.apply(vectors[tokens.ids], tokens.features, dense)[:count] for network, vectors in pairs]
            values[:count] += np.float32(NETWORK_SHARE) * (np.mean(marks, axis=0) - values[:count])
        return values

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {f"landmarks-{name}": array for name, array in self.landmarks._asdict().items()}
        arrays |= {f"network-{n}-{name}": array for n, net in enumerate(self.networks) for name, array in net._asdict().items()}
        return arrays | {"steps": self.table.steps, "weights": self.table.weights}

    def to_bytes(self) -> bytes:
        linear = np.frombuffer(self.linear.to_bytes(SHIPPED), np.uint8)
        words = np.frombuffer("\n".join(self.table.words).encode(), np.uint8)
        return packed(_READER, {"networks": len(self.networks)}, {"linear": linear, "words": words, **self._arrays})

    @cached_property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the weights, the words and the layout; the card does not count."""
        names = sorted(self._arrays)
        return digest([self.linear.hash, self.table.words, names], (self._arrays[name] for name in names))

    @classmethod
    def load(cls, path: Path) -> CombinedModel:
        with opened(_READER, path) as (head, arrays):
            networks = [Network(*(arrays[f"network-{n}-{name}"] for name in Network._fields)) for n in range(head["networks"])]
            landmarks = Landmarks(*(arrays[f"landmarks-{name}"] for name in Landmarks._fields))
            table = WordTable(tuple(arrays["words"].tobytes().decode().split("\n")), arrays["steps"], arrays["weights"])
            linear = LinearModel.load(path, SHIPPED, arrays["linear"].tobytes())
        return cls(linear, table, landmarks, networks)


def kernel_inputs(counts: NDArray[np.float32], tokens: Tokens, words: WordVectors) -> NDArray[np.float32]:
    """What the kernel compares: counts, relevance, and the mean vector of the tokens, plain and weighted against frequent words,
    shape (COUNTS + RELEVANCE + 2 * width,)."""
    vectors = words.vectors[tokens.ids]
    weights = tokens.features[:, TOKEN_FEATURES.index("weight")]
    means = vectors.mean(0), weights @ vectors / (weights.sum() + np.float32(1e-6))
    return np.concatenate([counts, tokens.relevance, *means])


def dense_inputs(inputs: NDArray[np.float32], center: NDArray[np.float32], spread: NDArray[np.float32]) -> NDArray[np.float32]:
    """Counts and relevance of kernel inputs, standardised and cut, shape (..., COUNTS + RELEVANCE)."""
    count = len(COUNTS) + len(RELEVANCE)
    dense: NDArray[np.float32] = np.clip((inputs[..., :count] - center[:count]) / spread[:count], -CLIP, CLIP)
    return dense
