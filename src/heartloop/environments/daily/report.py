"""The report panel of daily conversation: six metrics by model and kind of query, memory, and each answer's grades."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from heartloop.core.blocks import Column, Details, PanelInput, PanelOutput, Range, Row, Table, TurnView
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import UseError
from heartloop.environments.daily.environment import HIGHEST, LOWEST, METRICS, average, sessions_of
from heartloop.environments.daily.remembering import MEASURES, shares
from heartloop.environments.daily.scenario import KINDS
from heartloop.environments.report import mapping_of, mean_of, panel_of, scenario_view

AVERAGE = "Avg."  # the paper's name of the mean of the six

_RANGE = Range(float(LOWEST), float(HIGHEST), float(LOWEST))
_HELP = "Mean level of each metric, 1 to 5, with its 95 % interval over scenarios. The leaderboard shows their mean times 20."
_EMBEDDED = " The embedded judge reads no dates: an answer that puts an event on a wrong day is not noticed."


def build(page: PanelInput) -> PanelOutput:
    behind = [[(_graded(d), d) for d in page.behind(row)] for row in page.models]
    within = (_RANGE.low, _RANGE.high)

    def row(head: str, name: str, kind: str = "") -> Row:
        values = [[(_mean(one[name] for of, one in graded if kind in ("", of)), d) for graded, d in seen] for seen in behind]
        return Row(head, tuple(mean_of(seen, within) for seen in values))

    metrics = tuple(row(title, name) for name, title in {**METRICS, AVERAGE: AVERAGE}.items())
    kinds = tuple(one for kind in KINDS if any((one := row(kind, AVERAGE, kind)).cells))
    columns = tuple(Column(row.model, 2, _RANGE) for row in page.models)
    blocks = [
        Table("Six metrics", columns, metrics, _HELP + _EMBEDDED * page.embedded, "Metric", "daily-metrics", models=True),
        Table("By kind of query", columns, kinds, "Mean of the six.", "Kind", "daily-kind", models=True),
    ]
    remembered = [[(_shares(d), d) for d in page.behind(row) if d.scored] for row in page.models]
    last = max((number for seen in remembered for by_session, _ in seen for number in by_session), default=1)
    if last > 1:
        rows = []
        for name in MEASURES:
            for head, numbers in [*((f"session {n}", (n,)) for n in range(2, last + 1)), ("all sessions", range(2, last + 1))]:
                values = [[(_mean(by[n][name] for n in numbers if n in by), d) for by, d in seen] for seen in remembered]
                rows.append(Row(f"{name}, {head}", tuple(mean_of(seen, (0.0, 100.0)) for seen in values)))
        percent = tuple(Column(row.model, 1, Range(0.0, 100.0, 0.0)) for row in page.models)
        about = _MEMORY + _CUES * page.embedded
        blocks.append(Table("What it remembers", percent, tuple(rows), about, "Measure", "daily-memory", models=True))
    return PanelOutput(blocks=tuple(blocks))


def _mean(values: Iterable[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return fmean(given) if given else None


def _graded(dialogue: Transcript) -> list[tuple[str, dict[str, float]]]:
    """Kind of query, six levels and their mean of each answer of a scored dialogue; empty if one has invalid levels."""
    graded = []
    for evidence in sessions_of(dialogue) if dialogue.scored else ():
        levels = mapping_of(evidence.get("scores"))
        try:
            graded.append((str(evidence.get("kind", dialogue.facts.get("kind"))), {**levels, AVERAGE: average(levels)}))
        except (UseError, TypeError):
            return []
    return graded


def _shares(dialogue: Transcript) -> dict[int, dict[str, float | None]]:
    """The measures of memory in percent, by number of the session; stored evidence may hold anything."""
    found = {}
    for evidence in sessions_of(dialogue):
        try:
            number, measured = int(evidence["session"]), shares(evidence["memory"])
        except (LookupError, TypeError, ValueError):
            continue
        found[number] = {name: None if share is None else 100.0 * share for name, share in measured.items()}
    return found


_MEMORY = "Percent of facts said in earlier sessions, and of answers, with the 95 % interval over people; sessions count equally."
_CUES = " The embedded judge finds facts by words, and no other contradiction than an overtaken fact."


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    scores, reasons, quotes = (mapping_of(turn.evidence.get(name)) for name in ("scores", "reasons", "quotes"))
    rows = tuple(
        (title, f"{score} of {HIGHEST}", str(reasons.get(name, "")) + (f" “{quotes[name]}”" if quotes.get(name) else ""))
        for name, title in METRICS.items()
        if isinstance(score := scores.get(name), int)
    )
    details = [Details("Six grades and their reasons", rows, open=True)] if rows else []
    memory = mapping_of(turn.evidence.get("memory"))
    facts = [mapping_of(fact) for fact in memory["facts"]] if isinstance(memory.get("facts"), list) else []
    found = [next((name for name in ("answer", "notes") if one.get(name)), "") for one in facts]
    traced = [
        (str(one.get("text")), f"{one.get('bearing')}, in {place or 'neither'}", str(one.get(place, "")))
        for one, place in zip(facts, found, strict=True)
    ]
    if memory.get("contradiction"):
        traced.append(("Anything else they said", "contradicted", str(memory["contradiction"])))
    if traced:
        details.append(Details("What it remembers", tuple(traced)))
    return TurnView(details=tuple(details))


PANEL = panel_of(
    __package__,
    build=build,
    leaves_out=frozenset({"trajectories", "groups"}),
    scenario=scenario_view(
        {"person": "{}", "want": "wants {}"},
        {
            "about": "What the companion's profile says",
            "today": "The day",
            "notes": "Notes of earlier conversations",
            "events": "Noted events",
        },
    ),
    turn=_turn,
)
