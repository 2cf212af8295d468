"""What decides the dialogues of a training run: who is played, by whom, how a reply becomes a sample, what it is rewarded for.

Covers the settings of the agent loop, written into the file that verl reads them from, and the environment they stand for.
Knows no torch and no verl, so that a recipe can be read without them. Does not cover the optimiser (the recipe, and verl's own
configuration).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.catalogue import Ready, entry_of
from heartloop.environments.perm.environment import Rules
from heartloop.environments.perm.scoring import BYSTANDER_WEIGHT, PARTS
from heartloop.models.names import resolve
from heartloop.scoring.credit import RewardKind
from heartloop.training.perm_terms import Term

__all__ = ["AGENT", "TRAINED", "DialogueSettings", "group_of", "write_agent_loops"]

AGENT = "heartloop"
"""Name of the agent loop, as the column `agent_name` of the data has it."""

TRAINED = ("eibench", "empa", "perm", "sage")
"""Environments with rewards for training."""
TARGET = "heartloop.training.agent_loop.DialogueLoop"


class DialogueSettings(BaseModel):
    """Settings of the dialogues, training and validation alike."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    environment: str
    """`eibench`, `empa`, `perm` or `sage`."""
    scenarios: tuple[str, ...] = Field(min_length=1)
    """Names of sets or files; every scenario that the data names must be in one of them."""
    user: str = "embedded"
    """`embedded`, or the name of the model that plays the person."""
    user_sampling: Sampling = Sampling()
    """How that model draws: `temperature`, `top_p`, `max_tokens`, `seed`; its own defaults without."""
    max_connections: int = Field(default=64, ge=1)
    """Calls in flight at the simulator's endpoint, per agent-loop worker."""
    preset: str | None = None
    """Rules of the environment, as `heartloop eval --preset` takes them."""
    variant: str | None = None
    """Of the person (SAGE) or the policy prompt (EIBench), as `heartloop eval --variant` takes it."""
    max_turns: int = Field(default=8, ge=1)
    """Policy replies in a dialogue (EIBench Table 10; RLVER App. A.3)."""
    start: float | None = Field(default=None, ge=0.0, le=100.0)
    """SAGE only: the emotion before the first reply (30 in RLVER's released training code)."""
    leaves_at: float | None = Field(default=None, ge=0.0, le=100.0)
    """SAGE only: the emotion at or below which the person leaves (0 in RLVER's training); below 10 by default."""
    form: Literal["plain", "think", "direct"] | None = None
    """SAGE only: of the policy prompt. EIBench has it as its variant."""
    sample: Literal["turn", "dialogue"] = "turn"
    """`turn`: every policy turn is a sample, its context the dialogue so far without thinking. `dialogue`: turns that follow each
    other token for token are one sample; where they do not, for a think block was dropped or the length is used up, a new one
    begins."""
    reward: RewardKind = "outcome"
    """What a rollout is worth: how it ended, the sum of its turns, or the mean of both."""
    credit: Literal["group", "to_go"] = "group"
    """Where the reward stands. `group`: the whole return on the last token of every sample, for estimators that compare the
    rollouts of a scenario. `to_go`: turn by turn, what a sample leaves out added at its end, for estimators that go token by
    token (GAE with gamma = lambda = 1)."""
    without: tuple[Term, ...] | None = None
    """PERM only: terms left out of the reward that is learned from, among `resonation`, `expression`, `reception`, `bystander`,
    `length`. Scores are measured by the whole reward all the same."""
    bystander_weight: float | None = Field(default=None, ge=0.0)
    """PERM only: lambda_bys of the reward that is learned from; 0.5 by default."""
    think: bool = False
    """Whether a reply must be `<think>...</think>` and then something said; a dialogue that breaks this counts the lowest."""
    reply_tokens: int = Field(default=512, ge=1)
    """At most so many tokens a reply."""
    chat_format: Literal["template", "messages"] = "template"
    """`template`: the tokenizer's chat template over the whole dialogue. `messages`: message by message (the laptop policy)."""
    transcripts: str | None = None
    """Directory for the training dialogues as JSON lines; none are kept without."""
    transcripts_every: int = Field(default=1, ge=1)
    """Keep those of every so many steps."""
    seed: int = 0
    """Equal seeds, data and weights give equal dialogues, where the token server keeps seeds."""

    @field_validator("scenarios", "without", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _perms(self) -> Self:
        if self.environment != "perm" and (self.without, self.bystander_weight) != (None, None):
            raise ValueError(f"without and bystander_weight are for perm; the reward of {self.environment} has no such terms")
        if self.environment == "perm" and self.max_turns != 1:
            raise ValueError(f"max_turns is {self.max_turns}; a dialogue of perm has one turn, write max_turns: 1")
        if set(PARTS) <= set(self.without or ()):
            raise ValueError(f"without leaves none of {', '.join(PARTS)}; leave one of them in")
        return self

    @property
    def rules(self) -> Rules:
        """What PERM's reward is made of, as it is learned from."""
        weight = BYSTANDER_WEIGHT if self.bystander_weight is None else self.bystander_weight
        return Rules(weight, self.without or ())

    def build(self) -> tuple[Ready, list[Any]]:
        """The environment, and the models to close when it is not needed for a while.

        Raises:
            UseError: an unknown environment, set, model, preset or variant, or a start that this environment does not have.
            InputError: a scenario that does not fit.
        """
        entry = entry_of(self.environment)
        people = [person for name in dict.fromkeys(self.scenarios) for person in entry.load(name)]
        model = None if self.user == "embedded" else resolve(self.user, max_connections=self.max_connections)
        more = {name: value for name in ("start", "leaves_at", "form") if (value := getattr(self, name)) is not None}
        if more and self.environment != "sage":
            raise UseError(f"{' and '.join(more)} is for sage; {self.environment} has no such setting, leave it out")
        ready = entry.build(
            people,
            entry.person(model, self.user_sampling if model is not None else None),
            preset=self.preset or entry.presets[0],
            variant=self.variant or entry.variants[0],
            max_turns=self.max_turns,
            **more,
        )
        return ready, [] if model is None else [model]


def group_of(person: Any) -> str:
    """By what a person's numbers are logged: the scene, intention or axis; in PERM what would land (`want`), since of the 32
    emotions a step meets hardly one twice."""
    return str(getattr(person, "want", None) or person.stratum)


def write_agent_loops(settings: DialogueSettings, path: Path) -> None:
    """Writes the file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` is to name (JSON, which is YAML, too)."""
    entry = {"name": AGENT, "_target_": TARGET, "settings": settings.model_dump(mode="json")}
    path.write_text(json.dumps([entry], indent=2) + "\n", encoding="utf-8")
