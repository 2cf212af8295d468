"""Values of one EMPA dialogue for all charts: path, nine indices, cause of the end, conditions at the end."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import (
    Column,
    Estimate,
    LeaderboardColumn,
    ModelRow,
    PanelInput,
    PanelOutput,
    Published,
    PublishedTable,
    Range,
    ReportPanel,
    Row,
    ScenarioView,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import InputError
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.scenario import DOMAINS, Difficulty
from heartloop.environments.empa.scoring import (
    AXES,
    INDICES,
    EpmQ,
    FailureSigns,
    SuccessSigns,
    Trajectory,
    composed,
    failure,
    form_keys,
    indices_of,
    reached,
    trace,
)
from heartloop.environments.report import published
from heartloop.scoring.statistics import estimate

SUCCEEDED = {
    "near": "ended near the balance",
    "far": "covered the distance of the start",
    "company": "kept the right direction",
    "uncounted": "success in the data, but not by the levels",
}
"""Causes of success, in order of precedence; the second exists in `released` only, the third in `paper` only."""
FAILED = {
    "away": "five windows of negative energy in a row",
    "stuck": "stagnation with regression",
    "other": "failure in the data",
}
"""Causes of failure, in order of precedence."""
ENDINGS = {**SUCCEEDED, **FAILED, "left": "ended by the director", "limit": "turn limit", "cut": "no further reply stored"}
"""Labels of all causes of an end."""


class Measured(NamedTuple):
    """A scored dialogue; `place` is its index among the dialogues of the page."""

    place: int
    dialogue: Transcript
    path: Trajectory
    epmq: EpmQ
    success: SuccessSigns
    """Conditions at the end."""
    failure: FailureSigns

    @property
    def ending(self) -> str:
        """Key of `ENDINGS`: the first cause that holds."""
        stop = self.dialogue.stop
        if stop == "success":
            causes = {"near": self.success.resolution, "far": self.success.position, "company": self.success.companionship}
            return next((cause for cause, holds in causes.items() if holds and self.success.gate), "uncounted")
        if stop == "failure":
            cause = self.failure
            return "away" if cause.negative_run else "stuck" if cause.stagnation and cause.regression else "other"
        return "left" if stop == "goodbye" else "cut" if stop == "cut" else "limit"

    @property
    def mechanism(self) -> str:
        """Dominant axis with `routine` (easy, medium) or `challenging` (hard, extreme); empty if a fact is missing."""
        axis, difficulty = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("difficulty", "")
        return f"{axis} {'routine' if difficulty in ('easy', 'medium') else 'challenging'}" if axis and difficulty else ""

    @property
    def need(self) -> str:
        """Dominant axis with `receptive` (low or medium threshold) or `defensive` (high); empty if a fact is missing."""
        axis, threshold = self.dialogue.facts.get("axis", ""), self.dialogue.facts.get("threshold", "")
        return f"{axis} {'defensive' if threshold == 'high' else 'receptive'}" if axis and threshold else ""

    def fact(self, name: str) -> str:
        """A fact of the scenario; empty if it has none."""
        return self.dialogue.facts.get(name, "")


def measured(place: int, dialogue: Transcript) -> Measured | None:
    """The values of a dialogue by its own preset; `None` if it is unscored or has no levels."""
    if not dialogue.scored:
        return None
    preset = dialogue.preset
    try:
        path = trace(judged_dialogue(dialogue), preset=preset)
        score = composed(indices_of(path, preset=preset))
    except InputError:
        return None
    return Measured(place, dialogue, path, score, reached(path, preset=preset), failure(path))


TIERS: tuple[Difficulty, ...] = ("easy", "medium", "hard", "extreme")
"""Difficulties, by the distance at the start."""
AXIS_NAMES: Mapping[str, str] = {"C": "C · cognitive", "A": "A · affective", "P": "P · proactive"}
COMPONENTS = tuple(INDICES)
INDEX_NAMES: Mapping[str, str] = {
    "rdi": "Nearer than at the start (RDI)",
    "energy": "Total energy (E total)",
    "net": "Net score (S net)",
    "density": "Energy per window (ρ)",
    "projection": "Mean projection (S proj)",
    "tortuosity": "Straightness (τ)",
    "positive": "Windows of positive energy (R pos)",
    "alignment": "Mean alignment (cos θ)",
    "penalty": "Freedom from penalty (R pen)",
}
_NEUTRAL = {"rdi": 50.0, "alignment": 50.0}
"""Value of an index without change, if not 0."""

Member = tuple[int, ModelRow, Sequence[Measured]]
"""A model: its colour number, its row, and the dialogues behind its score."""


class Bar(NamedTuple):
    """One model in a panel; `seen` is `None` if it has no dialogue there."""

    number: int
    score: ModelRow
    seen: Estimate | None


class BarPanel(NamedTuple):
    """One bar per model, for an index or a group of scenarios."""

    key: str
    name: str
    scale: Range
    bars: list[Bar]


class Spoke(NamedTuple):
    """A group in a radar: its name, its end and label in pixels, and the model's mean."""

    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    seen: Estimate | None
    at: tuple[float, float] | None
    """Pixel of the mean."""


class Radar(NamedTuple):
    """One model over the groups of a profile."""

    number: int
    score: ModelRow
    spokes: list[Spoke]
    rings: list[tuple[float, str]]
    """Radius and label of each ring."""
    path: str
    """Closed SVG path; empty if a group has no mean."""


class Profile(NamedTuple):
    """EPM-Q over one division of the scenarios."""

    key: str
    title: str
    about: str
    panels: list[BarPanel]
    radars: list[Radar]


class _Division(NamedTuple):
    title: str
    about: str
    keys: tuple[str, ...]
    of: Callable[[Measured], str]


PROFILES: Mapping[str, _Division] = {
    "domain": _Division("Domains of life", "The subject of the dialogue.", DOMAINS, lambda m: m.fact("domain")),
    "mechanism": _Division(
        "Mechanism and difficulty",
        "The axis with the largest deficit, and the distance to the balance: routine is easy or medium, challenging is hard or "
        "extreme.",
        tuple(f"{axis} {kind}" for kind in ("routine", "challenging") for axis in AXES),
        lambda m: m.mechanism,
    ),
    "need": _Division(
        "Need and threshold",
        "The axis with the largest deficit, and the user's threshold for empathy: receptive is low or medium, defensive is high.",
        tuple(f"{axis} {kind}" for kind in ("receptive", "defensive") for axis in AXES),
        lambda m: m.need,
    ),
}
"""The divisions of EMPA Figures 9 to 14."""

_MIDDLE, _RADIUS = (170.0, 118.0), 82.0


def by_group(mine: Sequence[Measured], keys: Sequence[str], of: Callable[[Measured], str]) -> dict[str, Estimate]:
    """EPM-Q of each group that has a dialogue."""
    estimates = {}
    for key in keys:
        group = [m for m in mine if of(m) == key]
        if (seen := estimate([m.epmq.score for m in group], [m.dialogue.scenario for m in group])) is not None:
            estimates[key] = seen
    return estimates


def components_of(members: Sequence[Member]) -> dict[str, dict[str, Estimate]]:
    """Outcome, efficiency and stability by model."""
    estimates = {row.model: {name: _over(mine, attrgetter(f"epmq.{name}")) for name in COMPONENTS} for _, row, mine in members}
    return {model: {name: seen for name, seen in parts.items() if seen is not None} for model, parts in estimates.items()}


def index_panels(members: Sequence[Member]) -> list[tuple[str, list[BarPanel]]]:
    """One panel for each index, by component."""
    return [(component, [_panel(key, members) for key in names]) for component, names in INDICES.items()]


def profile_of(key: str, members: Sequence[Member]) -> Profile | None:
    """A division of the scenarios as bars and radars; `None` if fewer than three of its groups occur.

    Radars and bars of a profile share one scale, from 0 to the highest end of an interval, at least 100.
    """
    division = PROFILES[key]
    tables = [(number, row, by_group(mine, division.keys, division.of)) for number, row, mine in members]
    names = [name for name in division.keys if any(name in table for *_, table in tables)]
    if len(names) < 3:
        return None
    high = max(100.0, *(_end(seen) for *_, table in tables for seen in table.values()))
    scale = Range(0.0, high, 100.0)
    panels = [BarPanel(name, name, scale, [Bar(number, row, table.get(name)) for number, row, table in tables]) for name in names]
    radars = [_radar(number, row, names, table, high) for number, row, table in tables if table]
    return Profile(key, division.title, division.about, panels, radars)


def _over(mine: Sequence[Measured], of: Callable[[Measured], float]) -> Estimate | None:
    return estimate([of(m) for m in mine], [m.dialogue.scenario for m in mine])


def _end(seen: Estimate) -> float:
    """The upper end of the interval, or the mean without one."""
    return seen.mean if seen.high is None else seen.high


def _panel(key: str, members: Sequence[Member]) -> BarPanel:
    bars = [Bar(number, row, _over(mine, attrgetter(f"epmq.indices.{key}"))) for number, row, mine in members]
    ends = [_end(bar.seen) for bar in bars if bar.seen is not None]
    return BarPanel(key, INDEX_NAMES[key], Range(0.0, max([100.0, *ends]), _NEUTRAL.get(key, 0.0)), bars)


def _radar(number: int, row: ModelRow, names: Sequence[str], table: Mapping[str, Estimate], high: float) -> Radar:
    """Spokes clockwise from the top."""
    spokes = []
    for place, name in enumerate(names):
        angle = 2.0 * math.pi * place / len(names)
        dx, dy = math.sin(angle), -math.cos(angle)
        anchor = "middle" if abs(dx) < 0.2 else "start" if dx > 0 else "end"
        seen = table.get(name)
        at = None if seen is None else _pixel(dx, dy, _RADIUS * max(0.0, seen.mean) / high)
        x, y = _pixel(dx, dy, _RADIUS)
        label_x, label_y = _pixel(dx, dy, _RADIUS + 11.0)
        beside = 4.0 * (1.0 + dy) - (12.0 if dy < -0.9 else 0.0)  # two lines of text, above the top spoke
        spokes.append(Spoke(name, x, y, label_x, round(label_y + beside, 1), anchor, seen, at))
    corners = [spoke.at for spoke in spokes if spoke.at is not None]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in corners) + "Z" if len(corners) == len(spokes) else ""
    rings = [(round(_RADIUS * value / high, 1), f"{value:g}") for value in (50.0, 100.0)]
    return Radar(number, row, spokes, rings, path)


def _pixel(dx: float, dy: float, radius: float) -> tuple[float, float]:
    return (round(_MIDDLE[0] + dx * radius, 1), round(_MIDDLE[1] + dy * radius, 1))


PLANES: tuple[tuple[str, str], ...] = (("C", "A"), ("P", "A"))
"""Horizontal and vertical axis of each plane."""
SIDE = 150.0
"""Side of a plane in pixels."""
_STEP = 10.0
"""The frame is rounded to multiples of this, in points."""
_ABOVE = 20.0
"""Points shown beyond the balance."""
_BELOW = 1.6
"""Low end of the frame as a multiple of the lowest start."""


class PlaneFrame(NamedTuple):
    """Low and high end of every axis, in points."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Distance of a value from the low end, in pixels."""
        return SIDE * (value - self.low) / (self.high - self.low)


class TierPaths(NamedTuple):
    """The dialogues of one model and one difficulty in one plane."""

    towards: str
    """Segments of positive energy, as one SVG path."""
    away: str
    """Segments of negative energy."""
    aside: str
    """Segments of energy 0."""
    starts: list[tuple[float, float]]
    ends: list[tuple[float, float, str]]
    """Ends inside the frame, each with `success`, `failure` or `else`."""


class ModelPaths(NamedTuple):
    """A model's paths by difficulty, with one plane for each pair of `PLANES`."""

    number: int
    score: ModelRow
    n: int
    left: int
    """Number of paths that leave the frame."""
    tiers: list[tuple[str, int, list[TierPaths]]]
    """Difficulty, dialogues, planes; easiest first."""


class StepMeans(NamedTuple):
    """A model's mean step size |v| in points, and mean alignment in [-1, 1], over all judged windows."""

    number: int
    """Row in the table, from 1."""
    colour: int
    score: ModelRow
    size: Estimate
    alignment: Estimate


class StepPlot(NamedTuple):
    """Step size against alignment in pixels, for a chart of `width` x `height`."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    marks: list[tuple[StepMeans, float, float, tuple[float, float] | None, tuple[float, float] | None]]
    """Means of a model, their pixel, ends of both intervals in pixels."""


def frame_of(dialogues: Sequence[Measured]) -> PlaneFrame:
    """The frame of all planes, set by the starts, so that a bad dialogue does not widen it."""
    lowest = min((float(m.path.position[0].min()) for m in dialogues), default=-_STEP)
    return PlaneFrame(_STEP * math.floor(_BELOW * lowest / _STEP), _ABOVE)


def model_paths(members: Sequence[Member], frame: PlaneFrame) -> list[ModelPaths]:
    """The paths of each model that has a dialogue."""
    models = []
    for number, row, mine in members:
        tiers = []
        for tier in dict.fromkeys([*TIERS, *sorted({m.fact("difficulty") for m in mine})]):
            in_tier = [m for m in mine if m.fact("difficulty") == tier]
            if in_tier:
                tiers.append((tier, len(in_tier), [_tier(in_tier, frame, across, up) for across, up in PLANES]))
        left = sum(bool(((m.path.position < frame.low) | (m.path.position > frame.high)).any()) for m in mine)
        if tiers:
            models.append(ModelPaths(number, row, len(mine), left, tiers))
    return models


def _tier(dialogues: Sequence[Measured], frame: PlaneFrame, across: str, up: str) -> TierPaths:
    columns = [list(map(str, AXES)).index(across), list(map(str, AXES)).index(up)]
    segments: dict[int, list[str]] = {1: [], -1: [], 0: []}
    starts: list[tuple[float, float]] = []
    ends: list[tuple[float, float, str]] = []
    for m in dialogues:
        at = m.path.position[:, columns]
        pixels = [(round(frame.at(x), 1), round(SIDE - frame.at(y), 1)) for x, y in at.tolist()]
        last = None
        for n, energy in enumerate(m.path.energy.tolist()):
            (x0, y0), (x1, y1) = pixels[n], pixels[n + 1]
            if (x0, y0) == (x1, y1):
                continue
            sign = (energy > 0) - (energy < 0)
            dx, dy = f"{x1 - x0:.3g}", f"{y1 - y0:.3g}"
            step = f"l{dx}{'' if dy.startswith('-') else ' '}{dy}"
            segments[sign].append(step if last == sign else f"M{x0:g} {y0:g}{step}")
            last = sign
        starts.append(pixels[0])
        if frame.low <= at[-1].min() and at[-1].max() <= frame.high:
            stop = m.dialogue.stop
            ends.append((*pixels[-1], stop if stop in ("success", "failure") else "else"))
    return TierPaths("".join(segments[1]), "".join(segments[-1]), "".join(segments[0]), sorted(set(starts)), ends)


def step_means(members: Sequence[Member]) -> list[StepMeans]:
    """Mean size and alignment of the steps by model, in the order of the leaderboard."""
    means: list[StepMeans] = []
    for number, row, mine in members:
        scenarios = [m.dialogue.scenario for m in mine for _ in m.path.energy]
        size = estimate([float(s) for m in mine for s in np.linalg.norm(m.path.increment, axis=1)], scenarios, n=len(mine))
        alignment = estimate([float(cos) for m in mine for cos in m.path.alignment], scenarios, n=len(mine), within=(-1.0, 1.0))
        if size is not None and alignment is not None:
            means.append(StepMeans(len(means) + 1, number, row, size, alignment))
    return means


def step_plot(means: Sequence[StepMeans], *, width: float = 1060.0, height: float = 400.0) -> StepPlot:
    """The chart of `step_means`: size from 0 on the x axis, alignment from -1 to 1 on the y axis."""
    left, top, right, bottom = 44.0, 14.0, width - 20.0, height - 44.0
    sizes = [mean.size.mean if mean.size.high is None else mean.size.high for mean in means]
    most = max(1, math.ceil(max(sizes, default=0.0)))  # 1 if all steps are 0

    def x(value: float) -> float:
        return round(left + (right - left) * value / most, 1)

    def y(value: float) -> float:
        return round(top + (bottom - top) * (1.0 - value) / 2.0, 1)

    marks = []
    for mean in means:
        size, alignment = mean.size, mean.alignment
        wide = None if size.low is None or size.high is None else (x(size.low), x(size.high))
        high = None if alignment.low is None or alignment.high is None else (y(alignment.low), y(alignment.high))
        marks.append((mean, x(size.mean), y(alignment.mean), wide, high))
    return StepPlot(
        width, height, left, top, right, bottom,
        ticks_x=[(x(value), f"{value}") for value in range(most + 1)],
        ticks_y=[(y(value), f"{value:+g}" if value else "0") for value in (-1.0, -0.5, 0.0, 0.5, 1.0)],
        marks=marks,
    )  # fmt: skip


def steps_of(dialogues: Sequence[Measured | None]) -> list[list[Any] | None]:
    """By index on the page: difficulty, start and steps as one flat list, and the sign of each step's energy.

    Numbers that are not whole are rounded to two decimals. `None` is a dialogue without a path.
    """
    return [
        None if m is None else [m.fact("difficulty"), _flat(m), "".join("0+-"[int(np.sign(e))] for e in m.path.energy)]
        for m in dialogues
    ]


def _flat(m: Measured) -> list[float | int]:
    values = [*m.path.position[0].tolist(), *m.path.increment.ravel().tolist()]
    return [short_number(value) for value in values]


def journey(transcript: Transcript) -> dict[str, Any]:
    """Start, distance and windows of an EMPA dialogue; empty if the transcript has no start."""
    if not set(AXES) <= transcript.start.keys():
        return {}
    start = [transcript.start[axis] for axis in AXES]
    replies = [printable(turn.reply) for turn in transcript.turns]
    messages = [printable(transcript.opening or ""), *(printable(turn.message or "") for turn in transcript.turns)]
    windows = [_window(turn, replies, messages) for turn in transcript.turns]
    return {
        "start": [short_number(value) for value in start],
        "window": int(size) if (size := transcript.facts.get("window", "1")).isdecimal() else 1,
        "lacking": round(float(np.linalg.norm(start)), 2),
        "windows": windows,
    }


def _window(turn: Turn, replies: Sequence[str], messages: Sequence[str]) -> dict[str, Any] | None:
    """The judgement after a turn; `None` if there is none."""
    levels = turn.evidence.get("levels")
    if turn.state is None or not isinstance(levels, Mapping):
        return None
    quotes, reasons = (printable_texts(turn.evidence.get(name)) for name in ("quotes", "reasons"))
    claims = []
    for key in form_keys():
        level = levels.get(key)
        if not isinstance(level, int) or not level:
            continue
        quote = quotes.get(key, "")
        claims.append([key, level, quote, reasons.get(key, ""), _places(quote, turn.index, replies, messages)])
    numbers = [turn.evidence.get(name) for name in ("energy", "alignment", "total")]
    window: dict[str, Any] = {
        "at": [short_number(turn.state.get(axis, 0.0)) for axis in AXES],
        "claims": claims,
        "numbers": [round(value, 2) if isinstance(value, (int, float)) and abs(value) < 1e9 else None for value in numbers],
    }
    act = turn.evidence.get("director")
    if isinstance(act, Mapping):
        window["act"] = [printable_texts(act).get(name, "") for name in ("function", "argument", "note", "reason")]
    return window


def _places(quote: str, turn: int, replies: Sequence[str], messages: Sequence[str]) -> list[list[Any]]:
    """Places of a quote: in the latest reply that contains it, else in the latest message of the user before it."""
    if not quote:
        return []
    for kind, texts in (("reply", replies[: turn + 1]), ("message", messages[: turn + 1])):
        for at in range(len(texts) - 1, -1, -1):
            if spans := spans_of(quote, texts[at]):
                place = at if kind == "reply" else at - 1  # message -1 is the opening
                return [[kind, place, utf16_place(texts[at], first), utf16_place(texts[at], last)] for first, last in spans]
    return []


_FULL = 100.0
"""EPM-Q at which a cell has the full tint."""


class Ending(NamedTuple):
    """A cause of the end for one model: key and label of `ENDINGS`, `success`, `failure` or `else`, dialogues, share in %."""

    key: str
    words: str
    kind: str
    n: int
    percent: float


class Endings(NamedTuple):
    """Causes of the ends of a model's dialogues, and the share in which each condition held at the end, in %."""

    number: int
    score: ModelRow
    n: int
    parts: list[Ending]
    conditions: dict[str, float | None]
    """By the condition's field in `Success` and `Failure`; `None` if the preset does not have it."""


class ScenarioCell(NamedTuple):
    """One model with one scenario: mean EPM-Q over `n` dialogues; address and cause of the end of the first one."""

    mean: float
    n: int
    tint: float
    address: str
    ending: str


class ScenarioRow(NamedTuple):
    """A scenario with all models; `None` if a model has no scored dialogue of it."""

    title: str
    person: str
    facts: str
    difficulty: str
    cells: list[ScenarioCell | None]


class EmpaBoard:
    """EMPA's tables and charts.

    Args:
        page: models and dialogues of the page.
    """

    axis_names = AXIS_NAMES
    components = COMPONENTS
    tiers = TIERS

    def __init__(self, page: PanelInput) -> None:
        self._ids = page.addresses
        self.all: list[Measured | None] = [measured(place, dialogue) for place, dialogue in enumerate(page.dialogues)]
        """By index on the page; `None` if nothing could be computed."""
        self.members: list[Member] = [
            (number, row, [m for i in page.basis[row.model] if (m := self.all[i]) is not None])
            for number, row in enumerate(page.models)
        ]
        self._measured = [m for *_, mine in self.members for m in mine]
        self.preset = next((m.dialogue.preset for m in self._measured), "")

    @cached_property
    def parts(self) -> dict[str, dict[str, Estimate]]:
        """Outcome, efficiency and stability by model."""
        return components_of(self.members)

    @cached_property
    def by_axis(self) -> dict[str, dict[str, Estimate]]:
        """EPM-Q of each dominant axis by model."""
        return {row.model: by_group(mine, AXES, lambda m: m.fact("axis")) for _, row, mine in self.members}

    @cached_property
    def by_tier(self) -> dict[str, dict[str, Estimate]]:
        """EPM-Q of each difficulty by model."""
        return {row.model: by_group(mine, TIERS, lambda m: m.fact("difficulty")) for _, row, mine in self.members}

    @cached_property
    def windows(self) -> dict[str, tuple[int, int]]:
        """Numbers of judged and of unjudged windows by model."""
        return {
            row.model: (sum(len(m.path.judged) for m in mine), sum(len(m.path.unjudged) for m in mine))
            for _, row, mine in self.members
        }

    @property
    def unjudged(self) -> int:
        """Number of unjudged windows of all models."""
        return sum(without for _, without in self.windows.values())

    @cached_property
    def indices(self) -> list[tuple[str, list[BarPanel]]]:
        """The nine index panels by component."""
        return index_panels([member for member in self.members if member[2]])

    @cached_property
    def profiles(self) -> list[Profile]:
        """The profiles with enough groups."""
        shown = [member for member in self.members if member[2]]
        return [profile for key in PROFILES if (profile := profile_of(key, shown)) is not None]

    @cached_property
    def endings(self) -> list[Endings]:
        """Causes of the ends, for each model with a scored dialogue."""
        rows = []
        for number, row, mine in self.members:
            counts = Counter(m.ending for m in mine)
            parts = [
                Ending(key, label, _kind(key), counts[key], 100.0 * counts[key] / len(mine))
                for key, label in ENDINGS.items()
                if counts[key]
            ]
            if mine:
                rows.append(Endings(number, row, len(mine), parts, _conditions(mine)))
        return rows

    @property
    def endings_met(self) -> list[Ending]:
        """The causes that occur, for the legend."""
        keys = {part.key for line in self.endings for part in line.parts}
        return [Ending(key, label, _kind(key), 0, 0.0) for key, label in ENDINGS.items() if key in keys]

    @cached_property
    def frame(self) -> PlaneFrame:
        """The frame of all planes."""
        return frame_of(self._measured)

    @cached_property
    def paths(self) -> list[ModelPaths]:
        """The paths by model."""
        return model_paths(self.members, self.frame)

    @cached_property
    def step_means(self) -> list[StepMeans]:
        """Mean size and alignment of the steps by model."""
        return step_means(self.members)

    @cached_property
    def step_plots(self) -> tuple[StepPlot, StepPlot]:
        """The chart of `step_means` for a wide and for a narrow window."""
        return (step_plot(self.step_means), step_plot(self.step_means, width=360.0, height=320.0))

    @cached_property
    def scenarios(self) -> list[tuple[str, list[ScenarioRow]]]:
        """Scenarios by difficulty, from easy to extreme, then by falling mean score."""
        by_scenario: dict[tuple[str, str], dict[str, list[Measured]]] = {}
        for m in self._measured:
            key = (m.dialogue.scenario, m.dialogue.fingerprint)
            by_scenario.setdefault(key, {}).setdefault(m.dialogue.model, []).append(m)
        rows = []
        for by_model in by_scenario.values():
            first = next(iter(by_model.values()))[0]
            facts = " · ".join(filter(None, (first.fact("axis"), first.fact("domain"), _threshold(first))))
            cells = [self._cell(by_model.get(row.model, [])) for _, row, mine in self.members if mine]
            person = first.fact("person")
            title = first.fact("title") or first.dialogue.scenario
            rows.append(ScenarioRow(title, person if person != title else "", facts, first.fact("difficulty"), cells))

        def order(row: ScenarioRow) -> tuple[float, str]:
            return -statistics.fmean(cell.mean for cell in row.cells if cell is not None), row.title

        tiers: list[str] = [*TIERS, *sorted({row.difficulty for row in rows} - {*TIERS})]
        table = [(tier, sorted((row for row in rows if row.difficulty == tier), key=order)) for tier in tiers]
        return [(tier, lines) for tier, lines in table if lines]

    def _cell(self, mine: Sequence[Measured]) -> ScenarioCell | None:
        if not mine:
            return None
        mean = statistics.fmean(m.epmq.score for m in mine)
        tint = round(min(1.0, max(0.0, mean / _FULL)), 3)
        return ScenarioCell(mean, len(mine), tint, self._ids[mine[0].place], ENDINGS[mine[0].ending])

    def data(self) -> dict[str, Any]:
        """Data of the chart in space: axes, difficulties, zone, and the steps of each dialogue by index on the page."""
        return {"axes": list(AXES), "tiers": list(TIERS), "zone": -1, "rows": steps_of(self.all)}


def _kind(ending: str) -> str:
    return "success" if ending in SUCCEEDED else "failure" if ending in FAILED else "else"


def _threshold(m: Measured) -> str:
    threshold = m.fact("threshold")
    return f"{threshold} threshold" if threshold else ""


def _conditions(mine: Sequence[Measured]) -> dict[str, float | None]:
    """Share of the dialogues, in %, in which each condition held at the end."""
    conditions: dict[str, list[bool | None]] = {}
    for m in mine:
        for name, value in {**m.success._asdict(), **m.failure._asdict()}.items():
            conditions.setdefault(name, []).append(value)
    return {
        name: None if any(value is None for value in values) else 100.0 * sum(map(bool, values)) / len(values)
        for name, values in conditions.items()
    }


_SECTIONS = (
    ("components", "Components"), ("paths", "Paths"), ("steps", "Size and direction"), ("ends", "Endings"),
    ("indices", "Indices"), ("profiles", "Profiles"), ("cases", "Scenarios"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    """The columns, sections and values of the page, for `panel.html`."""
    empa = EmpaBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    windows = sorted({window for d in page.dialogues if (window := d.facts.get("window"))})
    warnings: tuple[str, ...] = ()
    if empa.unjudged:
        windows_are = "window was not judged and is" if empa.unjudged == 1 else "windows were not judged and are"
        warnings = (f"{empa.unjudged} {windows_are} excluded from all numbers; see Components for the count of each model.",)
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                name.capitalize(),
                {model: parts[name].mean for model, parts in empa.parts.items() if name in parts},
                0,
                "components",
            )
            for name in empa.components
        ),
        leaderboard_help=f"Computed by preset {preset}; another preset gives other numbers for the same dialogues. "
        "Outcome, efficiency and stability are means; their intervals are under Components.",
        facts=(("Judged after", ", ".join("every reply" if window == "1" else f"{window} replies" for window in windows)),),
        warnings=warnings,
        sections=_SECTIONS,
        context={"empa": empa},
        data=empa.data(),
    )


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = (
        facts.get("person"),
        facts.get("place"),
        facts.get("theme"),
        f"largest deficit on {facts['axis']}" if facts.get("axis") else "",
        facts.get("difficulty"),
        f"{facts['threshold']} threshold" if facts.get("threshold") else "",
    )
    return ScenarioView(" · ".join(filter(None, line)))


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Thoughts, without the lines per axis, which the window shows (`windows`)."""
    return TurnView({name: text for name, text in turn.thoughts.items() if name not in (turn.state or {})})


def published_results() -> Published:
    rows: Any = published(__package__, "empa_table07_leaderboard")
    leaderboard = PublishedTable(
        source="EMPA, Table 7",
        title="Leaderboard",
        help="Means over 30 scenarios. EPM-Q is 0.4 outcome + 0.2 efficiency + 0.4 stability. The paper prints no interval.",
        columns=(
            Column("#", digits=0, entry="published-epmq"),
            Column("EPM-Q", range=Range(0, 120, 0), entry="published-epmq"),
            *(Column(name, entry="published-epmq") for name in ("Outcome", "Efficiency", "Stability")),
        ),
        rows=tuple(
            Row(row["model"], (row["rank"], row["epm_q"], row["outcome"], row["efficiency"], row["stability"])) for row in rows
        ),
    )
    return Published(
        title="EPM-Q and its components",
        tables=(leaderboard,),
        conditions="EMPA’s were measured with its authors’ own user, judge and director on 30 scenarios in Chinese, by preset "
        "released.",
        papers=("EMPA: Evaluating Persona-Aligned Empathy as a Process",),
    )


PANEL = ReportPanel(
    build=build,
    question="How much of the user’s deficit do the replies make good?",
    lede="Each scenario has a deficit on three axes: to be understood (C), to be felt with (A), to become active again (P). A "
    "judge rates the effect of every reply on each axis, with quotes as evidence, so that a dialogue is a path from the deficit "
    "towards the balance. The score, EPM-Q, measures how far the path leads, how directly, and how steadily: about 100 makes "
    "good the whole deficit.",
    leaves_out=frozenset({"groups"}),
    trajectories=(
        "EPM-Q by turn",
        "One step in the right direction already has full stability, so the curves rise at the first reply.",
    ),
    scenario=_scenario,
    turn=_turn,
    dialogue=journey,
    published=published_results,
    package=__package__,
    glossary="templates/glossary.html",
    template="templates/panel.html",
    script="templates/panel.js",
    style="templates/panel.css",
)
