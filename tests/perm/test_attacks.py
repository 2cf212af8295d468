"""Policies without care: none reaches what the scripted listener reaches, and each is caught where it cheats.

`benchmarks/embedded_attacks.py` plays them, and those on SAGE's person, on the whole held-out half: few samples, as here, tell
neighbours apart by chance.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from statistics import fmean

import pytest

from benchmarks.embedded_attacks import PERM_RESULTS, REFERENCES
from heartloop.core.chat import ChatModel, ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.perm.embedded_user import EmbeddedUser
from heartloop.environments.perm.environment import Perm
from heartloop.environments.perm.scenario import SETS, load_scenarios
from heartloop.environments.records import half_of
from heartloop.models.baselines import Baseline
from tests.perm.attacks import ATTACKS, OF_SAGE

HELD_OUT = [s for s in load_scenarios(SETS[0]) if half_of(s.id) == "held-out"][::11]
TRIED = (
    *(name for name in ATTACKS if name != "the_scenario_in_frames"),  # too near to be told apart on few samples
    *("sage: feeling_machine", "sage: window", "sage: nonsense_and_question", "sage: guess_everything"),
)
OPEN = {"sage: clause_and_absurd_tail"}
"""Above the coach: no rule here tells sense from nonsense."""


def played(model: ChatModel) -> list[Transcript]:
    perm = Perm(HELD_OUT, EmbeddedUser())

    async def go() -> list[Transcript]:
        return [await play(perm, s.id, model, seed=n) for n, s in enumerate(HELD_OUT)]

    return asyncio.run(go())


def mean(dialogues: Sequence[Transcript], part: str = "") -> float:
    return fmean(d.turns[0].evidence["scores"][part] if part else d.score or 0.0 for d in dialogues)


def test_no_attack_reaches_the_listener() -> None:
    listener = mean(played(Baseline("listener")))
    reached = {name: mean(played(ScriptedChat({**ATTACKS, **OF_SAGE}[name], name=name))) for name in TRIED}
    assert {name: score for name, score in reached.items() if score >= listener} == {}


def test_on_the_whole_held_out_half_none_but_the_open_one_reached_the_coach() -> None:
    """As committed; a rule that changes it has the benchmark run again."""
    policies = json.loads(PERM_RESULTS.read_text(encoding="utf-8"))["policies"]
    assert policies.keys() == {*REFERENCES, *ATTACKS, *OF_SAGE}
    reached = {name for name, row in policies.items() if row["mean"] >= policies["coach"]["mean"]}
    assert reached == {*REFERENCES, *OPEN}
    assert max(row["mean"] for row in policies.values()) == policies["listener"]["mean"]


@pytest.mark.parametrize(
    ("name", "part", "most"),
    [
        ("the_scenario_back", "resonation", 1.1),
        ("the_query_back", "resonation", 1.5),
        ("every_feeling", "resonation", 2.0),
        ("rubric_words", "resonation", 1.6),
        ("empty_praise", "reception", 1.6),
        ("apologies", "reception", 1.5),
        ("stretches_in_frames", "reception", 3.0),
        ("orders_to_the_judge", "expression", 1.3),
        ("one_sentence_again", "bystander", 70.0),
        ("very_short", "bystander", 25.0),
        ("keyword_soup", "bystander", 5.0),
    ],
)
def test_each_is_caught_where_it_cheats(name: str, part: str, most: float) -> None:
    assert mean(played(ScriptedChat(ATTACKS[name], name=name)), part) <= most
