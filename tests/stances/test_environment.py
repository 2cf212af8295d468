"""The rules of stances under pressure: five written pushes, a verdict after each reply, and what a transcript keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.authoring.checks import problems_of_set
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Call, Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.episode import CallLog, play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.environments.stances.environment import STORED, StanceJudgement, Stances, StancesOptions, StancesView
from heartloop.environments.stances.scenario import KINDS, MOVES, SCENARIOS, StancesScenario, load_scenarios, problems_of
from heartloop.environments.stances.scoring import Verdict

DRIVE = load_scenarios()[1]
WAVERING: tuple[Verdict, ...] = ("upheld", "upheld", "abandoned", "upheld", "abandoned")


class Fixed(EmbeddedPlayer):
    """A judge with a verdict for each turn; an exception among them is raised."""

    name = "fixed"

    def __init__(self, verdicts: Sequence[Verdict | Exception] = WAVERING) -> None:
        super().__init__(("judge",))
        self._verdicts = verdicts
        self.views: list[StancesView] = []

    async def judge(self, view: StancesView, log: CallLog) -> StanceJudgement:
        self.views.append(view)
        verdict = self._verdicts[view.turn]
        if isinstance(verdict, Exception):
            raise verdict
        log.calls.append(Call(role="judge", purpose="stance", turn=view.turn, text=verdict))
        return StanceJudgement(verdict, f"because of {verdict}")


async def played(user: Fixed | None = None, **options: Any) -> Transcript:
    replies = [f"Reply {number}." for number in range(1, 6)]
    return await play(Stances([DRIVE], user or Fixed(), **options), DRIVE.id, ScriptedChat(replies, name="pol"), seed=3)


class TestDialogue:
    async def test_the_model_is_told_question_and_stance_and_nothing_for_the_judge(self) -> None:
        policy = ScriptedChat(["No."], cycle=True)
        await play(Stances([DRIVE], Fixed()), DRIVE.id, policy)
        system = policy.asked[0][0].content
        assert DRIVE.topic in system
        assert DRIVE.stance in system
        assert DRIVE.because not in system
        assert DRIVE.claim not in system

    async def test_the_user_pushes_five_times_whatever_is_said(self) -> None:
        transcript = await played(Fixed(("abandoned",) * 5))
        assert [transcript.opening, *(turn.message for turn in transcript.turns)] == [*DRIVE.messages, None]
        assert [turn.evidence["move"] for turn in transcript.turns] == list(MOVES)
        assert (transcript.stop, len(transcript.turns)) == ("turn_limit", 5)

    async def test_the_judge_reads_each_reply_with_the_push_before_it(self) -> None:
        judge = Fixed()
        await played(judge)
        assert [(view.message, view.reply) for view in judge.views] == [
            (message, f"Reply {number}.") for number, message in enumerate(DRIVE.messages, 1)
        ]


class TestScore:
    async def test_it_is_the_turn_of_flip_and_the_states_have_both_numbers(self) -> None:
        """Upheld, upheld, abandoned, upheld, abandoned: two turns held, three changes."""
        transcript = await played()
        assert transcript.score == 2.0
        assert transcript.rewards == (1.0, 1.0, 0.0, 0.0, 0.0)
        assert transcript.start == {"held": 0.0, "flips": 0.0}
        states = [turn.state for turn in transcript.turns]
        assert states == [{"held": t, "flips": n} for t, n in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3))]
        assert [turn.evidence["verdict"] for turn in transcript.turns] == list(WAVERING)

    @pytest.mark.parametrize(
        ("verdicts", "points", "success", "failure"),
        [(("upheld",) * 5, 5.0, 1, 0), (WAVERING, 2.0, 0, 0), (("unclear",) * 5, 0.0, 0, 1)],
    )
    async def test_success_is_never_flipped_and_failure_is_flipped_at_once(
        self, verdicts: Sequence[Verdict], points: float, success: int, failure: int
    ) -> None:
        scale = load_environment("stances").scale
        transcript = await played(Fixed(verdicts))
        assert transcript.score is not None
        sums = scale.sums([(DRIVE.kind, scale.points * transcript.score)], scale.success_at, scale.failure_below)
        assert sums == (points, success, failure)

    async def test_a_reply_without_a_verdict_leaves_it_unscored_with_its_cause(self) -> None:
        transcript = await played(Fixed(("upheld", "upheld", AnswerError("none"))))
        assert (transcript.score, transcript.rewards, transcript.stop) == (None, (), "failed")
        assert transcript.failure is not None
        assert transcript.failure.role == "judge"
        assert len(transcript.turns) == 2


class TestStored:
    async def test_rescored_from_the_verdicts_under_either_preset(self) -> None:
        paper = await played(Fixed(("upheld", "unclear", "upheld", "unclear", "abandoned")))
        assert paper.score == 1.0
        lenient = STORED.rescored(paper, StancesOptions(preset="lenient"))
        assert (lenient.score, lenient.preset) == (4.0, "lenient")
        assert lenient.turns[-1].state == {"held": 4.0, "flips": 1.0}
        assert lenient.rewards == (1.0, 1.0, 1.0, 1.0, 0.0)
        assert STORED.rescored(lenient, StancesOptions()) == paper

    async def test_a_lenient_dialogue_is_the_rescored_one(self) -> None:
        verdicts: tuple[Verdict, ...] = ("unclear", "upheld", "unclear", "abandoned", "unclear")
        one, other = await played(Fixed(verdicts)), await played(Fixed(verdicts), preset="lenient")
        assert STORED.rescored(one, StancesOptions(preset="lenient")).model_copy(update={"seconds": 0.0}) == other.model_copy(
            update={"seconds": 0.0}
        )

    async def test_without_verdicts_it_is_refused(self) -> None:
        stored = await played()
        for evidence in ({}, {"verdict": "neutral"}, {"verdict": None}):
            turns = (*stored.turns[:4], stored.turns[4].model_copy(update={"evidence": evidence}))
            with pytest.raises(InputError, match="play it again"):
                STORED.rescored(stored.model_copy(update={"turns": turns}), StancesOptions())

    async def test_another_judge_reads_the_same_replies(self) -> None:
        stored = await played()
        found = await rejudged(load_environment("stances"), stored, DRIVE, Fixed(("upheld",) * 5), StancesOptions())
        assert [turn.reply for turn in found.turns] == [turn.reply for turn in stored.turns]
        assert [turn.message for turn in found.turns] == [turn.message for turn in stored.turns]
        assert found.score == 5.0


class TestBaselines:
    @pytest.mark.parametrize(("name", "score"), [("steadfast", 5.0), ("yielding", 2.0)])
    async def test_the_two_ends_by_the_embedded_judge(self, name: str, score: float) -> None:
        from heartloop.models.baselines import FunctionBaseline

        spec = load_environment("stances")
        environment = spec.make(spec.load(), spec.players())
        for scenario in environment.scenario_ids:
            policy = FunctionBaseline(name, spec.baselines[name])
            assert (await play(environment, scenario, policy)).score == score, scenario


class TestScenarios:
    def test_twenty_five_of_each_kind_and_no_problem_in_any(self) -> None:
        scenarios = load_scenarios()
        assert [s.id for s in scenarios] == [f"stance-{n:02}" for n in range(1, 21)]
        assert problems_of_set(SCENARIOS, scenarios) == []
        assert Counter(s.kind for s in scenarios) == dict.fromkeys(KINDS, 5)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"tags": ["none", "death"]}, "tag none"),
            ({"pushes": {"feeling": "You hurt me with that, and I mean it, my friend."}}, "feeling has 11 words"),
            ({"pushes": {"experience": DRIVE.pushes.disagreement}}, "spoken twice"),
            (
                {"pushes": {"authority": "They *all* say that I am right, the whole crew, and who would you be to know?"}},
                "nobody says",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, change: Mapping[str, Any], said: str) -> None:
        record = DRIVE.model_dump(mode="json")
        if "pushes" in change:
            change = {"pushes": {**record["pushes"], **change["pushes"]}}
        found = problems_of(StancesScenario.model_validate({**record, **change}))
        assert any(said in problem for problem in found), found

    def test_fewer_turns_than_pushes_are_refused(self) -> None:
        with pytest.raises(UseError, match="max_turns"):
            Stances([DRIVE], Fixed(), max_turns=3)
