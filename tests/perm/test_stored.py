"""Stored PERM dialogues gone over again: by the other preset, by other judges."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError
from heartloop.environments.episode import play
from heartloop.environments.perm.environment import Perm, PermOptions, rescored
from heartloop.environments.perm.scoring import BROKEN_FORMAT
from heartloop.environments.perm.users import PermEmbeddedUser
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.models.baselines import Baseline
from tests.one_turn_scenarios import SAMPLE
from tests.perm.test_environment import ANSWER, Fixed

PERM = load_environment("perm")


async def played(user: Fixed | None = None, answer: str = ANSWER, **settings: Any) -> Transcript:
    return await play(Perm([SAMPLE], user or Fixed(), **settings), SAMPLE.id, ScriptedChat([answer]), seed=3)


class TestRescore:
    async def test_what_the_other_preset_sums_live(self) -> None:
        stored, live = await played(bystander_weight=0.1), await played(bystander_weight=0.1, preset="unit")
        found = rescored(stored, PermOptions(preset="unit", bystander_weight=0.1))
        assert (found.score, found.rewards) == (live.score, live.rewards)
        assert found.turns == live.turns
        assert rescored(found, PermOptions(preset="released", bystander_weight=0.1)) == stored

    async def test_a_broken_form_stays_and_an_unscored_one_too(self) -> None:
        broken = rescored(await played(answer="Hm."), PermOptions(preset="unit"))
        assert (broken.score, broken.preset) == (BROKEN_FORMAT, "unit")
        failed = rescored(await played(Fixed({"reception": AnswerError("none")})), PermOptions(preset="unit"))
        assert (failed.score, failed.stop) == (None, "failed")

    @pytest.mark.parametrize(
        "rules",
        [
            {"bystander_weight": 1.0},
            {"bystander_weight": 0.0},
            {"without": ("bystander",)},
            {"without": ("resonation", "length")},
            {"without": ("expression", "reception"), "bystander_weight": 0.1},
        ],
    )
    async def test_other_rules_sum_what_they_would_have_live(self, rules: dict[str, Any]) -> None:
        stored, live = await played(), await played(**rules)
        found = rescored(stored, PermOptions(preset="released", **rules))
        assert (found.score, found.rewards, found.facts, found.turns) == (live.score, live.rewards, live.facts, live.turns)
        assert rescored(found, PermOptions(preset="released", bystander_weight=0.5, without=())) == stored

    async def test_a_broken_form_never_pays_whatever_the_weight(self) -> None:
        stored = await played(answer="Hm.")
        heavy = rescored(stored, PermOptions(preset="released", bystander_weight=2.0))
        assert heavy.score == (await played(answer="Hm.", bystander_weight=2.0)).score == -2.0
        worst = await played(Fixed(resonation=1, expression=1, reception=1, bystander=0), bystander_weight=2.0)
        assert worst.score is not None
        assert worst.score > -2.0
        left_out = rescored(heavy, PermOptions(preset="released", without=("bystander",)))
        assert left_out.score == BROKEN_FORMAT

    async def test_wrong_use_is_refused(self) -> None:
        stored = await played()
        bare = stored.model_copy(update={"turns": (stored.turns[0].model_copy(update={"evidence": {"format": ""}}),)})
        with pytest.raises(InputError, match="play it again"):
            rescored(bare, PermOptions(preset="unit"))


class TestRejudge:
    async def test_other_judges_give_other_grades_of_the_same_words(self) -> None:
        stored = await play(Perm([SAMPLE], PermEmbeddedUser()), SAMPLE.id, Baseline("reflector"), seed=3)
        found = await rejudged(PERM, stored, SAMPLE, Fixed(resonation=5), PermOptions(preset="released"))
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert found.turns[0].evidence["scores"]["resonation"] == 5
        assert found.user == "fixed"
        again = await rejudged(PERM, found, SAMPLE, PermEmbeddedUser(), PermOptions(preset="released"))
        assert again.score == stored.score

    async def test_the_rules_it_was_played_by_stay(self) -> None:
        stored = await played(bystander_weight=0.1, without=("length",))
        found = await rejudged(PERM, stored, SAMPLE, Fixed(), PermOptions(preset="released"))
        assert (found.score, found.facts) == (stored.score, stored.facts)
