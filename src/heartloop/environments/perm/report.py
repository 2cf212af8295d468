"""Grades, reward and form of one PERM dialogue, as input of all tables (`board`, `ablation`, `pairs`, `samples`)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, get_args

from heartloop.core.blocks import (
    Column,
    Estimate,
    LeaderboardColumn,
    ModelRow,
    PanelInput,
    PanelOutput,
    Published,
    PublishedTable,
    Range,
    ReportPanel,
    Row,
    ScenarioView,
    Shade,
    TurnView,
    shade,
)
from heartloop.core.dialogue import HEAVY_TAGS, Transcript, Turn, content_tags
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, SCALE, Rules, reward_of, rules_of
from heartloop.environments.perm.scenario import BROKEN, EMOTIONS, Want, parse
from heartloop.environments.perm.scoring import (
    BYSTANDER_WEIGHT,
    FREE_TOKENS,
    LENGTH_WEIGHT,
    PARTS,
    PRESETS,
    PermReward,
    broken_form,
    normalised,
)
from heartloop.environments.report import PrintedRow, published
from heartloop.scoring.agreement import spearman
from heartloop.scoring.statistics import estimate


class Graded(NamedTuple):
    """A scored dialogue; `place` is its index among the dialogues of the page."""

    place: int
    dialogue: Transcript
    points: float
    """The reward times 100, as scored."""
    broken: str
    """The kind of invalid form (then there are no grades), or empty."""
    scores: Mapping[str, float]
    """Grades by judge: 1 to 5, bystander 0 to 100."""
    marks: Mapping[str, float]
    """The bystander's five marks, 0 to 20 each; empty if there is only their sum."""
    tokens: int
    """Number of tokens of the response."""
    reward: PermReward | None
    """`None` if the form is invalid."""

    @property
    def weight(self) -> float:
        """The bystander's effective weight, as scored."""
        return rules_of(self.dialogue).weight

    def fact(self, name: str) -> str:
        """A fact of the transcript; empty if missing."""
        return self.dialogue.facts.get(name, "")


def graded(place: int, dialogue: Transcript) -> Graded | None:
    """The dialogue with its own preset and rules; `None` if it is unscored or has no grades."""
    if dialogue.score is None or not dialogue.turns:
        return None
    points, evidence = SCALE.points * dialogue.score, dialogue.turns[0].evidence
    broken = evidence.get("format", "")
    if broken:
        return Graded(place, dialogue, points, str(broken), {}, {}, 0, None)
    try:
        reward = reward_of(dialogue, preset=dialogue.preset)
        scores = {judge: float(evidence["scores"][judge]) for judge in JUDGES}
    except InputError:
        return None
    seen = evidence.get("seen")
    return Graded(place, dialogue, points, "", scores, marks_of(seen), int(evidence["tokens"]), reward)


def marks_of(seen: object) -> dict[str, float]:
    """The bystander's five marks in the judges' evidence; empty unless all five are there."""
    evidence = seen.get("bystander") if isinstance(seen, Mapping) else None
    if not isinstance(evidence, Mapping):
        return {}
    marks = {name: mark for name in DIMENSIONS if isinstance(mark := evidence.get(name), (int, float)) and 0 <= mark <= 20}
    return {name: float(mark) for name, mark in marks.items()} if len(marks) == len(DIMENSIONS) else {}


def broken_words(kind: str) -> str:
    """The description of a kind of invalid form; an unknown kind is returned unchanged."""
    return BROKEN.get(kind, kind)


class Variant(NamedTuple):
    """One setting of the reward; weight `None`: the weight that the answer was scored with."""

    name: str
    without: tuple[str, ...] = ()
    bystander_weight: float | None = None


VARIANTS: tuple[Variant, ...] = (
    Variant("all parts"),
    *(Variant(f"no {left}", (left,)) for left in (*PARTS, "bystander")),
    *(Variant(f"bystander {weight:.1f}", bystander_weight=weight) for weight in (0.1, 0.5, 1.0)),
    Variant("no length", ("length",)),
)
"""The first is the full reward; 0.1, 0.5 and 1.0 are the weights of PERM Table 6."""


class Ablated(NamedTuple):
    """A model under one variant: mean points, rank among the ranked models, and ranks gained (+) or lost (-)."""

    mean: float
    rank: int | None
    moved: int


class AblationRow(NamedTuple):
    """A model: its colour number, its row, and one cell per variant."""

    number: int
    score: ModelRow
    cells: list[Ablated]


class Ablation(NamedTuple):
    """All models under all variants, with one preset."""

    preset: str
    own: bool
    """Whether it is the preset of the run."""
    rows: list[AblationRow]
    agreement: list[float | None]
    """Spearman's rho of each variant with the full reward as scored; `None` if undefined."""
    ranked: int
    """Number of ranked models."""


def ablations(members: Sequence[tuple[int, ModelRow, Sequence[Graded]]], preset: str) -> list[Ablation]:
    """One table per preset, that of the run first; empty if no model has an answer."""
    shown = [member for member in members if member[2]]
    if not shown:
        return []
    full = {row.model: statistics.fmean(g.points for g in answers) for _, row, answers in shown}
    ranked = [row.model for _, row, _ in shown if row.standing == "ranked"]
    before = _ranks({model: full[model] for model in ranked})
    tables = []
    for name in (preset, *(other for other in PRESETS if other != preset)):
        means = [{row.model: _mean(answers, name, variant) for _, row, answers in shown} for variant in VARIANTS]
        ranks = [_ranks({model: column[model] for model in ranked}) for column in means]
        rows = []
        for number, row, _ in shown:
            cells = [
                Ablated(column[row.model], now.get(row.model), before[row.model] - now[row.model] if row.model in now else 0)
                for column, now in zip(means, ranks, strict=True)
            ]
            rows.append(AblationRow(number, row, cells))
        agreement = [_rho({m: full[m] for m in ranked}, {m: round(column[m], 6) for m in ranked}) for column in means]
        tables.append(Ablation(name, name == preset, rows, agreement, len(ranked)))
    return tables


def _mean(answers: Sequence[Graded], preset: str, variant: Variant) -> float:
    return statistics.fmean(100.0 * _total(g, preset, variant) for g in answers)


def _total(g: Graded, preset: str, variant: Variant) -> float:
    rules = Rules(g.weight if variant.bystander_weight is None else variant.bystander_weight, variant.without)
    return broken_form(rules.weight) if g.broken else rules.reward(g.scores, g.tokens, preset).total


def _ranks(means: dict[str, float]) -> dict[str, int]:
    """Ranks from 1; means that are equal to six decimals share one."""
    rounded = {model: round(mean, 6) for model, mean in means.items()}
    order = sorted(rounded.values(), reverse=True)
    return {model: order.index(mean) + 1 for model, mean in rounded.items()}


def _rho(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """Spearman's rho; `None` of fewer than two entries, or where one side does not vary."""
    try:
        return spearman(first, second)
    except UseError:
        return None


PAIRS = (("resonation", "reception"), ("expression", "reception"), ("expression", "bystander"))
"""Pairs of judges: horizontal and vertical."""

_STEPS = (1, 2, 3, 4, 5)
_SCORES = ((0, 19), (20, 39), (40, 59), (60, 79), (80, 100))
"""Five ranges of the bystander's grade."""


class Count(NamedTuple):
    """Number of answers in a cell; `tint` in [0, 1] is its shade."""

    n: int
    tint: float


class PairTable(NamedTuple):
    """The table of one pair of judges."""

    across: str
    up: str
    columns: list[str]
    rows: list[tuple[str, list[Count]]]
    """From the highest to the lowest."""
    n: int
    rho: float | None
    """Spearman's rho over the answers; `None` if one judge's grades do not vary."""


def pair_table(across: str, up: str, answers: Sequence[Graded]) -> PairTable:
    """Counts of each pair of grades over the answers in valid form."""
    graded = [g for g in answers if not g.broken]
    at = [(_index(across, g.scores[across]), _index(up, g.scores[up])) for g in graded]
    most = max((at.count(cell) for cell in set(at)), default=1)
    names = _names(up)
    rows = []
    for y in range(len(names) - 1, -1, -1):
        counts = [at.count((x, y)) for x in range(len(_STEPS))]
        rows.append((names[y], [Count(n, round(n / most, 3)) for n in counts]))
    return PairTable(
        across,
        up,
        _names(across),
        rows,
        len(graded),
        _rho(*({str(n): g.scores[judge] for n, g in enumerate(graded)} for judge in (across, up))),
    )


def pair_tables(answers: Sequence[Graded]) -> list[PairTable]:
    """The tables of all `PAIRS`."""
    return [pair_table(across, up, answers) for across, up in PAIRS]


def _names(judge: str) -> list[str]:
    return [f"{low}–{high}" for low, high in _SCORES] if judge == "bystander" else [str(level) for level in _STEPS]


def _index(judge: str, score: float) -> int:
    return min(4, int(score // 20)) if judge == "bystander" else int(score) - 1


HIGHEST: Mapping[str, int] = {**dict.fromkeys(PARTS, 5), "bystander": 100}
"""The highest grade of each judge."""

_MAX_DEPTH = 2
"""Nesting levels of a judge's evidence that the page shows."""


def answer(transcript: Transcript) -> dict[str, Any]:
    """The answer of a PERM dialogue; empty if there is none."""
    if not transcript.turns:
        return {}
    turn = transcript.turns[0]
    parsed = parse(turn.reply)
    scored = graded(0, transcript)
    parts = [["Analysis", printable(parsed.analysis)], ["Response", printable(parsed.response)]]
    if parsed.broken:
        parts = [["Answer", printable(turn.reply)]]
    shown: dict[str, Any] = {"parts": parts}
    if scored is None:
        return {"answer": shown}
    if scored.broken:
        shown["broken"] = printable(broken_words(scored.broken))
        shown["sum"] = [["reward", f"{scored.points:g} points: the form is invalid, so the answer is not judged"]]
        return {"answer": shown}
    shown["judges"] = [_judged(judge, turn, scored, parts) for judge in JUDGES]
    shown["tokens"] = scored.tokens
    shown["estimated"] = bool(turn.evidence.get("tokens_estimated"))
    shown["sum"] = _sum(scored)
    return {"answer": shown}


def reason_and_quote(judge: str, turn: Turn) -> tuple[str, str]:
    """A judge's reason and quote; empty if missing."""
    reasons, quotes = (printable_texts(turn.evidence.get(name)) for name in ("reasons", "quotes"))
    return reasons.get(judge, ""), quotes.get(judge, "")


def _judged(judge: str, turn: Turn, scored: Graded, parts: list[list[str]]) -> dict[str, Any]:
    reason, quote = reason_and_quote(judge, turn)
    part = 0 if judge == "resonation" else len(parts) - 1
    text = parts[part][1]
    places = [[utf16_place(text, first), utf16_place(text, last)] for first, last in spans_of(quote, text)] if quote else []
    shown: dict[str, Any] = {
        "name": judge,
        "part": part,
        "score": short_number(scored.scores[judge]),
        "top": HIGHEST[judge],
        "reason": reason,
        "quote": quote,
        "places": places,
    }
    if judge == "bystander" and scored.marks:
        shown["marks"] = [[name, DIMENSIONS[name], short_number(mark)] for name, mark in scored.marks.items()]
    else:
        seen = turn.evidence.get("seen")
        shown["seen"] = _seen(seen.get(judge)) if isinstance(seen, Mapping) else []
    return shown


def _sum(scored: Graded) -> list[list[str]]:
    """The steps of the reward: name and calculation of each."""
    preset, reward, rules = scored.dialogue.preset, scored.reward, rules_of(scored.dialogue)
    assert reward is not None
    formula = "{:g} / 5" if preset == "released" else "({:g} − 1) / 4"
    counted = [part for part in PARTS if part not in rules.without]
    shares = {part: normalised(scored.scores[part], preset=preset) for part in counted}
    lines = [
        [part, f"{formula.format(scored.scores[part])} = {shares[part]:.2f}" if part in shares else "left out"] for part in PARTS
    ]
    if min(shares.values()):
        mean = f"{len(shares)} / ({' + '.join(f'1/{share:.2f}' for share in shares.values())}) ="
    else:
        mean = "a share is 0, so the mean is 0:"
    lines.append(["harmonic mean", f"{mean} {reward.empathy:.3f}"])
    penalty = f"{rules.weight:g} × ({scored.scores['bystander']:g} / 100 − 1) = {_signed(reward.bystander)}"
    lines.append(["bystander", penalty if rules.weight else "the weight is 0: 0"])
    excess = f"−{LENGTH_WEIGHT:g} × max({scored.tokens} − {FREE_TOKENS}, 0) = {_signed(reward.length)}"
    lines.append(["length", "left out: 0" if "length" in rules.without else excess])
    lines.append(["reward", f"{reward.empathy:.3f} {_plus(reward.bystander)} {_plus(reward.length)} = {_signed(reward.total)}"])
    return lines


def _signed(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else ''}{abs(value):.3f}"


def _plus(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else '+'} {abs(value):.3f}"


def _seen(evidence: object) -> list[list[str]]:
    """A judge's further evidence, as names and texts."""
    if not isinstance(evidence, Mapping):
        return []
    return [[printable(str(name)), _words(value)] for name, value in evidence.items() if value not in ([], {}, (), None, "")]


def _words(value: object, depth: int = 0) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return ", ".join(f"{printable(str(key))} {_words(entry, depth + 1)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        return (", " if depth == 0 else " ").join(_words(entry, depth + 1) for entry in value)
    return printable(f"{value:g}" if isinstance(value, float) else str(value))


MOST_APART = 10
"""Number of scenarios on which models differ most."""
EACH = 2
"""Number of best and of worst answers per model."""


class Judged(NamedTuple):
    """One judge's grade: name, grade, highest possible grade, reason and quote."""

    judge: str
    score: float
    top: int
    reason: str
    quote: str


class Sample(NamedTuple):
    """A selected answer."""

    address: str
    points: float
    title: str
    about: str
    """Person, emotion and want."""
    tags: str
    heavy: bool
    broken: str
    """Description of an invalid form, or empty."""
    judged: list[Judged]


class ModelSamples(NamedTuple):
    """A model: its colour number, its row, its best answers (best first), its worst answers (worst first)."""

    number: int
    score: ModelRow
    best: list[Sample]
    worst: list[Sample]


class ApartCell(NamedTuple):
    """One model with one scenario: mean points, number of answers, address of the first, shade, whether the mean is below 0."""

    points: float
    n: int
    address: str
    tint: float
    below: bool


class Apart(NamedTuple):
    """A scenario over all models."""

    title: str
    about: str
    spread: float
    """Points between the highest and the lowest model, without failure cases."""
    cells: list[ApartCell | None]
    """One per model; `None` without a scored answer."""


Member = tuple[int, ModelRow, Sequence[Graded]]


def samples_of(members: Sequence[Member], ids: Sequence[str]) -> list[ModelSamples]:
    """The `EACH` best and worst answers of every model; no answer is both."""
    samples = []
    for number, row, answers in members:
        order = sorted(answers, key=lambda g: (-g.points, g.place))
        best = order[:EACH]
        worst = sorted(order[len(best) :], key=lambda g: (g.points, g.place))[:EACH]
        if answers:
            samples.append(ModelSamples(number, row, [_sample(g, ids) for g in best], [_sample(g, ids) for g in worst]))
    return samples


def samples_apart(members: Sequence[Member], ids: Sequence[str]) -> list[Apart]:
    """The `MOST_APART` scenarios with the largest spread, largest first; empty for a single model."""
    shown = [(row, answers) for _, row, answers in members if answers]
    if sum(row.standing != "failure case" for row, _ in shown) < 2:
        return []
    by_scenario: dict[tuple[str, str], list[list[Graded]]] = {}
    for column, (_, answers) in enumerate(shown):
        for g in answers:
            by_scenario.setdefault((g.dialogue.scenario, g.dialogue.fingerprint), [[] for _ in shown])[column].append(g)
    lines = []
    for columns in by_scenario.values():
        means = [
            statistics.fmean(g.points for g in answers)
            for (row, _), answers in zip(shown, columns, strict=True)
            if answers and row.standing != "failure case"
        ]
        if len(means) > 1:
            first = next(answers[0] for answers in columns if answers)
            cells = [_cell(answers, ids) for answers in columns]
            lines.append(Apart(_title(first), _about(first), max(means) - min(means), cells))
    return sorted(lines, key=lambda line: -line.spread)[:MOST_APART]


def _cell(answers: Sequence[Graded], ids: Sequence[str]) -> ApartCell | None:
    if not answers:
        return None
    points = statistics.fmean(g.points for g in answers)
    return ApartCell(points, len(answers), ids[answers[0].place], round(min(1.0, abs(points) / 100.0), 3), points < 0)


def _sample(g: Graded, ids: Sequence[str]) -> Sample:
    tags = content_tags(g.dialogue)
    judged = [
        Judged(judge, g.scores[judge], HIGHEST[judge], *reason_and_quote(judge, g.dialogue.turns[0]))
        for judge in JUDGES
        if g.scores
    ]
    return Sample(
        address=ids[g.place],
        points=g.points,
        title=_title(g),
        about=_about(g, with_person=True),
        tags=", ".join(tags),
        heavy=any(tag in HEAVY_TAGS for tag in tags),
        broken=broken_words(g.broken) if g.broken else "",
        judged=judged,
    )


def _title(g: Graded) -> str:
    return g.fact("title") or g.dialogue.scenario


def _about(g: Graded, *, with_person: bool = False) -> str:
    want = g.fact("want")
    parts = (g.fact("person") if with_person else "", g.fact("emotion"), f"wants {want}" if want else "")
    return " · ".join(filter(None, parts))


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


_SECTIONS = (
    ("components", "Grades"), ("emotions", "Emotions"), ("pairs", "Pairs"), ("ablation", "Ablation"),
    ("samples", "Best and worst"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    perm = PermBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    warnings: tuple[str, ...] = ()
    if perm.broken:
        has = "answer has" if perm.broken == 1 else "answers have"
        warnings = (
            f"{perm.broken} {has} an invalid form: not judged, {perm.price} points each. See Grades for models and reasons.",
        )
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                one.name, {model: means[one.key].mean for model, means in perm.grades.items() if one.key in means}, 1, one.entry
            )
            for one in perm.dimensions
        ),
        leaderboard_help=f"Computed with preset {preset} ({perm.how}) and bystander weight {perm.weight}; another preset or "
        "weight gives other numbers for the same grades. The judges' columns show mean grades; their intervals are under Grades.",
        facts=(
            ("Share of a grade", perm.how.removeprefix("a grade of 1 to 5 counts ")),
            ("Bystander's weight", _facts(page, "bystander_weight")),
            ("Left out of the reward", _facts(page, "without")),
        ),
        warnings=warnings,
        sections=_SECTIONS,
        context={"perm": perm},
    )


def _facts(page: PanelInput, fact: str) -> str:
    return ", ".join(sorted({value for d in page.dialogues if (value := d.facts.get(fact))}))


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = (facts.get("person"), facts.get("emotion"), f"wants {facts['want']}" if facts.get("want") else "")
    situation = facts.get("situation")
    return ScenarioView(" · ".join(filter(None, line)), (("Situation, which the model sees", situation),) if situation else ())


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Empty: `answers` shows the judges' grades in the answer."""
    return TurnView()


_table = partial(published, __package__)

CRITERIA: Mapping[str, str] = {
    "overall": "Overall",
    "depth_of_insight": "DoI",
    "emotional_reasoning": "ER",
    "demonstrated_empathy": "DE",
    "warmth": "WRM",
    "humanlikeness": "HL",
    "pragmatic_emotional_intelligence": "PEI",
    "social_dexterity": "SD",
}
"""Criteria of EQ-Bench3 by column of the tables, with the paper's abbreviations."""


def published_results() -> Published:
    return Published(
        title="models trained with its reward",
        tables=(
            _by_criterion(2, "Trained without one part of the reward", "Reward", _table("perm_table02_ablation"), "{variant}"),
            _by_criterion(
                6, "Trained with another weight of the bystander", "Weight",
                _table("perm_table06_bystander_coefficient"), "λ = {lambda_bys}",
            ),
            _by_criterion(7, "Trained from another model", "Model", _table("perm_table07_backbones"), "{backbone}, {model}"),
            _study(),
        ),
        conditions="PERM’s are EQ-Bench3 scores of models trained with its reward, by the judge model that its authors chose.",
        papers=("PERM: Psychology-grounded Empathetic Reward Modeling for Large Language Models",),
    )  # fmt: skip


def _by_criterion(number: int, title: str, corner: str, rows: list[PrintedRow], head: str) -> PublishedTable:
    return PublishedTable(
        source=f"PERM, Table {number}",
        title=title,
        help="Scores of the trained models by EQ-Bench3. A dash: the table does not print this criterion. The paper prints no "
        "interval.",
        columns=tuple(Column(name, entry="published-perm") for name in CRITERIA.values()),
        rows=tuple(Row(head.format(**row), tuple(_printed_cell(row, criterion) for criterion in CRITERIA)) for row in rows),
        corner=corner,
        entry="published-perm",
        fold=True,
    )


def _printed_cell(row: PrintedRow, criterion: str) -> Any:
    value = row.get(criterion)
    return f"{value:.1f} %" if row.get("measure") == "relative_improvement_percent" and value is not None else value


def _study() -> PublishedTable:
    rows: Any = _table("perm_table03_user_study")
    return PublishedTable(
        source="PERM, Table 3",
        title="Preferences in a user study",
        columns=tuple(Column(name, entry="published-wins") for name in ("Asked for", "Between", "Preferred the first")),
        rows=tuple(
            Row(
                row["dataset"],
                (
                    row["dimension"],
                    row["comparison"],
                    f"{row['win_rate_percent']:.1f} % ± {row['ci95_half_width_percent']:.1f}",
                ),
            )
            for row in rows
        ),
        corner="Messages from",
        entry="published-wins",
        fold=True,
    )


PANEL = ReportPanel(
    build=build,
    question="Empathy of one answer, graded by four judges",
    lede="The user sends one message. The model writes an analysis and one response. Four judges grade whether the analysis "
    "understands the user (resonation), whether the response is well worded (expression), how the user receives it (reception), "
    "and what a bystander thinks of it. The score is the reward times 100: the harmonic mean of the first three grades, minus "
    "penalties by the bystander and for length.",
    leaves_out=frozenset({"trajectories", "groups", "highlights"}),
    scenario=_scenario,
    turn=_turn,
    dialogue=answer,
    published=published_results,
    package=__package__,
    glossary="templates/glossary.html",
    template="templates/panel.html",
    script="templates/panel.js",
    style="templates/panel.css",
)
