"""The score card as a table for the terminal, 80 columns wide, with notes as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heartloop.core.chat import is_embedded
from heartloop.core.text import amount, money
from heartloop.evaluation.compare import FEW_SCENARIOS
from heartloop.evaluation.digests import scale_of
from heartloop.evaluation.scores import ModelScore, ScoreCard, in_group_order
from heartloop.models.budget import is_baseline
from heartloop.scoring.repeats import REPEATED
from heartloop.scoring.statistics import Shape

_WIDTH = 78
_WIDEST_NAME, _NARROWEST_NAME = 26, 10  # characters


def terminal_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)


def with_notes(title: str, table: Table, notes: Sequence[str]) -> Group:
    """A table under its title and above its notes, which are as wide as the terminal and not as the table."""
    return Group(Text(title, style="bold"), table, *(Text(note, style="italic") for note in notes))


def leaderboard(card: ScoreCard) -> Group:
    """The ranking with its title and notes."""
    return with_notes(scale_of(card.environment).of, ranking(card), _notes(card))


def ranking(card: ScoreCard) -> Table:
    """The models with rank intervals, without columns that have no value."""
    scale = scale_of(card.environment)
    table = terminal_table()
    groups = in_group_order(scale, (group.key for row in card.models for group in row.groups)) if scale.group_intervals else []
    among = sum(row.standing == "ranked" for row in card.models)
    rows = [_cells(row, card, groups, among) for row in card.models]
    columns = {head: [row[head] for row in rows] for head in (rows[0] if rows else {})}
    shown = [head for head, cells in columns.items() if head in ("model", "mean") or _informs(head, cells)]
    if groups and not card.unscored:  # the groups need the width
        shown = [head for head in shown if head != "scored"]
    others = 0
    for head in shown:
        style = "dim" if head == "#" else "bold" if head == "mean" else None
        table.add_column(head, justify="left" if head in ("#", "model") else "right", no_wrap=True, style=style)
        if head != "model":
            others += 2 + max(len(line) for text in (head, *columns[head]) for line in text.split("\n"))
    room = max(_NARROWEST_NAME, min(_WIDEST_NAME, _WIDTH - others))
    first_case = next((row for row in card.models if row.standing == "failure case"), None)
    for row, cells in zip(card.models, rows, strict=True):
        if row is first_case:
            table.add_section()
        texts = [in_lines(cells[head], room) if head == "model" else cells[head] for head in shown]
        table.add_row(*map(Text, texts), style="dim" if row.standing == "failure case" else None)
    return table


def _informs(head: str, cells: Sequence[str]) -> bool:
    """Whether a column has more than one rank, or a value that is not 0."""
    return sum(cell not in ("–", "0", "0%") for cell in cells) > (1 if head == "#" else 0)


def in_lines(name: str, width: int = _WIDEST_NAME) -> str:
    """A model's name in lines of at most `width` characters, broken behind `/`, `:`, `-`, `_` or `.` and never within a word."""
    lines = [""]
    for part in re.findall(r"[^/:]+[/:]*|[/:]+", name):
        pieces = [part] if len(part) <= width else re.findall(r"[^-_.]+[-_.]*|[-_.]+", part)
        for piece in pieces:
            if lines[-1] and len(lines[-1]) + len(piece) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(lines)


def scripted_note(models: Sequence[str]) -> str:
    """Which of the models are scripts, or are not if those are fewer; empty if all are, or none is."""
    scripts, others = ([model for model in models if is_baseline(model) is script] for script in (True, False))
    few, which = (scripts, "scripted baselines") if len(scripts) <= len(others) else (others, "not a scripted baseline")
    return f"{which}: {', '.join(few)}" if few else ""


def _cells(row: ModelScore, card: ScoreCard, groups: Sequence[str], among: int) -> dict[str, str]:
    mean = row.headline
    means = {group.key: group.mean for group in row.groups}

    def number(value: float | None, digits: int = 1) -> str:
        return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0

    interval = "–"
    if mean.low is not None and mean.high is not None:
        both = f"{mean.low:.1f}–{mean.high:.1f}"
        interval = both if mean.low >= 0 else f"{round(mean.low)} to {round(mean.high)}"
    rank = " ".join(filter(None, (rank_interval(row, among) or str(row.rank), row.group))) if row.rank is not None else "–"
    cells = {"#": rank, "model": row.model, "mean": number(mean.mean), "95 %\ninterval": interval}
    if groups:
        cells |= {key: number(means.get(key), 0) for key in groups}
    else:
        by_end = scale_of(card.environment).by_end
        heads = ("suc-\ncess", "fail-\nure") if by_end else (f"at\n{card.success_at:g}", f"below\n{card.failure_below:g}")
        shares = (mean.success_percent, mean.failure_percent)
        cells |= {head: "–" if share is None else f"{share:.0f}%" for head, share in zip(heads, shares, strict=True)}
    cells["scored"] = f"{row.scored}/{row.played}{' !' if row.flagged else ''}"
    if not groups:
        tied = {other.mean_turns for other in card.models if row.rank is not None and other.rank == row.rank}
        cells["turns"] = number(row.mean_turns) if len(tied) > 1 else "–"
        cells |= {"tokens": number(row.tokens_per_dialogue, 0), "silent": str(row.silences)}
    return {**cells, "cost": money(row.cost)}


def rank_interval(row: ModelScore, among: int) -> str:
    """A model's rank interval, such as `1–3`; empty for fewer than two ranked models, and for an unranked one."""
    if among < 2 or row.best_rank is None or row.worst_rank is None:
        return ""
    return f"{row.best_rank}" if row.best_rank == row.worst_rank else f"{row.best_rank}–{row.worst_rank}"


def cautions(card: ScoreCard) -> list[str]:
    """Models whose mean or interval says less than it seems to, as sentences without a full stop."""
    notes = []
    for shape, words in (
        (Shape.SKEWED, "skewed scores, so the interval covers less than 95 %"),
        (Shape.CONSTANT, "the same score in every scenario, so the interval has no width"),
    ):
        if models := [row.model for row in card.models if row.headline.shape is shape]:
            notes.append(f"{', '.join(models)}: {words}")
    for row in card.models:
        if row.failed_replies:
            notes.append(f"{row.model} failed at {amount(row.failed_replies, 'reply', 'replies')}, scored as silence")
        if (share := row.said_to_others or 0.0) >= REPEATED and not is_baseline(row.model):
            notes.append(f"{row.model}: {100 * share:.0f} % of the replies repeat a reply in another scenario word for word")
    return notes


def _notes(card: ScoreCard) -> list[str]:
    ranked = [row for row in card.models if row.standing == "ranked"]
    users, presets = (" and ".join(names) or "unknown" for names in (card.simulators, card.presets))
    lines = [f"user simulator {users} · preset {presets} · {card.scored} of {card.played} scored"]
    if 0 < (n := card.scenarios or 0) < FEW_SCENARIOS:
        lines.append(f"intervals over {amount(n, 'scenario')}: below {FEW_SCENARIOS} nothing shows whether they hold")
    lines += cautions(card)
    if len(ranked) > 1:
        lines.append(f"ranked on the {amount(card.common, 'dialogue')} scored for every model")
        lines.append("same letter: not distinguished from the first model of that letter")
        lines.append("#: rank, 95 % interval; ranks and letters are corrected for the number of models")
    if card.replaced:
        lines.append(f"{amount(card.replaced, 'dialogue')} played again; the last transcript counts")
    if note := scripted_note([row.model for row in card.models]):
        lines.append(note)
    if broken := ", ".join(f"{row.model} {row.broken_formats}" for row in card.models if row.broken_formats):
        lines.append(f"replies in a broken format: {broken}")
    lines += [f"{row.model}: failure case, outside the ranking" for row in card.models if row.standing == "failure case"]
    if any(map(is_embedded, card.simulators)):
        lines.append("The user simulator is embedded: compare only with runs of the same user simulator.")
    lines += card.notes
    return lines
