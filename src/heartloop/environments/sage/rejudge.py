"""A stored SAGE dialogue read by another judge: same replies, same words of the person, other feelings.

Covers the two that stand in for policy and person in the one turn loop: `StoredReplies` says what the policy said,
`StoredPerson` answers what the person answered and asks the judge how each reply was felt. Does not cover whole runs
(`evaluation.rejudging`).

The judge sees its own running emotion and the rules run on it: at 100 or below 10 the talk ends, though more is stored.
Where the stored talk ended and the judge's emotion would have let it go on, it is `cut`, and scored by the emotion there.
The person's leaving is theirs, part of the words: such a talk still ends in goodbye.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.chat import Reply
from heartloop.dialogue import Failure, Message, Sampling, Transcript
from heartloop.environments.episode import CallLog, RoleFailed, play
from heartloop.environments.sage.environment import Feeling, Sage, SageUser, Speech, View
from heartloop.environments.sage.released import AnyScenario
from heartloop.environments.sage.rescore import decided_to_leave
from heartloop.errors import AnswerError, InputError, ModelError
from heartloop.replay import give
from heartloop.scoring.emotion import band

__all__ = ["StoredPerson", "StoredReplies", "check_readable", "rejudged"]


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
        give(self.name, "policy", call.usage)
        return Reply(call.text, call.reasoning, call.finish_reason, call.usage)


class StoredPerson:
    """A person whose words are stored and whose feelings are the judge's."""

    def __init__(self, played: Transcript, judge: SageUser) -> None:
        self._played = played
        self._judge = judge

    @property
    def name(self) -> str:
        return self._judge.name

    def describe(self, variant: str) -> Mapping[str, Any]:
        about, played = self._judge.describe(variant), self._played
        kept = {role: name for role, name in played.models.items() if role != "policy"}
        sampling = {role: settings for role, settings in played.sampling.items() if role != "policy"}
        feeling = {name: text for name, text in about.get("prompts", {}).items() if not name.startswith("speak")}
        judged = about.get("sampling", {})
        return {
            "models": {**kept, "judge": self._judge.name},
            "sampling": {**sampling, **({"judge": judged["judge"]} if "judge" in judged else {})},
            "prompts": {**played.prompts, **feeling},
        }

    def admit(self, scenario: AnyScenario) -> None:
        self._judge.admit(scenario)

    async def feel(self, view: View, log: CallLog) -> Feeling:
        try:
            return await self._judge.feel(view, log)
        except (ModelError, AnswerError) as error:
            raise RoleFailed("judge", error) from error

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        played = self._played
        last = view.turn == len(played.turns) - 1
        if band(view.emotion) in ("S", "F") and not last:  # the stored answer goes on with a talk that is over
            return Speech("")
        left = last and played.preset == "corrected" and played.stop == "goodbye"  # by rules there is no raw answer
        leaves = left or decided_to_leave(played.calls, view.turn)
        return Speech(played.turns[view.turn].message or "", leaves=leaves, cut=last)


def check_readable(played: Transcript, scenario: AnyScenario, judge: SageUser) -> None:
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


async def rejudged(played: Transcript, scenario: AnyScenario, judge: SageUser, *, preset: str, max_turns: int) -> Transcript:
    """The dialogue as the judge feels it, by the rules of `preset`. One that is unscored is passed on with its cause, unasked.

    Args:
        scenario: the person, word for word as they were played.
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        InputError: as `check_readable`.
        BudgetSpent: a hard stop was reached.
    """
    check_readable(played, scenario, judge)
    person = StoredPerson(played, judge)
    if played.failure is not None or not played.turns:
        return _passed_on(played, person, preset)
    sage = Sage([scenario], person, preset=preset, variant=played.variant, max_turns=max_turns, start=played.start["emotion"])
    replies = StoredReplies(played)
    found = await play(sage, scenario.id, replies, seed=played.seed, repeat=played.repeat, sampling=played.sampling.get("policy"))
    update: dict[str, Any] = {"facts": played.facts}
    if not played.calls:  # what the replies took is not known, which is not the same as nothing
        update["calls"] = tuple(call for call in found.calls if call.role != "policy")
        update["usage"] = {role: usage for role, usage in found.usage.items() if role != "policy"}
    return found.model_copy(update=update)


def _passed_on(played: Transcript, person: StoredPerson, preset: str) -> Transcript:
    role, kind, why = "stored dialogue", "no reply", "it holds no reply"
    if played.failure is not None:
        role, kind, why = played.failure.role, played.failure.kind, played.failure.detail
    about = person.describe(played.variant)
    return played.model_copy(
        update={
            "preset": preset,
            "simulator": person.name,
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
