"""The PERM environment: one answer to one person, judged from three sides (PERM sections 2.2 and 2.3).

Covers the turn, who is asked about which part of the answer, the reward, and what a transcript keeps. The four judges are one
protocol, `PermUser`, with a model behind them (`LLMUser`) or rules (`EmbeddedUser`). Does not cover the numbers
(`heartloop.environments.perm.scoring`), nor the form of an answer (`format`).

The model under test gets persona and scenario in its system prompt and the query as the person's message. Resonation is judged on
the analysis alone; expression, reception and the bystander on the response alone. The four are asked at the same time. One that
has no answer leaves the dialogue unscored, whatever the others said. An answer of another form is worth `broken_form`; no judge
is asked about it. There is no mood to follow: the state is empty, and the one reward is the score.

Tokens are those of the response, estimated from its characters (ours): an endpoint counts thinking and analysis along, and so
the same words cost the same whoever said them, now and when the transcript is scored again.

Presets: `released` (default) and `unit`, as `scoring` has them. They change the sum, never what is asked; so do the
bystander's weight and what is left out (`Rules`): every judge is asked all the same, and a run can be rescored by other rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from heartloop.core.chat import estimate_tokens
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment, LoggedEpisode
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.grading import Grade, ask_all, evidence_of, thoughts_of
from heartloop.environments.perm.drawn import AnySample
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.options import PermOptions
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.perm.scoring import (
    BYSTANDER_WEIGHT,
    LENGTH_WEIGHT,
    PARTS,
    PermReward,
    broken_form,
    perm_reward,
)
from heartloop.environments.spec import Player
from heartloop.environments.stored import reading_transcript

__all__ = [
    "JUDGES",
    "Grade",
    "Perm",
    "PermEpisode",
    "PermUser",
    "Rules",
    "View",
    "reward_of",
    "rules_of",
]

JUDGES: tuple[str, ...] = (*PARTS, "bystander")
"""Who is asked, in the order in which their calls are kept."""


class View(NamedTuple):
    """What there is to judge."""

    scenario: AnySample
    analysis: str
    response: str
    seed: int

    def judged_by(self, judge: str) -> str:
        """The part of the answer that a judge reads."""
        return self.analysis if judge == "resonation" else self.response


class Rules(NamedTuple):
    """How grades become a reward, besides the preset."""

    bystander_weight: float = BYSTANDER_WEIGHT
    """The paper's lambda_bys; 0 keeps the bystander out of the reward, not out of the transcript."""
    without: tuple[str, ...] = ()
    """Those of `SWITCHES` that do not count, in their order."""

    @property
    def weight(self) -> float:
        """Of the bystander, as it counts."""
        return 0.0 if "bystander" in self.without else self.bystander_weight

    def reward(self, scores: Mapping[str, float], tokens: int, preset: str) -> PermReward:
        """The reward of what `JUDGES` gave."""
        resonation, expression, reception, bystander = (scores[judge] for judge in JUDGES)
        return perm_reward(
            resonation,
            expression,
            reception,
            bystander,
            tokens,
            preset=preset,
            parts=[part for part in PARTS if part not in self.without],
            bystander_weight=self.weight,
            length_weight=0.0 if "length" in self.without else LENGTH_WEIGHT,
        )

    @property
    def facts(self) -> dict[str, str]:
        """As a transcript keeps them."""
        told = {"bystander_weight": f"{self.bystander_weight:g}"}
        return told | ({"without": " ".join(self.without)} if self.without else {})


class PermUser(Player, Protocol):
    """The four judges; the person among them, in `reception`."""

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        """What one of `JUDGES` gives its part of the answer; the four are asked at the same time."""
        ...


class Perm(BaseEnvironment[AnySample, PermUser, PermOptions]):
    """PERM over a list of samples, with one kind of judges."""

    name = "perm"
    options_type = PermOptions
    policy = load_prompt(__package__, "policy")

    def __init__(self, scenarios: Sequence[AnySample], user: PermUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        self.rules = Rules(self.options.bystander_weight, self.options.without)

    def begin(self, scenario_id: str, *, seed: int = 0) -> PermEpisode:
        return PermEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "emotion": scenario.emotion,
            **({"want": scenario.want} if isinstance(scenario, Scenario) else {}),
            "theme": scenario.emotion,
            "title": scenario.title,
            "person": scenario.person,
            "situation": scenario.scenario,
            "tags": " ".join(scenario.tags),
            **self.rules.facts,
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts={self.policy.name: self.policy.hash})


class PermEpisode(LoggedEpisode[Perm, AnySample]):
    """One person and one answer."""

    def __init__(self, environment: Perm, scenario: AnySample, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        self._total: float | None = None

    @property
    def policy_prompt(self) -> str:
        return self._environment.policy.fill(persona=self._scenario.who, scenario=self._scenario.scenario)

    async def open(self) -> str:
        return self._scenario.query

    async def step(self, reply: str) -> UserTurn:
        answer = parse(reply)
        if answer.broken:
            self._log.count("broken formats")
            self._total = broken_form(self._environment.rules.weight)
            return UserTurn(None, {}, {}, {}, {"format": answer.broken}, "turn_limit")
        view = View(self._scenario, answer.analysis, answer.response, self._seed)
        grades = await ask_all(JUDGES, lambda judge, log: self._environment.user.grade(judge, view, log), self._log)
        tokens = estimate_tokens(answer.response)
        told = evidence_of(grades)
        reward = self._environment.rules.reward(told["scores"], tokens, self._environment.preset)
        self._total = reward.total
        evidence = {
            "format": "",
            **told,
            "reward": reward._asdict(),
            "tokens": tokens,
            "tokens_estimated": True,
        }
        return UserTurn(None, {}, {}, thoughts_of(grades), evidence, "turn_limit")

    def outcome(self) -> Outcome:
        """The reward, at most 1; it is also the one turn's reward. The states are empty."""
        return Outcome(None, (), ({},)) if self._total is None else Outcome(self._total, (self._total,), ({}, {}))


def rules_of(transcript: Transcript) -> Rules:
    """The rules that a stored dialogue was scored by.

    Raises:
        InputError: a weight in it that is no number.
    """
    weight = transcript.facts.get("bystander_weight", BYSTANDER_WEIGHT)
    try:
        return Rules(float(weight), tuple(transcript.facts.get("without", "").split()))
    except ValueError as error:
        raise InputError(f"{transcript.scenario}: bystander_weight is {weight!r}; expected a number, play it again") from error


def reward_of(transcript: Transcript, *, preset: str, rules: Rules | None = None) -> PermReward | None:
    """The reward of a stored dialogue by a preset and rules, by default its own; `None` where the form was broken.

    Raises:
        InputError: the transcript keeps no grades.
    """
    with reading_transcript(transcript, "the grades of its judges"):
        evidence = transcript.turns[0].evidence
        if evidence["format"]:
            return None
        return (rules or rules_of(transcript)).reward(evidence["scores"], int(evidence["tokens"]), preset)
