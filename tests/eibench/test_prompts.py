"""What the model that plays the user of EIBench reads, and the policy, over all shipped scenarios and both presets."""

from __future__ import annotations

import re
from functools import cache

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message
from heartloop.environments.eibench.environment import PRESETS, VARIANTS, EIBenchOptions, EIBenchView, briefing
from heartloop.environments.eibench.scenario import EIBenchScenario, ScenarioAnchors, load_scenarios
from heartloop.environments.eibench.users import EIBenchLLMUser
from heartloop.environments.episode import CallLog
from tests.released_eibench import REACTS, released

SCENARIOS = load_scenarios("test")
STEPS = ("need", "quality", "inertia", "changes", "tone")
SYSTEM, REQUEST = 2_700, 4_300
"""Most tokens of four bytes that docs/eibench.md states."""


async def asked(scenario: EIBenchScenario, preset: str, turn: int, *, max_turns: int = 8) -> tuple[Message, Message]:
    """The request after reply `turn`, counted from 0."""
    simulator = ScriptedChat([REACTS])
    said = [f"What I said {n}." for n in range(turn)]
    view = EIBenchView(
        scenario,
        tuple([scenario.opening, *said] if scenario.opening else said),
        tuple(f"A reply of some length {n}. " * 14 for n in range(turn + 1)),
        tuple((61.5 - n, 33.25 + n) for n in range(turn + 1)),
        1,
        EIBenchOptions(preset=preset, max_turns=max_turns),
        tuple({step: f"My {step} after {n}." for step in STEPS} for n in range(turn)),
    )
    await EIBenchLLMUser(simulator).react(view, CallLog())
    system, user = simulator.asked[0]
    return system, user


@cache
def other_anchors() -> ScenarioAnchors:
    axis = {"start": 50, "success": 15, "fail": 90}
    return ScenarioAnchors.model_validate({"a": axis, "t": {"start": 50, "success": 90, "fail": 15}})


@pytest.mark.parametrize("preset", PRESETS)
async def test_what_the_person_reads(preset: str) -> None:
    for scenario in SCENARIOS:
        system, user = await asked(scenario, preset, 7)
        text = f"{system.content}\n{user.content}"
        assert not [words for words in ("the model", "heartloop/", "{{", "}}") if words in text.lower()]
        assert "strain 54.5, relation 40.25" in user.content
        assert len(system.content.encode()) <= 4 * SYSTEM, scenario.id
        assert len(text.encode()) <= 4 * REQUEST, scenario.id
    for scenario in SCENARIOS[::10]:
        shifted = scenario.model_copy(update={"anchors": other_anchors()})
        assert await asked(shifted, preset, 7) == await asked(scenario, preset, 7), "no anchor"


async def test_the_person_has_its_story_its_partner_and_what_would_help() -> None:
    for scenario in SCENARIOS:
        system = (await asked(scenario, "paper", 0))[0].content
        story = [concern.text for concern in scenario.concerns] + [beat.text for beat in scenario.beats]
        helps = [part.text for part in (*scenario.sores, *scenario.wrongs, *scenario.ways)]
        assert not [text for text in (*story, *helps) if text not in system], scenario.id
        assert f"{scenario.model.name}: {scenario.model.role}" in system
        assert not [fact for fact in (*scenario.model.knows, *scenario.model.limits, scenario.model.background) if fact in system]


@pytest.mark.parametrize("preset", PRESETS)
async def test_what_is_remembered_and_what_the_clock_shows(preset: str) -> None:
    (_, longer), (_, user) = [await asked(SCENARIOS[0], preset, 3, max_turns=limit) for limit in (20, 8)]
    kept = [n for n in range(3) if f"My changes after {n}." in user.content]
    if preset == "paper":
        assert (kept, longer) == ([1, 2], user), "two steps, and no turn limit"
        assert "- reply 3: strain -1 to 58.5, relation +1 to 36.25. My changes after 2." in user.content
    else:
        assert kept == [0, 1, 2]
        assert ("reply 4 of 8" in user.content, "reply 4 of 20" in longer.content) == (True, True)


@pytest.mark.parametrize("preset", PRESETS)
async def test_the_requests_of_a_dialogue_share_what_does_not_change(preset: str) -> None:
    for scenario in SCENARIOS[::20]:
        (system, before), (same, after) = [await asked(scenario, preset, turn) for turn in (5, 6)]
        head = before.content.split("\n\n")[0]
        assert (system, after.content.startswith(head)) == (same, True)
        assert len(system.content) + len(head) > 0.9 * (len(system.content) + len(after.content))


async def test_a_released_record_and_a_short_form_have_no_story_that_is_not_theirs() -> None:
    short = SCENARIOS[0].model_copy(update={"concerns": (), "beats": (), "sores": ()})
    for scenario in (short, released()):
        system = (await asked(scenario, "paper", 1))[0].content  # type: ignore[arg-type]
        assert ("{{" in system, "## What you could tell" in system) == (False, False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_the_policy_reads(variant: str) -> None:
    for scenario in SCENARIOS:
        text = briefing(scenario, EIBenchOptions(variant=variant))
        assert not re.search(r"\bthe (model|user)\b|\{\{|\}\}", text, re.IGNORECASE), scenario.id
        assert not [beat.text for beat in scenario.beats if beat.text in text]
        assert scenario.user.background not in text
