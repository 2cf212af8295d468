"""A linear model from features to named outputs; files of weights: NPZ archives with a head in JSON."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from heartloop.core.errors import InputError
from heartloop.reader.features import COUNTS, Context, FeatureLayout, ReplyFeatures, features_of

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
