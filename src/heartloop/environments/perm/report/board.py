"""What a page has of its own where the environment is PERM: every table and picture beside the leaderboard, as values.

Pure: the page's models and dialogues in, values out; each is worked out when a template first asks for it. All of it rests on
the dialogues behind the leaderboard's numbers. Grades are averaged over graded answers: a broken form has none, is counted, and
enters the reward alone, at its price; an unscored dialogue enters nothing. Does not cover how a value comes about (`graded`,
`ablation`, `pairs`), nor which answers are worth opening first (`samples`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, get_args

from heartloop.core.blocks import Estimate, ModelRow, PanelInput, Range, Shade, shade
from heartloop.environments.perm.environment import JUDGES
from heartloop.environments.perm.llm_user import DIMENSIONS
from heartloop.environments.perm.report.ablation import VARIANTS, Ablation, ablations
from heartloop.environments.perm.report.graded import Graded, broken_words, graded
from heartloop.environments.perm.report.pairs import PairTable, pair_tables
from heartloop.environments.perm.report.samples import Apart, ModelSamples, samples_apart, samples_of
from heartloop.environments.perm.scale import SCALE
from heartloop.environments.perm.scenario import EMOTIONS, Want
from heartloop.environments.perm.scoring import BYSTANDER_WEIGHT, broken_form
from heartloop.scoring.estimates import estimate

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
"""The 32 emotions in nine families (ours: the labels come without any)."""

WANTS: tuple[str, ...] = get_args(Want)

_HOW = {"released": "a grade of 1 to 5 counts grade / 5", "unit": "a grade of 1 to 5 counts (grade − 1) / 4"}

Member = tuple[int, ModelRow, Sequence[Graded]]
"""A model: its colour number, its row, and the dialogues behind its number."""


class Dimension(NamedTuple):
    """A column: what is averaged, on which scale, and the entry that explains it."""

    key: str
    name: str
    entry: str
    scale: Range
    of: Callable[[Graded], float | None]


class Answers(NamedTuple):
    """How many answers of a model were graded, were broken (by kind, in words), and are unscored."""

    graded: int
    broken: int
    kinds: list[tuple[str, int]]
    unscored: int


class HeatFamily(NamedTuple):
    """A family of emotions: its own line of cells, and a line an emotion that occurs."""

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
    Dimension("beside", "Bystander takes", "perm-bystander", _POINTS, lambda g: 100.0 * g.reward.bystander if g.reward else None),
    Dimension("length", "Length takes", "perm-length", _POINTS, lambda g: 100.0 * g.reward.length if g.reward else None),
    Dimension("tokens", "Tokens of the response", "perm-length", _SHARES, lambda g: float(g.tokens) if g.reward else None),
)


class PermBoard:
    """PERM's tables and pictures.

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
        """Those with an answer."""
        self._found = [g for *_, found in self.shown for g in found]
        self.preset = next((g.dialogue.preset for g in self._found), dialogues[0].preset if dialogues else "")
        weights = sorted({d.facts.get("bystander_weight", f"{BYSTANDER_WEIGHT:g}") for d in dialogues})
        self.weight = ", ".join(weights)
        """lambda_bys, as the dialogues name it."""
        self.price = ", ".join(f"{100 * broken_form(float(weight)):.0f}" for weight in weights)
        """Points of a broken form, by weight."""

    @property
    def how(self) -> str:
        """How the preset makes a share of a grade, in words."""
        return _HOW.get(self.preset, "")

    def seen(self, dimensions: Sequence[Dimension]) -> dict[str, dict[str, Estimate]]:
        """By model and key, the mean of each dimension over the graded answers."""
        table: dict[str, dict[str, Estimate]] = {}
        for _, row, found in self.shown:
            for dimension in dimensions:
                values = [(value, g.dialogue.scenario) for g in found if (value := dimension.of(g)) is not None]
                one = estimate([value for value, _ in values], [person for _, person in values])
                if one is not None:
                    table.setdefault(row.model, {})[dimension.key] = one
        return table

    @cached_property
    def grades(self) -> dict[str, dict[str, Estimate]]:
        """By model, the mean of each judge."""
        return self.seen(self.dimensions)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        """By model, what became of all its answers, those that its number does not rest on among them."""
        found = {}
        for _, row, _ in self.members:
            mine = [g for i, d in enumerate(self._dialogues) if d.model == row.model and (g := graded(i, d)) is not None]
            kinds = Counter(broken_words(g.broken) for g in mine if g.broken)
            broken = sum(kinds.values())
            found[row.model] = Answers(len(mine) - broken, broken, sorted(kinds.items(), key=lambda one: -one[1]), row.unscored)
        return found

    @property
    def broken(self) -> int:
        """Answers in a broken form, over all models but failure cases, which are there to be broken."""
        return sum(self.answers[row.model].broken for _, row, _ in self.members if row.standing != "failure case")

    @cached_property
    def by_want(self) -> dict[str, dict[str, Estimate]]:
        """By model and want, the reward in points; a broken form at its price."""
        table: dict[str, dict[str, Estimate]] = {}
        for _, row, found in self.shown:
            for want in WANTS:
                mine = [g for g in found if g.fact("want") == want]
                if (one := estimate([g.points for g in mine], [g.dialogue.scenario for g in mine])) is not None:
                    table.setdefault(row.model, {})[want] = one
        return table

    @cached_property
    def emotions(self) -> list[HeatFamily]:
        """Families of emotions over the shown models, the reward in points."""
        occurring = {g.fact("emotion") for g in self._found}
        found = []
        others = tuple(sorted(occurring - set(EMOTIONS) - {""}))
        for name, members in {**FAMILIES, **({"others": others} if others else {})}.items():
            here = [emotion for emotion in members if emotion in occurring]
            if here:
                found.append(HeatFamily(name, self._line(here), [(emotion, self._line([emotion])) for emotion in here]))
        return found

    def _line(self, emotions: Collection[str]) -> list[Shade]:
        return [
            shade([g.points for g in found if g.fact("emotion") in emotions], SCALE.low, SCALE.high) for *_, found in self.shown
        ]

    @cached_property
    def pairs(self) -> list[PairTable]:
        """Grades against each other, over the answers of all models but failure cases."""
        return pair_tables([g for _, row, found in self.shown if row.standing != "failure case" for g in found])

    @cached_property
    def pairs_by_model(self) -> list[tuple[int, ModelRow, list[PairTable]]]:
        """The same, a model at a time."""
        return [(number, row, pair_tables(found)) for number, row, found in self.shown]

    @cached_property
    def ablations(self) -> list[Ablation]:
        """The reward with its switches turned, by the run's preset and by the other."""
        return ablations(self.members, self.preset)

    @cached_property
    def samples(self) -> list[ModelSamples]:
        """The best and the worst answers of every model."""
        return samples_of(self.members, self._ids)

    @cached_property
    def apart(self) -> list[Apart]:
        """The samples on which models differ most."""
        return samples_apart(self.members, self._ids)
