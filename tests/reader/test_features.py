"""Features of a reply: the same everywhere, of any text, and only of what stands before the reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of, tokens_of
from heartloop.reader.model import SHIPPED, STUDENT, LinearModel, packed

SAID = Context(("The chair was kept for me, with her bag on it.",), ("I see.",))


def counts(reply: str, context: Context = SAID) -> dict[str, float]:
    return dict(zip(COUNTS, map(float, features_of(reply, context).counts), strict=True))


def test_the_hashes_are_the_same_on_every_machine() -> None:
    """Written down once: fitted weights belong to these buckets."""
    features = features_of("Leave it.", Context(()))
    assert len(features.buckets) == 43
    assert features.buckets[:6].tolist() == [13301, 15029, 24214, 27496, 28742, 31381]
    assert features_of("Leave it!", Context(())).buckets.tolist() != features.buckets.tolist()


def test_each_kind_of_ngrams_has_length_one() -> None:
    layout = FeatureLayout(message=(1, 2), message_weight=0.5)
    features = features_of("A chair, kept.", SAID, layout)
    assert float(features.values @ features.values) == pytest.approx(1 + 1 + 0.25)  # words, characters, message at half
    assert features.buckets.max() < layout.buckets
    assert len(features.counts) == len(COUNTS)


def test_copied_words_are_counted() -> None:
    copied = counts("So the chair was kept for me, I hear.")
    assert copied["copied_run"] == pytest.approx(6 / 6)  # the chair was kept for me
    assert copied["copied_share"] == pytest.approx(6 / 9)
    assert counts("Nobody sat there.")["copied_run"] == 0
    assert counts("Go on, go on, go on.")["repetition"] == pytest.approx(4 / 6)
    assert counts("我看见了那把椅子", Context(("那把椅子是她的",)))["copied_run"] == pytest.approx(4 / 6)


def test_what_is_unsaid_counts_only_where_the_reply_is_first_to_name_it() -> None:
    context = SAID._replace(unsaid=("She waited for hours.", "The chair."))
    assert counts("She must have waited by that chair.", context)["unsaid_overlap"] == pytest.approx(1 / 2)  # waited, not chair
    assert counts("Silence.")["unsaid_overlap"] == 0


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_text_has_finite_features(reply: str, message: str) -> None:
    features = features_of(reply, Context((message,)), FeatureLayout(message=(1, 2)))
    assert np.isfinite(features.counts).all()
    assert np.isfinite(features.values).all()
    assert features.buckets.min(initial=0) >= 0
    assert features.tokens == len(tokens_of(reply))


def model(**changes: Any) -> LinearModel:
    draw = np.random.default_rng(0)
    layout = FeatureLayout(bits=8)
    whole = LinearModel(
        layout,
        ("emotion",),
        draw.normal(size=(layout.buckets, 1)).astype(np.float16),
        np.zeros((len(COUNTS), 1), np.float32),
        np.zeros(len(COUNTS), np.float32),
        np.ones(len(COUNTS), np.float32),
        np.array([1.5], np.float32),
        {"environment": "sage"},
    )
    return whole._replace(**changes)


def test_a_prediction_is_offset_plus_counts_plus_ngrams() -> None:
    """Only the offset without n-grams; a count of 2 with center 1, spread 2 and weight 3 adds 1.5."""
    nothing = model(ngrams=np.zeros((256, 1), np.float16))
    assert nothing.predict("Hello.", SAID).tolist() == [1.5]
    place = COUNTS.index("exclamations")
    weights, center, spread = np.zeros((len(COUNTS), 1), np.float32), np.zeros(len(COUNTS), np.float32), nothing.spread.copy()
    weights[place], center[place], spread[place] = 3.0, 1.0, 2.0
    six = nothing._replace(counts=weights, center=center, spread=spread)
    assert six.predict("Hello!!!!!!", SAID).tolist() == [3.0]  # six exclamation marks count 2


def test_a_file_gives_the_model_back(tmp_path: Path) -> None:
    path = tmp_path / "one.student"
    path.write_bytes(model().to_bytes())
    again = LinearModel.load(path)
    assert again.predict("Leave it.", SAID) == model().predict("Leave it.", SAID)
    assert (again.hash, again.layout, dict(again.card)) == (model().hash, model().layout, {"environment": "sage"})
    assert model(card={}).hash == model().hash != model(offset=np.array([2.0], np.float32)).hash
    path.write_bytes(model().to_bytes(SHIPPED))
    assert LinearModel.load(path, SHIPPED).hash == model().hash


@pytest.mark.parametrize(
    "content",
    [
        b"weights",
        model().to_bytes()[:-100],
        packed(STUDENT, {}, {"x": np.zeros(3)}),
        model().to_bytes(STUDENT._replace(fixed={**STUDENT.fixed, "counts": ["words"]})),
        model().to_bytes(STUDENT._replace(fixed={**STUDENT.fixed, "format": 1})),  # counted `own_overlap` in another way
    ],
    ids=["text", "cut off", "other archive", "older counts", "older format"],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one.student"
    for _ in ("missing", "damaged"):
        with pytest.raises(InputError, match=r"one\.student"):
            LinearModel.load(path)
        path.write_bytes(content)
