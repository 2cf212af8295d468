"""What an environment adds to its page of the report: a `ReportPanel`, whose `build` returns frozen blocks (tables, charts).

    def build(page: PanelInput) -> PanelOutput:
        rows = [Row(row.model, (len(page.behind(row)),), number) for number, row in enumerate(page.models)]
        return PanelOutput(blocks=(Table("Dialogues", (Column("n", digits=0),), tuple(rows), help="Behind each score."),))

    PANEL = ReportPanel(build=build)

A package may add files in its folder `templates`. `panel.html` (Jinja) is rendered after the blocks with `page`, the macros of
`macros.html` and the names of `PanelOutput.context`. `panel.js` sets `heartloop.panel` (see `report/static/dialogue.js`);
`panel.css` is loaded after the report's own. `glossary.html` (Jinja) holds the entries of the page of meanings that the panel
links to, among them `NAME-mean`, `NAME-success`, `NAME-failure` and `NAME-groups` with the environment's name.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal, NamedTuple, Protocol

from heartloop.core.dialogue import Transcript, Turn

Section = Literal["trajectories", "groups", "tokens", "lengths", "highlights"]


class Estimate(NamedTuple):
    """A mean over `n` dialogues with its 95 % interval over scenarios; `low` and `high` are `None` for one scenario."""

    n: int
    mean: float
    low: float | None = None
    high: float | None = None

    def words(self, digits: int = 2) -> str:
        """Mean and ends, such as `0.50 (0.30 to 0.70)`."""
        ends = "" if self.low is None or self.high is None else f" ({self.low:.{digits}f} to {self.high:.{digits}f})"
        return f"{self.mean:.{digits}f}{ends}"


class Range(NamedTuple):
    low: float
    high: float
    neutral: float


class Column(NamedTuple):
    name: str
    digits: int = 1
    """Decimal places of its numbers; whole numbers have none."""
    range: Range | None = None
    """Draws a bar for each estimate."""
    entry: str = ""
    """Entry of the page of meanings that its heading leads to; by default the table's."""


class Row(NamedTuple):
    """A heading and one cell per column, `None` for an empty one; `model` is the model's place on the leaderboard: its colour."""

    head: str
    cells: tuple[Estimate | float | int | str | None, ...]
    model: int | None = None


class Table(NamedTuple):
    """A table; `models` says whether its columns are the models, in the order of the leaderboard."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    help: str = ""
    corner: str = "Model"
    entry: str = "blocks"
    """Entry of the page of meanings that its headings lead to."""
    models: bool = False
    kind: str = "table"


class Point(NamedTuple):
    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    x_low: float | None = None
    x_high: float | None = None
    square: bool = False
    """Drawn as a square: the model was scored by itself."""


class Series(NamedTuple):
    name: str
    points: tuple[Point, ...]
    model: int | None = None
    raw: tuple[Point, ...] = ()
    """Before smoothing, drawn faintly."""
    opacity: float = 1.0


class Chart(NamedTuple):
    """Series over one pair of axes, which have titles (`x`, `y`). Words on the x axis are categories, in a radar the spokes."""

    title: str
    form: Literal["points", "lines", "bars", "radar"]
    series: tuple[Series, ...]
    x: str
    y: str
    low: float | None = None
    """Ends of the y axis; by default those of the values and 0."""
    high: float | None = None
    help: str = ""
    x_low: float | None = None
    """Ends of the x axis; by default those of the values. With a low end it has grid lines."""
    x_high: float | None = None
    line: float | None = None
    """Height of a broken line, such as the start, and its name."""
    line_name: str = ""
    zones: Sequence[tuple[str, str, float, float]] = ()
    """Bands behind the series: name, tint (`a`, `b`, `c`, `f`), low and high end."""
    numbered: bool = False
    """Numbers the series from 1, so that colour is not needed."""
    bands: bool = False
    """Draws the intervals of lines as areas."""
    diagonal: bool = False
    log_x: bool = False
    spokes: tuple[str, ...] = ()
    """Of a radar, also those without a point; by default those of the points."""
    kind: str = "chart"


class Card(NamedTuple):
    title: str
    facts: tuple[tuple[str, str], ...]
    help: str = ""
    kind: str = "card"


class Text(NamedTuple):
    title: str
    paragraphs: tuple[str, ...]
    help: str = ""
    kind: str = "text"


Block = Table | Chart | Card | Text


class Headline(Protocol):
    n: int
    mean: float | None
    low: float | None
    high: float | None


class ModelRow(Protocol):
    model: str
    standing: Literal["ranked", "unranked", "failure case"]
    rank: int | None
    unscored: int

    @property
    def headline(self) -> Headline: ...


class Shade(NamedTuple):
    """A cell of a heat map; `tint` in [0, 1] shades it, in another colour if it is `below` the neutral value."""

    mean: float | None
    n: int
    tint: float
    below: bool


def shade(values: Sequence[float], among: Range) -> Shade:
    """The cell of some points: not shaded at the neutral value, shaded whole at either end."""
    if not values:
        return Shade(None, 0, 0.0, False)
    mean = statistics.fmean(values)
    away = (mean - among.neutral) / ((among.low if mean < among.neutral else among.high) - among.neutral)
    return Shade(mean, len(values), round(min(1.0, away), 3), mean < among.neutral)


class PanelInput(NamedTuple):
    """One page of the report: models and dialogues whose numbers compare."""

    models: Sequence[ModelRow]
    """In the order of the leaderboard; a model's place is its colour."""
    basis: Mapping[str, Sequence[int]]
    """By model, indices of the dialogues behind its number; of a large page those of an even sample, perhaps none."""
    dialogues: Sequence[Transcript]
    addresses: Sequence[str]
    """By dialogue, the fragment that opens it."""
    embedded: bool
    options: Mapping[str, Any]

    def behind(self, row: ModelRow) -> list[Transcript]:
        return [self.dialogues[index] for index in self.basis[row.model]]


class LeaderboardColumn(NamedTuple):
    """A further column of the leaderboard, such as a component of the score; values are by model, as far as there are."""

    name: str
    values: Mapping[str, float]
    digits: int = 0
    entry: str = "blocks"


class PanelOutput(NamedTuple):
    blocks: tuple[Block, ...] = ()
    columns: tuple[LeaderboardColumn, ...] = ()
    leaderboard_help: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    """For the head of the page, as (name, value)."""
    warnings: tuple[str, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    """Sections of the template, as (element id, name), for the links at the head of the page."""
    context: Mapping[str, Any] = {}
    data: Mapping[str, Any] | None = None
    """JSON for the script, written to `data/PAGE/panel.js`, passed on in the event `heartloop-panel` once that is loaded."""


class PublishedTable(NamedTuple):
    """A table of a paper, as printed; `source` is such as `SAGE, Table 2`."""

    source: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    help: str = ""
    corner: str = "Model, as printed"
    entry: str = "published-model"
    id: str = ""
    """Fragment of its own, where other pages link to it."""
    fold: bool = False


class Published(NamedTuple):
    """Published results of an environment, shown next to the user's own and never ranked with them."""

    title: str
    tables: tuple[PublishedTable, ...]
    conditions: str
    """How they were measured, and so why single numbers do not compare."""
    papers: tuple[str, ...]
    """Title of each paper, after its short name and a colon."""
    measured: Callable[[PanelInput], Table] | None = None
    """The user's own results in the columns of the paper; by default rank, mean with its interval, success and failure."""


class ScenarioView(NamedTuple):
    line: str = ""
    """The line under the title; empty for person, place, theme and keyword."""
    facts: tuple[tuple[str, str], ...] = ()
    """As (name, text); lines that begin with `- ` are a list."""
    model_plays: str = ""


class Details(NamedTuple):
    """A part that unfolds under a turn: rows of (name, value, text)."""

    title: str
    rows: tuple[tuple[str, str, str], ...]
    open: bool = False


class TurnView(NamedTuple):
    thoughts: Mapping[str, str] = {}
    details: tuple[Details, ...] = ()


class ReportPanel(NamedTuple):
    """An environment's part of the report; every field has a default that suits a plain dialogue."""

    build: Callable[[PanelInput], PanelOutput] = lambda page: PanelOutput()
    question: str = ""
    measures: str = ""
    """What the score is, as the end of the sentence that heads the page; by default `Scale.of`."""
    lede: str = ""
    """What a scenario is and what the number means, in a few sentences; `{start}` and `{change_limit}` are filled in."""
    leaves_out: frozenset[Section] = frozenset()
    trajectories: tuple[str, str] = ("How the score moves", "")
    """Heading and reading help of the section of trajectories."""
    groups: tuple[str, str] = ("", "")
    """Heading and reading help of the section of groups."""
    group_kinds: Mapping[str, str] = {}
    """By group, a word under its heading."""
    group_text: str = ""
    agreement: str = ""
    stops: Mapping[str, str] = {}
    """Why a dialogue ended, in words, where the general ones do not fit."""
    scenario: Callable[[Transcript], ScenarioView] = lambda transcript: ScenarioView()
    turn: Callable[[Transcript, Turn], TurnView] = lambda transcript, turn: TurnView(turn.thoughts)
    thoughts: Mapping[str, str] = {}
    """Names of thoughts in words, in the order in which they are shown."""
    thoughts_title: str = "Inner thoughts"
    dialogue: Callable[[Transcript], Mapping[str, Any]] | None = None
    """JSON of one dialogue for the script, as `said.panel`."""
    published: Callable[[], Published] | None = None
    learned: bool = True
    """Whether the embedded player is a learned reader."""
    package: str = ""
    glossary_context: Mapping[str, Any] = {}
    """Names that the glossary uses, besides the macros `m`, `scale`, `start`, `success_at` and `failure_below`."""

    def file(self, name: str) -> Traversable | None:
        file = resources.files(self.package) / "templates" / name if self.package else None
        return file if file and file.is_file() else None
