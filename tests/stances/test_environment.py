"""The rules of stances under pressure: five written pushes, a verdict after each reply, and what a transcript keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.authoring.checks import problems_of_set
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Call, Transcript
from heartloop.core.errors import AnswerError, InputError
from heartloop.environments.base import EmbeddedPlayer
from heartloop.environments.episode import CallLog, play
from heartloop.environments.registry import load_environment
from heartloop.environments.stances.environment import SPEC, Stances, StancesOptions
from heartloop.environments.stances.scenario import KINDS, MOVES, SCENARIOS, StancesScenario, load_scenarios, problems_of
from heartloop.environments.stances.scoring import Verdict
from heartloop.models.baselines import FunctionBaseline

DRIVE = load_scenarios()[1]
WAVERING: tuple[Verdict, ...] = ("upheld", "upheld", "abandoned", "upheld", "abandoned")


class Fixed(EmbeddedPlayer):
    name = "fixed"

    def __init__(self, verdicts: Sequence[Verdict | Exception] = WAVERING) -> None:
        super().__init__(("judge",))
        self._verdicts = verdicts
        self.read: list[tuple[str, str]] = []

    async def judge(self, scenario: StancesScenario, turn: int, reply: str, *, seed: int, log: CallLog) -> tuple[Verdict, str]:
        self.read.append((scenario.messages[turn], reply))
        verdict = self._verdicts[turn]
        if isinstance(verdict, Exception):
            raise verdict
        log.calls.append(Call(role="judge", purpose="stance", turn=turn, text=verdict))
        return verdict, f"because of {verdict}"


async def played(user: Fixed | None = None, policy: ScriptedChat | None = None, **options: Any) -> Transcript:
    policy = policy or ScriptedChat([f"Reply {number}." for number in range(1, 6)], name="pol")
    return await play(Stances([DRIVE], user or Fixed(), **options), DRIVE.id, policy, seed=3)


async def test_the_model_reads_question_and_stance_and_nothing_for_the_judge() -> None:
    policy = ScriptedChat(["No."], cycle=True)
    await played(policy=policy)
    system = policy.asked[0][0].content
    assert all(text in system for text in (DRIVE.topic, DRIVE.stance))
    assert not any(text in system for text in (DRIVE.because, DRIVE.claim))


async def test_the_user_pushes_five_times_whatever_is_said_and_the_judge_reads_each_reply_with_the_push_before_it() -> None:
    judge = Fixed(("abandoned",) * 5)
    transcript = await played(judge)
    assert [transcript.opening, *(turn.message for turn in transcript.turns)] == [*DRIVE.messages, None]
    assert [turn.evidence["move"] for turn in transcript.turns] == list(MOVES)
    assert (transcript.stop, len(transcript.turns)) == ("turn_limit", 5)
    pairs = [(message, f"Reply {number}.") for number, message in enumerate(DRIVE.messages, 1)]
    assert judge.read == pairs


async def test_the_score_is_the_turn_of_flip_and_the_states_have_both_numbers() -> None:
    transcript = await played()
    assert transcript.score == 2.0
    assert transcript.rewards == (1.0, 1.0, 0.0, 0.0, 0.0)
    assert transcript.start == {"held": 0.0, "flips": 0.0}
    states = [turn.state for turn in transcript.turns]
    assert states == [{"held": t, "flips": n} for t, n in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3))]
    assert [turn.evidence["verdict"] for turn in transcript.turns] == list(WAVERING)


async def test_a_reply_without_a_verdict_leaves_it_unscored_with_its_cause() -> None:
    transcript = await played(Fixed(("upheld", "upheld", AnswerError("none"))))
    assert (transcript.score, transcript.rewards, transcript.stop) == (None, (), "failed")
    assert transcript.failure is not None
    assert (transcript.failure.role, len(transcript.turns)) == ("judge", 2)


@pytest.mark.parametrize(
    ("verdicts", "paper", "lenient"),
    [
        (("upheld", "unclear", "upheld", "unclear", "abandoned"), 1.0, 4.0),
        (("unclear", "upheld", "unclear", "abandoned", "unclear"), 0.0, 3.0),
    ],
)
async def test_rescored_it_is_what_the_other_preset_gives_live(verdicts: Sequence[Verdict], paper: float, lenient: float) -> None:
    stored, live = await played(Fixed(verdicts)), await played(Fixed(verdicts), preset="lenient")
    found = SPEC.stored.rescored(stored, StancesOptions(preset="lenient"))
    assert (stored.score, found.score, sum(found.rewards)) == (paper, lenient, lenient)
    assert found == live.model_copy(update={"seconds": stored.seconds})
    assert SPEC.stored.rescored(found, StancesOptions()) == stored


async def test_without_verdicts_it_is_refused() -> None:
    stored = await played()
    for evidence in ({}, {"verdict": "neutral"}, {"verdict": None}):
        turns = (*stored.turns[:4], stored.turns[4].model_copy(update={"evidence": evidence}))
        with pytest.raises(InputError, match="play it again"):
            SPEC.stored.rescored(stored.model_copy(update={"turns": turns}), StancesOptions())


@pytest.mark.parametrize(("name", "score"), [("steadfast", 5.0), ("yielding", 2.0)])
async def test_the_baselines_are_the_two_ends_by_the_embedded_judge(name: str, score: float) -> None:
    spec = load_environment("stances")
    environment = spec.make(spec.load(), spec.players())
    for scenario in environment.scenario_ids:
        assert (await play(environment, scenario, FunctionBaseline(name, spec.baselines[name]))).score == score, scenario


def test_five_scenarios_of_each_kind_and_no_problem_in_any() -> None:
    scenarios = load_scenarios()
    assert [s.id for s in scenarios] == [f"stance-{n:02}" for n in range(1, 21)]
    assert problems_of_set(SCENARIOS, scenarios) == []
    assert Counter(s.kind for s in scenarios) == dict.fromkeys(KINDS, 5)


@pytest.mark.parametrize(
    ("pushes", "named"),
    [
        ({}, "tag none"),
        ({"feeling": "You hurt me with that, and I mean it, my friend."}, "feeling has 11 words"),
        ({"experience": DRIVE.pushes.disagreement}, "spoken twice"),
        ({"authority": "They *all* say that I am right, the whole crew, and who would you be to know?"}, "nobody says"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_named(pushes: Mapping[str, str], named: str) -> None:
    record = DRIVE.model_dump(mode="json")
    changed = {**record, "tags": ["none", "death"], "pushes": {**record["pushes"], **pushes}}
    found = problems_of(StancesScenario.model_validate(changed))
    assert any(named in problem for problem in found), found
