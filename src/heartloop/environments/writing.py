"""An environment's part of the scenario writer: seeds, prompts for the writer model, and assembling the scenario.

`EnvironmentSpec.writing` names a `Writing` per command: `write` (from seed pools), `distil` (from dialogues of a chat log) and
`enrich` (from imported scenarios).
"""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from heartloop.core.errors import UseError
from heartloop.core.prompts import Prompt


class Place(NamedTuple):
    """A place and the given names that are common there."""

    name: str
    women: tuple[str, ...]
    men: tuple[str, ...]

    def names(self, gender: str) -> tuple[str, ...]:
        """The given names of a `woman` or a `man`."""
        return self.women if gender == "woman" else self.men


@cache
def places() -> tuple[Place, ...]:
    """The places of `people.toml`, in the order of the file."""
    table = tomllib.loads((resources.files(__package__) / "people.toml").read_text(encoding="utf-8"))
    return tuple(Place(row["name"], tuple(row["women"]), tuple(row["men"])) for row in table["place"])


MAX_SCENARIOS = 9_999
"""Maximum number of scenarios of one run, and bound of its seed; ids have four digits for each."""


class Answer(BaseModel):
    """Base of the answers that a writer gives."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class Stage(NamedTuple):
    """One prompt for the writer model."""

    name: str
    prompt: Prompt
    answer: type[BaseModel]
    """Its JSON schema is sent with the prompt."""
    system: Prompt | None = None
    """System prompt with the blank `tags`; `None` for the writer's own. Stages before the first with `None` only read the
    source: a near-duplicate is rewritten from that first stage on."""


class Seeded(NamedTuple):
    """The seed of one scenario."""

    number: int
    """From 1."""
    id: str
    facts: Mapping[str, Any]
    """JSON values; stored with the steps of the run."""


class Writing(ABC):
    """How an environment's scenarios are written.

    `EnvironmentSpec.writing` names a function that makes one: `write()`, `distil(dialogues, exclude_tags=())` with
    `RawDialogue`s, or `enrich(source)` with a path. Seeds of `distil` have the fact `source`, the place of the dialogue.
    """

    name: ClassVar[str]
    """Name of the environment."""
    scenario: ClassVar[type[BaseModel]]
    """Class of a finished scenario."""
    stages: ClassVar[Sequence[Stage]]
    """In order; the last one writes the person's lines."""
    audit: ClassVar[Prompt | None] = None
    """The environment's part of the auditor's prompt; `None` if scenarios are neither audited nor compared."""
    fixed: ClassVar[Sequence[str]] = ()
    """Fields that the auditor may not correct."""

    @property
    def shipped(self) -> Sequence[Any]:
        """Scenarios that a new one must not repeat."""
        return ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Further settings that determine the texts, besides models, seed and prompts."""
        return {}

    @abstractmethod
    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """The first `n` seeds of a run; a larger `n` begins with the same ones.

        Args:
            only: groups to write for; default: all.
        """

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """Why no scenario is written from this seed, given the answers so far; empty to continue.

        Also called before any model call, with an empty `done`.
        """
        return ""

    @abstractmethod
    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        """Values of the blanks of a stage's prompt, given the answers of the stages before it."""

    @abstractmethod
    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        """Violations of the last answer in `done` beyond its schema, as sentences for the writer model."""

    def problems_of_whole(
        self, seeded: Seeded, done: Mapping[str, BaseModel], problems_of: Callable[[Any], list[str]]
    ) -> list[str]:
        """Violations of the assembled scenario, including its schema."""
        try:
            return problems_of(self.scenario.model_validate(self.assemble(seeded, done)))
        except ValidationError as error:
            return problems_in(error)

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """Violations of a scenario because of its source or of the run's excluded tags."""
        return []

    @abstractmethod
    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        """The scenario as JSON values, from all answers."""

    def audited_for(self, scenario: Mapping[str, Any]) -> Mapping[str, str]:
        """Values of the blanks of `audit`, and an example of a correction: `field` and `value`."""
        return {}

    def removed(self, seeds: Sequence[Seeded]) -> Mapping[str, int]:
        """Personal data removed from the source of these seeds, by kind."""
        return {}

    def as_read(self, seeded: Seeded) -> str:
        """The source of a seed as the writer model reads it."""
        return ""


def check_size(n: int, seed: int) -> None:
    """Checks that ids can contain the seed and all numbers of a run."""
    if not 1 <= n <= MAX_SCENARIOS:
        raise UseError(f"--n is {n}; expected 1 to {MAX_SCENARIOS}")
    if not 0 <= seed < MAX_SCENARIOS:
        raise UseError(f"--seed is {seed}; expected 0 to {MAX_SCENARIOS - 1}")


def run_number(seed: int, number: int) -> int:
    """The number in a scenario's id; unique over all seeds, and larger than in any shipped scenario.

    >>> run_number(0, 1), run_number(4, 123)
    (10001, 50123)
    """
    return (seed + 1) * (MAX_SCENARIOS + 1) + number


def problems_in(error: ValidationError) -> list[str]:
    """Violations of a schema, one sentence per field."""
    return [f"{'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors()]


def problems_of_tags(tags: Sequence[str]) -> list[str]:
    """Whether `none` is combined with another tag."""
    return ["tags: none stands alone"] if "none" in tags and len(tags) > 1 else []


def as_json(answer: BaseModel) -> str:
    """An answer as JSON, for a later prompt."""
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
