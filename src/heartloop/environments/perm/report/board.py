"""Values of PERM's tables and charts in the report, each computed at first access.

They use the dialogues behind the leaderboard's scores. Means of grades are over graded answers; an answer in invalid form
counts in the reward only; an unscored dialogue counts nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, get_args

from heartloop.core.blocks import Estimate, ModelRow, PanelInput, Range, Shade, shade
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, SCALE
from heartloop.environments.perm.report.ablation import VARIANTS, Ablation, ablations
from heartloop.environments.perm.report.graded import Graded, broken_words, graded
from heartloop.environments.perm.report.pairs import PairTable, pair_tables
from heartloop.environments.perm.report.samples import Apart, ModelSamples, samples_apart, samples_of
from heartloop.environments.perm.scenario import EMOTIONS, Want
from heartloop.environments.perm.scoring import BYSTANDER_WEIGHT, broken_form
from heartloop.scoring.statistics import estimate

__all__ = ["FAMILIES", "WANTS", "Answers", "Dimension", "HeatFamily", "PermBoard"]

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "glad": ("content", "excited", "impressed", "joyful", "surprised"),
    "sure of oneself": ("confident", "prepared", "proud"),
    "looking ahead": ("anticipating", "hopeful"),
    "bound to somebody": ("caring", "faithful", "grateful", "trusting"),
    "looking back": ("nostalgic", "sentimental"),
    "afraid": ("afraid", "anxious", "apprehensive", "terrified"),
    "angry": ("angry", "annoyed", "disgusted", "furious", "jealous"),
    "sad": ("devastated", "disappointed", "lonely", "sad"),
    "ashamed": ("ashamed", "embarrassed", "guilty"),
}
"""The 32 emotions in nine families (ours)."""

WANTS: tuple[str, ...] = get_args(Want)

_SHARE = {"released": "a grade of 1 to 5 counts grade / 5", "unit": "a grade of 1 to 5 counts (grade − 1) / 4"}

Member = tuple[int, ModelRow, Sequence[Graded]]
"""A model: its colour number, its row, and the dialogues behind its score."""


class Dimension(NamedTuple):
    """A column: key, title, glossary entry, scale, and the averaged value."""

    key: str
    name: str
    entry: str
    scale: Range
    of: Callable[[Graded], float | None]


class Answers(NamedTuple):
    """Numbers of a model's answers: graded, in invalid form (also by kind), unscored."""

    graded: int
    broken: int
    kinds: list[tuple[str, int]]
    unscored: int


class HeatFamily(NamedTuple):
    """A family of emotions: its cells, and the cells of each emotion that occurs."""

    name: str
    cells: list[Shade]
    lines: list[tuple[str, list[Shade]]]


def _mark(name: str) -> Callable[[Graded], float | None]:
    return lambda g: g.marks.get(name)


def _score(judge: str) -> Callable[[Graded], float | None]:
    return lambda g: g.scores.get(judge)


_LEVELS, _SHARES, _MARKS, _POINTS = Range(1.0, 5.0, 1.0), Range(0.0, 100.0, 0.0), Range(0.0, 20.0, 0.0), Range(-100.0, 0.0, 0.0)

PARTS_OF_REWARD = (
    Dimension("empathy", "Harmonic mean", "perm-mean", _SHARES, lambda g: 100.0 * g.reward.empathy if g.reward else None),
    Dimension(
        "bystander", "Bystander penalty", "perm-bystander", _POINTS, lambda g: 100.0 * g.reward.bystander if g.reward else None
    ),
    Dimension("length", "Length penalty", "perm-length", _POINTS, lambda g: 100.0 * g.reward.length if g.reward else None),
    Dimension("tokens", "Tokens of the response", "perm-length", _SHARES, lambda g: float(g.tokens) if g.reward else None),
)


class PermBoard:
    """PERM's tables and charts.

    Args:
        page: models and dialogues of the page.
    """

    dimensions: tuple[Dimension, ...] = tuple(
        Dimension(judge, judge.capitalize(), f"perm-{judge}", _SHARES if judge == "bystander" else _LEVELS, _score(judge))
        for judge in JUDGES
    )
    marks: tuple[Dimension, ...] = tuple(
        Dimension(name, f"{name.capitalize()}: {words}", "perm-marks", _MARKS, _mark(name)) for name, words in DIMENSIONS.items()
    )
    sums = PARTS_OF_REWARD
    variants = VARIANTS
    wants = WANTS
    families = FAMILIES

    def __init__(self, page: PanelInput) -> None:
        rows, basis, dialogues = page.models, page.basis, page.dialogues
        self._dialogues, self._ids = dialogues, page.addresses
        self.members: list[Member] = [
            (number, row, [g for i in basis[row.model] if (g := graded(i, dialogues[i])) is not None])
            for number, row in enumerate(rows)
        ]
        self.shown: list[Member] = [member for member in self.members if member[2]]
        """Members with a scored answer."""
        self._answers = [g for *_, answers in self.shown for g in answers]
        self.preset = next((g.dialogue.preset for g in self._answers), dialogues[0].preset if dialogues else "")
        weights = sorted({d.facts.get("bystander_weight", f"{BYSTANDER_WEIGHT:g}") for d in dialogues})
        self.weight = ", ".join(weights)
        """lambda_bys of the dialogues."""
        self.price = ", ".join(f"{100 * broken_form(float(weight)):.0f}" for weight in weights)
        """Points of an answer in invalid form, by weight."""

    @property
    def how(self) -> str:
        """How the preset turns a grade into a share."""
        return _SHARE.get(self.preset, "")

    def means(self, dimensions: Sequence[Dimension]) -> dict[str, dict[str, Estimate]]:
        """Mean of each dimension over graded answers, by model and key."""
        table: dict[str, dict[str, Estimate]] = {}
        for _, row, answers in self.shown:
            for dimension in dimensions:
                values = [(value, g.dialogue.scenario) for g in answers if (value := dimension.of(g)) is not None]
                within = (dimension.scale.low, dimension.scale.high)
                one = estimate([value for value, _ in values], [scenario for _, scenario in values], within=within)
                if one is not None:
                    table.setdefault(row.model, {})[dimension.key] = one
        return table

    @cached_property
    def grades(self) -> dict[str, dict[str, Estimate]]:
        """Mean grade by model and judge."""
        return self.means(self.dimensions)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        """Numbers of answers by model, including those that are not behind its score."""
        table = {}
        for _, row, _ in self.members:
            mine = [g for i, d in enumerate(self._dialogues) if d.model == row.model and (g := graded(i, d)) is not None]
            kinds = Counter(broken_words(g.broken) for g in mine if g.broken)
            broken = sum(kinds.values())
            table[row.model] = Answers(len(mine) - broken, broken, sorted(kinds.items(), key=lambda one: -one[1]), row.unscored)
        return table

    @property
    def broken(self) -> int:
        """Number of answers in invalid form, without those of failure cases."""
        return sum(self.answers[row.model].broken for _, row, _ in self.members if row.standing != "failure case")

    @cached_property
    def by_want(self) -> dict[str, dict[str, Estimate]]:
        """Mean reward in points, by model and want."""
        table: dict[str, dict[str, Estimate]] = {}
        for _, row, answers in self.shown:
            for want in WANTS:
                mine = [g for g in answers if g.fact("want") == want]
                if (one := estimate([g.points for g in mine], [g.dialogue.scenario for g in mine])) is not None:
                    table.setdefault(row.model, {})[want] = one
        return table

    @cached_property
    def emotions(self) -> list[HeatFamily]:
        """Mean reward in points, by emotion and model."""
        occurring = {g.fact("emotion") for g in self._answers}
        families = []
        others = tuple(sorted(occurring - set(EMOTIONS) - {""}))
        for name, members in {**FAMILIES, **({"others": others} if others else {})}.items():
            here = [emotion for emotion in members if emotion in occurring]
            if here:
                families.append(HeatFamily(name, self._line(here), [(emotion, self._line([emotion])) for emotion in here]))
        return families

    def _line(self, emotions: Collection[str]) -> list[Shade]:
        return [
            shade([g.points for g in answers if g.fact("emotion") in emotions], SCALE.low, SCALE.high)
            for *_, answers in self.shown
        ]

    @cached_property
    def pairs(self) -> list[PairTable]:
        """Pairs of grades, over all models except failure cases."""
        return pair_tables([g for _, row, answers in self.shown if row.standing != "failure case" for g in answers])

    @cached_property
    def pairs_by_model(self) -> list[tuple[int, ModelRow, list[PairTable]]]:
        """Pairs of grades, by model."""
        return [(number, row, pair_tables(answers)) for number, row, answers in self.shown]

    @cached_property
    def ablations(self) -> list[Ablation]:
        """The ablation, by preset."""
        return ablations(self.members, self.preset)

    @cached_property
    def samples(self) -> list[ModelSamples]:
        """The best and worst answers of every model."""
        return samples_of(self.members, self._ids)

    @cached_property
    def apart(self) -> list[Apart]:
        """The scenarios on which models differ most."""
        return samples_apart(self.members, self._ids)
