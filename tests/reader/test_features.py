"""Features of a reply: the same everywhere, of any text, and only of what stands before the reply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of, tokens_of, unreadable

SAID = Context(("The chair was kept for me, with her bag on it.",), ("I see.",))


def counts(reply: str, context: Context = SAID) -> dict[str, float]:
    return dict(zip(COUNTS, map(float, features_of(reply, context).counts), strict=True))


def test_the_hashes_are_the_same_on_every_machine() -> None:
    """Written down once: fitted weights belong to these buckets."""
    features = features_of("Leave it.", Context(()))
    assert len(features.buckets) == 43
    assert features.buckets[:6].tolist() == [13301, 15029, 24214, 27496, 28742, 31381]


def test_each_kind_of_ngrams_has_length_one() -> None:
    layout = FeatureLayout(message=(1, 2), message_weight=0.5)
    features = features_of("A chair, kept.", SAID, layout)
    assert float(features.values @ features.values) == pytest.approx(1 + 1 + 0.25)  # words, characters, message at half
    assert features.buckets.max() < layout.buckets


def test_copied_words_are_counted() -> None:
    copied = counts("So the chair was kept for me, I hear.")
    assert copied["copied_run"] == pytest.approx(6 / 6)  # the chair was kept for me
    assert copied["copied_share"] == pytest.approx(6 / 9)
    assert counts("Go on, go on, go on.")["repetition"] == pytest.approx(4 / 6)
    assert counts("我看见了那把椅子", Context(("那把椅子是她的",)))["copied_run"] == pytest.approx(4 / 6)


def test_what_a_reply_is_about_is_compared_with_one_earlier_reply_and_with_what_is_unsaid() -> None:
    context = SAID._replace(
        replies=("The ferry left without you.", "Whose chair?"), unsaid=("She waited for hours.", "The chair.")
    )
    assert counts("Another ferry left.", context)["own_overlap"] == pytest.approx(2 / 3)  # ferry, left; not another
    assert counts("She must have waited by that chair.", context)["unsaid_overlap"] == pytest.approx(1 / 2)  # waited, not chair


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_text_has_finite_features(reply: str, message: str) -> None:
    features = features_of(reply, Context((message,)), FeatureLayout(message=(1, 2)))
    assert features.counts.shape == (len(COUNTS),)
    assert np.isfinite(features.counts).all()
    assert np.isfinite(features.values).all()
    assert features.tokens == len(tokens_of(reply))


@pytest.mark.parametrize(("reply", "why"), [
    ("我在这里，慢慢说。", "language"), ("Das tut mir wirklich leid, erzähl mir bitte mehr davon, wenn du magst.", "language"),
    ("Je suis désolé, je ne peux pas venir te chercher ce soir à la gare.", "language"), ("lo siento mucho", "language"),
    ("nine days in crete with my mum", ""), ("Ay, mamá. You stood there all night?", ""), ("ok", ""),
    ("Fourteen to one. And I know who the one was, it was Big Sue, and she votes against everything.", ""),
    ("import os\nos.remove(path);\nreturn None", "code"), ("Try this:\n```\nsleep()\n```", "code"),
    ("x = {}; y = [a[i] for i in (1, 2)]", "code"), ("ok (I think) :)", ""), ("- sleep\n- call her\n- eat; then rest", ""),
])  # fmt: skip
def test_other_languages_and_code_are_unreadable(reply: str, why: str) -> None:
    assert unreadable(reply) == why
