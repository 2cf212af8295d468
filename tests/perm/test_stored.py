"""Stored PERM dialogues by another preset, other rules, and other judges; what cannot be rescored is refused."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.core.errors import AnswerError, InputError
from heartloop.environments.perm.environment import PermOptions, rescored
from heartloop.environments.perm.scoring import BROKEN_FORMAT
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from tests.one_turn_scenarios import SAMPLE
from tests.perm.test_environment import Fixed, played


@pytest.mark.parametrize(
    "rules",
    [
        {"preset": "unit"},
        {"bystander_weight": 1.0},
        {"bystander_weight": 0.0, "preset": "unit"},
        {"without": ("bystander",)},
        {"without": ("resonation", "length")},
        {"without": ("expression", "reception"), "bystander_weight": 0.1},
    ],
)
async def test_other_rules_give_the_reward_that_they_would_have_given_live(rules: dict[str, Any]) -> None:
    stored, live = await played(), await played(**rules)
    found = rescored(stored, PermOptions(**rules))
    assert (found.score, found.rewards, found.facts, found.turns) == (live.score, live.rewards, live.facts, live.turns)
    assert rescored(found, PermOptions()) == stored


async def test_a_broken_form_never_pays_whatever_the_weight_and_an_unscored_dialogue_stays() -> None:
    stored = await played(answer="Hm.")
    assert (found := rescored(stored, PermOptions(preset="unit"))).score == BROKEN_FORMAT
    assert found.preset == "unit"
    heavy = rescored(stored, PermOptions(bystander_weight=2.0))
    assert heavy.score == (await played(answer="Hm.", bystander_weight=2.0)).score == -2.0
    assert rescored(heavy, PermOptions(without=("bystander",))).score == BROKEN_FORMAT
    failed = rescored(await played(Fixed({"reception": AnswerError("none")})), PermOptions(preset="unit"))
    assert (failed.score, failed.stop) == (None, "failed")


async def test_without_grades_it_is_refused() -> None:
    stored = await played()
    bare = stored.model_copy(update={"turns": (stored.turns[0].model_copy(update={"evidence": {"format": ""}}),)})
    with pytest.raises(InputError, match="play it again"):
        rescored(bare, PermOptions(preset="unit"))
    facts = {**stored.facts, "bystander_weight": "much"}
    with pytest.raises(InputError, match="'much'; expected a number"):
        rescored(stored.model_copy(update={"facts": facts}), PermOptions())


async def test_other_judges_grade_the_same_words_by_the_rules_it_was_played_by() -> None:
    stored = await played(bystander_weight=0.1, without=("length",))
    found = await rejudged(load_environment("perm"), stored, SAMPLE, Fixed(resonation=5), PermOptions())
    assert found.facts == stored.facts
    assert found.turns[0].reply == stored.turns[0].reply
    assert found.turns[0].evidence["scores"]["resonation"] == 5
    again = await rejudged(load_environment("perm"), found, SAMPLE, Fixed(), PermOptions())
    assert again.score == stored.score
