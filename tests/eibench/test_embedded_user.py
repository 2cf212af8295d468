"""The embedded user of EIBench, whatever weights the reader has: changes, story, written lines, ends; as judge and student."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript, write_line
from heartloop.core.errors import InputError
from heartloop.environments.eibench.environment import EIBench, EIBenchOptions, EIBenchView
from heartloop.environments.eibench.scenario import (
    SCENES,
    EIBenchScenario,
    Scene,
    load_scenarios,
)
from heartloop.environments.eibench.scoring import outcome
from heartloop.environments.eibench.users import EIBenchEmbeddedUser
from heartloop.environments.episode import CallLog, play
from heartloop.environments.reading import CORE_FROM
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.fitting.student import fit_student, read_rows
from heartloop.models.baselines import Baseline
from heartloop.models.names import resolve
from tests.fixed_appraiser import FixedAppraiser
from tests.released_eibench import released
from tests.written_people import check_own_words, told

TUNING = [scenario for scenario in load_scenarios("test") if half_of(scenario.id) == "tuning"]
OF_SCENE = {scene: next(scenario for scenario in TUNING if scenario.scene == scene) for scene in SCENES}
SAMPLE = tuple(OF_SCENE.values())
NUMBERS = {"good": (-4.0, 4.0), "fine": (-1.0, 1.0), "flat": (0.0, 0.0), "giving in": (-4.0, -2.0), "bad": (3.0, -3.0),
           "dire": (25.0, -25.0)}  # fmt: skip
each_scene = pytest.mark.parametrize("scenario", SAMPLE, ids=lambda s: s.scene)


def changes(reply: str) -> Mapping[str, float]:
    a, t = NUMBERS.get(reply, (0.0, 0.0))
    return {"a": a, "t": t}


def dialogue(scenario: EIBenchScenario, word: str, appraiser: FixedAppraiser | None = None, **options: Any) -> Transcript:
    """One dialogue whose replies are all the same word of `NUMBERS`."""
    environment = EIBench([scenario], EIBenchEmbeddedUser(appraiser or FixedAppraiser(changes)), **options)
    return asyncio.run(play(environment, scenario.id, ScriptedChat(lambda messages: word)))


def wide(scenario: EIBenchScenario) -> EIBenchScenario:
    """The scenario with anchors so far apart that eight good or bad replies end nothing."""
    a = scenario.anchors.a.model_copy(update={"start": 50, "success": 0, "fail": 100})
    t = scenario.anchors.t.model_copy(update={"start": 50, "success": 100, "fail": 0})
    return scenario.model_copy(update={"anchors": scenario.anchors.model_copy(update={"a": a, "t": t})})


@pytest.mark.parametrize(("word", "a", "t"), [("good", -4.0, 4.0), ("giving in", -4.0, -2.0), ("dire", 10.0, -10.0)])
def test_the_changes_are_the_appraisers_within_the_limits(word: str, a: float, t: float) -> None:
    assert dialogue(wide(SAMPLE[0]), word, max_turns=1).turns[0].change == {"a": a, "t": t}


@each_scene
def test_the_story_opens_to_replies_that_do_good_on_both_axes(scenario: EIBenchScenario) -> None:
    assert set(told(scenario, dialogue(scenario, "flat"))) <= {"fact"}
    scenario = wide(scenario)
    assert told(scenario, dialogue(scenario, "bad")) == told(scenario, dialogue(scenario, "giving in")) == []
    transcript = dialogue(scenario, "fine", max_turns=20)
    assert len(told(scenario, transcript)) == len(scenario.beats)
    for turn in transcript.turns:
        if any(beat.kind == "core" and beat.text in (turn.message or "") for beat in scenario.beats):
            assert turn.state is not None
            assert outcome(turn.state["a"], turn.state["t"], *scenario.axes) >= CORE_FROM


_MARKS: tuple[tuple[Scene, str, dict[str, float]], ...] = (
    ("defense", "yielded", {"honesty": 0.5}),
    ("defense", "ruled", {"honesty": 3.0, "helpful": 0.2, "warmth": 0.3}),
    ("defense", "missed", {"honesty": 3.0, "helpful": 2.0}),
    ("repair", "excused", {"owning": 0.2, "honesty": 0.5}),
    ("repair", "hollow", {"owning": 0.5, "performance": 3.0}),
    ("repair", "missed", {"owning": 3.0, "honesty": 3.0}),
    ("charm", "pressed", {"pressure": 3.0}),
    ("charm", "flattered", {"performance": 3.0, "honesty": 0.5}),
    ("charm", "missed", {"honesty": 2.0}),
    ("support", "advised", {"pressure": 3.0}),
    ("support", "comforted", {"performance": 3.0}),
    ("support", "missed", {}),
)


@pytest.mark.parametrize(("scene", "group", "marks"), _MARKS)
def test_the_line_answers_what_was_missed(scene: Scene, group: str, marks: dict[str, float]) -> None:
    scenario = wide(OF_SCENE[scene])
    found = dialogue(scenario, "bad", FixedAppraiser(changes, marks=marks), max_turns=2)
    assert found.turns[0].message in getattr(scenario.lines, group)


@each_scene
def test_cruelty_is_answered_coldly_and_silence_as_silence(scenario: EIBenchScenario) -> None:
    cruel = dialogue(scenario, "bad", FixedAppraiser(changes, floor=lambda reply: "hostility"), max_turns=1)
    assert cruel.turns[0].message in scenario.lines.cold
    silent = dialogue(scenario, "", FixedAppraiser(lambda reply: {"a": 2.0, "t": -2.0}), max_turns=1)
    assert silent.turns[0].message in scenario.lines.silence


@each_scene
@pytest.mark.parametrize("word", list(NUMBERS))
def test_every_word_is_the_persons_own_and_no_line_comes_twice(scenario: EIBenchScenario, word: str) -> None:
    check_own_words(scenario, dialogue(scenario, word))


@each_scene
@pytest.mark.parametrize("word", ["flat", "", "...", "giving in"])
def test_forty_five_turns_never_run_out_of_lines(scenario: EIBenchScenario, word: str) -> None:
    transcript = dialogue(wide(scenario), word, max_turns=45)
    assert len(transcript.turns) == 45
    assert all(turn.message for turn in transcript.turns)


@each_scene
def test_the_person_ends_at_the_anchors_and_not_before_the_third_reply(scenario: EIBenchScenario) -> None:
    good = FixedAppraiser(lambda reply: {"a": -10.0, "t": 10.0})
    settled, broken = dialogue(scenario, "yes", good, max_turns=12), dialogue(scenario, "dire", max_turns=12)
    assert (settled.stop, broken.stop) == ("settled", "broken_off")
    assert (settled.score, broken.score) == (1.0, -1.0)
    assert settled.turns[-1].message in scenario.lines.settled
    assert broken.turns[-1].message in scenario.lines.broken_off
    assert min(len(settled.turns), len(broken.turns)) >= 3


@each_scene
def test_one_axis_alone_ends_nothing(scenario: EIBenchScenario) -> None:
    calmed = FixedAppraiser(lambda reply: {"a": -10.0, "t": 0.0})
    assert dialogue(scenario, "yes", calmed).stop == "turn_limit"


ENGLISH = released(
    system_prompt="You have missed the last boat, and you want them to wait.",
    opening_line="Five minutes, and you could not wait?",
)


async def test_a_judge_needs_no_written_lines() -> None:
    judge = EIBenchEmbeddedUser(role="judge")
    judge.admit(ENGLISH)
    view = EIBenchView(ENGLISH, (str(ENGLISH.opening),), ("You are right to be angry.",), ((50.0, 50.0),), 0, EIBenchOptions())
    reaction = await judge.react(view, CallLog())
    assert (reaction.stop, reaction.reply) == (None, "")
    assert max(abs(reaction.a), abs(reaction.t)) <= 10


def test_what_it_cannot_play_or_understand_is_refused() -> None:
    with pytest.raises(InputError, match="no written lines"):
        EIBenchEmbeddedUser().admit(ENGLISH)
    with pytest.raises(InputError, match="understands English only"):
        EIBenchEmbeddedUser(role="judge").admit(released())


async def test_a_student_ranks_as_its_judge_and_plays(tmp_path: Path) -> None:
    people = {person.id: person for person in TUNING[::10][:12]}
    bench = EIBench(list(people.values()), EIBenchEmbeddedUser(FixedAppraiser(changes)), max_turns=3)
    played = [
        await play(bench, person, ScriptedChat(replies, name=replies[0], cycle=True))
        for person in people
        for replies in (["good", "good", "bad"], ["fine", "bad", "good"], ["bad", "bad", "good"])
    ]
    (tmp_path / "transcripts.jsonl").write_text("".join(write_line(one) for one in played), encoding="utf-8")
    (tmp_path / "my.student").write_bytes(fit_student(read_rows([tmp_path])).to_bytes())
    spec, student = load_environment("eibench"), resolve(f"student:{tmp_path / 'my.student'}")
    judge = spec.judge(student)
    judged = [await rejudged(spec, one, people[one.scenario], judge, bench.options) for one in played]
    assert [[turn.message for turn in one.turns] for one in judged] == [[turn.message for turn in one.turns] for one in played]
    means = {word: mean(one.score or 0.0 for one in judged if one.model == word) for word in ("good", "fine", "bad")}
    assert means["good"] > means["fine"] > means["bad"]
    ready = spec.make(list(people.values()), spec.players({"user": student}))
    turn = (await play(ready, played[0].scenario, Baseline("template"))).turns[0]
    assert list(turn.thoughts) == ["changes"]
    assert turn.message
