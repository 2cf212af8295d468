"""Paired comparison of two models on the dialogues scored in both, its text, and the agreement of two judges.

A pair has the same scenario, with the same text (fingerprint), and the same repeat; statistics are clustered by scenario.
Differences are B - A in points: above 0, B scored higher.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from heartloop.core.errors import UseError
from heartloop.core.text import amount, printable
from heartloop.environments.reading import WEIGHTS
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scale
from heartloop.evaluation.digests import Dialogue, Digest, digested
from heartloop.evaluation.scores import ALLOWED_UNSCORED, in_group_order, latest, model_names, options_of, unfinished
from heartloop.evaluation.store import StoredRun
from heartloop.scoring.agreement import mean_pairwise_pearson, sign_agreement, spearman
from heartloop.scoring.power import sample_size_for
from heartloop.scoring.statistics import (
    EXACT_UP_TO,
    Interval,
    Shape,
    cluster_means,
    cohens_dz,
    paired_difference,
    permutation_p,
    rank_biserial,
)

_MOST_DIFFERENT = 5
_UNSCORED = "unscored"
_TEXT_DIFFERS = "the scenario's text differs"
FEW_SCENARIOS = 10  # fewer cannot show whether scores are near normal, which an interval relies on


class Side(NamedTuple):
    run: str
    model: str
    settings: Mapping[str, Any]
    dialogues: tuple[Digest, ...]


class Pair(NamedTuple):
    a: Digest
    b: Digest
    score_a: float
    score_b: float

    @property
    def difference(self) -> float:
        return self.score_b - self.score_a


class GroupDifference(NamedTuple):
    key: str
    pairs: int
    mean_a: float
    mean_b: float
    difference: Interval


class Comparison(NamedTuple):
    a: Side
    b: Side
    scale: Scale
    pairs: int
    scenarios: int
    mean_a: float
    mean_b: float
    difference: Interval
    p: float
    exact: bool  # p from all sign patterns; otherwise from 10,000 random ones
    effect: float  # Cohen's d_z over scenarios
    rank_biserial: float
    sd: float | None  # of the scenarios' mean differences
    needed: int | None
    """Scenarios needed to distinguish `aim` from 0 with 80 % power at the 95 % level; `None` if not defined."""
    aim: float  # `min_difference`, or else the observed difference
    left_out: tuple[tuple[str, int], ...]
    unscored: tuple[int, int]
    """In A and in B, of the dialogues played in both."""
    failed_replies: tuple[int, int]
    """In A and in B, in the pairs: replies that a bot failed to give, scored as silence."""
    replies: tuple[int, int]
    """In A and in B, in the pairs."""
    measured_apart: tuple[str, ...]
    """The warnings of what differs and measures, or sets the task: roles, rules, options; a difference may come from it."""
    groups: tuple[GroupDifference, ...]
    extremes: tuple[Pair, ...]
    warnings: tuple[str, ...]

    @property
    def environment(self) -> str:
        return (*self.a.dialogues, *self.b.dialogues)[0].environment

    @property
    def played(self) -> int:
        """Dialogues played in both, on the same text: the pairs, and those unscored in one or both."""
        return self.pairs + _unscored(self.left_out)

    def __repr__(self) -> str:
        mean, low, high = self.difference[:3]
        return f"Comparison({self.b.model} - {self.a.model}: {mean:+.1f} ({low:.1f} to {high:.1f}), p={self.p:.3g})"

    def __str__(self) -> str:
        return comparison_text(self)


def choose_sides(run_a: StoredRun, run_b: StoredRun | None, model_a: str | None, model_b: str | None) -> tuple[Side, Side]:
    """The two sides of a comparison; with one run, two of its models, which need no names where it has two.

    Of two runs a model needs no name if it is the only one of its run, has the name given for the other side, or is the only one
    in both.
    """
    if run_b is None and model_a is None and model_b is None and len(names := _names(run_a)) == 2:
        model_a, model_b = names
    if run_b is None and (model_a is None or model_b is None):
        raise UseError("got one run; expected a second run, or two models of this one with --model-a and --model-b")
    sides = []
    shared = [name for name in _names(run_a) if run_b is not None and name in _names(run_b)]
    for run, model, other, option in ((run_a, model_a, model_b, "--model-a"), (run_b or run_a, model_b, model_a, "--model-b")):
        names = _names(run)
        matching = names if len(names) == 1 else shared if other is None else [other]
        chosen = matching[0] if model is None and len(matching) == 1 else model
        if chosen not in names:
            problem = "has several models" if model is None else f"has no model {model!r}"
            raise UseError(f"{run.path} {problem}; expected {option} with one of {', '.join(names) or 'none (it is empty)'}")
        dialogues = tuple(d for d in latest(run.digests) if d.model == chosen)
        sides.append(Side(str(run.path), chosen, run.settings, dialogues))
    if sides[0].model == sides[1].model and (run_b is None or run_a.path.resolve() == run_b.path.resolve()):
        raise UseError(f"A and B are both {sides[0].model} of the same run; expected two runs, or two models")
    return sides[0], sides[1]


def _names(run: StoredRun) -> list[str]:
    return list(dict.fromkeys([*model_names(run.settings), *(dialogue.model for dialogue in run.digests)]))


def compare(a: Side, b: Side, *, min_difference: float | None = None) -> Comparison:
    """Compares B with A on the pairs scored in both; `min_difference` is the smallest difference that matters, in points."""
    names = {d.environment for d in (*a.dialogues, *b.dialogues)} or {str(side.settings.get("environment")) for side in (a, b)}
    if len(names) > 1:
        raise UseError(f"got runs of {' and '.join(sorted(names))}; expected runs of one environment")
    scale = load_environment(names.pop()).scale
    _check_weights(a, b)
    widest = scale.high - scale.low
    if min_difference is not None and not 0.0 < min_difference <= widest:
        raise UseError(f"--min-difference is {min_difference!r}; expected points of {scale.title} above 0, at most {widest:g}")
    pairs, left_out, unscored = _paired(a.dialogues, b.dialogues)
    if not pairs:
        reasons = "; ".join(f"{reason}: {n}" for reason, n in left_out) or "both are empty"
        raise UseError(f"{a.model} and {b.model} share no scored dialogue ({reasons}); evaluate them on the same scenarios")
    differences = [pair.difference for pair in pairs]
    scenarios = [pair.a.scenario for pair in pairs]
    means = cluster_means(differences, scenarios)
    sd = statistics.stdev(means) if len(means) > 1 else None
    difference = _interval(pairs)
    failed = (sum(p.a.failed_replies for p in pairs), sum(p.b.failed_replies for p in pairs))
    replies = (sum(len(p.a.lengths) for p in pairs), sum(len(p.b.lengths) for p in pairs))
    apart = (*_other_rules(pairs), *_other_settings(a.settings, b.settings, pairs[0].a.environment))
    aim = min_difference if min_difference is not None else abs(difference.mean)
    return Comparison(
        a=a,
        b=b,
        scale=scale,
        pairs=len(pairs),
        scenarios=len(means),
        mean_a=statistics.fmean(pair.score_a for pair in pairs),
        mean_b=statistics.fmean(pair.score_b for pair in pairs),
        difference=difference,
        p=permutation_p(differences, clusters=scenarios),
        exact=sum(mean != 0.0 for mean in means) <= EXACT_UP_TO,
        effect=cohens_dz(differences, clusters=scenarios),
        rank_biserial=rank_biserial(differences, clusters=scenarios),
        sd=sd,
        needed=sample_size_for(aim, sd) if sd and aim else None,
        aim=aim,
        left_out=tuple(left_out),
        unscored=unscored,
        failed_replies=failed,
        replies=replies,
        measured_apart=apart,
        groups=tuple(_by_group(pairs, scale)),
        extremes=tuple(sorted((p for p in pairs if p.difference), key=lambda p: -abs(p.difference))[:_MOST_DIFFERENT]),
        warnings=(*apart, *_warnings(a, b, pairs, dict(left_out), failed, replies, len(means), difference.shape)),
    )


def _check_weights(a: Side, b: Side) -> None:
    """Refuses dialogues that were judged by different weights: the same reply would have another score."""
    digests: dict[str, list[set[str]]] = {}
    for place, side in enumerate((a, b)):
        for name, digest in {item for d in side.dialogues for item in d.prompts.items()}:
            if name.startswith(WEIGHTS):
                digests.setdefault(name.removeprefix(WEIGHTS), [set(), set()])[place].add(digest)
    if different := {name: both for name, both in digests.items() if all(both) and both[0] != both[1]}:
        shown = "; ".join(f"{name} {' and '.join(sorted(set.union(*different[name])))}" for name in sorted(different))
        raise UseError(f"A and B were judged by different weights ({shown}); rejudge one (heartloop rejudge RUN --judge ...)")


def _paired(a: Iterable[Digest], b: Iterable[Digest]) -> tuple[list[Pair], list[tuple[str, int]], tuple[int, int]]:
    """The pairs, the numbers of dialogues left out by reason, and those of unscored ones in A and in B."""
    in_a, in_b = ({(d.scenario, d.repeat): d for d in side} for side in (a, b))
    pairs: list[Pair] = []
    left_out: Counter[str] = Counter()
    unscored: Counter[str] = Counter()
    for key in dict.fromkeys([*in_a, *in_b]):
        mine, yours = in_a.get(key), in_b.get(key)
        if mine is None or yours is None:
            left_out["not played in A" if mine is None else "not played in B"] += 1
        elif mine.fingerprint != yours.fingerprint:
            left_out[_TEXT_DIFFERS] += 1
        elif mine.points is None or yours.points is None:
            failures = {name: d.failure for name, d in (("A", mine), ("B", yours)) if not d.scored}
            causes = {name: f"{one.role}: {one.kind}" if one else "cause unknown" for name, one in failures.items()}
            unscored.update(causes.keys())
            left_out[" and ".join(f"{_UNSCORED} in {name} ({cause})" for name, cause in causes.items())] += 1
        else:
            pairs.append(Pair(mine, yours, mine.points, yours.points))
    return pairs, left_out.most_common(), (unscored["A"], unscored["B"])


def _unscored(left_out: Iterable[tuple[str, int]]) -> int:
    return sum(n for reason, n in left_out if reason.startswith(_UNSCORED))


def _interval(pairs: Sequence[Pair]) -> Interval:
    return paired_difference([p.score_a for p in pairs], [p.score_b for p in pairs], clusters=[p.a.scenario for p in pairs])


def _by_group(pairs: Sequence[Pair], scale: Scale) -> Iterable[GroupDifference]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.a.facts.get(scale.group, ""), []).append(pair)
    for key in in_group_order(scale, filter(None, groups)):
        mine = groups[key]
        means = (statistics.fmean(p.score_a for p in mine), statistics.fmean(p.score_b for p in mine))
        few = len({pair.a.scenario for pair in mine}) < 3  # the t interval of two mostly exceeds the scale
        difference = Interval(means[1] - means[0], math.nan, math.nan) if few else _interval(mine)
        yield GroupDifference(key, len(mine), *means, difference)


def _warnings(
    a: Side, b: Side, pairs: Sequence[Pair], left_out: Mapping[str, int], failed: tuple[int, int], replies: tuple[int, int],
    scenarios: int, shape: Shape,
) -> Iterable[str]:  # fmt: skip
    if prompts := [name for name in _other_prompts(pairs) if name.startswith("policy")]:
        yield f"Prompts of the models under test differ: {', '.join(prompts)}. They are part of what is compared."
    if texts := left_out.get(_TEXT_DIFFERS, 0):
        yield f"{amount(texts, 'dialogue')} left out: the scenario's text differs between A and B."
    for name, side in (("A", a), ("B", b)):
        yield from unfinished(f"{name} ({side.run})", {**side.settings, "models": [side.model]}, side.dialogues)
    if any(pair.a.seed != pair.b.seed for pair in pairs):
        yield "Seeds differ between A and B."
    if any(failed):
        in_a, in_b = (f"{n} of {amount(of, 'reply', 'replies')}" for n, of in zip(failed, replies, strict=True))
        yield f"A bot failed and was silent: {in_a} in A, {in_b} in B."
    unscored = _unscored(left_out.items())
    if unscored > ALLOWED_UNSCORED * (unscored + len(pairs)):
        yield (
            f"Unscored in one or both: {unscored} of {amount(unscored + len(pairs), 'dialogue')} played in both; "
            f"above {ALLOWED_UNSCORED:.0%} the comparison is not reliable."
        )
    if scenarios == 1:
        yield "Only one scenario: no interval and no test."
    elif scenarios < FEW_SCENARIOS:
        yield (
            f"Only {scenarios} scenarios: too few to show whether the interval holds, "
            f"and p cannot fall below {2 / 2**scenarios:.2g}."
        )
    elif shape is Shape.SKEWED:
        yield f"The differences are too skewed for {scenarios} scenarios: the interval covers less than 95 %."


def _other_rules(pairs: Sequence[Pair]) -> Iterable[str]:
    sides = [[pair.a for pair in pairs], [pair.b for pair in pairs]]
    judged = ["judge" in d.models for side in sides for d in side]
    roles = sorted({role for side in sides for d in side for role in d.models} - {"policy", "user", "judge"})
    named: list[tuple[str, Callable[[Digest], object], str]] = [
        (
            "user simulator", lambda d: d.models.get("user", d.user) if "judge" in d.models else d.user,
            ": the difference may be the simulators', not the models'",
        ),
        ("judge", judge_of, ": the difference may be the judges', not the models'"),
        ("preset", lambda d: d.preset, ": the rules differ, so the scores are not comparable"),
        ("variant", lambda d: d.variant, ": their difficulty may differ"),
        *((role, lambda d, role=role: d.models.get(role, "missing"), "") for role in roles),
    ]  # fmt: skip
    for name, value, why in named:
        mine, yours = (" and ".join(sorted({str(value(d)) for d in side})) for side in sides)
        if mine != yours and (name != "judge" or any(judged)):  # elsewhere the user simulator judges
            yield f"The {name} is {mine} in A and {yours} in B{why}."
    if any(pair.a.start != pair.b.start for pair in pairs):
        yield "The start state differs between A and B."
    if prompts := [name for name in _other_prompts(pairs) if not name.startswith("policy")]:
        yield f"Prompts or rules differ: {', '.join(prompts)}. The difference may come from that."
    sampled = {r for p in pairs for r in {*p.a.sampling, *p.b.sampling} if p.a.sampling.get(r) != p.b.sampling.get(r)}
    if any(judged) and not all(judged):
        sampled.discard("judge")  # one side has no judge, which another warning says
    for role in sorted(sampled - {"policy"}):  # the sampling of the policy is part of what is compared
        yield f"The {role}'s sampling settings differ."


def _other_prompts(pairs: Iterable[Pair]) -> list[str]:
    return sorted({n for p in pairs for n in {*p.a.prompts, *p.b.prompts} if p.a.prompts.get(n) != p.b.prompts.get(n)})


def _other_settings(a: Mapping[str, Any], b: Mapping[str, Any], environment: str) -> Iterable[str]:
    def plain(value: object) -> object:
        return (" and ".join(map(str, value)) or "nothing") if isinstance(value, (list, tuple)) else value

    for option in load_environment(environment).options.declared():
        mine, yours = (plain(options_of(side).get(option.name, option.default)) for side in (a, b))
        if option.name not in ("preset", "variant") and mine != yours:  # compared by dialogue, in `_other_rules`
            yield f"Option {option.name} differs: {mine} in A, {yours} in B."
    if ("rescored" in a) != ("rescored" in b):
        yield f"{'A' if 'rescored' in a else 'B'} was rescored from its transcripts, the other was not."
    if ("rejudged" in a) != ("rejudged" in b):
        yield f"{'A' if 'rejudged' in a else 'B'} was rejudged: another judge scored stored replies, the dialogues are not new."


def comparison_text(comparison: Comparison, *, min_difference: float | None = None) -> str:
    lines = [
        f"{name}  {side.model}  ({side.run})  mean {comparison.scale.title} {mean:.1f}"
        for name, side, mean in (("A", comparison.a, comparison.mean_a), ("B", comparison.b, comparison.mean_b))
    ]
    paired = f"{amount(comparison.pairs, 'dialogue')} of {amount(comparison.scenarios, 'scenario')}"
    lines.append(f"Paired on {paired}, scored in both.")
    lines += [f"  left out: {n} {reason}" for reason, n in comparison.left_out]
    lines += [f"! {warning}" for warning in comparison.warnings]
    lines += ["", f"B - A: {_signed(comparison.difference.mean)}{_ends(comparison.difference, ', 95 % interval ')}"]
    lines += [*evidence_words(comparison), verdict(comparison, min_difference), needed_words(comparison)]
    if comparison.groups:
        rows = [
            (i.key, str(i.pairs), f"{i.mean_a:.1f}", f"{i.mean_b:.1f}", _signed(i.difference.mean), _ends(i.difference))
            for i in comparison.groups
        ]
        lines += ["", *aligned([(f"by {comparison.scale.group}", "n", "A", "B", "B - A", "95 % interval"), *rows])]
        if any(i.pairs < FEW_SCENARIOS for i in comparison.groups):
            lines.append("Groups of fewer than 10 dialogues are too few to conclude from.")
    if comparison.extremes:
        repeats = len({pair.a.repeat for pair in comparison.extremes}) > 1
        pairs = [
            (
                pair.a.scenario + (f" (repeat {pair.a.repeat + 1})" if repeats else ""), f"{pair.score_a:.0f}",
                f"{pair.score_b:.0f}", _signed(pair.difference, 0), " ".join(pair.a.facts.get("title", "").split()),
            )
            for pair in comparison.extremes
        ]  # fmt: skip
        lines += ["", *aligned([("largest differences", "A", "B", "B - A", "title"), *pairs], left=(0, 4))]
    return "\n".join(printable(line) for line in lines)


def evidence_words(comparison: Comparison) -> tuple[str, str]:
    p = f"{comparison.p:.4f}" if comparison.p >= 0.0001 else f"{comparison.p:.1e}"
    how = "exact" if comparison.exact else "10,000 random sign patterns"
    size = abs(comparison.effect)
    words = "large" if size >= 0.8 else "medium" if size >= 0.5 else "small" if size >= 0.2 else "very small"
    effect = f"{_signed(comparison.effect, 2)} ({words})"
    if comparison.scenarios < FEW_SCENARIOS:
        effect = f"left out below {FEW_SCENARIOS} scenarios"
    elif math.isinf(size):
        effect = "infinite (the difference is the same in every scenario)"
    return (
        f"permutation test p {p} ({how}, by scenario)",
        f"effect d_z {effect}, rank-biserial {_signed(comparison.rank_biserial, 2)}",
    )


def verdict(comparison: Comparison, min_difference: float | None = None) -> str:
    low, high = comparison.difference.low, comparison.difference.high
    if math.isnan(low):
        return "One scenario: no verdict."
    if min_difference is not None and -min_difference < low and high < min_difference:
        return f"Equivalent: the interval excludes differences of {min_difference:g} or more."
    if low > 0:
        return "B is better: the interval lies above 0."
    if high < 0:
        return "B is worse: the interval lies below 0."
    return "Not distinguished: the interval includes 0. This does not show that they are equal."


def needed_words(comparison: Comparison) -> str:
    if comparison.needed is None:
        return "The sample size is not defined: the difference or its spread is 0."
    return (
        f"A difference of {comparison.aim:.1f} needs about {comparison.needed:,} scenarios (80 % power, 95 % level); "
        f"this comparison has {comparison.scenarios}."
    )


def _ends(interval: Interval, before: str = "") -> str:
    return "" if math.isnan(interval.low) else f"{before}{interval_words(interval)}"


def interval_words(interval: Interval) -> str:
    return f"{_signed(interval.low)} to {_signed(interval.high)}"


def _signed(value: float, digits: int = 1) -> str:
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0.0 else text


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterable[str]:
    """Rows as lines of a table; columns are right-aligned but for those in `left`."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        yield "  ".join(cells).rstrip()


class Agreement(NamedTuple):
    first: str
    """The judge, or the user simulator that judged."""
    second: str
    dialogues: int
    pearson: float | None
    """Of the scores; `None` with fewer than two dialogues, or if one judge's scores are all equal."""
    spearman: float | None
    difference: Interval | None  # mean of second minus first in points, clustered by scenario
    replies: int
    by_reply: float | None  # Pearson of the changes of the score by each reply
    signs: float | None
    cut: int  # dialogues that the second judge would have continued beyond the stored replies

    def __str__(self) -> str:
        return agreement_text(self)


def agreement(first: Iterable[Dialogue], second: Iterable[Dialogue]) -> Agreement:
    """Agreement of two judges on the same replies: dialogues paired by model, scenario and repeat."""
    before = {played.key: played for played in latest(digested(first))}
    both = [(before[read.key], read) for read in latest(digested(second)) if read.key in before]
    for pair in both:
        if any(a != b for a, b in zip(*(read.replies for read in pair), strict=False)):
            raise UseError(f"replies differ in {'|'.join(map(str, pair[0].key))}; expected a run and one rejudged from it")
    scored = [(a, b) for a, b in both if a.scored and b.scored]
    tables = [{str(pair[0].key): pair[side].points or 0.0 for pair in scored} for side in (0, 1)]
    a_scores, b_scores = (list(table.values()) for table in tables)
    changes: list[tuple[float, float]] = []
    for pair in scored:  # of the score by each reply that both judged
        moves = ([round(after - before, 6) for before, after in pairwise(read.course)] for read in pair)
        changes += zip(*moves, strict=False)
    one, other = (" and ".join(sorted({judge_of(pair[side]) for pair in both})) for side in (0, 1))
    return Agreement(
        first=one,
        second=other,
        dialogues=len(scored),
        pearson=_defined(lambda: mean_pairwise_pearson([a_scores, b_scores])),
        spearman=_defined(lambda: spearman(*tables)),
        difference=paired_difference(a_scores, b_scores, clusters=[a.scenario for a, _ in scored]) if scored else None,
        replies=len(changes),
        by_reply=_defined(lambda: mean_pairwise_pearson(list(zip(*changes, strict=True)))),
        signs=sign_agreement([a for a, _ in changes], [b for _, b in changes]) if changes else None,
        cut=sum(b.stop == "cut" for _, b in scored),
    )


def judge_of(dialogue: Digest) -> str:
    return dialogue.models.get("judge", dialogue.user)


def agreement_text(agreed: Agreement) -> str:
    if agreed.difference is None:
        return printable(f"No dialogue is scored by both {agreed.first} and {agreed.second}.")
    lines = [f"{agreed.second} against {agreed.first}, on {amount(agreed.dialogues, 'dialogue')} scored by both:"]
    named = {"Pearson": agreed.pearson, "Spearman": agreed.spearman}
    correlations = " and ".join(f"{name} {value:.2f}" for name, value in named.items() if value is not None)
    lines.append(f"  scores: {correlations or 'correlation not defined: needs two dialogues and scores that differ'}")
    lines.append(f"  mean difference {agreed.difference.mean:+.1f}{_ends(agreed.difference, ', 95 % interval ')}")
    if agreed.signs is not None:
        pearson = "" if agreed.by_reply is None else f"; of the changes: Pearson {agreed.by_reply:.2f}"
        replies = amount(agreed.replies, "reply", "replies")
        lines.append(f"  direction of the change: equal after {agreed.signs:.0%} of {replies}{pearson}")
    if agreed.cut:
        lines.append(
            f"  {amount(agreed.cut, 'dialogue')} cut: {agreed.second} would have continued, but no further reply is stored"
        )
    return "\n".join(printable(line) for line in lines)


def _defined(value: Callable[[], float]) -> float | None:
    try:
        return value()
    except UseError:  # too few, or all equal
        return None
