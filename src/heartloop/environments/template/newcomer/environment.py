"""The rules: options, scenarios, who plays the newcomer, and the dialogue.

Ease lies in [0, 10] and moves by at most 3 a reply. At 10 the newcomer is ready to go (success), at 0 they say no more (failure).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from heartloop.core.dialogue import Message, StopReason
from heartloop.core.judging import ask
from heartloop.core.schemas import Sent
from heartloop.environments.base import BaseEnvironment, EmbeddedPlayer, LoggedEpisode, RoleModel, answered
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.spec import Options, option
from heartloop.environments.written import Tag, Written

LOWEST, START, HIGHEST = 0.0, 4.0, 10.0
POLICY_PROMPT = "You talk with a person on their first day at a new place of work. Answer in one to three sentences."
USER_PROMPT = (
    "You are {person}. {title}. Read the latest reply and say honestly how it changes your ease, as JSON: "
    '{{"change": whole number from -3 to 3, "reason": "...", "answer": "what you say next"}}.'
)


class NewcomerOptions(Options):
    """How long a dialogue is and what counts as good."""

    max_turns: int = option(4, ge=1, le=20)
    """Maximum number of policy replies."""
    good_from: float = option(7.0, ge=1, le=9, affects="score")
    """Ease at the end that is worth one half."""


class Newcomer(Written):
    """A scenario; `--limit` is stratified by `stratum`, here the place of work."""

    id: str
    title: str
    person: str
    stratum: str
    opening: str
    lines: tuple[str, ...] = Field(min_length=1)
    warm: tuple[str, ...] = Field(min_length=1)
    trust: int = Field(0, ge=-1, le=1)  # added to every change of ease
    tags: tuple[Tag, ...]


class Appraisal(BaseModel):
    """What a reply did, and what the newcomer says next."""

    change: int = Field(ge=-3, le=3)
    reason: Annotated[str, Sent(maxLength=400)]
    answer: Annotated[str, Sent(maxLength=800)] = Field(min_length=1)


class EmbeddedUser(EmbeddedPlayer):
    """Plays the newcomer by rules: silence and unasked advice weigh, a question about them eases."""

    async def appraise(self, newcomer: Newcomer, replies: Sequence[str], ease: float, seed: int, log: CallLog) -> Appraisal:
        reply = replies[-1].casefold()
        advises = any(words in reply for words in ("you should", "try to", "make sure"))
        change, reason = (2, "asked about them") if "?" in reply and " you" in reply else (0, "listened")
        if not reply or advises:
            change, reason = (-1, "unasked advice") if advises else (-2, "silence")
        change += newcomer.trust
        lines = newcomer.warm if ease + change >= 7 else newcomer.lines
        return Appraisal(change=change, reason=reason, answer=lines[(len(replies) - 1) % len(lines)])


class LLMUser(RoleModel):
    """A model plays the newcomer, or judges stored replies."""

    async def appraise(self, newcomer: Newcomer, replies: Sequence[str], ease: float, seed: int, log: CallLog) -> Appraisal:
        dialogue = "\n".join(f"Reply {n}: {reply or '(silence)'}" for n, reply in enumerate(replies, 1))
        messages = [
            Message(role="system", content=USER_PROMPT.format(**newcomer.model_dump())),
            Message(role="user", content=f"You said: {newcomer.opening}\n{dialogue}\nYour ease is {ease:g} of 10."),
        ]
        on_reply = log.recorder("appraise", len(replies) - 1, self._role)
        return await ask(self._model, messages, Appraisal, sampling=self._sampling.seeded(seed, len(replies)), on_reply=on_reply)


class NewcomerEnvironment(BaseEnvironment[Newcomer, Any, NewcomerOptions]):
    """The environment over some scenarios."""

    name = "newcomer"
    options_type = NewcomerOptions

    def begin(self, scenario_id: str, *, seed: int = 0) -> NewcomerEpisode:
        return NewcomerEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        newcomer = self.scenario(scenario_id)
        facts = {"title": newcomer.title, "person": newcomer.person, "place": newcomer.stratum, "tags": " ".join(newcomer.tags)}
        facts["good_from"] = f"{self.options.good_from:g}"  # what rescoring needs
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={})


class NewcomerEpisode(LoggedEpisode[NewcomerEnvironment, Newcomer]):
    """One dialogue."""

    policy_prompt = POLICY_PROMPT

    def __init__(self, environment: NewcomerEnvironment, newcomer: Newcomer, seed: int) -> None:
        super().__init__(environment, newcomer, seed)
        self._options, self._user = environment.options, environment.user
        self._replies: list[str] = []
        self._ease = [START]

    async def open(self) -> str:
        return self._scenario.opening

    async def step(self, reply: str) -> UserTurn:
        before, self._replies = self._ease[-1], [*self._replies, reply]
        appraisal = await answered("user", self._user.appraise(self._scenario, self._replies, before, self._seed, self._log))
        ease = min(HIGHEST, max(LOWEST, before + appraisal.change))
        self._ease.append(ease)
        over: StopReason | None = "turn_limit" if len(self._replies) >= self._options.max_turns else None
        stop = "success" if ease == HIGHEST else "failure" if ease == LOWEST else over
        answer = None if stop else appraisal.answer
        return UserTurn(answer, {"ease": ease}, {"ease": ease - before}, {"reason": appraisal.reason}, {}, stop)

    def outcome(self) -> Outcome:
        rewards = tuple(after - before for before, after in zip(self._ease, self._ease[1:], strict=False))
        return Outcome(score(self._ease[-1], self._options.good_from), rewards, tuple({"ease": ease} for ease in self._ease))


def score(ease: float, good_from: float) -> float:
    """The score in [0, 1]: 0 at ease 0, one half at `good_from`, 1 at ease 10, linear between."""
    return 0.5 * ease / good_from if ease < good_from else 1 - 0.5 * (HIGHEST - ease) / (HIGHEST - good_from)
