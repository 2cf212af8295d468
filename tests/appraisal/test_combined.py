"""The combined reader applied with numpy: shapes, ranges, and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.combined import CombinedModel, Landmarks
from heartloop.appraisal.features import COUNTS, Context, Layout
from heartloop.appraisal.linear import LinearModel
from heartloop.appraisal.network import Network
from heartloop.appraisal.word_vectors import RELEVANCE, TOKEN_FEATURES, Table, WordVectors
from heartloop.core.errors import InputError

WORDS = ("bread", "grandmother", "quilt", "the")
CONTEXT = Context(("I ate bread under the quilt.",), unsaid=("grandmother",))


@pytest.fixture
def table() -> Table:
    steps = np.random.default_rng(0).integers(-127, 127, (len(WORDS), 128)).astype(np.int8)
    return Table(WORDS, steps, np.array([1, 1, 1, 0], np.float16))


@pytest.fixture
def model(table: Table) -> CombinedModel:
    draw = np.random.default_rng(0)
    names, counts = (*ASPECTS, "change"), len(COUNTS) + len(RELEVANCE)
    marks = WordVectors(table).ids - len(WORDS)
    shapes = ((marks, 128), (128 + len(TOKEN_FEATURES) + 1, 8), (25, 8), (25, 8), (16 + counts + 1, 4), (5, len(names)))
    networks = [Network(*(draw.normal(0, 0.1, shape).astype(np.float16) for shape in shapes)) for _ in range(2)]
    inputs = counts + 2 * 128
    landmarks = Landmarks(
        np.zeros(inputs, np.float32), np.ones(inputs, np.float32), draw.normal(0, 0.1, (3, inputs)).astype(np.float16),
        draw.normal(0, 0.1, (3, len(names))).astype(np.float32),
    )  # fmt: skip
    linear = LinearModel(
        Layout(bits=6), names, draw.normal(0, 0.1, (64, len(names))).astype(np.float16),
        np.zeros((len(COUNTS), len(names)), np.float32), np.zeros(len(COUNTS), np.float32), np.ones(len(COUNTS), np.float32),
        np.full(len(names), 2.0, np.float32), {},
    ).rounded()  # fmt: skip
    half = (np.zeros(counts, np.float32), np.ones(counts, np.float32))
    return CombinedModel(linear, table, landmarks, networks, *half, {"examples": 0})


@pytest.mark.parametrize("reply", ["", "...", "你好", "The bread! Your grandmother's quilt?", "word " * 3_000])
def test_marks_of_any_reply_are_finite_and_in_range(model: CombinedModel, reply: str) -> None:
    marks = model.predict(reply, CONTEXT)
    assert marks.shape == (len(ASPECTS),)
    assert ((marks >= 0.0) & (marks <= 4.0)).all()
    assert model.parts(reply, Context(()))[1].shape == (2, len(ASPECTS) + 1)


def test_nearness_to_what_the_reply_is_about(table: Table) -> None:
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


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reader.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError):
        CombinedModel.load(path)
    with pytest.raises(InputError):
        CombinedModel.load(tmp_path / "missing.npz")
