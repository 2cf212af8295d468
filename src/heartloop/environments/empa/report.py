"""EMPA's page of the report."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import (
    Chart,
    Column,
    Estimate,
    LeaderboardColumn,
    ModelRow,
    PanelInput,
    PanelOutput,
    Point,
    Range,
    Row,
    Series,
    Table,
    TurnView,
    shade,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import InputError
from heartloop.core.system import packaged_table
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.empa.environment import SCALE, judged_dialogue
from heartloop.environments.empa.scenario import DOMAINS, Difficulty
from heartloop.environments.empa.scoring import (
    AXES,
    INDICES,
    EpmQ,
    FailureSigns,
    SuccessSigns,
    Trajectory,
    composed,
    failure,
    form_keys,
    indices_of,
    reached,
    trace,
)
from heartloop.environments.report import panel_of, results_of, scenario_view
from heartloop.scoring.statistics import cluster_means, estimate

_WORDS = packaged_table(__package__, "report.toml")
SUCCEEDED, FAILED = _WORDS["succeeded"], _WORDS["failed"]
ENDINGS = {**SUCCEEDED, **FAILED, "left": "ended by the director", "limit": "turn limit", "cut": "no further reply stored"}
_KINDS = {**dict.fromkeys(SUCCEEDED, "success"), **dict.fromkeys(FAILED, "failure")}

_TIERS: tuple[Difficulty, ...] = ("easy", "medium", "hard", "extreme")
_AXIS_NAMES: Mapping[str, str] = {"C": "C · cognitive", "A": "A · affective", "P": "P · proactive"}
_NEUTRAL = {"rdi": 50.0, "alignment": 50.0}  # without change; others are 0
_EPMQ = Range(0.0, 120.0, 0.0)


class Measured(NamedTuple):
    """A scored dialogue, its conditions at the end, and its index among the dialogues of the page."""

    place: int
    dialogue: Transcript
    path: Trajectory
    epmq: EpmQ
    success: SuccessSigns
    failure: FailureSigns

    @property
    def ending(self) -> str:
        stop = self.dialogue.stop
        if stop == "success":
            causes = {"near": self.success.resolution, "far": self.success.position, "company": self.success.companionship}
            return next((cause for cause, holds in causes.items() if holds and self.success.gate), "uncounted")
        if stop == "failure":
            cause = self.failure
            return "away" if cause.negative_run else "stuck" if cause.stagnation and cause.regression else "other"
        return "left" if stop == "goodbye" else "cut" if stop == "cut" else "limit"

    @property
    def surplus(self) -> float:
        """E_total beyond |P_0| (EMPA Table 8)."""
        return self.path.total - float(self.path.distance[0])

    @property
    def ahead(self) -> float:
        return self.epmq.outcome - self.epmq.efficiency

    @property
    def lengths(self) -> list[int]:
        return [len(turn.reply) for turn in self.dialogue.turns]

    def fact(self, name: str) -> str:
        return self.dialogue.facts.get(name, "")


def measured(place: int, dialogue: Transcript) -> Measured | None:
    """The values of a dialogue by its own preset; `None` if it is unscored or has no levels."""
    if not dialogue.scored:
        return None
    preset = dialogue.preset
    try:
        path = trace(judged_dialogue(dialogue), preset=preset)
        score = composed(indices_of(path, preset=preset))
    except InputError:
        return None
    return Measured(place, dialogue, path, score, reached(path, preset=preset), failure(path, preset=preset))


Member = tuple[int, ModelRow, Sequence[Measured]]  # its colour number, its row, and the dialogues behind its score
Cell = Callable[[Sequence[Measured]], Estimate | int | str | None]


def _table(title: str, members: Sequence[Member], cells: Mapping[Column, Cell]) -> Table:
    rows = (Row(row.model, tuple(cell(mine) for cell in cells.values()), number) for number, row, mine in members)
    return Table(title, tuple(cells), tuple(rows))


def _mean(
    value: str, group: Callable[[Measured], str] | None = None, key: str = "", within: tuple[float, float] | None = None
) -> Cell:
    """The mean of a value of dialogues (`epmq.score`) or windows (`path.size`), of one group if given."""

    def cell(mine: Sequence[Measured]) -> Estimate | None:
        chosen = [m for m in mine if group is None or group(m) == key]
        values = [np.atleast_1d(attrgetter(value)(m)).tolist() for m in chosen]
        scenarios = [m.dialogue.scenario for m, of_one in zip(chosen, values, strict=True) for _ in of_one]
        return estimate([one for of_one in values for one in of_one], scenarios, n=len(chosen), within=within)

    return cell


def _bar_end(cells: Iterable[object]) -> float:
    seen = [cell for cell in cells if isinstance(cell, Estimate)]
    return max([100.0, *(one.mean if one.high is None else one.high for one in seen)])


def component_table(members: Sequence[Member]) -> Table:
    cells: dict[Column, Cell] = {
        Column("EPM-Q", range=_EPMQ, entry="empa-mean"): _mean("epmq.score"),
        **{Column(name.capitalize(), range=_EPMQ, entry="components"): _mean(f"epmq.{name}") for name in INDICES},
        Column("Energy surplus", entry="surplus"): _mean("surplus"),
        Column("Windows, not judged", entry="unjudged"): _windows,
    }
    return _table("Components of EPM-Q", members, cells)


def _windows(mine: Sequence[Measured]) -> str:
    judged, unjudged = sum(len(m.path.judged) for m in mine), sum(len(m.path.unjudged) for m in mine)
    return f"{judged + unjudged} windows, {unjudged} not judged"


def group_table(members: Sequence[Member]) -> Table:
    groups = {("axis", axis): Column(name, range=_EPMQ, entry="empa-axes") for axis, name in _AXIS_NAMES.items()}
    groups |= {("difficulty", tier): Column(tier.capitalize(), range=_EPMQ, entry="difficulty") for tier in _TIERS}
    cells = {column: _mean("epmq.score", methodcaller("fact", fact), key) for (fact, key), column in groups.items()}
    return _table("EPM-Q by dominant axis and by difficulty", members, cells)


def step_table(members: Sequence[Member]) -> Table:
    """Mean step size |v| in points, and mean alignment in [-1, 1], over all judged windows."""
    cells = {
        Column("Size of a step", digits=2, entry="steps"): _mean("path.size"),
        Column("Alignment", digits=2, entry="steps"): _mean("path.alignment", within=(-1.0, 1.0)),
        Column("Characters of a reply", digits=0, entry="steps"): _mean("lengths"),
        Column("EPM-Q", entry="empa-mean"): _mean("epmq.score"),
    }
    return _table("Size and alignment of steps, and length of replies", members, cells)


def _points(steps: Table, columns: tuple[int, int], title: str, **more: Any) -> Chart:
    """One point per model: the second column against the first."""
    series, most = [], 1.0  # if all steps are 0
    for row in steps.rows:
        across, up = (row.cells[place] for place in columns)
        if isinstance(across, Estimate) and isinstance(up, Estimate):
            most = max(most, across.mean if across.high is None else across.high)
            series.append(Series(row.head, (Point(across.mean, up.mean, up.low, up.high, across.low, across.high),), row.model))
    return Chart(title, "points", tuple(series), **more, x_low=0.0, x_high=math.ceil(most), numbered=True)


def step_chart(steps: Table) -> Chart:
    axes = {"x": "size of a step, points", "y": "alignment with the user’s needs", "low": -1.0, "high": 1.0}
    zones = (("", "b", 0.0, 1.0), ("", "c", -1.0, 0.0))
    return _points(steps, (0, 1), "Alignment of steps against their size", **axes, line=0.0, zones=zones)


def length_chart(steps: Table) -> Chart:
    return _points(steps, (2, 3), "EPM-Q against the length of replies", x="characters of a reply", y="EPM-Q", low=0.0)


def condition_table(members: Sequence[Member]) -> Table:
    def share(name: str, mine: Sequence[Measured]) -> str | None:
        held = [{**m.success._asdict(), **m.failure._asdict()}[name] for m in mine]
        return None if None in held else f"{100 * sum(held) / len(held):.0f} %"

    cells: dict[Column, Cell] = {
        Column(words, entry="conditions"): partial(share, name) for name, words in _WORDS["conditions"].items()
    }
    return _table("Conditions at the end", members, {**cells, Column("dialogues", entry="conditions"): len})


def index_table(names: Sequence[str], members: Sequence[Member]) -> Table:
    cells = {Column(_WORDS["indices"][name], digits=0, entry=f"index-{name}"): _mean(f"epmq.indices.{name}") for name in names}
    table = _table("Indices", members, cells)
    ends = [_bar_end(row.cells[place] for row in table.rows) for place in range(len(names))]
    ranges = [Range(0.0, end, _NEUTRAL.get(name, 0.0)) for name, end in zip(names, ends, strict=True)]
    columns = (column._replace(range=scale) for column, scale in zip(table.columns, ranges, strict=True))
    return table._replace(columns=tuple(columns))


PROFILES: Mapping[str, Mapping[str, Any]] = _WORDS["profiles"]


def group_of(profile: str, m: Measured) -> str:
    kinds, fact = PROFILES[profile]["kinds"], m.fact(PROFILES[profile]["fact"])
    if not kinds:
        return fact
    axis, kind = m.fact("axis"), kinds.get(fact, "")
    return f"{axis} {kind}" if axis and kind else ""


def _fall(profile: str, axis: str) -> Cell:
    """EPM-Q of the first kind of scenarios minus that of the second, on one axis, with Welch's interval over scenarios."""
    first, second = (f"{axis} {kind}" for kind in dict.fromkeys(PROFILES[profile]["kinds"].values()))

    def cell(mine: Sequence[Measured]) -> Estimate | None:
        from scipy.stats import ttest_ind  # a third of a second to import

        groups = [[m for m in mine if group_of(profile, m) == name] for name in (first, second)]
        means = [cluster_means([m.epmq.score for m in of], [m.dialogue.scenario for m in of]) for of in groups if of]
        if len(means) < 2:
            return None
        fall = statistics.fmean(means[0]) - statistics.fmean(means[1])
        test = ttest_ind(*means, equal_var=False).confidence_interval() if min(map(len, means)) > 1 else (None, None)
        return Estimate(sum(map(len, groups)), fall, *(None if end is None else float(end) for end in test))

    return cell


_FALLS = [(profile, axis) for profile in ("mechanism", "need") for axis in AXES]


def tier_of(outcome: float, efficiency: float) -> str:
    """The first tier whose bounds are reached (EMPA section 5.4; the bounds are ours)."""
    names = (tier["name"] for tier in _WORDS["tiers"] if outcome >= tier["outcome"] and efficiency >= tier["efficiency"])
    return str(next(names))


def _tier(mine: Sequence[Measured]) -> str:
    return tier_of(statistics.fmean(m.epmq.outcome for m in mine), statistics.fmean(m.epmq.efficiency for m in mine))


def fall_table(members: Sequence[Member]) -> Table:
    """What EMPA's four laws and four tiers are read from (sections 5.3 and 5.4)."""
    cells: dict[Column, Cell] = {
        Column("Tier", entry="tiers"): _tier,
        Column("Outcome − efficiency", entry="falls"): _mean("ahead"),
    }
    for profile, axis in _FALLS:
        first, second = dict.fromkeys(PROFILES[profile]["kinds"].values())
        cells[Column(f"{axis}: {first} − {second}", entry="falls")] = _fall(profile, axis)
    return _table("Tiers and falls", members, cells)


def laws_of(falls: Table) -> list[tuple[str, int, int]]:
    """Each of EMPA's laws as a condition on a model, how many models meet it, and of how many that have the numbers."""
    rows = [[cell.mean if isinstance(cell, Estimate) else None for cell in row.cells[1:]] for row in falls.rows]
    laws: Sequence[tuple[Sequence[int], Callable[..., bool]]] = (
        ([0], lambda ahead: ahead >= 20),
        ([2], lambda a: a >= 15),
        ([1, 2, 3], lambda c, a, p: p > max(c, a)),
        ([5], lambda a: a > 20),
        ([4, 5, 6], lambda c, a, p: c < min(a, p)),
    )
    lines = []
    for text, (places, holds) in zip(_WORDS["laws"], laws, strict=True):
        known = [values for row in rows if None not in (values := [row[place] for place in places])]
        lines.append((text, sum(holds(*values) for values in known), len(known)))
    return lines


def profile_of(key: str, members: Sequence[Member]) -> dict[str, Any] | None:
    """EPM-Q over a division of the scenarios, as table and radars of one scale; `None` if fewer than three groups occur."""
    title, about, kinds = (PROFILES[key][name] for name in ("title", "about", "kinds"))
    of = partial(group_of, key)
    every = [f"{axis} {kind}" for kind in dict.fromkeys(kinds.values()) for axis in AXES] if kinds else DOMAINS
    groups = [name for name in every if any(of(m) == name for *_, mine in members for m in mine)]
    if len(groups) < 3:
        return None
    cells = {Column(name, digits=0, entry=f"profile-{key}"): _mean("epmq.score", of, name) for name in groups}
    table = _table(title, members, cells)
    high = _bar_end(cell for row in table.rows for cell in row.cells)
    columns = tuple(column._replace(range=Range(0.0, high, 100.0)) for column in table.columns)
    radars = []
    for row in table.rows:
        pairs = zip(groups, row.cells, strict=True)
        if points := tuple(Point(name, cell.mean) for name, cell in pairs if isinstance(cell, Estimate)):
            of_one = (Series(row.head, points, row.model),)
            radars.append(Chart(title, "radar", of_one, "group", "EPM-Q", 0.0, high, spokes=tuple(groups)))
    return {"key": key, "title": title, "about": about, "table": table._replace(columns=columns), "radars": radars}


PLANES: tuple[tuple[str, str], ...] = (("C", "A"), ("P", "A"), ("C", "P"))  # horizontal and vertical axis
SIDE = 150.0  # of a plane, in pixels


class PlaneFrame(NamedTuple):
    low: float
    high: float

    def at(self, value: float) -> float:
        return SIDE * (value - self.low) / (self.high - self.low)


def frame_of(dialogues: Sequence[Measured]) -> PlaneFrame:
    """The frame of all planes: from 1.6 times the lowest start, in tens of points, so that a bad dialogue does not widen it."""
    lowest = min((float(m.path.position[0].min()) for m in dialogues), default=-10.0)
    return PlaneFrame(10.0 * math.floor(1.6 * lowest / 10.0), 20.0)


def model_paths(members: Sequence[Member], frame: PlaneFrame) -> list[dict[str, Any]]:
    """The paths of each model by difficulty, easiest first, in each of `PLANES`; `left` counts those that leave the frame."""
    models = []
    for number, row, mine in members:
        tiers = []
        for tier in dict.fromkeys([*_TIERS, *sorted({m.fact("difficulty") for m in mine})]):
            if in_tier := [m for m in mine if m.fact("difficulty") == tier]:
                tiers.append((tier, len(in_tier), [_plane(in_tier, frame, across, up) for across, up in PLANES]))
        left = sum(bool(((m.path.position < frame.low) | (m.path.position > frame.high)).any()) for m in mine)
        models.append({"number": number, "model": row.model, "n": len(mine), "left": left, "tiers": tiers})
    return models


def _plane(dialogues: Sequence[Measured], frame: PlaneFrame, across: str, up: str) -> dict[str, Any]:
    """One SVG path each of positive, negative and no energy; starts, and ends inside the frame with their kind."""
    columns = ["CAP".index(across), "CAP".index(up)]
    segments: dict[int, list[str]] = {1: [], -1: [], 0: []}
    starts: set[tuple[float, float]] = set()
    ends: list[tuple[float, float, str]] = []
    for m in dialogues:
        at = m.path.position[:, columns]
        pixels = [(round(frame.at(x), 1), round(SIDE - frame.at(y), 1)) for x, y in at.tolist()]
        last = None
        for n, energy in enumerate(m.path.energy.tolist()):
            (x0, y0), (x1, y1) = pixels[n], pixels[n + 1]
            if (x0, y0) == (x1, y1):
                continue
            sign = (energy > 0) - (energy < 0)
            dx, dy = f"{x1 - x0:.3g}", f"{y1 - y0:.3g}"
            step = f"l{dx}{'' if dy.startswith('-') else ' '}{dy}"
            segments[sign].append(step if last == sign else f"M{x0:g} {y0:g}{step}")
            last = sign
        starts.add(pixels[0])
        if frame.low <= at[-1].min() and at[-1].max() <= frame.high:
            ends.append((*pixels[-1], _KINDS.get(m.ending, "else")))
    towards, away, aside = ("".join(segments[sign]) for sign in (1, -1, 0))
    return {"towards": towards, "away": away, "aside": aside, "starts": sorted(starts), "ends": ends}


def steps_of(m: Measured) -> list[Any]:
    """Difficulty, start and steps of a dialogue as one flat list, and the sign of each step's energy."""
    values = [*m.path.position[0].tolist(), *m.path.increment.ravel().tolist()]
    signs = "".join("0+-"[int(np.sign(energy))] for energy in m.path.energy)
    return [m.fact("difficulty"), [short_number(value) for value in values], signs]


def endings_of(members: Sequence[Member]) -> list[dict[str, Any]]:
    lines = []
    for number, row, mine in members:
        counts = Counter(m.ending for m in mine)
        causes = [(key, counts[key]) for key in ENDINGS if counts[key]]
        lines.append({"number": number, "model": row.model, "n": len(mine), "causes": causes})
    return lines


def scenario_rows(members: Sequence[Member], addresses: Sequence[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Scenarios by difficulty, from easy to extreme, then by falling mean score; a cell leads to a model's first dialogue."""
    by_scenario: defaultdict[tuple[str, str], defaultdict[str, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for m in chain.from_iterable(mine for *_, mine in members):
        by_scenario[m.dialogue.scenario, m.dialogue.fingerprint][m.dialogue.model].append(m)
    tiers: dict[str, list[dict[str, Any]]] = {}
    for by_model in by_scenario.values():
        first = next(iter(by_model.values()))[0]
        person, title = first.fact("person"), first.fact("title") or first.dialogue.scenario
        threshold = f"{first.fact('threshold')} threshold" if first.fact("threshold") else ""
        cells = [_scenario_cell(by_model[row.model], addresses) if row.model in by_model else None for _, row, _ in members]
        line = {
            "title": title,
            "person": person if person != title else "",
            "facts": " · ".join(filter(None, (first.fact("axis"), first.fact("domain"), threshold))),
            "cells": cells,
            "mean": statistics.fmean(cell["mean"] for cell in cells if cell is not None),
        }
        tiers.setdefault(first.fact("difficulty"), []).append(line)
    order = [tier for tier in dict.fromkeys([*_TIERS, *sorted(tiers)]) if tier in tiers]
    return [(tier, sorted(tiers[tier], key=lambda line: (-line["mean"], line["title"]))) for tier in order]


def _scenario_cell(mine: Sequence[Measured], addresses: Sequence[str]) -> dict[str, Any]:
    shaded = shade([m.epmq.score for m in mine], SCALE.colours())._asdict()
    return {**shaded, "address": addresses[mine[0].place], "ending": ENDINGS[mine[0].ending]}


def journey(transcript: Transcript) -> dict[str, Any]:
    if not set(AXES) <= transcript.start.keys():
        return {}
    start = [transcript.start[axis] for axis in AXES]
    replies = [printable(turn.reply) for turn in transcript.turns]
    messages = [printable(transcript.opening or ""), *(printable(turn.message or "") for turn in transcript.turns)]
    return {
        "start": [short_number(value) for value in start],
        "window": int(size) if (size := transcript.facts.get("window", "1")).isdecimal() else 1,
        "lacking": round(float(np.linalg.norm(start)), 2),
        "windows": [_window(turn, replies, messages) for turn in transcript.turns],
    }


def _window(turn: Turn, replies: Sequence[str], messages: Sequence[str]) -> dict[str, Any] | None:
    levels = turn.evidence.get("levels")
    if turn.state is None or not isinstance(levels, Mapping):
        return None
    quotes, reasons = (printable_texts(turn.evidence.get(name)) for name in ("quotes", "reasons"))
    claims = []
    for key in form_keys():
        level, quote = levels.get(key), quotes.get(key, "")
        if isinstance(level, int) and level:
            claims.append([key, level, quote, reasons.get(key, ""), _places(quote, turn.index, replies, messages)])
    numbers = [turn.evidence.get(name) for name in ("energy", "alignment", "total")]
    window: dict[str, Any] = {
        "at": [short_number(turn.state.get(axis, 0.0)) for axis in AXES],
        "claims": claims,
        "numbers": [round(value, 2) if isinstance(value, (int, float)) and abs(value) < 1e9 else None for value in numbers],
    }
    act = turn.evidence.get("director")
    if isinstance(act, Mapping):
        window["act"] = [printable_texts(act).get(name, "") for name in ("function", "argument", "note", "reason")]
    return window


def _places(quote: str, turn: int, replies: Sequence[str], messages: Sequence[str]) -> list[list[Any]]:
    """Places of a quote: in the latest reply that contains it, else in the latest message of the user before it."""
    if not quote:
        return []
    for kind, texts in (("reply", replies[: turn + 1]), ("message", messages[: turn + 1])):
        for at in range(len(texts) - 1, -1, -1):
            if spans := spans_of(quote, texts[at]):
                place = at if kind == "reply" else at - 1  # message -1 is the opening
                return [[kind, place, utf16_place(texts[at], first), utf16_place(texts[at], last)] for first, last in spans]
    return []


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Thoughts, without the lines per axis, which the windows show."""
    return TurnView({name: text for name, text in turn.thoughts.items() if name not in (turn.state or {})})


_SECTIONS = (
    ("components", "Components"), ("paths", "Paths"), ("steps", "Size and direction"), ("ends", "Endings"),
    ("indices", "Indices"), ("profiles", "Profiles"), ("falls", "Tiers and falls"), ("cases", "Scenarios"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    every = [measured(place, dialogue) for place, dialogue in enumerate(page.dialogues)]
    members: list[Member] = [
        (number, row, mine)
        for number, row in enumerate(page.models)
        if (mine := [m for i in page.basis[row.model] if (m := every[i]) is not None])
    ]
    scored = [m for *_, mine in members for m in mine]
    frame = frame_of(scored)
    steps, falls = step_table(members), fall_table(members)
    endings = endings_of(members)
    unjudged = sum(len(m.path.unjudged) for m in scored)
    windows_are = "window was not judged and is" if unjudged == 1 else "windows were not judged and are"
    warning = f"{unjudged} {windows_are} excluded from all numbers; see Components for the count of each model."
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    windows = sorted({window for d in page.dialogues if (window := d.facts.get("window"))})
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                name.capitalize(),
                {row.model: statistics.fmean(getattr(m.epmq, name) for m in mine) for _, row, mine in members},
                entry="components",
            )
            for name in INDICES
        ),
        leaderboard_help=f"Computed by preset {preset}; another preset gives other numbers for the same dialogues. "
        "Outcome, efficiency and stability are means; their intervals are under Components.",
        facts=(("Judged after", ", ".join("every reply" if window == "1" else f"{window} replies" for window in windows)),),
        warnings=(warning,) if unjudged else (),
        sections=_SECTIONS,
        context={
            "models": [row.model for _, row, _ in members],
            "components": component_table(members),
            "groups": group_table(members),
            "frame": frame,
            "paths": model_paths(members, frame),
            "steps": steps,
            "step_chart": step_chart(steps),
            "length_chart": length_chart(steps),
            "planes": PLANES,
            "endings": endings,
            "ending_words": ENDINGS,
            "ending_kinds": _KINDS,
            "endings_met": [key for key in ENDINGS if any(key in dict(line["causes"]) for line in endings)],
            "conditions": condition_table(members),
            "indices": [(component, index_table(names, members)) for component, names in INDICES.items()],
            "profiles": [profile for key in PROFILES if (profile := profile_of(key, members)) is not None],
            "falls": falls,
            "laws": laws_of(falls),
            "scenarios": scenario_rows(members, page.addresses),
        },
        data={"axes": list(AXES), "tiers": list(_TIERS), "zone": -1, "rows": [None if m is None else steps_of(m) for m in every]},
    )


PANEL = panel_of(
    __package__,
    build=build,
    leaves_out=frozenset({"groups"}),
    scenario=scenario_view(
        {
            **dict.fromkeys(("person", "place", "theme"), "{}"),
            "axis": "largest deficit on {}",
            "difficulty": "{}",
            "threshold": "{} threshold",
        },
        {},
    ),
    turn=_turn,
    dialogue=journey,
    published=partial(results_of, __package__),
)
