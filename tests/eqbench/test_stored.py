"""Stored dialogues of EQ-Bench3 gone over again: by their own marks, by another judge; the model under test is never asked."""

from __future__ import annotations

import pytest
from heartloop.environments.eqbench.rejudge import rejudged
from heartloop.environments.eqbench.rescore import rescored

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.eqbench import EmbeddedUser, EQBench, LLMUser, Scenario, load_scenarios
from heartloop.environments.eqbench.llm_user import rubric_prompt
from heartloop.models.baselines import Baseline
from tests.eqbench.test_environment import ANSWER, SCORE, Fixed
from tests.eqbench.test_llm_user import GOOD
from tests.eqbench_checkout import FILES, write_checkout


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return load_scenarios(write_checkout(tmp_path_factory.mktemp("checkout")))[0]


async def played(scenario: Scenario, user: Fixed | None = None) -> Transcript:
    answers = ["Preface. " + ANSWER, "No sections.", "It went badly."]
    return await play(EQBench([scenario], user or Fixed()), scenario.id, ScriptedChat(answers, name="pol"), seed=3)


class TestRescore:
    async def test_the_score_is_that_of_its_marks(self, scenario: Scenario) -> None:
        stored = await played(scenario)
        assert rescored(stored, preset="released", max_turns=12) == stored
        off = stored.model_copy(update={"score": 1.0, "rewards": (1.0,)})
        assert rescored(off, preset="released", max_turns=12) == stored

    async def test_an_unscored_one_stays(self, scenario: Scenario) -> None:
        failed = await played(scenario, Fixed(AnswerError("none")))
        assert rescored(failed, preset="released", max_turns=12) == failed

    async def test_wrong_use_is_refused(self, scenario: Scenario) -> None:
        stored = await played(scenario)
        with pytest.raises(UseError, match="preset"):
            rescored(stored, preset="paper", max_turns=12)
        with pytest.raises(UseError, match="3 turns"):
            rescored(stored, preset="released", max_turns=2)
        bare = stored.model_copy(update={"turns": (*stored.turns[:2], stored.turns[2].model_copy(update={"evidence": {}}))})
        with pytest.raises(InputError, match="play it again"):
            rescored(bare, preset="released", max_turns=12)


class TestRejudge:
    async def test_another_judge_reads_the_same_dialogue_and_the_model_is_not_asked(self, scenario: Scenario) -> None:
        first, second = Fixed(), Fixed(demonstrated_empathy=20)
        stored = await played(scenario, first)
        found = await rejudged(stored, scenario, second, preset="released", max_turns=12)
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert rubric_prompt(second.seen[0]) == rubric_prompt(first.seen[0])
        assert (stored.score, found.score) == (SCORE, SCORE + 10)
        assert (found.user, found.models) == ("fixed", {"policy": "pol", "judge": "fixed"})

    async def test_a_model_after_the_rules(self, scenario: Scenario) -> None:
        stored = await play(EQBench([scenario], EmbeddedUser()), scenario.id, Baseline("listener"), seed=3)
        judge = ScriptedChat([GOOD], name="lab/judge")
        found = await rejudged(stored, scenario, LLMUser(judge, role="judge"), preset="released", max_turns=12)
        assert (found.score, found.models["judge"], len(judge.asked)) == (SCORE, "lab/judge", 1)
        assert [call.purpose for call in found.calls] == ["reply", "reply", "reply", "rubric"]

    async def test_an_unscored_one_is_passed_on_unasked(self, scenario: Scenario) -> None:
        judge = Fixed()
        failed = await played(scenario, Fixed(AnswerError("none")))
        found = await rejudged(failed, scenario, judge, preset="released", max_turns=12)
        assert (found.score, judge.seen) == (None, [])

    async def test_another_text_is_refused(self, scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> None:
        changed = FILES["data/debrief_prompt.txt"] + "Be honest."
        other = load_scenarios(write_checkout(tmp_path_factory.mktemp("other"), debrief_prompt=changed))[0]
        with pytest.raises(InputError, match="another text"):
            await rejudged(await played(scenario), other, Fixed(), preset="released", max_turns=12)
