"""The public interface of an environment: `EnvironmentSpec`, roles, scenarios and scale.

Parts that are slow to import are given as `"module:attribute"` and loaded on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from heartloop.core.blocks import Range, ReportPanel
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.environments.base import BaseEnvironment, Player, Scenario
from heartloop.environments.options import OptionInfo, Options, option

if TYPE_CHECKING:
    from heartloop.environments.grading import ReplyJudging
    from heartloop.environments.reading import Appraiser, LearnedReading
    from heartloop.environments.training import Training

__all__ = [
    "DemoRun",
    "EnvironmentSpec",
    "ExternalRanking",
    "Judge",
    "Lazy",
    "OptionInfo",
    "Options",
    "Pilot",
    "Player",
    "Ready",
    "Role",
    "Scale",
    "Scenario",
    "Scenarios",
    "Stored",
    "Sums",
    "Zone",
    "bounded_sums",
    "load_attribute",
    "option",
]

Lazy = str
"""`"module:attribute"`, imported on first use."""


def load_attribute(path: Lazy) -> Any:
    try:
        module, _, attribute = path.partition(":")
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: another form
        raise UseError(f"cannot load {path!r}: {error}; expected module:attribute of an installed package") from error


class Role(NamedTuple):
    name: str
    about: str


Judge = Player
"""A player that only judges stored replies."""


class Scenarios(NamedTuple):
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
    need: Callable[[Any], str] | None = None
    """What the person wants, without the rest of the scenario; `None`: only the whole is known."""
    short_sets: tuple[str, ...] = ()
    """Sets of the short form, without written lines: the embedded user cannot play them."""
    problems: Callable[[Any], list[str]] = lambda scenario: []
    """Violations of a scenario of our own form beyond its schema."""
    written: Callable[[Any], bool] = lambda scenario: True
    """Whether a scenario has our own form; of imported ones only the form is checked."""
    identity: Callable[[Any], tuple[str, str]] = lambda scenario: (scenario.id, "")
    """Name and occupation; unique in a set."""
    lines: Callable[[Any], Iterable[str]] = lambda scenario: ()
    """Written lines; unique in a set."""
    story: Callable[[Any], str] = lambda scenario: str(scenario.title)
    """The text by which scenarios are compared for near-duplicates."""
    spread: Callable[[Any], Mapping[str, float | str | Sequence[str]]] = lambda scenario: {}
    """Numbers and features of a scenario by name, for `heartloop scenarios stats` and, the features, `sample`."""
    printed: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """What a paper printed of them: by stratum and name the mean and deviation, and under `n` the number of scenarios; by feature
    and value the number.
    """
    questions: Mapping[str, str] = {}
    """Further questions to people who check a scenario by hand, by column of their sheet; the answer is yes or no."""
    playable: Callable[[Any, str], bool] = lambda scenario, variant: True
    """Whether a scenario can be played in a variant; a run excludes the others."""
    template: str = ""
    """A package whose `scenarios/template.yaml` is a complete example for `heartloop scenarios new`; empty: none."""
    imported: Callable[[bytes], Any] | None = None
    """The scenario of a source line of an imported run, or `InputError`. `None`: those lines contain no scenarios."""


Ready = BaseEnvironment[Any, Any, Any]
"""An environment with its scenarios and its options."""


class Sums(NamedTuple):
    """Mean points (nan without dialogues), and the numbers of successful and of failed dialogues."""

    mean: float
    success: int
    failure: int


def bounded_sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    """From (group, points) of each dialogue: those at or above `success_at` succeeded, those below `failure_below` failed."""
    mean = sum(points for _, points in dialogues) / len(dialogues) if dialogues else float("nan")
    return Sums(mean, sum(p >= success_at for _, p in dialogues), sum(p < failure_below for _, p in dialogues))


class Zone(NamedTuple):
    """An interval of the scale in a chart, in points."""

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
    """Lowest and highest points of a chart; in some environments a score may exceed `high`."""
    start: float
    """Points before the first reply, if the dialogue has none."""
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
    """The same as the heading of a table in the terminal."""
    zones: tuple[Zone, ...]
    ticks: tuple[int, ...]
    change_limit: float
    """Largest change of one turn, in units of the state."""
    reached: str = "reached {0:g}"
    """{0} is the bound."""
    fell: str = "fell below {0:g}"
    sums: Callable[[Sequence[tuple[str, float]], float, float], Sums] = bounded_sums
    group_intervals: bool = False
    """Whether each group is a separate result with a confidence interval."""
    by_end: bool = False
    """Whether success and failure follow from the stop reason, not from bounds of the score."""
    now: str = ""
    """The points during a dialogue in words; by default `title`."""
    states: Mapping[str, str] = {}
    """By number of the state, what it is in words; one without words is not shown in the terminal."""
    rules: Callable[[Transcript], object] = lambda transcript: None
    """What decides a score besides the fields that all environments have; scores with different rules do not compare."""

    def colours(self, start: float | None = None) -> Range:
        """Where colours count from: `start`, or the middle of the range where nothing can end below its start.

        >>> scale = Scale(1, 0, 100, 40, 100, 10, "", "", (), lambda t: [], "", "", (), (), 10)
        >>> scale.colours().neutral, scale.colours(start=30).neutral, scale._replace(start=0).colours().neutral
        (40, 30, 50.0)
        """
        start = self.start if start is None else start
        return Range(self.low, self.high, start if self.low < start < self.high else (self.low + self.high) / 2)


class Stored(NamedTuple):
    """Rescoring and rejudging of stored dialogues (`heartloop.environments.replay`)."""

    options: Callable[[Transcript], Mapping[str, Any]]
    """The options that a transcript stores; the others are in the run's settings."""
    rescored: Callable[[Transcript, Any], Transcript]
    """The transcript with other score options, without a model call; unscored if the score does not follow from it."""
    stand_in: Callable[[Transcript, Any], Player] = lambda transcript, judge: judge
    """Plays the stored dialogue's roles with the judge's appraisals."""
    described: Callable[[Any, Transcript], Mapping[str, Any]] = lambda judge, transcript: judge.describe()
    """`models`, `sampling` and `prompts` of the judge."""
    unused_prompts: str = ""
    """Prefix of the names of prompts that are not used for judging stored replies."""
    one_reply: Callable[[Transcript, Any, int], Player] | None = None
    """`one_reply(transcript, judge, turn)` judges only this turn's reply. `None` where a reply is not judged by itself."""
    stops_with_its_turns: bool = False
    """Whether a rejudged dialogue stops after its last stored reply even if the rules would continue it."""
    asked_again: Callable[[Transcript], bool] = lambda transcript: False
    """Whether a re-ask replaced an answer that the released code would have clamped."""


class ExternalRanking(NamedTuple):
    """Such as the votes of an arena."""

    ratings: Mapping[str, float]
    """By model as the source names it; higher is better."""
    published: str = ""
    """Published agreement of the environment's scores with it, in words."""
    aliases: Mapping[str, Sequence[str]] = {}
    """Other names of its models, such as those of services and of released files."""


class DemoRun(NamedTuple):
    """An environment's part of `heartloop demo`: a group of baselines on `limit` scenarios, stratified."""

    baselines: str
    limit: int
    place: int = 100
    """Position among the environments of the demo."""


class Pilot(NamedTuple):
    """A small evaluation of two baselines with the embedded user, from which `heartloop plan` starts without a run."""

    models: tuple[str, str]
    scenario: float
    """Variance of the difference of the two between scenarios, in squared points."""
    repeat: float
    """Variance of the difference between repeats of a scenario."""
    turns: float
    """Mean policy replies of a dialogue."""
    tokens: float
    """Mean of the policy in a dialogue, prompts included."""


Part = TypeVar("Part")


class _Part(Generic[Part]):
    """An attribute that is given as a value or as a lazy path, which is loaded on first use; required without a default."""

    def __init__(self, *default: Part) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, spec: EnvironmentSpec | None, owner: type) -> Part:
        if spec is None:  # the class is being made
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        part = vars(spec)[self._name]
        if isinstance(part, str):
            part = vars(spec)[self._name] = load_attribute(part)
        value: Part = part
        return value

    def __set__(self, spec: EnvironmentSpec, part: Lazy | Part) -> None:
        vars(spec)[self._name] = part


@dataclass(kw_only=True, repr=False, eq=False)
class EnvironmentSpec:
    """Everything the rest of the code uses of an environment.

    Args:
        roles: the roles besides the policy; `--user` plays all of them, unless an option of its own names the model of a role.
        environment: `environment(scenarios, player, **options)` returns a `Ready`.
        embedded: returns the `Player` that plays every role without a model: `embedded(appraiser, role=)` with a
            `reading.Appraiser` where `reading` is given, else `embedded()`.
        simulator: `simulator(model, sampling=, role=)` returns the `Player` of a model; to judge stored replies its role is
            `judge`.
        players_by_role: `players_by_role(models, samplings)` returns a `Player` with a different model per role; both are by
            role, and a model is `None` where it is embedded. Default: the first role's model plays all roles.
        reading: `None` where the embedded player does not use the learned reader.
        briefing: `briefing(scenario, options)`, the policy's system prompt if it depends on the scenario.
        baselines: scripted policies, by the name after `heartloop/`: the path of a function `(messages, seed) -> str`
            (`names.FunctionBaseline`).
        replies: how its judges grade replies of other environments, for `heartloop validate --suite NAME`.
        importers: kinds of `heartloop import`, each the path of an `importing.Importer`.
        writing: scenario writers by command (`write`, `expand`, `distil`, `enrich`), each the path of a function that returns a
            `writing.Writing`.
        rankings: external rankings of models by title, each the path of a function that returns an `ExternalRanking`.
        pilot: `None` where `heartloop plan` needs a run.
    """

    name: str
    title: str
    about: str
    source: str
    roles: Sequence[Role]
    options: _Part[type[Options]] = _Part()
    scale: _Part[Scale] = _Part()
    scenarios: _Part[Scenarios] = _Part()
    environment: _Part[Callable[..., Ready]] = _Part()
    embedded: _Part[Callable[..., Player]] = _Part()
    simulator: _Part[Callable[..., Player]] = _Part()
    stored: _Part[Stored] = _Part()
    training: _Part[Training | None] = _Part(None)
    report: _Part[ReportPanel] = _Part(ReportPanel())
    reading: _Part[LearnedReading | None] = _Part(None)
    players_by_role: _Part[Callable[..., Player] | None] = _Part(None)
    briefing: _Part[Callable[[Any, Options], str] | None] = _Part(None)
    replies: _Part[ReplyJudging | None] = _Part(None)
    policy_sampling: Sampling = field(default_factory=Sampling)
    baselines: Mapping[str, Lazy] = field(default_factory=dict)
    importers: Mapping[str, Lazy] = field(default_factory=dict)
    writing: Mapping[str, Lazy] = field(default_factory=dict)
    suites: Mapping[str, Lazy] = field(default_factory=dict)
    rankings: Mapping[str, Lazy] = field(default_factory=dict)
    demo: DemoRun | None = None
    pilot: Pilot | None = None

    def __repr__(self) -> str:
        return f"EnvironmentSpec({self.name!r})"

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)

    def read_options(self, given: Mapping[str, Any]) -> Options:
        return self.options.read(given, environment=self.name)

    def make(self, scenarios: Sequence[Any], player: Player, options: Options | Mapping[str, Any] | None = None) -> Ready:
        given = options if isinstance(options, Options) else self.read_options(options or {})
        return self.environment(scenarios, player, **dict(given))

    def players(
        self, models: Mapping[str, ChatModel | None] | None = None, samplings: Mapping[str, Sampling] | None = None
    ) -> Player:
        """The player of its roles, with models by role; a role without a model is embedded."""
        by_role = {name: (models or {}).get(name) for name in self.role_names}
        if self.players_by_role is not None:
            return self.players_by_role(by_role, dict(samplings or {}))
        role = self.role_names[0]
        return self._player(by_role[role], (samplings or {}).get(role), role)

    def judge(self, model: ChatModel | None = None, sampling: Sampling | None = None) -> Judge:
        """The judge of stored replies: a model, or by default the embedded judge."""
        return self._player(model, sampling, "judge")

    def _player(self, model: ChatModel | None, sampling: Sampling | None, role: str) -> Player:
        appraiser = self.appraiser(model)
        if appraiser is not None:
            return self.embedded(appraiser, role=role)
        return self.embedded() if model is None else self.simulator(model, sampling=sampling, role=role)

    def appraiser(self, model: ChatModel | None) -> Appraiser | None:
        """What judges in place of a language model: a learned reader, or a student; `None` for a language model."""
        from heartloop.models.names import student_of

        weights = student_of(model)
        if self.reading is None:
            if weights is not None:
                raise UseError(f"no student can judge in {self.name}; pass a model, or embedded")
            return None
        from heartloop.environments.reading import LearnedAppraiser, StudentAppraiser

        if weights is None:
            return LearnedAppraiser(self.reading) if model is None else None
        if weights.card.get("environment") != self.name:
            raise UseError(f"the student was fitted on {weights.card.get('environment')}; expected one fitted on {self.name}")
        return StudentAppraiser(weights, self.reading.outputs)

    def set_of(self, scenarios: str | None) -> str:
        sets = self.scenarios.sets
        if scenarios is not None:
            return scenarios
        if not sets:
            raise UseError(f"{self.name} ships no scenarios; pass --scenarios with the folder or file (docs/{self.name}.md)")
        return sets[0]

    def load(self, scenarios: str | None = None, *, variant: str | None = None, exclude_tags: Sequence[str] = ()) -> list[Any]:
        """The scenarios of a set or path that can be played in a variant (default: the default variant)."""
        loaded = self.scenarios.load(self.set_of(scenarios), exclude_tags=exclude_tags)
        if variant is None:
            variant = str(self.options.model_fields["variant"].default)
        return [scenario for scenario in loaded if self.scenarios.playable(scenario, variant)]
