"""Models worked by hand, and their files: the same content for the same model, and a hash that stays between versions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heartloop.core.errors import InputError
from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of
from heartloop.reader.model import SHARPNESS, STUDENT, Landmarks, LinearModel, ReaderModel, WordTable, digest, packed

SAID = Context(("The chair was kept for me.",))
WIDTH = len(COUNTS)


def linear(**changes: Any) -> LinearModel:
    layout = FeatureLayout(bits=8)
    zeros = np.zeros((WIDTH, 1), np.float32)
    ngrams = np.random.default_rng(0).normal(size=(layout.buckets, 1)).astype(np.float16)
    offset = np.array([1.5], np.float32)
    model = LinearModel(layout, ("mood",), ngrams, zeros, zeros[:, 0], zeros[:, 0] + 1, offset, {"environment": "sage"})
    return model._replace(**changes)


def reader(**changes: Any) -> ReaderModel:
    """Two landmarks: one in the direction of each component of the word vectors; the counts are weighed to nothing."""
    points = np.zeros((2, WIDTH + 2), np.float16)
    points[0, -2] = points[1, -1] = 1.0
    center = np.array([*[0.0] * WIDTH, 0.3, 0.4], np.float32)
    spread = np.array([*[1e9] * WIDTH, 0.1, 0.1], np.float32)
    landmarks = Landmarks(center, spread, points, np.array([[1.0], [2.0]], np.float16))
    table = WordTable(("bread", "quilt"), np.array([[3, 4], [0, -9]], np.int8))
    return ReaderModel(linear().rounded(), table, landmarks._replace(**changes))


def apply(model: ReaderModel, reply: str) -> float:
    return float(model.apply(features_of(reply, SAID, model.linear.layout), reply)[0])


def test_a_linear_prediction_is_offset_plus_counts_plus_ngrams() -> None:
    """Only the offset without n-grams; a count of 2 with center 1, spread 2 and weight 3 adds 1.5."""
    nothing = linear(ngrams=np.zeros((256, 1), np.float16))
    assert nothing.predict("Hello.", SAID).tolist() == [1.5]
    place = COUNTS.index("exclamations")
    weights, center, spread = np.zeros((WIDTH, 1), np.float32), np.zeros(WIDTH, np.float32), np.ones(WIDTH, np.float32)
    weights[place], center[place], spread[place] = 3.0, 1.0, 2.0
    six = nothing._replace(counts=weights, center=center, spread=spread)
    assert six.predict("Hello!!!!!!", SAID).tolist() == [3.0]  # six exclamation marks count 2


def test_word_vectors_count_with_length_one_and_unknown_words_as_nothing() -> None:
    words = reader().words
    assert words.mean("Bread!").tolist() == pytest.approx([0.6, 0.8])
    assert words.mean("Bread, quilt, bread or rye").tolist() == pytest.approx([1.2 / 5, (1.6 - 1.0) / 5])
    assert words.mean("").tolist() == words.mean("Rye.").tolist() == [0.0, 0.0]


def test_landmarks_add_by_the_angle_between_standardised_inputs() -> None:
    """Bread is (0.6 - 0.3) / 0.1 = 3 and (0.8 - 0.4) / 0.1 = 4: the cosines are 0.6 and 0.8."""
    inputs = np.array([*[0.0] * WIDTH, 0.6, 0.8], np.float32)
    expected = [np.exp(SHARPNESS * -0.4), np.exp(SHARPNESS * -0.2)]
    assert reader().landmarks.near(inputs).tolist() == pytest.approx(expected)
    assert reader().landmarks.near(reader().landmarks.center).tolist() == pytest.approx([np.exp(-SHARPNESS)] * 2)
    without = apply(reader(weights=np.zeros((2, 1), np.float16)), "bread")
    assert without == pytest.approx(float(linear().predict("bread", SAID)[0]), abs=0.02)  # n-gram weights in 255 steps
    assert apply(reader(), "bread") - without == pytest.approx(expected[0] + 2 * expected[1], abs=1e-5)


def test_a_file_gives_the_model_back(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(linear().to_bytes())
    again = LinearModel.load(path)
    assert again.predict("Leave it.", SAID) == linear().predict("Leave it.", SAID)
    assert (again.hash, again.layout, dict(again.card)) == (linear().hash, linear().layout, {"environment": "sage"})
    assert linear(card={}).hash == linear().hash != linear(offset=np.array([2.0], np.float32)).hash
    path.write_bytes(reader().to_bytes())
    assert apply(ReaderModel.load(path), "The bread!") == apply(reader(), "The bread!")
    assert ReaderModel.load(path).hash == reader().hash != reader(weights=np.ones((2, 1), np.float16)).hash


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


def test_the_hash_is_of_the_json_and_then_of_the_arrays() -> None:
    """Runs are compared by it: weights that did not change keep theirs."""
    whole = hashlib.sha256(b'["one", {"a": 1, "b": 2}]' + bytes([1, 2, 3, 4]))
    assert digest(["one", {"b": 2, "a": 1}], [np.array([[1, 2], [3, 4]], np.int8)]) == whole.hexdigest()[:12]
