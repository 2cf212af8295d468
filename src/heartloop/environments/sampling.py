"""Samples of a set of scenarios that are balanced over several labels at once (after EMPA App. A.1; the method is ours)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    return {
        name: (value,) if isinstance(value, str) else tuple(value) or ("none",)
        for name, value in features.items()
        if not isinstance(value, int | float)
    }


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

    quotas = quotas or {}
    for name in [part for one in by for part in one.split("+")] + list(quotas):
        _check_label(name, labels)
    if not 1 <= n <= len(labels):
        raise UseError(f"--n is {n}; expected 1 to {len(labels)}, the number of scenarios that are left")
    rows, low, high, even = [np.ones(len(labels))], [n], [n], [False]
    for name in by:
        strata = [stratum_of(one, name) for one in labels]
        there = Counter(strata)
        least = max(level for level in range(n + 1) if sum(min(count, level) for count in there.values()) <= n)
        for stratum, count in there.items():
            rows.append(np.array([one == stratum for one in strata], dtype=float))
            low.append(min(count, least))
            high.append(min(count, least + 1))
            even.append(True)
    for name, wanted in quotas.items():
        for value, count in wanted.items():
            rows.append(np.array([value in one[name] for one in labels], dtype=float))
            if count > rows[-1].sum():
                raise UseError(f"--quota asks for {count} scenarios with {name} {value}; there are {int(rows[-1].sum())}")
            low.append(count)
            high.append(count)
            even.append(False)
    slack = np.eye(len(rows))[:, even]
    drawn = np.random.default_rng(seed).random(len(labels)) / (2 * n)  # of a whole sample less than one deviation
    cost = np.concatenate([drawn, np.ones(2 * slack.shape[1])])
    free = np.concatenate([np.ones(len(labels)), np.full(2 * slack.shape[1], np.inf)])
    whole = np.concatenate([np.ones(len(labels)), np.zeros(2 * slack.shape[1])])
    met = LinearConstraint(np.hstack([np.stack(rows), slack, -slack]), low, high)
    found = milp(cost, constraints=met, bounds=Bounds(0, free), integrality=whole)
    if found.x is None:
        asked = "; ".join(f"{name}={','.join(f'{v}:{c}' for v, c in wanted.items())}" for name, wanted in quotas.items())
        raise UseError(
            f"no {n} of the {len(labels)} scenarios meet --quota {asked} together; ask for less, or write more scenarios"
        )
    return [int(place) for place in np.flatnonzero(found.x[: len(labels)] > 0.5)]


def where(labels: Sequence[Labels], wanted: Mapping[str, Sequence[str]]) -> list[int]:
    """The places of the scenarios that have, of every label, one of the values."""
    for name, values in wanted.items():
        _check_label(name, labels)
        known = {value for one in labels for value in one[name]}
        for value in values:
            if value not in known:
                raise UseError(f"no scenario has {name} {value!r}{nearest(value, known)}; there are {', '.join(sorted(known))}")
    places = [place for place, one in enumerate(labels) if all(set(one[name]) & set(v) for name, v in wanted.items())]
    if not places:
        raise UseError(f"no scenario has all that --where asks for, of {', '.join(wanted)}; leave one out")
    return places


def _check_label(name: str, labels: Sequence[Labels]) -> None:
    known = set.intersection(*(set(one) for one in labels))
    if name not in known:
        raise UseError(f"the scenarios have no label {name!r}{nearest(name, known)}; expected one of {', '.join(sorted(known))}")
