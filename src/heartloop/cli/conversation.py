"""What `heartloop talk` shows: the opening, the mood after a reply, thoughts, and the tables at the end.

Every function returns something for a `rich` console and reads as well at 40 columns as at 120. Texts of models and scenarios are
made printable. Does not cover the dialogue (`evaluation.talking`), nor what is typed (`cli.talk`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heartloop.core.chat import HUMAN
from heartloop.core.dialogue import Transcript
from heartloop.core.text import amount, printable
from heartloop.environments.report import evidence_in_words, strategy_of
from heartloop.environments.spec import EnvironmentSpec, Scale

__all__ = [
    "Standing", "briefing", "ended", "fact", "grades", "is_one_answer", "mood", "name_of", "replies_table", "score_line",
    "speech", "standings", "thoughts",
]  # fmt: skip

WIDEST = 72
"""Columns of text; longer lines are hard to read."""
_ENDS = {
    "success": "The dialogue ended: success.",
    "failure": "The dialogue ended: failure.",
    "turn_limit": "The dialogue ended: that was the last turn.",
    "cut": "You ended the dialogue.",
}


class Standing(NamedTuple):
    """One row of the table of scores with the same person."""

    model: str
    points: float | None
    replies: float
    """Number of replies, a mean over dialogues."""
    note: str = ""


def name_of(transcript: Transcript) -> str:
    """What the person is called; `Person` where the scenario does not say."""
    first = transcript.facts.get("person", "").split(",")[0].split()
    return printable(first[0]) if first else "Person"


def is_one_answer(transcript: Transcript) -> bool:
    """Whether the dialogue is a single answer that grades judge, without a state that moves."""
    return len(transcript.turns) == 1 and not transcript.turns[0].state and transcript.stop != "cut"


def briefing(prompt: str) -> str:
    """The policy's prompt without its sections about the form of an answer, which begin with `## How to` or `## How you`."""
    return re.sub(r"(?ms)^## How (?:to|you) .*?(?=^## |\Z)", "", prompt).strip()


def speech(name: str, text: str) -> Text:
    """What somebody says."""
    return Text.assemble((f"{name}: ", "bold cyan"), printable(text))


def fact(title: str, text: str) -> Text:
    """A fact of the scenario that was hidden during the dialogue."""
    return Text.assemble((f"{printable(title)}: ", "bold"), printable(text))


def mood(scale: Scale, transcript: Transcript, width: int, *, ascii_only: bool = False) -> RenderableType:
    """The points after the latest reply: value, change, start and range, and a bar between the ends of the scale."""
    course = scale.course(transcript)
    if len(course) < 2:
        return Text("This reply is not judged.", style="dim")
    start, before, now = course[0], course[-2], course[-1]
    change = round(now - before, 1) + 0.0
    colour = "green" if change > 0 else "red" if change < 0 else "dim"
    line = Text.assemble(
        (f"{scale.now or scale.title} {_number(now)}", "bold"), "  ", (f"{change:+.1f}", colour),
        (f"  (start {start:g}, {scale.low:g} to {scale.high:g})", "dim"),
    )  # fmt: skip
    parts: list[RenderableType] = [line, _bar(scale, start, now, min(width, WIDEST), ascii_only)]
    turn = transcript.turns[-1]
    if len(scale.states) > 1 and turn.state is not None:
        change_of = turn.change or {}
        named = [f"{words} {turn.state[key]:g} ({change_of.get(key, 0.0):+.1f})" for key, words in scale.states.items()
                 if key in turn.state]  # fmt: skip
        parts.append(Text(" · ".join(named), style="dim"))
    return Group(*parts)


def _bar(scale: Scale, start: float, now: float, width: int, ascii_only: bool) -> Text:
    def cell(points: float) -> int:
        share = (points - scale.low) / (scale.high - scale.low)
        return round(min(1.0, max(0.0, share)) * (width - 1))

    empty, full, mark, here = ("-", "=", "|", "o") if ascii_only else ("─", "━", "│", "●")
    first, last = cell(start), cell(now)
    style = "green" if now > start else "red" if now < start else "bold"
    bar = Text(empty * width, "dim")
    low, high = sorted((first, last))
    filled = Text(full * (high - low + 1), style)
    bar = bar[:low] + filled + bar[high + 1 :]
    bar = bar[:first] + Text(mark) + bar[first + 1 :]
    return bar[:last] + Text(here, style) + bar[last + 1 :]


def thoughts(spec: EnvironmentSpec, transcript: Transcript) -> RenderableType:
    """What the person thought of the latest reply, and what was seen in it."""
    if not transcript.turns:
        return Text("Nothing has been said to the person yet.", style="dim")
    turn, panel = transcript.turns[-1], spec.report
    view = panel.turn(transcript, turn)
    named = {**{key: view.thoughts[key] for key in panel.thoughts if key in view.thoughts}, **view.thoughts}
    lines = [
        Text.assemble((f"{panel.thoughts.get(key, key.capitalize())}: ", "bold"), printable(text)) for key, text in named.items()
    ]
    course = spec.scale.course(transcript)
    rose = len(course) > 1 and course[-1] > course[-2]
    lines += [Text(sentence, style="dim") for sentence in evidence_in_words(turn.evidence, rose=rose)]
    lines += [
        Text.assemble((f"{key}: ", "bold"), printable(reason))
        for key, reason in _texts(turn.evidence.get("reasons")).items()
        if not view.details
    ]
    if view.details or (not lines and turn.thoughts):
        return grades(spec, transcript)
    return Group(*lines) if lines else Text("Nothing is recorded for this reply.", style="dim")


def grades(spec: EnvironmentSpec, transcript: Transcript) -> Table:
    """The judges' grades of the latest reply with their reasons."""
    turn = transcript.turns[-1]
    rows = [row for detail in spec.report.turn(transcript, turn).details for row in detail.rows]
    if not rows:
        split = {key: re.fullmatch(r"(?s)(-?[\d.]+): (.*)", text) for key, text in turn.thoughts.items()}
        rows = [
            (key.capitalize(), found[1] if found else "", found[2] if found else turn.thoughts[key])
            for key, found in split.items()
        ]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("grade")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("reason")
    for name, level, reason in rows:
        table.add_row(Text(printable(name)), Text(printable(level)), Text(printable(reason.split(" “")[0])))
    return table


def ended(transcript: Transcript, name: str) -> str:
    """Why the dialogue ended, in one sentence."""
    if transcript.failure is not None:
        return f"The dialogue failed and is unscored: {transcript.failure.role}, {transcript.failure.detail}"
    if transcript.stop == "goodbye":
        return f"{name} ended the dialogue."
    return _ENDS.get(transcript.stop, f"The dialogue ended: {transcript.stop}.")


def replies_table(scale: Scale, transcript: Transcript, width: int) -> Table:
    """What each reply did: its first words, its change in points, and the points after it."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, title="What each reply did", title_justify="left")
    table.add_column("#", justify="right", style="dim")
    table.add_column("reply", ratio=1)
    table.add_column("change", justify="right", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    course = scale.course(transcript)
    judged = [turn.index for turn in transcript.turns if turn.state is not None]
    after = dict(zip(judged, range(1, len(course)), strict=False))
    shown = max(12, min(width, WIDEST) - 22)
    for turn in transcript.turns:
        words = " ".join(turn.reply.split())
        first = Text(printable(words if len(words) <= shown else words[: shown - 1].rsplit(" ", 1)[0] + "…"))
        if strategy := strategy_of(turn.evidence):
            first.append(f"\n{strategy}", "dim")
        place = after.get(turn.index)
        if place is None:
            table.add_row(str(turn.index + 1), first, "–", "–")
        else:
            change = round(course[place] - course[place - 1], 1) + 0.0
            colour = "green" if change > 0 else "red" if change < 0 else "dim"
            table.add_row(str(turn.index + 1), first, Text(f"{change:+.1f}", colour), _number(course[place]))
    return table


def standings(rows: Sequence[Standing], name: str) -> Table:
    """Scores of the human and of others with the same person, best first."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, title=f"Others with {name}", title_justify="left")
    table.add_column("model")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("replies", justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: -1e9 if row.points is None else row.points, reverse=True):
        mine = row.model == HUMAN and not row.note
        label = Text("you" if mine else printable(row.model))
        if row.note:
            label.append(f"\n{row.note}", "dim")
        points = "unscored" if row.points is None else _number(row.points)
        table.add_row(label, points, f"{row.replies:g}", style="bold" if mine else None)
    return table


def score_line(scale: Scale, points: float | None, replies: int) -> str:
    """The score of the dialogue in points, with what it is."""
    if points is None:
        return "Score: none."
    return (
        f"Score: {_number(points)} after {amount(replies, 'reply', 'replies')} ({scale.title}, {scale.low:g} to {scale.high:g})."
    )


def _number(points: float) -> str:
    return f"{round(points, 1) + 0.0:.1f}"


def _texts(given: object) -> Mapping[str, str]:
    return {str(key): text for key, text in given.items() if isinstance(text, str) and text} if isinstance(given, Mapping) else {}
