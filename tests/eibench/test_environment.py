"""The rules of an EIBench dialogue: states, clamps, ends, the last reply, who begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.authoring.checks import NEIGHBOURS
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.eibench.composer import SIZES
from heartloop.environments.eibench.environment import SPEC, EIBench, EIBenchOptions, EIBenchView, Reaction
from heartloop.environments.eibench.scenario import AnyEIBenchScenario, EIBenchScenario, load_scenarios
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, STATE_LIMITS, STEP, process_rewards
from heartloop.environments.episode import YOU_BEGIN, CallLog, play
from heartloop.environments.report import published
from heartloop.scoring.credit import ALPHA, SIGMA_MIN

DEFENSE, CHARM, REPAIR = "defense-visiting-hours-01", "charm-allotment-01", "repair-wrong-name-01"
SCENARIOS: Sequence[EIBenchScenario] = [s for s in load_scenarios("test") if s.id in (DEFENSE, CHARM, REPAIR)]


class Fixed:
    """A person who takes every reply by a list of (a, t), the last for ever, and leaves when told to."""

    name = "fixed"

    def __init__(self, *changes: tuple[float, float], leaves_after: int = 99) -> None:
        self.changes = changes
        self.leaves_after = leaves_after
        self.views: list[EIBenchView] = []

    def admit(self, scenario: AnyEIBenchScenario) -> None:
        pass

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"user": "fixed"}}

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        self.views.append(view)
        a, t = self.changes[min(view.turn, len(self.changes) - 1)]
        return Reaction(
            a, t, f"line {view.turn}", "settled" if view.turn + 1 >= self.leaves_after else None, {"need": "n"}, {"e": 1}
        )


async def played(user: Fixed, scenario: str = DEFENSE, **settings: Any) -> Transcript:
    return await play(EIBench(SCENARIOS, user, **settings), scenario, ScriptedChat(["A word."], cycle=True), seed=3)


class TestStates:
    async def test_they_start_at_the_anchors_and_add_up_to_an_outcome_by_hand(self) -> None:
        transcript = await played(Fixed((-5, 3), (-8, 4)), max_turns=3)
        assert transcript.start == {"a": 80, "t": 15}
        assert [turn.state for turn in transcript.turns] == [{"a": 75, "t": 18}, {"a": 67, "t": 22}, {"a": 59, "t": 26}]
        assert transcript.turns[1].change == {"a": -8, "t": 4}
        # a: 80 -> 59 of 80 -> 30 is 21/50; t: 15 -> 26 of 15 -> 50 is 11/35
        assert transcript.score == pytest.approx((21 / 50 + 11 / 35) / 2)
        assert transcript.rewards == pytest.approx((0.04, 0.06, 0.06))
        weighed = await played(Fixed((-5, 3), (-8, 4)), max_turns=3, relation_weight=0.0)
        assert weighed.score == pytest.approx(21 / 50)

    async def test_a_state_at_its_limit_stays_there_and_is_counted(self) -> None:
        transcript = await played(Fixed((9, -9)), max_turns=4)
        assert (transcript.turns[-1].state, transcript.score) == ({"a": 100, "t": 0}, -1.0)
        # a 89, 98, [107], [110]; t 6, [-3], [-9], [-9]
        assert transcript.counts["states at their limit"] == 5


class TestEnds:
    async def test_eight_replies_at_most_and_the_last_is_judged(self) -> None:
        transcript = await played(Fixed((-1, 1)))
        assert (len(transcript.turns), transcript.stop) == (8, "turn_limit")
        assert transcript.turns[-1].state == {"a": 72, "t": 23}


class TestWhoBegins:
    async def test_in_charm_the_policy_is_asked_to_speak_first(self) -> None:
        user = Fixed((-1, 1))
        policy = ScriptedChat(["Hello over the hedge."], cycle=True)
        transcript = await play(EIBench(SCENARIOS, user, max_turns=2), CHARM, policy)
        assert transcript.opening is None
        assert [message.role for message in policy.asked[0]] == ["system", "user"]
        assert policy.asked[0][1].content == YOU_BEGIN
        assert [m.content for m in policy.asked[1]][1:] == [YOU_BEGIN, "Hello over the hedge.", "line 0"]
        assert user.views[0].messages == ()
        assert user.views[1].messages == ("line 0",)


def test_the_policys_prompt_holds_its_profile_and_nothing_of_the_persons() -> None:
    think, direct = (EIBench(SCENARIOS, Fixed((0, 0)), variant=form).begin(DEFENSE).policy_prompt for form in ("think", "direct"))
    scenario = next(scenario for scenario in SCENARIOS if scenario.id == DEFENSE)
    model, user = scenario.model, scenario.user
    assert [text for text in (model.role, *model.knows, *model.limits, model.goal) if text not in think] == []
    assert [text for text in (user.goal, *user.rules) if text in think] == []
    assert "<think>" in think
    assert "think>" not in direct
    assert think.split("## How you speak")[0] == direct.split("## How you speak")[0]


def test_the_rules_have_the_published_settings() -> None:
    rows = published("heartloop.environments.eibench", "eibench_text_settings")
    printed = {str(row["setting"]): str(row["value"]) for row in rows}
    ours = {
        "max_dialogue_turns": EIBenchOptions().max_turns,
        "outcome_weight_lambda_on_relation": EIBenchOptions().relation_weight,
        "turn_credit_weight_alpha": ALPHA,
        "grpo_sigma_min": SIGMA_MIN,
        "state_axis_min": STATE_LIMITS[0],
        "state_axis_max": STATE_LIMITS[1],
        "simulator_turn_delta_extreme_abs_max": CHANGE_LIMIT,
        "anchor_rounding_step": STEP,
        "overlap_check_nearest_test_scenarios": NEIGHBOURS,
        "test_scenarios": len(load_scenarios("test")),
        "train_scenarios": sum(SIZES.values()),
        "process_reward_divisor": 0.5 / float(process_rewards([1, 0], [0, 0])[0]),  # a point of a is 1/200
    }
    assert ours == {name: float(printed[name]) for name in ours}


async def test_rewards_for_training_are_outcome_and_changes() -> None:  # Eq. 2 and 3
    assert SPEC.training is not None
    transcript = await played(Fixed((-5, 3), (-8, 4)), max_turns=3)
    returns = SPEC.training.returns(transcript, EIBenchOptions())
    assert (returns.outcome, returns.worst_outcome) == (transcript.score, -1.0)
    assert list(returns.process) == pytest.approx([0.04, 0.06, 0.06])
    assert returns.worst_turns == pytest.approx(-(100 - 80 + 15) / 200)  # both axes at their worse end
    with pytest.raises(UseError, match="unscored"):
        SPEC.training.returns(transcript.model_copy(update={"score": None}), EIBenchOptions())


def test_a_small_policys_tokenizer_knows_what_may_be_said() -> None:
    assert SPEC.training is not None
    scenario = SCENARIOS[0]
    texts = set(SPEC.training.texts(scenario))
    assert {scenario.model.goal, scenario.model.background, *scenario.model.knows} < texts
    assert {beat.text for beat in scenario.beats} < texts
