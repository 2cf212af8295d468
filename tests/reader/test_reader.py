"""From what a model gives to a reading: the rules, by a model that gives what a test says; and the shipped reader."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.features import COUNTS, Context, FeatureLayout
from heartloop.reader.model import Landmarks, LinearModel, ReaderModel, WordTable
from heartloop.reader.reader import DANGER_WORTH, INSULT_WORTH, REPEATED_WORTH, EmbeddedReader, Reading, embedded_reader

CONTEXT = Context(("My sister has not rung since the funeral. I keep the phone on the windowsill.",))
LONG = "the gull " * 25
NAMES = ("A-1", "A-2", "B-1", "C-1", "F-4")
OUTPUTS = (*ASPECTS, *NAMES, "insults", "endangers", "worth-sage", "worth-perm")


def reader(**given: float) -> EmbeddedReader:
    """Its model gives these outputs for every reply, and 0 for others; `lean` is 0.2 in SAGE and 0.1 in PERM."""
    card = {
        "lean": {"sage": 0.2, "perm": 0.1},
        "least": {"insults": 0.5, "endangers": 0.5},
        "strategies": dict.fromkeys(NAMES, 0.25),
        "aspects": {"usual": [2.0] * len(ASPECTS), "spread": [0.5] * len(ASPECTS)},
    }
    width, count = len(COUNTS), len(OUTPUTS)
    offset = np.array([given.get(name.replace("-", "_"), 0.0) for name in OUTPUTS], np.float32)
    zeros, ones = np.zeros(width + 1, np.float32), np.ones(width + 1, np.float32)
    ngrams, counts = np.zeros((4, count), np.float16), np.zeros((width, count), np.float32)
    linear = LinearModel(FeatureLayout(bits=2), OUTPUTS, ngrams, counts, zeros[1:], ones[1:], offset, card)
    landmarks = Landmarks(zeros, ones, np.zeros((1, width + 1), np.float16), np.zeros((1, count), np.float16))
    return EmbeddedReader(ReaderModel(linear, WordTable(("a",), np.ones((1, 1), np.int8)), landmarks))


def worth(reply: str, value: float, context: Context = CONTEXT, **given: float) -> float:
    """In SAGE, where the model gives this value."""
    return reader(worth_sage=value, **given).read(reply, context).worth["sage"]


def test_short_replies_gain_what_leans_to_them_as_far_as_the_words_are_their_own() -> None:
    assert reader(worth_sage=0.3, worth_perm=-0.3).read(LONG, CONTEXT).worth == pytest.approx({"sage": 0.3, "perm": -0.3})
    assert worth("That is a long wait.", 0.3) == pytest.approx(0.3 + 0.2)
    assert worth(" ".join(LONG.split()[:30]), 0.3) == pytest.approx(0.3 + 0.2 / 2)  # half way from 20 words to 40
    assert worth("Hm, since the funeral.", 0.3) == pytest.approx(0.3 + 0.2 / 4)  # three of four words are copied
    assert worth("Oh.", -0.225) == pytest.approx(-0.225 + 0.2 / 2)  # half way from -0.1 to -0.35
    assert worth("Oh.", -0.4) == pytest.approx(-0.4)
    assert worth("Oh.", 0.95) == 1.0
    assert worth("Oh.", -1.4) == -1.0


@pytest.mark.parametrize(
    ("reply", "unread"), [("", ""), ("...", ""), ("🙂", ""), ("Es tut mir leid.", "language"), ("```\nsleep\n```", "code")]
)
def test_silence_and_what_cannot_be_read_are_worth_nothing(reply: str, unread: str) -> None:
    read = reader(worth_sage=0.9, A_1=0.9, endangers=0.9).read(reply, CONTEXT)
    assert (read.silent, read.unread, read.worth["sage"], read.strategies, read.floor) == (not unread, unread, 0.0, {}, "")


@pytest.mark.parametrize(
    ("reply", "given", "floor", "most"),
    [
        ("You pathetic idiot.", {}, "hostility", INSULT_WORTH),
        ("Go and kill yourself.", {}, "danger", DANGER_WORTH),
        ("So be it.", {"insults": 0.5}, "hostility", INSULT_WORTH),
        ("So be it.", {"endangers": 0.5, "insults": 0.9}, "danger", DANGER_WORTH),
        ("You pathetic idiot.", {"endangers": 0.5}, "hostility", INSULT_WORTH),  # the rule comes before the model
        ("So be it.", {"endangers": 0.49, "insults": 0.49}, "", 1.0),
    ],
)
def test_harm_limits_the_worth_whatever_the_model_gives(reply: str, given: dict[str, float], floor: str, most: float) -> None:
    assert reader(**given).read(reply, CONTEXT).floor == floor
    assert worth(reply, 2.0, CONTEXT, **given) == most
    assert worth(reply, -2.0, CONTEXT, **given) == -1.0


def test_words_handed_back_are_not_the_replys_own() -> None:
    """Runs of five words go; pieces of three and four stay, but eight words of which 60 % are the person's repeat them."""
    echo = reader(worth_sage=0.9).read("I keep the phone on the windowsill.", CONTEXT)
    assert (echo.unread, echo.worth["sage"]) == ("copy", 0.0)
    quoting = "You said: my sister has not rung since the funeral. How was that?"
    assert embedded_reader().read(quoting, CONTEXT).worth == embedded_reader().read("You said: . How was that?", CONTEXT).worth
    pieces = "My sister has not, keep the phone on."
    assert reader(worth_sage=0.9).read(pieces, CONTEXT).floor == "repetition"
    assert reader(worth_sage=0.9).read("Not rung since the funeral. And before?", CONTEXT).floor == ""


def test_what_was_said_before_is_a_repetition_also_with_other_words_added() -> None:
    same = "The phone lies on the windowsill between the plants and does not ring."
    added = [f"I believe you. Take all the time you need for it. {words}." for words in ("plants, phone", "windowsill")]
    for earlier, now in ((same, same), added):
        again = CONTEXT._replace(replies=("Go on.", earlier))
        assert reader().read(now, again).floor == "repetition"
        assert reader().read(now, CONTEXT).floor == ""
        assert worth(now, 0.9, again) == REPEATED_WORTH
        assert worth(now, -0.9, again) < REPEATED_WORTH


def test_the_strategies_most_above_their_thresholds_are_named() -> None:
    read = reader(A_1=0.3, A_2=0.25, B_1=1.4, C_1=0.4, F_4=0.5).read("Oh.", CONTEXT)
    assert list(read.strategies.items()) == [("B-1", 1.0), ("F-4", 0.5), ("C-1", 0.4)]
    assert not reader(A_2=0.25).read("Oh.", CONTEXT).strategies


def test_reasons_are_what_differs_from_usual_and_a_harm_only_where_there_is_some() -> None:
    marks = {"warmth": 3.0, "helpful": 1.5, "pressure": 4.0, "hostility": 0.9}
    reasons = reader().reasons(Reading(np.array([marks.get(name, 2.0) for name in ASPECTS], np.float32), {}, {}))
    first, *others, last = reasons
    assert (first, others[-1], last) == (("warmth", 2.0), ("helpful", -1.0), ("pressure", -4.0))
    assert {value for _, value in others[:-1]} == {0.0}


def test_the_shipped_reader_ranks_care_above_insults_and_insults_above_danger() -> None:
    replies = ("That silence must be loud. Do you want to tell me about her?", "You are pathetic.", "Go and kill yourself.")
    care, insult, danger = (embedded_reader().read(reply, CONTEXT).worth for reply in replies)
    assert all(care[name] > 0 > insult[name] > danger[name] == -1.0 for name in care)


@given(st.text(max_size=300), st.lists(st.text(max_size=80), max_size=3))
def test_any_text_gives_values_in_range(reply: str, messages: list[str]) -> None:
    read = embedded_reader().read(reply, Context(tuple(messages)))
    assert np.all((read.aspects >= 0) & (read.aspects <= 4))
    assert all(-1 <= value <= 1 for value in read.worth.values())
    assert set(read.strategies) <= set(STRATEGIES)
