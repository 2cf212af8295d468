"""Environment and Episode, and the one turn loop that evaluation, training and the arena share.

Everything the policy does is scored: refusals, silence, a reply that its token limit cuts; a bot that fails by itself is silent.
If a user simulator, judge or transport fails, the dialogue ends as `failed` and is unscored.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

from heartloop.core.chat import CONTENT_FILTER, ChatModel, Reply, dialogue_id
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
from heartloop.core.errors import AnswerError, BotError, ModelError, Moderated
from heartloop.scoring.credit import keeps_format

OWN_PROMPT = "policy-own"
"""Name, among the hashes of prompts, of a policy prompt that replaces the environment's."""
BROKEN_FORMATS = "broken formats"
"""Name of the count of replies without the form that the policy's prompt asks for."""
SILENCE = "..."
"""Replaces an empty reply in the policy's own history, since some servers refuse empty assistant messages."""
YOU_BEGIN = "(Nobody has spoken yet. You begin.)"
"""The user message if the policy speaks first, since some servers refuse a chat without a user message."""


class UserTurn(NamedTuple):
    """The user simulator's turn after one reply. `state` and `change` are `None` if the reply is not judged."""

    message: str | None
    state: Mapping[str, float] | None
    change: Mapping[str, float] | None
    thoughts: Mapping[str, str]
    evidence: Mapping[str, Any]
    stop: StopReason | None
    new_prompt: str | None = None
    """If given, the policy's system prompt from here on, and the message begins a new conversation: the history is dropped."""


class Outcome(NamedTuple):
    """The score (`None` if unscored), a reward per judged turn (T), and the states (T + 1)."""

    score: float | None
    rewards: tuple[float, ...]
    states: tuple[Mapping[str, float], ...]


class RoleFailed(Exception):
    """A role, such as the user simulator or a judge, failed in an episode; the transcript names it."""

    def __init__(self, role: str, cause: ModelError | AnswerError) -> None:
        super().__init__(str(cause))
        self.role = role
        self.cause = cause


class CallLog:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()

    def count(self, name: str) -> None:
        self.counts[name] += 1

    def recorder(self, purpose: str, turn: int, role: str = "user") -> Callable[[Reply, int], None]:
        """The callback `on_reply` of `judging.ask`: logs every raw answer, and counts re-asks."""

        def record(reply: Reply, reask: int) -> None:
            if reask:
                self.count("re-asks")
            self.calls.append(_call(reply, role, purpose, turn, reask))

        return record


def _call(reply: Reply, role: str, purpose: str, turn: int, reask: int = 0) -> Call:
    given = {name: value for name, value in reply._asdict().items() if name != "abandoned"}  # charged by the meter
    return Call(role=role, purpose=purpose, turn=turn, reask=reask, **given)


@runtime_checkable
class Episode(Protocol):
    """One dialogue: call `open` once, then `step` until it stops, one call at a time."""

    @property
    def policy_prompt(self) -> str:
        """The policy's system prompt; empty for none."""

    async def open(self) -> str | None:
        """The first user message; `None` if the policy speaks first."""

    async def step(self, reply: str) -> UserTurn:
        """The user's turn after one visible reply (an empty one is silence); raises `RoleFailed` after all retries."""

    def outcome(self) -> Outcome:
        """So far."""

    @property
    def calls(self) -> Sequence[Call]:
        """Of the roles so far, without the policy's."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of irregularities, such as re-asks and clamped changes."""


class Environment(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def scenario_ids(self) -> Sequence[str]: ...

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        """A new episode; equal arguments and deterministic models give equal episodes."""

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        """The `Transcript` fields that the environment sets: `fingerprint`, `preset`, `variant`, `user`, `facts`, `models`,
        `sampling`, `prompts`."""


def own_prompt(prompts: Mapping[str, str], text: str) -> dict[str, str]:
    """Hashes of a dialogue's prompts if the policy read `text` in place of the environment's policy prompts."""
    others = {name: digest for name, digest in prompts.items() if not name.startswith("policy")}
    return {**others, OWN_PROMPT: hashlib.sha256(text.encode()).hexdigest()[:12]}


def broken_formats(calls: Iterable[Call]) -> tuple[int, ...]:
    """The turns whose policy reply is not one think block followed by text (RLVER App. A.5, `scoring.credit.keeps_format`).

    Separate reasoning is a think block. The opening tag may be missing, since some chat templates write it into the prompt.
    """

    def keeps(call: Call) -> bool:
        apart = bool(call.reasoning) and keeps_format(f"<think></think>{call.text}")
        return apart or keeps_format(call.text) or keeps_format(call.text, opened=True)

    return tuple(call.turn for call in calls if call.role == "policy" and not keeps(call))


def _begun(shown: str) -> list[Message]:
    """The messages of a new conversation, before the user's first one, for a bot that keeps them too."""
    dialogue_id.set(uuid4().hex)
    return [Message(role="system", content=shown)] if shown else []


async def play(
    environment: Environment,
    scenario_id: str,
    policy: ChatModel,
    *,
    seed: int = 0,
    repeat: int = 0,
    sampling: Sampling | None = None,
    think: bool = False,
    policy_prompt: str | None = None,
    watch: Callable[[Transcript], None] | None = None,
) -> Transcript:
    """Plays one dialogue to its end.

    The policy sees its system prompt and the visible dialogue, without its own earlier thinking. The seed sent with its calls
    is `sampling.seed`, by default the dialogue's, advanced by the turn so that no two turns share it.

    Args:
        policy_prompt: system prompt of the policy in place of the episode's; its hash is in the transcript as `OWN_PROMPT`.
        think: count replies that are not a think block followed by text, under `broken formats`. The count changes no score.
        watch: called after the opening and after every turn with the dialogue so far; its `stop` is `cut` until it ends.

    Raises:
        BudgetSpent: a limit on tokens or cost was reached; this dialogue is lost.
    """
    episode = environment.begin(scenario_id, seed=seed)
    sampling = sampling or Sampling()
    messages = _begun(episode.policy_prompt if policy_prompt is None else policy_prompt)
    started = time.monotonic()
    turns: list[Turn] = []
    calls: list[Call] = []
    stop: StopReason | None = None
    failure: Failure | None = None
    opening: str | None = None

    def transcript(stop: StopReason) -> Transcript:
        every_call = sorted([*calls, *episode.calls], key=lambda call: (call.turn, call.role != "policy"))
        outcome = episode.outcome()
        fields = dict(environment.describe(scenario_id))
        models = {"policy": policy.name, **fields.pop("models", {})}
        samplings = {"policy": sampling, **fields.pop("sampling", {})}
        if policy_prompt is not None:
            fields["prompts"] = own_prompt(fields["prompts"], policy_prompt)
        return Transcript(
            environment=environment.name,
            scenario=scenario_id,
            model=policy.name,
            repeat=repeat,
            seed=seed,
            models=models,
            sampling=samplings,
            opening=opening,
            start=dict(outcome.states[0]),
            turns=tuple(turns),
            stop=stop,
            failure=failure,
            score=None if failure else outcome.score,
            rewards=() if failure else outcome.rewards,
            usage=usage_by_role(every_call),
            calls=tuple(every_call),
            counts={**episode.counts, **turn_counts(turns), **({BROKEN_FORMATS: len(broken_formats(calls))} if think else {})},
            seconds=round(time.monotonic() - started, 3),
            **fields,
        )

    try:
        opening = await episode.open()
        messages.append(Message(role="user", content=YOU_BEGIN if opening is None else opening))
        if watch is not None:
            watch(transcript("cut"))
        while stop is None:
            index, failed_by_itself = len(turns), None
            try:
                answer = await policy.complete(messages, sampling=sampling.seeded(seed, index))
            except Moderated:  # a refusal of the policy
                answer = Reply("", finish_reason=CONTENT_FILTER)
            except BotError as error:
                answer, failed_by_itself = Reply("", finish_reason="error"), str(error)
            except ModelError as error:
                raise RoleFailed("policy", error) from error
            calls.append(_call(answer, "policy", "reply", index))
            reply = visible(writable(answer.text))
            user_turn = (await episode.step(reply))._asdict()
            stop, message, new_prompt = user_turn.pop("stop"), user_turn["message"], user_turn.pop("new_prompt")
            truncated = answer.finish_reason == "length"
            turns.append(
                Turn(index=index, reply=reply, silent=not reply, truncated=truncated, error=failed_by_itself, **user_turn)
            )
            messages.append(Message(role="assistant", content=reply or SILENCE))
            if new_prompt is not None:
                messages = _begun(new_prompt if policy_prompt is None else policy_prompt)
            if message is not None:
                messages.append(Message(role="user", content=message))
            elif stop is None:
                raise RoleFailed("user", AnswerError("the user gave neither a message nor an end"))
            if watch is not None:
                watch(transcript(stop or "cut"))
    except RoleFailed as failed:
        stop = "failed"
        failure = Failure(role=failed.role, kind=type(failed.cause).__name__, detail=str(failed.cause))
    return transcript(stop)
