"""Models worked by hand, and their files: the same content for the same model, and a hash that stays between versions."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heartloop.core.errors import InputError
from heartloop.environments.perm.users import RESONATION
from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of
from heartloop.reader.model import (
    SHARPNESS,
    SHIPPED,
    STUDENT,
    Landmarks,
    LinearModel,
    ReaderModel,
    WordTable,
    WordVectors,
    digest,
    packed,
)
from heartloop.reader.reader import EMBEDDED_WEIGHTS

SAID = Context(("The chair was kept for me, with her bag on it.",))
TABLE = WordTable(("bread", "quilt"), np.array([[3, 4], [0, -9]], np.int8))
WIDTH = len(COUNTS)


def linear(**changes: Any) -> LinearModel:
    layout = FeatureLayout(bits=8)
    zeros = np.zeros((WIDTH, 1), np.float32)
    ngrams = np.random.default_rng(0).normal(size=(layout.buckets, 1)).astype(np.float16)
    offset = np.array([1.5], np.float32)
    model = LinearModel(layout, ("mood",), ngrams, zeros, zeros[:, 0], zeros[:, 0] + 1, offset, {"environment": "sage"})
    return model._replace(**changes)


def reader(**changes: Any) -> ReaderModel:
    """Two landmarks: one with the word vector (1, 0), one with (0, 1); the counts are weighed to nothing."""
    points = np.zeros((2, WIDTH + 2), np.float16)
    points[0, -2] = points[1, -1] = 1.0
    spread = np.array([*[1e9] * WIDTH, 1.0, 1.0], np.float32)
    weights = np.array([[1.0], [2.0]], np.float16)
    landmarks = Landmarks(np.zeros(WIDTH + 2, np.float32), spread, points, weights)
    return ReaderModel(linear().rounded(), TABLE, landmarks._replace(**changes))


def apply(model: ReaderModel, reply: str) -> float:
    return float(model.apply(features_of(reply, SAID, model.linear.layout), reply)[0])


def content(archive: bytes) -> dict[str, object]:
    """The arrays of an archive, and of one within it: the bytes around them differ between versions of Python."""
    with np.load(io.BytesIO(archive)) as opened:
        arrays = {name: opened[name] for name in opened.files}
    return {
        name: content(array.tobytes()) if array.tobytes()[:2] == b"PK" else (str(array.dtype), array.shape, array.tobytes())
        for name, array in arrays.items()
    }


def test_a_linear_prediction_is_offset_plus_counts_plus_ngrams() -> None:
    """A count of 2 with center 1, spread 2 and weight 3 adds 1.5; an n-gram adds its weight by its share of the length."""
    nothing = linear(ngrams=np.zeros((256, 1), np.float16))
    assert nothing.predict("Hello.", SAID).tolist() == [1.5]
    place = COUNTS.index("exclamations")
    weights, center, spread = np.zeros((WIDTH, 1), np.float32), np.zeros(WIDTH, np.float32), np.ones(WIDTH, np.float32)
    weights[place], center[place], spread[place] = 3.0, 1.0, 2.0
    assert nothing._replace(counts=weights, center=center, spread=spread).predict("Hello!!!!!!", SAID).tolist() == [3.0]
    one_word = nothing._replace(layout=FeatureLayout(bits=8, words=(1,), characters=()), ngrams=np.full((256, 1), 2, np.float16))
    assert one_word.predict("Hello", SAID)[0] == pytest.approx(1.5 + 2 * 3 / np.sqrt(3))  # start, hello and end, of length 1


def test_word_vectors_count_with_length_one_and_unknown_words_as_nothing() -> None:
    words = WordVectors(TABLE)
    assert words.mean("Bread!").tolist() == pytest.approx([0.6, 0.8])
    assert words.mean("Bread, quilt, bread or rye").tolist() == pytest.approx([1.2 / 5, (1.6 - 1.0) / 5])
    assert words.mean("").tolist() == words.mean("Rye.").tolist() == [0.0, 0.0]


def test_nearness_to_landmarks_is_by_the_angle_of_standardised_inputs() -> None:
    two = Landmarks(
        np.array([1.0, 0.0], np.float32),
        np.array([2.0, 1.0], np.float32),
        np.eye(2, dtype=np.float16),
        np.zeros((2, 0), np.float16),
    )
    # (7 - 1) / 2 = 3 and 4: the cosines are 0.6 and 0.8; the center is near to none
    first, center = two.near(np.array([[7.0, 4.0], [1.0, 0.0]], np.float32)).tolist()
    assert first == pytest.approx([np.exp(SHARPNESS * -0.4), np.exp(SHARPNESS * -0.2)])
    assert center == pytest.approx([np.exp(-SHARPNESS)] * 2)


def test_a_reader_adds_landmarks_to_a_linear_model() -> None:
    without = apply(reader(weights=np.zeros((2, 1), np.float16)), "bread")
    assert without == pytest.approx(float(linear().predict("bread", SAID)[0]), abs=0.02)  # n-gram weights in 255 steps
    added = apply(reader(), "bread") - without
    assert added == pytest.approx(np.exp(SHARPNESS * -0.4) + 2 * np.exp(SHARPNESS * -0.2), abs=1e-5)


def test_a_file_gives_a_linear_model_back(tmp_path: Path) -> None:
    path = tmp_path / "one.student"
    path.write_bytes(linear().to_bytes())
    again = LinearModel.load(path)
    assert again.predict("Leave it.", SAID) == linear().predict("Leave it.", SAID)
    assert (again.hash, again.layout, dict(again.card)) == (linear().hash, linear().layout, {"environment": "sage"})
    assert linear(card={}).hash == linear().hash != linear(offset=np.array([2.0], np.float32)).hash


def test_a_file_gives_a_reader_back(tmp_path: Path) -> None:
    path = tmp_path / "reader.npz"
    path.write_bytes(reader().to_bytes())
    again = ReaderModel.load(path)
    assert (again.hash, again.to_bytes()) == (reader().hash, reader().to_bytes())
    assert apply(again, "The bread!") == apply(reader(), "The bread!")
    assert again.hash != reader(weights=np.ones((2, 1), np.float16)).hash


@pytest.mark.parametrize(
    "damaged",
    [
        b"weights",
        linear().to_bytes()[:-100],
        packed(STUDENT, {}, {"x": np.zeros(3)}),
        linear().to_bytes(STUDENT._replace(fixed={**STUDENT.fixed, "counts": ["words"]})),
        linear().to_bytes(STUDENT._replace(fixed={**STUDENT.fixed, "format": 1})),  # counted `own_overlap` in another way
    ],
    ids=["text", "cut off", "other archive", "older counts", "older format"],
)
def test_another_file_is_refused(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "one.student"
    for _ in ("missing", "damaged"):
        for load in (LinearModel.load, ReaderModel.load):
            with pytest.raises(InputError, match=r"one\.student"):
                load(path)
        path.write_bytes(damaged)


def test_the_shipped_files_are_what_their_models_write() -> None:
    assert content(ReaderModel.load(EMBEDDED_WEIGHTS).to_bytes()) == content(EMBEDDED_WEIGHTS.read_bytes())
    assert content(RESONATION.model.to_bytes(SHIPPED)) == content(RESONATION.weights.read_bytes())
    assert EMBEDDED_WEIGHTS.stat().st_size < 5_000_000


def test_the_hash_is_of_the_json_and_then_of_the_arrays() -> None:
    """Runs are compared by it: weights that did not change keep theirs."""
    array = np.array([[1, 2], [3, 4]], np.int8)
    whole = hashlib.sha256(b'["one", {"a": 1, "b": 2}]' + bytes([1, 2, 3, 4]))
    assert digest(["one", {"b": 2, "a": 1}], [array]) == whole.hexdigest()[:12]
    assert digest(["one", {"b": 2, "a": 1}], [array.T]) != whole.hexdigest()[:12]
