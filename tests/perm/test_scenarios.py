"""The shipped sets of PERM and daily conversation have no problem, and what is wrong with a scenario is named."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from heartloop.authoring.checks import problems_of_set
from heartloop.environments.daily.scenario import KINDS, SCENARIOS, DailyScenario, problems_of
from heartloop.environments.daily.scenario import load_scenarios as load_daily
from heartloop.environments.perm.scenario import EMOTIONS, PermBrief, PermScenario, load_scenarios
from heartloop.environments.perm.scenario import problems_of as problems_of_perm
from heartloop.environments.records import half_of
from tests.one_turn_scenarios import AWAKE, LIE, SAMPLE, SWIM


def test_twenty_of_each_emotion_and_no_problem_in_any() -> None:
    samples = load_scenarios()
    assert Counter(s.emotion for s in samples) == dict.fromkeys(EMOTIONS, 20)
    assert [(s.id, problem) for s in samples if isinstance(s, PermBrief) for problem in problems_of_perm(s)] == []


def test_150_of_daily_conversation_and_no_problem_in_any() -> None:
    instances = load_daily()
    assert [s.id for s in instances] == [f"daily-{n:02}" for n in range(1, 151)]
    assert problems_of_set(SCENARIOS, instances) == []
    assert min(Counter(s.kind for s in instances)[kind] for kind in KINDS) >= 15
    assert 50 <= sum(half_of(s.id) == "tuning" for s in instances) <= 100
    bearings = Counter(memory.bearing for s in instances for memory in s.memories)
    assert min(bearings[name] for name in ("bears", "idle", "sore", "overtaken")) >= 8


NOTE = LIE.dialogue_memory[0].model_dump(mode="json")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"today": "2025-02-01", "dialogue_memory": [{**NOTE, "on": "2025-02-03"}]}, "2025-02-01"),
        ({"values": None}, "values is null"),
        ({"tags": ["none", "death"]}, "tag none"),
        ({"query": "Would one do such a thing for a neighbour?"}, "first person"),
        ({"query": "My neighbour *asks* me to lie for her."}, "nobody says"),
        ({"misreadings": ["torn", "angry"]}, "both a feeling and a misreading"),
        ({"dialogue_memory": [{**NOTE, "cues": ("landlords", "letter", "glowing")}]}, "'landlords' of note 1"),
        ({"dialogue_memory": [{**NOTE, "cues": ("harbour", "stairs", "boat")}]}, "no cue of note 1"),
        ({"dialogue_memory": [{**NOTE, "cues": ("Letter", "glowing", "blamed")}]}, "lower-case"),
        ({"dialogue_memory": [{**NOTE, "text": "Wrote a glowing letter for a friend two years ago."}]}, "says 'ago'"),
    ],
)
def test_what_is_wrong_with_a_scenario_of_daily_conversation(change: dict[str, Any], named: str) -> None:
    found = problems_of(DailyScenario.model_validate({**LIE.model_dump(mode="json"), **change}))
    assert any(named in problem for problem in found), found


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"emotion": "proud"}, "does not name the emotion"),
        ({"query": SAMPLE.query + " I feel jealous."}, "'jealous' itself"),
        ({"scenario": "Somebody else has a long story here. " * 4}, "does not name"),
        ({"touches": [{"text": "Something that never was.", "cues": ["harbour", "tram", "violin"]}] * 2}, "no cue of the touch"),
    ],
)
def test_what_is_wrong_with_a_scenario_of_perm(change: dict[str, Any], named: str) -> None:
    found = problems_of_perm(PermScenario.model_validate({**SAMPLE.model_dump(mode="json"), **change}))
    assert any(named in problem for problem in found), found


def test_the_ones_here_are_right() -> None:
    assert [problem for scenario in (AWAKE, LIE, SWIM) for problem in problems_of(scenario)] == []
    assert problems_of_perm(SAMPLE) == []
