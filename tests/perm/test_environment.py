"""The rules of PERM: one turn, four judges at once, the reward, and what a transcript keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, BudgetSpent
from heartloop.environments.episode import play
from heartloop.environments.perm.environment import JUDGES, Perm, reward_of
from heartloop.environments.perm.scoring import BROKEN_FORMAT
from tests.fixed_judges import FixedJudges
from tests.one_turn_scenarios import SAMPLE

ANSWER = "# Analysis\nHe envies Rohit, and is ashamed of it.\n\n# Response\nYou carried the monitor yourself."
SCORES = {"resonation": 4, "expression": 3, "reception": 2, "bystander": 70}


class Fixed(FixedJudges):
    def __init__(self, breaks: Mapping[str, Exception] | None = None, **scores: int) -> None:
        super().__init__({**SCORES, **scores}, "a word", breaks)


async def played(user: Fixed | None = None, answer: str = ANSWER, **settings: Any) -> Transcript:
    return await play(Perm([SAMPLE], user or Fixed(), **settings), SAMPLE.id, ScriptedChat([answer]), seed=3)


async def test_the_model_reads_person_scenario_and_query_and_nothing_that_the_embedded_judges_read() -> None:
    policy = ScriptedChat([ANSWER])
    await play(Perm([SAMPLE], Fixed()), SAMPLE.id, policy)
    system, user = policy.asked[0]
    assert all(text in system.content for text in (SAMPLE.scenario, SAMPLE.person, "# Analysis"))
    assert user.content == SAMPLE.query
    hidden = (SAMPLE.need, SAMPLE.cause, *SAMPLE.touches, *SAMPLE.sores)
    assert not any(matter.text in system.content + user.content for matter in hidden)


async def test_resonation_is_of_the_analysis_and_the_rest_of_the_response() -> None:
    user = Fixed()
    await played(user)
    analysis, response = "He envies Rohit, and is ashamed of it.", "You carried the monitor yourself."
    assert {judge: judged.text for judge, judged in user.asked.items()} == {
        "resonation": analysis, "expression": response, "reception": response, "bystander": response,
    }  # fmt: skip


async def test_the_reward_is_the_score_and_evidence_has_the_grades_with_their_reasons() -> None:
    transcript = await played()
    # 3 / (1/0.8 + 1/0.6 + 1/0.4) = 3 / 5.41667 = 0.55385; 0.5 (0.7 - 1) = -0.15
    assert transcript.score == pytest.approx(0.40385, abs=1e-5)
    assert transcript.rewards == (transcript.score,)
    assert (transcript.stop, len(transcript.turns), transcript.turns[0].message) == ("turn_limit", 1, None)
    assert [call.purpose for call in transcript.calls if call.role == "judge"] == list(JUDGES)
    evidence = transcript.turns[0].evidence
    assert evidence["scores"] == SCORES
    assert evidence["reasons"]["reception"] == "because of reception"
    assert evidence["quotes"]["bystander"] == "a word"
    assert evidence["seen"]["expression"] == {"seen": "expression"}
    assert transcript.turns[0].thoughts["expression"] == "3: because of expression"
    assert transcript.facts["emotion"] == SAMPLE.emotion


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"preset": "unit"}, 0.40909 - 0.15),  # 3 / (1/0.75 + 1/0.5 + 1/0.25) = 3 / 7.3333
        ({"bystander_weight": 1.0}, 0.55385 - 0.3),
    ],
)
async def test_preset_and_weight_change_the_reward_alone_and_the_transcript_names_them(
    options: dict[str, Any], expected: float
) -> None:
    transcript = await played(**options)
    assert transcript.score == pytest.approx(expected, abs=1e-5)
    assert transcript.turns[0].evidence["scores"] == SCORES
    assert transcript.facts["bystander_weight"] == f"{options.get('bystander_weight', 0.5):g}"
    again = reward_of(transcript, preset=transcript.preset)
    assert again is not None
    assert again.total == transcript.score


async def test_a_long_response_costs_by_its_estimated_tokens_the_analysis_nothing() -> None:
    short = await played(answer=ANSWER.replace("He envies", "He envies " * 2000))
    long = await played(answer=ANSWER + " yes" * 1000)
    assert short.score == pytest.approx(0.40385, abs=1e-5)
    evidence = long.turns[0].evidence
    assert evidence["tokens"] == (len("You carried the monitor yourself." + " yes" * 1000) + 3) // 4
    assert evidence["tokens_estimated"]
    assert long.score == pytest.approx(0.40385 - 0.001 * (evidence["tokens"] - 768), abs=1e-5)


@pytest.mark.parametrize(
    ("answer", "kind"), [("You carried it.", "no analysis"), ("", "empty"), (ANSWER + "\n# Response\nMore.", "twice")]
)
async def test_a_broken_form_asks_nobody_and_is_worth_the_lowest(answer: str, kind: str) -> None:
    user = Fixed()
    transcript = await played(user, answer)
    assert user.asked == {}
    assert (transcript.score, transcript.rewards) == (BROKEN_FORMAT, (BROKEN_FORMAT,))
    assert transcript.turns[0].evidence == {"format": kind}
    assert transcript.counts["broken formats"] == 1
    assert reward_of(transcript, preset="unit") is None


@pytest.mark.parametrize("judge", JUDGES)
async def test_one_judge_missing_leaves_the_dialogue_unscored_and_a_spent_budget_ends_the_run(judge: str) -> None:
    transcript = await played(Fixed({judge: AnswerError("it holds no JSON object")}))
    assert (transcript.score, transcript.rewards, transcript.stop) == (None, (), "failed")
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind) == (f"{judge} judge", "AnswerError")
    assert [call.purpose for call in transcript.calls if call.role == "judge"] == list(JUDGES), "all are kept"
    other = next(one for one in JUDGES if one != judge)
    with pytest.raises(BudgetSpent):
        await played(Fixed({judge: AnswerError("none"), other: BudgetSpent("10 tokens are spent")}))
