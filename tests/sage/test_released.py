"""Released SAGE profiles: played by a user simulator model; one without a first message is refused."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import INTENTIONS, ReleasedProfile, SageReleasedScenario
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


def test_a_training_profile_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"'0000-0000' has no first message.*record.first_talk, or remove the scenario"):
        Sage([person(first=None)], SageLLMUser(ScriptedChat(["x"])))


@pytest.mark.parametrize(("preset", "stop"), [("released", "goodbye"), ("corrected", "turn_limit")])
async def test_a_chinese_word_of_parting_ends_the_talk_as_in_the_released_code(preset: str, stop: str) -> None:
    transcript, _ = await dialogue(person(), [feel(5), speak("我走了，再见。")], preset=preset, max_turns=3)
    assert transcript.stop == stop
    assert len(transcript.turns) == (1 if stop == "goodbye" else 3)
