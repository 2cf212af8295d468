"""Checks of a set of scenarios (by character TF-IDF), and the nearest scenarios to a new one (also by an embedding model)."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from heartloop.authoring.store import Steps
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import install_command
from heartloop.environments.spec import Scenarios
from heartloop.models.budget import Meter, Size
from heartloop.models.client import EndpointChat
from heartloop.models.formats import Embedded

NEAR_DUPLICATE = 0.5  # cosine of character 3- to 5-grams (TF-IDF) from which two scenarios are near-duplicates (ours)

_TERMS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 5)}
_WEIGHTS: dict[str, Any] = {"sublinear_tf": True}


def comparable() -> bool:
    return find_spec("sklearn") is not None


def problems_of_set(kind: Scenarios, scenarios: Sequence[Any]) -> list[str]:
    """All problems; near-duplicates only where scenarios are `comparable`."""
    problems = [f"{s.id}: {problem}" for s in scenarios for problem in problems_of_one(kind, s)]
    identities = Counter(identity_of(kind, s) for s in scenarios)
    problems += [f"{name}, {work}: {n} people of the same name and occupation" for (name, work), n in identities.items() if n > 1]
    likeness = similarity([kind.story(s) for s in scenarios]) if comparable() else np.eye(len(scenarios))
    for i, j in zip(*np.nonzero(np.triu(likeness > NEAR_DUPLICATE, k=1)), strict=True):
        problems.append(f"{scenarios[i].id} and {scenarios[j].id} are near-duplicates (cosine {likeness[i, j]:.2f})")
    spoken: dict[str, str] = {}
    for s in scenarios:
        for plain, line in plain_lines(kind, s).items():
            if spoken.setdefault(plain, s.id) != s.id:
                problems.append(f"{s.id} and {spoken[plain]} both say {line!r}")
    return problems


def problems_of_one(kind: Scenarios, scenario: Any) -> list[str]:
    return kind.problems(scenario) if kind.written(scenario) else []


def identity_of(kind: Scenarios, scenario: Any) -> tuple[str, str]:
    name, work = kind.identity(scenario)
    return name.casefold(), work.casefold()


def plain_lines(kind: Scenarios, scenario: Any) -> dict[str, str]:
    bare = {re.sub(r"\W+", " ", line.casefold()).strip(): line for line in kind.lines(scenario)}
    return {plain: line for plain, line in bare.items() if len(plain.split()) > 2}


def _sklearn_text() -> Any:
    try:
        import sklearn.feature_extraction.text as text  # half a second
    except ModuleNotFoundError as error:
        install = install_command("authoring")
        raise UseError(f"comparing scenarios needs scikit-learn, which is not installed; install it with: {install}") from error
    return text


def similarity(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    vectors = _sklearn_text().TfidfVectorizer(**_TERMS, **_WEIGHTS).fit_transform(texts)
    likeness: npt.NDArray[np.float64] = (vectors @ vectors.T).toarray()
    return likeness


class Likeness:
    """The measure of `similarity` for a new text against a growing set; the first texts fix the term weights."""

    def __init__(self, texts: Sequence[str]) -> None:
        text = _sklearn_text()
        # hashed, because a vocabulary would leave out whatever new texts alone have in common
        self._counts = text.HashingVectorizer(**_TERMS, n_features=2**20, alternate_sign=False, norm=None)
        counted = self._counts.transform(texts)
        self._weights = text.TfidfTransformer(**_WEIGHTS).fit(counted)
        self._known = self._weights.transform(counted)

    def to_known(self, text: str) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = self._known @ self._vector(text).toarray()[0]
        return found

    def add(self, text: str) -> None:
        from scipy.sparse import vstack

        self._known = vstack([self._known, self._vector(text)], format="csr")

    def _vector(self, text: str) -> Any:
        return self._weights.transform(self._counts.transform([text]))


NEIGHBOURS = 3  # shipped scenarios that the auditor compares a new one with (EIBench section 3.1)
BATCH = 32  # texts in one call of an embeddings endpoint


class MeteredEmbedder:
    def __init__(self, model: EndpointChat, meter: Meter) -> None:
        meter.admit(model.name)
        self._model, self._meter, self.name = model, meter, model.name

    async def embed(self, texts: Sequence[str]) -> Embedded:
        reservation = await self._meter.reserve(self.name, "embedder", Size.of(texts, 1))
        found: Embedded | None = None
        try:
            found = await self._model.embed(texts)
            return found
        finally:
            self._meter.settle(reservation, found.usage if found is not None else None)


class Neighbours:
    """The shipped scenarios (texts by id) nearest to a text: by the embedder, else by `likeness` of the same texts."""

    def __init__(self, shipped: dict[str, str], likeness: Likeness, embedder: MeteredEmbedder | None = None) -> None:
        self._shipped, self._likeness, self._embedder = shipped, likeness, embedder
        self._vectors: npt.NDArray[np.float32] | None = None
        self.by = "tf-idf" if embedder is None else embedder.name

    async def prepare(self, steps: Steps) -> None:
        """Embeds the shipped scenarios whose vectors are not in the run's steps."""
        if self._embedder is None:
            return
        texts = list(self._shipped.values())
        for start in range(0, len(texts), BATCH):
            await self._embed(texts[start : start + BATCH], steps)
        self._vectors = await self._embed(texts, steps)

    async def nearest(self, text: str, steps: Steps) -> list[tuple[str, float]]:
        """Ids and cosine similarities, nearest first; ties in the order of the set."""
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
        return [(ids[i], round(float(near[i]), 4)) for i in order]

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
