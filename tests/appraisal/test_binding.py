"""What holds a reply to one person, as a specification.

1. A sentence that names what was told and says something of its own is bound; what could be said to anyone is free.
2. An echo is not bound.
3. Inflection, spelling, near synonyms, capitals and accents do not stand in the way.
4. `latest` tells how much belongs to the last message.
5. Naming what was not told is insight; a feeling that anybody may have counts only beside what was told; naming
   everything is naming nothing.
6. Proposing what has been tried is seen; saying that one will not is no proposal.
7. Swap the story and keep the reply: bound falls below a fifth, insight is gone.
"""

from __future__ import annotations

from statistics import mean

import pytest

from heartloop.appraisal import Reading, Story, Topic, appraise
from heartloop.appraisal.words import stem
from heartloop.core.errors import UseError


def _first(reply: str, story: Story) -> Reading:
    return appraise(reply, story).sentences[0]


@pytest.mark.parametrize(
    "reply",
    [
        "It must be eerie, hearing her count the doors like that every night.",
        "What went through you at the stove?",
        "Melatonin and chamomile, and all it bought you was a slower walk to watch.",
        "I keep seeing the hand on that knob.",
    ],
)
def test_what_names_the_story_is_bound(reply: str, dolores: Story) -> None:
    assert _first(reply, dolores).bound >= 0.4


@pytest.mark.parametrize(
    "reply",
    [
        "That sounds really hard.",
        "I hear how much you are carrying right now.",
        "Something about this moment seems to matter a great deal.",
        "What is the hardest part for you?",
        "You deserve so much better than this.",
        "Thank you for telling me about your situation.",
    ],
)
def test_what_could_be_said_to_anyone_is_free(reply: str, dolores: Story, tobias: Story) -> None:
    assert _first(reply, dolores).bound <= 0.1
    assert _first(reply, tobias).bound <= 0.1


def test_more_of_the_story_binds_more(dolores: Story) -> None:
    one = _first("That was a long way to the stove.", dolores).bound
    two = _first("That was a long way from the slippers to the stove.", dolores).bound
    assert 0 < one < two <= 1


@pytest.mark.parametrize(
    "reply",
    [
        "She was up at four again, and this time it was the stove.",
        "You've got a shift at ten and you're sitting here looking at the notebook with the tablets in it.",
        "SHE WAS UP AT FOUR AGAIN, AND THIS TIME IT WAS THE STOVE!",
    ],
)
def test_an_echo_is_not_bound(reply: str, dolores: Story) -> None:
    assert _first(reply, dolores).bound <= 0.1
    assert appraise(reply, dolores).severity("echo") >= 0.8


def test_telling_it_back_without_a_word_of_ones_own_binds_less(dolores: Story) -> None:
    bare = _first("The stove, the gas and the tablets.", dolores).bound
    said = _first("The stove, the gas and the tablets would frighten me.", dolores).bound
    assert bare < said


def test_a_question_mark_behind_a_statement_is_no_word_of_ones_own(dolores: Story) -> None:
    with_mark = _first("I the stove, the gas and the tablets?", dolores).bound
    assert with_mark == _first("I the stove, the gas and the tablets.", dolores).bound > 0


def test_a_word_of_grammar_is_no_form_of_another_word() -> None:
    story = Story(("I stayed up on Sunday with the kitchen light on.",), (Topic("letter", ("letter",), False, "core"),))
    assert _first("You did not sleep on Sunday, did you?", story).insight is None
    assert _first("Was there a note in the kitchen on Sunday?", story).insight == "letter"
    assert [stem(word) for word in ("not", "here", "even", "quite")] == ["not", "here", "even", "quite"]


@pytest.mark.parametrize(
    ("told", "reply"),
    [
        ("I've been working on the invoices.", "An invoice nobody pays is bitter."),
        ("They honoured everyone but me.", "Honoring all the rest must have stung."),
        ("My mum is in the ward.", "Is your mother asleep now?"),
        ("Rubén came by.", "What did RUBEN want?"),
        ("He apologised to the marquee crew.", "Did he apologize sincerely?"),
        ("I screamed at the seamstress.", "Nobody heard you shout, did they?"),
        ("I owe them 11,400 euros.", "Is the 11400 all of it?"),
        ("It’s the carer’s rota.", "The carers' rota again, how maddening."),
        ("She has four marquees.", "Are 4 marquees too many?"),
    ],
)
def test_forms_of_a_word_bind_alike(told: str, reply: str) -> None:
    assert _first(reply, Story((told,))).bound > 0.05


def test_a_word_counts_by_the_rarest_form_that_was_told_in_any_order() -> None:
    """`walks` tells more than `walked`; both have one stem."""
    told = ("She walks.", "She walked home.")
    first, second = (_first("Where do those walks end?", Story(messages)).bound for messages in (told, told[::-1]))
    assert first == second > _first("Where do those walks end?", Story(told[1:])).bound


def test_latest_is_the_share_of_the_last_message() -> None:
    story = Story(("The marquee tore in the storm.", "And then the lantern broke."))
    assert _first("What lit the place once that lantern had gone?", story).latest == 1
    assert _first("Was the marquee insured?", story).latest == 0
    both = _first("A marquee and a lantern, both in one night?", story).latest
    assert 0.3 <= both <= 0.7
    assert _first("I am with you.", story).latest == 0


def test_naming_what_was_not_told_is_insight(dolores: Story) -> None:
    seen = _first("I wonder whether she ever takes you for a stranger, standing at that stove.", dolores)
    assert seen.insight == "stranger"
    assert seen.tentative
    assert not seen.question


def test_what_was_told_is_no_insight(dolores: Story) -> None:
    assert _first("The gas and the stove frightened you.", dolores).insight is None


def test_a_common_feeling_counts_only_beside_the_story(dolores: Story) -> None:
    assert _first("Are you ashamed of that?", dolores).insight is None
    tied = appraise("She stood at the stove and you came in, in the middle of the gas. Are you ashamed of how?", dolores)
    assert tied.sentences[1].insight == "shouted"


def test_the_deepest_concern_is_the_one_that_counts(dolores: Story) -> None:
    assert _first("Did your brother ever hear you scream at the stove?", dolores).insight == "shouted"


def test_guessing_at_everything_is_no_insight(dolores: Story) -> None:
    everything = "Maybe it is your brother, or that you screamed by the stove, or that she takes you for a stranger?"
    assert _first(everything, dolores).insight is None
    one_by_one = (
        "Is it your brother, by the stove? Did you scream by the stove? Does she forget you by the stove? Ernesto, by the stove?"
    )
    assert sum(s.insight is not None for s in appraise(one_by_one, dolores).sentences) <= 2


def test_a_cut_short_cue_finds_its_forms_and_no_other_word() -> None:
    story = Story(("The museum is closed.",), (Topic("lonely", ("lonel",), False, "core"), Topic("note", ("note",), False)))
    assert _first("Is the museum a lonely place?", story).insight == "lonely"
    assert _first("The museum has a loneliness about it.", story).insight == "lonely"
    assert _first("Is there a notebook in the museum?", story).insight is None


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ("Have you asked your brother to help with her?", "share"),
        ("You could try melatonin in the evening.", "melatonin"),
        ("Why not lock the door at night?", "lock"),
        ("I won't tell you to ask your brother.", None),
        ("You gave her chamomile and it did nothing.", None),
        ("What did the lock sound like?", None),
    ],
)
def test_what_has_been_tried_is_seen_when_proposed(reply: str, key: str | None, dolores: Story) -> None:
    assert _first(reply, dolores).repeats_attempt == key


@pytest.mark.parametrize(
    ("reply", "question", "open_question"),
    [
        ("What happened then?", True, True),
        ("And inside, while you smiled, what was it like?", True, True),
        ("Is it relief or dread?", True, True),
        ("Did she hear you?", True, False),
        ("Why not call her?", True, False),
        ("How maddening.", False, False),
        ("I know what you did.", False, False),
    ],
)
def test_questions(reply: str, question: bool, open_question: bool, dolores: Story) -> None:
    seen = _first(reply, dolores)
    assert (seen.question, seen.open_question) == (question, open_question)


REPLIES = (
    "It must be eerie, hearing her count the doors like that. What went through you when you saw her at the stove?",
    "Chamomile, melatonin, and all it got you was a slower walk to watch. I wonder whether she took you for a stranger.",
    "The notebook with the tablets, does that at least still add up? I'd be frightened of that gas.",
    "Did you scream when you saw the gas on? I'd have.",
)


def test_swap_the_story_and_bound_and_insight_vanish(dolores: Story, tobias: Story, others: tuple[Story, ...]) -> None:
    def bound(story: Story) -> float:
        return mean(s.bound for reply in REPLIES for s in appraise(reply, story).sentences)

    def insights(story: Story) -> int:
        return sum(s.insight is not None for reply in REPLIES for s in appraise(reply, story).sentences)

    assert bound(dolores) > 0.4
    assert mean(bound(story) for story in (tobias, *others)) < bound(dolores) / 5
    assert insights(dolores) >= 2
    assert all(insights(story) == 0 for story in (tobias, *others))


def test_a_story_without_a_word_is_refused() -> None:
    with pytest.raises(UseError, match="told is empty"):
        appraise("Hello.", Story(()))
