"""EMPA's validity suite: flipped persona, replies replaced by performed empathy, five scorers (EMPA section 4.1).

Covers the suite's judges, tables and charts. Does not cover the shifts (`perturbation_shifts`), one dialogue (`perturbed`), or
the driver (`heartloop.validity`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from heartloop.core.blocks import Column, Row, Table, Text
from heartloop.core.chat import ChatModel, is_embedded
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.wording import amount
from heartloop.environments.empa.direct_judge import DirectJudge, EmbeddedDirectJudge, LLMDirectJudge
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import EmpaUser
from heartloop.environments.empa.perturbation_shifts import (
    ALIGNED,
    ALL,
    PERTURBED,
    SCORERS,
    Cell,
    PerturbationShifts,
    perturbation_shifts,
)
from heartloop.environments.empa.perturbations import PERTURBATIONS, perturbation_hash
from heartloop.environments.empa.perturbed import perturbed
from heartloop.environments.empa.scenario import Brief
from heartloop.environments.published import published
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import RejudgingSuite, Result, Slope, SlopePanel, Slopes, Variants
from heartloop.scoring.effects import TIE

__all__ = ["SUITE", "PerturbationJudges", "result_of"]

_NAMES = {
    "persona_flip": "persona flipped",
    "sycophancy": "all attacks",
    "pure_empathy": "pure empathy",
    "self_empowerment": "self-empowerment",
    "psycho_jargon": "psycho-jargon",
    "epm": "EPM energy",
    "alignment": "EPM alignment",
    "rubric": "rubric only",
    "magnitude": "magnitude only",
    "direct": "direct judge",
}
_FEW_SCENARIOS = 10
_MARGIN = 0.06
"""Space above and below the slopes, as a share of their range."""
_COLUMNS = (
    "Replies", "Mean", "Median", "95 %", "p", "Falls", "Ties", "In sd", "Size in sd",
    "Mean over scenarios", "95 %, scenarios", "p, scenarios",
)  # fmt: skip
_READING = Text(
    "How to read this",
    (
        "Perturbations. Persona flipped: the same dialogue, judged for a user whose needs are inverted. The three attacks: each "
        "reply alone is replaced, in its place in the original dialogue, by feeling without content (pure empathy), slogans "
        "(self-empowerment) or technical terms (psycho-jargon).",
        "Scorers. All rate the same replies. EPM energy is the component of a reply's step towards the user's needs; EPM "
        "alignment is the cosine of that angle; rubric only is the sum of the judge's levels; magnitude only is the size of the "
        "step; the direct judge gives one number from 0 to 100 without a rubric.",
        f"Columns. All are perturbed minus original. A tie is a change below {TIE:.0%} of the scorer's standard deviation over "
        "all original replies. That standard deviation is the unit of “in sd”, which is comparable between scorers, and of “size "
        "in sd”, the mean absolute change. Intervals are over scenarios. p is Wilcoxon's; over replies it assumes independent "
        "replies, so prefer p over scenarios.",
    ),
)


class PerturbationJudges(NamedTuple):
    """The judge, which fills the MDEP form, and the direct judge."""

    judge: EmpaUser
    direct: DirectJudge

    @property
    def prompts(self) -> Mapping[str, str]:
        return {**self.direct.describe(), **perturbation_hash()}

    async def transcript(
        self, played: Transcript, scenario: Brief, *, variant: str, preset: str, original: Transcript | None
    ) -> Transcript:
        return await perturbed(played, scenario, self.judge, self.direct, variant=variant, preset=preset, original=original)


def _judges(spec: EnvironmentSpec, model: ChatModel | None, sampling: Sampling | None) -> PerturbationJudges:
    judge = cast(EmpaUser, spec.judge(model, sampling))
    if model is None or isinstance(judge, EmbeddedUser):  # also a student
        return PerturbationJudges(judge, EmbeddedDirectJudge())
    return PerturbationJudges(judge, LLMDirectJudge(model, sampling=sampling))


def result_of(runs: Sequence[Variants]) -> Result:
    """Tables and charts of the shifts of one or several runs.

    Raises:
        InputError: as `perturbation_shifts`.
    """
    shifts = perturbation_shifts(runs)
    tables = [_table(shifts, pairs) for pairs in (ALIGNED, ALL) if any(cell.pairs == pairs for cell in shifts.cells)]
    slopes = [
        Slopes(_NAMES[name].capitalize(), panels) for name in PERTURBED if (panels := tuple(_panels(shifts, name)))
    ]  # fmt: skip
    return Result(_record(shifts), tuple(_notes(shifts)), _summary(shifts), (*slopes, *tables, _published(), _READING))


def _record(shifts: PerturbationShifts) -> dict[str, Any]:
    return {
        **shifts._asdict(),
        "cells": [
            {**cell._asdict(), "shift": cell.shift._asdict(), "scenarios": [one._asdict() for one in cell.scenarios]}
            for cell in shifts.cells
        ],
    }


def _notes(shifts: PerturbationShifts) -> list[str]:
    scenarios = max((len(cell.scenarios) for cell in shifts.cells), default=0)
    notes = [
        f"{amount(scenarios, 'scenario')}, {amount(len(shifts.models), 'model')}, judge {shifts.judge}, preset {shifts.preset}.",
    ]
    unpaired = [f"{n} under {_NAMES[variant]}" for variant, n in shifts.left_out.items() if n]
    if unpaired:
        notes.append(f"Dialogues excluded because they are not scored in both: {', '.join(unpaired)}.")
    if is_embedded(shifts.judge):
        notes.append("The judge is embedded: the shifts check the computation and do not transfer to a judge model.")
    if scenarios < _FEW_SCENARIOS:
        notes.append(f"Fewer than {_FEW_SCENARIOS} scenarios cannot show whether their intervals hold.")
    return notes


def _summary(shifts: PerturbationShifts) -> Table:
    pairs = shifts.shown_pairs
    rows: list[Row] = []
    for perturbation in PERTURBED:
        cells = [cell for scorer in SCORERS if (cell := shifts.cell(perturbation, scorer, pairs)) is not None]
        if cells:
            rows.append(Row(_NAMES[perturbation], ()))
        for cell in cells:
            s = cell.shift
            texts = (
                f"{s.n:,}",
                _short(s.mean),
                _short(s.median),
                "–" if math.isnan(s.cluster_low) else f"{_short(s.cluster_low)} {_short(s.cluster_high)}",
                "<.001" if s.cluster_p < 1e-3 else f"{s.cluster_p:.3f}".removeprefix("0"),
                f"{s.decrease_rate:.0%}",
                f"{s.tie_rate:.0%}",
                "–" if math.isnan(s.standardised) else f"{s.standardised:+.2f}",
            )
            rows.append(Row(_NAMES[cell.scorer], texts))
    selection = "replies with positive energy" if pairs == ALIGNED else "all replies, because none has positive energy"
    names = ("n", "mean", "median", "95 %", "p", "falls", "ties", "in sd")
    return Table(
        f"Perturbed minus original: {selection}; 95 % and p over scenarios", tuple(map(Column, names)), tuple(rows), corner=""
    )


def _short(shift: float) -> str:
    return f"{shift:+.2f}" if abs(shift) < 9.995 else f"{shift:+.1f}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.2f}"


def _p(value: float) -> str:
    return "< .0001" if value < 0.0001 else f"{value:.4f}"


def _table(shifts: PerturbationShifts, pairs: str) -> Table:
    """All numbers of one selection of pairs."""
    rows: list[Row] = []
    for cell in shifts.cells:
        if cell.pairs == pairs:
            s = cell.shift
            texts = (
                f"{s.n:,}",
                _number(s.mean),
                _number(s.median),
                f"{_number(s.low)} to {_number(s.high)}",
                _p(s.p),
                f"{100 * s.decrease_rate:.1f} %",
                f"{100 * s.tie_rate:.1f} %",
                _number(s.standardised),
                "–" if math.isnan(s.sensitivity) else f"{s.sensitivity:.2f}",
                _number(s.cluster_mean),
                f"{_number(s.cluster_low)} to {_number(s.cluster_high)}",
                _p(s.cluster_p),
            )
            rows.append(Row(f"{_NAMES[cell.perturbation]}, {_NAMES[cell.scorer]}", texts))
    title, help = "Shifts, all replies", "Every paired reply."
    if pairs == ALIGNED:
        title = "Shifts"
        help = (
            "Replies whose original energy is above 0, as in the paper's flip. Because the selection uses the energy, it favours "
            "a decrease of the energy over a decrease of the other scorers."
        )
    return Table(title, tuple(map(Column, _COLUMNS)), tuple(rows), help, "Perturbation, scorer")


def _published() -> Table:
    """The paper's Table 6, with interval and p from Table 5 for the energy."""
    package = "heartloop.environments.empa.report"
    energy = {row["dataset"]: row for row in published(package, "empa_table05_perturbation") if row["metric"] == "delta_E"}
    rows = []
    for row in published(package, "empa_table06_ablation"):
        printed = energy[row["dataset"]] if str(row["component"]).startswith("EPM") else None
        texts = (
            row["n"],
            f"{row['mean']:+.2f}",
            f"{row['median']:+.2f}",
            None if printed is None else f"{printed['ci95_low']:+.2f} to {printed['ci95_high']:+.2f}",
            None if printed is None else printed["p_value"],
            f"{row['decrease_rate_percent']:.1f} %",
            f"{row['tie_rate_percent']:.1f} %",
        )
        rows.append(Row(f"{row['dataset']}, {row['component']}", texts))
    columns = (Column("n", digits=0), *map(Column, ("Mean", "Median", "95 %", "p", "Falls", "Ties")))
    help = (
        "Not comparable with the numbers above: other dialogues, scenarios and perturbations, and the authors' judge model. The "
        "third scorer is a direct judge in the paper's table; the paper's text gives the same numbers for a magnitude term."
    )
    return Table("Published, EMPA Tables 5 and 6", columns, tuple(rows), help, "Perturbation, scorer as printed")


def _panels(shifts: PerturbationShifts, perturbation: str) -> list[SlopePanel]:
    """One panel per scorer."""
    pairs = shifts.shown_pairs
    return [
        _panel(shifts, cell, [c for c in shifts.cells if (c.scorer, c.pairs) == (scorer, pairs)])
        for scorer in SCORERS
        if (cell := shifts.cell(perturbation, scorer, pairs)) is not None
    ]


def _panel(shifts: PerturbationShifts, cell: Cell, same_scorer: Sequence[Cell]) -> SlopePanel:
    """`same_scorer`: the cells that share the scale of the panel."""
    values = [x for other in same_scorer for row in other.scenarios for x in (row.original, row.perturbed)]
    margin = _MARGIN * ((max(values) - min(values)) or 1.0)
    n, s, scale = len(cell.scenarios), cell.shift, shifts.scales[cell.scorer]
    interval = "" if math.isnan(s.cluster_low) else f" ({_number(s.cluster_low)} to {_number(s.cluster_high)})"
    return SlopePanel(
        _NAMES[cell.scorer],
        tuple(Slope(shifts.titles.get(row.scenario, row.scenario), row.original, row.perturbed) for row in cell.scenarios),
        Slope(
            "mean over scenarios",
            sum(row.original for row in cell.scenarios) / n,
            sum(row.perturbed for row in cell.scenarios) / n,
        ),
        low=min(values) - margin,
        high=max(values) + margin,
        tie=TIE * scale,
        note=f"{_number(s.cluster_mean)}{interval}" + (f", {_number(s.cluster_mean / scale)} sd" if scale else ""),
    )


SUITE = RejudgingSuite(
    title="Does EMPA's score measure empathy?",
    about=(
        "Stored dialogues are judged again with one change: the user's needs are inverted, or replies are replaced by performed "
        "empathy. A valid score of empathy must fall."
    ),
    variants=PERTURBATIONS,
    judges=_judges,
    result=result_of,
)
