"""Replay of a stored dialogue for rejudging, and parts that the environments share for rescoring.

Covers the policy that repeats the stored replies, replaying them through the turn loop, and dialogues that stay unscored. Does
not cover an environment's rules (its own `stored`), nor whole runs (`heartloop.evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Failure, Message, Sampling, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import BROKEN_FORMATS, Environment, play
from heartloop.environments.spec import EnvironmentSpec, Judge, Options, Stored

__all__ = [
    "RESCORING",
    "StandIn",
    "StoredReplies",
    "check_readable",
    "check_turns",
    "judged_fields",
    "judged_prompts",
    "reading_transcript",
    "rejudged",
    "replayed",
    "still_unscored",
    "stored_from_score",
    "unscored",
    "with_judge",
]

RESCORING = "rescoring"
"""The role in the `Failure` of a dialogue whose score does not follow from the stored transcript."""

JudgeT = TypeVar("JudgeT", bound=Judge)


class StandIn(Generic[JudgeT]):
    """Plays the roles of a stored dialogue: the messages are the stored ones, the judgements are the judge's.

    Environments with a user simulator derive from it; in the others the judge itself is the player.
    """

    def __init__(self, played: Transcript, judge: JudgeT) -> None:
        self._played = played
        self._judge = judge

    @property
    def name(self) -> str:
        return self._judge.name

    def describe(self) -> Mapping[str, Any]:
        """As the judge."""
        return self._judge.describe()

    def admit(self, scenario: Any) -> None:
        """As the judge."""
        self._judge.admit(scenario)


class StoredReplies:
    """A policy that repeats the replies of a stored dialogue, with their tokens; it calls no model."""

    def __init__(self, played: Transcript) -> None:
        self._played = played
        self._calls = {call.turn: call for call in played.calls if call.role == "policy"}

    @property
    def name(self) -> str:
        return self._played.model

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The stored reply of the current turn."""
        index = sum(message.role == "assistant" for message in messages)
        call, turn = self._calls.get(index), self._played.turns[index]
        if call is None:  # an imported dialogue has no calls, so no tokens
            return Reply(turn.reply, finish_reason="length" if turn.truncated else "stop")
        return Reply(call.text, call.reasoning, call.finish_reason, call.usage, cached=True)


def check_turns(played: Transcript, options: Options) -> None:
    """Checks that a dialogue is not longer than `max_turns`.

    Raises:
        UseError: it is longer; names both numbers.
    """
    if len(played.turns) > options.max_turns:
        raise UseError(f"{played.scenario} has {len(played.turns)} turns; expected at most the run's {options.max_turns}")


def stored_from_score(score_of: Callable[[Transcript], float]) -> Stored:
    """The `Stored` of an environment that judges a dialogue once, at its end.

    Args:
        score_of: computes the score from the stored judgements; raises `InputError` if there are none.
    """

    def rescored(transcript: Transcript, options: Options) -> Transcript:
        check_turns(transcript, options)
        if transcript.score is None:
            return transcript
        score = score_of(transcript)
        return transcript.model_copy(update={"score": score, "rewards": (score,)})

    return Stored(options=lambda played: {"preset": played.preset, "variant": played.variant}, rescored=rescored)


@contextmanager
def reading_transcript(transcript: Transcript, expected: str) -> Iterator[None]:
    """A context in which errors of reading a stored transcript become an `InputError`.

    Raises:
        InputError: a part is missing or has another form; names it and `expected`.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, UseError) as error:
        raise InputError(f"{transcript.scenario}: the transcript lacks {error}; expected {expected}, play it again") from error


def check_readable(played: Transcript, scenario: Any, judge: Judge) -> None:
    """Checks that a dialogue can be rejudged.

    Raises:
        InputError: the scenario has changed since the dialogue was played, or the judge cannot judge it.
    """
    if scenario.fingerprint != played.fingerprint:
        raise InputError(
            f"scenario {played.scenario!r} has changed since the run (fingerprint {scenario.fingerprint}, "
            f"then {played.fingerprint}); pass the scenarios of the run with --scenarios"
        )
    judge.admit(scenario)


def judged_fields(played: Transcript, judge: str, described: Mapping[str, Any], *, unused: str = "") -> dict[str, Any]:
    """`models`, `sampling` and `prompts` of a rejudged dialogue: the stored ones, and the judge's own.

    Args:
        described: the judge's `describe()`.
        unused: prefix of the judge's prompts that are not used for judging.
    """
    models = {role: name for role, name in played.models.items() if role != "policy"}
    sampling = {role: settings for role, settings in played.sampling.items() if role != "policy"}
    prompts = {name: text for name, text in described.get("prompts", {}).items() if not (unused and name.startswith(unused))}
    judged = described.get("sampling", {})
    return {
        "models": {**models, "judge": judge},
        "sampling": {**sampling, **({"judge": judged["judge"]} if "judge" in judged else {})},
        "prompts": {**played.prompts, **prompts},
    }


async def rejudged(spec: EnvironmentSpec, played: Transcript, scenario: Any, judge: Judge, options: Options) -> Transcript:
    """A stored dialogue rejudged by another judge: replayed through the turn loop, by the rules of `options.preset`.

    A dialogue without score stays unscored, with its cause, and without a model call.

    Args:
        scenario: the scenario exactly as it was played.
        options: the options of the run.

    Raises:
        InputError: as `check_readable`.
        BudgetSpent: a limit on tokens or cost was reached.
    """
    check_readable(played, scenario, judge)
    stored = spec.stored
    fields = _fields(spec, played, judge)
    failed = still_unscored(played, judge.name, fields, options.preset)
    if failed is not None:
        return failed
    as_played = options.model_copy(update={**stored.options(played), "preset": options.preset})
    if stored.stops_with_its_turns:  # no further reply is stored
        as_played = as_played.model_copy(update={"max_turns": min(options.max_turns, len(played.turns))})
    environment = spec.make([scenario], stored.stand_in(played, judge), as_played)
    result = await replayed(played, environment)
    if result.stop == "turn_limit" and as_played.max_turns < options.max_turns:
        result = result.model_copy(update={"stop": played.stop if played.stop == "goodbye" else "cut"})
    return with_judge(result, fields)


def with_judge(result: Transcript, fields: Mapping[str, Any]) -> Transcript:
    """A replayed dialogue with the models, sampling and prompts of `judged_fields`."""
    update = {
        "models": {"policy": result.model, **fields["models"]},
        "sampling": {"policy": result.sampling["policy"], **fields["sampling"]},
        "prompts": fields["prompts"],
    }
    return result.model_copy(update=update)


def judged_prompts(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> Mapping[str, str]:
    """Prompt hashes, by name, of a dialogue rejudged by this judge."""
    prompts: Mapping[str, str] = _fields(spec, played, judge)["prompts"]
    return prompts


def _fields(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> dict[str, Any]:
    stored = spec.stored
    return judged_fields(played, judge.name, stored.described(judge, played), unused=stored.unused_prompts)


async def replayed(played: Transcript, environment: Environment) -> Transcript:
    """The stored replies played through the turn loop again; the player of `environment` is a `StandIn` or a judge.

    Raises:
        BudgetSpent: a limit on tokens or cost was reached.
    """
    policy, sampling = StoredReplies(played), played.sampling.get("policy")
    result = await play(environment, played.scenario, policy, seed=played.seed, repeat=played.repeat, sampling=sampling)
    kept = {BROKEN_FORMATS: played.counts[BROKEN_FORMATS]} if BROKEN_FORMATS in played.counts else {}
    update: dict[str, Any] = {"facts": played.facts, "counts": {**result.counts, **kept}}
    if not played.calls:  # the tokens of the replies are unknown, not 0
        update["calls"] = tuple(call for call in result.calls if call.role != "policy")
        update["usage"] = {role: usage for role, usage in result.usage.items() if role != "policy"}
    return result.model_copy(update=update)


def still_unscored(played: Transcript, judge: str, fields: Mapping[str, Any], preset: str) -> Transcript | None:
    """The transcript, for a rejudged run, of a dialogue that failed or has no reply; `None` if it can be rejudged."""
    role, kind, why = "stored dialogue", "no reply", "it holds no reply"
    if played.failure is not None:
        role, kind, why = played.failure.role, played.failure.kind, played.failure.detail
    elif played.turns:
        return None
    return played.model_copy(
        update={
            "preset": preset,
            "user": judge,
            "models": {"policy": played.model, **fields["models"]},
            "prompts": fields["prompts"],
            "stop": "failed",
            "failure": Failure(role=role, kind=kind, detail=f"unscored before it was rejudged: {why}"),
            "score": None,
            "rewards": (),
            "calls": (),
            "usage": {},
        }
    )


def unscored(played: Transcript, preset: str, kind: str, why: str) -> Transcript:
    """The transcript without score and rewards, with the cause."""
    failure = Failure(role=RESCORING, kind=kind, detail=why)
    return played.model_copy(update={"preset": preset, "stop": "failed", "failure": failure, "score": None, "rewards": ()})
