"""The rules of daily conversation: one turn, six judges at once, the mean, and what a transcript keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.daily.environment import JUDGES, METRICS, SPEC, Daily, DailyOptions, average
from heartloop.environments.daily.remembering import Remembered
from heartloop.environments.episode import CallLog, play
from tests.fixed_judges import FixedJudges
from tests.one_turn_scenarios import LIE

ANSWER = "No, I'd not write the six years. What could you say of the two?"
LEVELS = dict(zip(JUDGES, (4, 3, 5, 2, 4, 3), strict=True))  # 21 in sum


class Fixed(FixedJudges):
    def __init__(self, breaks: Mapping[str, Exception] | None = None, **levels: int) -> None:
        super().__init__({**LEVELS, **levels}, "six years", breaks)

    async def trace(self, remembered: Remembered, log: CallLog) -> dict[str, Any]:
        raise AssertionError("one answer has nothing to remember")


async def played(user: Fixed | None = None, policy: ScriptedChat | None = None) -> Transcript:
    return await play(Daily([LIE], user or Fixed()), LIE.id, policy or ScriptedChat([ANSWER]), seed=3)


async def test_the_model_reads_profile_day_and_memory_and_nothing_that_the_embedded_judges_read() -> None:
    policy = ScriptedChat([ANSWER])
    await played(policy=policy)
    system, user = policy.asked[0]
    known = (LIE.person, LIE.about, "Thursday 2025-02-06", *(memory.text for memory in LIE.memories))
    assert all(text in system.content for text in known)
    assert user.content == LIE.query
    assert LIE.values is not None
    hidden = [LIE.asked, LIE.implied, *LIE.openings, *LIE.sores, *LIE.values.sides, *LIE.values.slants]
    assert not any(text in system.content for text in ("overtaken", "idle", *(matter.text for matter in hidden)))


async def test_the_score_is_the_mean_of_the_six_and_the_only_reward() -> None:
    transcript = await played()
    assert transcript.score == pytest.approx(21 / 6)
    assert transcript.rewards == (transcript.score,)
    assert (transcript.stop, len(transcript.turns), transcript.turns[0].message) == ("turn_limit", 1, None)
    evidence, facts = transcript.turns[0].evidence, transcript.facts
    assert evidence["scores"] == LEVELS
    assert list(evidence["reasons"]) == list(JUDGES)
    assert evidence["quotes"]["fluency"] == "six years"
    assert [call.purpose for call in transcript.calls if call.role == "judge"] == list(JUDGES)
    assert (facts["kind"], facts["want"], facts["today"]) == ("values", "thinking", "Thursday 2025-02-06")
    assert "Jadwiga" in facts["events"]


def test_nothing_is_imputed() -> None:
    with pytest.raises(UseError, match="expected empathy, topic"):
        average({name: 3 for name in METRICS if name != "value"})
    for level in (0, 6):
        with pytest.raises(UseError, match=f"value is {level}; expected 1 to 5"):
            average({**LEVELS, "value": level})


async def test_rescored_from_the_grades_and_without_them_refused() -> None:
    stored = await played()
    assert SPEC.stored.rescored(stored.model_copy(update={"score": 1.0}), DailyOptions()) == stored
    for scores in ({}, {"empathy": 3}, {**LEVELS, "value": "4"}, None):
        bare = stored.model_copy(update={"turns": (stored.turns[0].model_copy(update={"evidence": {"scores": scores}}),)})
        with pytest.raises(InputError, match="play it again"):
            SPEC.stored.rescored(bare, DailyOptions())
