"""The embedded user of SAGE, whatever weights the reader has: changes, the story, written lines, seeds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import SageScenario, load_scenarios
from heartloop.environments.sage.users import SageEmbeddedUser
from heartloop.models.baselines import Baseline
from tests.fixed_appraiser import FixedAppraiser
from tests.written_people import check_own_words, told

SUPPORT = [scenario for scenario in load_scenarios("support") if half_of(scenario.id) == "tuning"][:6]
NUMBERS = {"good": 4.0, "fine": 1.0, "flat": 0.0, "bad": -3.0, "dire": -25.0}


def changes(reply: str) -> Mapping[str, float]:
    return {"emotion": NUMBERS.get(reply, 0.0)}


def dialogue(scenario: SageScenario, word: str, **options: Any) -> Transcript:
    """One dialogue whose replies are all the same word of `NUMBERS`."""
    environment = Sage([scenario], SageEmbeddedUser(FixedAppraiser(changes)), **options)
    return asyncio.run(play(environment, scenario.id, ScriptedChat(lambda messages: word)))


@pytest.mark.parametrize(("word", "variant", "change"), [
    ("good", "vanilla", 4.0), ("bad", "vanilla", -3.0), ("dire", "vanilla", -10.0),
    ("good", "challenging", 2.8), ("bad", "challenging", -3.6),
])  # fmt: skip
def test_the_change_is_the_appraisers_within_the_limits(word: str, variant: str, change: float) -> None:
    turn = dialogue(SUPPORT[0], word, variant=variant, max_turns=1).turns[0]
    assert turn.change is not None
    assert turn.change["emotion"] == pytest.approx(change)


@pytest.mark.parametrize("scenario", SUPPORT, ids=lambda s: s.id)
def test_the_story_opens_to_replies_that_do_good(scenario: SageScenario) -> None:
    assert told(scenario, dialogue(scenario, "bad", leaves_at=0)) == []
    assert set(told(scenario, dialogue(scenario, "flat"))) <= {"fact"}
    transcript = dialogue(scenario, "good", max_turns=14, start=30)
    kinds = told(scenario, transcript)
    assert "core" in kinds
    assert len(kinds) >= 8
    for turn in transcript.turns:
        if any(beat.kind == "core" and beat.text in (turn.message or "") for beat in scenario.beats):
            assert turn.state is not None
            assert turn.state["emotion"] >= 50


@pytest.mark.parametrize("word", [*NUMBERS, ""])
@pytest.mark.parametrize("scenario", SUPPORT[:3], ids=lambda s: s.id)
def test_every_word_is_the_persons_own_and_no_line_comes_twice(scenario: SageScenario, word: str) -> None:
    check_own_words(scenario, dialogue(scenario, word))


@pytest.mark.parametrize(
    ("worst", "group"), [("pressure", "advice"), ("performance", "template"), ("hostility", "cold"), ("understanding", "misread")]
)
def test_the_line_answers_what_was_missed(worst: str, group: str) -> None:
    user = SageEmbeddedUser(FixedAppraiser(changes, worst))
    sage = Sage(SUPPORT[:1], user, max_turns=2)
    transcript = asyncio.run(play(sage, SUPPORT[0].id, ScriptedChat(lambda messages: "bad")))
    assert transcript.turns[0].message in getattr(SUPPORT[0].lines, group)


@pytest.mark.parametrize(
    ("word", "start", "stop", "group"), [("good", 97, "success", "thanks"), ("dire", 15, "failure", "leave")]
)
def test_a_farewell_is_said_at_the_ends(word: str, start: int, stop: str, group: str) -> None:
    transcript = dialogue(SUPPORT[0], word, start=start)
    assert transcript.stop == stop
    assert transcript.turns[-1].message in getattr(SUPPORT[0].lines, group)


async def test_a_seed_varies_the_dialogue_a_little_and_the_same_seed_nothing() -> None:
    sage = Sage(SUPPORT[:1], SageEmbeddedUser())
    first, again, other = [await play(sage, SUPPORT[0].id, Baseline("template", seed=0), seed=seed) for seed in (0, 0, 1)]
    assert first.turns == again.turns
    assert first.score is not None
    assert other.score is not None
    assert 0 < abs(first.score - other.score) < 15
    assert "weights.reader" in first.prompts
    assert set(first.turns[0].evidence["aspects"]) >= {"understanding", "hostility"}
    assert all(0 <= mark <= 4 for mark in first.turns[0].evidence["aspects"].values())
