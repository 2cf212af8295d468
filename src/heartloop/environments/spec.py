"""What the rest of the code sees of an environment: one `EnvironmentSpec`, its `Options`, `Role`s and `Scale`.

Covers the contract between an environment's folder and everything outside it. Parts that are heavy to import are given as
`"module:attribute"` and loaded on first use. Does not cover how specs are found (`registry`), nor the turn loop (`episode`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from heartloop.core.blocks import ReportPanel
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.environments.episode import Environment
from heartloop.environments.options import OptionInfo, Options, option

__all__ = [
    "AnswerForm",
    "DemoRun",
    "EnvironmentSpec",
    "Judge",
    "Lazy",
    "OptionInfo",
    "Options",
    "Player",
    "Ready",
    "ReplyLabels",
    "Returns",
    "Role",
    "Scale",
    "Scenario",
    "Scenarios",
    "Stored",
    "Sums",
    "Training",
    "TrainingMetric",
    "Zone",
    "bounded_sums",
    "load_attribute",
    "option",
    "rewards_by_turn",
    "score_of",
]

Lazy = str
"""`"module:attribute"`, imported on first use."""


def load_attribute(path: Lazy) -> Any:
    """The object that a lazy path names.

    Raises:
        UseError: no such module or attribute.
    """
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: an empty module name
        raise UseError(f"cannot load {path!r}: {error}; expected module:attribute of an installed package") from error
    return found


# Roles and scenarios


class Role(NamedTuple):
    """A role that a model or the embedded rules play beside the policy."""

    name: str
    about: str


class Player(Protocol):
    """Who plays an environment's roles; an environment adds what it asks of its player."""

    @property
    def name(self) -> str:
        """`embedded`, or the model's name."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """`models`, `sampling` and `prompts` of the roles it plays."""
        ...

    def admit(self, scenario: Any) -> None:
        """Refuses a scenario it cannot play.

        Raises:
            InputError: says what the scenario lacks.
        """
        ...


Judge = Player
"""Who appraises stored replies: an environment's player, asked for its judgements alone."""


class Scenario(Protocol):
    """What every scenario says of itself."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def stratum(self) -> str:
        """What `--limit` is stratified by."""
        ...

    @property
    def tags(self) -> Sequence[str]: ...

    @property
    def fingerprint(self) -> str: ...


class Scenarios(NamedTuple):
    """An environment's scenarios: shipped sets, reader, text forms and validator."""

    sets: tuple[str, ...]
    """Shipped sets; the first is the default. Empty: scenarios are always read from a path."""
    load: Callable[..., Sequence[Any]]
    """`load(set_or_path, *, exclude_tags=())`."""
    owns: Callable[[Path, Mapping[str, Any]], bool]
    """Whether a file with this first record, or a folder (with an empty record), holds scenarios of this environment."""
    line: Callable[[Any], str]
    """A scenario as one line of a list."""
    text: Callable[[Any], str]
    """A scenario as text: what a user simulator reads, and its written lines."""
    problems: Callable[[Any], list[str]] = lambda scenario: []
    """What a scenario of our own form violates beyond its schema."""
    written: Callable[[Any], bool] = lambda scenario: True
    """Whether a scenario has our own form; of imported ones only the form is checked."""
    identity: Callable[[Any], tuple[str, str]] = lambda scenario: (scenario.id, "")
    """Name and occupation, which no two scenarios of a set share."""
    lines: Callable[[Any], Iterable[str]] = lambda scenario: ()
    """Written lines that no two scenarios of a set share."""
    story: Callable[[Any], str] = lambda scenario: str(scenario.title)
    """The text by which scenarios are compared for near-duplicates."""
    playable: Callable[[Any, str], bool] = lambda scenario, variant: True
    """Whether a scenario can be played in a variant; the others are left out of a run."""
    imported: Callable[[bytes], Any] | None = None
    """The scenario of one source line of an imported run; raises `InputError` where the line does not fit. `None`: the lines of
    an imported run hold no scenarios."""


class Ready(Environment, Protocol):
    """An environment with its scenarios and its options."""

    @property
    def scenarios(self) -> Mapping[str, Any]:
        """`Scenario`s by id."""
        ...

    @property
    def user(self) -> Player: ...

    @property
    def options(self) -> Options: ...


AnyScenario = TypeVar("AnyScenario", bound=Scenario)


# Scores


class Sums(NamedTuple):
    """Points in sum: the mean (nan without any), the dialogues that succeeded, and those that failed."""

    mean: float
    success: int
    failure: int


def bounded_sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """The mean over dialogues, and how many reached the two bounds."""
    mean = sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan")
    return Sums(mean, sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues))


class Zone(NamedTuple):
    """A stretch of the scale: its name in a chart, its tint, from `low` to `high` points."""

    name: str
    tint: str
    low: float
    high: float


class Scale(NamedTuple):
    """How an environment's score is read and shown, in points; higher is better."""

    points: float
    """Points per unit of `Transcript.score`."""
    low: float
    high: float
    """Lowest and highest points of a chart; a score may exceed `high` where the environment says so."""
    start: float
    """Points before the first reply, where a dialogue does not say."""
    success_at: float
    failure_below: float
    group: str
    """The fact by which scenarios are grouped."""
    group_title: str
    group_order: tuple[str, ...]
    course: Callable[[Transcript], list[float]]
    """Points at the start and after every judged reply."""
    title: str
    """The score in words."""
    of: str
    """The score in words, as the heading of a table in the terminal."""
    zones: tuple[Zone, ...]
    ticks: tuple[int, ...]
    change_limit: float
    """Largest change of one turn, in units of the state."""
    reached: str = "reached {0:g}"
    """A success in words; {0} is its bound."""
    fell: str = "fell below {0:g}"
    """A failure in words; {0} is its bound."""
    sums: Callable[[Sequence[tuple[str, float]], float, float], Sums] = bounded_sums
    """From (group, points) of each scored dialogue and the two bounds."""
    group_intervals: bool = False
    """Whether each group is a result of its own, with an interval."""
    by_end: bool = False
    """Whether success and failure are how a dialogue ended, not bounds of its score."""
    rules: Callable[[Transcript], object] = lambda transcript: None
    """What decides a score beyond what every environment says of a dialogue."""


class Stored(NamedTuple):
    """What follows from a stored dialogue: rescoring and rejudging (`heartloop.environments.stored`)."""

    options: Callable[[Transcript], Mapping[str, Any]]
    """The options that a transcript says it was played with; the run's settings give the others."""
    rescored: Callable[[Transcript, Any], Transcript]
    """`rescored(transcript, options)`: by other score options, without a model call; what does not follow becomes unscored."""
    stand_in: Callable[[Transcript, Any], Player] = lambda transcript, judge: judge
    """`stand_in(transcript, judge)` plays the stored dialogue's roles with the judge's appraisals."""
    described: Callable[[Any, Transcript], Mapping[str, Any]] = lambda judge, transcript: judge.describe()
    """`models`, `sampling` and `prompts` of the judge."""
    unused_prompts: str = ""
    """How the names of prompts begin that a judge of stored replies is never asked with."""
    stops_with_its_turns: bool = False
    """Whether a rejudged dialogue stops with its last stored reply although the rules would go on."""
    asked_again: Callable[[Transcript], bool] = lambda transcript: False
    """Whether a re-ask replaced an answer that the released code would have clamped."""


class Returns(NamedTuple):
    """What a scored dialogue is worth in training."""

    outcome: float
    """Outcome reward of the dialogue."""
    process: Sequence[float]
    """Process reward by policy turn."""
    worst_outcome: float
    """The lowest outcome a valid dialogue can have."""
    worst_turns: float
    """The lowest sum of process rewards a valid dialogue can have."""


class TrainingMetric(NamedTuple):
    """One of `Training.terms` in words, as the curves of a training run show it."""

    name: str
    """As `terms` names it."""
    title: str
    about: str
    """What it tells, in a sentence or two."""
    unit: str = ""
    """In words, at the axis; empty for a bare number."""
    source: str = "ours"


class AnswerForm(NamedTuple):
    """The form of an answer where a dialogue is one answer, for the laptop policy's warm start."""

    headings: Mapping[str, str]
    """By the name of a part, in order, what stands before it, line breaks included: an answer is headings and parts in turn."""
    split: Callable[[str], Mapping[str, str]]
    """The parts of an answer, by name; empty texts where the form is broken."""
    message_words: int
    """Words of the user's message that a small policy reads."""


class Training(NamedTuple):
    """An environment's part of training."""

    returns: Callable[[Transcript, Any], Returns]
    """`returns(transcript, options)` of a scored dialogue; the options are the environment's."""
    calls_per_turn: int
    """Calls of a model that plays all roles, for one policy reply."""
    tokens_per_call: int
    """A rough mean, for the estimate of a dry run."""
    terms: Callable[[Transcript, Any], Mapping[str, float]] = lambda transcript, options: {}
    """Further numbers of a scored dialogue to log, by name. A term `form` is 1 where the form of the reply was kept; a dialogue
    whose `form` is 0 has no other term."""
    metrics: tuple[TrainingMetric, ...] = ()
    """The terms in words; a term that is not among them is shown by its name."""
    reward_options: tuple[str, ...] = ()
    """Options that change only what is learned from: dialogues are played and scored by their defaults."""
    group: Callable[[Any], str] = lambda scenario: str(scenario.stratum)
    """By what a scenario's numbers are logged."""
    prompt_headings: tuple[str, ...] = ()
    """Sections of the policy prompt that a small policy reads; it reads nothing of any other section."""
    texts: Callable[[Any], Iterable[str]] = lambda scenario: ()
    """What may be said to the policy with a scenario: a small policy's tokenizer knows the words of held-out scenarios."""
    answer_form: AnswerForm | None = None
    """`None` where a small policy learns from dialogues."""

    def played(self, options: Options) -> Options:
        """The options that dialogues are played and scored by: those that change the reward alone have their defaults."""
        defaults = type(options)()
        return options.model_copy(update={name: getattr(defaults, name) for name in self.reward_options})


def score_of(transcript: Transcript) -> float:
    """The score of a dialogue that is learned from.

    Raises:
        UseError: the dialogue is unscored.
    """
    if transcript.score is None:
        raise UseError(f"the dialogue with {transcript.scenario} is unscored; leave unscored dialogues out")
    return transcript.score


def rewards_by_turn(transcript: Transcript) -> list[float]:
    """The rewards of a transcript by policy turn; 0 where a turn was not judged.

    Raises:
        ValueError: the number of rewards is not that of the judged turns.
    """
    found = [0.0] * len(transcript.turns)
    judged = [turn.index for turn in transcript.turns if turn.state is not None]
    for index, reward in zip(judged, transcript.rewards, strict=True):
        found[index] = reward
    return found


class ReplyLabels(NamedTuple):
    """How a report labels the replies of dialogues in which a model played the user; labels change no score."""

    label: Callable[[Any, Sequence[str], Sequence[str]], Sequence[Mapping[str, Any]]]
    """`label(scenario, messages, replies)`: for each reply what `Turn.evidence` would hold, empty where the rules cannot read
    it. `messages[n]` is what the user said before `replies[n]`."""
    rules_hash: Callable[[], str]
    """Changes with any rule that decides a label."""
    applies: Callable[[Transcript], bool] = lambda transcript: True
    """Whether the rules can read this dialogue."""


class DemoRun(NamedTuple):
    """An environment's part of `heartloop demo`."""

    baselines: str
    """Name of a group of baselines."""
    limit: int
    """Scenarios, stratified."""
    place: int = 100
    """Order among the environments of the demo."""


class EnvironmentSpec:
    """The one object that the rest of the code sees of an environment.

    Args:
        name: on the command line; lower case.
        title: as its paper writes it.
        about: one sentence.
        source: the paper, or where the rules come from.
        roles: played beside the policy; `--user` plays all of them unless one is named.
        options: an `Options` class.
        scale: a `Scale`.
        scenarios: a `Scenarios`.
        environment: `environment(scenarios, player, **options)` gives a `Ready`.
        embedded: `embedded()` gives the `Player` that plays every role by rules, without a model.
        simulator: `simulator(model, sampling=, role=)` gives the `Player` that a model plays; to judge stored replies its role is
            `judge`.
        players: `players(models, samplings)`, where several roles may be played by different models; by role a model, or `None`
            for the embedded rules. By default the first role's model plays.
        stored: a `Stored`.
        training: a `Training`; `None` where there are no rewards for training.
        report: a `ReportPanel` (`core.blocks`); `None` leaves the sections that follow from the scale.
        labels: a `ReplyLabels`; `None` where replies have no labels beyond what its roles note.
        briefing: `briefing(scenario, options)`, the policy's system prompt with a person, where it depends on the person.
        policy_sampling: how the policy is sampled where nothing else is said.
        baselines: scripted policies of its own, by the name after `heartloop/`: the path of a function `(messages, seed) -> str`
            (`names.FunctionBaseline`).
        importers: kinds of `heartloop import`, each the path of an `importing.Importer`.
        writing: its part of the scenario writer: by command (`write`, `distil`, `enrich`) the path of a function that makes a
            `writing.Writing`.
        suites: validity suites of its own, by name.
        demo: its part of the demo; `None` leaves it out.
    """

    def __init__(
        self,
        *,
        name: str,
        title: str,
        about: str,
        source: str,
        roles: Sequence[Role],
        options: Lazy | type[Options],
        scale: Lazy | Scale,
        scenarios: Lazy | Scenarios,
        environment: Lazy | Callable[..., Ready],
        embedded: Lazy | Callable[[], Any],
        simulator: Lazy | Callable[..., Any],
        stored: Lazy | Stored,
        training: Lazy | Training | None = None,
        report: Lazy | ReportPanel | None = None,
        labels: Lazy | ReplyLabels | None = None,
        players: Lazy | Callable[..., Any] | None = None,
        briefing: Lazy | None = None,
        policy_sampling: Sampling | None = None,
        baselines: Mapping[str, Lazy] | None = None,
        importers: Mapping[str, Lazy] | None = None,
        writing: Mapping[str, Lazy] | None = None,
        suites: Mapping[str, Lazy] | None = None,
        demo: DemoRun | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.about = about
        self.source = source
        self.roles = tuple(roles)
        self.policy_sampling = policy_sampling or Sampling()
        self.baselines = dict(baselines or {})
        self.importers = dict(importers or {})
        self.writing = dict(writing or {})
        self.suites = dict(suites or {})
        self.demo = demo
        self._parts: dict[str, Any] = {
            "options": options, "scale": scale, "scenarios": scenarios, "environment": environment, "embedded": embedded,
            "simulator": simulator, "players": players, "stored": stored, "training": training, "labels": labels,
            "briefing": briefing, "report": report,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"EnvironmentSpec({self.name!r})"

    def _part(self, name: str) -> Any:
        part = self._parts[name]
        return load_attribute(part) if isinstance(part, str) else part

    @cached_property
    def options(self) -> type[Options]:
        found: type[Options] = self._part("options")
        return found

    @cached_property
    def scale(self) -> Scale:
        found: Scale = self._part("scale")
        return found

    @cached_property
    def scenarios(self) -> Scenarios:
        found: Scenarios = self._part("scenarios")
        return found

    @cached_property
    def stored(self) -> Stored:
        found: Stored = self._part("stored")
        return found

    @cached_property
    def training(self) -> Training | None:
        found: Training | None = self._part("training")
        return found

    @cached_property
    def labels(self) -> ReplyLabels | None:
        found: ReplyLabels | None = self._part("labels")
        return found

    @cached_property
    def report(self) -> ReportPanel:
        """Its part of the report."""
        found: ReportPanel | None = self._part("report")
        return found or ReportPanel()

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)

    def read_options(self, given: Mapping[str, Any]) -> Options:
        """Its options from a mapping.

        Raises:
            UseError: as `Options.read`.
        """
        return self.options.read(given, environment=self.name)

    def make(self, scenarios: Sequence[Any], player: Player, options: Options | Mapping[str, Any] | None = None) -> Ready:
        """The environment over some scenarios.

        Raises:
            UseError: options that do not fit.
            InputError: two scenarios of one id, or one that the player cannot play.
        """
        given = options if isinstance(options, Options) else self.read_options(options or {})
        made: Ready = self._part("environment")(
            scenarios, player, **{name: getattr(given, name) for name in type(given).model_fields}
        )
        return made

    def players(
        self, models: Mapping[str, ChatModel | None] | None = None, samplings: Mapping[str, Sampling] | None = None
    ) -> Player:
        """Who plays its roles: by role a model, or the embedded rules where none is given."""
        playing = {name: (models or {}).get(name) for name in self.role_names}
        several = self._part("players")
        if several is not None:
            cast: Player = several(playing, dict(samplings or {}))
            return cast
        role = self.role_names[0]
        return self._player(playing[role], (samplings or {}).get(role), role)

    def judge(self, model: ChatModel | None = None, sampling: Sampling | None = None) -> Judge:
        """Who appraises stored replies: a model, or the embedded rules."""
        return self._player(model, sampling, "judge")

    def _player(self, model: ChatModel | None, sampling: Sampling | None, role: str) -> Player:
        embedded, simulator = self._part("embedded"), self._part("simulator")
        player: Player = embedded() if model is None else simulator(model, sampling=sampling, role=role)
        return player

    @property
    def briefs_by_scenario(self) -> bool:
        """Whether the policy's system prompt depends on the scenario."""
        return self._parts["briefing"] is not None

    def briefing(self, scenario: Any, options: Options) -> str:
        """The policy's system prompt with a scenario, where it depends on it."""
        return str(self._part("briefing")(scenario, options))

    def set_of(self, scenarios: str | None) -> str:
        """The set or path to read: the given one, or the default set.

        Raises:
            UseError: none is given, and this environment ships none.
        """
        sets = self.scenarios.sets
        if scenarios is None and not sets:
            raise UseError(
                f"{self.name} ships no scenarios; pass --scenarios with the folder or file to read (docs/{self.name}.md)"
            )
        return scenarios if scenarios is not None else sets[0]

    def load(self, scenarios: str | None = None, *, variant: str | None = None, exclude_tags: Sequence[str] = ()) -> list[Any]:
        """Scenarios of a set or path that can be played in a variant, by default the default variant.

        Raises:
            UseError: an unknown set, or nothing left.
            InputError: a file that does not fit.
        """
        loaded = self.scenarios.load(self.set_of(scenarios), exclude_tags=exclude_tags)
        if variant is None:
            variant = str(self.options.model_fields["variant"].default)
        return [scenario for scenario in loaded if self.scenarios.playable(scenario, variant)]
