"""Stored PERM dialogues gone over again: by the other preset, by other judges."""

from __future__ import annotations

from typing import Any

import pytest
from heartloop.environments.perm.rejudge import rejudged
from heartloop.environments.perm.rescore import rescored

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.perm import EmbeddedUser, Perm
from heartloop.environments.perm.scoring import BROKEN_FORMAT
from heartloop.models.baselines import Baseline
from tests.perm.test_environment import ANSWER, Fixed
from tests.perm_sample import SAMPLE


async def played(user: Fixed | None = None, answer: str = ANSWER, **settings: Any) -> Transcript:
    return await play(Perm([SAMPLE], user or Fixed(), **settings), SAMPLE.id, ScriptedChat([answer]), seed=3)


class TestRescore:
    async def test_what_the_other_preset_sums_live(self) -> None:
        stored, live = await played(bystander_weight=0.1), await played(bystander_weight=0.1, preset="unit")
        found = rescored(stored, preset="unit", max_turns=1)
        assert (found.score, found.rewards) == (live.score, live.rewards)
        assert found.turns == live.turns
        assert rescored(found, preset="released", max_turns=1) == stored

    async def test_a_broken_form_stays_and_an_unscored_one_too(self) -> None:
        broken = rescored(await played(answer="Hm."), preset="unit", max_turns=1)
        assert (broken.score, broken.preset) == (BROKEN_FORMAT, "unit")
        failed = rescored(await played(Fixed({"reception": AnswerError("none")})), preset="unit", max_turns=1)
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
        found = rescored(stored, preset="released", max_turns=1, **rules)
        assert (found.score, found.rewards, found.facts, found.turns) == (live.score, live.rewards, live.facts, live.turns)
        assert rescored(found, preset="released", max_turns=1, bystander_weight=0.5, without=()) == stored

    async def test_what_is_not_asked_for_stays_as_it_was_played(self) -> None:
        stored = await played(bystander_weight=0.1, without=("length",))
        found = rescored(stored, preset="unit", max_turns=1)
        assert (found.facts["bystander_weight"], found.facts["without"]) == ("0.1", "length")

    async def test_a_broken_form_never_pays_whatever_the_weight(self) -> None:
        stored = await played(answer="Hm.")
        heavy = rescored(stored, preset="released", max_turns=1, bystander_weight=2.0)
        assert heavy.score == (await played(answer="Hm.", bystander_weight=2.0)).score == -2.0
        worst = await played(Fixed(resonation=1, expression=1, reception=1, bystander=0), bystander_weight=2.0)
        assert worst.score is not None
        assert worst.score > -2.0
        left_out = rescored(heavy, preset="released", max_turns=1, without=("bystander",))
        assert left_out.score == BROKEN_FORMAT

    async def test_wrong_use_is_refused(self) -> None:
        stored = await played()
        with pytest.raises(UseError, match="preset"):
            rescored(stored, preset="paper", max_turns=1)
        with pytest.raises(UseError, match="part to leave out"):
            rescored(stored, preset="unit", max_turns=1, without=("warmth",))
        with pytest.raises(UseError, match="one of them at least"):
            rescored(stored, preset="unit", max_turns=1, without=("resonation", "expression", "reception"))
        with pytest.raises(UseError, match="at least 0"):
            rescored(stored, preset="unit", max_turns=1, bystander_weight=-1.0)
        with pytest.raises(UseError, match="environment"):
            rescored(stored.model_copy(update={"environment": "sage"}), preset="unit", max_turns=1)
        bare = stored.model_copy(update={"turns": (stored.turns[0].model_copy(update={"evidence": {"format": ""}}),)})
        with pytest.raises(InputError, match="play it again"):
            rescored(bare, preset="unit", max_turns=1)


class TestRejudge:
    async def test_other_judges_give_other_grades_of_the_same_words(self) -> None:
        stored = await play(Perm([SAMPLE], EmbeddedUser()), SAMPLE.id, Baseline("listener"), seed=3)
        found = await rejudged(stored, SAMPLE, Fixed(resonation=5), preset="released", max_turns=1)
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert found.turns[0].evidence["scores"]["resonation"] == 5
        assert found.user == "fixed"
        again = await rejudged(found, SAMPLE, EmbeddedUser(), preset="released", max_turns=1)
        assert again.score == stored.score

    async def test_the_rules_it_was_played_by_stay(self) -> None:
        stored = await played(bystander_weight=0.1, without=("length",))
        found = await rejudged(stored, SAMPLE, Fixed(), preset="released", max_turns=1)
        assert (found.score, found.facts) == (stored.score, stored.facts)

    async def test_an_unscored_one_is_passed_on_unasked(self) -> None:
        judge = Fixed()
        found = await rejudged(await played(Fixed({"bystander": AnswerError("none")})), SAMPLE, judge, preset="unit", max_turns=1)
        assert (found.score, judge.asked) == (None, {})

    async def test_another_text_is_refused(self) -> None:
        other = SAMPLE.model_copy(update={"query": SAMPLE.query + " I am tired."})
        with pytest.raises(InputError, match="another text"):
            await rejudged(await played(), other, Fixed(), preset="released", max_turns=1)
