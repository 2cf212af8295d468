"""Features of a reply: the same everywhere, of any text, and only of what stands before the reply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of, lacks_english, tokens_of, unreadable

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


def test_copied_words_are_counted() -> None:
    copied = counts("So the chair was kept for me, I hear.")
    assert copied["copied_run"] == pytest.approx(6 / 6)  # the chair was kept for me
    assert copied["copied_share"] == pytest.approx(6 / 9)
    assert counts("Nobody sat there.")["copied_run"] == 0
    assert counts("Go on, go on, go on.")["repetition"] == pytest.approx(4 / 6)
    assert counts("我看见了那把椅子", Context(("那把椅子是她的",)))["copied_run"] == pytest.approx(4 / 6)


def test_a_reply_overlaps_with_the_earlier_reply_that_is_most_like_it() -> None:
    context = SAID._replace(replies=("The ferry left without you.", "Whose chair?"))
    assert counts("Another ferry left.", context)["own_overlap"] == pytest.approx(2 / 3)  # ferry, left; not another
    assert counts("Another ferry left.", SAID)["own_overlap"] == 0


def test_what_is_unsaid_counts_only_where_the_reply_is_first_to_name_it() -> None:
    context = SAID._replace(unsaid=("She waited for hours.", "The chair."))
    assert counts("She must have waited by that chair.", context)["unsaid_overlap"] == pytest.approx(1 / 2)  # waited, not chair
    assert counts("Silence.")["unsaid_overlap"] == 0


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_text_has_finite_features(reply: str, message: str) -> None:
    features = features_of(reply, Context((message,)), FeatureLayout(message=(1, 2)))
    assert features.counts.shape == (len(COUNTS),)
    assert np.isfinite(features.counts).all()
    assert np.isfinite(features.values).all()
    assert features.buckets.min(initial=0) >= 0
    assert features.tokens == len(tokens_of(reply))


@pytest.mark.parametrize(("text", "other"), [
    ("我在这里，慢慢说。", True), ("Das tut mir wirklich leid, erzähl mir bitte mehr davon, wenn du magst.", True),
    ("Je suis désolé, je ne peux pas venir te chercher ce soir à la gare.", True), ("", False), ("ok", False),
    ("nine days in crete with my mum", False),
    ("Fourteen to one. And I know who the one was, it was Big Sue, and she votes against everything.", False),
])  # fmt: skip
def test_other_languages_are_recognised(text: str, other: bool) -> None:
    assert lacks_english(text) is other
    assert (unreadable(text) == "language") is other


@pytest.mark.parametrize(("reply", "why"), [
    ("Es tut mir leid.", "language"), ("lo siento mucho", "language"), ("Ay, mamá. You stood there all night?", ""),
    ("import os\nos.remove(path);\nreturn None", "code"), ("Try this:\n```\nsleep()\n```", "code"),
    ("x = {}; y = [a[i] for i in (1, 2)]", "code"), ("ok (I think) :)", ""), ("- sleep\n- call her\n- eat; then rest", ""),
])  # fmt: skip
def test_short_replies_in_another_language_and_code_are_unreadable(reply: str, why: str) -> None:
    assert unreadable(reply) == why
