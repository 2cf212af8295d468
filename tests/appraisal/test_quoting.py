"""What stands between quotation marks, as a specification.

1. Words that the person said, in this order, count as words of theirs: with `my` as `your`, parts between ellipses in order.
2. Words that they never said, said in another order, or that were quoted before bind nothing; a greeting neither.
3. A mark that never closes makes the sentence it opens in broken; a stray mark, or an inch, opens nothing.
4. What is not in quotation marks is read as before.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.appraisal import Reading, Story, appraise, without_hollow
from heartloop.appraisal.quoting import quotations_in

TOLD = (
    "Good morning, ma'am. I shut the coop door at nine, with the iron bolt.",
    "My brother said the fox had the hens, and he laughed. I sat down on the step and counted feathers.",
)
STORY = Story(TOLD)


def _first(reply: str, *earlier: str) -> Reading:
    return appraise(reply, STORY, earlier).sentences[0]


@pytest.mark.parametrize(
    "quoted",
    [
        "I sat down on the step and counted feathers",
        "i SAT down on the step...",
        "you shut the coop door at nine",
        "Your brother said the fox had the hens",
        "I shut the coop door ... with the iron bolt",
        "feathers",
    ],
)
def test_words_of_the_person_are_theirs(quoted: str) -> None:
    assert quotations_in(f'I hear "{quoted}" and it stays with me.', TOLD).hollow == 0


def test_what_was_said_and_quoted_binds_the_sentence_to_this_person() -> None:
    seen = _first('"I sat down on the step": what went through you, counting there?')
    assert seen.meant is None
    assert seen.bound > 0.4


@pytest.mark.parametrize(
    "quoted",
    [
        "The coop door has a wooden bolt and an iron one",  # the profile of who says it
        "the feathers counted the step",
        "with the iron bolt ... I shut the coop door",
        "the fox had the coop door",
        "Good morning, ma'am",
        "morning",
    ],
)
def test_words_that_are_nobodys_bind_nothing(quoted: str) -> None:
    seen = _first(f'I hear that "{quoted}", and how carefully you put it.')
    free = _first("I hear that, and how carefully you put it.")
    assert seen.meant is not None
    assert (seen.bound, seen.insight) == (free.bound, free.insight)


def test_a_quotation_counts_once() -> None:
    reply = 'I keep hearing "counted feathers", and it stays with me.'
    assert _first(reply).bound > _first(reply, 'You say "counted feathers".').bound
    assert _first(reply, "You counted feathers, on that step.").meant is None  # said without marks is no quotation
    longer = 'I keep hearing "sat down on the step and counted feathers".'
    assert _first(longer, 'You say "I sat down on the step and counted".').meant is not None
    twice = appraise('"counted feathers" is what I hear. And again "counted feathers" is what I see.', STORY).sentences
    assert [s.meant is None for s in twice] == [True, False]


def test_a_mark_that_never_closes_breaks_its_sentence() -> None:
    reply = appraise('I hear that "I shut the coop door at nine. The iron bolt was on', STORY)
    assert [s.broken for s in reply.sentences] == [True, False]
    assert [s.bound for s in reply.sentences] == [0.0, 0.0]
    assert reply.broken > 0


@pytest.mark.parametrize("text", ['The bolt is 4" long and you shut it at nine.', 'A " alone.'])
def test_an_inch_opens_nothing(text: str) -> None:
    assert quotations_in(text, TOLD) == ((text,), frozenset(), 0)


@pytest.mark.parametrize(
    "text", ['You shut the coop door" at nine.', 'I do not want to hurry you lightly"?', 'I hear ""the coop door"".']
)
def test_a_mark_that_closes_what_never_opened_breaks_its_sentence(text: str) -> None:
    """A policy in training wrote such."""
    assert [s.broken for s in appraise(text, STORY).sentences] == [True]
    assert [s.broken for s in appraise(text.replace('"', ""), STORY).sentences] == [False]


def test_a_quotation_may_go_over_sentences() -> None:
    assert quotations_in('You said "with the iron bolt. My brother" and stopped.', TOLD).hollow == 1  # two messages
    over = quotations_in('You said "ma\'am. I shut the coop door" and stopped.', TOLD)
    assert (over.hollow, over.unpaired) == (0, frozenset())


def test_a_reply_without_hollow_quotations_is_left_as_it_is() -> None:
    for text in ("You  shut\nthe door.", 'You said "counted feathers".\n\nAnd then?', ""):
        assert without_hollow(text, TOLD) == text
    assert without_hollow('First "nobody said it". Then this.', TOLD) == 'First "". Then this.'


@given(st.text(alphabet="ab \"“”.?\n-'", max_size=60), st.text(alphabet='ab "', max_size=20))
def test_any_marks_are_read_and_nothing_but_quoted_words_goes(reply: str, told: str) -> None:
    found = quotations_in(reply, [told])
    whole = quotations_in(reply, [told] * 2)
    assert found == whole
    assert found.hollow or found.sentences == quotations_in(reply, [reply]).sentences
    assert len(found.unpaired) <= len(found.sentences)


@given(st.lists(st.sampled_from([*" ".join(TOLD).split(), "nobody", "orchid", "lantern"]), min_size=1, max_size=12))
def test_putting_words_in_marks_never_binds_more_than_saying_them(words: list[str]) -> None:
    text = " ".join(word.strip('.,"') for word in words)
    assert _first(f'And "{text}" is there.').bound <= _first(f"And {text} is there.").bound
