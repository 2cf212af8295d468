"""What a whole set of scenarios must pass before it ships; embeddings, and the nearest scenarios by them."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from heartloop.authoring.checks import (
    BATCH,
    NEAR_DUPLICATE,
    NEIGHBOURS,
    Likeness,
    MeteredEmbedder,
    Neighbours,
    problems_of_set,
    similarity,
)
from heartloop.authoring.store import WrittenFiles
from heartloop.cli.main import app
from heartloop.core.dialogue import Usage
from heartloop.core.errors import BudgetSpent, EndpointStopped, InputError, MalformedReply, UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.scenario import SCENARIOS, SageScenario, load_scenarios
from heartloop.models.budget import Meter
from heartloop.models.client import EndpointChat
from heartloop.models.formats import Embedded, Trouble, read_embeddings
from tests.faulty_server import FaultyServer

ONE, TWO, THREE = load_scenarios("support")[:3]


def plain(scenario: SageScenario) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(scenario.model_dump_json())
    return found


def changed(scenario: SageScenario, **changes: Any) -> SageScenario:
    return SageScenario.model_validate(plain(scenario) | changes)


@pytest.fixture
def without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)


@pytest.mark.usefixtures("without_scikit_learn")
def test_without_scikit_learn_one_sentence_says_what_to_install() -> None:
    with pytest.raises(UseError, match=r"scikit-learn.*\[authoring\]"):
        similarity(["one", "two"])


@pytest.mark.usefixtures("without_scikit_learn")
def test_without_scikit_learn_everything_but_near_duplicates_is_checked() -> None:
    persona = plain(ONE)["persona"]
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, persona=persona), changed(THREE, title="Another")])
    assert "2 people of the same name and occupation" in problem
    done = CliRunner().invoke(app, ["scenarios", "check", "sage"])
    assert done.exit_code == 0, done.output
    assert done.stdout.count("no problem found") == len(load_environment("sage").scenarios.sets)
    assert done.stderr.count("Near-duplicates were not compared") == len(done.stderr.splitlines()) == 1


def test_a_scenarios_own_problem_is_named_with_its_id() -> None:
    lines = plain(TWO)["lines"]
    lines["leave"][0] = "I have had enough of this for one evening."
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, lines=lines), THREE])
    assert problem.startswith(f"{TWO.id}: closing line has no goodbye")


def test_the_same_story_under_another_id_is_a_near_duplicate() -> None:
    persona = plain(ONE)["persona"] | {"name": "Adaeze Eze"}
    problems = problems_of_set(SCENARIOS, [ONE, TWO, changed(ONE, id="support-dialectic-99", persona=persona)])
    assert f"{ONE.id} and support-dialectic-99 are near-duplicates (cosine 1.00)" in problems
    assert not any(TWO.id in problem for problem in problems)


def test_namesakes_of_the_same_trade_are_refused_whatever_the_case_of_letters() -> None:
    persona = plain(TWO)["persona"]
    persona |= {"name": ONE.persona.name.upper(), "occupation": ONE.persona.occupation.capitalize()}
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, persona=persona)])
    assert "2 people of the same name and occupation" in problem


@pytest.mark.parametrize("slot", ["name", "occupation"])
def test_sharing_only_the_name_or_only_the_trade_is_allowed(slot: str) -> None:
    persona = plain(TWO)["persona"] | {slot: getattr(ONE.persona, slot)}
    assert problems_of_set(SCENARIOS, [ONE, changed(TWO, persona=persona)]) == []


def test_a_line_two_people_say_is_refused_punctuation_and_case_aside() -> None:
    lines = plain(TWO)["lines"]
    lines["cold"][0] = ONE.lines.cold[1].upper().replace(".", "!")
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, lines=lines)])
    assert problem.startswith(f"{TWO.id} and {ONE.id} both say ")


def test_similarity_is_the_cosine_of_character_n_grams() -> None:
    likeness = similarity(["the boat sank on sunday", "the boat sank on sunday", "zyx wvu"])
    assert likeness[0, 1:] == pytest.approx([1.0, 0.0])
    sentence = "My brother {} sold our father's boat without telling me, and I heard of it from the harbour master."
    assert similarity([sentence.format("Anton"), sentence.format("Mehmet")])[0, 1] > NEAR_DUPLICATE


KEY = "sk-test-0123456789abcdefghij"
pytestmark = pytest.mark.usefixtures("no_pauses")
TEXTS = ["aaa", "bbb", "abc"]


def model(server: FaultyServer, **how: Any) -> EndpointChat:
    return EndpointChat("lab/e", model="e", base_url=server.base_url, api_key=KEY, retries=2, **how)


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
        assert chat.retried.total() == 2
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
        with pytest.raises(EndpointStopped, match="LAB_API_KEY") as caught:
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
