"""Stored dialogues played again: rescoring by other rules without a model call, and rejudging by another judge."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any, Generic, TypeVar

from heartloop.core.chat import Reply
from heartloop.core.dialogue import LEFT, Failure, Message, Sampling, Transcript, Turn, turn_counts
from heartloop.core.errors import BotError, InputError, UseError
from heartloop.environments.episode import BROKEN_FORMATS, CallLog, Environment, Episode, play
from heartloop.environments.spec import EnvironmentSpec, Judge, Options, Stored

RESCORING = "rescoring"
"""The role in the `Failure` of a dialogue whose score does not follow from the stored transcript."""
_NOT_PLAYED_ON = "the dialogue would continue under the other preset; it needs a new dialogue"

JudgeT = TypeVar("JudgeT", bound=Judge)


class NotStored(Exception):
    """A dialogue needs what its transcript does not contain; `kind` is the cause in a word or two."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class StandIn(Generic[JudgeT]):
    """Plays the roles of a stored dialogue with its messages; from turn `since` the judge, if given, judges the replies.

    Environments with a user simulator derive from it; in the others the judge itself is the player.
    """

    def __init__(self, played: Transcript, judge: JudgeT | None = None, since: int = 0) -> None:
        self._played, self._given, self._since = played, judge, since
        self.name = played.user if judge is None else judge.name

    @property
    def has_judge(self) -> bool:
        return self._given is not None

    def turn(self, number: int) -> Turn:
        if number >= len(self._played.turns):
            raise NotStored("not played on", _NOT_PLAYED_ON)
        return self._played.turns[number]

    @property
    def _judge(self) -> JudgeT:
        assert self._given is not None
        return self._given

    def describe(self) -> Mapping[str, Any]:
        return {} if self._given is None else self._given.describe()

    def admit(self, scenario: Any) -> None:
        if self._given is not None:
            self._given.admit(scenario)

    def judges(self, turn: int) -> bool:
        """Whether this turn's judgement is the judge's, not the stored one."""
        known = turn < len(self._played.turns) and self._played.turns[turn].change is not None
        return self._given is not None and (turn >= self._since or not known)

    def repeat_calls(self, log: CallLog, purpose: str, turn: int, reasks: int | None = None) -> None:
        """Logs the stored calls of a purpose in a turn, up to this number of re-asks."""
        for call in self._played.calls:
            if call.purpose == purpose and call.turn == turn and (reasks is None or call.reask <= reasks):
                log.calls.append(call)
                if call.reask:
                    log.count("re-asks")


class StoredReplies:
    """A policy that repeats the replies of a stored dialogue in their order, with their tokens."""

    def __init__(self, played: Transcript) -> None:
        self.name = played.model
        self._played = played
        self._calls = {call.turn: call for call in played.calls if call.role == "policy"}
        self._indices = itertools.count()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        index = next(self._indices)
        turns = self._played.turns
        if index < len(turns) and (error := turns[index].error) is not None:
            raise BotError(error)
        call = self._calls.get(index)  # also a reply that was not judged because a role failed
        if call is not None:
            reply = Reply(call.text, call.reasoning, call.finish_reason, call.usage, cached=True)
            return reply._replace(seconds=call.seconds, retries=call.retries)
        if index >= len(turns):
            raise NotStored("not played on", _NOT_PLAYED_ON)
        turn = turns[index]  # an imported dialogue has no calls, so no tokens
        return Reply(turn.reply, finish_reason="length" if turn.truncated else "stop")


class _AsPlayed:
    """An environment that describes a dialogue as its transcript does, but for the preset."""

    def __init__(self, environment: Environment, played: Transcript, preset: str) -> None:
        self._environment, self._played, self._preset = environment, played, preset
        self.name = environment.name
        self.scenario_ids = environment.scenario_ids

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        return self._environment.begin(scenario_id, seed=seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        names = ("fingerprint", "variant", "user", "facts", "models", "sampling", "prompts")
        return {**{name: getattr(self._played, name) for name in names}, "preset": self._preset}


def by_other_rules(played: Transcript, environment: Environment, preset: str) -> Transcript:
    """The dialogue by the rules of `environment`, whose player has no judge; unscored if they need more than is stored."""
    known = {"lost farewells", "re-asks", *turn_counts(played.turns)}
    run = play(
        _AsPlayed(environment, played, preset), played.scenario, StoredReplies(played), seed=played.seed, repeat=played.repeat,
        sampling=played.sampling.get("policy"), policy_prompt="",
    )  # fmt: skip
    try:
        result = _finished(run)
    except NotStored as missing:
        return unscored(played, preset, missing.kind, str(missing))
    counts = Counter({name: number for name, number in played.counts.items() if name not in known})
    counts.update(result.counts)
    same = zip(result.turns, played.turns, strict=False)
    update: dict[str, Any] = {
        "turns": (*(old if new.state is not None else new for new, old in same), *result.turns[len(played.turns) :]),
        "models": played.models,
        "sampling": played.sampling,
        "prompts": played.prompts,
        "calls": tuple(call.model_copy(update={"cached": False}) for call in result.calls) if played.calls else (),
        "usage": result.usage if played.calls else played.usage,
        "counts": dict(counts),
        "seconds": played.seconds,
    }
    return result.model_copy(update=update)


def _finished(run: Coroutine[Any, Any, Transcript]) -> Transcript:
    try:
        run.send(None)
    except StopIteration as done:
        result: Transcript = done.value
        return result
    raise RuntimeError("a stored dialogue waits for nothing")


def check_turns(played: Transcript, options: Options) -> None:
    if len(played.turns) > options.max_turns:
        raise UseError(f"{played.scenario} has {len(played.turns)} turns; expected at most the run's {options.max_turns}")


def stored_from_score(rewards_of: Callable[[Transcript], Sequence[float]], judgements: str) -> Stored:
    """The `Stored` of an environment whose score is the mean of the rewards, mostly of one at the end.

    The error for missing `judgements` says what they are.
    """

    def rescored(transcript: Transcript, options: Options) -> Transcript:
        check_turns(transcript, options)
        if transcript.score is None:
            return transcript
        with reading_transcript(transcript, judgements):
            rewards = tuple(rewards_of(transcript))
            score = fmean(rewards)
        return transcript.model_copy(update={"score": score, "rewards": rewards})

    return Stored(options=lambda played: {"preset": played.preset, "variant": played.variant}, rescored=rescored)


@contextmanager
def reading_transcript(transcript: Transcript, expected: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, UseError) as error:
        raise InputError(f"{transcript.scenario}: the transcript lacks {error}; expected {expected}, play it again") from error


def check_readable(played: Transcript, scenario: Any, judge: Judge) -> None:
    if scenario.fingerprint != played.fingerprint:
        raise InputError(
            f"scenario {played.scenario!r} has changed since the run (fingerprint {scenario.fingerprint}, "
            f"then {played.fingerprint}); pass the scenarios of the run with --scenarios"
        )
    judge.admit(scenario)


def judged_fields(played: Transcript, judge: str, described: Mapping[str, Any], *, unused: str = "") -> dict[str, Any]:
    """`models`, `sampling` and `prompts` of a rejudged dialogue: the stored ones, and of `described` the judge's own.

    Prompts whose name begins with `unused` are not used for judging.
    """
    prompts = {name: text for name, text in described.get("prompts", {}).items() if not (unused and name.startswith(unused))}
    judged = {role: settings for role, settings in described.get("sampling", {}).items() if role == "judge"}
    return {
        "models": {"policy": played.model, **played.models, "judge": judge},
        "sampling": {"policy": Sampling(), **played.sampling, **judged},
        "prompts": {**played.prompts, **prompts},
    }


async def rejudged(spec: EnvironmentSpec, played: Transcript, scenario: Any, judge: Judge, options: Options) -> Transcript:
    """A stored dialogue rejudged by the rules of `options.preset`; without a score it stays so, without a model call."""
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
        result = result.model_copy(update={"stop": played.stop if played.stop in LEFT else "cut"})
    return result.model_copy(update=fields)


def judged_prompts(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> Mapping[str, str]:
    return dict(_fields(spec, played, judge)["prompts"])


def _fields(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> dict[str, Any]:
    stored = spec.stored
    return judged_fields(played, judge.name, stored.described(judge, played), unused=stored.unused_prompts)


async def replayed(played: Transcript, environment: Environment) -> Transcript:
    """The stored replies played through the turn loop again; the player of `environment` is a `StandIn` or a judge."""
    policy, sampling = StoredReplies(played), played.sampling.get("policy")
    result = await play(environment, played.scenario, policy, seed=played.seed, repeat=played.repeat, sampling=sampling)
    broken = {BROKEN_FORMATS: played.counts[BROKEN_FORMATS]} if BROKEN_FORMATS in played.counts else {}
    update: dict[str, Any] = {"facts": played.facts, "counts": {**result.counts, **broken}}
    if not played.calls:  # the tokens of the replies are unknown, not 0
        update["calls"] = tuple(call for call in result.calls if call.role != "policy")
        update["usage"] = {role: usage for role, usage in result.usage.items() if role != "policy"}
    return result.model_copy(update=update)


def still_unscored(played: Transcript, judge: str, fields: Mapping[str, Any], preset: str) -> Transcript | None:
    """The transcript, for a rejudged run, of a dialogue that failed or has no reply; `None` if it can be rejudged."""
    if played.failure is None and played.turns:
        return None
    first = played.failure or Failure(role="stored dialogue", kind="no reply", detail="it holds no reply")
    update = {"user": judge, "models": fields["models"], "prompts": fields["prompts"], "calls": (), "usage": {}}
    why = f"unscored before it was rejudged: {first.detail}"
    return unscored(played, preset, first.kind, why, role=first.role).model_copy(update=update)


def unscored(played: Transcript, preset: str, kind: str, why: str, *, role: str = RESCORING) -> Transcript:
    failure = Failure(role=role, kind=kind, detail=why)
    return played.model_copy(update={"preset": preset, "stop": "failed", "failure": failure, "score": None, "rewards": ()})
