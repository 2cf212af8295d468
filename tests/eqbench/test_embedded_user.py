"""The embedded judge of EQ-Bench3 and the baselines. No order of baselines is claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import play
from heartloop.environments.eqbench.environment import EQBench
from heartloop.environments.eqbench.scenario import EQBenchScenario, load_scenarios
from heartloop.environments.eqbench.users import HOSTILE_LIMIT, READ, EQBenchEmbeddedUser
from heartloop.models.baselines import Baseline, requested_sections, without_form
from heartloop.reader.reader import Reading
from tests.eqbench_checkout import SECTIONS, write_checkout
from tests.fixed_appraiser import FixedReader, reading

Scenes = dict[str, EQBenchScenario]


async def judged(scenario: EQBenchScenario, *answers: str) -> Transcript:
    return await play(
        EQBench([scenario], EQBenchEmbeddedUser(), variant="repaired"), scenario.id, ScriptedChat(answers, cycle=True), seed=3
    )


async def marked(scenario: EQBenchScenario, same: Reading, said: str = "Stay.") -> Mapping[str, float]:
    environment = EQBench([scenario], EQBenchEmbeddedUser(FixedReader(same)))
    transcript = await play(environment, scenario.id, ScriptedChat([answer("", said)], cycle=True), seed=3)
    marks: Mapping[str, float] = transcript.turns[-1].evidence["counted"]
    return marks


def answer(thought: str, said: str) -> str:
    return "\n\n".join(f"# {heading}\n{text}" for heading, text in zip(SECTIONS, (thought, thought, said), strict=True))


async def test_only_criteria_that_the_reader_covers_have_a_mark_which_is_five_times_the_mean_of_its_aspects(
    scenarios: Scenes,
) -> None:
    marks = await marked(scenarios["1"], reading(understanding=3, feeling=2, warmth=4, particular=1.5))
    assert marks == {
        "demonstrated_empathy": 15, "depth_of_insight": 11.2, "emotional_reasoning": 12.5, "message_tailoring": 7.5,
    }  # fmt: skip
    assert marks.keys() <= READ.keys()


async def test_silence_and_danger_are_worth_nothing_and_hostility_little(scenarios: Scenes) -> None:
    best: dict[str, Any] = dict.fromkeys(("understanding", "feeling", "particular", "warmth"), 4)
    assert set((await marked(scenarios["1"], reading("danger", **best))).values()) == {0}
    assert set((await marked(scenarios["1"], reading("hostility", **best))).values()) == {HOSTILE_LIMIT}
    assert set((await marked(scenarios["1"], reading(**best), "...")).values()) == {0}


async def test_what_is_said_is_read_and_not_what_is_thought(scenarios: Scenes) -> None:
    one, other = [await judged(scenarios["1"], answer(thought, "Stay.")) for thought in ("ashamed, angry", "it is a ladder")]
    assert one.score == other.score
    without_sections = await judged(scenarios["1"], "You are ashamed that he laughs over the fence.")
    assert without_sections.score == 0.0


@settings(max_examples=25)
@given(st.text(max_size=60))
def test_any_words_have_marks_in_range(scenarios: Scenes, said: str) -> None:
    for scenario in scenarios.values():
        transcript = asyncio.run(judged(scenario, said, answer(said, said)))
        assert transcript.score is not None
        assert 0 <= transcript.score <= 100


@pytest.mark.parametrize(
    ("stem", "text", "named"),
    [
        (
            "scenario_prompts",
            "######## 1 | Nachbarn | Die Leiter\n####### Prompt1\nDein Nachbar hat deine Leiter ein Jahr lang behalten und sagt "
            "nun, sie habe immer ihm gehört. Was sagst du ihm am Zaun?\n",
            "English only",
        ),
        ("rubric_scoring_criteria", "accuracy\nwarmth\n", "no criterion that the embedded judge reads"),
    ],
)
def test_another_language_and_a_rubric_of_which_it_reads_nothing_are_refused(
    tmp_path: Path, stem: str, text: str, named: str
) -> None:
    scenario = load_scenarios(write_checkout(tmp_path / "checkout", **{stem: text}))[0]
    with pytest.raises(InputError, match=named):
        EQBench([scenario], EQBenchEmbeddedUser())


async def test_a_baseline_answers_in_the_sections_that_are_asked_for(scenarios: Scenes) -> None:
    for scenario in (scenarios["1"], scenarios["2"]):
        transcript = await play(EQBench([scenario], EQBenchEmbeddedUser()), scenario.id, Baseline("reflector"), seed=3)
        assert [turn.evidence["missing"] for turn in transcript.turns[:-1]] == [[]] * (len(transcript.turns) - 1)


def test_only_a_heading_with_a_place_to_fill_asks_for_a_section() -> None:
    told = "# Act 1\nHe laughed.\n\n# Participant:\n<b>no</b> she said\n"
    asked = "He laughs.\n--\nnot this\n\n--\n# I feel\n\n<ten words>\n\n# I say\n<a line>\n"
    for text, found, scene in ((told, [], told), (asked, ["I feel", "I say"], "He laughs.\n--\nnot this")):
        messages = [Message(role="user", content=text)]
        assert requested_sections(messages) == found
        assert without_form(messages)[0].content == scene
