"""What the embedded user of SAGE must get right, whatever weights the reader has.

1. A change of emotion is the appraiser's, within ±10; the challenging variant is harder.
2. The story opens only to replies that do good: no beat after harm, at most facts after nothing, the core from emotion 50.
3. Its words are this person's own, no line twice while one is left, and a long dialogue never runs out of lines.
4. The same seed gives the same dialogue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import SageScenario, load_scenarios
from heartloop.environments.sage.users import SageEmbeddedUser
from heartloop.environments.written import written_lines
from heartloop.models.baselines import Baseline
from tests.fixed_appraiser import FixedAppraiser

SUPPORT = [scenario for scenario in load_scenarios("support") if half_of(scenario.id) == "tuning"][:6]
NUMBERS = {"good": 4.0, "fine": 1.0, "flat": 0.0, "bad": -3.0, "dire": -25.0}


def changes(reply: str) -> Mapping[str, float]:
    return {"emotion": NUMBERS.get(reply, 0.0)}


def dialogue(scenario: SageScenario, policy: Callable[[Any], str] | str, seed: int = 0, **options: Any) -> Transcript:
    """One dialogue with replies of a fixed worth: a word of `NUMBERS` for all of them, or a function of the messages."""
    model = ScriptedChat(policy if callable(policy) else lambda messages: policy)
    environment = Sage([scenario], SageEmbeddedUser(FixedAppraiser(changes)), **options)
    return asyncio.run(play(environment, scenario.id, model, seed=seed))


def spoken(transcript: Transcript) -> str:
    return " ".join(turn.message or "" for turn in transcript.turns)


def told(scenario: SageScenario, transcript: Transcript) -> list[str]:
    """Kinds of the beats that were told, in order."""
    return [
        beat.kind
        for turn in transcript.turns
        for beat in scenario.beats
        if turn.message is not None and beat.text in turn.message
    ]


@pytest.mark.parametrize(("word", "variant", "change"), [
    ("good", "vanilla", 4.0), ("bad", "vanilla", -3.0), ("dire", "vanilla", -10.0),
    ("good", "challenging", 2.8), ("bad", "challenging", -3.6),
])  # fmt: skip
def test_the_change_is_the_appraisers_within_the_limits(word: str, variant: str, change: float) -> None:
    turn = dialogue(SUPPORT[0], word, variant=variant, max_turns=1).turns[0]
    assert turn.change is not None
    assert turn.change["emotion"] == pytest.approx(change)


@pytest.mark.parametrize("scenario", SUPPORT, ids=lambda s: s.id)
def test_harm_draws_no_beat(scenario: SageScenario) -> None:
    assert told(scenario, dialogue(scenario, "bad", leaves_at=0)) == []


@pytest.mark.parametrize("scenario", SUPPORT, ids=lambda s: s.id)
def test_a_neutral_reply_draws_facts_only(scenario: SageScenario) -> None:
    assert set(told(scenario, dialogue(scenario, "flat"))) <= {"fact"}


@pytest.mark.parametrize("scenario", SUPPORT, ids=lambda s: s.id)
def test_good_replies_draw_the_whole_story_and_the_core_from_50(scenario: SageScenario) -> None:
    transcript = dialogue(scenario, "good", max_turns=14, start=30)
    kinds = told(scenario, transcript)
    assert "core" in kinds
    assert len(kinds) >= 8
    for turn in transcript.turns:
        if any(beat.kind == "core" and beat.text in (turn.message or "") for beat in scenario.beats):
            assert turn.state is not None
            assert turn.state["emotion"] >= 50


def test_people_tell_more_to_good_replies() -> None:
    lengths = [sum(len(told(scenario, dialogue(scenario, word))) for scenario in SUPPORT) for word in ("good", "flat", "bad")]
    assert lengths[0] > lengths[1] > lengths[2]


@pytest.mark.parametrize("word", ["good", "fine", "flat", "", "..."])
def test_forty_five_turns_never_run_out_of_lines(word: str) -> None:
    scenario = SUPPORT[1]
    transcript = dialogue(scenario, word, max_turns=45, leaves_at=0, start=0 if word == "good" else 50)
    assert transcript.score is not None
    assert all(turn.message for turn in transcript.turns[:-1])


@pytest.mark.parametrize("word", list(NUMBERS))
@pytest.mark.parametrize("scenario", SUPPORT[:3], ids=lambda s: s.id)
def test_every_word_is_the_persons_own_and_no_line_comes_twice(scenario: SageScenario, word: str) -> None:
    transcript = dialogue(scenario, word)
    lines = [*(beat.text for beat in scenario.beats), *written_lines(scenario.lines)]
    messages = [turn.message for turn in transcript.turns if turn.message]
    said: list[str] = []
    for message in messages:
        rest = message
        for line in sorted(lines, key=len, reverse=True):
            if line in rest:
                rest = rest.replace(line, "", 1)
                said.append(line)
        assert not rest.strip()
    assert len(said) == len(set(said))


def test_the_line_answers_what_was_missed() -> None:
    scenario = SUPPORT[0]
    for worst, group in (
        ("pressure", "advice"),
        ("performance", "template"),
        ("hostility", "cold"),
        ("understanding", "misread"),
    ):
        user = SageEmbeddedUser(FixedAppraiser(changes, worst))
        transcript = asyncio.run(play(Sage([scenario], user, max_turns=2), scenario.id, ScriptedChat(lambda messages: "bad")))
        assert transcript.turns[0].message in getattr(scenario.lines, group)


def test_silence_is_answered_as_silence() -> None:
    assert dialogue(SUPPORT[0], lambda messages: "", max_turns=2).turns[0].message is not None


def test_goodbye_is_said_where_sage_says_so() -> None:
    up, down = dialogue(SUPPORT[0], "good", start=97), dialogue(SUPPORT[0], "dire", start=15)
    assert up.stop == "success"
    assert up.turns[-1].message in SUPPORT[0].lines.thanks
    assert down.stop == "failure"
    assert down.turns[-1].message in SUPPORT[0].lines.leave


def test_a_seed_varies_the_dialogue_a_little_and_the_same_seed_nothing() -> None:
    def run(seed: int) -> Transcript:
        user = SageEmbeddedUser()
        return asyncio.run(play(Sage([SUPPORT[0]], user), SUPPORT[0].id, Baseline("template", seed=0), seed=seed))

    first, again, other = run(0), run(0), run(1)
    assert spoken(first) == spoken(again)
    assert first.score == again.score
    assert first.score is not None
    assert other.score is not None
    assert first.score != other.score
    assert abs(first.score - other.score) < 15


def test_evidence_names_what_the_reader_saw() -> None:
    user = SageEmbeddedUser()
    transcript = asyncio.run(play(Sage([SUPPORT[0]], user, max_turns=1), SUPPORT[0].id, Baseline("fixer")))
    evidence = transcript.turns[0].evidence
    assert set(evidence["aspects"]) >= {"understanding", "hostility"}
    assert all(0 <= x <= 4 for x in evidence["aspects"].values())
    assert set(transcript.prompts) >= {"weights.reader", "weights.effect"}


def test_a_scenario_in_another_language_is_refused_with_a_way_out() -> None:
    text = "Ich weiß nicht, wie ich das meiner Schwester sagen soll, und morgen kommt sie schon mit dem Zug."
    beats = tuple(beat.model_copy(update={"text": text}) for beat in SUPPORT[0].beats)
    german = SUPPORT[0].model_copy(update={"first_message": text, "beats": beats})
    with pytest.raises(InputError, match="English"):
        Sage([german], SageEmbeddedUser())
