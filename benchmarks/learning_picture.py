"""Curves of training runs as one SVG, light and dark: on the left the training reward by step, on the right the held-out score.

Axes and bands are those of `heartloop report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from heartloop.core.blocks import Chart
from heartloop.report.drawing import drawn
from heartloop.report.training import SMOOTHING, Band, band_of, band_series

__all__ = ["panels", "picture"]

COLOURS = (("#23658f", "#6fb3dd"), ("#b1532a", "#e59a73"), ("#5c7f2f", "#a5c772"), ("#82489c", "#c795dd"), ("#6b6b6b", "#b0b0b0"))
"""Of the rows, on light and on dark ground."""
WIDTH, HEIGHT, HEAD, GAP = 380.0, 230.0, 62.0, 20.0
STYLE = """text { font: 12px system-ui, sans-serif; fill: #4a5260 } .head { font-weight: 600; fill: #1d2228 }
.grid { stroke: #8883; } .zero { stroke: #8889 } path { fill: none; stroke: var(--c); stroke-width: 2 }
.raw { stroke-width: 0.8; opacity: 0.5 } .band { fill: var(--c); stroke: none; opacity: 0.15 } circle { fill: var(--c) }"""
DARK = "text { fill: #b3b9c2 } .head { fill: #e8e6e1 }"


def picture(heading: str, by_what: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The curves of the rows of one table.

    Args:
        by_what: for each row its runs, which differ in their seed, as `learning.found_of` gives them.
    """
    training = [band_of([dict(enumerate(run["training"], start=1)) for run in runs]) for runs in by_what.values()]
    held_out = [
        band_of([{at["step"]: at["mean"] for at in run["held_out"]} for run in runs], unsmoothed=True)
        for runs in by_what.values()
    ]
    last = max(run["held_out"][-1]["step"] for runs in by_what.values() for run in runs)
    left = (f"Training reward by step, and moving average ({SMOOTHING:g})", training)
    title = f"{heading}: training reward and held-out score, by step"
    return panels(title, list(by_what), [left, ("Held-out score, by step", held_out)], last)


def panels(title: str, names: Sequence[str], drawn_bands: Sequence[tuple[str, Sequence[Band | None]]], last: int) -> str:
    """An SVG of panels next to each other, each with its title and a curve for every name, from 0 to `last`."""
    colours = COLOURS[: max(4, len(names))]
    light = "".join(f".c{n} {{ --c: {colour} }} " for n, (colour, _) in enumerate(colours))
    dark = "".join(f".c{n} {{ --c: {colour} }} " for n, (_, colour) in enumerate(colours))
    wide, high = len(drawn_bands) * (WIDTH + GAP) - GAP, HEAD + HEIGHT
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}\n{light}\n@media (prefers-color-scheme: dark) {{ {DARK} {dark}}}</style>",
        *_legend(names),
        *(line for n, (head, bands) in enumerate(drawn_bands) for line in _panel(head, bands, last, n * (WIDTH + GAP))),
        "</svg>\n",
    ])  # fmt: skip


def _legend(names: Sequence[str]) -> list[str]:
    said, left = [], 44.0
    for place, name in enumerate(names):
        said.append(f'<g class="c{place % len(COLOURS)}"><circle cx="{left:g}" cy="16" r="5"/>')
        said.append(f'<text x="{left + 10:g}" y="20">{escape(name.replace("_", " "))}</text></g>')
        left += 34.0 + 7.0 * len(name)
    return [*said, f'<text x="{left:g}" y="20">line: mean of the seeds; band: lowest to highest</text>']


def _panel(title: str, bands: Sequence[Band | None], last: int, left: float) -> list[str]:
    there = [(place, band) for place, band in enumerate(bands) if band is not None]
    said = [f'<g transform="translate({left:g} {HEAD:g})">', f'<text class="head" x="44" y="-8">{title}</text>']
    if there:
        values = [value for _, band in there for curve in (band.raw, band.low, band.high) for value in curve.values()]
        low, high = min(values), max(values)
        zero = 0.0 if low < 0.0 < high else None
        series = tuple(band_series("", band) for _, band in there)
        chart = drawn(
            Chart(title, "lines", series, "", "", low, high, x_low=0, x_high=last, line=zero, bands=True),
            width=WIDTH,
            height=HEIGHT,
        )
        for at, words in chart.ticks_y:
            said.append(f'<line class="grid" x1="{chart.left:g}" x2="{chart.right:g}" y1="{at:g}" y2="{at:g}"/>')
            said.append(f'<text x="{chart.left - 6:g}" y="{at + 4:g}" text-anchor="end">{words}</text>')
        said += [f'<text x="{at:g}" y="{chart.bottom + 18:g}" text-anchor="middle">{words}</text>' for at, words in chart.ticks_x]
        if chart.line is not None:
            said.append(f'<line class="zero" x1="{chart.left:g}" x2="{chart.right:g}" y1="{chart.line:g}" y2="{chart.line:g}"/>')
        for (place, _), one in zip(there, chart.series, strict=True):
            paths = "".join(
                f'<path class="{kind}" d="{path}"/>'
                for kind, path in (("band", one.area), ("raw", one.raw), ("line", one.path))
                if path
            )
            end = one.marks[-1]
            said.append(f'<g class="c{place % len(COLOURS)}">{paths}<circle cx="{end.x:g}" cy="{end.y:g}" r="3"/></g>')
    return [*said, "</g>"]
