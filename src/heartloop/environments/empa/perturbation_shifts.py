"""Paired shifts of five scorers of EMPA under perturbations, over stored dialogues judged in variants.

Covers the pairing of windows and their scores (EMPA section 4.1, Tables 5 and 6). Does not cover judging (`perturbed`), the
statistics (`heartloop.scoring.shifts`), or tables and charts (`perturbation_suite`).

A pair is one judged window in the original and in a variant. Dialogues that are not scored in both are excluded and counted. The
scorers: `epm`, the energy; `alignment`, the cosine; `rubric`, the sum of the levels; `magnitude`, the size of the step; `direct`,
the direct judge's number. The paper's text calls its third scorer magnitude, its Table 6 a direct judge, with the same numbers;
both are here. The numbers of a scenario are means over the paired windows of all models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.perturbations import ATTACKS, FLIP, ORIGINAL
from heartloop.environments.empa.perturbed import DIRECT
from heartloop.environments.empa.scoring import trace
from heartloop.environments.suites import Variants
from heartloop.scoring.effects import Shift, shift

__all__ = [
    "ALIGNED",
    "ALL",
    "PERTURBED",
    "SCORERS",
    "SYCOPHANCY",
    "Cell",
    "PerturbationShifts",
    "ScenarioShift",
    "perturbation_shifts",
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
