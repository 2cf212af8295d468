"""How the scenarios of a set spread: numbers by group as mean and deviation, and counts of their features."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from heartloop.environments.spec import Scenarios

ALL = "all"
"""The row over all groups."""


class Spread(NamedTuple):
    groups: Mapping[str, int]
    """Number of scenarios by stratum, and of all."""
    numbers: Mapping[str, Mapping[str, tuple[float, float]]]
    """By stratum and name: mean and sample standard deviation (ddof 1; 0 for one scenario)."""
    counts: Mapping[str, Mapping[str, int]]
    """By name of a feature and its value, most frequent first."""


def spread_of(kind: Scenarios, scenarios: Sequence[Any]) -> Spread:
    by_stratum: dict[str, list[Mapping[str, float | str | Sequence[str]]]] = {}
    for scenario in scenarios:
        by_stratum.setdefault(str(scenario.stratum), []).append(kind.spread(scenario))
    if len(by_stratum) != 1:
        by_stratum[ALL] = [*chain.from_iterable(by_stratum.values())]
    every = next(reversed(by_stratum.values()))
    features: dict[str, Counter[str]] = {}
    for name, value in chain.from_iterable(found.items() for found in every):
        if not isinstance(value, int | float):
            features.setdefault(name, Counter()).update([value] if isinstance(value, str) else value)
    return Spread(
        {stratum: len(found) for stratum, found in by_stratum.items()},
        {stratum: _numbers(found) for stratum, found in by_stratum.items()},
        {name: dict(values.most_common()) for name, values in features.items()},
    )


def _numbers(found: Sequence[Mapping[str, float | str | Sequence[str]]]) -> dict[str, tuple[float, float]]:
    by_name: dict[str, list[float]] = {}
    for name, value in chain.from_iterable(one.items() for one in found):
        if isinstance(value, int | float):
            by_name.setdefault(name, []).append(value)
    return {name: (statistics.fmean(of), statistics.stdev(of) if len(of) > 1 else 0.0) for name, of in by_name.items()}


def lines_of(spread: Spread, printed: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """A table with a row per group, below it what was `printed` of the same group; then a line per feature, with the same."""
    names = list(dict.fromkeys(chain.from_iterable(spread.numbers.values())))
    rows = [["", "n", *names]]
    for stratum, n in spread.groups.items():
        of = spread.numbers[stratum]
        rows.append([stratum, f"{n:,}", *(f"{of[name][0]:.0f} ± {of[name][1]:.0f}" if name in of else "–" for name in names)])
        if stratum in printed:
            rows.append(["  published", *(printed[stratum].get(name, "–") for name in ("n", *names))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        yield "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))])
    for name, values in spread.counts.items():
        given = printed.get(name, {})
        each = [f"{value} {n:,}" + (f" (published {given[value]})" if value in given else "") for value, n in values.items()]
        yield f"{name}: {'; '.join(each)}"
