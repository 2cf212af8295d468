"""Replay of a stored dialogue: rejudging, and what rescoring shares, for every environment.

Covers the policy that repeats the stored replies, the dialogue that goes through the one turn loop once more, and dialogues that
stay unscored. Does not cover an environment's rules (its own `stored`), nor whole runs (`heartloop.evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Failure, Message, Sampling, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import Environment, play
from heartloop.environments.spec import EnvironmentSpec, Judge, Options, Stored
from heartloop.models.cache import count_free

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
"""The role named in the failure of a dialogue that the stored transcript cannot score."""


Asked = TypeVar("Asked", bound=Judge)


class StandIn(Generic[Asked]):
    """Plays the roles of a stored dialogue: what was said is stored, what is judged comes from the judge.

    An environment whose user also speaks derives from it; where the judge is all there is, the judge itself stands in.
    """

    def __init__(self, played: Transcript, judge: Asked) -> None:
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
    """A policy that gives the replies of a stored dialogue, one a turn, with the tokens they took; nobody is asked."""

    def __init__(self, played: Transcript) -> None:
        self._played = played
        self._calls = {call.turn: call for call in played.calls if call.role == "policy"}

    @property
    def name(self) -> str:
        return self._played.model

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The reply of the turn that the messages have come to."""
        index = sum(message.role == "assistant" for message in messages)
        call, turn = self._calls.get(index), self._played.turns[index]
        if call is None:  # an imported dialogue: the words, and no tokens
            return Reply(turn.reply, finish_reason="length" if turn.truncated else "stop")
        count_free(self.name, "policy", call.usage)
        return Reply(call.text, call.reasoning, call.finish_reason, call.usage)


def check_turns(played: Transcript, options: Options) -> None:
    """Refuses a dialogue that is longer than its options allow.

    Raises:
        UseError: names both numbers.
    """
    if len(played.turns) > options.max_turns:
        raise UseError(f"{played.scenario} has {len(played.turns)} turns; expected at most the run's {options.max_turns}")


def stored_from_score(score_of: Callable[[Transcript], float]) -> Stored:
    """The `Stored` of an environment whose dialogues are judged once, at their end.

    Args:
        score_of: the score by the stored judgements; raises `InputError` where a dialogue keeps none.
    """

    def rescored(transcript: Transcript, options: Options) -> Transcript:
        check_turns(transcript, options)
        if transcript.score is None:
            return transcript
        score = score_of(transcript)
        return transcript.model_copy(update={"score": score, "rewards": (score,)})

    return Stored(options=lambda played: {"preset": played.preset, "variant": played.variant}, rescored=rescored)


@contextmanager
def reading_transcript(transcript: Transcript, what: str) -> Iterator[None]:
    """Reads what a transcript keeps.

    Raises:
        InputError: something is missing or has another form; names it and what was expected.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, UseError) as error:
        raise InputError(f"{transcript.scenario}: the transcript lacks {error}; expected {what}, play it again") from error


def check_readable(played: Transcript, scenario: Any, judge: Judge) -> None:
    """Refuses what cannot be rejudged.

    Raises:
        InputError: the scenario is another text than the one that was played, or the judge cannot read it.
    """
    if scenario.fingerprint != played.fingerprint:
        raise InputError(
            f"scenario {played.scenario!r} is another text now than in the run (fingerprint {scenario.fingerprint}, "
            f"then {played.fingerprint}); give the people as they were with --scenarios"
        )
    judge.admit(scenario)


def judged_fields(played: Transcript, judge: str, told: Mapping[str, Any], *, unused: str = "") -> dict[str, Any]:
    """`models`, `sampling` and `prompts` of a dialogue that the judge feels: what it was played with, and the judge's own.

    Args:
        told: what the judge says of itself (`describe`).
        unused: how prompts begin that the judge is never asked with.
    """
    kept = {role: name for role, name in played.models.items() if role != "policy"}
    sampling = {role: settings for role, settings in played.sampling.items() if role != "policy"}
    prompts = {name: text for name, text in told.get("prompts", {}).items() if not (unused and name.startswith(unused))}
    judged = told.get("sampling", {})
    return {
        "models": {**kept, "judge": judge},
        "sampling": {**sampling, **({"judge": judged["judge"]} if "judge" in judged else {})},
        "prompts": {**played.prompts, **prompts},
    }


async def rejudged(spec: EnvironmentSpec, played: Transcript, scenario: Any, judge: Judge, options: Options) -> Transcript:
    """A stored dialogue as another judge appraises it, through the turn loop once more, by the rules of `options.preset`.

    One that is unscored is passed on with its cause; nobody is asked.

    Args:
        scenario: word for word as it was played.
        options: those of the run.

    Raises:
        InputError: as `check_readable`.
        BudgetSpent: a hard stop was reached.
    """
    check_readable(played, scenario, judge)
    stored = spec.stored
    about = _about(spec, played, judge)
    left = still_unscored(played, judge.name, about, options.preset)
    if left is not None:
        return left
    as_played = options.model_copy(update={**stored.options(played), "preset": options.preset})
    if stored.stops_with_its_turns:  # no further reply is stored
        as_played = as_played.model_copy(update={"max_turns": min(options.max_turns, len(played.turns))})
    environment = spec.make([scenario], stored.stand_in(played, judge), as_played)
    result = await replayed(played, environment)
    if result.stop == "turn_limit" and as_played.max_turns < options.max_turns:
        result = result.model_copy(update={"stop": played.stop if played.stop == "goodbye" else "cut"})
    return with_judge(result, about)


def with_judge(result: Transcript, about: Mapping[str, Any]) -> Transcript:
    """A dialogue read again, with the models, sampling and prompts of `judged_fields`."""
    update = {
        "models": {"policy": result.model, **about["models"]},
        "sampling": {"policy": result.sampling["policy"], **about["sampling"]},
        "prompts": about["prompts"],
    }
    return result.model_copy(update=update)


def judged_prompts(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> Mapping[str, str]:
    """Prompt hashes by name of a dialogue that this judge has read."""
    prompts: Mapping[str, str] = _about(spec, played, judge)["prompts"]
    return prompts


def _about(spec: EnvironmentSpec, played: Transcript, judge: Judge) -> dict[str, Any]:
    stored = spec.stored
    return judged_fields(played, judge.name, stored.described(judge, played), unused=stored.unused_prompts)


async def replayed(played: Transcript, environment: Environment) -> Transcript:
    """The stored replies through the turn loop once more; `environment` holds the stored person, whose feelings are the judge's.

    Raises:
        BudgetSpent: a hard stop was reached.
    """
    policy, sampling = StoredReplies(played), played.sampling.get("policy")
    found = await play(environment, played.scenario, policy, seed=played.seed, repeat=played.repeat, sampling=sampling)
    update: dict[str, Any] = {"facts": played.facts}
    if not played.calls:  # what the replies took is not known, which is not the same as nothing
        update["calls"] = tuple(call for call in found.calls if call.role != "policy")
        update["usage"] = {role: usage for role, usage in found.usage.items() if role != "policy"}
    return found.model_copy(update=update)


def still_unscored(played: Transcript, judge: str, about: Mapping[str, Any], preset: str) -> Transcript | None:
    """A dialogue that is unscored, with its cause, as it stands in a rejudged run; `None` for one that can be read."""
    role, kind, why = "stored dialogue", "no reply", "it holds no reply"
    if played.failure is not None:
        role, kind, why = played.failure.role, played.failure.kind, played.failure.detail
    elif played.turns:
        return None
    return played.model_copy(
        update={
            "preset": preset,
            "user": judge,
            "models": {"policy": played.model, **about["models"]},
            "prompts": about["prompts"],
            "stop": "failed",
            "failure": Failure(role=role, kind=kind, detail=f"unscored before it was rejudged: {why}"),
            "score": None,
            "rewards": (),
            "calls": (),
            "usage": {},
        }
    )


def unscored(played: Transcript, preset: str, kind: str, why: str) -> Transcript:
    """Everything that was said stays; the score goes, with its cause."""
    failure = Failure(role=RESCORING, kind=kind, detail=why)
    return played.model_copy(update={"preset": preset, "stop": "failed", "failure": failure, "score": None, "rewards": ()})
