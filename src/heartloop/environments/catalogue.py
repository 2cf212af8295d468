"""The environments by name: how each loads its people, builds itself and shows a scenario, and what it offers to choose from.

Covers what the command line and a run must know of an environment before it is played. Does not cover how a score is read
(`heartloop.evaluation.measures`), nor the rules (each environment's own room).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.environments import daily, eibench, empa, eqbench, perm, sage, sheets
from heartloop.environments.daily import rejudge as daily_rejudge
from heartloop.environments.daily import rescore as daily_rescore
from heartloop.environments.eibench import rejudge as eibench_rejudge
from heartloop.environments.eibench import released as eibench_released
from heartloop.environments.eibench import rescore as eibench_rescore
from heartloop.environments.eibench.embedded_user import EmbeddedUser as EIBenchEmbedded
from heartloop.environments.eibench.environment import policy_prompt
from heartloop.environments.empa import rejudge as empa_rejudge
from heartloop.environments.empa import rescore as empa_rescore
from heartloop.environments.episode import Environment
from heartloop.environments.eqbench import rejudge as eqbench_rejudge
from heartloop.environments.eqbench import rescore as eqbench_rescore
from heartloop.environments.perm import rejudge as perm_rejudge
from heartloop.environments.perm import rescore as perm_rescore
from heartloop.environments.records import first_record
from heartloop.environments.sage import rejudge as sage_rejudge
from heartloop.environments.sage import rescore as sage_rescore
from heartloop.environments.stored import Judge

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
        """What `--limit` spreads evenly over: the hidden intention (SAGE), the scene (EIBench), the dominant axis (EMPA), the
        emotion (PERM), the kind (daily), the category (EQ-Bench3)."""
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
    """One environment. The first of `sets`, `presets` and `variants` is the default; without sets, people are read from a
    path."""

    name: str
    sets: tuple[str, ...]
    presets: tuple[str, ...]
    variants: tuple[str, ...]
    max_turns: int
    relation_weight: float | None
    """The outcome's lambda by default; `None` where the score has none."""
    windows: bool
    """Whether replies can be judged several at a time."""
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
    briefing: Callable[[Any, str], str] | None
    """The system prompt of the model under test with a person, by variant; `None` where its prompt tells of no person."""
    bounds: bool
    """Whether successes and failures can be counted by other bounds (`rescore --success-at`)."""
    rescored: Callable[..., Transcript]
    """A stored dialogue by `preset`, with `max_turns` and what the score has of `relation_weight`, `bystander_weight` and
    `without`; without a model call."""
    asked_again: Callable[[Transcript], bool]
    """Whether the simulator answered with a change that the preset `released` would have clamped."""
    rejudged: Callable[..., Awaitable[Transcript]]
    """A stored dialogue as a judge feels it: transcript, person, judge, and `preset` and `max_turns`."""
    judged_prompts: Callable[[Transcript, Any], Mapping[str, str]]
    """Prompts by hash of a dialogue that this judge has read."""
    switches: tuple[str, ...] = ()
    """Parts of the score that can be left out of it; a bystander among them has a weight."""
    there: Callable[[Any, str], bool] = lambda scenario, variant: True
    """Whether a scenario can be played in a variant; those that cannot are left out of a run."""
    policy_sampling: Sampling = Sampling()
    """How the model under test is asked where nobody says otherwise."""

    def person(self, model: ChatModel | None, sampling: Sampling | None = None) -> Any:
        """The person's player: a simulator model, or the rules without one."""
        return self.rules() if model is None else self.simulator(model, sampling=sampling)

    def judge(self, model: ChatModel | None, sampling: Sampling | None = None) -> Judge:
        """Who feels stored replies anew: a model, or the rules without one."""
        judge: Judge = self.rules() if model is None else self.simulator(model, sampling=sampling, role="judge")
        return judge

    def set_of(self, scenarios: str | None) -> str:
        """The set or path that people are read from: the one that is named, or else the first set.

        Raises:
            UseError: none is named, and this environment ships none.
        """
        if scenarios is None and not self.sets:
            raise UseError(
                f"{self.name} ships no scenarios; say with --scenarios which folder or file to read (docs/{self.name}.md)"
            )
        return scenarios if scenarios is not None else self.sets[0]

    def people(self, scenarios: str, variant: str | None, *, exclude_tags: Sequence[str] = ()) -> list[Any]:
        """People of a set or path that can be played in a variant, by default the first."""
        loaded = self.load(scenarios, exclude_tags=exclude_tags)
        return [person for person in loaded if self.there(person, variant or self.variants[0])]

    def check_preset(self, preset: str | None) -> None:
        """Refuses a preset that this environment does not have.

        Raises:
            UseError: names those it has.
        """
        if preset is not None and preset not in self.presets:
            raise UseError(f"unknown preset {preset!r}; expected {' or '.join(self.presets)}")

    def check_weight(self, relation_weight: float | None) -> None:
        """Refuses a relation weight where the score has none.

        Raises:
            UseError: says so.
        """
        if relation_weight is not None and self.relation_weight is None:
            raise UseError(f"--relation-weight is {relation_weight:g}; the score of {self.name} has no such weight")

    def check_rules(self, bystander_weight: float | None, without: Sequence[str] | None) -> None:
        """Refuses a bystander's weight, or parts to leave out, where the score has none such.

        Raises:
            UseError: says so.
        """
        if bystander_weight is not None and "bystander" not in self.switches:
            raise UseError(f"--bystander-weight is {bystander_weight:g}; nobody stands by in {self.name}, leave it out")
        if without and not self.switches:
            raise UseError(f"--without is {' '.join(without)}; the score of {self.name} has no parts to leave out")

    def build(
        self,
        people: Sequence[Any],
        user: Any,
        *,
        preset: str | None = None,
        variant: str | None = None,
        max_turns: int | None = None,
        relation_weight: float | None = None,
        window: int | None = None,
        bystander_weight: float | None = None,
        without: Sequence[str] | None = None,
    ) -> Ready:
        """The environment over some people; what is not given takes its default.

        Raises:
            UseError: a preset, variant, weight, window or part that this environment does not have.
            InputError: two scenarios of one id, or one that the user cannot play.
        """
        self.check_weight(relation_weight)
        self.check_rules(bystander_weight, without)
        if window is not None and not self.windows:
            raise UseError(f"--window is {window}; {self.name} judges every reply by itself, leave it out")
        given = {
            "relation_weight": relation_weight, "window": window, "bystander_weight": bystander_weight,
            "without": without or None,
        }  # fmt: skip
        more: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
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
            name="sage",
            sets=tuple(sage.SETS),
            presets=sage.PRESETS,
            variants=sage.VARIANTS,
            max_turns=sage.MAX_TURNS,
            relation_weight=None,
            windows=False,
            load=sage.load_people,
            new=sage.Sage,
            rules=sage.EmbeddedUser,
            simulator=sage.LLMUser,
            line=sheets.sage_line,
            sheet=sheets.sage_sheet,
            briefing=None,
            bounds=True,
            rescored=sage_rescore.rescored,
            asked_again=sage_rescore.out_of_range,
            rejudged=sage_rejudge.rejudged,
            judged_prompts=lambda played, judge: sage_rejudge.StoredPerson(played, judge).describe(played.variant)["prompts"],
        ),
        Entry(
            name="eibench",
            sets=eibench.SETS,
            presets=eibench.PRESETS,
            variants=eibench.FORMS,
            max_turns=eibench.MAX_TURNS,
            relation_weight=eibench.RELATION_WEIGHT,
            windows=False,
            load=eibench.load_people,
            new=eibench.EIBench,
            rules=EIBenchEmbedded,
            simulator=eibench.LLMUser,
            line=sheets.eibench_line,
            sheet=sheets.eibench_sheet,
            briefing=policy_prompt,
            bounds=False,
            rescored=eibench_rescore.rescored,
            asked_again=eibench_rescore.out_of_range,
            rejudged=eibench_rejudge.rejudged,
            judged_prompts=lambda played, judge: eibench_rejudge.StoredPerson(played, judge).describe()["prompts"],
        ),
        Entry(
            name="empa",
            sets=empa.SETS,
            presets=empa.PRESETS,
            variants=empa.VARIANTS,
            max_turns=empa.MAX_TURNS,
            relation_weight=None,
            windows=True,
            load=empa.load_scenarios,
            new=empa.Empa,
            rules=empa.EmbeddedUser,
            simulator=empa.LLMUser,
            line=sheets.empa_line,
            sheet=sheets.empa_sheet,
            briefing=None,
            bounds=False,
            rescored=empa_rescore.rescored,
            asked_again=lambda transcript: False,
            rejudged=empa_rejudge.rejudged,
            judged_prompts=lambda played, judge: empa_rejudge.StoredPerson(played, judge).describe()["prompts"],
        ),
        Entry(
            name="perm",
            sets=perm.SETS,
            presets=perm.PRESETS,
            variants=perm.VARIANTS,
            max_turns=perm.MAX_TURNS,
            relation_weight=None,
            windows=False,
            load=perm.load_people,
            new=perm.Perm,
            rules=perm.EmbeddedUser,
            simulator=perm.LLMUser,
            line=sheets.perm_line,
            sheet=sheets.perm_sheet,
            briefing=None,
            bounds=False,
            rescored=perm_rescore.rescored,
            asked_again=lambda transcript: False,
            rejudged=perm_rejudge.rejudged,
            judged_prompts=lambda played, judge: perm_rejudge.StoredPerson(played, judge).describe()["prompts"],
            switches=perm.SWITCHES,
        ),
        Entry(
            name="daily",
            sets=daily.SETS,
            presets=daily.PRESETS,
            variants=daily.VARIANTS,
            max_turns=daily.MAX_TURNS,
            relation_weight=None,
            windows=False,
            load=daily.load_scenarios,
            new=daily.Daily,
            rules=daily.EmbeddedUser,
            simulator=daily.LLMUser,
            line=sheets.daily_line,
            sheet=sheets.daily_sheet,
            briefing=None,
            bounds=False,
            rescored=daily_rescore.rescored,
            asked_again=lambda transcript: False,
            rejudged=daily_rejudge.rejudged,
            judged_prompts=lambda played, judge: daily_rejudge.StoredPerson(played, judge).describe()["prompts"],
        ),
        Entry(
            name="eqbench",
            sets=(),
            presets=eqbench.PRESETS,
            variants=eqbench.VARIANTS,
            max_turns=eqbench.MAX_TURNS,
            relation_weight=None,
            windows=False,
            load=eqbench.load_scenarios,
            new=eqbench.EQBench,
            rules=eqbench.EmbeddedUser,
            simulator=eqbench.LLMUser,
            line=sheets.eqbench_line,
            sheet=sheets.eqbench_sheet,
            briefing=None,
            bounds=False,
            rescored=eqbench_rescore.rescored,
            asked_again=lambda transcript: False,
            rejudged=eqbench_rejudge.rejudged,
            judged_prompts=lambda played, judge: eqbench_rejudge.StoredPerson(played, judge).describe()["prompts"],
            there=eqbench.there,
            policy_sampling=eqbench.POLICY_SAMPLING,
        ),
    )
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
    """Whose people a set's name or a file holds: an imported record tells it by its form, one with an `iedr` form is EMPA's, one
    with a `dialogue_memory` daily's, one with `misreadings` PERM's, one with a `scene` and no `player` EIBench's, any other
    SAGE's. A folder is a checkout of EQ-Bench3.

    Raises:
        UseError: no set of that name and no such file or folder.
    """
    for entry in environments().values():
        if scenarios in entry.sets:
            return entry
    if Path(scenarios).is_dir():
        return entry_of("eqbench")
    if not Path(scenarios).is_file():
        sets = [name for entry in environments().values() for name in entry.sets]
        raise UseError(f"unknown scenario set {scenarios!r}; expected {' or '.join(sets)}, or the path of a JSON-lines file")
    found = first_record(Path(scenarios))
    if "iedr" in found:
        return entry_of("empa")
    if "dialogue_memory" in found:
        return entry_of("daily")
    if "misreadings" in found or found.get("form") == perm.FORM:
        return entry_of("perm")
    scene = "anchors" in found or "aggressor_profile" in found or ("scene" in found and "player" not in found)
    return entry_of("eibench" if scene or found.get("form") == eibench_released.FORM else "sage")


def find_person(scenario: str, scenarios: str | None = None) -> tuple[Entry, Any]:
    """A scenario by its id, and whose it is; looked for in one set or file, by default in every set.

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
    """The first `limit` scenarios, taken in turn from each intention, scene or axis, in order; all when `limit` is `None`."""
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
