"""A stored dialogue gone over again, in any environment: what to say of one that cannot be scored, and the replies it holds.

Covers what `rescore` and `rejudge` of all environments share: the policy that says what was said, the dialogue that goes
through the one turn loop once more, and the ones that are passed on unscored. Does not cover any environment's rules (its own
`rescore` and `rejudge`), nor whole runs (`heartloop.evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Failure, Message, Sampling, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import Environment, play
from heartloop.environments.staging import check_choice
from heartloop.models.cache import count_free

__all__ = [
    "RESCORING",
    "Judge",
    "JudgedAnew",
    "StoredReplies",
    "about_judged",
    "check_readable",
    "check_rescorable",
    "judged_again",
    "passed_on",
    "read_again",
    "unscored",
]

RESCORING = "rescoring"
"""The role named in the failure of a dialogue that the stored transcript cannot score."""


class Judge(Protocol):
    """Who feels stored replies anew: an environment's user, asked for its feelings alone."""

    @property
    def name(self) -> str: ...

    def admit(self, scenario: Any) -> None:
        """Refuses a scenario it cannot read.

        Raises:
            InputError: says what the scenario lacks.
        """
        ...


Asked = TypeVar("Asked", bound=Judge)


class JudgedAnew(Generic[Asked]):
    """Who stands for the user of a stored dialogue: what was said is stored, what is judged is the judge's."""

    def __init__(self, played: Transcript, judge: Asked) -> None:
        self._played = played
        self._judge = judge

    @property
    def name(self) -> str:
        return self._judge.name

    def admit(self, scenario: Any) -> None:
        """As the judge's."""
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


def check_rescorable(played: Transcript, environment: str, presets: Sequence[str], preset: str, max_turns: int) -> None:
    """Refuses what cannot be computed by a preset.

    Args:
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
    """
    if played.environment != environment:
        raise UseError(f"{played.scenario} is of environment {played.environment!r}; expected {environment!r}")
    check_choice("preset", preset, presets)
    if len(played.turns) > max_turns:
        raise UseError(f"{played.scenario} has {len(played.turns)} turns; expected at most the run's {max_turns}")


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


def about_judged(played: Transcript, judge: str, told: Mapping[str, Any], *, unused: str = "") -> dict[str, Any]:
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


async def judged_again(
    played: Transcript,
    scenario: Any,
    person: JudgedAnew[Any],
    about: Mapping[str, Any],
    preset: str,
    build: Callable[[], Environment],
) -> Transcript:
    """A stored dialogue as another judge has it, through the turn loop once more.

    One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: word for word as it was played.
        person: stands for the user.
        about: what the person says of itself (`about_judged`).
        build: the environment with that person, where a dialogue can be read.

    Raises:
        InputError: as `check_readable`.
        BudgetSpent: a hard stop was reached.
    """
    check_readable(played, scenario, person)
    left = passed_on(played, person.name, about, preset)
    return left if left is not None else await read_again(played, build())


async def read_again(played: Transcript, environment: Environment) -> Transcript:
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


def passed_on(played: Transcript, judge: str, about: Mapping[str, Any], preset: str) -> Transcript | None:
    """A dialogue that is unscored, with its cause, as it stands in a rejudged run; `None` for one that can be read."""
    role, kind, why = "stored dialogue", "no reply", "it holds no reply"
    if played.failure is not None:
        role, kind, why = played.failure.role, played.failure.kind, played.failure.detail
    elif played.turns:
        return None
    return played.model_copy(
        update={
            "preset": preset,
            "simulator": judge,
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
