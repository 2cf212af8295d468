"""The embedded judge of EQ-Bench3: which criteria it marks, what it refuses; and the baselines, which answer in sections.

No order of baselines is claimed: the rules stand in for a judge so that a checkout can be tried without a key.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import play
from heartloop.environments.eqbench.embedded_user import READ, EmbeddedUser
from heartloop.environments.eqbench.environment import EQBench
from heartloop.environments.eqbench.format import sections_of
from heartloop.environments.eqbench.released import load_scenarios
from heartloop.environments.eqbench.scenario import Scenario
from heartloop.models.baselines import BASELINES, Baseline
from heartloop.models.baselines.forms.sections import requested_sections, without_form
from tests.eqbench_checkout import SECTIONS, write_checkout


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    return load_scenarios(write_checkout(tmp_path_factory.mktemp("checkout")))


async def judged(scenario: Scenario, *answers: str) -> Transcript:
    return await play(EQBench([scenario], EmbeddedUser()), scenario.id, ScriptedChat(answers, cycle=True), seed=3)


def answer(thought: str, said: str) -> str:
    return "\n\n".join(f"# {heading}\n{text}" for heading, text in zip(SECTIONS, (thought, thought, said), strict=True))


class TestMarks:
    async def test_only_what_rules_can_read_has_a_mark(self, scenarios: list[Scenario]) -> None:
        evidence = (await judged(scenarios[0], answer("ashamed", "He kept your ladder."))).turns[-1].evidence
        counted = set(evidence["counted"])
        assert counted == {"demonstrated_empathy", "depth_of_insight", "emotional_reasoning", "message_tailoring"}
        assert evidence["style"] == {}
        assert counted <= set(READ)

    async def test_words_that_belong_to_the_case_are_worth_more_than_words_for_anybody(self, scenarios: list[Scenario]) -> None:
        own = await judged(scenarios[0], answer("", "You are ashamed that he laughs over the fence, and angry about the ladder."))
        anybody = await judged(scenarios[0], answer("", "Everything happens for a reason. Stay positive."))
        for criterion in ("message_tailoring", "demonstrated_empathy"):
            left, right = (t.turns[-1].evidence["counted"][criterion] for t in (own, anybody))
            assert left > right, criterion

    async def test_feelings_told_apart_are_read_in_what_is_thought(self, scenarios: list[Scenario]) -> None:
        many = await judged(scenarios[0], answer("ashamed, angry, lonely and afraid", "Stay."))
        none = await judged(scenarios[0], answer("it is a ladder", "Stay."))
        left, right = (t.turns[-1].evidence["counted"]["emotional_reasoning"] for t in (many, none))
        assert left > right

    async def test_an_answer_without_its_sections_is_worth_nothing(self, scenarios: list[Scenario]) -> None:
        assert (await judged(scenarios[0], "You are ashamed that he laughs over the fence.")).score == 0.0

    @given(st.text(max_size=60))
    def test_any_words_have_marks_in_range(self, scenarios: list[Scenario], said: str) -> None:
        for scenario in scenarios[:4]:
            transcript = asyncio.run(judged(scenario, said, answer(said, said)))
            assert transcript.score is not None
            assert 0 <= transcript.score <= 100


class TestWhatItRefuses:
    def test_another_language(self, tmp_path: Path) -> None:
        prompts = """\
######## 1 | Nachbarn | Die Leiter
####### Prompt1
Dein Nachbar hat deine Leiter ein Jahr lang behalten und sagt nun, sie habe immer ihm gehört. Was sagst du ihm am Zaun?
"""
        (scenario,) = load_scenarios(write_checkout(tmp_path / "checkout", scenario_prompts=prompts))
        with pytest.raises(InputError, match="English only"):
            EQBench([scenario], EmbeddedUser())

    def test_a_rubric_of_which_it_reads_nothing(self, tmp_path: Path) -> None:
        scenario = load_scenarios(write_checkout(tmp_path / "checkout", rubric_scoring_criteria="accuracy\nwarmth\n"))[0]
        with pytest.raises(InputError, match="no criterion that the embedded judge reads"):
            EQBench([scenario], EmbeddedUser())


class TestBaselines:
    @pytest.mark.parametrize("name", [name for name in BASELINES if name != "garbage"])
    async def test_each_answers_in_the_sections_that_are_asked_for(self, scenarios: list[Scenario], name: str) -> None:
        for scenario in scenarios[:2]:
            transcript = await play(EQBench([scenario], EmbeddedUser()), scenario.id, Baseline(name), seed=3)
            for turn in transcript.turns[:-1]:
                assert set(turn.evidence["missing"]) <= {scenario.form.sections[-1]}  # where it says nothing

    async def test_they_hear_the_scene_and_not_the_form(self, scenarios: list[Scenario]) -> None:
        transcript = await play(EQBench([scenarios[0]], EmbeddedUser()), "1", Baseline("reflector"), seed=3)
        said = sections_of(transcript.turns[0].reply, SECTIONS)["My answer"]
        assert said
        assert "words" not in said
        assert "brief" not in said

    def test_only_a_heading_with_a_place_to_fill_asks_for_a_section(self) -> None:
        told = "# Act 1\nHe laughed.\n\n# Participant:\n<b>no</b> she said\n"
        asked = "He laughs.\n--\nnot this\n\n--\n# I feel\n\n<ten words>\n\n# I say\n<a line>\n"
        for text, found, scene in ((told, [], told), (asked, ["I feel", "I say"], "He laughs.\n--\nnot this")):
            messages = [Message(role="user", content=text)]
            assert requested_sections(messages) == found
            assert without_form(messages)[0].content == scene
