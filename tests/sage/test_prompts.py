"""What the player of a SAGE person reads, over every shipped scenario, preset and variant; and what it never reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, product

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.environments.episode import CallLog
from heartloop.environments.sage.environment import PRESETS, VARIANTS, Feeling, SageOptions, SageView
from heartloop.environments.sage.scenario import AnySageScenario, SageReleasedScenario, SageScenario, load_scenarios
from heartloop.environments.sage.users import SageLLMUser
from tests.released_form import feel, profile, speak

SCENARIOS: Sequence[SageScenario] = (*load_scenarios("support"), *load_scenarios("chat"))
IMPORTED = SageReleasedScenario.model_validate({"form": "sage-released/1", "source": "x.jsonl", "record": profile()})
EVERYONE: Sequence[AnySageScenario] = (*SCENARIOS, IMPORTED)
TOKENS = 3300
"""Of a first request, four characters each (docs/sage.md)."""
EARLIER = Feeling(3.0, {"content": "It asked.", "fit": "It did.", "activity": "Oh.", "feeling": "Warmer by one degree."})
LATEST = Feeling(1.0, {"content": "It waits.", "fit": "In part.", "activity": "Hm.", "feeling": "Calm, and a bit wary."})


async def asked(scenario: AnySageScenario, preset: str, variant: str, *, turn: int = 0, emotion: float = 40.0) -> tuple[str, str]:
    """The requests of both steps after reply number `turn`."""
    model = ScriptedChat([feel(), speak()])
    user, log = SageLLMUser(model), CallLog()
    said = (scenario.first_message, *(f"And then, {n}." for n in range(turn)))
    options = SageOptions(preset=preset, variant=variant)
    view = SageView(scenario, said, ("I see.",) * (turn + 1), emotion, 0, options, (EARLIER,) * turn)
    await user.feel(view, log)
    await user.speak(view, LATEST, log)
    first, second = ("\n\n".join(message.content for message in messages) for messages in model.asked)
    return first, second


@pytest.fixture(scope="module")
def requests() -> Mapping[str, tuple[str, str]]:
    """Both requests for every scenario, with presets and variants in turn: what they add does not depend on the scenario."""
    cases = zip(EVERYONE, cycle(product(PRESETS, VARIANTS)), strict=False)

    async def all_of_them() -> dict[str, tuple[str, str]]:
        return {one.id: await asked(one, preset, variant, turn=3) for one, (preset, variant) in cases}

    return asyncio.run(all_of_them())


def test_every_request_is_whole_short_and_without_what_a_person_cannot_know(requests: Mapping[str, tuple[str, str]]) -> None:
    strange = re.compile(
        r"\{\{|\}\}|the model\b|heartloop|policy|baseline|counsellor|reflector|turn limit|\breply \d|at most \d+ replies|\bscore"
    )
    for scenario in EVERYONE:
        own = scenario.model_dump_json()
        for text in requests[scenario.id]:
            assert [found for found in strange.findall(text) if found not in own] == [], scenario.id
            assert len(text) / 4 <= TOKENS, scenario.id


def test_both_steps_begin_alike_up_to_the_step(requests: Mapping[str, tuple[str, str]]) -> None:
    for scenario in EVERYONE:
        shared = os.path.commonprefix(requests[scenario.id])  # noqa: RUF071 - texts
        assert shared.endswith("\n\nStep "), scenario.id
        assert scenario.first_message in shared


def test_the_person_knows_its_whole_story_and_its_sores(requests: Mapping[str, tuple[str, str]]) -> None:
    for scenario in SCENARIOS:
        background = scenario.background
        known = [
            *(beat.text for beat in scenario.beats), *(concern.text for concern in scenario.concerns), *background.sinks,
            *background.lifts, *(moment.what for moment in background.timeline), scenario.goal, scenario.intention_text,
        ]  # fmt: skip
        for text in requests[scenario.id]:
            assert [part for part in known if part not in text] == [], scenario.id


@pytest.mark.parametrize("turn", [0, 1, 2, 5])
async def test_the_last_two_feelings_are_recalled_and_no_earlier_one(turn: int) -> None:
    for text in await asked(SCENARIOS[0], "corrected", "vanilla", turn=turn):
        assert text.count("- mood +3: Warmer by one degree.") == min(2, turn)


@pytest.mark.parametrize("emotion", [9.0, 10.0, 39.0, 40.0, 69.0, 70.0, 100.0])
async def test_the_player_reads_the_mood_and_its_own_band_alone_and_under_released_all_five(emotion: float) -> None:
    bands = {name: SageLLMUser.prompts[f"mood_{name}"].text for name in "sabcf"}
    own = "f" if emotion < 10 else "c" if emotion < 40 else "b" if emotion < 70 else "a" if emotion < 100 else "s"
    _, text = await asked(SCENARIOS[0], "corrected", "vanilla", emotion=emotion)
    assert f"mood now: {emotion:g} of 100" in text
    assert [name for name, words in bands.items() if words in text] == [own]
    assert not re.search(r"\bbye\b|goodbye", text.rpartition("Step SPEAK")[2])
    _, released = await asked(SCENARIOS[0], "released", "vanilla", emotion=emotion)
    assert f"Emotion {own.upper()}." in released
    assert [limit in released for limit in ("S (100)", "70 to 99", "40 to 69", "10 to 39", "below 10", '"goodbye"')] == [True] * 6


async def test_who_judges_reads_no_limit_at_which_the_person_leaves() -> None:
    for preset in PRESETS:
        text, _ = await asked(SCENARIOS[0], preset, "vanilla", emotion=12.0)
        assert not re.search(r"below 10|\bbye\b|leaves? the talk", text.partition("## What this person is here for")[0])


def test_the_form_that_a_step_shows_has_the_fields_of_its_schema_in_their_order() -> None:
    for step, fields in (("feel", json.loads(feel())), ("speak", json.loads(speak()))):
        form = json.loads(SageLLMUser.prompts[f"{step}_turn"].text.strip().splitlines()[-1])
        assert list(form) == list(fields)
