"""What a judge can quote that must choose its quote (`passages_of`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.environments.dialogue_text import passages_of, stands_in

TEXTS = st.one_of(st.text(), st.text(alphabet="ab .!?…\n“”'", max_size=400))


@given(st.lists(TEXTS, max_size=30))
def test_every_passage_is_a_valid_quote_and_stands_once(messages: list[str]) -> None:
    passages = list(passages_of(messages))
    assert all(stands_in(passage, messages) for passage in passages)
    assert len(set(passages)) == len(passages) <= 60


def test_the_latest_come_first_and_long_talks_are_cut() -> None:
    messages = [f"Sentence {number}. And again {number}!" for number in range(100)]
    assert list(passages_of(messages))[:3] == ["And again 99!", "Sentence 99.", "And again 98!"]
    assert len(list(passages_of(messages))) == 60


@pytest.mark.parametrize(
    "quote", ["nobody asked me", "“Nobody asked ME”", "nobody ... the vests", "Nobody asked me, about the vests!"]
)
def test_a_quote_is_found_whatever_its_marks(quote: str) -> None:
    assert stands_in(quote, ["Well.", "Nobody asked me about the vests."])


@pytest.mark.parametrize(
    "quote", ["", "...", "me", "vest", "the vests ... nobody", "nobody asked you", "Well. Nobody", "(silence)"]
)
def test_other_words_their_parts_and_words_across_messages_are_no_quote(quote: str) -> None:
    assert not stands_in(quote, ["Well.", "Nobody asked me about the vests."])


def test_silence_is_quoted_whole_and_a_long_sentence_in_parts() -> None:
    assert list(passages_of(["...", ""])) == ["(silence)", "..."]
    parts = list(passages_of(["so it goes on and on " * 30]))
    assert len(parts) >= 4
    assert max(map(len, parts)) <= 160
