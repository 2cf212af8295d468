"""Charts as numbers for the templates: every axis, tick and path of the report is computed here, in pixels of an SVG."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from heartloop.core.blocks import Chart, Point

MOST_LINES = 400
"""Lines drawn in one panel; of more dialogues every k-th is drawn, and the panel says so."""
_DASHES = ("", "7 4", "2 4", "9 3 2 3")
PALETTE = 8
"""Colours that readers can distinguish, also with a colour vision deficiency."""
_SPREAD = 6.0  # ratio of the largest value to the median from which the axis of `Chart.log_x` is logarithmic


class Frame(NamedTuple):
    """The box of a plot in pixels, the turns of its x axis, and the points at its floor and ceiling."""

    left: float
    top: float
    width: float
    height: float
    turns: int
    low: float
    high: float

    def x(self, turn: float) -> float:
        return round(self.left + self.width * turn / max(1, self.turns), 1)

    def y(self, points: float) -> float:
        return round(self.top + self.height * (self.high - points) / (self.high - self.low), 1)


class Mark(NamedTuple):
    x: float
    y: float
    low: float | None
    high: float | None
    x_low: float | None
    x_high: float | None
    square: bool


class DrawnSeries(NamedTuple):
    """A series: its style class, marks, paths, dashes and number (0: none); the number of a line is drawn at `label_y`."""

    name: str
    colour: str
    marks: list[Mark]
    path: str
    raw: str
    area: str
    dashes: str
    number: int
    label_y: float
    opacity: float


class Drawn(NamedTuple):
    """A chart in pixels; ticks are (pixel, label), zones (top, height, tint, name), bars of width `bar` rise from `zero`."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    bar: float
    zero: float
    line: float | None
    line_name: str
    line_name_y: float
    diagonal: bool
    series: list[DrawnSeries]
    ticks_x: list[tuple[float, str]]
    ticks_y: list[tuple[float, str]]
    zones: list[tuple[float, float, str, str]]
    logarithmic: bool
    categories: bool
    axes: str
    """Ends of both axes in pixels and in values, for the script that shows the values of a point."""


class Spoke(NamedTuple):
    name: str
    end: tuple[float, float]
    label: tuple[float, float]
    anchor: str
    value: float | None


class Radar(NamedTuple):
    """A radar in pixels: rings are (radius, label), values of spokes those of the first series, and the path of a series is
    closed if it has a point on each spoke."""

    width: float
    height: float
    centre: tuple[float, float]
    rings: list[tuple[float, str]]
    spokes: list[Spoke]
    series: list[DrawnSeries]


def radar(chart: Chart, *, width: float = 460.0, height: float = 280.0) -> Radar:
    names = list(chart.spokes or dict.fromkeys(str(point.x) for one in chart.series for point in one.points))
    values = {str(point.x): point.y for one in chart.series[:1] for point in one.points}
    low, high = _ends([point.y for one in chart.series for point in one.points], chart.low, chart.high, zero=True)
    centre, radius = (width / 2, height / 2), height / 2 - 40.0
    ways = [(math.sin(turn), -math.cos(turn)) for turn in (2.0 * math.pi * place / len(names) for place in range(len(names)))]

    def at(place: int, away: float) -> tuple[float, float]:
        return round(centre[0] + ways[place][0] * away, 1), round(centre[1] + ways[place][1] * away, 1)

    def far(value: float) -> float:
        return round(radius * (min(high, max(low, value)) - low) / (high - low), 1)

    spokes = []
    for place, name in enumerate(names):
        across, up = ways[place]
        x, y = at(place, radius + 11.0)
        y += 4.0 * (1.0 + up) - (12.0 if up < -0.9 else 0.0)  # two lines of text, above the top spoke
        anchor = "middle" if abs(across) < 0.2 else "start" if across > 0 else "end"
        spokes.append(Spoke(name, at(place, radius), (x, round(y, 1)), anchor, values.get(name)))
    series = []
    for number, one in enumerate(chart.series):
        corners = [at(names.index(str(point.x)), far(point.y)) for point in one.points]
        marks = [Mark(x, y, None, None, None, None, False) for x, y in corners]
        path = f"{_path(corners)}Z" if len(corners) == len(names) else ""
        colour = f"h{number % PALETTE}" if one.model is None else f"m{one.model}"
        series.append(DrawnSeries(one.name, colour, marks, path, "", "", dashes_of(number), 0, 0.0, one.opacity))
    ticks = [tick for tick in _ticks(low, high, 5 if height > 250.0 else 3) if tick > low]
    return Radar(width, height, centre, [(far(tick), _label(tick, ticks)) for tick in ticks], spokes, series)


def drawn(chart: Chart, *, width: float = 720.0, height: float = 320.0) -> Drawn:
    points = [point for one in chart.series for point in (*one.points, *one.raw)]
    words = list(dict.fromkeys(str(p.x) for p in points if chart.form == "bars" or isinstance(p.x, str)))
    across = [float(x) for p in points if not words for x in (p.x, p.x_low, p.x_high) if x is not None]
    logarithmic = chart.log_x and max(across, default=0.0) >= _SPREAD * max(1.0, statistics.median(across or [0.0]))
    values = [value for p in points for value in (p.y, p.low, p.high) if value is not None]
    low, high = _ends(values, chart.low, chart.high, zero=True)
    first, last = _ends(across, chart.x_low, chart.x_high, zero=False)
    if chart.form == "points" and chart.x_high is None and not logarithmic:
        last += 0.04 * (last - first)
    ticks_y = _ticks(low, high, 5)
    labels = [_label(value, ticks_y) for value in ticks_y]
    left, top = 12.0 + 6.6 * max(map(len, labels), default=1), 14.0
    right = width - (36.0 if any(name for name, *_ in chart.zones) or (chart.numbered and chart.form == "lines") else 16.0)
    bottom = height - 24.0
    slot = (right - left) / max(1, len(words))
    if logarithmic:
        decades = [10.0**n for n in range(math.floor(math.log10(max(1.0, min(across)))), math.ceil(math.log10(last)) + 1)]
        ticks_x, first, last = decades, decades[0], decades[-1]
    else:
        ticks_x = [] if words else _ticks(first, last, 8 if width > 500 else 4, whole=all(x == int(x) for x in across))

    def x(value: float | str) -> float:
        if words:
            return round(left + slot * (words.index(str(value)) + 0.5), 1)
        at = min(last, max(first, float(value)))
        share = math.log(at / first) / math.log(last / first) if logarithmic else (at - first) / ((last - first) or 1.0)
        return round(left + (right - left) * share, 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (min(high, max(low, value)) - low) / (high - low), 1)

    bar = round(0.8 * slot / max(1, len(chart.series)), 1)
    series = []
    for place, one in enumerate(chart.series):
        shift = bar * (place - (len(chart.series) - 1) / 2) if chart.form == "bars" else 0.0
        marks = [_mark(point, x, y, shift) for point in one.points]
        lines = chart.form == "lines" and bool(marks)
        spread = [mark for mark in marks if mark.low is not None and mark.high is not None] if chart.bands else []
        area = _path([*((m.x, m.high or 0.0) for m in spread), *((m.x, m.low or 0.0) for m in reversed(spread))])
        colour = f"h{place % PALETTE}" if one.model is None else f"m{one.model}"
        series.append(
            DrawnSeries(
                name=one.name,
                colour=colour,
                marks=marks,
                path=_path((mark.x, mark.y) for mark in marks) if lines else "",
                raw=_path((x(p.x), y(p.y)) for p in one.raw),
                area=area + "Z" if area else "",
                dashes=dashes_of(place) if lines and one.opacity == 1.0 else "",
                number=place + 1 if chart.numbered else 0,
                label_y=marks[-1].y if marks else 0.0,
                opacity=one.opacity,
            )
        )
    line = None if chart.line is None else y(chart.line)
    return Drawn(
        width, height, left, top, right, bottom, bar,
        zero=y(max(low, min(high, 0.0))),
        line=line,
        line_name=chart.line_name,
        line_name_y=0.0 if line is None else _beside(line, [m.y for s in series for m in s.marks if m.x > (left + right) / 2]),
        diagonal=chart.diagonal,
        series=_apart(series, bottom) if chart.numbered and chart.form == "lines" else series,
        ticks_x=[(x(word), word) for word in words]
        or [(x(value), _label(value, [value] if logarithmic else ticks_x)) for value in ticks_x],
        ticks_y=[(y(value), label) for value, label in zip(ticks_y, labels, strict=True)],
        zones=[(y(zone_high), y(zone_low) - y(zone_high), tint, name) for name, tint, zone_low, zone_high in chart.zones],
        logarithmic=logarithmic,
        categories=bool(words),
        axes="" if words else f"{left:g} {right:g} {first:g} {last:g} {bottom:g} {top:g} {low:g} {high:g} {int(logarithmic)}",
    )  # fmt: skip


def dashes_of(place: int) -> str:
    """Dashes of the line at a place: no two of the first 32 lines share colour and dashes."""
    return _DASHES[(place + place // PALETTE) % len(_DASHES)]


def _mark(point: Point, x: Callable[[float | str], float], y: Callable[[float], float], shift: float) -> Mark:
    low, high = (None if value is None else y(value) for value in (point.low, point.high))
    x_low, x_high = (None if value is None else x(value) for value in (point.x_low, point.x_high))
    return Mark(round(x(point.x) + shift, 1), y(point.y), low, high, x_low, x_high, point.square)


def _path(pixels: Iterable[tuple[float, float]]) -> str:
    at = [f"{x:g} {y:g}" for x, y in pixels]
    return "M" + "L".join(at) + ("h0.01" if len(at) == 1 else "") if at else ""


def _apart(lines: Sequence[DrawnSeries], bottom: float) -> list[DrawnSeries]:
    """Moves the numbers of lines that end at one x apart: up from the axis, each above the one below."""
    placed: list[DrawnSeries] = []
    for line in sorted((one for one in lines if one.marks), key=lambda one: -one.label_y):
        taken = [other.label_y - 13.0 for other in placed if other.marks[-1].x == line.marks[-1].x]
        placed.append(line._replace(label_y=round(min([line.label_y, bottom, *taken]), 1)))
    return sorted(placed, key=lambda one: one.number)


def _beside(line: float, taken: Sequence[float]) -> float:
    """Where the name of a horizontal line is drawn: on the side of it whose nearest mark is further away, first above it."""
    above, below = max([y for y in taken if y <= line], default=-math.inf), min([y for y in taken if y >= line], default=math.inf)
    return line - 5.0 if line - above >= below - line else line + 14.0


def _ends(values: Sequence[float], low: float | None, high: float | None, *, zero: bool) -> tuple[float, float]:
    """Ends of an axis: the given ones, else those of the values; never equal."""
    first = low if low is not None else min([*values, *([0.0] if zero else [])], default=0.0)
    last = high if high is not None else max(values, default=first + 1.0)
    if last - first > max(abs(last) * 1e-9, 1e-9):
        return first, last
    wide = abs(last) * 0.1 if abs(last) > 1e-9 else 1.0  # a flat line in the middle; a bar from 0
    return (first, last + wide) if zero and low is None else (first - wide / 2, last + wide / 2)


def _ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Round values from `low` to `high`, at most one more than `most`.

    >>> _ticks(0.0, 456.0, 8), _ticks(-0.29, 0.14, 5)
    ([0.0, 100.0, 200.0, 300.0, 400.0], [-0.2, -0.1, 0.0, 0.1])
    >>> _ticks(0.0, 3.0, 8, whole=True)
    [0.0, 1.0, 2.0, 3.0]
    """
    size = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(size))
    step = next(factor * unit for factor in (1.0, 2.0, 5.0, 10.0) if factor * unit >= size * (1 - 1e-9))
    step = max(1.0, step) if whole else step
    return [round(n * step, 12) + 0.0 for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _label(value: float, ticks: Sequence[float]) -> str:
    """
    >>> _label(0.2, [0.0, 0.2]), _label(1500.0, [1000.0, 1500.0])
    ('0.2', '1.5k')
    """
    largest = max(abs(tick) for tick in ticks)
    for limit, unit, letter in ((1e6, 1e6, "M"), (1e3, 1e3, "k")):
        if largest >= limit and value:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def mean_curve(curves: Sequence[Sequence[float]], turns: int) -> list[float]:
    """Mean at turn 0 .. turns; a dialogue that ended earlier is carried forward at its last value.

    >>> mean_curve([[40, 50, 60], [40, 30]], 3)
    [40.0, 40.0, 45.0, 45.0]
    """
    filled = [curve for curve in curves if curve]
    shown = range(turns + 1 if filled else 0)
    return [statistics.fmean([curve[min(turn, len(curve) - 1)] for curve in filled]) for turn in shown]


def path_of(curve: Sequence[float], frame: Frame) -> str:
    """
    >>> path_of([40, 50], Frame(left=0, top=0, width=100, height=100, turns=10, low=0, high=100))
    'M0 60l10-10'
    """
    points = [(frame.x(turn), frame.y(value)) for turn, value in enumerate(curve)]
    steps = [f"M{x:g} {y:g}" for x, y in points[:1]]
    for (x0, y0), (x1, y1) in pairwise(points):
        dx, dy = f"{x1 - x0:.3g}", f"{y1 - y0:.3g}"
        steps.append(f"l{dx}{'' if dy.startswith('-') else ' '}{dy}")
    return "".join(steps)


def faint_lines(curves: Sequence[Sequence[float]], frame: Frame) -> list[tuple[str, float]]:
    """A path and its opacity for each distinct course: the more dialogues took it, the more opaque, as if drawn one by one."""
    shown = curves[:: max(1, -(-len(curves) // MOST_LINES))]
    courses = Counter(path_of(curve, frame) for curve in shown if curve)
    one = min(0.4, max(0.09, 8.0 / max(1, len(shown))))
    return [(path, round(1.0 - (1.0 - one) ** times, 2)) for path, times in courses.items()]
