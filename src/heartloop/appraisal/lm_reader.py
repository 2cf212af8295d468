"""The second reader, `embedded-lm`: a kernel on hidden states of a small language model.

It is fitted on voices that the n-gram reader has not seen, and reads other features, so that what is learned from one of them can
be tested by the other. Needs the extra `local`. Covers the weights and their file. Does not cover the states (`states`), nor
fitting (`heartloop.fitting.embedded_lm`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.archive import Form, digest, opened, packed
from heartloop.appraisal.features import DEFAULT_LAYOUT, Context, features_of
from heartloop.appraisal.names import EMBEDDED_LM
from heartloop.appraisal.reader import Reading, Thresholds
from heartloop.appraisal.states import CUT_SHA256, local_model

__all__ = ["LM_WEIGHTS", "KernelModel", "LmReader", "kernel", "lm_reader", "rounded", "unit"]

LM_WEIGHTS = Path(str(resources.files("heartloop.appraisal") / "weights" / "embedded-lm.npz"))
"""The shipped weights."""

_READER = Form("`heartloop.fitting.embedded_lm`", {"format": 1})
_ARRAYS = ("center", "spread", "projection", "support", "dual", "offset")


def unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows scaled to Euclidean length 1; a row of zeros stays."""
    wide = np.asarray(rows, np.float64)
    length = np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide / np.where(length > 0, length, 1.0)


def rounded(rows: NDArray[Any]) -> NDArray[np.int8]:
    """Rows in whole steps from -127 to 127. The step of a row does not matter to `kernel`, which scales rows to length 1."""
    most = np.abs(rows).max(-1, keepdims=True)
    steps: NDArray[np.int8] = np.round(127.0 * rows / np.where(most > 0, most, 1.0)).astype(np.int8)
    return steps


def kernel(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """`exp(cosine - 1)` of the rows of two matrices, shape (first, second)."""
    values: NDArray[np.float64] = np.exp(unit(first) @ unit(second).T - 1.0)
    return values


class KernelModel(NamedTuple):
    """`outputs = offset + kernel((state - center) / spread @ projection, support) @ dual`."""

    outputs: tuple[str, ...]
    center: NDArray[np.float32]
    spread: NDArray[np.float32]
    """Of each number of a state, shape (width,)."""
    projection: NDArray[np.float16]
    """Principal components of standardised states, shape (width, components)."""
    support: NDArray[np.int8]
    """The projected states of the replies that were fitted on, shape (replies, components)."""
    dual: NDArray[np.float32]
    """Shape (replies, outputs)."""
    offset: NDArray[np.float32]
    card: Mapping[str, Any]
    """What it was fitted on; part of the file."""

    def projected(self, states: NDArray[Any]) -> NDArray[np.float64]:
        """States in the space of the support, shape (..., components)."""
        standard = (np.asarray(states, np.float64) - self.center) / self.spread
        projected: NDArray[np.float64] = standard @ self.projection.astype(np.float64)
        return projected

    def apply(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        """The outputs for a state, shape (outputs,)."""
        weights = kernel(self.projected(state)[None], self.support)[0]
        values: NDArray[np.float32] = (self.offset + weights @ self.dual).astype(np.float32)
        return values

    def to_bytes(self) -> bytes:
        """The file: an NPZ archive, the same bytes for the same model."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return packed(_READER, {"outputs": self.outputs, "card": self.card}, arrays)

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the weights, the thresholds and the language model's file."""
        return digest([self.outputs, self.card, CUT_SHA256], (getattr(self, name) for name in _ARRAYS))

    @classmethod
    def load(cls, path: Path) -> KernelModel:
        """Reads a file that `to_bytes` made.

        Raises:
            InputError: no such file, or another format.
        """
        with opened(_READER, path) as (head, arrays):
            return cls(tuple(head["outputs"]), **{name: arrays[name] for name in _ARRAYS}, card=head["card"])


class LmReader:
    """A reader on hidden states.

    Args:
        model: its outputs are `ASPECTS` and `change-0` to `change-3`, then strategies where its card has any.
        state_of: the state of a reply in its context; default, by the model of this process.

    Raises:
        UseError: no `state_of`, and the extra `local` is not installed.
        InputError: the language model cannot be used.
    """

    name = EMBEDDED_LM

    def __init__(self, model: KernelModel, state_of: Callable[[str, Context], NDArray[np.float32]] | None = None) -> None:
        self.model, self.hash = model, model.hash
        self._state_of = state_of or local_model().state
        self._thresholds = Thresholds.of(model.card)

    def read(self, reply: str, context: Context) -> Reading:
        features = features_of(reply, context, DEFAULT_LAYOUT)
        if not features.tokens:
            return self._thresholds.silent()
        return self._thresholds.reading(self.model.apply(self._state_of(reply, context)), features)


@cache
def lm_reader() -> LmReader:
    """The shipped reader.

    Raises:
        UseError: the extra `local` is not installed.
        InputError: the weights or the language model cannot be used.
    """
    return LmReader(KernelModel.load(LM_WEIGHTS))
