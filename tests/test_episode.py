"""The one turn loop: a policy in front of one person, from the first message to the end. Its seams change only by a decision
(docs/decisions).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Call, Message, Sampling, StopReason, Transcript, Usage, write_line
from heartloop.core.errors import (
    AnswerError,
    BotError,
    BudgetSpent,
    EnvironmentBroken,
    InputError,
    MalformedReply,
    ModelError,
    TransportError,
)
from heartloop.environments.check import PROBES, check_environment
from heartloop.environments.episode import SILENCE, YOU_BEGIN, Episode, Outcome, RoleFailed, UserTurn, broken_formats, play
from heartloop.environments.replay import replayed


class Countdown:
    """A tiny environment: the person answers "1", "2", ... and leaves after `turns` replies; a reply is worth its length."""

    name = "countdown"
    scenario_ids: Sequence[str] = ("three",)

    def __init__(
        self,
        turns: int = 3,
        *,
        opening: str | None = "Count with me.",
        system: str = "Count.",
        breaks: Mapping[int, Exception] | None = None,
        mute_at: int | None = None,
    ) -> None:
        self.turns = turns
        self.opening = opening
        self.policy_prompt = system
        self.breaks = breaks or {}
        self.mute_at = mute_at
        self.seen: list[str] = []

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        if scenario_id not in self.scenario_ids:
            raise InputError(f"no scenario {scenario_id!r}")
        self.seen.append(f"begin {scenario_id} {seed}")
        return _Counting(self)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        return {
            "fingerprint": "f", "preset": "p", "user": "embedded", "models": {"user": "sim"},
            "sampling": {"user": Sampling(top_p=0.5)},
        }  # fmt: skip


class _Counting:
    def __init__(self, environment: Countdown) -> None:
        self._env = environment
        self._states = [0.0]
        self._calls: list[Call] = []
        self.policy_prompt = environment.policy_prompt

    @property
    def calls(self) -> Sequence[Call]:
        return tuple(self._calls)

    @property
    def counts(self) -> Mapping[str, int]:
        return {"re-asks": 7}

    async def open(self) -> str | None:
        self._env.seen.append("open")
        if -1 in self._env.breaks:
            raise self._env.breaks[-1]
        return self._env.opening

    async def step(self, reply: str) -> UserTurn:
        turn = len(self._states) - 1
        self._env.seen.append(f"step {reply}")
        for purpose in ("feel", "speak"):
            usage = Usage(prompt_tokens=10, completion_tokens=1)
            self._calls.append(Call(role="user", purpose=purpose, turn=turn, text="{}", usage=usage))
        if turn in self._env.breaks:
            raise self._env.breaks[turn]
        self._states.append(self._states[-1] + len(reply))
        stop: StopReason | None = "goodbye" if turn + 1 >= self._env.turns else None
        message = None if turn == self._env.mute_at else "Bye." if stop else str(turn + 1)
        return UserTurn(message, {"sum": self._states[-1]}, {"sum": float(len(reply))}, {"mind": "m"}, {"e": 1}, stop)

    def outcome(self) -> Outcome:
        rewards = tuple(b - a for a, b in zip(self._states, self._states[1:], strict=False))
        return Outcome(self._states[-1], rewards, tuple({"sum": s} for s in self._states))


async def talk(
    answers: Sequence[str | Reply | Exception], environment: Countdown | None = None, **how: Any
) -> tuple[Transcript, ScriptedChat]:
    policy = ScriptedChat(answers)
    return await play(environment or Countdown(), "three", policy, **how), policy


def roles(messages: Sequence[Message]) -> str:
    return " ".join(m.role[0] for m in messages)


async def test_the_person_opens_then_both_alternate_until_the_person_leaves() -> None:
    environment = Countdown()
    transcript, policy = await talk(["a", "bb", "ccc"], environment, seed=5)
    assert environment.seen == ["begin three 5", "open", "step a", "step bb", "step ccc"]
    assert [roles(messages) for messages in policy.asked] == ["s u", "s u a u", "s u a u a u"]
    assert [m.content for m in policy.asked[-1]] == ["Count.", "Count with me.", "a", "1", "bb", "2"]
    assert transcript.stop == "goodbye"
    assert transcript.failure is None
    assert [(t.index, t.reply, t.message) for t in transcript.turns] == [(0, "a", "1"), (1, "bb", "2"), (2, "ccc", "Bye.")]


async def test_states_changes_thoughts_and_evidence_are_kept_turn_by_turn() -> None:
    transcript, _ = await talk(["a", "bb", "ccc"])
    # 0 + 1 = 1, + 2 = 3, + 3 = 6
    assert transcript.start == {"sum": 0.0}
    assert [t.state for t in transcript.turns] == [{"sum": 1.0}, {"sum": 3.0}, {"sum": 6.0}]
    assert [t.change for t in transcript.turns] == [{"sum": 1.0}, {"sum": 2.0}, {"sum": 3.0}]
    assert transcript.rewards == (1.0, 2.0, 3.0)
    assert transcript.score == 6.0
    assert transcript.turns[0].thoughts == {"mind": "m"}
    assert transcript.turns[0].evidence == {"e": 1}


async def test_where_nobody_opens_the_policy_speaks_first() -> None:
    transcript, policy = await talk(["a"], Countdown(1, opening=None))
    assert roles(policy.asked[0]) == "s u"
    assert policy.asked[0][1].content == YOU_BEGIN
    assert transcript.opening is None


async def test_the_transcript_says_who_played_with_what_settings() -> None:
    transcript, _ = await talk(["a", "b", "c"], seed=3, repeat=2, sampling=Sampling(temperature=0.5))
    assert (transcript.environment, transcript.scenario, transcript.model) == ("countdown", "three", "scripted")
    assert (transcript.seed, transcript.repeat) == (3, 2)
    assert transcript.models == {"policy": "scripted", "user": "sim"}
    assert transcript.sampling == {"policy": Sampling(temperature=0.5), "user": Sampling(top_p=0.5)}
    assert Transcript.model_validate_json(write_line(transcript)) == transcript


async def test_silence_reaches_the_person_as_the_empty_string_and_is_counted() -> None:
    environment = Countdown()
    transcript, _ = await talk(["", "<think>What now", "<think>Hm.</think> \n"], environment)
    assert environment.seen[2:] == ["step ", "step ", "step "]
    assert [t.silent for t in transcript.turns] == [True, True, True]
    assert transcript.counts == {"re-asks": 7, "silences": 3, "truncated": 0}
    assert transcript.score == 0.0  # taken as the person takes silence, and scored
    assert transcript.stop == "goodbye"


async def test_the_policy_sees_its_own_silence_as_three_dots() -> None:
    _, policy = await talk(["", "b", "c"])
    assert [m.content for m in policy.asked[2] if m.role == "assistant"] == [SILENCE, "b"] == ["...", "b"]


async def test_a_policys_thinking_is_in_no_later_history() -> None:
    answers: list[str | Reply | Exception] = [
        "<think>secret one</think>a", Reply("b", reasoning="secret two"), "secret three</think>c", "d",
    ]  # fmt: skip
    transcript, policy = await talk(answers, Countdown(4))
    assert [t.reply for t in transcript.turns] == ["a", "b", "c", "d"]
    assert not any("secret" in m.content or "think" in m.content for messages in policy.asked for m in messages)
    calls = [call for call in transcript.calls if call.role == "policy"]
    assert (calls[0].text, calls[1].reasoning) == ("<think>secret one</think>a", "secret two")


async def test_a_reply_cut_inside_an_emoji_is_heard_and_can_be_written() -> None:
    environment = Countdown(1)
    transcript, _ = await talk([Reply("well \ud83e", finish_reason="length")], environment)
    assert environment.seen[-1] == "step well \ufffd"
    assert Transcript.model_validate_json(write_line(transcript)) == transcript


async def test_a_reply_cut_by_its_token_limit_is_scored_and_counted() -> None:
    transcript, _ = await talk(["a", Reply("bb", finish_reason="length"), "c"])
    assert [t.truncated for t in transcript.turns] == [False, True, False]
    assert transcript.counts["truncated"] == 1
    assert transcript.score == 4.0


@pytest.mark.parametrize(
    ("answer", "broken"),
    [
        (Reply("<think>she is hurt</think> That was unkind."), 0),
        (Reply("she is hurt</think> That was unkind."), 0),  # the chat template wrote the opening tag
        (Reply("That was unkind.", reasoning="she is hurt"), 0),  # the endpoint returns it apart
        (Reply("<think>she is hurt</think> That was unkind.", reasoning="hm"), 0),
        (Reply("That was unkind."), 1),
        (Reply("That was unkind.", reasoning=""), 1),
        (Reply("<think>she is hurt"), 1),
        (Reply("<think>she is hurt</think>"), 1),
        (Reply("", reasoning="she is hurt"), 1),
        (Reply("<think>a</think> That was <think>b</think> unkind."), 1),
    ],
)
async def test_where_the_prompt_asks_for_a_think_block_replies_without_one_are_counted_and_scored_alike(
    answer: Reply, broken: int
) -> None:
    asked, free = [await play(Countdown(1), "three", ScriptedChat([answer]), think=think) for think in (True, False)]
    assert asked.counts["broken formats"] == broken
    assert broken_formats(asked.calls) == (0,) * broken  # the turn
    assert "broken formats" not in free.counts
    assert asked.score == free.score


@pytest.mark.parametrize("error", [TransportError("the line is dead"), MalformedReply("no choices"), ModelError("odd")])
async def test_a_policy_call_that_fails_for_good_leaves_the_dialogue_unscored(error: ModelError) -> None:
    transcript, _ = await talk(["a", error])
    assert transcript.stop == "failed"
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind) == ("policy", type(error).__name__)
    assert transcript.failure.detail == str(error)
    assert transcript.score is None
    assert transcript.rewards == ()
    assert [t.reply for t in transcript.turns] == ["a"]  # what was played is kept


async def test_a_bot_that_fails_by_itself_is_silent_and_the_dialogue_is_scored() -> None:
    environment = Countdown()
    transcript, policy = await talk(["a", BotError("it raised KeyError"), "ccc"], environment)
    assert environment.seen[2:] == ["step a", "step ", "step ccc"]
    assert (transcript.stop, transcript.failure, transcript.score) == ("goodbye", None, 4.0)
    assert [(t.silent, t.error) for t in transcript.turns] == [(False, None), (True, "it raised KeyError"), (False, None)]
    assert transcript.counts == {"re-asks": 7, "silences": 1, "truncated": 0, "failed replies": 1}
    assert policy.asked[2][4].content == SILENCE


async def test_only_a_failed_reply_has_an_error_in_the_file() -> None:
    transcript, _ = await talk(["a", BotError("it raised KeyError"), "ccc"])
    assert Transcript.model_validate_json(write_line(transcript)) == transcript
    assert ["error" in turn for turn in json.loads(write_line(transcript))["turns"]] == [False, True, False]


async def test_a_bot_that_fails_as_the_user_simulator_leaves_the_dialogue_unscored() -> None:
    transcript, _ = await talk(["a"], Countdown(breaks={0: RoleFailed("user", BotError("it raised KeyError"))}))
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind, transcript.score) == ("user", "BotError", None)


async def test_a_failed_reply_is_one_when_the_dialogue_is_played_again() -> None:
    played, _ = await talk(["a", BotError("it raised KeyError"), "ccc"])
    again = await replayed(played, Countdown())
    assert (again.turns, again.counts, again.score) == (played.turns, played.counts, played.score)


@pytest.mark.parametrize("cause", [TransportError("no route"), AnswerError("answered 'maybe'")])
@pytest.mark.parametrize("turn", [-1, 0, 2])
async def test_a_user_that_fails_leaves_the_dialogue_unscored_with_its_cause(cause: ModelError | AnswerError, turn: int) -> None:
    environment = Countdown(breaks={turn: RoleFailed("user", cause)})
    transcript, policy = await talk(["a", "b", "c"], environment)
    assert transcript.stop == "failed"
    assert transcript.failure is not None
    assert (transcript.failure.role, transcript.failure.kind) == ("user", type(cause).__name__)
    assert transcript.failure.detail == str(cause)
    assert transcript.score is None
    assert transcript.rewards == ()
    assert len(policy.asked) == turn + 1
    assert len(transcript.turns) == max(turn, 0)
    assert transcript.start == {"sum": 0.0}
    assert len([call for call in transcript.calls if call.role == "policy"]) == turn + 1


async def test_a_person_who_neither_answers_nor_leaves_is_a_broken_simulator() -> None:
    transcript, _ = await talk(["a", "b", "c"], Countdown(mute_at=1))
    assert transcript.stop == "failed"
    assert transcript.failure is not None
    assert transcript.failure.role == "user"
    assert transcript.score is None


async def test_a_spent_budget_passes_through_from_the_policy_and_from_the_simulator() -> None:
    with pytest.raises(BudgetSpent):
        await talk(["a", BudgetSpent("1000 tokens")])
    with pytest.raises(BudgetSpent):
        await talk(["a", "b"], Countdown(breaks={1: BudgetSpent("1000 tokens")}))


async def test_a_bug_is_no_failure_of_a_role_and_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await talk(["a", ZeroDivisionError()])


@pytest.mark.parametrize(("own", "first"), [(None, 100), (0, 0)])
async def test_the_seed_of_the_sampling_or_else_of_the_dialogue_advances_by_the_turn(own: int | None, first: int) -> None:
    _, policy = await talk(["a", "b", "c"], seed=100, sampling=Sampling(seed=own, temperature=0.3))
    assert [(s.seed, s.temperature) for s in policy.samplings if s] == [(first + turn, 0.3) for turn in range(3)]


async def test_usage_is_summed_per_role() -> None:
    answers = [Reply("x", usage=Usage(prompt_tokens=p, completion_tokens=c)) for p, c in ((5, 1), (7, 2), (9, 4))]
    transcript, _ = await talk(answers)
    # policy: 5 + 7 + 9 = 21 and 1 + 2 + 4 = 7; simulator: two calls a turn of 10 and 1, three turns
    assert transcript.usage == {
        "policy": Usage(prompt_tokens=21, completion_tokens=7),
        "user": Usage(prompt_tokens=60, completion_tokens=6),
    }


def test_an_honest_environment_passes_every_probe() -> None:
    environment = Countdown()
    check_environment(environment, policy=ScriptedChat(["Hm."], cycle=True))
    heard = {entry.removeprefix("step ") for entry in environment.seen if entry.startswith("step ")}
    assert {"", "I see. What happened then?", "Hm."} <= heard
    assert len(heard) == len({text for name, text in PROBES if name != "thinking only"}) + 1


@pytest.mark.parametrize(("ids", "said"), [((), "has no scenario"), (("three", "three"), "twice")])
def test_no_scenario_and_a_scenario_listed_twice_are_refused(ids: Sequence[str], said: str) -> None:
    environment = Countdown()
    environment.scenario_ids = ids
    with pytest.raises(EnvironmentBroken, match=said):
        check_environment(environment)


def test_an_environment_that_takes_any_scenario_is_refused() -> None:
    class Lax(Countdown):
        def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
            return super().begin("three", seed=seed)

    with pytest.raises(EnvironmentBroken, match="took an unknown scenario"):
        check_environment(Lax())


def test_episodes_that_differ_under_one_seed_are_refused_and_the_fields_named() -> None:
    class Moody(Countdown):
        def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
            self.turns += 1  # every episode lasts longer than the one before
            return super().begin(scenario_id, seed=seed)

    with pytest.raises(EnvironmentBroken, match=r"same seed, different .*turns"):
        check_environment(Moody())


def test_states_that_do_not_add_up_and_a_reward_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step, outcome = _Counting.step, _Counting.outcome

    async def sloppy(episode: _Counting, reply: str) -> UserTurn:
        return (await step(episode, reply))._replace(change={"sum": 99.0})

    def generous(episode: _Counting) -> Outcome:
        return outcome(episode)._replace(rewards=(*outcome(episode).rewards, 1.0))

    for name, wrong, said in (("step", sloppy, "does not add up"), ("outcome", generous, "4 rewards for 3 judged turns")):
        with monkeypatch.context() as patch:
            patch.setattr(_Counting, name, wrong)
            with pytest.raises(EnvironmentBroken, match=said):
                check_environment(Countdown())


@pytest.mark.parametrize(("turn", "said"), [(1, "ended as failed"), (0, "no turn was played")])
def test_an_instrument_that_fails_is_refused(turn: int, said: str) -> None:
    with pytest.raises(EnvironmentBroken, match=said):
        check_environment(Countdown(breaks={turn: RoleFailed("user", AnswerError("x"))}))
