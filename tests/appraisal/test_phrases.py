"""The language of phrases, as a specification: one line for each thing it can say. Rules say why they are there."""

from __future__ import annotations

import pytest

from heartloop.appraisal.lexicon import data
from heartloop.appraisal.phrases import parse_phrase
from heartloop.core.errors import InputError


@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        ("i am sorry", "well i am sorry for you", True),
        ("i am sorry", "i am so sorry", False),
        ("i am (so|very)? sorry", "i am so sorry", True),
        ("(hard|no fun)", "that is no fun", True),
        ("you are (so|very)* brave", "you are so very brave", True),
        ("sound* hard", "it sounded hard", True),
        ("a _ idea", "a cracking idea", True),
        ("try _ing", "try splashing water", True),
        ("@distress", "how awful", True),
        ("how ... today", "how can i assist you today", True),
        ("^ sorry", "oh and sorry", True),
        ("^ sorry", "he is sorry", False),
        ("me too $", "me too", True),
        ("me too $", "me too i think", False),
    ],
)
def test_what_a_phrase_matches(source: str, text: str, found: bool) -> None:
    phrase = parse_phrase(source)
    assert bool(phrase.regex.search(f" {text} ")) is found
    if found:  # what a phrase needs must be there when it matches, or the index would lose it
        words = text.split()
        assert phrase.triggers & {"*", *words, *(w[:3] + "*" for w in words)}


@pytest.mark.parametrize("source", ["a (b", "a|b", "(a (b|c))", "well, then"])
def test_what_is_no_phrase_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="expected words"):
        parse_phrase(source)


def test_every_rule_gives_its_reason() -> None:
    entries = [*data("rules.toml")["rule"], *data("flaws.toml")["pattern"], *data("lexicon.toml")["class"].values()]
    assert all(entry["why"].rstrip().endswith((".", '"')) for entry in entries)
