"""The gate of a comparison, for continuous integration: one of three outcomes, and its JSON and JUnit files."""

from __future__ import annotations

import math
from typing import Literal
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field, computed_field

import heartloop
from heartloop.core.errors import UseError
from heartloop.core.text import printable
from heartloop.evaluation.compare import FEW_SCENARIOS, Comparison, interval_words, verdict
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.scoring.power import sample_size_for
from heartloop.scoring.statistics import Interval, Shape


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gate(_Frozen):
    worse_than: float
    outcome: Literal["worse", "not worse", "not shown"]
    reason: str
    require_shown: bool = Field(description="Whether `not shown` fails.")

    @computed_field(description="Whether the exit code is 0.")  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        return self.outcome == "not worse" or (self.outcome == "not shown" and not self.require_shown)

    def __str__(self) -> str:
        return f"Gate: {'shown ' if self.outcome == 'not worse' else ''}{self.outcome}. {self.reason}"


def gate(comparison: Comparison, worse_than: float, *, require_shown: bool = False) -> Gate:
    """Whether B is worse than A by more than `worse_than` points, by where the whole 95 % interval of B - A lies.

    `not shown` if the interval includes -`worse_than`, if it has no width over few scenarios, if anything but the models differs,
    or if A and B differ by more than the allowed share in how many of the dialogues played in both are unscored: those missing
    on one side may decide. `not worse` also needs `FEW_SCENARIOS`, and at most the allowed share of failed replies on each side:
    two bots that never reply do not differ.
    """
    widest = comparison.scale.high - comparison.scale.low
    if not 0.0 <= worse_than <= widest:
        raise UseError(f"--worse-than is {worse_than!r}; expected points of {comparison.scale.title} from 0 to {widest:g}")
    if comparison.scenarios < 2:
        raise UseError("--worse-than needs an interval, which one scenario does not give; compare on more scenarios")
    in_a, in_b = comparison.unscored
    limit = 0.0 - worse_than  # not -0
    worse = f"worse than A by more than {worse_than:g}: the 95 % interval of B - A, {interval_words(comparison.difference)},"
    outcome: Literal["worse", "not worse", "not shown"] = "not shown"
    failed = list(zip(comparison.failed_replies, comparison.replies, strict=True))
    if comparison.measured_apart:
        reason = f"More differs between A and B than the models. {' '.join(comparison.measured_apart)}"
    elif abs(in_a - in_b) > ALLOWED_UNSCORED * comparison.played:
        of_a, of_b = (f"{unscored / comparison.played:.0%}" for unscored in (in_a, in_b))
        apart = f"more than {100 * ALLOWED_UNSCORED:g} points apart"
        reason = f"{of_a} of the dialogues played in both are unscored in A and {of_b} in B, {apart}."
    elif comparison.difference.shape is Shape.CONSTANT and comparison.scenarios < FEW_SCENARIOS:
        reason = f"The difference is the same in all {comparison.scenarios} scenarios; an interval needs {FEW_SCENARIOS} then."
    elif comparison.difference.high < limit:
        outcome, reason = "worse", f"B is {worse} lies below {limit:g}."
    elif comparison.difference.low >= limit and comparison.scenarios < FEW_SCENARIOS:
        few = f"but rests on {comparison.scenarios} scenarios; to show something it needs {FEW_SCENARIOS} scenarios."
        reason = f"The interval reaches no lower than {limit:g}, {few}"
    elif comparison.difference.low >= limit and any(n > ALLOWED_UNSCORED * of for n, of in failed):
        of_a, of_b = (f"{n} of {of} replies" for n, of in failed)
        reason = f"{of_a} failed in A and {of_b} in B; with more than {ALLOWED_UNSCORED:.0%} on a side nothing is shown."
    elif comparison.difference.low >= limit:
        outcome, reason = "not worse", f"B is not {worse} reaches no lower than {limit:g}."
    else:
        reason = f"B may be {worse} includes {limit:g}."
        if comparison.sd and worse_than:
            needed = sample_size_for(worse_than, comparison.sd)
            reason += f" If they are equal, about {needed:,} scenarios show it; this comparison has {comparison.scenarios}."
    return Gate(worse_than=worse_than, outcome=outcome, reason=reason, require_shown=require_shown)


class ComparedSide(_Frozen):
    run: str
    model: str
    mean: float = Field(description="Points, over the pairs.")
    unscored: int = Field(description="Of the dialogues played in both.")
    failed_replies: int = Field(description="Replies in the pairs that a bot failed to give, scored as silence.")


class Difference(_Frozen):
    mean: float
    low: float | None = Field(description="Ends of the 95 % interval over scenarios; null for one scenario.")
    high: float | None
    shape: Shape = Field(description="How the scenarios' differences are distributed.")


class ComparisonFile(_Frozen):
    """What `heartloop compare --json` writes. Differences are B - A in points of the score."""

    schema_version: Literal[1] = 1
    heartloop_version: str
    environment: str
    score: str
    a: ComparedSide
    b: ComparedSide
    pairs: int = Field(description="Dialogues scored in both; repeats of a scenario are several pairs.")
    scenarios: int
    left_out: dict[str, int] = Field(description="Dialogues in no pair, by reason.")
    difference: Difference
    p: float = Field(description="Of the permutation test over scenarios.")
    effect: float | None = Field(description="Cohen's d_z over scenarios; null if it is not defined.")
    rank_biserial: float
    sd: float | None = Field(description="Standard deviation of the scenarios' mean differences.")
    aim: float = Field(description="--min-difference, or else the observed difference.")
    needed: int | None = Field(description="Scenarios that distinguish `aim` from 0 with 80 % power.")
    groups: dict[str, Difference]
    verdict: str
    warnings: tuple[str, ...]
    gate: Gate | None = Field(description="null without --worse-than.")


def comparison_file(comparison: Comparison, gate: Gate | None = None, min_difference: float | None = None) -> ComparisonFile:
    same = ("environment", "pairs", "scenarios", "p", "rank_biserial", "sd", "aim", "needed", "warnings")
    sides, means = (comparison.a, comparison.b), (comparison.mean_a, comparison.mean_b)
    a, b = (
        ComparedSide(run=side.run, model=side.model, mean=mean, unscored=unscored, failed_replies=failed)
        for side, mean, unscored, failed in zip(sides, means, comparison.unscored, comparison.failed_replies, strict=True)
    )
    return ComparisonFile(
        heartloop_version=heartloop.__version__,
        score=comparison.scale.title,
        a=a,
        b=b,
        left_out=dict(comparison.left_out),
        difference=_difference(comparison.difference),
        effect=_finite(comparison.effect),
        groups={group.key: _difference(group.difference) for group in comparison.groups},
        verdict=verdict(comparison, min_difference),
        gate=gate,
        **{name: getattr(comparison, name) for name in same},
    )


def _difference(interval: Interval) -> Difference:
    return Difference(mean=interval.mean, low=_finite(interval.low), high=_finite(interval.high), shape=interval.shape)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def junit(comparison: Comparison, gate: Gate, text: str) -> bytes:
    """A JUnit file of one test case, the gate: failed, or skipped if the outcome is `not shown` and that is allowed."""
    failed, skipped = not gate.passed, gate.passed and gate.outcome == "not shown"
    root = ElementTree.Element("testsuites")
    counts = {"tests": "1", "failures": str(int(failed)), "errors": "0", "skipped": str(int(skipped))}
    suite = ElementTree.SubElement(root, "testsuite", {"name": "heartloop compare", **counts})
    name = printable(f"{comparison.b.model} is not worse than {comparison.a.model} by more than {gate.worse_than:g}")
    case = ElementTree.SubElement(suite, "testcase", {"classname": f"heartloop.{comparison.environment}", "name": name})
    if failed:
        ElementTree.SubElement(case, "failure", {"message": gate.reason, "type": gate.outcome})
    if skipped:
        ElementTree.SubElement(case, "skipped", {"message": gate.reason})
    ElementTree.SubElement(case, "system-out").text = printable(f"{text}\n{gate}")
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"
