"""What a reply undertakes, clause by clause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.appraisal import matters_named, stances_of
from heartloop.appraisal.words import read_sentence


def does(text: str, what: str) -> bool:
    return any(getattr(stance, what) for stance in stances_of(text))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("I can't do that for you.", "refuses"),
        ("The rules are the same for everybody, and the policy says no.", "refuses"),
        ("If I could, I would open it.", "refuses"),
        ("I'll ring the office for you tomorrow.", "offers"),
        ("How about Saturday?", "offers"),
        ("All right, you win.", "grants"),
        ("I'll make an exception, just this once.", "grants"),
        ("I apologise.", "apologises"),
        ("I forgot your name.", "owns"),
        ("I promised it and then slept.", "owns"),
        ("That was me.", "owns"),
        ("It was just a misunderstanding.", "excuses"),
        ("You have to understand that I was so tired.", "excuses"),
        ("Can I have your number?", "seeks_closeness"),
        ("I have never kept a plant alive.", "light"),
    ],
)
def test_a_stance_is_seen(text: str, what: str) -> None:
    assert does(text, what)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("I can't make an exception.", "grants"),
        ("If I could, I'd let you have it your way.", "grants"),
        ("I won't ring the office.", "offers"),
        ("You forgot your name.", "owns"),
        ("The train left at six.", "refuses"),
    ],
)
def test_what_is_none_is_not_seen(text: str, what: str) -> None:
    assert not does(text, what)


def test_a_no_and_an_offer_in_one_sentence_stay_apart() -> None:
    first, second = stances_of("I can't let you in, but I can raise the blind.")
    assert (first.refuses, first.offers, second.refuses, second.offers) == (True, False, False, True)


def test_matters_are_named_by_their_cues_in_other_forms() -> None:
    matters = [("blind", ("raise the blind", "window")), ("couch", ("couch", "blanket"))]
    assert matters_named(read_sentence("Shall I bring you blankets?"), matters) == ["couch"]
    assert matters_named(read_sentence("It is late."), matters) == []


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    for stance in stances_of(text):
        assert not (stance.refuses and stance.offers)
