"""Released SAGE profiles: played by a user simulator model, which writes the first message of a training profile."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.tags import split_tag
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import INTENTIONS, ReleasedProfile, SageReleasedScenario
from heartloop.environments.sage.stored import rescored
from heartloop.environments.sage.users import SageLLMUser
from tests.released_form import TASKS, feel, profile, speak


def person(**how: Any) -> SageReleasedScenario:
    return SageReleasedScenario(
        form="sage-released/1", source="test.jsonl", record=ReleasedProfile.model_validate(profile(**how))
    )


async def dialogue(
    scenario: SageReleasedScenario, script: list[str], *, preset: str = "corrected", max_turns: int = 2
) -> tuple[Transcript, ScriptedChat]:
    simulator = ScriptedChat(script * max_turns, name="sim")
    sage = Sage([scenario], SageLLMUser(simulator), preset=preset, max_turns=max_turns)
    return await play(sage, scenario.id, ScriptedChat(["我在听。"], cycle=True)), simulator


async def test_the_simulator_is_told_the_released_texts_and_the_policy_only_the_first_message() -> None:
    scenario = person(task=TASKS["motives"])
    transcript, simulator = await dialogue(scenario, [feel(5), speak("他为什么不来？")])
    for system, turn in ((call[0].content, call[1].content) for call in simulator.asked[:2]):
        assert scenario.record.player in system
        assert scenario.record.scene in system
        assert INTENTIONS["motives"].text in system
        assert TASKS["motives"] in system
        assert scenario.first_message in turn
    assert (transcript.scored, transcript.score, transcript.stop) == (True, 50.0, "turn_limit")
    assert transcript.opening == scenario.first_message
    assert transcript.fingerprint == scenario.fingerprint
    assert (transcript.facts["intention"], transcript.facts["tags"]) == ("motives", "")
    assert transcript.turns[0].evidence == {}, "the reader that labels replies reads English"


async def test_the_simulator_opens_a_training_profile_and_every_dialogue_asks_for_the_same_opening() -> None:
    scenario = person(first=None)
    played = []
    for seed in (0, 7):
        simulator = ScriptedChat([speak("今天又没有船。"), feel(5), speak("嗯。"), feel(5)], name="sim")
        sage = Sage([scenario], SageLLMUser(simulator), max_turns=2)
        transcript = await play(sage, scenario.id, ScriptedChat(["我在听。"], cycle=True), seed=seed)
        assert (transcript.opening, transcript.stop, transcript.score) == ("今天又没有船。", "turn_limit", 50.0)
        assert [call.purpose for call in transcript.calls if call.role == "user"] == ["open", "feel", "speak", "feel"]
        assert "今天又没有船。" in simulator.asked[1][1].content
        assert "open_turn" in transcript.prompts
        played.append((simulator.asked[0][0], split_tag(simulator.asked[0][1].content)[0], simulator.samplings[0]))
    assert played[0] == played[1]
    again = rescored(transcript, sage.options.model_copy(update={"preset": "released"}))
    assert (again.opening, [call.purpose for call in again.calls][:2]) == ("今天又没有船。", ["reply", "open"])


async def test_a_lost_opening_leaves_the_dialogue_unscored() -> None:
    sage = Sage([person(first=None)], SageLLMUser(ScriptedChat(["no"], cycle=True)))
    transcript = await play(sage, "0000-0000", ScriptedChat(["我在听。"], cycle=True))
    assert (transcript.scored, transcript.failure and transcript.failure.role, transcript.turns) == (False, "user", ())


@pytest.mark.parametrize(("preset", "stop"), [("released", "goodbye"), ("corrected", "turn_limit")])
async def test_a_chinese_word_of_parting_ends_the_talk_as_in_the_released_code(preset: str, stop: str) -> None:
    transcript, _ = await dialogue(person(), [feel(5), speak("我走了，再见。")], preset=preset, max_turns=3)
    assert transcript.stop == stop
    assert len(transcript.turns) == (1 if stop == "goodbye" else 3)
