"""What an environment brings to a writing run: seeds, questions to the writer, and how the answers become a scenario.

Covers the seam between the way that all share (`writing`) and what it begins with: pools (`eibench_writing`, `sage_writing`) or
dialogues of a chat log (`empa_distilling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ValidationError

from heartloop.authoring.checks import Scenario
from heartloop.core.errors import UseError

__all__ = ["MOST", "Seeded", "Stage", "Writing", "check_size", "problems_in", "run_number"]

MOST = 9_999
"""Scenarios of one run, and seeds of runs: ids hold both, in four digits each."""


class Stage(NamedTuple):
    """One question to the writer: its name, its prompt's, and the form of its answer."""

    name: str
    prompt: str
    answer: type[BaseModel]
    system: str = "writer"
    """The system prompt's name: who is asked. Only a writer's answers are written anew where a scenario repeats another."""


class Seeded(NamedTuple):
    """What one scenario is to be written from."""

    number: int
    """From 1 on."""
    id: str
    facts: Mapping[str, Any]
    """As the steps keep it."""


class Writing(Protocol):
    """What an environment brings."""

    @property
    def name(self) -> str: ...

    @property
    def stages(self) -> Sequence[Stage]:
        """In the order in which they are asked; the last one writes the person's lines."""
        ...

    @property
    def shipped(self) -> Sequence[Scenario]:
        """Scenarios that no new one may tell again."""
        ...

    @property
    def fixed(self) -> Sequence[str]:
        """Fields that the auditor may not correct."""
        ...

    def seeds(self, n: int, seed: int, only: Sequence[str]) -> Sequence[Seeded]:
        """The first `n` seeds of a run; a larger `n` begins with the same ones.

        Raises:
            UseError: `only` names something that there is not, or there are fewer seeds.
        """
        ...

    def passed_over(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """Why nothing is to be written from this seed, given the answers so far; empty to go on. Asked before any."""
        ...

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        """What fills the blanks of a stage's prompt, given the answers before it."""
        ...

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        """What an answer, the last of `done`, breaks that its schema does not tell."""
        ...

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """What must not stand in a whole scenario because of what it was made from, or of what this run leaves out."""
        ...

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        """The scenario as JSON has it, from all answers."""
        ...

    def read(self, scenario: Mapping[str, Any]) -> Scenario:
        """The scenario. Raises ValidationError where it does not fit."""
        ...

    def read_file(self, path: Path) -> Sequence[Scenario]:
        """The scenarios of a file that holds some. Raises InputError where one does not fit."""
        ...

    def shown(self, scenario: Scenario) -> str:
        """A shipped scenario as the auditor reads it beside a new one."""
        ...

    def looked_for(self, scenario: Mapping[str, Any]) -> Mapping[str, str]:
        """What fills the auditor's question: an example of `field` and `value`, and the blanks of the environment's own part."""
        ...

    def prompts(self) -> Sequence[str]:
        """Names of this environment's prompts."""
        ...


def check_size(n: int, seed: int) -> None:
    """Refuses runs whose ids would not hold their numbers.

    Raises:
        UseError: says what is out of range.
    """
    if not 1 <= n <= MOST:
        raise UseError(f"--n is {n}; expected 1 to {MOST}")
    if not 0 <= seed < MOST:
        raise UseError(f"--seed is {seed}; expected 0 to {MOST - 1}")


def run_number(seed: int, number: int) -> int:
    """A number that no scenario of another seed has, nor any that was shipped.

    >>> run_number(0, 1), run_number(4, 123)
    (10001, 50123)
    """
    return (seed + 1) * (MOST + 1) + number


def problems_in(error: ValidationError) -> list[str]:
    """What does not fit a schema, one sentence a field."""
    return [f"{'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors()]
