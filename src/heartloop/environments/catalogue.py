"""A view of the registry for callers that have not moved to it yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.environments.registry import find_scenario, load_environment, owner_of, stratified
from heartloop.environments.spec import EnvironmentSpec, Ready, Somebody
from heartloop.environments.spec import Scenario as Person

__all__ = ["Entry", "Person", "Ready", "Somebody", "entry_of", "find_person", "home_of", "stratified"]


class Entry:
    """One environment."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.load = spec.scenarios.load
        self.new = spec.make
        self.sets = spec.scenarios.sets
        self.line = spec.scenarios.line
        self.sheet = spec.scenarios.sheet
        self.briefing = spec.briefing
        self.presets = spec.options.choices("preset")
        self.variants = spec.options.choices("variant")

    def person(self, model: ChatModel | None, sampling: Sampling | None = None) -> Any:
        roles = self.spec.role_names
        samplings = {} if sampling is None else dict.fromkeys(roles, sampling)
        return self.spec.players(dict.fromkeys(roles, model), samplings)

    def simulator(self, model: ChatModel, sampling: Sampling | None = None) -> Any:
        return self.person(model, sampling)

    def build(self, people: Sequence[Any], user: Any, **options: Any) -> Ready:
        return self.spec.make(people, user, {name: value for name, value in options.items() if value is not None})


def entry_of(name: str) -> Entry:
    """The environment of a name."""
    return Entry(load_environment(name))


def home_of(scenarios: str) -> Entry:
    """Whose scenarios a set or path holds."""
    return Entry(owner_of(scenarios))


def find_person(scenario: str, scenarios: str | None = None) -> tuple[Entry, Any]:
    """A scenario by its id, and whose it is."""
    spec, found = find_scenario(scenario, scenarios)
    return Entry(spec), found
