"""EMPA's perturbations, and the suite: which replies are paired, what the scorers give. Worked by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from heartloop.core.blocks import Chart
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import Empa, EmpaView, Judgement, judged_dialogue
from heartloop.environments.empa.perturbations import (
    ALIGNED,
    ALL,
    ATTACKS,
    DIRECT,
    FLIP,
    ORIGINAL,
    PERTURBED,
    SCORERS,
    SUITE,
    EmbeddedDirectJudge,
    LLMDirectJudge,
    PerturbationShifts,
    ScorerShift,
    attack_reply,
    flipped,
    perturbation_shifts,
    perturbed,
    result_of,
)
from heartloop.environments.empa.scenario import EmpaScenario
from heartloop.environments.empa.scoring import AXES, trace
from heartloop.environments.episode import CallLog, play
from heartloop.validity.page import result_table, write_validity_json
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


SIZE = math.sqrt(18**2 + 14**2 + 12**2)  # of P_0 = (-18, -14, -12)
FLIPPED = math.sqrt(3**2 + 13**2 + 15**2)


async def judged(*, preset: str = "released") -> dict[str, list[Transcript]]:
    """Two replies, C 2 and A -1; attacked, A -2 and P 1 each."""
    stored = await played(levels(C=2), replies=2)
    forms = [levels(C=2), levels(A=-1)]
    original = await perturbed(stored, CASE, Fixed(*forms), Beside(), variant=ORIGINAL, preset=preset)
    bad = {**levels(A=-2), "P.Prog": 1}
    return {
        ORIGINAL: [original],
        FLIP: [await perturbed(stored, CASE, Fixed(*forms), Beside(), variant=FLIP, preset=preset)],
        **{
            attack: [await perturbed(stored, CASE, Fixed(bad), Beside(), variant=attack, preset=preset, original=original)]
            for attack in ATTACKS
        },
    }


def means(found: PerturbationShifts, perturbation: str, scorer: str, pairs: str = ALIGNED) -> tuple[float, float]:
    (mean,) = cell(found, perturbation, scorer, pairs).scenarios
    return mean.original, mean.perturbed


def cell(found: PerturbationShifts, *key: str) -> ScorerShift:
    return next(one for one in found.cells if (one.perturbation, one.scorer, one.pairs) == key)


async def test_the_first_reply_by_hand() -> None:
    """v = (3, 0, 0); in its place (0, -5, 1). Only the first reply has positive energy."""
    found = perturbation_shifts([await judged()])
    attack = ATTACKS[0]
    assert means(found, attack, "epm") == pytest.approx((3 * 18 / SIZE, (-5 * 14 + 12) / SIZE))
    assert means(found, attack, "alignment") == pytest.approx((18 / SIZE, (-5 * 14 + 12) / SIZE / math.sqrt(26)))
    assert means(found, attack, "rubric") == (2, -1)
    assert means(found, attack, "magnitude") == pytest.approx((3, math.sqrt(26)))
    assert means(found, attack, "direct") == (10, 10)
    assert means(found, FLIP, "epm") == pytest.approx((3 * 18 / SIZE, 3 * 3 / FLIPPED)), "the same step, the other need"
    assert means(found, FLIP, "rubric") == (2, 2)
    shift = cell(found, "sycophancy", "rubric", ALIGNED).shift
    assert (shift.n, shift.mean, shift.decrease_rate) == (3, -3, 1.0), "one aligned reply, three attacks"
    assert cell(found, attack, "epm", ALL).shift.n == 2


async def test_the_picture_of_figure_5c_sets_the_energy_against_the_size() -> None:
    """As above: the size of the step goes from 3 to sqrt 26, the energy from 3 x 18 / |P_0| to (-5 x 14 + 12) / |P_0|."""
    (chart,) = (block for block in result_of([await judged()]).page if isinstance(block, Chart))
    assert [series.name for series in chart.series] == ["pure empathy", "self-empowerment", "psycho-jargon"]
    for series in chart.series:
        (point,) = series.points
        assert (point.x, point.y) == pytest.approx((math.sqrt(26) - 3, (-5 * 14 + 12 - 3 * 18) / SIZE))


async def test_under_paper_a_step_is_seen_from_where_the_original_stood() -> None:
    """After v = (2, 0, 0) the original stands at (-16, -14, -12); there (0, -2, 1) is worth -16 over 24.4."""
    found = perturbation_shifts([await judged(preset="paper")])
    there = math.sqrt(16**2 + 14**2 + 12**2)
    first, second = (-2 * 14 + 12) / SIZE, (-2 * 14 + 12) / there
    assert means(found, ATTACKS[0], "epm", ALL)[1] == pytest.approx((first + second) / 2)
    assert means(found, ATTACKS[0], "epm") == pytest.approx((2 * 18 / SIZE, first))


async def test_what_is_not_scored_in_both_is_left_out_and_counted() -> None:
    whole, other = await judged(), await judged()
    stored = await played(levels(C=2), replies=2)
    lost = await perturbed(stored, CASE, Fixed(levels(C=2)), Beside(breaks=True), variant=FLIP, preset="released")
    other = {name: [t.model_copy(update={"model": "other"}) for t in kept] for name, kept in other.items()}
    other[FLIP] = [lost.model_copy(update={"model": "other"})]
    del other["psycho_jargon"]
    found = perturbation_shifts([whole, other])
    assert (found.compared[FLIP], found.left_out[FLIP]) == (1, 1)
    assert (found.compared["psycho_jargon"], found.left_out["psycho_jargon"]) == (1, 1)
    assert (found.compared["pure_empathy"], found.left_out["pure_empathy"]) == (2, 0)
    assert means(found, FLIP, "epm") == means(perturbation_shifts([whole]), FLIP, "epm")
    assert any("excluded" in note for note in result_of([whole, other]).notes)


async def test_what_cannot_be_compared_is_refused() -> None:
    one, other = await judged(), await judged(preset="paper")
    with pytest.raises(InputError, match=r"preset \(paper, released\)"):
        perturbation_shifts([one, other])
    with pytest.raises(InputError, match="original and in a variant"):
        perturbation_shifts([{ORIGINAL: one[ORIGINAL]}])
    bare = [turn.model_copy(update={"evidence": {**turn.evidence, "direct": None}}) for turn in one[ORIGINAL][0].turns]
    with pytest.raises(InputError, match="direct judge"):
        perturbation_shifts([{**one, ORIGINAL: [one[ORIGINAL][0].model_copy(update={"turns": tuple(bare)})]}])


async def test_the_file_and_the_table(tmp_path: Path) -> None:
    result = SUITE.result([await judged()])
    write_validity_json(result.record, tmp_path / "validity.json")
    record = json.loads((tmp_path / "validity.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert len(record["cells"]) == 2 * len(PERTURBED) * len(SCORERS)
    assert record["cells"][0]["shift"]["cluster_low"] is None, "one scenario has no interval"
    assert result_table(result).row_count == len(PERTURBED) * (1 + len(SCORERS))
