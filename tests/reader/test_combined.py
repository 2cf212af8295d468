"""The combined reader applied with numpy: shapes, ranges, and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import COUNTS, Context, FeatureLayout
from heartloop.reader.model import WIDTH, CombinedModel, Landmarks, LinearModel, Network
from heartloop.reader.word_vectors import RELEVANCE, TOKEN_FEATURES, WordTable, WordVectors

WORDS = ("bread", "grandmother", "quilt", "the")
CONTEXT = Context(("I ate bread under the quilt.",), unsaid=("grandmother",))


@pytest.fixture
def table() -> WordTable:
    steps = np.random.default_rng(0).integers(-127, 127, (len(WORDS), 128)).astype(np.int8)
    return WordTable(WORDS, steps, np.array([1, 1, 1, 0], np.float16))


@pytest.fixture
def model(table: WordTable) -> CombinedModel:
    draw = np.random.default_rng(0)
    names, counts = (*ASPECTS, "change-0"), len(COUNTS) + len(RELEVANCE)
    ids = len(WordVectors(table).vectors)
    shapes = ((WIDTH + len(TOKEN_FEATURES) + 1, 8), (25, 8), (25, 8), (16 + counts + 1, 4), (5, len(names)))
    networks = [
        Network(
            draw.integers(-127, 128, (ids, WIDTH)).astype(np.int8), np.array(0.01, np.float32),
            *(draw.normal(0, 0.1, shape).astype(np.float16) for shape in shapes),
        )
        for _ in range(2)
    ]  # fmt: skip
    inputs = counts + 2 * 128
    landmarks = Landmarks(
        np.zeros(inputs, np.float32), np.ones(inputs, np.float32), draw.normal(0, 0.1, (3, inputs)).astype(np.float16),
        draw.normal(0, 0.1, (3, len(ASPECTS))).astype(np.float32),
    )  # fmt: skip
    linear = LinearModel(
        FeatureLayout(bits=6), names, draw.normal(0, 0.1, (64, len(names))).astype(np.float16),
        np.zeros((len(COUNTS), len(names)), np.float32), np.zeros(len(COUNTS), np.float32), np.ones(len(COUNTS), np.float32),
        np.full(len(names), 2.0, np.float32), {"examples": 0},
    ).rounded()  # fmt: skip
    return CombinedModel(linear, table, landmarks, networks)


@pytest.mark.parametrize("reply", ["", "...", "你好", "The bread! Your grandmother's quilt?", "word " * 3_000])
def test_predictions_of_any_reply_are_finite(model: CombinedModel, reply: str) -> None:
    for context in (CONTEXT, Context(())):
        values = model.predict(reply, context)
        assert values.shape == (len(model.linear.outputs),)
        assert np.isfinite(values).all()


def test_aspects_are_the_mean_of_ridge_and_networks(model: CombinedModel) -> None:
    linear, table, landmarks, networks = model.linear, model.table, model.landmarks, model.networks
    ridge, both, first, second = (
        CombinedModel(linear, table, landmarks, some).predict("The bread!", CONTEXT)
        for some in ((), networks, networks[:1], networks[1:])
    )
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-5)
    assert not np.allclose(ridge[: len(ASPECTS)], both[: len(ASPECTS)])
    assert ridge[-1] == both[-1]
    assert len({CombinedModel(linear, table, landmarks, some).hash for some in ((), networks, networks[:1])}) == 3


def test_nearness_to_what_the_reply_is_about(table: WordTable) -> None:
    relevance = dict(zip(RELEVANCE, WordVectors(table).read("Grandmother.", CONTEXT).relevance.tolist(), strict=True))
    assert relevance["unsaid_same"] == 1.0
    assert relevance["messages_same"] == relevance["sore_mean"] == 0.0


def test_the_file_gives_the_same_model(model: CombinedModel, tmp_path: Path) -> None:
    path = tmp_path / "reader.npz"
    path.write_bytes(model.to_bytes())
    read = CombinedModel.load(path)
    assert read.hash == model.hash
    assert read.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(read.predict("The bread!", CONTEXT), model.predict("The bread!", CONTEXT))
