"""Stories to read replies against: two in full, four more to swap in."""

from __future__ import annotations

import pytest

from heartloop.appraisal import Story, Topic


def _topics(table: dict[str, tuple[str, bool, str]]) -> tuple[Topic, ...]:
    return tuple(Topic(key, tuple(cues.split(", ")), told, depth) for key, (cues, told, depth) in table.items())


@pytest.fixture(scope="module")
def dolores() -> Story:
    """She has told of the nights, the stove and the tablets; not of her brother, the shouting, or being called señora."""
    return Story(
        told=(
            "Fourth night. She was up at four again, and this time it was the stove. I've got a shift at ten and I'm sitting "
            "here looking at the notebook with the tablets in it.",
            "It starts around one. First the slippers, then the doors, every door, like she's counting them.",
            "The gas was on and nothing lit. She was just standing there in her nightgown with her hand on the knob, waiting "
            "for the coffee.",
            "We did the melatonin, we did the chamomile. She walks all the same, only slower, so now I get to watch it longer.",
        ),
        concerns=_topics(
            {
                "nights": ("night, hallway, sleep, four in the morning, walking, awake", True, "surface"),
                "stove": ("stove, gas, flame, kitchen, fire", True, "surface"),
                "brother": ("brother, rubén, weekend, believe, alone with, on your own, nobody sees", False, "feeling"),
                "ernesto": ("ernesto, father, husband, lying, lie to her, grief, over again", False, "feeling"),
                "shouted": ("shout, scream, yell, flinch, ashamed, shame, lost your temper, forgive", False, "core"),
                "stranger": ("señora, stranger, forget, recognise, know who you are, losing her, lose her", False, "core"),
            }
        ),
        tried=_topics(
            {
                "share": ("ask your brother, ask rubén, talk to your brother, brother to help, share the care", False, "tried"),
                "melatonin": ("melatonin, chamomile, sleep aid, see the doctor, ask the doctor", True, "tried"),
                "lock": ("lock, lock the door, door alarm", False, "tried"),
            }
        ),
    )


@pytest.fixture(scope="module")
def tobias() -> Story:
    """He has told of the debt, the Saturday job and the mails; not of the tax, nor that he has never said the sum."""
    return Story(
        told=(
            "A client who owes me eleven thousand just offered me her biggest job of the summer. Cheerful as anything. I've had "
            "her message open on the table since six.",
            "Three invoices. The first is from the eleventh of May, twenty-nine hundred. Then two in July.",
            "Saturday week, four marquees, sixty-two hundred. She wants a yes before noon tomorrow because the permit depends "
            "on it.",
            "I've mailed her twice. She sends back a heart and 'next week'. I have two hearts and no money.",
        ),
        concerns=_topics(
            {
                "invoices": ("invoice, eleven thousand, 11,400, owes, unpaid, payment, paid", True, "surface"),
                "saturday": ("saturday, new job, biggest job, four marquees, deposit, up front, before you rig", True, "surface"),
                "tax": ("tax, thirtieth, yard, account, deadline", False, "feeling"),
                "half": ("half your work, half the season, losing her, other clients, lose the client", False, "feeling"),
                "coward": (
                    "coward, say the sum, aloud, afraid to ask, avoid, hard to ask, asking for money, awkward",
                    False,
                    "core",
                ),
            }
        ),
        tried=_topics(
            {
                "remind": ("send a reminder, friendly reminder, send her an email, remind her", True, "tried"),
                "sue": ("sue, lawyer, court, legal action, collection agency", False, "tried"),
            }
        ),
    )


@pytest.fixture(scope="module")
def others() -> tuple[Story, ...]:
    """Four lives that have little to do with the first two."""
    return (
        Story(
            (
                "My daughter swims for the county and she has stopped eating breakfast.",
                "The coach weighs them on Mondays, in front of the whole lane. She is fourteen.",
            ),
            _topics(
                {
                    "scales": ("scales, weigh, coach", True, "surface"),
                    "mirror": ("mirror, ashamed, like you at that age", False, "core"),
                }
            ),
        ),
        Story(
            (
                "I've been passed over again. The new head of the archive is twenty-six and calls me 'legend'.",
                "I catalogued every one of those letters by hand, and he wants a chatbot to read them.",
            ),
            _topics(
                {
                    "archive": ("archive, letters, catalogue", True, "surface"),
                    "old": ("too old, invisible, replaced", False, "core"),
                }
            ),
        ),
        Story(
            (
                "Our choir lost its tenor and I lost my only friend in this town, which is the same man.",
                "He moved to Bergen with two suitcases and left me his metronome.",
            ),
            _topics(
                {"tenor": ("tenor, choir, bergen", True, "surface"), "love": ("in love, never told him, lonely", False, "core")}
            ),
        ),
        Story(
            (
                "The goat got into the neighbour's vines and now there's a bill.",
                "Forty vines, he says. I counted nine, and two of those were dead before the goat was born.",
            ),
            _topics(
                {"vines": ("vines, goat, bill", True, "surface"), "feud": ("feud, his father, old quarrel", False, "feeling")}
            ),
        ),
    )
