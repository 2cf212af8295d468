"""The nearest shipped scenarios to a new one: by an embedding model, else by character TF-IDF.

Covers embedding texts through an endpoint, storing the vectors with a run's steps, and cosine similarity. Does not cover what
follows from a near neighbour (`writing`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from heartloop.authoring.checks import Likeness
from heartloop.authoring.store import Steps
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.models.budget import Meter
from heartloop.models.client import EndpointChat
from heartloop.models.formats import Embedded

__all__ = ["BATCH", "NEIGHBOURS", "Embedder", "MeteredEmbedder", "Neighbour", "Neighbours"]

NEIGHBOURS = 3
"""Number of shipped scenarios that the auditor compares a new one with (EIBench section 3.1)."""
BATCH = 32
"""Texts in one call of an embeddings endpoint."""


class Embedder(Protocol):
    """An embedding model."""

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector a text.

        Raises:
            BudgetSpent: before the call, when the rest of the budget is too small.
            ModelError: the call failed for good.
        """
        ...


class MeteredEmbedder:
    """An embedding model whose calls go through a meter, in the role `embedder`."""

    def __init__(self, model: EndpointChat, meter: Meter) -> None:
        meter.admit(model.name)
        self._model = model
        self.name = model.name
        self._meter = meter

    async def embed(self, texts: Sequence[str]) -> Embedded:
        messages = [Message(role="user", content=text) for text in texts]
        reservation = await self._meter.reserve(self.name, "embedder", messages, Sampling(max_tokens=1))
        found: Embedded | None = None
        try:
            found = await self._model.embed(texts)
            return found
        finally:
            self._meter.settle(reservation, found.usage if found is not None else None)


class Neighbour(NamedTuple):
    """A shipped scenario and its cosine similarity, in [-1, 1]."""

    id: str
    similarity: float


class Neighbours:
    """The shipped scenarios nearest to a text.

    Args:
        shipped: texts of the shipped scenarios by id.
        likeness: made of the same texts in the same order; used without an embedder.
        embedder: an embedding model.
    """

    def __init__(self, shipped: dict[str, str], likeness: Likeness, embedder: Embedder | None = None) -> None:
        self._shipped = shipped
        self._likeness = likeness
        self._embedder = embedder
        self._vectors: npt.NDArray[np.float32] | None = None

    @property
    def by(self) -> str:
        """The embedding model's name, or `tf-idf`."""
        return "tf-idf" if self._embedder is None else self._embedder.name

    async def prepare(self, steps: Steps) -> None:
        """Embeds the shipped scenarios whose vectors are not in the run's steps.

        Raises:
            ModelError: a call failed for good.
            BudgetSpent: the budget does not cover it.
        """
        if self._embedder is None:
            return
        texts = list(self._shipped.values())
        for start in range(0, len(texts), BATCH):
            await self._embed(texts[start : start + BATCH], steps)
        self._vectors = await self._embed(texts, steps)

    async def nearest(self, text: str, steps: Steps) -> list[Neighbour]:
        """The nearest shipped scenarios, nearest first; ties in the order of the set.

        Raises:
            InputError: the text's embedding has another length than those of the set.
            ModelError: a call failed for good.
            BudgetSpent: the budget does not cover it.
        """
        if self._vectors is None:
            near = self._likeness.to_known(text)[: len(self._shipped)]
        else:
            own = (await self._embed([text], steps))[0]
            if len(own) != self._vectors.shape[1]:
                raise InputError(
                    f"{self.by} returned a vector of {len(own)} numbers, and of {self._vectors.shape[1]} before; "
                    "it is not the model this run began with, choose another --out"
                )
            near = self._vectors @ own
        order = np.argsort(-near, kind="stable")[:NEIGHBOURS]
        ids = list(self._shipped)
        return [Neighbour(ids[i], round(float(near[i]), 4)) for i in order]

    async def _embed(self, texts: Sequence[str], steps: Steps) -> npt.NDArray[np.float32]:
        """Unit vectors, shape (n, d): those stored in the steps, and new ones of the others."""
        assert self._embedder is not None
        kept = {facts["digest"]: facts["vector"] for facts in steps.of("embedded")}
        missing = [text for text in dict.fromkeys(texts) if _digest(text) not in kept]
        if missing:
            found = await self._embedder.embed(missing)
            for position, (text, vector) in enumerate(zip(missing, found.vectors, strict=True)):
                row = np.asarray(vector, dtype=np.float64)
                packed = base64.b64encode((row / np.linalg.norm(row)).astype("<f4").tobytes()).decode()
                usage = found.usage.model_dump() if position == 0 else None  # of the whole call
                steps.note("embedded", digest=_digest(text), model=self._embedder.name, vector=packed, usage=usage)
                kept[_digest(text)] = packed
        rows = [np.frombuffer(base64.b64decode(kept[_digest(text)]), dtype="<f4") for text in texts]
        if len({len(row) for row in rows}) > 1:
            raise InputError(f"{self.by} returned vectors of several lengths; choose another --embedder and another --out")
        return np.stack(rows).astype(np.float32)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
