"""EMPA's profiles: components and indices of EPM-Q, and EPM-Q by groups of scenarios, with intervals, as bars and radars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from heartloop.core.blocks import Estimate, ModelRow, Range
from heartloop.environments.empa.report.measured import Measured
from heartloop.environments.empa.scenario import DOMAINS, Difficulty
from heartloop.environments.empa.scoring import AXES, INDICES
from heartloop.scoring.statistics import estimate

__all__ = [
    "AXIS_NAMES", "COMPONENTS", "INDEX_NAMES", "PROFILES", "TIERS", "Bar", "BarPanel", "Member", "Profile", "Radar", "Spoke",
    "by_group", "components_of", "index_panels", "profile_of",
]  # fmt: skip

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
