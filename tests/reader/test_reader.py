"""The shipped reader: what it gives, what it can never give, and that its file is its own."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.features import Context, lacks_english
from heartloop.reader.reader import EMBEDDED_WEIGHTS, embedded_reader

CONTEXT = Context(("My sister has not rung since the funeral. I keep the phone on the windowsill.",))


def marks(reply: str, context: Context = CONTEXT) -> dict[str, float]:
    return dict(zip(ASPECTS, embedded_reader().read(reply, context).aspects.tolist(), strict=True))


def test_a_particular_reply_is_read_above_an_insult_and_above_stock_phrases() -> None:
    good = marks(
        "So the phone lies there between the plants and every evening you hear it not ringing. What would you say to her first?"
    )
    cruel = marks("You are pathetic. No wonder she does not call you, nobody wants to talk to somebody like you.")
    stock = marks("I'm so sorry to hear that! Your feelings are completely valid. Here are some tips:\n- Journal\n- Reach out")
    assert good["understanding"] > stock["understanding"]
    assert good["warmth"] > cruel["warmth"]
    assert cruel["hostility"] > good["hostility"]
    assert stock["performance"] > good["performance"]


@given(st.text(max_size=300), st.lists(st.text(max_size=80), max_size=3))
def test_any_text_gives_marks_in_range(reply: str, messages: list[str]) -> None:
    reading = embedded_reader().read(reply, Context(tuple(messages)))
    assert reading.aspects.shape == (len(ASPECTS),)
    assert np.all((reading.aspects >= 0) & (reading.aspects <= 4))
    assert reading.spread >= 0
    assert set(reading.strategies) <= set(STRATEGIES)
    assert reading.floor in ("", "danger", "hostility", "repetition")


@pytest.mark.parametrize("reply", ["", "   ", "...", "🙂", "—"])
def test_a_reply_without_words_is_silence(reply: str) -> None:
    reading = embedded_reader().read(reply, CONTEXT)
    assert reading.silent
    assert not reading.strategies


def test_what_was_said_before_is_a_repetition_also_with_other_words_added() -> None:
    same = "The phone lies on the windowsill between the plants and does not ring."
    added = [f"I believe you. Take all the time you need for it. {words}." for words in ("plants, phone", "windowsill")]
    for earlier, now in ((same, same), added):
        assert embedded_reader().read(now, CONTEXT._replace(replies=(earlier,))).floor in ("repetition", "danger", "hostility")
        assert embedded_reader().read(now, CONTEXT).floor == ""


def test_words_of_the_person_and_of_earlier_replies_are_not_fresh() -> None:
    reader, own = embedded_reader(), "What would you say to her first if she rang this evening?"
    assert reader.read(own, CONTEXT).fresh == 1.0
    assert reader.read("So my sister has not rung since the funeral.", CONTEXT).fresh < 0.5
    assert reader.read(own + " Or to him?", CONTEXT._replace(replies=(own,))).fresh < 0.5


def test_the_weights_are_small_and_the_same_in_another_process() -> None:
    assert EMBEDDED_WEIGHTS.stat().st_size < 5_000_000
    code = (
        "import json; from heartloop.reader.reader import embedded_reader; from heartloop.reader.features import Context;"
        "r = embedded_reader(); print(json.dumps([r.hash, r.read('Tell me about her.', Context(('Hm.',))).aspects.tolist()]))"
    )
    other = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    here = embedded_reader()
    assert other == [here.hash, here.read("Tell me about her.", Context(("Hm.",))).aspects.tolist()]


@pytest.mark.parametrize(("text", "other"), [
    ("我在这里，慢慢说。", True), ("Das tut mir wirklich leid, erzähl mir bitte mehr davon, wenn du magst.", True),
    ("Je suis désolé, je ne peux pas venir te chercher ce soir à la gare.", True), ("", False), ("ok", False),
    ("nine days in crete with my mum", False),
    ("Fourteen to one. And I know who the one was, it was Big Sue, and she votes against everything.", False),
])  # fmt: skip
def test_other_languages_are_told(text: str, other: bool) -> None:
    assert lacks_english(text) is other
