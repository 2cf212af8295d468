"""EMPA's validity suite: flipped persona, replies replaced by performed empathy, five scorers (EMPA section 4.1).

Covers the suite's judges, tables and charts. Does not cover the shifts (`perturbation_shifts`), one dialogue (`perturbed`), or
the driver (`heartloop.validity`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from heartloop.core.blocks import Column, Row, Table, Text
from heartloop.core.chat import ChatModel, is_embedded
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import EmpaUser, judged_dialogue
from heartloop.environments.empa.perturbations import (
    ATTACKS,
    DIRECT,
    FLIP,
    ORIGINAL,
    PERTURBATIONS,
    DirectJudge,
    EmbeddedDirectJudge,
    LLMDirectJudge,
    perturbation_hash,
    perturbed,
)
from heartloop.environments.empa.scenario import EmpaBrief
from heartloop.environments.empa.scoring import trace
from heartloop.environments.report import published
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import RejudgingSuite, Result, Slope, SlopePanel, Slopes, Variants
from heartloop.scoring.effects import TIE, Shift, shift

__all__ = [
    "ALIGNED",
    "ALL",
    "PERTURBED",
    "SCORERS",
    "SUITE",
    "SYCOPHANCY",
    "Cell",
    "PerturbationJudges",
    "PerturbationShifts",
    "ScenarioShift",
    "perturbation_shifts",
    "result_of",
]


SCORERS = ("epm", "alignment", "rubric", "magnitude", "direct")
SYCOPHANCY = "sycophancy"
"""The three attacks together."""
PERTURBED = (FLIP, SYCOPHANCY, *ATTACKS)
ALIGNED, ALL = "aligned", "all"
"""Selections of pairs: those whose original energy is above 0, as in the paper's flip, or all."""


class ScenarioShift(NamedTuple):
    """A scenario's mean scores over the `n` pairs of all models."""

    scenario: str
    original: float
    perturbed: float
    n: int


class Cell(NamedTuple):
    """One scorer under one perturbation."""

    perturbation: str
    scorer: str
    pairs: str
    """`ALIGNED` or `ALL`."""
    shift: Shift
    scenarios: tuple[ScenarioShift, ...]


class PerturbationShifts(NamedTuple):
    """Every scorer under every perturbation. `compared` and `left_out` (not scored in both) count dialogues by variant."""

    judge: str
    preset: str
    models: tuple[str, ...]
    titles: Mapping[str, str]
    """Titles of the scenarios by id."""
    compared: Mapping[str, int]
    left_out: Mapping[str, int]
    scales: Mapping[str, float]
    """Standard deviation of each scorer over all original windows; shifts in this unit can be compared between scorers."""
    cells: tuple[Cell, ...]

    def cell(self, perturbation: str, scorer: str, pairs: str = ALIGNED) -> Cell | None:
        """The cell of a scorer under a perturbation; `None` if there is no pair."""
        return next((c for c in self.cells if (c.perturbation, c.scorer, c.pairs) == (perturbation, scorer, pairs)), None)

    @property
    def shown_pairs(self) -> str:
        """The selection for a summary: the aligned pairs, or all if none is aligned."""
        return ALIGNED if any(cell.pairs == ALIGNED for cell in self.cells) else ALL


class _Scores(NamedTuple):
    """The scores of a dialogue's windows by each scorer."""

    epm: list[float]
    alignment: list[float]
    rubric: list[float]
    magnitude: list[float]
    direct: list[float]


class _Pair(NamedTuple):
    scenario: str
    variant: str
    before: _Scores
    after: _Scores


def perturbation_shifts(runs: Sequence[Variants]) -> PerturbationShifts:
    """The shifts over the dialogues of one or several runs, each judged in all variants.

    Raises:
        InputError: no dialogue is scored in the original and in a variant, several presets or judges, or a judged window without
            the direct judge's number.
    """
    pairs: list[_Pair] = []
    originals: list[Transcript] = []
    compared: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for run in runs:
        by_key = {variant: {t.key: t for t in transcripts} for variant, transcripts in run.items()}
        base = by_key[ORIGINAL]
        originals += base.values()
        before = {key: _scores(t) for key, t in base.items() if t.scored}
        for variant in (FLIP, *ATTACKS):
            changed = by_key.get(variant, {})
            both = [key for key in before if key in changed and changed[key].scored]
            compared[variant] = compared.get(variant, 0) + len(both)
            left_out[variant] = left_out.get(variant, 0) + len(base) - len(both)
            for key in both:
                after = _scores(changed[key], base[key] if variant in ATTACKS else None)
                pairs.append(_Pair(key[1], variant, before[key], after))
    presets, judges = {t.preset for t in originals}, {t.user for t in originals}
    if not pairs:
        raise InputError(
            "no dialogue is scored both in the original and in a variant; fix what failed and rerun with --retry-failed"
        )
    for what, names in (("preset", presets), ("judge", judges)):
        if len(names) > 1:
            raise InputError(f"the runs differ in their {what} ({', '.join(sorted(names))}); validate them separately")
    scored = [_scores(t) for t in originals if t.scored]
    scales = {name: _spread([x for scores in scored for x in getattr(scores, name)]) for name in SCORERS}
    cells = [
        cell
        for chosen in (ALIGNED, ALL)
        for perturbation in PERTURBED
        for scorer in SCORERS
        if (cell := _cell(pairs, perturbation, scorer, chosen, scales[scorer])) is not None
    ]
    return PerturbationShifts(
        judge=judges.pop(),
        preset=presets.pop(),
        models=tuple(dict.fromkeys(t.model for t in originals)),
        titles={t.scenario: t.facts.get("title") or t.scenario for t in originals},
        compared=compared,
        left_out=left_out,
        scales=scales,
        cells=tuple(cells),
    )


def _scores(transcript: Transcript, original: Transcript | None = None) -> _Scores:
    """The scores of a dialogue; with an `original`, each step starts from that dialogue's path before the window."""
    dialogue = judged_dialogue(transcript)
    path = trace(dialogue, preset=transcript.preset)
    energy, alignment = path.energy.tolist(), path.alignment.tolist()
    if original is not None:
        before = judged_dialogue(original).forms
        steps = [trace(dialogue._replace(forms=(*before[:n], dialogue.forms[n])), preset=transcript.preset) for n in path.judged]
        energy, alignment = [float(step.energy[-1]) for step in steps], [float(step.alignment[-1]) for step in steps]
    try:
        direct = [float(turn.evidence[DIRECT]) for turn in transcript.turns if turn.state is not None]
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{transcript.scenario}: a judged reply lacks the direct judge's number; judge the run again") from error
    size = np.linalg.norm(path.increment, axis=1)
    return _Scores(energy, alignment, path.net.tolist(), size.tolist(), direct)


def _cell(pairs: Sequence[_Pair], perturbation: str, scorer: str, chosen: str, scale: float) -> Cell | None:
    before: list[float] = []
    after: list[float] = []
    scenarios: list[str] = []
    for pair in pairs:
        if pair.variant == perturbation or (perturbation == SYCOPHANCY and pair.variant in ATTACKS):
            rows = zip(pair.before.epm, getattr(pair.before, scorer), getattr(pair.after, scorer), strict=True)
            shown = [(x, y) for energy, x, y in rows if chosen == ALL or energy > 0]
            before += [x for x, _ in shown]
            after += [y for _, y in shown]
            scenarios += [pair.scenario] * len(shown)
    if not before:
        return None
    by_scenario: dict[str, list[tuple[float, float]]] = {}
    for scenario, x, y in zip(scenarios, before, after, strict=True):
        by_scenario.setdefault(scenario, []).append((x, y))
    means = [
        ScenarioShift(scenario, math.fsum(x for x, _ in rows) / len(rows), math.fsum(y for _, y in rows) / len(rows), len(rows))
        for scenario, rows in sorted(by_scenario.items())
    ]
    return Cell(perturbation, scorer, chosen, shift(before, after, clusters=scenarios, scale=scale), tuple(means))


def _spread(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


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
        self, played: Transcript, scenario: EmpaBrief, *, variant: str, preset: str, original: Transcript | None
    ) -> Transcript:
        return await perturbed(played, scenario, self.judge, self.direct, variant=variant, preset=preset, original=original)


def _judges(spec: EnvironmentSpec, model: ChatModel | None, sampling: Sampling | None) -> PerturbationJudges:
    judge = cast(EmpaUser, spec.judge(model, sampling))
    if model is None or isinstance(judge, EmpaEmbeddedUser):  # also a student
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
