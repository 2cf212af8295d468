"""The PERM environment: one answer to one person, judged from three sides (PERM sections 2.2 and 2.3).

Covers the turn, who is asked about which part of the answer, the reward, and what a transcript keeps. The four judges are one
protocol, `PermUser`, with a model behind them (`LLMUser`) or rules (`EmbeddedUser`). Does not cover the numbers
(`heartloop.scoring.perspectives`), nor the form of an answer (`format`).

The model under test gets persona and scenario in its system prompt and the query as the person's message. Resonation is judged on
the analysis alone; expression, reception and the bystander on the response alone. The four are asked at the same time. One that
has no answer leaves the dialogue unscored, whatever the others said. An answer of another form is worth `BROKEN_FORMAT`; no judge
is asked about it. There is no mood to follow: the state is empty, and the one reward is the score.

Tokens are those of the response, estimated from its characters (ours): an endpoint counts thinking and analysis along, and so
the same words cost the same whoever said them, now and when the transcript is scored again.

Presets: `released` (default) and `unit`, as `scoring.perspectives` has them. They change the sum, never what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from heartloop.chat import estimate_tokens
from heartloop.dialogue import Transcript
from heartloop.environments.episode import CallLog, Outcome, RoleFailed, UserTurn
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.staging import LoggedEpisode, Staged, answered, check_choice
from heartloop.errors import InputError, UseError
from heartloop.prompts import load_prompt
from heartloop.scoring.perspectives import BROKEN_FORMAT, BYSTANDER_WEIGHT, PARTS, PRESETS, PermReward, perm_reward

__all__ = ["JUDGES", "MAX_TURNS", "VARIANTS", "Grade", "Perm", "PermEpisode", "PermUser", "View", "reward_of"]

MAX_TURNS = 1
"""Policy replies in a dialogue: PERM has no more."""

VARIANTS = ("plain",)
"""Forms of the policy prompt."""

JUDGES: tuple[str, ...] = (*PARTS, "bystander")
"""Who is asked, in the order in which their calls are kept."""


class View(NamedTuple):
    """What there is to judge."""

    scenario: Scenario
    analysis: str
    response: str
    seed: int

    def judged_by(self, judge: str) -> str:
        """The part of the answer that a judge reads."""
        return self.analysis if judge == "resonation" else self.response


class Grade(NamedTuple):
    """What one judge gave."""

    score: int
    """1 to 5; the bystander 0 to 100."""
    reason: str
    quote: str = ""
    """Words of the part that was judged."""
    evidence: Mapping[str, Any] = {}
    """What else the judge saw; the bystander's five dimensions, 0 to 20 each, among it."""


class PermUser(Protocol):
    """The four judges; the person among them, in `reception`."""

    @property
    def name(self) -> str:
        """`embedded`, or the model's name."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """`models`, `sampling` and `prompts` of the judges."""
        ...

    def admit(self, scenario: Scenario) -> None:
        """Refuses a sample it cannot judge.

        Raises:
            InputError: says what the sample lacks.
        """
        ...

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        """What one of `JUDGES` gives its part of the answer; the four are asked at the same time."""
        ...


class Perm(Staged[Scenario, PermUser]):
    """PERM over a list of samples, with one kind of judges.

    Args:
        bystander_weight: the paper's lambda_bys; 0 keeps the bystander out of the reward, not out of the transcript.

    Raises:
        UseError: unknown preset or variant, another number of turns than one, or a weight below 0.
        InputError: two samples of one id, or one that the judges cannot judge.
    """

    name = "perm"

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        user: PermUser,
        *,
        preset: str = PRESETS[0],
        variant: str = VARIANTS[0],
        max_turns: int = MAX_TURNS,
        bystander_weight: float = BYSTANDER_WEIGHT,
    ) -> None:
        check_choice("preset", preset, PRESETS)
        check_choice("variant", variant, VARIANTS, ", the form of the policy prompt")
        if max_turns != MAX_TURNS:
            raise UseError(f"max_turns is {max_turns}; a dialogue of PERM has one turn, leave it out")
        if not 0.0 <= bystander_weight < float("inf"):
            raise UseError(f"bystander_weight is {bystander_weight}; expected a number of at least 0")
        super().__init__(scenarios, user, preset=preset, variant=variant, max_turns=max_turns)
        self.bystander_weight = bystander_weight
        self.policy = load_prompt(__package__, "policy")

    def begin(self, scenario_id: str, *, seed: int = 0) -> PermEpisode:
        """A fresh episode.

        Raises:
            InputError: no such sample.
        """
        return PermEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "emotion": scenario.emotion,
            "want": scenario.want,
            "theme": scenario.emotion,
            "title": scenario.title,
            "person": scenario.person,
            "situation": scenario.scenario,
            "tags": " ".join(scenario.tags),
            "bystander_weight": f"{self.bystander_weight:g}",
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={self.policy.name: self.policy.hash})


class PermEpisode(LoggedEpisode):
    """One person and one answer."""

    def __init__(self, environment: Perm, scenario: Scenario, seed: int) -> None:
        super().__init__()
        self._perm = environment
        self._scenario = scenario
        self._seed = seed
        self._total: float | None = None

    @property
    def policy_prompt(self) -> str:
        persona = f"{self._scenario.person} ({self._scenario.persona.gender})"
        return self._perm.policy.fill(persona=persona, scenario=self._scenario.scenario)

    async def open(self) -> str:
        return self._scenario.query

    async def step(self, reply: str) -> UserTurn:
        answer = parse(reply)
        if answer.broken:
            self._log.count("broken formats")
            self._total = BROKEN_FORMAT
            return UserTurn(None, {}, {}, {}, {"format": answer.broken}, "turn_limit")
        grades = await self._grades(View(self._scenario, answer.analysis, answer.response, self._seed))
        tokens = estimate_tokens(answer.response)
        scores = {judge: grade.score for judge, grade in grades.items()}
        reward = _reward(scores, tokens, self._perm.preset, self._perm.bystander_weight)
        self._total = reward.total
        evidence = {
            "format": "",
            "scores": scores,
            "reward": reward._asdict(),
            "tokens": tokens,
            "tokens_estimated": True,
            "reasons": {judge: grade.reason for judge, grade in grades.items()},
            "quotes": {judge: grade.quote for judge, grade in grades.items() if grade.quote},
            "seen": {judge: dict(grade.evidence) for judge, grade in grades.items() if grade.evidence},
        }
        thoughts = {judge: f"{grade.score}: {grade.reason}" for judge, grade in grades.items()}
        return UserTurn(None, {}, {}, thoughts, evidence, "turn_limit")

    def outcome(self) -> Outcome:
        """The reward, at most 1; it is also the one turn's reward. The states are empty."""
        return Outcome(None, (), ({},)) if self._total is None else Outcome(self._total, (self._total,), ({}, {}))

    async def _grades(self, view: View) -> dict[str, Grade]:
        """What the four gave; their calls are kept in the judges' order, whoever answered first."""
        logs = {judge: CallLog() for judge in JUDGES}
        asked = (answered(f"{judge} judge", self._perm.user.grade(judge, view, logs[judge])) for judge in JUDGES)
        found = await asyncio.gather(*asked, return_exceptions=True)
        for log in logs.values():
            self._log.calls.extend(log.calls)
            for name, number in log.counts.items():
                self._log.counts[name] = self._log.counts.get(name, 0) + number
        failed = [result for result in found if isinstance(result, BaseException)]
        for error in sorted(failed, key=lambda error: isinstance(error, RoleFailed)):  # a spent budget is no judge's failure
            raise error
        return {judge: grade for judge, grade in zip(JUDGES, found, strict=True) if isinstance(grade, Grade)}


def _reward(scores: Mapping[str, int], tokens: int, preset: str, bystander_weight: float) -> PermReward:
    resonation, expression, reception, bystander = (scores[judge] for judge in JUDGES)
    return perm_reward(resonation, expression, reception, bystander, tokens, preset=preset, bystander_weight=bystander_weight)


def reward_of(transcript: Transcript, *, preset: str) -> PermReward | None:
    """The reward of a stored dialogue by a preset, from what its judges gave; `None` where the form was broken.

    Raises:
        InputError: the transcript keeps no grades.
    """
    try:
        evidence = transcript.turns[0].evidence
        if evidence["format"]:
            return None
        weight = float(transcript.facts.get("bystander_weight", BYSTANDER_WEIGHT))
        return _reward(evidence["scores"], int(evidence["tokens"]), preset, weight)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{transcript.scenario}: the transcript lacks {error}; expected the grades of its judges, play it again"
        ) from error
