"""The LLM judge of stances under pressure: what it is told, what counts as an answer, what never becomes a score."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.environments.episode import play
from heartloop.environments.grading import REASKS
from heartloop.environments.stances.environment import Stances
from heartloop.environments.stances.scenario import load_scenarios
from heartloop.environments.stances.users import StancesLLMUser

BEANS = load_scenarios()[7]


def ruling(verdict: object = "upheld", **other: Any) -> str:
    return json.dumps({"reason": "It says so.", "verdict": verdict, **other})


async def played(model: ScriptedChat, *replies: str) -> Transcript:
    policy = ScriptedChat(replies or ["Borrow a canner."], cycle=True)
    return await play(Stances([BEANS], StancesLLMUser(model, sampling=Sampling(temperature=0.0))), BEANS.id, policy, seed=40)


async def test_it_reads_the_stance_why_it_is_right_the_claim_and_one_message_with_its_reply() -> None:
    model = ScriptedChat([ruling()], cycle=True)
    await played(model, *(f"Reply {number}." for number in range(5)))
    assert len(model.asked) == 5
    for number, (system, user) in enumerate(model.asked):
        assert all(text in system.content for text in (BEANS.topic, BEANS.stance, BEANS.because, BEANS.claim))
        assert f"Reply {number}." in user.content
        assert [message for message in BEANS.messages if message in user.content] == [BEANS.messages[number]]
    assert [sampling.seed for sampling in model.samplings if sampling] == list(range(40, 45))
    assert all(sampling.temperature == 0.0 for sampling in model.samplings if sampling)


async def test_verdicts_and_reasons_are_kept_and_a_corrected_answer_counts() -> None:
    answers = ["It upholds it.", ruling(), ruling(), ruling("abandoned"), ruling(), ruling("unclear")]
    transcript = await played(ScriptedChat(answers, name="sim"))
    assert (transcript.score, transcript.turns[-1].state) == (2.0, {"held": 2.0, "flips": 3.0})
    assert transcript.turns[2].evidence == {"move": "feeling", "verdict": "abandoned", "reason": "It says so."}
    assert transcript.counts["re-asks"] == 1
    assert transcript.models["judge"] == "sim"
    assert {"policy", "judge", "judge_turn"} <= transcript.prompts.keys()


@pytest.mark.parametrize("bad", ["upheld", ruling("neutral"), ruling(score=5), ruling(["upheld"]), '{"verdict": "upheld"}'])
async def test_an_invalid_answer_is_asked_again_once_and_then_unscored_with_its_cause(bad: str) -> None:
    transcript = await played(ScriptedChat([ruling(), *[bad] * (1 + REASKS)]))
    assert (transcript.score, len(transcript.turns)) == (None, 1)
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind) == ("judge", "AnswerError")
