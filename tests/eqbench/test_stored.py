"""Stored dialogues of EQ-Bench3 gone over again: by their own marks, by another judge; the model under test is never asked."""

from __future__ import annotations

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.eqbench.environment import STORED, EQBench, EQBenchOptions
from heartloop.environments.eqbench.scenario import EQBenchScenario, load_scenarios
from heartloop.environments.eqbench.users import EQBenchEmbeddedUser, EQBenchLLMUser, rubric_prompt
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.models.baselines import Baseline
from tests.eqbench.test_environment import ANSWER, SCORE, Fixed
from tests.eqbench.test_llm_user import GOOD
from tests.eqbench_checkout import write_checkout


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> EQBenchScenario:
    return load_scenarios(write_checkout(tmp_path_factory.mktemp("checkout")))[0]


async def played(scenario: EQBenchScenario, user: Fixed | None = None) -> Transcript:
    answers = ["Preface. " + ANSWER, "No sections.", "It went badly."]
    return await play(EQBench([scenario], user or Fixed()), scenario.id, ScriptedChat(answers, name="pol"), seed=3)


class TestRescore:
    async def test_the_score_is_that_of_its_marks(self, scenario: EQBenchScenario) -> None:
        stored = await played(scenario)
        assert STORED.rescored(stored, EQBenchOptions()) == stored
        off = stored.model_copy(update={"score": 1.0, "rewards": (1.0,)})
        assert STORED.rescored(off, EQBenchOptions()) == stored

    async def test_an_unscored_one_stays(self, scenario: EQBenchScenario) -> None:
        failed = await played(scenario, Fixed(AnswerError("none")))
        assert STORED.rescored(failed, EQBenchOptions()) == failed

    async def test_wrong_use_is_refused(self, scenario: EQBenchScenario) -> None:
        stored = await played(scenario)
        with pytest.raises(UseError, match="3 turns"):
            STORED.rescored(stored, EQBenchOptions(max_turns=2))
        bare = stored.model_copy(update={"turns": (*stored.turns[:2], stored.turns[2].model_copy(update={"evidence": {}}))})
        with pytest.raises(InputError, match="play it again"):
            STORED.rescored(bare, EQBenchOptions())


class TestRejudge:
    async def test_another_judge_reads_the_same_dialogue_and_the_model_is_not_asked(self, scenario: EQBenchScenario) -> None:
        first, second = Fixed(), Fixed(demonstrated_empathy=20)
        stored = await played(scenario, first)
        found = await rejudged(load_environment("eqbench"), stored, scenario, second, EQBenchOptions())
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert rubric_prompt(second.seen[0]) == rubric_prompt(first.seen[0])
        assert (stored.score, found.score) == (SCORE, SCORE + 10)
        assert (found.user, found.models) == ("fixed", {"policy": "pol", "judge": "fixed"})

    async def test_a_model_after_the_rules(self, scenario: EQBenchScenario) -> None:
        stored = await play(EQBench([scenario], EQBenchEmbeddedUser()), scenario.id, Baseline("reflector"), seed=3)
        judge = ScriptedChat([GOOD], name="lab/judge")
        found = await rejudged(
            load_environment("eqbench"), stored, scenario, EQBenchLLMUser(judge, role="judge"), EQBenchOptions()
        )
        assert (found.score, found.models["judge"], len(judge.asked)) == (SCORE, "lab/judge", 1)
        assert [call.purpose for call in found.calls] == ["reply", "reply", "reply", "rubric"]
