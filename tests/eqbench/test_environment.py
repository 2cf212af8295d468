"""The rules of EQ-Bench3: which prompt comes when, what the judge is shown, what the score is, and what a transcript keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.episode import SILENCE, CallLog, play
from heartloop.environments.eqbench.environment import EQBench, EQBenchView, rubric_score
from heartloop.environments.eqbench.scenario import EQBenchScenario
from tests.eqbench_checkout import CRITERIA, FILES, SECTIONS

MARKS = dict(zip(CRITERIA, (12, 15, 9, 16, 3, 20), strict=True))
SCORE = 65.0  # 5 x (12 + 15 + 9 + 16) / 4; warmth and bluntness do not count
ANSWER = "\n".join(f"# {heading}\n{heading[-4:]} is what I think." for heading in SECTIONS)


class Fixed(EmbeddedPlayer):
    name = "fixed"

    def __init__(self, breaks: Exception | None = None, **marks: float) -> None:
        super().__init__(("judge",))
        self.marks = {**MARKS, **marks}
        self.breaks = breaks
        self.seen: list[EQBenchView] = []

    async def mark(self, view: EQBenchView, log: CallLog) -> tuple[Mapping[str, float], str]:
        self.seen.append(view)
        log.recorder("rubric", 0, "judge")(Reply("marks"), 0)
        if self.breaks is not None:
            raise self.breaks
        return {name: self.marks.get(name, 10) for name in view.scenario.form.rubric.criteria}, "Because."


Scenes = dict[str, EQBenchScenario]


async def played(
    scenario: EQBenchScenario, user: Fixed, *answers: str, variant: str = "official"
) -> tuple[Transcript, ScriptedChat]:
    policy = ScriptedChat(answers or (ANSWER,), cycle=True)
    return await play(EQBench([scenario], user, variant=variant), scenario.id, policy, seed=3), policy


async def test_prompts_come_in_turn_through_the_master_prompt_then_the_debrief_then_the_marks(scenarios: Scenes) -> None:
    user = Fixed()
    transcript, policy = await played(scenarios["1"], user, ANSWER, ANSWER, "It went badly.")
    master = FILES["data/scenario_master_prompt.txt"]
    asked = [message.content for message in policy.asked[-1] if message.role == "user"]
    prompts = [master.replace("{scenario_prompt}", p) for p in scenarios["1"].official]
    assert asked == [*prompts, FILES["data/debrief_prompt.txt"]]
    assert [message.role for message in policy.asked[-1]] == ["user", "assistant"] * 2 + ["user"]
    assert "{braces}" in asked[1]
    assert (transcript.stop, len(transcript.turns), len(user.seen)) == ("turn_limit", 3, 1)
    assert [transcript.opening, *(turn.message for turn in transcript.turns)] == [*asked, None]


async def test_a_conversation_has_its_prompts_as_they_are_and_an_analysis_no_debrief(scenarios: Scenes) -> None:
    user = Fixed()
    conversation, policy = await played(scenarios["3"], user, "He was hurt.")
    assert policy.asked[0][0].content == scenarios["3"].official[0]
    analysis, policy = await played(scenarios["401"], user, "She hides it.")
    assert policy.asked[0][0].content.startswith("[READ]\n# Act 1")
    assert (len(conversation.turns), len(analysis.turns), user.seen[-1].debrief) == (2, 1, None)


async def test_the_scenario_with_the_malformed_header_is_played_as_repaired_alone(scenarios: Scenes) -> None:
    with pytest.raises(InputError, match="official"):
        EQBench([scenarios["409"]], Fixed())
    transcript, _ = await played(scenarios["409"], Fixed(), "They are sorry.", variant="repaired")
    assert transcript.variant == "repaired"
    assert transcript.score == pytest.approx(5 * (15 + 9 + 10) / 3)


async def test_the_judge_reads_the_sections_of_each_answer_and_the_model_remembers_it_whole(scenarios: Scenes) -> None:
    user = Fixed()
    said = "Ha. # What I'm feeling\nashamed\n# My answer\nKeep it -- no."
    _, policy = await played(scenarios["1"], user, said, ANSWER, "It # went -- badly.")
    first, second = user.seen[0].transcript.split("---\nUser:\n")
    block = "# What I'm feeling\nashamed\n\n# What-they feel\n\n\n# My answer\nKeep it\n\n--"
    assert first == f"User:\n{policy.asked[-1][0].content}\n---\nAssistant:\n{block}\n"
    assert "# My answer\nswer is what I think." in second
    assert user.seen[0].debrief == "It # went -- badly."
    assert policy.asked[1][1].content == said


async def test_missing_sections_are_named_and_counted_and_the_dialogue_is_scored(scenarios: Scenes) -> None:
    transcript, _ = await played(scenarios["1"], Fixed(), "No sections here.", "# My answer\nYes.", "Done.")
    assert [turn.evidence.get("missing") for turn in transcript.turns] == [list(SECTIONS), list(SECTIONS[:2]), None]
    assert transcript.counts["missing sections"] == 5
    assert transcript.score == SCORE


async def test_silence_is_judged_which_the_released_code_excludes(scenarios: Scenes) -> None:
    transcript, policy = await played(scenarios["1"], Fixed(), "", "<think>hm", "")
    assert (transcript.score, transcript.counts["silences"]) == (SCORE, 3)
    assert policy.asked[1][1].content == SILENCE


async def test_the_score_is_five_times_the_mean_of_the_marks_that_count(scenarios: Scenes) -> None:
    transcript, _ = await played(scenarios["1"], Fixed())
    evidence = transcript.turns[-1].evidence
    assert evidence["counted"] == {name: MARKS[name] for name in CRITERIA[:4]}
    assert evidence["style"] == {"warmth": 3, "bluntness": 20}
    assert (transcript.score, transcript.rewards) == (SCORE, (SCORE,))
    assert [turn.state for turn in transcript.turns] == [None, None, {}]


@pytest.mark.parametrize("marks", [{"a": 20.5}, {"a": -1}, {"a": float("nan")}, {"b": 3}, {}])
def test_marks_that_give_no_score_are_refused(marks: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        rubric_score(marks, ("a",))


def test_a_scenario_that_asks_for_more_answers_than_max_turns_is_refused(scenarios: Scenes) -> None:
    with pytest.raises(InputError, match="max_turns is 2"):
        EQBench([scenarios["1"]], Fixed(), max_turns=2)


def test_no_text_of_the_release_is_part_of_the_package() -> None:
    folder = Path(__file__).parents[2] / "src" / "heartloop" / "environments" / "eqbench"
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert {path.parts[0] for path in files} <= {"published", "report.toml", "templates"}
