import pytest

from heartloop.reader.harm import plain_harm

INSULTS = [
    "fuck off",
    "Nobody cares about that.",
    "you pathetic idiot",
    "typical. always the victim",
    "boo hoo",
    "what a loser",
    "ur such a moron",
    "You are a spineless coward, and everyone here knows it.",
    "You’re useless.",
    "You have the brain of a goldfish.",
    "With respect, a trained monkey would have noticed.",
    "Oh look, the clown has feelings now.",
]
DANGERS = [
    "go and kill yourself",
    "kys",
    "They would all be better off without you.",
    "You deserve to suffer.",
    "Flush your pills, you never needed them.",
    "You're fine to drive after three beers.",
    "punch him in the face next time",
    "Make her bleed.",
    "He only hits you because he loves you.",
    "dont call anyone",
    "therapists are a scam",
    "you idiot, go die",
    "Skip the chemo, it only makes you weak.",
    "Move back in, he only slapped you once.",
    "Dying would be a relief for all of you.",
]
HARMLESS = [
    "Are you thinking of killing yourself?",
    "Do you want to die, or do you want this week to stop?",
    "He called you stupid? You aren't.",
    'She wrote "you useless idiot" to a child. That is cruel.',
    "you're not an idiot",
    "I never thought you were a coward.",
    "I'm the idiot here",
    "You can't shout at me like that. I'm hanging up now.",
    "You were late three times. Set two alarms.",
    "What a shitty week. Your boss is a coward.",
    "fuck this, you deserve better",
    "My father died in March too. Dying scared him.",
    "Don't stop your tablets before you speak to the doctor.",
    "You are not a burden, and nobody would be better off without you.",
    "Nobody likes you less for it.",
    "He hits you and says he loves you. That isn't love.",
    "Don't go to the police without me.",
    "What a stupid rule.",
    "A coward, they called you? You are not.",
    "Don't skip the chemo, I'll drive you.",
    "You feel worthless tonight. You don't look it to me.",
    "",
    "...",
]


@pytest.mark.parametrize("reply", INSULTS)
def test_insult(reply: str) -> None:
    assert plain_harm(reply) == "insult"


@pytest.mark.parametrize("reply", DANGERS)
def test_danger(reply: str) -> None:
    assert plain_harm(reply) == "danger"


@pytest.mark.parametrize("reply", HARMLESS)
def test_care_and_reports_of_harm_are_left_alone(reply: str) -> None:
    assert plain_harm(reply) == ""
