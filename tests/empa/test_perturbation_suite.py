"""EMPA's validity suite: which replies are paired, what the scorers give, the file and the page. Worked by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.empa.perturbation_suite import (
    ALIGNED,
    ALL,
    PERTURBED,
    SCORERS,
    SUITE,
    PerturbationShifts,
    ScorerShift,
    perturbation_shifts,
    result_of,
)
from heartloop.environments.empa.perturbations import ATTACKS, FLIP, ORIGINAL, perturbed
from heartloop.validity.page import result_table, write_validity_json
from tests.empa.test_environment import CASE, Fixed, levels
from tests.empa.test_perturbations import Beside, played

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
