"""The values of one page of the report: a measurement, its score card, and everything derived from them.

A model's card says where it wins and loses, as a sentence and with the dialogues that show it. A difference is paired: the
model's score minus the mean of the other ranked models on the same scenario, repeat and seed. A win or a loss is called one only
if the t interval over scenarios excludes 0, at a level that holds over all groups of the model together (Bonferroni).
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from textwrap import shorten
from typing import Any, NamedTuple

from heartloop.core.blocks import Chart, LeaderboardColumn, PanelInput, PanelOutput, Point, Section, Series, Shade, shade
from heartloop.core.chat import RECORDED_PREFIX, is_embedded
from heartloop.core.dialogue import Transcript, content_tags
from heartloop.core.text import amount
from heartloop.environments.episode import OWN_PROMPT
from heartloop.environments.registry import load_environment
from heartloop.evaluation.digests import Dialogue, Digest, heard
from heartloop.evaluation.leaderboard import cautions, rank_interval, scripted_note
from heartloop.evaluation.scores import (
    ALLOWED_UNSCORED,
    FAILURE_CASES,
    SILENT,
    ModelScore,
    ScoreCard,
    common_keys,
    group_of,
    in_group_order,
    latest,
    options_of,
    pairing_key,
    roles_of,
    unfinished,
)
from heartloop.evaluation.store import Measurement, judge_of, shared_rules, shortened
from heartloop.models.budget import is_baseline
from heartloop.models.recorded import recordings
from heartloop.report.drawing import MOST_LINES, Frame, drawn, faint_lines, mean_curve, path_of
from heartloop.report.provenance import in_words
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
    difference = {key: mine[key].points - statistics.fmean([other[key].points for other in others.values()]) for key in keys}

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


_SHOWN = 280
"""Characters of a message on the first page; the whole is in the dialogue."""
_STOP_WORDS = {"goodbye": "said goodbye", "turn_limit": "turn limit", "cut": "no further reply stored", "failed": "unscored"}


MOST_SHOWN = 5_000
"""Dialogues of a page with their texts, about 40 kB each in memory; of more an even sample is shown."""


class Page:
    allowed_unscored = ALLOWED_UNSCORED
    few_scenarios = 10
    """Fewer cannot show whether their scores are near normal, which an interval relies on, and the page says so."""

    def __init__(self, measurement: Measurement, card: ScoreCard, number: int, *, most_shown: int | None = None) -> None:
        self.card = card
        self.scripted_note = scripted_note([row.model for row in card.models])
        self.cautions = cautions(card)
        self.runs = measurement.runs
        self.run_names = [run.path.resolve().name for run in measurement.runs]
        self.notes = list(card.notes)
        if len(measurement.runs) > 1:  # the card of one run has its own note
            for name, run in zip(self.run_names, measurement.runs, strict=True):
                self.notes += unfinished(name, run.settings, latest(run.digests))
        self.environment = card.environment
        self.spec = load_environment(card.environment)
        self.panel = self.spec.report
        self.title = self.spec.title
        self.scale = self.spec.scale
        self.number = number
        self.file = f"measurement-{number}.html" if number > 1 else "index.html"
        self.settings = measurement.settings
        self.dialogues: list[Digest] = latest(measurement.digests)
        self.linked: set[int] = set()
        """Places in `dialogues` of those to which other pages link."""
        self._most_shown = MOST_SHOWN if most_shown is None else most_shown
        self.is_sampled = len(self.dialogues) > self._most_shown
        if self.is_sampled:
            self.notes.append(
                f"This page shows {self._most_shown:,} of {len(self.dialogues):,} dialogues: an even sample of the scenarios, "
                "the same for every model, and those it links to, such as the best and the worst of every model. What "
                f"{self.title} adds to the page is computed on the even sample; every other number on all."
            )
        self.ids = dialogue_ids(self.dialogues)
        models = [row.model for row in card.models]
        self.model_ids = dict(zip(models, addresses("model", models), strict=True))
        limit = options_of(self.settings).get("max_turns")
        longest = max([limit if isinstance(limit, int) else 0, *(len(d.lengths) for d in self.dialogues)])
        self.turns = longest or int(self.spec.options.model_fields["max_turns"].default)
        self.spark = Frame(2, 3, 92, 34, self.turns, self.scale.low, self.scale.high)
        self.courses = [dialogue.course for dialogue in self.dialogues]
        self.start = next((course[0] for course in self.courses if course), self.scale.start)
        self.colours = self.scale.colours(self.start)
        self.zones = tuple(  # a band that reaches below the start of these dialogues is not green
            zone._replace(tint="c") if zone.tint in ("a", "b") and zone.low < self.colours.neutral else zone
            for zone in self.scale.zones
        )
        self._scored: dict[str, list[int]] = {row.model: [] for row in card.models}
        for place, dialogue in enumerate(self.dialogues):
            if dialogue.scored:
                self._scored[dialogue.model].append(place)
        ranked = [row.model for row in card.models if row.standing == "ranked"]
        self.rank_intervals = {row.model: rank_interval(row, len(ranked)) for row in card.models}
        common = common_keys(self.dialogues, ranked)
        self._basis = {
            row.model: [
                i for i in self._scored[row.model] if row.standing != "ranked" or pairing_key(self.dialogues[i]) in common
            ]
            for row in card.models
        }
        self.judge = judge_of(measurement.settings)
        self.rules = shared_rules(measurement.runs[0]) if measurement.runs else ()
        self.rules_words = ", ".join(
            [self.title, *(f"preset {one}" for one in card.presets), *(f"variant {one}" for one in card.variants)]
        )
        self.label = self.title
        """The measurement in words; the site adds what distinguishes it from the others of a report."""
        self.played_by = "user simulator" if "user" in self.spec.role_names else "judge"
        self.estimates = {row.model for row in card.models if "policy" in row.roles and row.roles["policy"].estimated}
        self.learned = sorted(filter(is_embedded, {*card.simulators, *roles_of(self.settings).values()}))
        self.reached = self.scale.reached.format(card.success_at)
        """A success in words; its bound is the scale's unless the run was rescored with another."""
        self.fell = self.scale.fell.format(card.failure_below)
        self.stop_words: dict[str, str] = {
            "success": self.scale.reached.format(self.scale.success_at),
            "failure": self.scale.fell.format(self.scale.failure_below),
            **_STOP_WORDS,
            **self.panel.stops,
        }
        self.stop_words |= {d.stop: d.stop.replace("_", " ") for d in self.dialogues if d.stop not in self.stop_words}

    @property
    def leader(self) -> str:
        """The first model with its points, ◇ where it scored itself; empty without a ranked model."""
        first = next((row for row in self.card.models if row.rank == 1 and row.headline.mean is not None), None)
        if first is None:
            return ""
        return f"{first.model.rsplit('/', 1)[-1]} {first.headline.mean:.1f}{' ◇' if first.model in self.self_scored else ''}"

    @property
    def instrument(self) -> str:
        """Who played, and who judged the stored replies again."""
        names = [
            "the embedded user" if is_embedded(name) else "a recorded model" if name.startswith(RECORDED_PREFIX) else name
            for name in self.card.simulators
        ]
        return f"{' and '.join(names)}{f', judged by {self.judge}' if self.judge else ''}"

    @property
    def played(self) -> str:
        return f"played by {self.instrument}" if "user" in self.spec.role_names else f"judged by {self.judge or self.instrument}"

    @cached_property
    def explained(self) -> dict[str, str]:
        """By model, how a scripted baseline comes to score below silence, or below the start where no silence was played."""

        def changes(model: str) -> list[float]:
            return [after - before for i in self._basis[model] for before, after in pairwise(self.courses[i])]

        rows = {row.model: row.headline.mean for row in self.card.models if changes(row.model)}
        silence, silent = rows.get(SILENT), changes(SILENT) if SILENT in rows else []
        bound, named = (self.start, f"the start ({self.start:g})") if silence is None else (silence, f"silence ({silence:.1f})")

        def words(moves: Sequence[float]) -> str:
            mean, against = statistics.fmean(moves), statistics.fmean(silent) if silent else math.inf
            digits = 1 if abs(mean - against) >= 0.1 else 2
            over = f" over {'fewer' if len(silent) < len(moves) else 'more'} replies" if silent and mean >= against else ""
            end = f", silence by {round(against, digits) + 0.0:+.{digits}f}{over}" if silent else ""
            lower = f"{sum(move < 0 for move in moves)} of {amount(len(moves), 'reply', 'replies')} lower the score"
            return f"{lower}; each changes it by {round(mean, digits) + 0.0:+.{digits}f} on average{end}"

        return {
            model: f"Below {named}: {words(changes(model))}."
            for model, mean in rows.items()
            if mean is not None and mean < bound and is_baseline(model) and model not in (SILENT, *FAILURE_CASES)
        }

    @cached_property
    def scenarios(self) -> frozenset[tuple[str, str]]:
        """The scenarios behind the numbers of the leaderboard, as (scenario, fingerprint)."""
        rows = [row.model for row in self.card.models if row.standing == "ranked"] or list(self._basis)
        return frozenset(
            (self.dialogues[i].scenario, self.dialogues[i].fingerprint) for model in rows for i in self._basis[model]
        )

    @cached_property
    def self_scored(self) -> frozenset[str]:
        """Models under test that also moved the feeling they are scored by: as the judge, or else as the simulator."""
        instruments = [self.judge] if self.judge else [name for name in self.card.simulators if not is_embedded(name)]
        names = {shown: name for run in self.runs for name, shown in run.shown.items()}
        models = {row.model: names.get(row.model, row.model) for row in self.card.models}
        return frozenset(shown for shown, model in models.items() if any(is_same_model(model, name) for name in instruments))

    def entry(self, name: str) -> str:
        return f"{self.environment}-{name}" if self.panel.file("glossary.html") else name

    @cached_property
    def shown(self) -> list[int]:
        """Places in `dialogues` of those with texts."""
        return sorted({*self._linked, *self.sample})

    @cached_property
    def sample(self) -> list[int]:
        """Places in `dialogues` of an even sample: what is shown, without those only for a link."""
        order, room = evenly(self.dialogues), self._most_shown - len(self._linked)
        further = accumulate(place not in self._linked for place in order)
        return sorted(place for place, count in zip(order, further, strict=True) if count <= room)

    @cached_property
    def _linked(self) -> set[int]:
        if not self.is_sampled:
            return set()
        found = set(self._addresses())
        return self.linked | {place for place, id in enumerate(self.ids) if id in found}

    def _addresses(self) -> Iterator[str]:
        """Of the dialogues that the page links to."""
        yield from (one["address"] for one in self.example)
        yield from (one["address"] for _, *both in self.highlights for one in both)
        for card in self.cards.values():
            results = [one.shown_by for one in (*card.wins, *card.losses)]
            yield from (side.address for one in (card.best, card.worst, *results) if one for side in (one.mine, one.other))

    @cached_property
    def texts(self) -> list[Transcript]:
        """The shown dialogues, without the raw answers of roles."""
        return [shortened(self.dialogues[place].read()) for place in self.shown]

    @cached_property
    def panel_input(self) -> PanelInput:
        sample, places = set(self.sample), {place: number for number, place in enumerate(self.shown)}
        basis = {model: [places[i] for i in mine if i in sample] for model, mine in self._basis.items()}
        addresses = [self.ids[place] for place in self.shown]
        return PanelInput(self.card.models, basis, self.texts, addresses, bool(self.learned), options_of(self.settings))

    @cached_property
    def output(self) -> PanelOutput:
        return self.panel.build(self.panel_input)

    def shows(self, section: Section) -> bool:
        return section not in self.panel.leaves_out

    @property
    def columns(self) -> list[LeaderboardColumn]:
        means = [
            LeaderboardColumn(
                column["key"].capitalize(),
                {row.model: group.mean for row in self.card.models for group in row.groups if group.key == column["key"]},
                entry=self.entry("groups"),
            )
            for column in self.groups
        ]
        of = " (sample)" if self.is_sampled else ""
        own = (column._replace(name=column.name + of) for column in self.output.columns)
        return [*(means if self.scale.group_intervals else ()), *own]

    @property
    def lede(self) -> str:
        models = [row for row in self.card.models if row.standing != "failure case"]
        met: dict[str, set[str]] = {row.model: set() for row in self.card.models}
        for dialogue in self.dialogues:
            met[dialogue.model].add(dialogue.scenario)
        sets = {frozenset(met[row.model]) for row in models if row.played}
        each = "each " if len(models) != 1 and len(sets) <= 1 else ""
        scenarios = amount(len({d.scenario for d in self.dialogues}), "scenario")
        measures = self.panel.measures or self.scale.of
        return f"{amount(len(models), 'model')}, {each}evaluated on {'the same ' if each else ''}{scenarios}: {measures}."

    @property
    def about(self) -> str:
        return self.panel.lede.format(start=f"{self.start:g}", change_limit=f"{self.scale.change_limit:g}")

    @property
    def few_in_groups(self) -> bool:
        return any(group.low is not None and group.n < self.few_scenarios for row in self.card.models for group in row.groups)

    @property
    def facts(self) -> list[tuple[str, str]]:
        card, settings = self.card, self.settings
        scenarios = len({d.scenario for d in self.dialogues})
        played = Counter((d.model, d.scenario) for d in self.dialogues).values()
        times = max(played, default=0)
        up_to = "up to " if times > min(played, default=0) else ""
        own = (settings.get("prompts") or {}).get(OWN_PROMPT)
        seeds, sets = _set_values(settings.get("seeds")), _set_values(settings.get("scenario_sets"))
        sampling = [
            f"{role} {', '.join(f'{name} {in_words(value)}' for name, value in chosen.items())}"
            for role, given in sorted(self.dialogues[0].sampling.items() if self.dialogues else ())
            if (chosen := given.chosen())
        ]
        facts = [
            ("Runs" if len(self.run_names) > 1 else "Run", ", ".join(self.run_names)),
            ("Environment", self.title),
            (self.played_by.capitalize(), ", ".join(card.simulators)),
            ("Rejudged by", self.judge),
            ("Preset", ", ".join(card.presets)),
            *self.output.facts,
            ("Variant", ", ".join(card.variants)),
            ("System prompt", f"the run's own, {own}; its text is on the page of settings" if own else ""),
            ("Sampling", "; ".join(sampling)),
            ("Scenario sets" if len(sets) > 1 else "Scenario set", ", ".join(sets)),
            ("Scenarios", f"{scenarios}" + (f", {up_to}{times} times each" if times > 1 else "") if scenarios else ""),
            ("Dialogues", f"{card.scored} scored, {card.unscored} unscored"),
            ("Replaced", f"{card.replaced}, played again later" if card.replaced else ""),
            ("Seeds" if len(seeds) > 1 else "Seed", ", ".join(seeds)),
            ("Date", str(settings.get("date") or "")[:10]),
            ("heartloop", card.heartloop_version or ""),
        ]
        return [(name, value) for name, value in facts if value]

    @cached_property
    def trajectories(self) -> list[dict[str, Any]]:
        """Points over the turns by model: `drawn` of its `n` scored dialogues as lines with opacity, the mean of `basis`."""
        found, shown = [], set(self.shown)
        for number, row in enumerate(self.card.models):
            scored = [i for i in self._scored[row.model] if self.courses[i]]
            curves = [self.courses[i] for i in scored if i in shown]
            behind = [curve for i in self._basis[row.model] if (curve := self.courses[i])]
            if curves:
                means = mean_curve(behind, self.turns)
                mean = Series(row.model, tuple(Point(turn, value) for turn, value in enumerate(means)), number)
                plot = drawn(self._courses_chart([mean]), width=330.0, height=184.0)
                box = (plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top)
                lines = faint_lines(curves, Frame(*box, self.turns, self.scale.low, self.scale.high))
                few = len(curves[:: -(-len(curves) // MOST_LINES)])
                counts = {"n": len(scored), "drawn": few, "basis": len(behind)}
                found.append({"score": row, "number": number, "lines": lines, "mean": mean, "plot": plot, **counts})
        return found

    @property
    def means(self) -> Chart:
        return self._titled_chart([one["mean"] for one in self.trajectories])._replace(numbered=True)

    def _titled_chart(self, series: Sequence[Series]) -> Chart:
        zones = tuple(zone._replace(name="") for zone in self.zones)
        return self._courses_chart(series)._replace(x="replies of the model", y=self.scale.now or self.scale.title, zones=zones)

    def _courses_chart(self, series: Sequence[Series]) -> Chart:
        ends = (self.scale.low, self.scale.high)
        title, zones = "Means of all models", self.zones
        return Chart(title, "lines", tuple(series), "", "", *ends, x_low=0.0, x_high=self.turns, zones=zones)

    @cached_property
    def groups(self) -> list[dict[str, str]]:
        texts = {group: d.facts.get(self.panel.group_text, "") for d in self.dialogues if (group := group_of(d))}
        kinds = self.panel.group_kinds
        return [{"key": key, "text": texts[key], "kind": kinds.get(key, "")} for key in in_group_order(self.scale, texts)]

    @cached_property
    def heat(self) -> list[tuple[ModelScore, list[Shade]]]:
        def cells(row: ModelScore) -> list[Shade]:
            points: dict[str, list[float]] = {column["key"]: [] for column in self.groups}
            for i in self._basis[row.model]:
                if (group := group_of(self.dialogues[i])) in points:
                    points[group].append(self._final(i))
            return [shade(mine, self.colours) for mine in points.values()]

        return [(row, cells(row)) for row in self.card.models if row.scored]

    @property
    def counted(self) -> list[ModelScore]:
        return [row for row in self.card.models if row.headline.mean is not None and row.tokens_per_dialogue is not None]

    @property
    def tokens(self) -> Chart:
        places = {row.model: place for place, row in enumerate(self.card.models)}
        series = tuple(
            Series(row.model, (Point(row.tokens_per_dialogue or 0.0, seen.mean or 0.0, seen.low, seen.high),), places[row.model])
            for row in self.counted
            for seen in [row.headline]
        )
        axes = ("tokens the model wrote in a dialogue", self.scale.title, self.scale.low, self.scale.high)
        return Chart("Score against tokens", "points", series, *axes, x_low=0.0, line=self.start, numbered=True, log_x=True)

    @property
    def lengths(self) -> Chart | None:
        """Characters of replies by turn; `None` without scored dialogues or with one turn."""
        series = tuple(
            Series(row.model, tuple(Point(turn, at.characters) for turn, at in enumerate(row.reply_lengths, start=1)), place)
            for place, row in enumerate(self.card.models)
            if row.reply_lengths
        )
        if self.turns == 1 or not series or not self.shows("lengths"):
            return None
        return Chart("Length of replies", "lines", series, "reply of the model", "characters", low=0.0, numbered=True)

    @cached_property
    def highlights(self) -> list[tuple[ModelScore, dict[str, Any], dict[str, Any]]]:
        """For each model its best and its worst dialogue of those behind its number; of two equal ones the shorter."""

        def first(mine: Sequence[int], sign: int) -> dict[str, Any]:
            return self._highlight(min(mine, key=lambda i: (sign * self._final(i), len(self.dialogues[i].lengths))))

        return [(row, first(mine, -1), first(mine, 1)) for row in self.card.models if (mine := self._basis[row.model])]

    @cached_property
    def example(self) -> list[dict[str, Any]]:
        """Two dialogues of one scenario that end furthest apart, each with the reply that moved it most; empty without such two.

        Of scenarios without a content tag. Two models are preferred to one, then a rise and a fall to two of one direction.
        """
        by_scenario: dict[tuple[str, str], list[int]] = {}
        for i in (i for row in self.card.models if row.standing != "failure case" for i in self._basis[row.model]):
            if not content_tags(self.dialogues[i].facts) and self.dialogues[i].lengths:
                by_scenario.setdefault((self.dialogues[i].scenario, self.dialogues[i].fingerprint), []).append(i)

        def furthest(mine: Sequence[int]) -> tuple[tuple[bool, bool, float], int, int]:
            high = max(mine, key=self._final)
            low = min(mine, key=lambda i: (self.dialogues[i].model == self.dialogues[high].model, self._final(i)))
            top, bottom = self._final(high), self._final(low)
            return (self.dialogues[high].model != self.dialogues[low].model, top > self.start > bottom, top - bottom), high, low

        pairs = [pair for pair in map(furthest, by_scenario.values()) if pair[0][-1] > 0]
        return [self._moment(place, sign) for place, sign in zip(max(pairs)[1:], (1, -1), strict=True)] if pairs else []

    @property
    def example_chart(self) -> Chart:
        curves = [tuple(Point(turn, points) for turn, points in enumerate(self.courses[one["place"]])) for one in self.example]
        series = [Series(one["model"], curve, one["number"]) for one, curve in zip(self.example, curves, strict=True)]
        line_name = f"{self.start:g} is where they start"
        return self._titled_chart(series)._replace(title="Both dialogues", line=self.start, line_name=line_name)

    def _moment(self, place: int, sign: int) -> dict[str, Any]:
        """A dialogue with its reply of the largest rise (`sign` 1) or fall (-1)."""
        dialogue = self.dialogues[place].read()
        judged = [turn for turn in dialogue.turns if turn.state] or dialogue.turns
        moves = [(after - before, turn) for (before, after), turn in zip(pairwise(self.courses[place]), judged, strict=False)]
        change, turn = max(moves, key=lambda move: sign * move[0], default=(0.0, dialogue.turns[0]))
        return {
            **self._highlight(place),
            "place": place,
            "model": dialogue.model,
            "number": [row.model for row in self.card.models].index(dialogue.model),
            "opening": dialogue.facts.get("query", dialogue.opening),
            "replies": len(dialogue.turns),
            "turn": turn,
            "reply": shorten(heard(dialogue)[dialogue.turns.index(turn)], _SHOWN, placeholder=" …"),
            "message": shorten(turn.message or "", _SHOWN, placeholder=" …"),
            "change": change,
        }

    @property
    def recorded(self) -> str:
        """Who played and judged a recorded run, and when; empty where the answers are not recorded."""
        played = any(name.startswith(RECORDED_PREFIX) for name in self.card.simulators)
        return next((one.caption for one in recordings() if played and one.environment == self.environment), "")

    @cached_property
    def cards(self) -> dict[str, ModelCard]:
        return model_cards(
            {
                row.model: {
                    pairing_key(d): Scored((d.scenario, d.fingerprint), group_of(d), self._final(i), self.ids[i], _title(d))
                    for i in self._basis[row.model]
                    for d in [self.dialogues[i]]
                }
                for row in self.card.models
                if row.standing == "ranked"
            }
        )

    def _final(self, place: int) -> float:
        points = self.dialogues[place].points
        return self.scale.low if points is None else points

    def _highlight(self, place: int) -> dict[str, Any]:
        dialogue, course = self.dialogues[place], self.courses[place] or [0.0]
        return {
            "address": self.ids[place],
            "score": self._final(place),
            "title": _title(dialogue),
            "person": dialogue.facts.get("person", ""),
            "group": group_of(dialogue),
            "stop": self.stop_words[dialogue.stop],
            "tags": ", ".join(content_tags(dialogue.facts)),
            "path": path_of(course, self.spark),
            "end": (self.spark.x(len(course) - 1), self.spark.y(course[-1])),
        }


def _title(dialogue: Dialogue) -> str:
    return dialogue.facts.get("title") or dialogue.scenario


def _set_values(values: object) -> list[str]:
    return [str(value) for value in values if value not in (None, "")] if isinstance(values, list) else []


def evenly(dialogues: Sequence[Digest]) -> list[int]:
    """Places of all dialogues, of which the first so many are spread evenly over the scenarios, each with all its models.

    Scenarios come in the order of the reversed bits of their numbers, which are spread evenly up to any place; then their next
    repeats.
    """
    numbers: dict[tuple[str, str], int] = {}
    played: Counter[tuple[str, str, str]] = Counter()
    order: list[tuple[int, str, int]] = []
    for place, one in enumerate(dialogues):
        scenario = (one.scenario, one.fingerprint)
        number = numbers.setdefault(scenario, len(numbers))
        order.append((played[one.model, *scenario], f"{number:032b}"[::-1], place))
        played[one.model, *scenario] += 1
    return [place for *_, place in sorted(order)]


def dialogue_ids(dialogues: Iterable[Dialogue]) -> list[str]:
    keys = (dialogue.key for dialogue in dialogues)
    return addresses("dialogue", (f"{model} {scenario}{f' r{repeat + 1}' if repeat else ''}" for model, scenario, repeat in keys))


def addresses(kind: str, names: Iterable[str]) -> list[str]:
    """A readable and unique address for each name.

    >>> addresses("model", ["x/good", "x-good"])
    ['model-x-good', 'model-x-good--2']
    """
    taken: dict[str, None] = {}
    for name in names:
        wanted = base = f"{kind}-" + (re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-") or "unnamed")
        number = 2
        while wanted in taken:
            wanted, number = f"{base}--{number}", number + 1
        taken[wanted] = None
    return list(taken)


def is_same_model(first: str, second: str) -> bool:
    """Whether two names mean the same model, whichever service answers for it.

    >>> is_same_model("openrouter/openai/gpt-6-luna", "openai/gpt-6-luna")
    True
    """
    return first.rsplit("/", 1)[-1].casefold() == second.rsplit("/", 1)[-1].casefold()
