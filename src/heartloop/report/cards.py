"""Where each model wins and loses against the others of its page, as a sentence and with the dialogues that show it.

A difference is paired: the model's score minus the mean of the other ranked models on the same scenario, repeat and seed. A
win or a loss is called one only if the t interval over scenarios excludes 0, at a level that holds over all groups of the model
together (Bonferroni).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from heartloop.core.text import amount
from heartloop.scoring.statistics import Interval, mean_interval

LEAST_IN_GROUP = 6
"""Scenarios that a group needs to be tested. With fewer, even differences of one sign throughout can come about by chance in more
than one of 20 cases (sign test: 2 / 2^5 = 0.06)."""


class Scored(NamedTuple):
    """A scored dialogue: the scenario it is clustered by, its group (empty: none), its score in points, and its address."""

    scenario: Hashable
    group: str
    points: float
    address: str
    title: str


class ScenarioDifference(NamedTuple):
    """The same scenario with this model and with the other model that differs most in the direction shown."""

    mine: Scored
    other: Scored
    model: str
    difference: float


class GroupResult(NamedTuple):
    key: str
    difference: Interval
    shown_by: ScenarioDifference


class ModelCard(NamedTuple):
    others: int
    scenarios: int
    overall: Interval | None
    """Difference to the mean of the others; `None` without another ranked model."""
    wins: list[GroupResult]
    losses: list[GroupResult]
    tested: int
    groups: int
    best: ScenarioDifference | None
    """The scenario on which the model is furthest above the others; `None` where it is above on none."""
    worst: ScenarioDifference | None

    @property
    def sentence(self) -> str:
        if self.overall is None:
            return "There is no other ranked model to compare it with."
        others = "the other model" if self.others == 1 else f"the mean of the other {self.others} models"
        low, high = self.overall.low, self.overall.high
        on = f"Over {amount(self.scenarios, 'scenario')}"
        if math.isnan(low):
            return f"{on} there is no interval, so neither a win nor a loss is supported."
        ends = f"({self.overall.mean:+.1f} points, 95 % interval {low:+.1f} to {high:+.1f})"
        result = "scores above" if low > 0 else "scores below" if high < 0 else "is not distinguished from"
        return f"{on} it {result} {others} {ends}."

    @property
    def by_group(self) -> str:
        """What the intervals support about groups, in words, before the groups are named; empty without groups."""
        if self.overall is None or not self.groups:
            return ""
        if not self.tested:
            return f"No group has {LEAST_IN_GROUP} scenarios, so none is tested."
        tested = f"{self.tested} of {amount(self.groups, 'group')}" if self.tested < self.groups else amount(self.groups, "group")
        return "" if self.wins or self.losses else f"In none of the {tested} tested does the interval support a win or a loss."


def model_cards(scored: Mapping[str, Mapping[Hashable, Scored]]) -> dict[str, ModelCard]:
    """A card for each ranked model, from its scored dialogues by pairing key; only keys that all models have are used."""
    keys = sorted(set.intersection(*(set(mine) for mine in scored.values())), key=str) if scored else []
    return {
        model: _card(mine, {name: other for name, other in scored.items() if name != model}, keys)
        for model, mine in scored.items()
    }


def _card(
    mine: Mapping[Hashable, Scored], others: Mapping[str, Mapping[Hashable, Scored]], keys: Sequence[Hashable]
) -> ModelCard:
    groups = {mine[key].group for key in keys} - {""}
    if not others or not keys:
        return ModelCard(len(others), 0, None, [], [], 0, len(groups), None, None)
    difference = {key: mine[key].points - statistics.fmean(other[key].points for other in others.values()) for key in keys}

    def interval(chosen: Sequence[Hashable], level: float) -> Interval:
        return mean_interval([difference[key] for key in chosen], clusters=[mine[key].scenario for key in chosen], level=level)

    def shown(chosen: Sequence[Hashable], sign: int) -> ScenarioDifference | None:
        key = max(chosen, key=lambda key: sign * difference[key])
        if sign * difference[key] <= 0:
            return None
        model = max(others, key=lambda name: -sign * others[name][key].points)
        return ScenarioDifference(mine[key], others[model][key], model, difference[key])

    def scenarios(chosen: Sequence[Hashable]) -> int:
        return len({mine[key].scenario for key in chosen})

    members = {group: [key for key in keys if mine[key].group == group] for group in groups}
    tested = {group: chosen for group, chosen in members.items() if scenarios(chosen) >= LEAST_IN_GROUP}
    seen = {group: interval(chosen, 1.0 - 0.05 / len(tested)) for group, chosen in tested.items()}

    def supported(sign: int) -> list[GroupResult]:
        groups = [group for group, one in seen.items() if (one.low > 0 if sign > 0 else one.high < 0)]
        found = [GroupResult(group, seen[group], example) for group in groups if (example := shown(tested[group], sign))]
        return sorted(found, key=lambda one: -sign * one.difference.mean)

    return ModelCard(
        others=len(others),
        scenarios=scenarios(keys),
        overall=interval(keys, 0.95),
        wins=supported(1),
        losses=supported(-1),
        tested=len(tested),
        groups=len(groups),
        best=shown(keys, 1),
        worst=shown(keys, -1),
    )
