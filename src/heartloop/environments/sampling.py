"""Samples of a set of scenarios that are balanced over several labels at once (after EMPA App. A.1; the method is ours)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from heartloop.core.errors import UseError
from heartloop.core.text import nearest
from heartloop.environments.spec import EnvironmentSpec

Labels = Mapping[str, tuple[str, ...]]
"""Values by label; tags and secondary labels have several."""


def labels_of(spec: EnvironmentSpec, scenario: Any) -> Labels:
    """The group, the features and the tags of a scenario."""
    features = {spec.scale.group: scenario.stratum, **spec.scenarios.spread(scenario), "tags": scenario.tags}
    texts = {name: (value,) if isinstance(value, str) else value for name, value in features.items()}
    return {name: tuple(value) or ("none",) for name, value in texts.items() if not isinstance(value, int | float)}


def stratum_of(labels: Labels, by: str) -> str:
    """The value of a label; of several labels joined by +, the values joined in the same way.

    >>> stratum_of({"axis": ("C",), "domain": ("health",), "tags": ("death", "illness")}, "axis+tags")
    'C + death, illness'
    """
    return " + ".join(", ".join(labels[name]) for name in by.split("+"))


def balanced(
    labels: Sequence[Labels],
    n: int,
    by: Sequence[str] = (),
    *,
    quotas: Mapping[str, Mapping[str, int]] | None = None,
    seed: int = 0,
) -> list[int]:
    """The places of `n` scenarios, in order, that meet all quotas and are as evenly spread over each of `by` as they can be.

    Even is, for each of `by` alone, as many from every stratum, or all of a smaller one. The sample has the least sum of
    deviations from that over all strata; the seed decides between equal ones. A mixed-integer programme finds it.

    Args:
        quotas: exact numbers of scenarios by label and value; values without a number are free.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    exact = [(name, value, count) for name, wanted in (quotas or {}).items() for value, count in wanted.items()]
    _check_labels([part for one in by for part in one.split("+")] + [name for name, _, _ in exact], labels)
    if not 1 <= n <= len(labels):
        raise UseError(f"--limit is {n}; expected 1 to {len(labels)}, the number of scenarios that are left")
    rows = [([True] * len(labels), n, n, False)]  # who counts, least, most, whether it may deviate
    for name in by:
        strata = [stratum_of(one, name) for one in labels]
        there = Counter(strata)
        least = max(level for level in range(n + 1) if sum(min(count, level) for count in there.values()) <= n)
        rows += [([one == s for one in strata], min(k, least), min(k, least + 1), True) for s, k in there.items()]
    for name, value, count in exact:
        held = [value in one[name] for one in labels]
        if count > sum(held):
            raise UseError(f"--quota asks for {count} scenarios with {name} {value}; there are {sum(held)}")
        rows.append((held, count, count, False))
    counted, low, high, even = zip(*rows, strict=True)
    slack = np.eye(len(rows))[:, list(even)]
    choices, deviations = np.ones(len(labels)), np.ones(2 * slack.shape[1])
    drawn = np.random.default_rng(seed).random(len(labels)) / (2 * n)  # of a whole sample less than one deviation
    found = milp(
        np.concatenate([drawn, deviations]),
        constraints=LinearConstraint(np.hstack([np.array(counted, dtype=float), slack, -slack]), low, high),
        bounds=Bounds(0, np.concatenate([choices, np.inf * deviations])),
        integrality=np.concatenate([choices, 0 * deviations]),
    )
    if found.x is None:
        asked = ", ".join(f"{name} {value}: {count}" for name, value, count in exact)
        raise UseError(f"no {n} of {len(labels)} scenarios meet all of --quota ({asked}); ask for less, or write more scenarios")
    return [int(place) for place in np.flatnonzero(found.x[: len(labels)] > 0.5)]


def where(labels: Sequence[Labels], wanted: Mapping[str, Sequence[str]]) -> list[int]:
    """The places of the scenarios that have, of every label, one of the values."""
    _check_labels(wanted, labels)
    places = [place for place, one in enumerate(labels) if all(set(one[name]) & set(v) for name, v in wanted.items())]
    if not places:
        known = "; ".join(f"{name}: {', '.join(sorted({v for one in labels for v in one[name]}))}" for name in wanted)
        raise UseError(f"--where leaves no scenario; the values are {known}")
    return places


def _check_labels(names: Iterable[str], labels: Sequence[Labels]) -> None:
    known = set.intersection(*(set(one) for one in labels))
    for name in names:
        if name not in known:
            raise UseError(
                f"the scenarios have no label {name!r}{nearest(name, known)}; expected one of {', '.join(sorted(known))}"
            )
