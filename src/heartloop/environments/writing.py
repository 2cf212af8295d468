"""An environment's part of the scenario writer: seeds, prompts for the writer model, and assembling the scenario."""

from __future__ import annotations

import hashlib
import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from heartloop.core.errors import UseError
from heartloop.core.prompts import Prompt
from heartloop.core.system import packaged_table
from heartloop.environments.registry import load_environment


class Place(NamedTuple):
    name: str
    women: tuple[str, ...]
    men: tuple[str, ...]

    def someone(self, rng: random.Random) -> tuple[str, str]:
        gender = rng.choice(("woman", "man"))
        return gender, rng.choice(self.women if gender == "woman" else self.men)


@cache
def places() -> tuple[Place, ...]:
    rows = packaged_table(__package__, "people.toml")["place"]
    return tuple(Place(row["name"], tuple(row["women"]), tuple(row["men"])) for row in rows)


def someone_else(rng: random.Random, names: set[str]) -> tuple[Place, str, str]:
    """A place, and a gender and a name from it that is not among `names` as long as that is easy to find; added to them."""
    for _ in range(20):
        place = rng.choice(places())
        gender, name = place.someone(rng)
        if name not in names:
            break
    names.add(name)
    return place, gender, name


def dealt(rng: random.Random, items: Sequence[Any]) -> Iterator[Any]:
    """Without end; no item comes again before all others came."""
    while True:
        yield from rng.sample(items, len(items))


def at_age(gender: str, age: int) -> str:
    return {"woman": "girl", "man": "boy"}.get(gender, gender) if age < 18 else gender


MAX_SCENARIOS = 9_999
"""Of one run, and bound of its seed; ids have four digits for each."""


class Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class Stage(NamedTuple):
    """One prompt for the writer model."""

    name: str
    prompt: Prompt
    answer: type[BaseModel]
    system: Prompt | None = None
    """With the blank `tags`; `None` for the writer's own. Stages before the first with `None` only read the source: a
    near-duplicate is rewritten from that first stage on.
    """


class Seeded(NamedTuple):
    number: int
    id: str
    facts: Mapping[str, Any]


class Writing(ABC):
    """How an environment's scenarios are written.

    `EnvironmentSpec.writing` names a function that makes one: `write()`, from seed pools, or `write.NAME()`, by other rules
    (`--variant NAME`); `expand(source, guidance)`, variants of a set or file (`write --expand`); `distil(dialogues,
    exclude_tags=())`, from `RawDialogue`s; `enrich(source)`, from a file. Seeds of `distil` have the fact `source`, the place of
    the dialogue.
    """

    name: ClassVar[str]
    scenario: ClassVar[type[BaseModel]]
    stages: ClassVar[Sequence[Stage]]
    """In order; the last one writes the person's lines."""
    story: ClassVar[str] = ""
    """The stage from which a repeated story is written anew; by default the first that does not only read the source."""
    audit: ClassVar[Prompt | None] = None
    """The environment's part of the auditor's prompt; `None` if scenarios are neither audited nor compared."""
    fixed: ClassVar[Sequence[str]] = ()
    sets: ClassVar[Sequence[str]] = ()

    def __init__(self, shipped: Sequence[Any] | None = None) -> None:
        self._shipped = shipped

    @cached_property
    def shipped(self) -> Sequence[Any]:
        load = load_environment(self.name).load
        return self._shipped if self._shipped is not None else [one for name in self.sets for one in load(name)]

    @property
    def settings(self) -> Mapping[str, Any]:
        return {}

    @abstractmethod
    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """The first `n` seeds of a run; a larger `n` begins with the same ones. `only`: groups to write for; default: all."""

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """Why no scenario is written from this seed, given the answers so far (none before the first call); empty to continue."""
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

    def alike(self, one: Any, shipped: Any) -> bool:
        """Whether a scenario could repeat a near shipped one, so that the auditor compares them."""
        return True

    def audited_for(self, scenario: Mapping[str, Any], done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        """Values of the blanks of `audit`, and an example of a correction: `field` and `value`."""
        return {}

    def removed(self, seeds: Sequence[Seeded]) -> Mapping[str, int]:
        return dict(sum((Counter(self.removed_from(seeded)) for seeded in seeds), Counter()))

    def removed_from(self, seeded: Seeded) -> Mapping[str, int]:
        return {}

    def as_read(self, seeded: Seeded) -> str:
        return ""


def check_size(n: int, seed: int) -> None:
    if not 1 <= n <= MAX_SCENARIOS:
        raise UseError(f"--limit is {n}; expected 1 to {MAX_SCENARIOS}")
    if not 0 <= seed < MAX_SCENARIOS:
        raise UseError(f"--seed is {seed}; expected 0 to {MAX_SCENARIOS - 1}")


def check_only(only: Sequence[str], allowed: Sequence[str], what: str) -> None:
    if unknown := [name for name in only if name not in allowed]:
        raise UseError(f"--only is {unknown[0]!r}; expected {what}: {', '.join(allowed)}")


def run_number(seed: int, number: int) -> int:
    """The number in a scenario's id; unique over all seeds, and larger than in any shipped scenario.

    >>> run_number(0, 1), run_number(4, 123)
    (10001, 50123)
    """
    return (seed + 1) * (MAX_SCENARIOS + 1) + number


def problems_in(error: ValidationError) -> list[str]:
    return [f"{'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors()]


def problems_of_person(path: str, person: Any, facts: Mapping[str, Any]) -> list[str]:
    """Whether a person has the drawn name and gender; `path` leads to the person in the answer, with a dot, or is empty."""
    problems = []
    if facts["name"].casefold() not in person.name.casefold():
        problems.append(f"{path}name is {person.name!r}, expected {facts['name']}, alone or with a family name")
    if person.gender != (expected := at_age(facts["gender"], person.age)):
        problems.append(f"{path}gender is {person.gender!r}, expected {expected!r}")
    return problems


def source_digest(records: Any) -> str:
    return hashlib.sha256(json.dumps(records, ensure_ascii=False).encode()).hexdigest()[:16]


def as_json(answer: BaseModel) -> str:
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
