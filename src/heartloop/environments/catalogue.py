"""The environments by name: how each loads its people, builds itself and shows a scenario, and what it offers to choose from.

Covers what the command line and a run must know of an environment before it is played. Does not cover how a score is read
(`heartloop.analysis.measures`), nor the rules (each environment's own room).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from heartloop.chat import ChatModel
from heartloop.dialogue import Sampling
from heartloop.environments import eibench, sage
from heartloop.environments.eibench.embedded_user import EmbeddedUser as EIBenchEmbedded
from heartloop.environments.episode import Environment
from heartloop.environments.sage.llm_user import render_background, render_persona
from heartloop.errors import UseError

__all__ = ["Entry", "Person", "Player", "Ready", "entry_of", "environments", "find_person", "home_of", "stratified"]


class Person(Protocol):
    """What every scenario tells of itself."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def person(self) -> str:
        """Name, age and trade."""
        ...

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the hidden intention (SAGE), the scene (EIBench)."""
        ...

    @property
    def tags(self) -> Sequence[str]: ...

    @property
    def fingerprint(self) -> str: ...


Somebody = TypeVar("Somebody", bound=Person)


class Player(Protocol):
    """Who plays the person: rules, or a simulator model."""

    @property
    def name(self) -> str: ...


class Ready(Environment, Protocol):
    """An environment with its people and its settings."""

    @property
    def scenarios(self) -> Mapping[str, Any]:
        """Its people (`Person`) by id."""
        ...

    @property
    def user(self) -> Player: ...

    @property
    def preset(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def max_turns(self) -> int: ...


class Entry(NamedTuple):
    """One environment. The first of `sets`, `presets` and `variants` is the default."""

    name: str
    sets: tuple[str, ...]
    presets: tuple[str, ...]
    variants: tuple[str, ...]
    max_turns: int
    relation_weight: float | None
    """The outcome's lambda by default; `None` where the score has none."""
    load: Callable[..., Sequence[Any]]
    """People by set name or file, `exclude_tags` left out."""
    new: Callable[..., Ready]
    rules: Callable[[], Any]
    """The embedded user."""
    simulator: Callable[..., Any]
    """The user that a simulator model plays: the model, and its `sampling`."""
    line: Callable[[Any], str]
    """A scenario in a list."""
    sheet: Callable[[Any], str]
    """A scenario as a simulator reads it, with its written lines."""

    def person(self, model: ChatModel | None, sampling: Sampling | None = None) -> Any:
        """The person's player: a simulator model, or the rules without one."""
        return self.rules() if model is None else self.simulator(model, sampling=sampling)

    def build(
        self,
        people: Sequence[Any],
        user: Any,
        *,
        preset: str | None = None,
        variant: str | None = None,
        max_turns: int | None = None,
        relation_weight: float | None = None,
    ) -> Ready:
        """The environment over some people; what is not given takes its default.

        Raises:
            UseError: a preset, variant or weight that this environment does not have.
            InputError: two scenarios of one id, or one that the user cannot play.
        """
        more = {}
        if relation_weight is not None:
            if self.relation_weight is None:
                raise UseError(f"--relation-weight is {relation_weight:g}; the score of {self.name} has no such weight")
            more["relation_weight"] = relation_weight
        return self.new(
            people,
            user,
            preset=preset or self.presets[0],
            variant=variant or self.variants[0],
            max_turns=self.max_turns if max_turns is None else max_turns,
            **more,
        )


@cache
def environments() -> Mapping[str, Entry]:
    """All of them, by name; read only."""
    entries = (
        Entry(
            "sage", tuple(sage.SETS), sage.PRESETS, sage.VARIANTS, sage.MAX_TURNS, None,
            sage.load_people, sage.Sage, sage.EmbeddedUser, sage.LLMUser, _sage_line, _sage_sheet,
        ),
        Entry(
            "eibench", tuple(eibench.SETS), eibench.PRESETS, eibench.FORMS, eibench.MAX_TURNS, eibench.RELATION_WEIGHT,
            eibench.load_scenarios, eibench.EIBench, EIBenchEmbedded, eibench.LLMUser, _eibench_line, _eibench_sheet,
        ),
    )  # fmt: skip
    return {entry.name: entry for entry in entries}


def entry_of(name: str) -> Entry:
    """The environment of a name.

    Raises:
        UseError: there is none of that name.
    """
    if name not in environments():
        raise UseError(f"unknown environment {name!r}; expected {' or '.join(environments())}")
    return environments()[name]


def home_of(scenarios: str) -> Entry:
    """Whose people a set's name or a file holds: a record with a `scene` in it and no `player` is EIBench's, any other SAGE's.

    Raises:
        UseError: no shipped set of that name and no such file.
    """
    for entry in environments().values():
        if scenarios in entry.sets:
            return entry
    if not Path(scenarios).is_file():
        sets = [name for entry in environments().values() for name in entry.sets]
        raise UseError(f"unknown scenario set {scenarios!r}; expected {' or '.join(sets)}, or the path of a JSON-lines file")
    keys = _first_keys(Path(scenarios))
    return entry_of("eibench" if "anchors" in keys or ("scene" in keys and "player" not in keys) else "sage")


def find_person(scenario: str, scenarios: str | None = None) -> tuple[Entry, Any]:
    """A scenario by its id, and whose it is; looked for in one set or file, by default in every shipped set.

    Raises:
        UseError: it is in none of them.
    """
    sets = [scenarios] if scenarios else [name for entry in environments().values() for name in entry.sets]
    for name in sets:
        entry = home_of(name)
        for person in entry.load(name):
            if person.id == scenario:
                return entry, person
    raise UseError(f"no scenario {scenario!r} in {' or '.join(sets)}; `heartloop scenarios list` shows them")


def stratified(scenarios: Sequence[Somebody], limit: int | None) -> list[Somebody]:
    """The first `limit` scenarios, taken in turn from each intention or scene, in order; all when `limit` is `None`."""
    if limit is None or limit >= len(scenarios):
        return list(scenarios)
    if limit < 1:
        raise UseError(f"--limit is {limit}; expected at least 1")
    groups: dict[str, list[Somebody]] = {}
    for scenario in scenarios:
        groups.setdefault(scenario.stratum, []).append(scenario)
    deep = max(len(group) for group in groups.values())
    taken = [group[i] for i in range(deep) for group in groups.values() if i < len(group)][:limit]
    chosen = {scenario.id for scenario in taken}
    return [scenario for scenario in scenarios if scenario.id in chosen]


def _first_keys(path: Path) -> set[str]:
    """Keys of the first record; empty where there is none to read, which the reader of the file then says."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            record = json.loads(next((line for line in file if line.strip()), ""))
    except (OSError, ValueError, RecursionError):
        return set()
    return set(record) if isinstance(record, dict) else set()


def _sage_line(s: Any) -> str:
    return f"{s.id:24} {s.intention:11} {s.person}: {s.theme} [{' '.join(s.tags)}]"


def _sage_sheet(s: Any) -> str:
    parts = [
        f"{s.title} ({s.id}; {s.theme}; {' '.join(s.tags)})",
        f"Secretly {s.intention_text}.",
        render_persona(s),
        render_background(s),
        f"First message: {s.first_message}",
        _beats(s.beats if isinstance(s, sage.Scenario) else ()),
    ]
    return "\n\n".join(filter(None, parts))


def _eibench_line(s: Any) -> str:
    return f"{s.id:30} {s.scene:8} {s.person}: {s.seed.theme}, {s.seed.keyword} [{' '.join(s.tags)}]"


def _eibench_sheet(s: Any) -> str:
    a, t = s.anchors.a, s.anchors.t
    user, model, seed = s.user, s.model, s.seed
    parts = [
        f"{s.title} ({s.id}; {seed.theme}, {seed.keyword}; {' '.join(s.tags)})",
        f"{s.person}; {s.place}.\nManner: {seed.personality}. Relationship: {seed.relationship}. Feeling: {seed.intensity}.",
        user.background,
        f"Wants: {user.goal}\nSpeaks: {user.speaking_style}\n" + "\n".join(f"- {rule}" for rule in user.rules),
        f"The model is {model.name}, {model.role}. {model.background}\nIts goal: {model.goal}",
        "It knows:\n" + "\n".join(f"- {item}" for item in model.knows),
        "Its limits:\n" + "\n".join(f"- {item}" for item in model.limits),
        f"Negative emotion a: {a.start}, success {a.success}, failure {a.fail}\n"
        f"Relation t: {t.start}, success {t.success}, failure {t.fail}",
        f"Opening line: {s.opening}" if s.opening else "The model speaks first.",
        _beats(s.beats),
    ]
    return "\n\n".join(filter(None, parts))


def _beats(beats: Sequence[Any]) -> str:
    return "\n".join(f"  {beat.kind:8} {beat.text}" for beat in beats)
