"""Embeddings through the one HTTP client, and the nearest scenarios by them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.authoring.checks import BATCH, NEIGHBOURS, Likeness, MeteredEmbedder, Neighbours
from heartloop.authoring.store import WrittenFiles
from heartloop.core.dialogue import Usage
from heartloop.core.errors import BudgetSpent, InputError, MalformedReply, RefusedByServer
from heartloop.models.budget import Meter
from heartloop.models.client import EndpointChat
from heartloop.models.formats import Embedded, Trouble, read_embeddings
from tests.faulty_server import FaultyServer

KEY = "sk-test-0123456789abcdefghij"
TEXTS = ["aaa", "bbb", "abc"]


async def at_once(_: float) -> None:
    """Retries do not wait."""


def model(server: FaultyServer, **how: Any) -> EndpointChat:
    return EndpointChat("lab/e", model="e", base_url=server.base_url, api_key=KEY, retries=2, sleep=at_once, **how)


async def test_vectors_come_in_the_order_of_the_texts_with_their_usage() -> None:
    async with FaultyServer("mixed_vectors") as server, model(server) as chat:
        found = await chat.embed(TEXTS)
    assert [vector[:3] for vector in found.vectors] == [(3.0, 0.0, 0.0), (0.0, 3.0, 0.0), (1.0, 1.0, 1.0)]
    assert found.usage == Usage(prompt_tokens=3)
    assert server.requests[0].body == {"model": "e", "input": TEXTS}
    assert server.requests[0].authorization == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("short_vector", "embeddings of several lengths"),
        ("nan_vector", "not finite"),
        ("zero_vector", "empty, zero or not finite"),
        ("few_vectors", "2 embeddings of 3 texts"),
        ("truncated_json@embed", "no list of embeddings"),
        ("html@embed", "no list of embeddings"),
        ("error_in_200@embed", "no list of embeddings"),
    ],
)
async def test_what_is_no_set_of_vectors_is_asked_again_then_an_error(fault: str, said: str) -> None:
    async with FaultyServer(f"{fault}:2") as server, model(server) as chat:
        assert len((await chat.embed(TEXTS)).vectors) == 3
        assert chat.retried == 2
    async with FaultyServer(fault) as server, model(server) as chat:
        with pytest.raises(MalformedReply, match=said) as caught:
            await chat.embed(TEXTS)
    assert "no embedding in 3 tries" in str(caught.value)
    assert "LAB_BASE_URL" in str(caught.value)
    assert len(server.requests) == 3


async def test_a_500_is_tried_again_and_a_401_is_not_and_tells_no_key() -> None:
    async with FaultyServer("error_500@embed:1") as server, model(server) as chat:
        assert len((await chat.embed(TEXTS)).vectors) == 3
    async with FaultyServer("unauthorized@embed") as server, model(server) as chat:
        with pytest.raises(RefusedByServer, match="set LAB_API_KEY to a valid key") as caught:
            await chat.embed(TEXTS)
    assert len(server.requests) == 1
    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert KEY[:12] not in "".join(report.format())


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "embedding", "index", "usage"]), inner),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_whatever_a_server_sends_is_vectors_or_trouble(data: bytes) -> None:
    found = read_embeddings(data, ["a"])
    if isinstance(found, Embedded):
        assert len(found.vectors) == 1
        assert np.isfinite(found.vectors[0]).all()
    else:
        assert isinstance(found, Trouble)


SHIPPED = {f"s{i}": text for i, text in enumerate(["a boat", "a bee", "the bees hum", "zebra zoo", "a boot"])}


class Counting:
    """An embedder that makes vectors of letter counts and notes what it was asked."""

    name = "lab/e"

    def __init__(self, letters: str = "abehmotuz") -> None:
        self.asked: list[list[str]] = []
        self._letters = letters

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked.append(list(texts))
        vectors = tuple(tuple(float(text.count(letter)) + 0.01 for letter in self._letters) for text in texts)
        return Embedded(vectors, Usage(prompt_tokens=len(texts)))


def near(embedder: Any, texts: dict[str, str] = SHIPPED) -> Neighbours:
    return Neighbours(texts, Likeness(list(texts.values())), embedder)


async def found_by(embedder: Any, out: Path, text: str) -> list[tuple[str, float]]:
    with WrittenFiles(out, {}) as files:
        neighbours = near(embedder)
        await neighbours.prepare(files.steps())
        return await neighbours.nearest(text, files.steps(1))


async def test_nearest_first_by_cosine_and_never_more_than_three(tmp_path: Path) -> None:
    found = await found_by(Counting(), tmp_path / "a.jsonl", "a boat")
    assert found[0] == ("s0", 1.0)
    assert len(found) == NEIGHBOURS == 3
    own = {name: np.array([text.count(letter) + 0.01 for letter in "abehmotuz"]) for name, text in SHIPPED.items()}
    cosine = {name: float(v @ own["s0"] / np.linalg.norm(v) / np.linalg.norm(own["s0"])) for name, v in own.items()}
    assert [name for name, _ in found] == sorted(cosine, key=lambda name: -cosine[name])[:3]
    assert all(abs(similarity - cosine[name]) < 1e-3 for name, similarity in found)


async def test_a_vector_is_paid_for_once_and_large_sets_are_asked_for_in_parts(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    before = await found_by(first, tmp_path / "a.jsonl", "a beet")
    assert first.asked == [list(SHIPPED.values()), ["a beet"]]
    assert await found_by(second, tmp_path / "a.jsonl", "a beet") == before
    assert second.asked == []
    with WrittenFiles(tmp_path / "b.jsonl", {}) as files:
        await near(second, {f"s{i}": f"text {i}" for i in range(2 * BATCH + 1)}).prepare(files.steps())
    assert [len(part) for part in second.asked] == [BATCH, BATCH, 1]


async def test_a_model_that_changed_its_length_is_refused(tmp_path: Path) -> None:
    await found_by(Counting(), tmp_path / "a.jsonl", "a beet")
    with pytest.raises(InputError, match="a vector of 2 numbers, and of 9 before"):
        await found_by(Counting("ab"), tmp_path / "a.jsonl", "another")


async def test_spending_is_counted_and_a_limit_holds() -> None:
    async with FaultyServer() as server, model(server) as chat:
        meter = Meter()
        await MeteredEmbedder(chat, meter).embed(TEXTS)
        assert (meter.spend().tokens, meter.spend().calls) == (3, 1)
        tight = MeteredEmbedder(chat, Meter(max_tokens=2))
        with pytest.raises(BudgetSpent):
            await tight.embed(TEXTS)
    assert len(server.requests) == 1
