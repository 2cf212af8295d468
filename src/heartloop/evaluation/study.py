"""Plans a study that compares two models from runs: variances, calls, tokens, cost, designs, and their text.

Components are of the difference of two models, averaged over all pairs. Repeats of a scenario are policy sampling; runs of the
same scenarios under other user simulators, or rejudged by other judges, add the variance between these instruments.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import NamedTuple

from heartloop.core.errors import UseError
from heartloop.core.text import amount, money, printable
from heartloop.environments.spec import EnvironmentSpec, Scale
from heartloop.evaluation.compare import aligned
from heartloop.evaluation.digests import Dialogue, Digest, digested
from heartloop.evaluation.scores import FAILURE_CASES, cost_of_usage, latest, merged_prices
from heartloop.evaluation.store import StoredRun, judge_of
from heartloop.models.budget import Price, is_paid
from heartloop.scoring.power import Design, DifferenceVariance, Step, Use, minimum_difference, next_steps, study_designs
from heartloop.scoring.variance import Component, JudgeMean, mean_over_judges, variance_components

_Cell = tuple[str, str, int, int]  # scenario, fingerprint, seed, repeat


class StudyData(NamedTuple):
    source: str
    components: tuple[Component, ...]
    variance: DifferenceVariance
    repeats_known: bool
    instrument: str
    """What differs between the instruments: `judge` or `user simulator`; empty for one instrument."""
    size: tuple[int, int, int]  # scenarios, repeats, instruments
    dialogue: Use
    """One dialogue of both models together, under the first instrument."""
    further: Use  # under each further instrument: its judgements, or another dialogue
    notes: tuple[str, ...]

    def use(self, scenarios: int, repeats: int, judges: int) -> Use:
        return self.dialogue.plus(self.further.times(judges - 1)).times(scenarios * repeats)


class Study(NamedTuple):
    data: StudyData
    difference: float
    power: float
    designs: tuple[Design, ...]
    cheapest: tuple[Design, ...]
    """The cheapest design with one judge, and the cheapest with several, since their results hold for different judges."""
    detects: float | None
    steps: tuple[Step, ...]


def plan_study(data: StudyData, difference: float, *, power: float = 0.8) -> Study:
    """The designs that detect a difference in points at the 95 % level; several judges only where their variance is known."""
    repeats, judges = ((1, 2, 3, 5) if known else (1,) for known in (data.repeats_known, data.instrument))
    designs = study_designs(data.variance, difference, data.use, repeats=repeats, judges=judges, power=power)

    def price(design: Design) -> tuple[float, float, int]:
        return (design.use.cost or 0.0, design.use.calls, design.scenarios)

    s, r, j = data.size
    detects, steps = None, []
    if s > 1:
        variance = data.variance
        detects = minimum_difference(variance.of_mean(s, r, j), variance.df(s, r, j), power=power)
        steps = next_steps(variance, s, r, j, data.use, power=power)
    kinds = ([d for d in designs if d.judges == 1], [d for d in designs if d.judges > 1])
    cheapest = tuple(min(some, key=price) for some in kinds if some)
    return Study(data, difference, power, tuple(designs), cheapest, detects, tuple(steps))


def study_data(spec: EnvironmentSpec, runs: Sequence[StoredRun], *, prices: Mapping[str, Price] | None = None) -> StudyData:
    """What runs say about a study, or without runs the environment's pilot; `prices` replace those in the runs' settings."""
    if not runs:
        return _from_pilot(spec)
    points: dict[str, dict[tuple[str, _Cell], list[float]]] = {}
    played: dict[str, dict[tuple[str, _Cell], list[Digest]]] = defaultdict(dict)
    names: set[str] = set()
    for run in runs:
        judge = judge_of(run.settings)
        dialogues = latest(run.digests)
        names |= {d.environment for d in dialogues} or {str(run.settings.get("environment"))}
        for dialogue in dialogues:
            # who plays or judges the user, in words
            others = {name for role, name in dialogue.models.items() if role != "policy"} | {dialogue.user}
            instrument = judge or " + ".join(sorted(others))
            if dialogue.model in FAILURE_CASES or dialogue.points is None:
                continue
            key = (dialogue.model, _cell(dialogue))
            known = points.setdefault(instrument, {}).setdefault(key, [])
            if known and not judge:
                known.clear()  # played again: the last one counts
                played[instrument].pop(key)
            known.append(dialogue.points)
            played[instrument].setdefault(key, []).append(dialogue)
    if names != {spec.name}:
        raise UseError(f"got runs of {' and '.join(sorted(names))}; expected runs of {spec.name}")
    models = sorted(set.intersection(*({model for model, _ in known} for known in points.values()))) if points else []
    if not models:
        raise UseError("the runs share no model with a scored dialogue; expected the same models in every run")
    rejudged = any(judge_of(run.settings) for run in runs)
    kind = "" if len(points) < 2 else "judge" if rejudged else "user simulator"
    components, size, left_out = _components(points, models, kind)
    tables = merged_prices(run.settings.get("prices") for run in runs)
    every = {name: [d for some in by_cell.values() for d in some] for name, by_cell in played.items()}
    dialogue_use, further = _uses(every, list(points), models, kind, {**tables, **(prices or {})})
    notes: list[str] = []
    if left_out:
        notes.append(f"{amount(left_out, 'scenario')} left out: not scored for every model, repeat and {kind or 'judge'}.")
    if len(models) == 1:
        notes.append(
            f"One model, {models[0]}: the second is assumed to vary as much and independently. Two models of one run usually "
            "need fewer scenarios."
        )
    if size[1] == 1:
        notes.append("One repeat: policy sampling is part of the scenario variance. Evaluate with --repeats 2 to separate them.")
    if not kind:
        notes.append(
            "One user simulator and judge: the plan holds for them. To plan their number, too, give runs of the same scenarios "
            "with other user simulators, or from heartloop rejudge."
        )
    return StudyData(
        source=f"{amount(len(runs), 'run')}: {amount(len(models), 'model')}, {amount(size[0], 'scenario')}, "
        f"{amount(size[1], 'repeat')}, {amount(size[2], kind or 'judge')} ({', '.join(points) if kind else next(iter(points))})",
        components=components,
        variance=_difference_variance({one.name: one.variance for one in components}, kind),
        repeats_known=size[1] > 1,
        instrument=kind,
        size=size,
        dialogue=dialogue_use,
        further=further,
        notes=tuple(notes),
    )


def mean_over_instruments(columns: Sequence[Iterable[Dialogue]], model: str) -> JudgeMean | None:
    """A model's mean over instruments, a sample of many, on scenarios that all scored; `None` for fewer than two of either."""
    cells: dict[tuple[str, int], list[float]] = {}
    for place, dialogues in enumerate(columns):
        for dialogue in digested(dialogues):
            if dialogue.model == model and dialogue.points is not None:
                cells.setdefault((dialogue.scenario, place), []).append(dialogue.points)
    places = sorted({place for _, place in cells})
    scenarios = sorted({scenario for scenario, _ in cells if all((scenario, place) in cells for place in places)})
    if len(places) < 2 or len(scenarios) < 2:
        return None
    rows = [(points, s, place) for s in scenarios for place in places for points in cells[s, place]]
    return mean_over_judges([points for points, _, _ in rows], [s for _, s, _ in rows], [place for *_, place in rows])


def _from_pilot(spec: EnvironmentSpec) -> StudyData:
    if (pilot := spec.pilot) is None:
        raise UseError(
            f"{spec.name} has no pilot of its own; give a run, such as one of: heartloop eval {spec.name} --model A --model B "
            "--limit 10 --repeats 2"
        )
    total = pilot.scenario + pilot.repeat
    components = tuple(
        Component(name, variance, variance / total, 0, 0.0, variance)
        for name, variance in (("scenario", pilot.scenario), ("policy sampling", pilot.repeat))
    )
    calls, tokens = pilot.turns, pilot.tokens
    notes = [
        "Two scripted baselines and the embedded user: real models differ otherwise. Give a run of your own, such as one of: "
        f"heartloop eval {spec.name} --model A --model B --limit 10 --repeats 2"
    ]
    if spec.training is not None:
        asked = pilot.turns * spec.training.calls_per_turn
        calls, tokens = calls + asked, tokens + asked * spec.training.tokens_per_call
        notes.append("Calls and tokens are estimates for a language model that plays every role.")
    else:
        notes.append("Calls and tokens are those of the models under test alone.")
    return StudyData(
        source=f"the pilot of {spec.name}: {' and '.join(pilot.models)} with the embedded user",
        components=components,
        variance=DifferenceVariance(pilot.scenario, pilot.repeat),
        repeats_known=True,
        instrument="",
        size=(0, 0, 1),
        dialogue=Use(2 * calls, 2 * tokens),
        further=Use(0, 0, 0.0),
        notes=tuple(notes),
    )


def _cell(dialogue: Digest) -> _Cell:
    return (dialogue.scenario, dialogue.fingerprint, dialogue.seed, dialogue.repeat)


def _components(
    by_instrument: Mapping[str, Mapping[tuple[str, _Cell], Sequence[float]]], models: Sequence[str], kind: str
) -> tuple[tuple[Component, ...], tuple[int, int, int], int]:
    """Components of the difference, averaged over pairs of models; the size of the design; scenarios left out."""
    common: dict[str, set[_Cell]] = {}
    for name, known in by_instrument.items():
        cells: dict[str, set[_Cell]] = {model: set() for model in models}
        for model, cell in known:
            if model in cells:
                cells[model].add(cell)
        common[name] = set.intersection(*cells.values())
    if kind == "judge":  # the same dialogues under each judge
        both = set.intersection(*common.values())
        common = dict.fromkeys(common, both)
    scenarios = {name: Counter((scenario, text) for scenario, text, _, _ in some) for name, some in common.items()}
    every: set[tuple[str, str]] = set().union(*scenarios.values())
    counted = Counter(n for one in scenarios.values() for n in one.values())
    repeats = counted.most_common(1)[0][0] if counted else 1
    whole = sorted(key for key in every if all(one[key] >= repeats for one in scenarios.values()))
    if len(whole) < 2:
        raise UseError(
            f"{amount(len(whole), 'scenario')} scored for every model and {kind or 'judge'} of the runs; expected 2, better 10"
        )
    chosen: dict[str, dict[tuple[str, str], list[_Cell]]] = {}
    for name in by_instrument:
        chosen[name] = {key: [] for key in whole}
        for cell in sorted(common[name]):
            if len(mine := chosen[name].get(cell[:2], [])) < repeats:
                mine.append(cell)
    judged = {len(values) for known in by_instrument.values() for values in known.values()}
    reruns = min(judged) if kind == "judge" and len(judged) == 1 else 1
    pairs: list[tuple[str, str | None]] = list(combinations(models, 2)) or [(models[0], None)]
    sums: dict[str, list[Component]] = {}
    for a, b in pairs:
        values: list[float] = []
        factors: dict[str, list[object]] = {"scenario": [], kind or "judge": [], "policy sampling": []}
        for name, known in by_instrument.items():
            for key in whole:
                for place, cell in enumerate(chosen[name][key]):
                    first = known[a, cell]
                    second = known[b, cell] if b is not None else [0.0] * len(first)
                    for rerun in range(reruns):
                        values.append(second[rerun] - first[rerun] if b is not None else first[rerun])
                        factors["scenario"].append(key)
                        factors[kind or "judge"].append(name)
                        factors["policy sampling"].append(place)
        within = ["scenario"] if kind != "user simulator" else ["scenario", "user simulator"]
        for one in variance_components(values, factors, within={"policy sampling": within}).components:
            sums.setdefault(one.name, []).append(one)
    doubled = 2.0 if len(models) == 1 else 1.0
    raw = {name: doubled * sum(one.raw for one in some) / len(some) for name, some in sums.items()}
    total = sum(max(0.0, value) for value in raw.values())
    components = tuple(
        Component(
            name, max(0.0, raw[name]), max(0.0, raw[name]) / total if total else float("nan"), some[0].df,
            doubled * sum(one.mean_square for one in some) / len(some), raw[name],
        )
        for name, some in sums.items()
    )  # fmt: skip
    return components, (len(whole), repeats, len(by_instrument)), len(every) - len(whole)


def _difference_variance(of: Mapping[str, float], kind: str) -> DifferenceVariance:
    sampling = of.get("policy sampling", 0.0)
    if kind == "judge":
        rest = of.get("judge × policy sampling", 0.0) + of.get("rerun", 0.0)
        return DifferenceVariance(of["scenario"], sampling, of.get("judge", 0.0), of.get("scenario × judge", 0.0), rest)
    if kind == "user simulator":
        both = of.get("scenario × user simulator", 0.0)
        return DifferenceVariance(of["scenario"], 0.0, of.get("user simulator", 0.0), both, sampling)
    return DifferenceVariance(of["scenario"], sampling)


def _uses(
    played: Mapping[str, Sequence[Digest]], instruments: Sequence[str], models: Sequence[str], kind: str,
    prices: Mapping[str, object],
) -> tuple[Use, Use]:  # fmt: skip
    first, *others = (
        _mean_use([d for d in played[name] if d.model in models], prices, policy=place == 0 or kind != "judge")
        for place, name in enumerate(instruments)
    )
    return first.times(2), reduce(Use.plus, others, Use(0, 0, 0.0)).times(2 / max(1, len(others)))


def _mean_use(dialogues: Sequence[Digest], prices: Mapping[str, object], *, policy: bool) -> Use:
    """Mean calls, tokens and cost of a dialogue; of a rejudged one without the stored replies, `policy` being false."""
    roles = {role for d in dialogues for role in (*d.roles, *d.calls_by_role) if policy or role != "policy"}
    usages = [(d.models.get(role, d.model), usage) for d in dialogues for role, usage in d.usage.items() if role in roles]
    n = len(dialogues)
    calls = sum(n for d in dialogues for role, n in d.calls_by_role.items() if role in roles)
    tokens = sum(usage.prompt_tokens + usage.completion_tokens for _, usage in usages)
    paid = any(is_paid(model) for d in dialogues for model in (d.model, *d.models.values()))
    cost = cost_of_usage(usages, prices) if prices or not paid else None
    return Use(calls / n, tokens / n, None if cost is None else cost / n)


def study_text(study: Study, scale: Scale) -> str:
    data = study.data
    lines = [f"From {data.source}.", *(f"! {note}" for note in data.notes), ""]
    lines.append(f"Variance of the difference of two models, in squared points of {scale.title}:")
    for one in data.components:
        below = " (estimate below 0)" if one.raw < 0 else ""
        share = "–" if one.share != one.share else f"{one.share:.0%}"
        lines.append(f"  {one.name:<34}{one.variance:>9.1f}{share:>7}{below}")
    if study.detects is not None:
        s, r, j = data.size
        judges = f" × {amount(j, data.instrument)}" if data.instrument else ""
        runs = f"{amount(s, 'scenario')} × {amount(r, 'repeat')}{judges}"
        power = f"{study.detects:.1f} points with {study.power:.0%} power"
        lines += ["", f"These runs ({runs}) detect a difference of {power}."]
        for step in study.steps:
            more = data.instrument if step.more == "judge" else step.more
            cost = f" at a cost of {money(step.extra.cost)}" if step.extra.cost else ""
            gain = f", {100 * step.per_call:.2g} points per 100 calls" if step.per_call == step.per_call else ""
            lines.append(f"  one more {more}: {step.detects:.2f} for {_short(step.extra.calls)} calls{cost}{gain}")
    if not study.designs:
        lines += ["", f"No design with up to 100,000 scenarios detects {study.difference:g} points."]
    else:
        lines += ["", f"To detect {study.difference:g} points with {study.power:.0%} power (95 % level, two models):"]
        lines += _table(study)
        if data.instrument:
            lines.append(f"With one {data.instrument} the result holds for that one; with several, for others like them.")
        if data.instrument and (missing := sorted({2, 3, 5} - {design.judges for design in study.designs})):
            lines.append(
                f"With {' or '.join(map(str, missing))} no number of scenarios is enough: the variance between "
                f"{data.instrument}s does not fall with it."
            )
    return "\n".join(printable(line) for line in lines)


def _table(study: Study) -> Iterable[str]:
    priced = any(design.use.cost for design in study.designs)
    judges = bool(study.data.instrument)
    heads = ["scenarios", "repeats", *([f"{study.data.instrument}s"] if judges else []), "calls", "tokens"]
    rows = [["", *heads, *(["cost"] if priced else []), ""]]
    for design in study.designs:
        sizes = [f"{design.scenarios:,}", str(design.repeats), *([str(design.judges)] if judges else [])]
        cost = [money(design.use.cost)] if priced else []
        note = "< cheapest" if design in study.cheapest else ""
        rows.append(["", *sizes, _short(design.use.calls), _short(design.use.tokens), *cost, note])
    yield from aligned(rows, left=(len(rows[0]) - 1,))


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{value:,.0f}"
