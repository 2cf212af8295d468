"""The size of a study: minimum detectable difference of two models, and the designs that detect a wanted one.

The power is that of the t test over scenarios (noncentral t; Cohen 1988, Statistical Power Analysis, chapter 2), whose other tail
is left out: it adds less than 0.001 to a power of 0.5 or more. Several judges are random: their variance does not fall with the
number of scenarios, and the degrees of freedom are Satterthwaite's (`variance.mean_over_judges`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import check_share, t_quantile

MOST_SCENARIOS = 100_000
"""A design that needs more is not feasible."""


class DifferenceVariance(NamedTuple):
    """Variance components of the difference of two models, in squared points."""

    scenario: float
    repeat: float = 0.0
    """Between dialogues of one scenario that all judges judge: policy sampling and the user simulator's."""
    judge: float = 0.0
    """Between judges: models that one judge likes better than another does."""
    scenario_judge: float = 0.0
    repeat_judge: float = 0.0
    """Between the judgements of one dialogue; with user simulators in the judges' place, between dialogues of one scenario and
    user simulator."""

    def of_mean(self, scenarios: int, repeats: int, judges: int = 1) -> float:
        """Variance of the mean difference. The judges' own part is left out for one judge, who is then part of the result."""
        over_scenarios, over_judges, both = self._parts(scenarios, repeats, judges)
        return over_scenarios + over_judges + both

    def df(self, scenarios: int, repeats: int, judges: int = 1) -> float:
        """Degrees of freedom of the mean difference, at least 1."""
        if judges == 1:
            return scenarios - 1.0
        over_scenarios, over_judges, both = self._parts(scenarios, repeats, judges)
        squares = (
            (over_scenarios + both) ** 2 / (scenarios - 1)
            + (over_judges + both) ** 2 / (judges - 1)
            + both**2 / ((scenarios - 1) * (judges - 1))
        )
        return max(1.0, (over_scenarios + over_judges + both) ** 2 / squares) if squares else scenarios - 1.0

    def _parts(self, scenarios: int, repeats: int, judges: int) -> tuple[float, float, float]:
        return (
            (self.scenario + self.repeat / repeats) / scenarios,
            self.judge / judges if judges > 1 else 0.0,
            (self.scenario_judge + self.repeat_judge / repeats) / (scenarios * judges),
        )


class Use(NamedTuple):
    """`cost` is `None` where a price is unknown."""

    calls: float
    tokens: float
    cost: float | None = None

    def times(self, n: float) -> Use:
        return Use(n * self.calls, n * self.tokens, None if self.cost is None else n * self.cost)

    def plus(self, other: Use) -> Use:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Use(self.calls + other.calls, self.tokens + other.tokens, cost)


class Design(NamedTuple):
    """Two models on so many scenarios, repeats of each, and judges of each dialogue."""

    scenarios: int
    repeats: int
    judges: int
    detects: float
    """Minimum detectable difference in points."""
    use: Use


class Step(NamedTuple):
    """A study with one more scenario, repeat or judge, as `more` names it."""

    more: str
    detects: float
    extra: Use
    per_call: float
    """Points by which the minimum detectable difference falls per additional call; nan without a call."""


def minimum_difference(variance: float, df: float, *, power: float = 0.8, level: float = 0.95) -> float:
    """The difference that a two-sided test finds with probability `power`, from the mean's variance and degrees of freedom.

    >>> round(minimum_difference(100.0 / 34, 33), 2)  # 34 scenarios whose differences have a standard deviation of 10
    4.95
    """
    if not (math.isfinite(variance) and variance >= 0.0) or not df >= 1.0:
        raise UseError(f"variance is {variance!r} and df is {df!r}; expected at least 0, and at least 1")
    check_share("power", power)
    check_share("level", level)
    return _noncentrality(df, power, level) * math.sqrt(variance)


@cache
def _noncentrality(df: float, power: float, level: float) -> float:
    from scipy.special import nctdtrinc  # a quarter of a second to import

    bound = t_quantile(0.5 + level / 2.0, df)
    if df > 1_000_000:
        return bound + t_quantile(power, math.inf)  # the noncentral t is as good as normal
    return float(nctdtrinc(df, 1.0 - power, bound))


def sample_size_for(difference: float, sd: float, *, power: float = 0.8, level: float = 0.95) -> int:
    """Number of scenarios, at least 2, to detect a paired difference with the t test; `sd` is that of scenarios' differences.

    >>> sample_size_for(5.0, 10.0)
    34
    """
    if not math.isfinite(difference) or difference == 0.0:
        raise UseError(f"difference is {difference!r}; expected a finite number other than 0")
    if not (math.isfinite(sd) and sd >= 0.0):
        raise UseError(f"sd is {sd!r}; expected a finite number of at least 0")
    ratio = (sd / difference) ** 2
    return _fewest(lambda n: minimum_difference(ratio / n, n - 1, power=power, level=level), 1.0, math.inf)


def _fewest(detected: Callable[[int], float], difference: float, most: float) -> int:
    """The fewest scenarios, 2 to `most`, that detect a difference; `most` if no number does."""
    low, high = 2, 2
    while high < most and detected(high) > difference:
        low, high = high, int(min(2 * high, most))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detected(middle) <= difference else (middle + 1, high)
    return high


def study_designs(
    variance: DifferenceVariance,
    difference: float,
    use: Callable[[int, int, int], Use],
    *,
    repeats: Sequence[int] = (1, 2, 3, 4),
    judges: Sequence[int] = (1,),
    power: float = 0.8,
) -> list[Design]:
    """For each number of repeats and judges, the design with the fewest scenarios that detects a difference.

    Without a design for a number of judges no number of scenarios is enough: the judges' own variance does not fall with it.

    >>> for design in study_designs(DifferenceVariance(60.0, 40.0), 5.0, lambda s, r, j: Use(2 * s * r * j, 0), repeats=(1, 2)):
    ...     print(design.scenarios, design.repeats, design.use.calls)
    34 1 68
    28 2 112
    """
    if not (math.isfinite(difference) and difference > 0.0):
        raise UseError(f"difference is {difference!r}; expected points above 0")
    designs = []
    for j, r in product(judges, repeats):
        detected = partial(_detected, variance, repeats=r, judges=j, power=power)
        scenarios = _fewest(detected, difference, MOST_SCENARIOS)
        if (detects := detected(scenarios)) <= difference:
            designs.append(Design(scenarios, r, j, detects, use(scenarios, r, j)))
    return designs


def _detected(variance: DifferenceVariance, scenarios: int, repeats: int, judges: int, power: float) -> float:
    mean_variance, df = variance.of_mean(scenarios, repeats, judges), variance.df(scenarios, repeats, judges)
    return minimum_difference(mean_variance, df, power=power)


def next_steps(
    variance: DifferenceVariance,
    scenarios: int,
    repeats: int,
    judges: int,
    use: Callable[[int, int, int], Use],
    *,
    power: float = 0.8,
) -> list[Step]:
    """One more scenario, repeat or judge for a study, the one that lowers the minimum detectable difference most per call first.

    With one judge, who is part of the result, another one is no step.

    >>> steps = next_steps(DifferenceVariance(60.0, 40.0), 20, 1, 1, lambda s, r, j: Use(2 * s * r * j, 0))
    >>> [(step.more, round(step.detects, 2), step.extra.calls) for step in steps]
    [('scenario', 6.43, 2), ('repeat', 5.91, 40)]
    """
    if scenarios < 2:
        raise UseError(f"the study has {scenarios} scenario; expected at least two")
    now, before = _detected(variance, scenarios, repeats, judges, power), use(scenarios, repeats, judges)
    wider = [("scenario", (scenarios + 1, repeats, judges)), ("repeat", (scenarios, repeats + 1, judges))]
    if judges > 1:
        wider.append(("judge", (scenarios, repeats, judges + 1)))
    steps = []
    for more, design in wider:
        extra, after = use(*design).plus(before.times(-1)), _detected(variance, *design, power)
        steps.append(Step(more, after, extra, (now - after) / extra.calls if extra.calls else math.nan))
    return sorted(steps, key=lambda step: -step.per_call if step.per_call == step.per_call else 0.0)
