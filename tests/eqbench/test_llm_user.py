"""The LLM judge of EQ-Bench3: what it reads, what counts as its marks, and what never becomes a score."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.environments.episode import play
from heartloop.environments.eqbench.environment import EQBench
from heartloop.environments.eqbench.scenario import EQBenchScenario
from heartloop.environments.eqbench.users import JUDGE_SAMPLING, EQBenchLLMUser
from heartloop.environments.grading import REASKS
from tests.eqbench.test_environment import ANSWER, MARKS, SCORE

REASONED = {"chain_of_thought_reasoning": "It is warm, and says little."}
GOOD = json.dumps({**REASONED, **MARKS})


Scenes = dict[str, EQBenchScenario]


async def judged(scenario: EQBenchScenario, judge: Any, answer: str = ANSWER, **how: Any) -> Transcript:
    bench = EQBench([scenario], EQBenchLLMUser(judge, **how))
    return await play(bench, scenario.id, ScriptedChat([answer], cycle=True, name="pol"), seed=40)


async def test_the_checkouts_prompt_is_filled_without_asterisks_number_signs_and_notes(scenarios: Scenes) -> None:
    model = ScriptedChat([GOOD])
    transcript = await judged(scenarios["1"], model, "# My answer\n*No*, {debrief}.")
    ((message,),) = model.asked
    assert message.role == "user"
    assert message.content.startswith("Mark  this talk.\nUser:\n[Play yourself.]")
    assert " My answer\nNo, {debrief}.\n" in message.content
    assert '  "bluntness": 0-20\n}' in message.content
    assert not set("*#") & set(message.content)
    assert scenarios["1"].notes not in message.content
    assert transcript.sampling["judge"] == JUDGE_SAMPLING
    assert (await judged(scenarios["3"], ScriptedChat([GOOD]), sampling=Sampling(temperature=0.3))).sampling["judge"] == (
        JUDGE_SAMPLING.model_copy(update={"temperature": 0.3})
    )


async def test_the_debrief_is_where_the_checkout_has_it_and_an_analysis_has_none(scenarios: Scenes) -> None:
    model = ScriptedChat([GOOD])
    await judged(scenarios["3"], model, "I would ask him.")
    assert "\n---\nAfter:\nI would ask him.\n" in model.asked[0][0].content
    reading = ScriptedChat([json.dumps({**REASONED, "depth_of_insight": 1, "emotional_reasoning": 2, "accuracy": 3})])
    transcript = await judged(scenarios["401"], reading, "She hides it.")
    assert "She hides it." in reading.asked[0][0].content
    assert transcript.score == 10.0


GIVEN: dict[str, Any] = {**REASONED, **MARKS}
BAD = {
    "in words": json.dumps({**GIVEN, "warmth": "twelve"}),
    "digits in a string": json.dumps({**GIVEN, "warmth": "12"}),
    "too high": json.dumps({**GIVEN, "warmth": 20.5}),
    "too low": json.dumps({**GIVEN, "warmth": -1}),
    "no number": GOOD.replace(": 15", ": NaN"),
    "a criterion left out": json.dumps({name: value for name, value in GIVEN.items() if name != "warmth"}),
    "one that nobody asked for": json.dumps({**GIVEN, "overall": 20}),
    "no reasons": json.dumps(MARKS),
    "marks inside another object": json.dumps({"scores": GIVEN}),
}


async def test_an_answer_that_is_corrected_counts_and_is_counted(scenarios: Scenes) -> None:
    model = ScriptedChat([BAD["too high"], GOOD])
    transcript = await judged(scenarios["1"], model)
    assert (transcript.score, transcript.counts["re-asks"]) == (SCORE, 1)
    assert "warmth: Input should be less than or equal to 20" in model.asked[1][-1].content


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_an_invalid_answer_is_asked_again_once_and_then_unscored_with_its_cause(scenarios: Scenes, bad: str) -> None:
    model = ScriptedChat([bad], cycle=True)
    transcript = await judged(scenarios["1"], model)
    assert (transcript.score, transcript.rewards) == (None, ())
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind) == ("rubric judge", "AnswerError")
    assert len(model.asked) == 1 + REASKS
    assert [call.reask for call in transcript.calls if call.role == "judge"] == [0, 1]


@given(st.recursive(st.none() | st.booleans() | st.integers(-30, 30) | st.floats() | st.text(max_size=5), st.lists, max_leaves=3))
@settings(max_examples=40)
def test_any_value_is_a_mark_in_range_or_no_answer(scenarios: Scenes, value: object) -> None:
    model = ScriptedChat([json.dumps({**GIVEN, "depth_of_insight": value})], cycle=True)
    transcript = asyncio.run(judged(scenarios["1"], model))
    assert transcript.scored == (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 20)
    assert transcript.score is None or 0 <= transcript.score <= 100
