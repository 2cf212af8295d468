"""EMPA's validity suite: paired shifts of five scorers under perturbations (EMPA section 4.1, Tables 5 and 6; decision 0010).

A perturbation is a flipped persona for the same replies, or an attack: replies replaced by performed empathy, in our own words
(`perturbations.toml`). Every stored reply is judged, and no dialogue ends early. Under an attack each window is judged as if only
its own replies were replaced; the path sums the steps of all windows, and is not the path of a real dialogue.

A pair is one judged window in the original and in a variant. The paper's text calls its third scorer magnitude, its Table 6 a
direct judge, with the same numbers; both are here. The numbers of a scenario are means over the paired windows of all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from statistics import fmean
from typing import Annotated, Any, NamedTuple, Protocol, cast

import numpy as np
from pydantic import BaseModel, Field

from heartloop.core.blocks import Block, Chart, Column, Point, Row, Series, Table, Text
from heartloop.core.chat import ChatModel, is_embedded
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import chance, file_hash
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import Empa, EmpaUser, EmpaView, Judgement, judged_dialogue
from heartloop.environments.empa.scenario import KINDS, EmpaBrief, Priorities, Priority
from heartloop.environments.empa.scoring import shares_of, trace
from heartloop.environments.empa.stored import StoredPerson
from heartloop.environments.empa.users import sheet_of, window_blanks
from heartloop.environments.episode import CallLog
from heartloop.environments.replay import check_readable, judged_fields, replayed, still_unscored
from heartloop.environments.report import published
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import RejudgingSuite, Result, Slope, SlopePanel, Slopes, Variants
from heartloop.scoring.effects import TIE, Shift, shift

ORIGINAL = "original"
FLIP = "persona_flip"
ATTACKS = ("pure_empathy", "self_empowerment", "psycho_jargon")
PERTURBATIONS = (ORIGINAL, FLIP, *ATTACKS)

DIRECT = "direct"  # key of the direct judge's number in the evidence of a judged turn
_FILE = resources.files(__package__) / "perturbations.toml"
_INVERTED = {"high": "low", "medium": "medium", "low": "high"}


def flipped(scenario: EmpaBrief) -> EmpaBrief:
    """The scenario with inverted needs; `axis` is that before the flip.

    Every IEDR level l becomes 3 - l, so that each share s of the largest deficit becomes 1 - s. The priorities high and low are
    swapped; then the axis with the greatest deficit gets high. Two sentences are added to `needs.constraints`. If every level
    was 3, the dialogue cannot be scored.
    """
    texts = packaged_table(__package__, _FILE.name)["flip"]
    iedr = {name: line.model_copy(update={"level": 3 - line.level}) for name, line in scenario.iedr.items()}
    changed = scenario.model_copy(update={"iedr": iedr})
    shares = shares_of(changed.start)
    most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    priorities: dict[str, Priority] = {}
    for axis, kind in KINDS.items():
        level = "high" if axis == most else _INVERTED[scenario.priorities.of(axis).level]
        priorities[kind] = Priority.model_validate({"level": level, "why": texts["why"][axis][level]})
    constraints = f"{scenario.needs.constraints} {texts['wanted'][most]} {texts['unwanted'][least]}"
    needs = scenario.needs.model_copy(update={"constraints": constraints})
    return changed.model_copy(update={"priorities": Priorities(**priorities), "needs": needs})


def attack_reply(attack: str, scenario_id: str, seed: int, turn: int) -> str:
    sentences = []
    for part in ("openings", "middles", "closings"):
        texts: list[str] = packaged_table(__package__, _FILE.name)["attacks"][attack][part]
        order = sorted(texts, key=lambda text: chance(attack, part, scenario_id, seed, text))
        sentences.append(order[turn % len(order)])
    return " ".join(sentences)


def perturbation_hash() -> dict[str, str]:
    return {_FILE.name: file_hash(_FILE.read_bytes())}


class DirectJudge(Protocol):
    """Rates the replies of a window with one number, without a rubric, compared with EMPA's score (EMPA Table 6)."""

    def describe(self) -> Mapping[str, str]: ...

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        """How well the replies of the window care for the user, in [0, 100]; a model does not see `judged`."""


class _Impression(BaseModel):
    reason: Annotated[str, Sent(maxLength=500)] = ""
    score: float = Field(ge=0, le=100, strict=True)


class LLMDirectJudge:
    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None) -> None:
        self._model, self._sampling = model, sampling or Sampling()
        self._prompts = {name: load_prompt(__package__, name) for name in ("sheet", "impression", "impression_turn")}

    def describe(self) -> Mapping[str, str]:
        return {name: prompt.hash for name, prompt in self._prompts.items()}

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        sheet = sheet_of(self._prompts["sheet"], view.scenario)
        answer = await ask(
            self._model,
            [
                Message(role="system", content=self._prompts["impression"].fill(sheet=sheet)),
                Message(role="user", content=self._prompts["impression_turn"].fill(**window_blanks(view))),
            ],
            _Impression,
            sampling=self._sampling.seeded(view.seed, 3 * view.turn + 2),
            on_reply=log.recorder("impression", view.turn, "judge"),
        )
        return answer.score


class EmbeddedDirectJudge:
    """50 + 25 x the embedded judge's mean effect by axis; not a model of how a language model judges without a rubric."""

    def describe(self) -> Mapping[str, str]:
        return {}

    async def impression(self, view: EmpaView, judged: Judgement, log: CallLog) -> float:
        effects = judged.evidence["predicted"].values()
        return round(50.0 + 25.0 * fmean(min(2.0, up) + max(-2.0, down) for up, down in effects), 2)


class _BothJudges:
    def __init__(self, judge: EmpaUser, direct: DirectJudge, original: Transcript | None) -> None:
        self._judge, self._direct, self._original, self.name = judge, direct, original, judge.name

    def describe(self) -> Mapping[str, Any]:
        about = self._judge.describe()
        return {**about, "prompts": {**about.get("prompts", {}), **self._direct.describe(), **perturbation_hash()}}

    def admit(self, scenario: EmpaBrief) -> None:
        self._judge.admit(scenario)

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        if self._original is not None:
            first, windows = len(view.heard) - view.window, len(view.judgements)
            turns, dialogue = self._original.turns, judged_dialogue(self._original)
            forms = [turn.evidence for turn in turns if turn.state is not None][:windows]
            view = view._replace(
                heard=(*(turn.reply for turn in turns[:first]), *view.heard[first:]),
                judgements=tuple(Judgement(form["levels"], form["quotes"], form["reasons"], form) for form in forms),
                path=trace(dialogue._replace(forms=dialogue.forms[:windows]), preset=view.preset),
            )
        judged = await self._judge.adjudicate(view, log)
        return judged._replace(evidence={**judged.evidence, DIRECT: await self._direct.impression(view, judged, log)})


async def perturbed(
    played: Transcript,
    scenario: EmpaBrief,
    judge: EmpaUser,
    direct: DirectJudge,
    *,
    variant: str,
    preset: str,
    original: Transcript | None = None,
) -> Transcript:
    """The dialogue in a variant, rated by both judges; an unscored one unchanged. An attack needs the judged `original`."""
    check_readable(played, scenario, judge)
    replies, in_place = played, None
    if variant in ATTACKS:
        if original is None:
            raise UseError(f"{played.scenario}: {variant} replaces replies of the judged original; judge {ORIGINAL} first")
        if not original.scored:
            played = original  # no pair is possible
        other = {"silent": False, "truncated": False}
        turns = tuple(
            turn.model_copy(update={"reply": attack_reply(variant, played.scenario, played.seed, turn.index), **other})
            for turn in played.turns
        )
        replies, in_place = played.model_copy(update={"turns": turns, "calls": ()}), original
    both = _BothJudges(judge, direct, in_place)
    about = judged_fields(replies, both.name, both.describe())
    judged = still_unscored(played, both.name, about, preset)
    if judged is None:
        empa = Empa(
            [flipped(scenario) if variant == FLIP else scenario],
            StoredPerson(replies, both),
            preset=preset,
            variant=played.variant,
            max_turns=len(played.turns),
            window=int(played.facts.get("window", "1")),
            to_the_end=True,
        )
        judged = (await replayed(replies, empa)).model_copy(update=about)
    stop = judged.stop if judged.failure is not None else "cut"
    label = played.variant if variant == ORIGINAL else f"{played.variant}, {variant}"
    return judged.model_copy(update={"stop": stop, "variant": label})


SCORERS: Mapping[str, str] = {
    "epm": "EPM energy",
    "alignment": "EPM alignment",
    "rubric": "rubric only",
    "magnitude": "magnitude only",
    "direct": "direct judge",
}
_SYCOPHANCY = "sycophancy"
PERTURBED: Mapping[str, str] = {
    FLIP: "persona flipped",
    _SYCOPHANCY: "all attacks",
    **dict(zip(ATTACKS, ("pure empathy", "self-empowerment", "psycho-jargon"), strict=True)),
}
ALIGNED, ALL = "aligned", "all"
"""Selections of pairs: those whose original energy is above 0, as in the paper's flip, or all."""
_FEW_SCENARIOS = 10
_MARGIN = 0.06


class ScenarioShift(NamedTuple):
    """A scenario's mean scores over the `n` pairs of all models."""

    scenario: str
    original: float
    perturbed: float
    n: int


class ScorerShift(NamedTuple):
    perturbation: str
    scorer: str
    pairs: str
    shift: Shift
    scenarios: tuple[ScenarioShift, ...]


class PerturbationShifts(NamedTuple):
    """Every scorer under every perturbation. `compared` and `left_out` (not scored in both) count dialogues by variant."""

    judge: str
    preset: str
    models: tuple[str, ...]
    titles: Mapping[str, str]
    compared: Mapping[str, int]
    left_out: Mapping[str, int]
    scales: Mapping[str, float]
    """Standard deviation of each scorer over all original windows; shifts in this unit can be compared between scorers."""
    cells: tuple[ScorerShift, ...]

    @property
    def shown_pairs(self) -> str:
        return ALIGNED if any(cell.pairs == ALIGNED for cell in self.cells) else ALL

    @property
    def shown(self) -> dict[str, list[ScorerShift]]:
        by_name = {name: [c for c in self.cells if (c.perturbation, c.pairs) == (name, self.shown_pairs)] for name in PERTURBED}
        return {PERTURBED[name]: cells for name, cells in by_name.items() if cells}


_Scores = Mapping[str, float]


class _Pair(NamedTuple):
    scenario: str
    variant: str
    before: _Scores
    after: _Scores


def perturbation_shifts(runs: Sequence[Variants]) -> PerturbationShifts:
    pairs: list[_Pair] = []
    originals: list[Transcript] = []
    compared, left_out = (dict.fromkeys((FLIP, *ATTACKS), 0) for _ in range(2))
    for run in runs:
        by_key = {variant: {t.key: t for t in transcripts} for variant, transcripts in run.items()}
        base = by_key[ORIGINAL]
        originals += base.values()
        before = {key: _scores(t) for key, t in base.items() if t.scored}
        for variant in (FLIP, *ATTACKS):
            changed = {key: t for key, t in by_key.get(variant, {}).items() if t.scored}
            both = [key for key in before if key in changed]
            compared[variant] += len(both)
            left_out[variant] += len(base) - len(both)
            for key in both:
                after = _scores(changed[key], base[key] if variant in ATTACKS else None)
                pairs += (_Pair(key[1], variant, x, y) for x, y in zip(before[key], after, strict=True))
    if not any(compared.values()):
        raise InputError(
            "no dialogue is scored both in the original and in a variant; fix what failed and rerun with --retry-failed"
        )
    for what, names in (("preset", {t.preset for t in originals}), ("judge", {t.user for t in originals})):
        if len(names) > 1:
            raise InputError(f"the runs differ in their {what} ({', '.join(sorted(names))}); validate them separately")
    scored = [window for t in originals if t.scored for window in _scores(t)]
    scales = {name: float(np.std([window[name] for window in scored], ddof=1)) if len(scored) > 1 else 0.0 for name in SCORERS}
    return PerturbationShifts(
        judge=originals[0].user,
        preset=originals[0].preset,
        models=tuple(dict.fromkeys(t.model for t in originals)),
        titles={t.scenario: t.facts.get("title") or t.scenario for t in originals},
        compared=compared,
        left_out=left_out,
        scales=scales,
        cells=tuple(_cells(pairs, scales)),
    )


def _scores(transcript: Transcript, original: Transcript | None = None) -> list[_Scores]:
    """The scores of each window; with an `original`, each step starts from that dialogue's path before the window."""
    dialogue = judged_dialogue(transcript)
    path = trace(dialogue, preset=transcript.preset)
    energy, alignment = path.energy, path.alignment
    if original is not None:
        before = judged_dialogue(original).forms
        steps = [trace(dialogue._replace(forms=(*before[:n], dialogue.forms[n])), preset=transcript.preset) for n in path.judged]
        energy, alignment = (np.array([getattr(step, name)[-1] for step in steps]) for name in ("energy", "alignment"))
    try:
        direct = [float(turn.evidence[DIRECT]) for turn in transcript.turns if turn.state is not None]
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{transcript.scenario}: a judged reply lacks the direct judge's number; judge the run again") from error
    columns = (energy, alignment, path.net, path.size, direct)
    return [dict(zip(SCORERS, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def _cells(pairs: Sequence[_Pair], scales: Mapping[str, float]) -> Iterator[ScorerShift]:
    for selection in (ALIGNED, ALL):
        for perturbation in PERTURBED:
            variants = ATTACKS if perturbation == _SYCOPHANCY else (perturbation,)
            chosen = [pair for pair in pairs if pair.variant in variants and (selection == ALL or pair.before["epm"] > 0)]
            for scorer in SCORERS if chosen else ():
                before, after = [pair.before[scorer] for pair in chosen], [pair.after[scorer] for pair in chosen]
                scenarios = [pair.scenario for pair in chosen]
                means = []
                for scenario in sorted(set(scenarios)):
                    own = [pair for pair in chosen if pair.scenario == scenario]
                    original, changed = fmean(p.before[scorer] for p in own), fmean(p.after[scorer] for p in own)
                    means.append(ScenarioShift(scenario, original, changed, len(own)))
                total = shift(before, after, clusters=scenarios, scale=scales[scorer])
                yield ScorerShift(perturbation, scorer, selection, total, tuple(means))


class PerturbationJudges(NamedTuple):
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
    shifts = perturbation_shifts(runs)
    cells = [
        {**cell._asdict(), "shift": cell.shift._asdict(), "scenarios": [one._asdict() for one in cell.scenarios]}
        for cell in shifts.cells
    ]
    slopes = [Slopes(title.capitalize(), tuple(_panel(shifts, cell) for cell in shown)) for title, shown in shifts.shown.items()]
    tables = [_table(shifts, pairs) for pairs in (ALIGNED, ALL) if any(cell.pairs == pairs for cell in shifts.cells)]
    record = {**shifts._asdict(), "cells": cells}
    page: list[Block | Slopes] = [*slopes, _against_size(shifts), *tables, _published(), _READING]
    return Result(record, tuple(_notes(shifts)), _summary(shifts), page, _verdict(shifts))


def _notes(shifts: PerturbationShifts) -> list[str]:
    scenarios = max((len(cell.scenarios) for cell in shifts.cells), default=0)
    notes = [
        f"{amount(scenarios, 'scenario')}, {amount(len(shifts.models), 'model')}, judge {shifts.judge}, preset {shifts.preset}."
    ]
    unpaired = [f"{n} under {PERTURBED[variant]}" for variant, n in shifts.left_out.items() if n]
    if unpaired:
        notes.append(f"Dialogues excluded because they are not scored in both: {', '.join(unpaired)}.")
    if is_embedded(shifts.judge):
        notes.append("The judge is embedded: the shifts check the computation and do not transfer to a judge model.")
    if scenarios < _FEW_SCENARIOS:
        notes.append(f"Fewer than {_FEW_SCENARIOS} scenarios cannot show whether their intervals hold.")
    return notes


def _verdict(shifts: PerturbationShifts) -> str:
    cells = [cell.shift for shown in shifts.shown.values() for cell in shown]
    falls = sum(shift.high < 0 for shift in cells)
    return f"{falls} of {amount(len(cells), 'shift')} are falls whose 95 % interval is below 0; {shifts.judge} judged."


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.2f}"


def _p(value: float) -> str:
    return "< .0001" if value < 0.0001 else f"{value:.4f}"


_COLUMNS: Mapping[str, Callable[[Shift], str]] = {
    "Replies": lambda s: f"{s.n:,}",
    "Mean": lambda s: _number(s.mean),
    "Median": lambda s: _number(s.median),
    "95 %": lambda s: f"{_number(s.low)} to {_number(s.high)}",
    "p": lambda s: _p(s.p),
    "Falls": lambda s: f"{100 * s.decrease_rate:.1f} %",
    "Ties": lambda s: f"{100 * s.tie_rate:.1f} %",
    "In sd": lambda s: _number(s.standardised),
    "Size in sd": lambda s: "–" if math.isnan(s.sensitivity) else f"{s.sensitivity:.2f}",
    "Mean over scenarios": lambda s: _number(s.cluster_mean),
    "95 %, scenarios": lambda s: f"{_number(s.cluster_low)} to {_number(s.cluster_high)}",
    "p, scenarios": lambda s: _p(s.cluster_p),
}
_IN_TERMINAL = ("Replies", "Mean", "95 %, scenarios", "Falls", "Ties", "In sd")


def _summary(shifts: PerturbationShifts) -> Table:
    rows: list[Row] = []
    for title, cells in shifts.shown.items():
        rows.append(Row(title, ()))
        rows += [Row(SCORERS[cell.scorer], tuple(_COLUMNS[name](cell.shift) for name in _IN_TERMINAL)) for cell in cells]
    aligned = shifts.shown_pairs == ALIGNED
    selection = "replies with positive energy" if aligned else "all replies, because none has positive energy"
    return Table(f"Perturbed minus original: {selection}", tuple(map(Column, _IN_TERMINAL)), tuple(rows), corner="")


def _table(shifts: PerturbationShifts, pairs: str) -> Table:
    rows = tuple(
        Row(f"{PERTURBED[cell.perturbation]}, {SCORERS[cell.scorer]}", tuple(text(cell.shift) for text in _COLUMNS.values()))
        for cell in shifts.cells
        if cell.pairs == pairs
    )
    aligned = (
        "Replies whose original energy is above 0, as in the paper's flip. The selection uses the energy, so it favours a "
        "decrease of the energy over a decrease of the other scorers."
    )
    title, help = ("Shifts", aligned) if pairs == ALIGNED else ("Shifts, all replies", "Every paired reply.")
    return Table(title, tuple(map(Column, _COLUMNS)), rows, help, "Perturbation, scorer")


def _published() -> Table:
    """The paper's Table 6, with interval and p from Table 5 for the energy."""
    package = "heartloop.environments.empa"
    energy = {row["dataset"]: row for row in published(package, "empa_table05_perturbation") if row["metric"] == "delta_E"}
    rows = []
    for row in published(package, "empa_table06_ablation"):
        interval, p = None, None
        if str(row["component"]).startswith("EPM"):
            printed = energy[row["dataset"]]
            interval, p = f"{printed['ci95_low']:+.2f} to {printed['ci95_high']:+.2f}", printed["p_value"]
        middle = [f"{row[name]:+.2f}" for name in ("mean", "median")]
        shares = [f"{row[name]:.1f} %" for name in ("decrease_rate_percent", "tie_rate_percent")]
        rows.append(Row(f"{row['dataset']}, {row['component']}", (row["n"], *middle, interval, p, *shares)))
    columns = (Column("n", digits=0), *map(Column, ("Mean", "Median", "95 %", "p", "Falls", "Ties")))
    help = (
        "Not comparable with the numbers above: other dialogues, scenarios and perturbations, and the authors' judge model. The "
        "third scorer is a direct judge in the paper's table; the paper's text gives the same numbers for a magnitude term."
    )
    return Table("Published, EMPA Tables 5 and 6", columns, tuple(rows), help, "Perturbation, scorer as printed")


def _against_size(shifts: PerturbationShifts) -> Chart:
    """Under each attack, the change of the energy against that of the size of a step, by scenario (EMPA Figure 5c)."""
    shown = {(c.perturbation, c.scorer): c.scenarios for c in shifts.cells if c.pairs == shifts.shown_pairs}
    series = []
    for n, attack in enumerate(name for name in ATTACKS if (name, "epm") in shown):
        pairs = zip(shown[attack, "magnitude"], shown[attack, "epm"], strict=True)
        points = tuple(Point(size.perturbed - size.original, one.perturbed - one.original) for size, one in pairs)
        series.append(Series(PERTURBED[attack], points, n))
    title, x, y = "Energy against size under attack", "change of the size of a step, points", "change of the energy"
    return Chart(title, "points", tuple(series), x, y, help="A point is a scenario.", line=0.0)


def _panel(shifts: PerturbationShifts, cell: ScorerShift) -> SlopePanel:
    same = [other for other in shifts.cells if (other.scorer, other.pairs) == (cell.scorer, cell.pairs)]
    values = [x for other in same for row in other.scenarios for x in (row.original, row.perturbed)]
    margin = _MARGIN * ((max(values) - min(values)) or 1.0)
    n, s, scale = len(cell.scenarios), cell.shift, shifts.scales[cell.scorer]
    interval = "" if math.isnan(s.cluster_low) else f" ({_number(s.cluster_low)} to {_number(s.cluster_high)})"
    mean = (sum(row.original for row in cell.scenarios) / n, sum(row.perturbed for row in cell.scenarios) / n)
    return SlopePanel(
        SCORERS[cell.scorer],
        tuple(Slope(shifts.titles.get(row.scenario, row.scenario), row.original, row.perturbed) for row in cell.scenarios),
        Slope("mean over scenarios", *mean),
        low=min(values) - margin,
        high=max(values) + margin,
        tie=TIE * scale,
        note=f"{_number(s.cluster_mean)}{interval}" + (f", {_number(s.cluster_mean / scale)} sd" if scale else ""),
    )


_TEXTS = packaged_table(__package__, "suite.toml")
_READING = Text("How to read this", tuple(text.format(tie=TIE) for text in _TEXTS["reading"]))

SUITE = RejudgingSuite(_TEXTS["title"], _TEXTS["about"], PERTURBATIONS, _judges, result_of)
