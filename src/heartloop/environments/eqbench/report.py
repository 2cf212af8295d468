"""The report panel of EQ-Bench3: the judge's marks of every criterion, and the sections and reasons of a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from heartloop.core.blocks import Column, Details, Estimate, PanelInput, PanelOutput, Published, Range, Row, Table, TurnView
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import amount
from heartloop.environments.eqbench.environment import HIGHEST_MARK, SCALE
from heartloop.environments.eqbench.scenario import KINDS
from heartloop.environments.report import mapping_of, mean_of, panel_of, results_of

_MARKS = Range(0.0, HIGHEST_MARK, 0.0)
_POINTS = Range(SCALE.low, SCALE.high, SCALE.low)
_HELP = "Mean mark, 0 to 20, with its 95 % interval over scenarios. "
_COUNTED = (
    "The score of a dialogue is five times the mean of its marks that count; an analysis has other criteria than a role-play."
)
_EMBEDDED = " The embedded judge marks some criteria only."


def build(page: PanelInput) -> PanelOutput:
    behind = [page.behind(row) for row in page.models]
    every = [d for dialogues in behind for d in dialogues]
    counted = list(dict.fromkeys(name for d in every for name in _marks(d, "counted")))
    style = list(dict.fromkeys(name for d in every for name in _marks(d, "style") if name not in counted))
    columns = tuple(Column(row.model, range=_MARKS) for row in page.models)
    blocks = []
    for title, names, more in (
        ("Marks that count", counted, _COUNTED + _EMBEDDED * page.embedded),
        ("Marks of style", style, "They describe style, not quality, and do not count."),
    ):
        rows = tuple(Row(name.replace("_", " "), tuple(mean_mark(dialogues, name) for dialogues in behind)) for name in names)
        if rows:
            blocks.append(Table(title, columns, rows, _HELP + more, "Criterion", "eqbench-criteria", models=True))
    kinds = [kind for kind in KINDS if any(d.facts.get("kind") == kind and d.scored for d in every)]
    by_kind = Table(
        "By kind of scenario",
        tuple(Column(kind[:1].upper() + kind[1:], range=_POINTS) for kind in kinds),
        tuple(
            Row(row.model, tuple(_score_of(page.behind(row), kind) for kind in kinds), number)
            for number, row in enumerate(page.models)
        ),
        "Mean rubric score, 0 to 100, with its 95 % interval over scenarios.",
        entry="eqbench-kind",
    )
    missing = {row.model: sum(d.counts.get("missing sections", 0) for d in page.behind(row)) for row in page.models}
    return PanelOutput(
        blocks=(*blocks, by_kind),
        warnings=tuple(f"{model} omitted {amount(n, 'section')}; they count as empty." for model, n in missing.items() if n),
    )


def _marks(dialogue: Transcript, part: str) -> dict[str, float]:
    """The marks of a scored dialogue that count (`counted`) or describe style (`style`); one that is no number is left out."""
    given = dialogue.turns[-1].evidence.get(part) if dialogue.scored and dialogue.turns else None
    marks = mapping_of(given).items()
    return {str(name): float(mark) for name, mark in marks if isinstance(mark, (int, float)) and not isinstance(mark, bool)}


def mean_mark(dialogues: Sequence[Transcript], criterion: str) -> Estimate | None:
    marks = [({**_marks(d, "style"), **_marks(d, "counted")}.get(criterion), d) for d in dialogues]
    return mean_of(marks, within=(_MARKS.low, _MARKS.high))


def _score_of(dialogues: Sequence[Transcript], kind: str) -> Estimate | None:
    scores = [(d.score, d) for d in dialogues if d.facts.get("kind") == kind]
    return mean_of(scores, within=(SCALE.low, SCALE.high))


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    evidence = turn.evidence
    details = []
    if sections := mapping_of(evidence.get("sections")):
        missing = len(evidence.get("missing") or ())
        words = "Sections, as the judge read them" + (f" ({missing} missing)" if missing else "")
        rows = tuple((str(name), "", str(text) or "not found: the judge read it as empty") for name, text in sections.items())
        details.append(Details(words, rows))
    if evidence.get("part") == "debrief":
        details.append(Details("Debrief", (("", "", "The judge reads the whole answer."),)))
    for key, words in (("counted", "Marks that count, 0 to 20"), ("style", "Marks of style, which do not count")):
        if given := mapping_of(evidence.get(key)):
            details.append(
                Details(words, tuple((str(name).replace("_", " "), str(mark), "") for name, mark in given.items()), True)
            )
    if evidence.get("reasoning"):
        details.append(Details("The judge's reasons", (("", "", str(evidence["reasoning"])),)))
    return TurnView(details=tuple(details))


PRINTED = (
    "depth_of_insight", "emotional_reasoning", "demonstrated_empathy", "warmth", "humanlike", "pragmatic_ei", "social_dexterity",
)  # fmt: skip
"""The criteria that PERM's Table 1 prints, in the order of its columns."""


def published_results() -> Published:
    results = results_of(__package__)
    *criteria, overall = results.tables[0].columns
    return results._replace(measured=partial(_measured, columns=(*criteria, overall._replace(entry="eqbench-mean"))))


def _measured(page: PanelInput, columns: tuple[Column, ...]) -> Table:
    rows = []
    for place, row in enumerate(page.models):
        seen = row.headline
        if seen.mean is not None:
            cells = (*(mean_mark(page.behind(row), name) for name in PRINTED), Estimate(seen.n, seen.mean, seen.low, seen.high))
            rows.append(Row(row.model, cells, place))
    return Table("", columns, tuple(rows))


PANEL = panel_of(
    __package__, build=build, leaves_out=frozenset({"trajectories", "groups"}), turn=_turn, published=published_results
)
