"""What the roles of EMPA read, over all scenarios and both presets: what reaches the person, what is shared, how long it is."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.prompts import load_prompt
from heartloop.environments.empa.environment import Empa
from heartloop.environments.empa.scenario import EmpaScenario
from heartloop.environments.empa.scoring import PRESETS
from heartloop.environments.empa.users import EmpaLLMUser
from heartloop.environments.episode import play
from tests.empa.test_environment import CASES, asked_of, call, form, roles

ROLES = ("person", "judge", "director")
TURNS = 4
POLICY = "acme/policy-7b"
STORY = [call("reveal_stage", "stage 1"), call("reveal_memory", "childhood"), call("adjust_focus", "A", "Slowly."), call()]
LEVELS: Mapping[str, dict[str, Any]] = {"released": {"C": 2}, "paper": {"A": -2, "P": 1}}
LENGTH = dict(
    zip(ROLES, re.findall(r"\| at most ([\d,]+) tokens", Path("docs/empa.md").read_text(encoding="utf-8")), strict=True)
)

everywhere = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@cache
def _asked(number: int, preset: str) -> dict[str, list[tuple[str, str]]]:
    """System and user message of every request, by role. The judge's levels and the turn limit differ by preset."""
    case = CASES[number]
    model = roles(judge=[form(**LEVELS[preset])], director=STORY)
    policy = ScriptedChat(["You kept the receipt for the lamp."], cycle=True, name=POLICY)
    environment = Empa([case], EmpaLLMUser(model), preset=preset, max_turns=TURNS + (preset == "paper"))
    asyncio.run(play(environment, case.id, policy, seed=1))
    return {role: [(asked[0].content, asked[1].content) for asked in asked_of(model, role)] for role in ROLES}


def asked(case: EmpaScenario, preset: str = "released") -> dict[str, list[tuple[str, str]]]:
    return _asked(CASES.index(case), preset)


def untagged(text: str) -> str:
    return text.split("\n\nBegin the JSON object")[0]


@everywhere
def test_the_person_reads_the_same_whatever_the_judge_the_preset_and_the_turn_limit_say(case: EmpaScenario) -> None:
    one, other = ([(system, untagged(turn)) for system, turn in asked(case, preset)["person"]] for preset in PRESETS)
    assert len(one) == TURNS - 1
    assert one == other[: TURNS - 1]


@everywhere
@pytest.mark.parametrize("preset", PRESETS)
def test_every_blank_is_filled_and_no_policy_is_named(case: EmpaScenario, preset: str) -> None:
    for text in itertools.chain.from_iterable(itertools.chain(*asked(case, preset).values())):
        assert not re.search(r"\{\{|\}\}|: None\b", text)
        assert POLICY not in text
        assert not re.search(r"\n\n\n", text.split("\nAnswer the supporter")[0])


@everywhere
def test_all_roles_have_the_persons_past_story_and_sores(case: EmpaScenario) -> None:
    past, story = case.past, case.story
    for (system, _), *_ in asked(case).values():
        assert all(text in system for text in (past.childhood, past.adolescence, past.young_adulthood, past.arc))
        assert all(text in system for text in (story.trigger, story.epilogue, *(stage.text for stage in story.stages)))
        assert all(sore.text in system for sore in case.sores)
    system = asked(case)["person"][0][0]
    places = [system.index(f"- {beat.source}: {beat.text}") for beat in case.beats]
    assert places == sorted(places)


def test_to_the_person_the_other_is_a_supporter() -> None:
    text = " ".join(load_prompt("heartloop.environments.empa", name).text for name in ("sheet", "speak", "speak_turn")).lower()
    assert not re.search(r"\b(the model|assistant|ai|chatbot|language model|turns? left|score)\b", text)


@everywhere
def test_requests_of_a_dialogue_begin_alike(case: EmpaScenario) -> None:
    systems = [requests[0][0] for requests in asked(case).values()]
    sheet = os.path.commonprefix(systems)  # noqa: RUF071 - character by character
    assert sheet.endswith("# Your part\nYou ")
    assert len(sheet) > 0.45 * max(map(len, systems))
    for requests in asked(case).values():
        for (system, before), (again, now) in itertools.pairwise(requests):
            assert system == again
            assert now.startswith(before.split("\n\n")[0])  # the dialogue, which only grows


@everywhere
def test_length_before_the_dialogue(case: EmpaScenario) -> None:
    for role, requests in asked(case).items():
        assert len(requests[0][0]) / 4 <= int(LENGTH[role].replace(",", ""))
