"""Environment and Episode, and the one turn loop that evaluation, training and the arena share.

An `Environment` makes `Episode`s from scenarios; an episode is one person for one dialogue. `play` puts a
policy in front of it and returns a `Transcript`. Does not cover many dialogues at once (`evaluation`),
nor state rules, which live in each environment and in `scoring`.

Whose failure is it? What the policy does is scored: refusals, silence, a reply cut by its token limit. What
the instruments do is not: a simulator, judge or transport that fails ends the dialogue as `failed`, unscored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import (
    Call,
    Failure,
    Message,
    Sampling,
    StopReason,
    Transcript,
    Turn,
    turn_counts,
    usage_by_role,
    visible,
    writable,
)
from heartloop.core.errors import AnswerError, ModelError

__all__ = ["SILENCE", "YOU_BEGIN", "CallLog", "Environment", "Episode", "Outcome", "RoleFailed", "UserTurn", "play"]


SILENCE = "..."
"""What stands for an empty reply in the policy's own history: some servers refuse empty assistant messages, and the
person's silence-taking must not end as a failed call."""


YOU_BEGIN = "(Nobody has spoken yet. You begin.)"
"""What asks the policy to speak first, where the person does not: some servers refuse a chat without a user message."""


class UserTurn(NamedTuple):
    """How the person took one reply. `state` and `change` are `None` where the preset leaves it unjudged."""

    message: str | None
    state: Mapping[str, float] | None
    change: Mapping[str, float] | None
    thoughts: Mapping[str, str]
    evidence: Mapping[str, Any]
    stop: StopReason | None


class Outcome(NamedTuple):
    """What the dialogue was worth: the score, a reward per judged turn, and the T + 1 states."""

    score: float | None
    rewards: tuple[float, ...]
    states: tuple[Mapping[str, float], ...]


class RoleFailed(Exception):
    """An instrument's role failed inside an episode; carries the role so that the transcript can name it."""

    def __init__(self, role: str, cause: ModelError | AnswerError) -> None:
        super().__init__(str(cause))
        self.role = role
        self.cause = cause


class CallLog:
    """Collects the instrument calls and counts of one episode."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.counts: dict[str, int] = {}

    def count(self, name: str) -> None:
        """One more of `name`."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def recorder(self, purpose: str, turn: int, role: str = "user") -> Callable[[Reply, int], None]:
        """What `judging.ask` is to call with every raw reply of this purpose in this turn: it is kept, a re-ask counted."""

        def record(reply: Reply, reask: int) -> None:
            if reask:
                self.count("re-asks")
            self.calls.append(
                Call(
                    role=role,
                    purpose=purpose,
                    turn=turn,
                    text=reply.text,
                    reasoning=reply.reasoning,
                    finish_reason=reply.finish_reason,
                    usage=reply.usage,
                    reask=reask,
                )
            )

        return record


@runtime_checkable
class Episode(Protocol):
    """One person for one dialogue. Awaited strictly in turn: `open`, then `step` until it stops."""

    @property
    def policy_prompt(self) -> str:
        """The system prompt the policy gets; the empty string is none."""
        ...

    async def open(self) -> str | None:
        """The first user message, or `None` where the policy opens."""
        ...

    async def step(self, reply: str) -> UserTurn:
        """The person's answer to one visible reply; the empty string is silence.

        Raises:
            RoleFailed: an instrument failed for good.
        """
        ...

    def outcome(self) -> Outcome:
        """Score, rewards and states so far."""
        ...

    @property
    def calls(self) -> Sequence[Call]:
        """Every instrument call made so far."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What had to be counted: re-asks, clamped changes."""
        ...


class Environment(Protocol):
    """A family of scenarios with one set of rules. `describe` names all that decides a transcript."""

    @property
    def name(self) -> str: ...

    @property
    def scenario_ids(self) -> Sequence[str]: ...

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        """A fresh episode; equal arguments and deterministic models give equal episodes."""
        ...

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        """The `Transcript` fields an environment owns, from `fingerprint` and `preset` to `prompts`."""
        ...


async def play(
    environment: Environment,
    scenario_id: str,
    policy: ChatModel,
    *,
    seed: int = 0,
    repeat: int = 0,
    sampling: Sampling | None = None,
) -> Transcript:
    """One dialogue from its first message to its end.

    The policy sees its system prompt and the visible dialogue, never its own earlier thinking. The seed sent with
    its calls is `sampling.seed`, or else the dialogue's, advanced by the turn so that no two turns share it.

    Raises:
        BudgetSpent: a hard stop was reached; the dialogue is lost, finished ones are not.
    """
    episode = environment.begin(scenario_id, seed=seed)
    sampling = sampling or Sampling()
    messages = [Message(role="system", content=episode.policy_prompt)] if episode.policy_prompt else []
    started = time.monotonic()
    turns: list[Turn] = []
    calls: list[Call] = []
    stop: StopReason | None = None
    failure: Failure | None = None
    opening: str | None = None
    try:
        opening = await episode.open()
        messages.append(Message(role="user", content=YOU_BEGIN if opening is None else opening))
        while stop is None:
            index = len(turns)
            try:
                answer = await policy.complete(messages, sampling=sampling.seeded(seed, index))
            except ModelError as error:
                raise RoleFailed("policy", error) from error
            calls.append(
                Call(
                    role="policy",
                    purpose="reply",
                    turn=index,
                    text=answer.text,
                    reasoning=answer.reasoning,
                    finish_reason=answer.finish_reason,
                    usage=answer.usage,
                )
            )
            seen = visible(writable(answer.text))
            felt = await episode.step(seen.text)
            turns.append(
                Turn(
                    index=index,
                    reply=seen.text,
                    silent=not seen.text,
                    truncated=answer.finish_reason == "length",
                    state=None if felt.state is None else dict(felt.state),
                    change=None if felt.change is None else dict(felt.change),
                    thoughts=dict(felt.thoughts),
                    evidence=dict(felt.evidence),
                    message=felt.message,
                )
            )
            stop = felt.stop
            messages.append(Message(role="assistant", content=seen.text or SILENCE))
            if felt.message is not None:
                messages.append(Message(role="user", content=felt.message))
            elif stop is None:
                raise RoleFailed("user", AnswerError("the user gave neither a message nor an end"))
    except RoleFailed as failed:
        stop = "failed"
        failure = Failure(role=failed.role, kind=type(failed.cause).__name__, detail=str(failed.cause))
    calls = sorted([*calls, *episode.calls], key=lambda call: (call.turn, call.role != "policy"))
    result = episode.outcome()
    about = dict(environment.describe(scenario_id))
    models = {"policy": policy.name, **about.pop("models", {})}
    samplings = {"policy": sampling, **about.pop("sampling", {})}
    return Transcript(
        environment=environment.name,
        scenario=scenario_id,
        model=policy.name,
        repeat=repeat,
        seed=seed,
        models=models,
        sampling=samplings,
        opening=opening,
        start=dict(result.states[0]),
        turns=tuple(turns),
        stop=stop,
        failure=failure,
        score=None if failure else result.score,
        rewards=() if failure else result.rewards,
        usage=usage_by_role(calls),
        calls=tuple(calls),
        counts={**episode.counts, **turn_counts(turns)},
        seconds=round(time.monotonic() - started, 3),
        **about,
    )
