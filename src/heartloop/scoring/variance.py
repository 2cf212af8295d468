"""Variance components of crossed repeats, and a mean over several judges with their variance in its interval.

Sources: expected mean squares by Cornfield and Tukey 1956 (Searle, Casella and McCulloch 1992, Variance Components, chapter 4);
degrees of freedom by Satterthwaite 1946. Departure: an estimate below 0, which has no meaning as a variance, is reported as
`raw` and counts as 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import check_share, t_quantile

_Floats = np.ndarray[Any, np.dtype[np.float64]]


class Component(NamedTuple):
    name: str
    """Its factors, ` × ` between them; a nested factor stands for those that it is nested in, too."""
    variance: float
    """In squared units of the values, at least 0."""
    share: float
    """Of the sum of all components, in [0, 1]; nan if that is 0."""
    df: int
    mean_square: float
    raw: float
    """The estimate before negative ones are set to 0."""


class Components(NamedTuple):
    mean: float
    components: tuple[Component, ...]
    """Main effects first; the last one contains what no factor explains."""


def variance_components(
    values: Sequence[float], factors: Mapping[str, Sequence[Hashable]], *, within: Mapping[str, Sequence[str]] | None = None
) -> Components:
    """Variance components of a balanced design in which every factor is random.

    The mean square of a term has the expectation sum over T' that contain the term of (N / number of cells of T') * variance of
    T'; the equations are solved from the largest term down. Without repeats of whole cells, the term of all factors and the error
    cannot be separated, and are one component. The component between values of one cell is named `rerun`.
    `factors` are the levels of each value, shape (n,), by name; one with one level is left out. `within` names nested factors and
    those in whose cells their levels are numbered.

    >>> found = variance_components([1.0, 3.0, 5.0, 7.0], {"scenario": ["a", "a", "b", "b"], "judge": [1, 2, 1, 2]})
    >>> [(one.name, one.variance, one.share) for one in found.components]  # scenarios differ by 4, judges by 2, nothing else
    [('scenario', 8.0, 0.8), ('judge', 2.0, 0.2), ('scenario × judge', 0.0, 0.0)]
    """
    names = [name for name, levels in factors.items() if len(set(levels)) > 1]
    parents = {name: [p for p in (within or {}).get(name, ()) if p in names] for name in names}
    _check_design(values, factors, within or {}, names)
    table = _table(values, {name: factors[name] for name in names}, parents)
    axes = {name: axis for axis, name in enumerate(names)}
    *shape, replicates = table.shape
    cells = table.mean(axis=-1)
    n = table.size
    squares: defaultdict[frozenset[str], float] = defaultdict(float)
    degrees: defaultdict[frozenset[str], int] = defaultdict(int)
    for size in range(1, len(names) + 1):
        for chosen in combinations(names, size):
            term = frozenset(chosen).union(*(parents[name] for name in chosen))
            squares[term] += n / cells.size * _effect_squares(cells, [axes[name] for name in chosen])
            degrees[term] += math.prod(shape[axes[name]] - 1 for name in chosen)
    terms = sorted(squares, key=lambda term: (len(term), [axes[name] for name in sorted(term, key=axes.__getitem__)]))
    mean_squares = {term: squares[term] / degrees[term] for term in terms}
    error = float(np.sum((table - cells[..., None]) ** 2)) / (n - cells.size) if replicates > 1 else 0.0
    each = {term: n / math.prod(shape[axes[name]] for name in term) for term in terms}
    raw: dict[frozenset[str], float] = {}
    for term in reversed(terms):
        larger = sum(each[other] * raw[other] for other in raw if other > term)
        raw[term] = (mean_squares[term] - larger - error) / each[term]
    rows = [(_label(term, names, parents), raw[term], degrees[term], mean_squares[term]) for term in terms]
    if replicates > 1:
        rows.append(("rerun", error, n - cells.size, error))
    total = sum(max(0.0, variance) for _, variance, _, _ in rows)
    return Components(
        mean=float(table.mean()),
        components=tuple(
            Component(name, max(0.0, v), max(0.0, v) / total if total else math.nan, int(df), float(square), float(v))
            for name, v, df, square in rows
        ),
    )


def _check_design(
    values: Sequence[float], factors: Mapping[str, Sequence[Hashable]], within: Mapping[str, Sequence[str]], names: Sequence[str]
) -> None:
    if not len(values) or not all(map(math.isfinite, values)):
        raise UseError(f"variance_components got {len(values)} values, or one that is not finite; expected finite ones")
    for name, levels in factors.items():
        if len(levels) != len(values):
            raise UseError(f"variance_components got {len(values)} values and {len(levels)} levels of {name}; expected as many")
    if unknown := [name for pair in within.items() for name in (pair[0], *pair[1]) if name not in factors]:
        raise UseError(f"within names {unknown[0]!r}; expected one of {', '.join(factors)}")
    if not names:
        raise UseError(f"variance_components got one level of each of {', '.join(factors) or 'no factor'}; expected two of one")


def _table(values: Sequence[float], factors: Mapping[str, Sequence[Hashable]], parents: Mapping[str, Sequence[str]]) -> _Floats:
    """The values as an array with an axis by factor and a last one of the values of a cell."""
    places: list[list[int]] = []
    for name, levels in factors.items():
        known: dict[Hashable, dict[Hashable, int]] = {}
        above = [factors[parent] for parent in parents[name]]
        cells = [tuple(column[i] for column in above) for i in range(len(values))]
        places.append([known.setdefault(c, {}).setdefault(v, len(known[c])) for c, v in zip(cells, levels, strict=True)])
    keys = list(zip(*places, strict=True))
    counts = Counter(keys)
    shape = tuple(max(place) + 1 for place in places)
    if len(counts) != math.prod(shape) or len(set(counts.values())) != 1:
        fewest = min(counts.values()) if len(counts) == math.prod(shape) else 0
        sizes = " × ".join(f"{n} of {name}" for name, n in zip(factors, shape, strict=True))
        raise UseError(
            f"the design is incomplete: a cell of {sizes} has {fewest} values and another {max(counts.values())}; "
            "expected the same number in each: leave incomplete scenarios out"
        )
    order = np.lexsort(places[::-1])  # values of one cell keep their order
    return np.asarray(values, dtype=np.float64)[order].reshape(*shape, counts[keys[0]])


def _effect_squares(cells: _Floats, axes: Sequence[int]) -> float:
    """Sum over all cells of the squared interaction effect of some axes."""
    effect = cells
    for axis in range(cells.ndim):
        mean = effect.mean(axis=axis, keepdims=True)
        effect = effect - mean if axis in axes else mean
    return float(np.sum(effect**2)) * cells.size / effect.size


def _label(term: frozenset[str], names: Sequence[str], parents: Mapping[str, Sequence[str]]) -> str:
    implied = {parent for name in term for parent in parents[name]}
    return " × ".join(name for name in names if name in term and name not in implied)


class JudgeMean(NamedTuple):
    mean: float
    low: float
    high: float
    df: float
    """Satterthwaite's degrees of freedom, at least 1."""
    shares: Mapping[str, float]
    """Shares of the variance of the mean by source: `scenario`, `judge`, `scenario × judge`; empty if it is 0."""
    components: Components


def mean_over_judges(
    values: Sequence[float], scenarios: Sequence[Hashable], judges: Sequence[Hashable], *, level: float = 0.95
) -> JudgeMean:
    """Mean over judges with an interval that includes the variance between judges, for judges drawn from many.

    With S scenarios, J judges and the mean squares of the table of cell means, the variance of the mean is (MS_scenario +
    MS_judge - MS_interaction) / (S J), with Satterthwaite's degrees of freedom. A component below 0 counts as 0. With two or
    three judges that differ the interval is wide, because so few say little about other judges; with two that differ much it
    still covers only 89 % (benchmarks/results/coverage.md).
    Values of one scenario and judge are averaged.

    >>> found = mean_over_judges([1.0, 3.0, 5.0, 7.0], ["a", "a", "b", "b"], ["x", "y", "x", "y"])
    >>> found.mean, {name: round(share, 2) for name, share in found.shares.items()}
    (4.0, {'scenario': 0.8, 'judge': 0.2, 'scenario × judge': 0.0})
    """
    check_share("level", level)
    s, j = len(set(scenarios)), len(set(judges))
    if s < 2 or j < 2:
        raise UseError(f"mean_over_judges got {s} scenarios and {j} judges; expected at least two of each")
    sums: dict[tuple[Hashable, Hashable], list[float]] = {}
    for value, scenario, judge in zip(values, scenarios, judges, strict=True):
        sums.setdefault((scenario, judge), []).append(value)
    cells = {key: math.fsum(some) / len(some) for key, some in sums.items()}
    found = variance_components(list(cells.values()), {"scenario": [key[0] for key in cells], "judge": [key[1] for key in cells]})
    by_scenario, by_judge, both = found.components
    parts = {"scenario": by_scenario.variance / s, "judge": by_judge.variance / j, "scenario × judge": both.variance / (s * j)}
    variance = sum(parts.values())
    scenarios_vary, judges_vary = by_scenario.raw > 0, by_judge.raw > 0
    squares = [(both, 1 - scenarios_vary - judges_vary), (by_scenario, scenarios_vary), (by_judge, judges_vary)]
    below = sum((sign * one.mean_square) ** 2 / one.df for one, sign in squares)
    df = max(1.0, (variance * s * j) ** 2 / below) if below else 1.0
    reach = t_quantile(0.5 + level / 2.0, df) * math.sqrt(variance)
    shares = {name: part / variance for name, part in parts.items()} if variance else {}
    return JudgeMean(found.mean, found.mean - reach, found.mean + reach, df, shares, found)
