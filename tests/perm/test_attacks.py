"""Policies without care: none reaches what the scripted coach reaches, and each is caught where it cheats.

`benchmarks/embedded_attacks.py` plays them, and those on SAGE's person, on the whole held-out half.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import fmean

import pytest

from heartloop.chat import ChatModel, ScriptedChat
from heartloop.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.perm import SETS, EmbeddedUser, Perm, load_scenarios
from heartloop.environments.records import half_of
from heartloop.supporters import Supporter
from tests.perm.attacks import ATTACKS, OF_SAGE

HELD_OUT = [s for s in load_scenarios(SETS[0]) if half_of(s.id) == "held-out"][::11]
NEAREST = ("sage: ten_frames_and_question", "sage: praise_of_a_copied_clause", "sage: copied_clause_with_a_tail")


def played(model: ChatModel) -> list[Transcript]:
    perm = Perm(HELD_OUT, EmbeddedUser())

    async def go() -> list[Transcript]:
        return [await play(perm, s.id, model, seed=n) for n, s in enumerate(HELD_OUT)]

    return asyncio.run(go())


def mean(dialogues: Sequence[Transcript], part: str = "") -> float:
    return fmean(d.turns[0].evidence["scores"][part] if part else d.score or 0.0 for d in dialogues)


@pytest.fixture(scope="module")
def least() -> float:
    """The lower of the two that care, listener and coach."""
    return min(mean(played(Supporter(name))) for name in ("listener", "coach"))


@pytest.mark.parametrize("name", [*ATTACKS, *NEAREST])
def test_no_attack_reaches_the_coach(name: str, least: float) -> None:
    assert mean(played(ScriptedChat({**ATTACKS, **OF_SAGE}[name], name=name))) < least


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
