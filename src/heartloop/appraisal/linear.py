"""A linear model from features to named outputs, and its file.

Covers prediction, saving and loading. Does not cover fitting (`heartloop.fitting`).
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.features import COUNTS, Context, Features, Layout, features_of
from heartloop.core.errors import InputError

__all__ = ["LinearModel"]

_FORMAT = 1


class LinearModel(NamedTuple):
    """`outputs = offset + n-grams @ ngrams + (counts - center) / spread @ counts`."""

    layout: Layout
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
    """What it was fitted on, and how well it predicts; part of the file."""

    def predict(self, reply: str, context: Context) -> NDArray[np.float32]:
        """The outputs for a reply, shape (outputs,)."""
        return self.apply(features_of(reply, context, self.layout))

    def apply(self, features: Features) -> NDArray[np.float32]:
        """The outputs for features of this model's layout, shape (outputs,)."""
        counts = (features.counts - self.center) / self.spread
        ngrams = features.values @ self.ngrams[features.buckets].astype(np.float32)
        values: NDArray[np.float32] = (self.offset + counts @ self.counts + ngrams).astype(np.float32)
        return values

    def rounded(self) -> LinearModel:
        """The same with n-gram weights in 255 steps for each output, which the file keeps in a byte each."""
        steps, size = _in_bytes(self.ngrams)
        return self._replace(ngrams=_from_bytes(steps, size))

    def steps(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """N-gram weights as whole steps, shape (buckets, outputs), and the size of a step of each output, shape (outputs,)."""
        return _in_bytes(self.ngrams)

    def to_bytes(self) -> bytes:
        """The file: an NPZ archive, the same bytes for the same model. N-gram weights take one byte where none is lost by it."""
        head = {
            "format": _FORMAT, "layout": self.layout._asdict(), "outputs": self.outputs, "counts": COUNTS, "card": self.card,
        }  # fmt: skip
        file = io.BytesIO()
        arrays = {name: getattr(self, name) for name in ("ngrams", "counts", "center", "spread", "offset")}
        steps, size = _in_bytes(self.ngrams)
        if np.array_equal(_from_bytes(steps, size), self.ngrams):
            arrays |= {"ngrams": steps, "size": size}
        np.savez_compressed(file, head=np.frombuffer(json.dumps(head, sort_keys=True).encode(), np.uint8), **arrays)
        return file.getvalue()

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the weights and the layout; the card does not count."""
        digest = hashlib.sha256(json.dumps([self.layout, self.outputs]).encode())
        for array in (self.ngrams, self.counts, self.center, self.spread, self.offset):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:12]

    @classmethod
    def load(cls, path: Path) -> LinearModel:
        """Reads a file that `to_bytes` made.

        Raises:
            InputError: no such file, another format, or counts that this version does not compute.
        """
        return cls.read(path, path)

    @classmethod
    def read(cls, file: Path | BinaryIO, path: Path) -> LinearModel:
        """Reads an open file, or one within another, whose path errors name; otherwise as `load`."""
        try:
            with np.load(file, allow_pickle=False) as arrays:
                head = json.loads(arrays["head"].tobytes())
                rows = {name: arrays[name] for name in ("ngrams", "counts", "center", "spread", "offset")}
                if "size" in arrays:
                    rows["ngrams"] = _from_bytes(rows["ngrams"], arrays["size"])
        except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
            reason = error.strerror if isinstance(error, OSError) else "no archive of weights"
            raise InputError(f"{path} is no student: {reason}; expected a file that `heartloop student fit` wrote") from None
        known: Sequence[str] = head.get("counts", ())
        if head.get("format") != _FORMAT or tuple(known) != COUNTS:
            raise InputError(f"{path} was made by another version (format {head.get('format')}); fit it again")
        layout: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in head["layout"].items()
        }
        return cls(Layout(**layout), tuple(head["outputs"]), **rows, card=head["card"])


def _in_bytes(ngrams: NDArray[np.float16]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Weights as whole steps from -127 to 127, and the size of a step of each output."""
    wide = ngrams.astype(np.float32)
    size = (np.abs(wide).max(0, initial=0.0) / 127.0).astype(np.float32)
    size[size == 0] = 1.0
    return np.round(wide / size).astype(np.int8), size


def _from_bytes(steps: NDArray[np.int8], size: NDArray[np.float32]) -> NDArray[np.float16]:
    return (steps.astype(np.float32) * size).astype(np.float16)
