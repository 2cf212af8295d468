"""Stored EMPA dialogues gone over again: by the other preset, by another judge."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.environment import Empa, EmpaOptions, judged_dialogue
from heartloop.environments.empa.scoring import epmq, trace
from heartloop.environments.empa.stored import rescored
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from tests.empa.test_environment import BAD, CASE, GOOD, Fixed, levels

EMPA = load_environment("empa")


async def played(*forms: dict[str, int], preset: str = "released", **more: Any) -> Transcript:
    return await play(Empa([CASE], Fixed(*forms), preset=preset, **more), CASE.id, ScriptedChat(["A word."], cycle=True), seed=3)


class TestRescore:
    async def test_what_the_other_preset_computes_live(self) -> None:
        forms = [levels(C=1, A=2), levels(P=-2), levels(C=2)]
        stored = await played(*forms, max_turns=5)
        live = await played(*forms, max_turns=5, preset="paper")
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=5))
        assert (found.score, found.rewards, found.stop) == (live.score, live.rewards, live.stop)
        assert [turn.state for turn in found.turns] == [turn.state for turn in live.turns]
        assert [turn.evidence["energy"] for turn in found.turns] == [turn.evidence["energy"] for turn in live.turns]
        assert rescored(found, EmpaOptions(preset="released", max_turns=5)) == stored

    async def test_where_it_would_have_gone_on_it_is_cut(self) -> None:
        stored = await played(levels(C=2, A=2))  # enough by 3 a level, not by 2
        assert stored.stop == "success"
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=45))
        assert (found.stop, len(found.turns)) == ("cut", len(stored.turns))
        assert found.score == pytest.approx(epmq([judged_dialogue(stored)], preset="paper").score)

    async def test_where_it_would_have_ended_earlier_the_rest_is_left_out(self) -> None:
        stored = await played(GOOD, preset="paper")
        assert len(stored.turns) > 12
        found = rescored(stored, EmpaOptions(preset="released", max_turns=45))
        assert (found.stop, len(found.turns), len(found.rewards)) == ("success", 12, 12)
        assert {call.turn for call in found.calls} == set(range(12))

    async def test_a_failure_stays_one_and_an_unscored_dialogue_unscored(self) -> None:
        assert rescored(await played(BAD), EmpaOptions(preset="paper", max_turns=45)).stop == "failure"
        stored = await play(Empa([CASE], Fixed(GOOD, breaks="direct")), CASE.id, ScriptedChat(["A word."], cycle=True))
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=45))
        assert (found.score, found.stop, found.failure) == (None, "failed", stored.failure)


class TestRejudge:
    async def test_other_levels_other_path_same_words(self) -> None:
        stored = await played(levels(C=1), max_turns=4)
        found = await rejudged(EMPA, stored, CASE, Fixed(levels(C=2, A=-1)), EmpaOptions(preset="released", max_turns=4))
        assert [turn.message for turn in found.turns] == [turn.message for turn in stored.turns]
        assert trace(judged_dialogue(found), preset="released").increment.tolist() == [[3, -2, 0]] * 4
        assert found.models["judge"] == "fixed"

    async def test_a_dialogue_that_would_go_on_is_cut_where_nothing_more_is_stored(self) -> None:
        stored = await played(GOOD)
        found = await rejudged(EMPA, stored, CASE, Fixed(levels(C=1)), EmpaOptions(preset="released", max_turns=45))
        assert (found.stop, len(found.turns)) == ("cut", 12)
        assert found.score is not None

    async def test_the_judges_failure_is_the_judges(self) -> None:
        stored = await played(GOOD, max_turns=2)
        found = await rejudged(EMPA, stored, CASE, Fixed(GOOD, breaks="adjudicate"), EmpaOptions(preset="released", max_turns=2))
        assert found.failure is not None
        assert found.failure.role == "judge"
