"""PERM's page of the report: grades and reward by model, emotion and want; pairs of grades; ablation of the reward."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    Row,
    Shade,
    Table,
    TurnView,
    shade,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import packaged_table
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, SCALE, reward_of, rules_of
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
from heartloop.environments.report import PrintedRow, mapping_of, mean_of, panel_of, published, results_of, scenario_view
from heartloop.scoring.agreement import spearman


class Graded(NamedTuple):
    dialogue: Transcript
    points: float
    broken: str
    """The kind of invalid form (then there are no grades), or empty."""
    scores: Mapping[str, float]
    """Grades by judge: 1 to 5, bystander 0 to 100."""
    marks: Mapping[str, float]
    """The bystander's five marks, 0 to 20 each; empty if there is only their sum."""
    tokens: int
    reward: PermReward | None


Member = tuple[int, ModelRow, Sequence[Graded]]
"""A model: its place on the leaderboard, its row, and the answers behind its score."""


def graded(dialogue: Transcript) -> Graded | None:
    """`None` if the dialogue is unscored or has no grades."""
    if dialogue.score is None or not dialogue.turns:
        return None
    points, evidence = SCALE.points * dialogue.score, dialogue.turns[0].evidence
    if broken := evidence.get("format", ""):
        return Graded(dialogue, points, str(broken), {}, {}, 0, None)
    try:
        reward = reward_of(dialogue, preset=dialogue.preset)
        scores = {judge: float(evidence["scores"][judge]) for judge in JUDGES}
    except InputError:
        return None
    return Graded(dialogue, points, "", scores, marks_of(evidence.get("seen")), int(evidence["tokens"]), reward)


def marks_of(seen: object) -> dict[str, float]:
    """The bystander's five marks in the judges' evidence; empty unless all five are there."""
    evidence = mapping_of(mapping_of(seen).get("bystander"))
    marks = {name: mark for name in DIMENSIONS if isinstance(mark := evidence.get(name), (int, float)) and 0 <= mark <= 20}
    return {name: float(mark) for name, mark in marks.items()} if len(marks) == len(DIMENSIONS) else {}


_LEVELS, _SHARES, _MARKS = Range(1.0, 5.0, 1.0), Range(0.0, 100.0, 0.0), Range(0.0, 20.0, 0.0)
_PENALTY, _TOKENS = Range(-100.0, 0.0, 0.0), Range(0.0, float(FREE_TOKENS), 0.0)
_POINTS = SCALE.colours()

GRADES: Mapping[str, Column] = {
    **{part: Column(part.capitalize(), 2, _LEVELS, f"perm-{part}") for part in PARTS},
    "bystander": Column("Bystander", 1, _SHARES, "perm-bystander"),
}
TERMS: Mapping[str, Column] = {
    "empathy": Column("Harmonic mean", 1, _SHARES, "perm-mean"),
    "bystander": Column("Bystander penalty", 1, _PENALTY, "perm-bystander"),
    "length": Column("Length penalty", 1, _PENALTY, "perm-length"),
    "tokens": Column("Tokens of the response", 1, _TOKENS, "perm-length"),
}
MARKS = {name: Column(f"{name.capitalize()}: {words}", 1, _MARKS, "perm-marks") for name, words in DIMENSIONS.items()}
WANTS = {want: Column(want.capitalize(), 1, _POINTS, "perm-want") for want in get_args(Want)}


def _terms(g: Graded) -> dict[str, float]:
    """The terms of the reward in points, and the tokens of the response; empty of an answer in invalid form."""
    points = {name: SCALE.points * term for name, term in g.reward._asdict().items()} if g.reward else {}
    return {**points, "tokens": float(g.tokens)} if points else {}


Values = Callable[[Graded], Mapping[str, float]]


def means(answers: Sequence[Graded], columns: Mapping[str, Column], values: Values) -> tuple[Estimate | None, ...]:
    """The mean of each column over the answers; ends of intervals are within its range, but for points, which may be lower."""
    ranges = {key: column.range for key, column in columns.items()}
    within = {key: (ends.low, ends.high) for key, ends in ranges.items() if ends and ends != _POINTS}
    return tuple(mean_of(((values(g).get(key), g.dialogue) for g in answers), within.get(key)) for key in columns)


def means_table(title: str, members: Sequence[Member], columns: Mapping[str, Column], values: Values) -> Table:
    rows = tuple(Row(row.model, means(answers, columns, values), number) for number, row, answers in members)
    return Table(title, tuple(columns.values()), rows, entry="model")


def answers_of(page: PanelInput, row: ModelRow) -> tuple[int, Counter[str]]:
    """Numbers of all answers of a model, also of those not behind its score: graded, and by kind of invalid form."""
    mine = [g for d in page.dialogues if d.model == row.model and (g := graded(d)) is not None]
    broken = Counter(BROKEN.get(g.broken, g.broken) for g in mine if g.broken)
    return len(mine) - broken.total(), broken


def grades_table(page: PanelInput, members: Sequence[Member]) -> Table:
    rows = []
    for number, row, answers in members:
        n, broken = answers_of(page, row)
        kinds = "".join(f" ({count}: {words})" for words, count in broken.most_common())
        seen = row.headline
        reward = None if seen.mean is None else Estimate(seen.n, seen.mean, seen.low, seen.high)
        counts = f"{n} graded, {broken.total()} invalid{kinds}, {row.unscored} unscored"
        rows.append(Row(row.model, (reward, *means(answers, GRADES, lambda g: g.scores), counts), number))
    columns = (Column("Reward", 1, _POINTS, "perm-mean"), *GRADES.values(), Column("Answers", entry="perm-answers"))
    return Table("Grades by judge", columns, tuple(rows), entry="model")


FAMILIES: Mapping[str, Sequence[str]] = packaged_table(__package__, "report.toml")["families"]


def emotions(members: Sequence[Member]) -> list[tuple[str, list[Shade], list[tuple[str, list[Shade]]]]]:
    def cells(among: Sequence[str]) -> list[Shade]:
        points = ([g.points for g in answers if g.dialogue.facts.get("emotion") in among] for *_, answers in members)
        return [shade(mine, _POINTS) for mine in points]

    occurring = {g.dialogue.facts.get("emotion", "") for *_, answers in members for g in answers}
    others = tuple(sorted(occurring - set(EMOTIONS) - {""}))
    families = {name: [e for e in family if e in occurring] for name, family in {**FAMILIES, "others": others}.items()}
    return [(name, cells(here), [(emotion, cells([emotion])) for emotion in here]) for name, here in families.items() if here]


PAIRS = (("resonation", "reception"), ("expression", "reception"), ("expression", "bystander"))

_STEPS = ("1", "2", "3", "4", "5")
_SCORES = ("0–19", "20–39", "40–59", "60–79", "80–100")


def pair_table(across: str, up: str, answers: Sequence[Graded]) -> dict[str, Any]:
    """Counts of each pair of grades over the answers in valid form, from the highest row to the lowest; Spearman's rho."""
    graded = [g for g in answers if not g.broken]
    at = Counter((_index(across, g.scores[across]), _index(up, g.scores[up])) for g in graded)
    names = _SCORES if up == "bystander" else _STEPS
    rows = [(names[y], [at[x, y] for x in range(len(_STEPS))]) for y in reversed(range(len(names)))]
    rho = _rho(*({str(n): g.scores[judge] for n, g in enumerate(graded)} for judge in (across, up)))
    most = max(at.values(), default=1)
    return {"across": across, "up": up, "columns": _STEPS, "rows": rows, "most": most, "n": len(graded), "rho": rho}


def _index(judge: str, score: float) -> int:
    return min(4, int(score // 20)) if judge == "bystander" else int(score) - 1


def _rho(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    try:
        return spearman(first, second)
    except UseError:
        return None


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "all parts": {},
    **{f"no {part}": {"without": (part,)} for part in (*PARTS, "bystander")},
    **{f"bystander {weight:.1f}": {"bystander_weight": weight} for weight in (0.1, 0.5, 1.0)},
    "no length": {"without": ("length",)},
}
"""Changes of the rules, by name; the first is the full reward. 0.1, 0.5 and 1.0 are the weights of PERM Table 6."""


def ablated(answers: Sequence[Graded], preset: str, variant: str) -> float:
    """The mean reward in points with a variant of the full reward; its weight is that of the run unless the variant sets one."""
    points = []
    for g in answers:
        own = rules_of(g.dialogue)
        rules = own._replace(bystander_weight=own.weight, without=())._replace(**VARIANTS[variant])
        reward = reward_of(g.dialogue, preset=preset, rules=rules)
        points.append(broken_form(rules.weight) if reward is None else reward.total)
    return 100.0 * statistics.fmean(points)


def ablation(members: Sequence[Member], preset: str, *, own: bool) -> Table:
    ranked = [row.model for _, row, _ in members if row.standing == "ranked"]
    full = {row.model: statistics.fmean(g.points for g in answers) for _, row, answers in members}
    full_ranked = {model: full[model] for model in ranked}
    cells: dict[str, list[str]] = {row.model: [] for _, row, _ in members}
    agreement = []
    for variant in VARIANTS:
        column = {row.model: ablated(answers, preset, variant) for _, row, answers in members}
        by_model = {model: round(column[model], 6) for model in ranked}
        for model, mean in column.items():
            gained = _rank(full_ranked, model) - _rank(by_model, model) if model in by_model else 0
            moved = f" {'▲' if gained > 0 else '▼'} {abs(gained)}" if gained else ""
            rank = f" #{_rank(by_model, model)}{moved}" if model in by_model else ""
            cells[model].append(f"{round(mean, 1) + 0.0:.1f}{rank}")
        rho = _rho(full_ranked, by_model)
        agreement.append("–" if rho is None else f"{rho:.2f}")
    rows = [Row(row.model, tuple(cells[row.model]), number) for number, row, _ in members]
    rows.append(Row(f"Spearman’s ρ with the full reward, {len(ranked)} models", tuple(agreement)))
    columns = tuple(Column(name.capitalize(), entry="perm-ablation") for name in VARIANTS)
    return Table(f"With preset {preset}{', as scored' if own else ''}", columns, tuple(rows), entry="model")


def _rank(means: Mapping[str, float], model: str) -> int:
    return 1 + sum(round(mean, 6) > round(means[model], 6) for mean in means.values())


_MAX_DEPTH = 2  # of the evidence that the page shows


def answer(transcript: Transcript) -> dict[str, Any]:
    if not transcript.turns:
        return {}
    turn = transcript.turns[0]
    parsed = parse(turn.reply)
    scored = graded(transcript)
    named = {"Answer": turn.reply} if parsed.broken else {"Analysis": parsed.analysis, "Response": parsed.response}
    parts = [[name, printable(text)] for name, text in named.items()]
    shown: dict[str, Any] = {"parts": parts}
    if scored is not None and scored.broken:
        shown["broken"] = printable(BROKEN.get(scored.broken, scored.broken))
        shown["sum"] = [["reward", f"{scored.points:g} points: the form is invalid, so the answer is not judged"]]
    elif scored is not None:
        shown["judges"] = [_judged(judge, turn, scored, parts) for judge in JUDGES]
        shown["tokens"] = scored.tokens
        shown["estimated"] = bool(turn.evidence.get("tokens_estimated"))
        shown["sum"] = _sum(scored)
    return {"answer": shown}


def _judged(judge: str, turn: Turn, scored: Graded, parts: list[list[str]]) -> dict[str, Any]:
    reason, quote = (printable_texts(turn.evidence.get(name)).get(judge, "") for name in ("reasons", "quotes"))
    part = 0 if judge == "resonation" else len(parts) - 1
    text = parts[part][1]
    places = [[utf16_place(text, first), utf16_place(text, last)] for first, last in spans_of(quote, text)] if quote else []
    shown: dict[str, Any] = {
        "name": judge, "part": part, "score": short_number(scored.scores[judge]), "top": 100 if judge == "bystander" else 5,
        "reason": reason, "quote": quote, "places": places,
    }  # fmt: skip
    given = mapping_of(mapping_of(turn.evidence.get("seen")).get(judge))
    if judge == "bystander" and scored.marks:
        whys = {**DIMENSIONS} | printable_texts({name: given[f"{name}_why"] for name in DIMENSIONS if f"{name}_why" in given})
        shown["marks"] = [[name, whys[name], short_number(mark)] for name, mark in scored.marks.items()]
    else:
        left = {name: value for name, value in given.items() if value not in ([], {}, (), None, "")}
        shown["seen"] = [[printable(str(name)), _words(value)] for name, value in left.items()]
    return shown


def _sum(scored: Graded) -> list[list[str]]:
    preset, reward, rules = scored.dialogue.preset, scored.reward, rules_of(scored.dialogue)
    assert reward is not None
    formula = "{:g} / 5" if preset == "released" else "({:g} − 1) / 4"
    counted = [part for part in PARTS if part not in rules.without]
    shares = {part: normalised(scored.scores[part], preset=preset) for part in counted}
    lines = [
        [part, f"{formula.format(scored.scores[part])} = {shares[part]:.2f}" if part in shares else "left out"] for part in PARTS
    ]
    inverse = " + ".join(f"1/{share:.2f}" for share in shares.values())
    mean = f"{len(shares)} / ({inverse}) =" if min(shares.values()) else "a share is 0, so the mean is 0:"
    lines.append(["harmonic mean", f"{mean} {reward.empathy:.3f}"])
    penalty = f"{rules.weight:g} × ({scored.scores['bystander']:g} / 100 − 1) = {_signed(reward.bystander)}"
    lines.append(["bystander", penalty if rules.weight else "the weight is 0: 0"])
    excess = f"−{LENGTH_WEIGHT:g} × max({scored.tokens} − {FREE_TOKENS}, 0) = {_signed(reward.length)}"
    lines.append(["length", "left out: 0" if "length" in rules.without else excess])
    terms = f"{_signed(reward.bystander, '+ ', '− ')} {_signed(reward.length, '+ ', '− ')}"
    lines.append(["reward", f"{reward.empathy:.3f} {terms} = {_signed(reward.total)}"])
    return lines


def _signed(value: float, plus: str = "", minus: str = "−") -> str:
    return f"{minus if round(value, 3) < 0 else plus}{abs(value):.3f}"


def _words(value: object, depth: int = 0) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return ", ".join(f"{printable(str(key))} {_words(entry, depth + 1)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        return (", " if depth == 0 else " ").join(_words(entry, depth + 1) for entry in value)
    return printable(f"{value:g}" if isinstance(value, float) else str(value))


_SECTIONS = (("components", "Grades"), ("emotions", "Emotions"), ("pairs", "Pairs"), ("ablation", "Ablation"))
_SHARE = {"released": "a grade of 1 to 5 counts grade / 5", "unit": "a grade of 1 to 5 counts (grade − 1) / 4"}


def build(page: PanelInput) -> PanelOutput:
    members = [
        (number, row, [g for d in page.behind(row) if (g := graded(d)) is not None]) for number, row in enumerate(page.models)
    ]
    shown = [member for member in members if member[2]]
    first = page.dialogues[0] if page.dialogues else None  # all dialogues of a page have one preset and one set of rules
    preset, facts = (first.preset, first.facts) if first else ("", {})
    how, weight = _SHARE.get(preset, ""), facts.get("bystander_weight", f"{BYSTANDER_WEIGHT:g}")
    price = f"{100 * broken_form(float(weight)):.0f}"
    presets = (preset, *(other for other in PRESETS if other != preset)) if shown else ()
    ranked = [g for _, row, answers in shown if row.standing != "failure case" for g in answers]
    grades = grades_table(page, shown)
    perm = {
        "how": how,
        "weight": weight,
        "price": price,
        "shown": shown,
        "grades": grades,
        "terms": means_table("Terms of the reward", shown, TERMS, _terms),
        "marks": means_table(
            "The bystander’s marks", [one for one in shown if any(g.marks for g in one[2])], MARKS, lambda g: g.marks
        ),
        "wants": means_table("Reward by want", shown, WANTS, lambda g: {g.dialogue.facts.get("want", ""): g.points}),
        "emotions": emotions(shown),
        "pairs": [pair_table(*pair, ranked) for pair in PAIRS],
        "pairs_by_model": [(number, row, [pair_table(*pair, answers) for pair in PAIRS]) for number, row, answers in shown],
        "ablations": [ablation(shown, name, own=name == preset) for name in presets],
    }
    broken = sum(answers_of(page, row)[1].total() for row in page.models if row.standing != "failure case")
    has = "answer has" if broken == 1 else "answers have"
    warning = f"{broken} {has} an invalid form: not judged, {price} points each. See Grades for models and reasons."
    columns = []
    for place, column in enumerate(GRADES.values(), start=1):
        seen = {row.head: cell.mean for row in grades.rows if isinstance(cell := row.cells[place], Estimate)}
        columns.append(LeaderboardColumn(column.name, seen, 1, column.entry))
    return PanelOutput(
        columns=tuple(columns),
        leaderboard_help=f"Computed with preset {preset} ({how}) and bystander weight {weight}; another preset or "
        "weight gives other numbers for the same grades. The judges' columns show mean grades; their intervals are under Grades.",
        facts=(
            ("Share of a grade", how.removeprefix("a grade of 1 to 5 counts ")),
            ("Bystander's weight", facts.get("bystander_weight", "")),
            ("Left out of the reward", facts.get("without", "")),
        ),
        warnings=(warning,) if broken else (),
        sections=_SECTIONS,
        context={"perm": perm},
    )


CRITERIA: Mapping[str, str] = packaged_table(__package__, "report.toml")["criteria"]


def published_results() -> Published:
    results = results_of(__package__)
    by_criterion = (
        _by_criterion(2, "Trained without one part of the reward", "Reward", "perm_table02_ablation", "{variant}"),
        _by_criterion(
            6, "Trained with another weight of the bystander", "Weight", "perm_table06_bystander_coefficient", "λ = {lambda_bys}"
        ),
        _by_criterion(7, "Trained from another model", "Model", "perm_table07_backbones", "{backbone}, {model}"),
    )
    return results._replace(tables=(*by_criterion, *results.tables))


def _by_criterion(number: int, title: str, corner: str, name: str, head: str) -> PublishedTable:
    rows = published(__package__, name)
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


PANEL = panel_of(
    __package__,
    build=build,
    leaves_out=frozenset({"trajectories", "groups"}),
    scenario=scenario_view(
        {"person": "{}", "emotion": "{}", "want": "wants {}"}, {"situation": "Situation, which the model sees"}
    ),
    turn=lambda transcript, turn: TurnView(),  # `answer` shows the judges' grades in the answer
    dialogue=answer,
    published=published_results,
)
