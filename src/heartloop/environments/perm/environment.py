"""PERM: one answer to one message, graded by four judges; the score is the training reward (PERM sections 2.2 and 2.3).

Resonation is judged on the analysis only; expression, reception and bystander on the response only. An answer in invalid form is
not judged and has the reward `broken_form`. Preset, bystander weight and omitted parts (`Rules`) affect the reward only: all
judges are called in any case, so a run can be rescored.

Departure: tokens are those of the response, estimated from its characters; an endpoint's count would include the analysis, as
the released training does (`length_of: answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from pydantic import field_validator, model_validator

from heartloop.core.chat import estimate_tokens
from heartloop.core.dialogue import Transcript
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import BaseEnvironment
from heartloop.environments.episode import BROKEN_FORMATS, UserTurn
from heartloop.environments.grading import AnswerEpisode, Judges, evidence_of, thoughts_of
from heartloop.environments.perm.scenario import EMOTIONS, SCENARIOS, AnyScenario, PermScenario, parse
from heartloop.environments.perm.scoring import (
    BYSTANDER_WEIGHT,
    LENGTH_WEIGHT,
    LENGTHS,
    PARTS,
    PRESETS,
    SWITCHES,
    PermReward,
    broken_form,
    perm_reward,
)
from heartloop.environments.replay import check_turns, reading_transcript
from heartloop.environments.spec import DemoRun, EnvironmentSpec, Options, Pilot, Role, Scale, Stored, Zone, option

JUDGES: tuple[str, ...] = (*PARTS, "bystander")

DIMENSIONS: Mapping[str, str] = {
    "relevant": "content effectiveness",
    "clear": "logical structure and clarity",
    "concise": "communication efficiency",
    "sober": "objectivity and neutrality",
    "accurate": "information accuracy",
}
"""Dimensions of the bystander's grade, 0 to 20 each, with the paper's names (PERM Figure 10)."""


class Rules(NamedTuple):
    bystander_weight: float = BYSTANDER_WEIGHT
    """lambda_bys; at 0 the bystander still grades, without effect on the reward."""
    without: tuple[str, ...] = ()
    """Parts left out of the reward, in the order of `SWITCHES`."""
    length_of: str = LENGTHS[0]
    """What the length penalty counts, one of `LENGTHS`."""

    @property
    def weight(self) -> float:
        """The effective weight of the bystander; 0 if it is left out."""
        return 0.0 if "bystander" in self.without else self.bystander_weight

    def reward(self, scores: Mapping[str, float], tokens: int, preset: str) -> PermReward:
        resonation, expression, reception, bystander = (scores[judge] for judge in JUDGES)
        parts = [part for part in PARTS if part not in self.without]
        length_weight = 0.0 if "length" in self.without else LENGTH_WEIGHT
        return perm_reward(
            resonation, expression, reception, bystander, tokens,
            preset=preset, parts=parts, bystander_weight=self.weight, length_weight=length_weight,
        )  # fmt: skip

    @property
    def facts(self) -> dict[str, str]:
        weight = {"bystander_weight": f"{self.bystander_weight:g}"}
        length = {"length_of": self.length_of} if self.length_of != LENGTHS[0] else {}
        return weight | ({"without": " ".join(self.without)} if self.without else {}) | length


class PermOptions(Options):
    """Defaults are those of the released code."""

    preset: str = option(PRESETS[0], affects="score", choices=PRESETS)
    """How a grade of 1 to 5 becomes a share: `released`: grade / 5; `unit`: (grade - 1) / 4."""
    variant: str = option("plain", choices=("plain", "paper"), paper="paper (Figures 11 and 12)")
    """Form of the policy prompt: `plain`: persona, scenario and form in the system message; `paper`: in the user's message."""
    max_turns: int = option(1, ge=1, le=1, paper="1")
    """Number of policy replies."""
    bystander_weight: float = option(
        BYSTANDER_WEIGHT, affects="score", ge=0, allow_inf_nan=False, paper="0.5 (lambda_bys; Table 6: 0.1 to 1)"
    )
    """Weight of the bystander in the reward."""
    without: tuple[str, ...] = option((), affects="score", choices=SWITCHES, paper="none; Table 2 leaves out one at a time")
    """Parts left out of the reward."""
    length_of: str = option(LENGTHS[0], affects="score", choices=LENGTHS, paper="not said; the released code: the whole answer")
    """What the length penalty counts: tokens of the `response`, or of the whole `answer`, analysis included."""

    @field_validator("without")
    @classmethod
    def _sorted(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in SWITCHES if name in value)

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if set(PARTS) <= set(self.without):
            raise ValueError(f"without is {', '.join(self.without)}; expected at least one of {', '.join(PARTS)} in the reward")
        return self

    @property
    def rules(self) -> Rules:
        return Rules(self.bystander_weight, self.without, self.length_of)


SCALE = Scale(
    points=100.0,
    low=-50.0,
    high=100.0,
    start=0.0,
    success_at=60.0,
    failure_below=0.0,
    group="emotion",
    group_title="emotion",
    group_order=EMOTIONS,
    course=lambda transcript: [0.0, *(100.0 * reward for reward in transcript.rewards)],
    rules=lambda transcript: " ".join(transcript.facts.get(name, "") for name in Rules._fields).strip() or None,
    title="reward",
    of="Reward times 100, at most 100; a format failure scores -50, or -100 times a bystander weight above 0.5",
    zones=(Zone("", "a", 60, 100), Zone("", "b", 30, 60), Zone("", "c", 0, 30), Zone("", "f", -50, 0)),
    ticks=(-50, 0, 30, 60, 100),
    change_limit=1.0,
)


class Perm(BaseEnvironment[AnyScenario, Judges, PermOptions]):
    name = "perm"
    options_type = PermOptions
    policy, paper, message = (load_prompt(__package__, name) for name in ("policy", "policy_paper", "message_paper"))

    @property
    def in_message(self) -> bool:
        return self.options.variant == "paper"

    def begin(self, scenario_id: str, *, seed: int = 0) -> PermEpisode:
        return PermEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "emotion": scenario.emotion,
            **({"want": scenario.want} if isinstance(scenario, PermScenario) else {}),
            "theme": scenario.emotion,
            "title": scenario.title,
            "person": scenario.person,
            "situation": scenario.scenario,
            "tags": " ".join(scenario.tags),
            **({"query": scenario.query} if self.in_message else {}),  # the first message holds more than the person says
            **self.options.rules.facts,
        }
        hashes = {prompt.name: prompt.hash for prompt in ((self.paper, self.message) if self.in_message else (self.policy,))}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=hashes)


class PermEpisode(AnswerEpisode[Perm, AnyScenario]):
    @property
    def policy_prompt(self) -> str:
        perm, scenario = self._environment, self._scenario
        return perm.paper.text if perm.in_message else perm.policy.fill(persona=scenario.who, scenario=scenario.scenario)

    async def open(self) -> str:
        perm, scenario = self._environment, self._scenario
        filled = {"persona": scenario.who, "scenario": scenario.scenario, "query": scenario.query}
        return perm.message.fill(**filled) if perm.in_message else scenario.query

    async def step(self, reply: str) -> UserTurn:
        answer, rules = parse(reply), self._environment.options.rules
        if answer.broken:
            self._log.count(BROKEN_FORMATS)
            self._score = broken_form(rules.weight)
            return UserTurn(None, {}, {}, {}, {"format": answer.broken}, "turn_limit")
        grades = await self.graded({**dict.fromkeys(JUDGES, answer.response), "resonation": answer.analysis})
        tokens = estimate_tokens(answer.response)
        evidence = evidence_of(grades)
        counted = tokens if rules.length_of == LENGTHS[0] else estimate_tokens(reply)
        reward = rules.reward(evidence["scores"], counted, self._environment.options.preset)
        self._score = reward.total
        evidence = {"format": "", **evidence, "reward": reward._asdict(), "tokens": tokens, "tokens_estimated": True}
        return UserTurn(None, {}, {}, thoughts_of(grades), evidence, "turn_limit")


def rules_of(transcript: Transcript) -> Rules:
    weight = transcript.facts.get("bystander_weight", BYSTANDER_WEIGHT)
    with reading_transcript(transcript, "a number as bystander_weight"):
        without = tuple(transcript.facts.get("without", "").split())
        return Rules(float(weight), without, transcript.facts.get("length_of", LENGTHS[0]))


def reward_of(transcript: Transcript, *, preset: str, rules: Rules | None = None) -> PermReward | None:
    """The reward of a stored dialogue with a preset and rules (default: its own); `None` if the form was invalid."""
    with reading_transcript(transcript, "the grades of its judges"):
        turn, rules = transcript.turns[0], rules or rules_of(transcript)
        if turn.evidence["format"]:
            return None
        counted = int(turn.evidence["tokens"]) if rules.length_of == LENGTHS[0] else estimate_tokens(turn.reply)
        return rules.reward(turn.evidence["scores"], counted, preset)


def rescored(transcript: Transcript, options: PermOptions) -> Transcript:
    """The transcript with the reward by the options, from its grades; unchanged if it was scored with them."""
    check_turns(transcript, options)
    old_rules, rules, preset = rules_of(transcript), options.rules, options.preset
    if preset == transcript.preset and rules == old_rules:
        return transcript
    other_facts = {name: value for name, value in transcript.facts.items() if name not in old_rules.facts}
    update: dict[str, object] = {"preset": preset, "facts": other_facts | rules.facts}
    if transcript.score is not None:
        total = broken_form(rules.weight)
        if (reward := reward_of(transcript, preset=preset, rules=rules)) is not None:
            turn, total = transcript.turns[0], reward.total
            update["turns"] = (turn.model_copy(update={"evidence": {**turn.evidence, "reward": reward._asdict()}}),)
        update["score"], update["rewards"] = total, (total,)
    return transcript.model_copy(update=update)


SPEC = EnvironmentSpec(
    name="perm",
    title="PERM",
    about="One answer to one message, graded for resonation, expression, reception and by a bystander; the score is the reward.",
    source="PERM",
    roles=(Role("judge", "grades resonation, expression, reception and bystander"),),
    options=PermOptions,
    scale=SCALE,
    scenarios=SCENARIOS,
    environment=Perm,
    embedded="heartloop.environments.perm.users:PermEmbeddedUser",
    simulator="heartloop.environments.perm.users:PermLLMUser",
    report="heartloop.environments.perm.report:PANEL",
    reading="heartloop.environments.perm.users:READING",
    stored=Stored(
        options=lambda played: {"preset": played.preset, "variant": played.variant, **rules_of(played)._asdict()},
        rescored=rescored,
    ),
    demo=DemoRun("general", 24, place=4),
    pilot=Pilot(("heartloop/counsellor", "heartloop/reflector"), scenario=567.6, repeat=148.0, turns=1, tokens=389),
    training="heartloop.environments.perm.training:TRAINING",
    replies="heartloop.environments.perm.replies:REPLIES",
    importers={"perm-samples": "heartloop.environments.perm.importers:SAMPLES"},
    writing={"enrich": "heartloop.environments.perm.writing:PermEnriching"},
)
