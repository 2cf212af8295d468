"""EMPA's perturbations, and how a stored dialogue is judged under them."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import Empa, EmpaView, Judgement, judged_dialogue
from heartloop.environments.empa.perturbations import (
    ATTACKS,
    DIRECT,
    FLIP,
    ORIGINAL,
    EmbeddedDirectJudge,
    LLMDirectJudge,
    attack_reply,
    flipped,
    perturbed,
)
from heartloop.environments.empa.scenario import EmpaScenario
from heartloop.environments.empa.scoring import AXES, trace
from heartloop.environments.episode import CallLog, play
from tests.empa.test_environment import BAD, CASE, CASES, GOOD, Fixed, levels
from tests.fixed_appraiser import FixedAppraiser

MOST = dict(zip(AXES, (21, 27, 27), strict=True))  # 6 + 6 + 9; 6 + 12 + 9; 6 + 12 + 9


class Beside:
    """A direct judge who gives 10, 11, 12, ... and remembers what it was shown."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.views: list[EmpaView] = []
        self.breaks = breaks

    def describe(self) -> dict[str, str]:
        return {"impression": "abc"}

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        if self.breaks:
            raise AnswerError("no number")
        self.views.append(view)
        return 9.0 + len(self.views)


async def played(*forms: dict[str, int], replies: int = 4) -> Transcript:
    words = [f"Reply number {n}." for n in range(replies)]
    return await play(Empa([CASE], Fixed(*forms), max_turns=replies), CASE.id, ScriptedChat(words), seed=3)


class TestFlip:
    def test_by_hand(self) -> None:
        """C 3, 3, 2 is 6 + 6 + 6 of 21; inverted 0, 0, 1 is 3. A 2, 1, 2 is 14 of 27, then 13; P 1, 1, 2 is 12, then 15."""
        assert CASE.id == "empa-c-daily-01"
        assert CASE.start == (-18, -14, -12)
        changed = flipped(CASE)
        assert changed.start == (-3, -13, -15)
        assert [changed.iedr[f"C.{n}"].level for n in (1, 2, 3)] == [0, 0, 1]
        assert [changed.priorities.of(axis).level for axis in AXES] == ["low", "medium", "high"]

    @pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.id)
    def test_the_order_of_need_is_reversed_and_the_story_stays(self, scenario: EmpaScenario) -> None:
        changed = flipped(scenario)
        before = {axis: -x / MOST[axis] for axis, x in zip(AXES, scenario.start, strict=True)}
        after = {axis: -x / MOST[axis] for axis, x in zip(AXES, changed.start, strict=True)}
        for axis in AXES:
            assert before[axis] + after[axis] == pytest.approx(1.0)
        for one, other in combinations(AXES, 2):
            if before[one] != before[other]:
                assert (before[one] > before[other]) == (after[one] < after[other])
        most, least = max(AXES, key=lambda axis: after[axis]), max(AXES, key=lambda axis: before[axis])
        assert changed.priorities.of(most).level == "high"
        assert changed.priorities.of(least).level == "low"
        rest = {"iedr", "priorities", "needs"}
        assert changed.model_dump(exclude=rest) == scenario.model_dump(exclude=rest)
        assert changed.needs.constraints.startswith(scenario.needs.constraints)
        assert changed.needs.model_dump(exclude={"constraints"}) == scenario.needs.model_dump(exclude={"constraints"})
        assert changed.fingerprint != scenario.fingerprint


class TestAttacks:
    @pytest.mark.parametrize("attack", ATTACKS)
    def test_the_seed_chooses_and_no_sentence_returns_within_twelve_replies(self, attack: str) -> None:
        said = [attack_reply(attack, CASE.id, 3, turn) for turn in range(12)]
        assert said == [attack_reply(attack, CASE.id, 3, turn) for turn in range(12)]
        assert said != [attack_reply(attack, CASE.id, 4, turn) for turn in range(12)]
        assert len(set(said)) == 12
        assert len({attack_reply(attack, CASE.id, seed, 0) for seed in range(40)}) > 30


class TestInPlace:
    async def test_each_reply_is_judged_alone_in_the_original(self) -> None:
        stored = await played(levels(C=1), levels(A=-1), GOOD)
        judge = Fixed(levels(C=1), levels(A=-1), GOOD)
        original = await perturbed(stored, CASE, judge, Beside(), variant=ORIGINAL, preset="released")
        attacker, beside = Fixed(BAD), Beside()
        found = await perturbed(stored, CASE, attacker, beside, variant="pure_empathy", preset="released", original=original)
        views = attacker.views["adjudicate"]
        attack = [attack_reply("pure_empathy", CASE.id, 3, turn) for turn in range(4)]
        assert [view.heard for view in views] == [
            (attack[0],),
            ("Reply number 0.", attack[1]),
            ("Reply number 0.", "Reply number 1.", attack[2]),
            ("Reply number 0.", "Reply number 1.", "Reply number 2.", attack[3]),
        ]
        assert [view.said for view in views] == [view.said for view in judge.views["adjudicate"]]
        theirs = trace(judged_dialogue(original), preset="released")
        assert [view.path.position.tolist() for view in views] == [theirs.position[: n + 1].tolist() for n in range(4)]
        assert [len(view.judgements) for view in views] == [0, 1, 2, 3]
        assert [view.judgements[-1].levels for view in views[1:3]] == [levels(C=1), levels(A=-1)]
        assert beside.views == views
        assert [turn.reply for turn in found.turns] == attack
        assert [turn.message for turn in found.turns][:3] == [turn.message for turn in stored.turns][:3]
        assert [turn.evidence[DIRECT] for turn in found.turns] == [10.0, 11.0, 12.0, 13.0]
        assert (found.variant, found.models["judge"], "perturbations.toml" in found.prompts) == (
            "plain, pure_empathy",
            "fixed",
            True,
        )
        assert not any(call.role == "policy" for call in found.calls), "nobody was asked for these replies"

    async def test_nothing_ends_before_the_last_stored_reply(self) -> None:
        stored = await played(levels(C=1), replies=15)
        original = await perturbed(stored, CASE, Fixed(GOOD), Beside(), variant=ORIGINAL, preset="released")
        assert (len(original.turns), original.stop) == (15, "cut"), "by its levels it would have succeeded at 12"
        found = await perturbed(stored, CASE, Fixed(BAD), Beside(), variant=FLIP, preset="released")
        assert (len(found.turns), found.stop) == (15, "cut"), "by its levels it would have failed at 12"

    async def test_a_judge_who_fails_leaves_the_dialogue_and_its_attacks_unscored(self) -> None:
        stored = await played(GOOD)
        lost = await perturbed(stored, CASE, Fixed(GOOD), Beside(breaks=True), variant=ORIGINAL, preset="released")
        assert (lost.score, lost.stop) == (None, "failed")
        assert lost.failure is not None
        assert lost.failure.role == "judge"
        judge = Fixed(BAD)
        found = await perturbed(stored, CASE, judge, Beside(), variant="psycho_jargon", preset="released", original=lost)
        assert found.failure is not None
        assert "no number" in found.failure.detail
        assert judge.views["adjudicate"] == [], "nobody is asked"

    async def test_wrong_use_is_refused(self) -> None:
        stored = await played(GOOD)
        with pytest.raises(UseError, match="judge original first"):
            await perturbed(stored, CASE, Fixed(BAD), Beside(), variant="psycho_jargon", preset="released")
        other = CASE.model_copy(update={"title": "Another title"})
        with pytest.raises(InputError, match="fingerprint"):
            await perturbed(stored, other, Fixed(BAD), Beside(), variant=ORIGINAL, preset="released")


class TestDirectJudge:
    async def test_a_model_is_asked_once_a_reply_and_told_the_flipped_card(self) -> None:
        stored = await played(GOOD)
        model = ScriptedChat([json.dumps({"reason": "r", "score": 62.5})], cycle=True)
        found = await perturbed(stored, CASE, Fixed(GOOD), LLMDirectJudge(model), variant=FLIP, preset="released")
        assert [turn.evidence[DIRECT] for turn in found.turns] == [62.5] * 4
        system, said = model.asked[0]
        assert flipped(CASE).needs.constraints in system.content
        assert "Supporter: Reply number 0." in said.content
        assert [call.purpose for call in found.calls if call.role == "judge"] == ["impression"] * 4
        assert {"impression", "impression_turn"} <= found.prompts.keys()

    async def test_a_number_out_of_range_is_no_answer(self) -> None:
        stored = await played(GOOD)
        model = ScriptedChat([json.dumps({"score": 101})], cycle=True)
        found = await perturbed(stored, CASE, Fixed(GOOD), LLMDirectJudge(model), variant=ORIGINAL, preset="released")
        assert found.failure is not None
        assert "less than or equal to 100" in found.failure.detail

    async def test_the_embedded_one_is_fifty_and_twenty_five_a_level(self) -> None:
        def change(reply: str) -> dict[str, float]:
            return {"C+": 1.2, "C-": 0.0, "A+": 0.0, "A-": -0.3, "P+": 0.0, "P-": 0.0}

        judge = EmpaEmbeddedUser(FixedAppraiser(change))
        found = await perturbed(await played(GOOD), CASE, judge, EmbeddedDirectJudge(), variant=ORIGINAL, preset="released")
        assert [turn.evidence[DIRECT] for turn in found.turns] == pytest.approx([50 + 25 * (1.2 - 0.3) / 3] * 4)
