"""The embedded judge of EMPA: MDEP levels by rules, each with a quoted sentence.

Pure and deterministic. A reply is appraised once; then the shared rules (`environments.reacting`) weigh it once per axis, with
the axis's own weights of the support strategies. On each axis, a sentence that names only concerns of other axes counts less, and
naming a concern that the user has not mentioned counts only on that concern's axis. Gains give the progress level, losses the
regress level, so an axis can have both. The empathy threshold decides how specific a reply must be. Weights: `needs.toml`. It
replaces a judge model; reports name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from heartloop.appraisal import Appraisal, Story, Topic, appraise, matters_named
from heartloop.appraisal.words import fold, read_sentence
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.empa.scoring import AXES, form_keys
from heartloop.environments.quotes import SILENT, stands_in
from heartloop.environments.reacting import Mood, Move, Weighed, sums, swings, weigh, weights_of

__all__ = ["Side", "judge", "needs", "read_reply", "story_of"]


class Side(NamedTuple):
    """Gains or losses on an axis: their sum, and reason and quote of the largest one."""

    points: float
    reason: str
    quote: str


def needs() -> Mapping[str, Any]:
    """The shared weights with those of `needs.toml`; read-only."""
    return weights_of(__package__)


def story_of(scenario: Scenario, said: Sequence[str]) -> Story:
    """Concerns and attempts, each with whether the user has mentioned it in `said`."""
    spoken = " ".join(said)
    low = spoken.lower()
    mentioned = {beat.concern for beat in scenario.beats if beat.text in spoken}
    opening = scenario.opening.lower()
    concerns = tuple(
        Topic(c.key, c.cues, c.key in mentioned or (c.depth == "surface" and any(cue in opening for cue in c.cues)), c.depth)
        for c in scenario.concerns
    )
    attempts = tuple(
        Topic(f"attempt-{n}", a.cues, any(cue in low for cue in a.cues), "tried") for n, a in enumerate(scenario.attempts)
    )
    return Story(tuple(said), concerns, attempts)


def judge(view: View) -> Judgement:
    """The form of the window that ends with the latest reply: on each axis the largest gains and losses of its replies."""
    first = len(view.heard) - view.window
    read = [read_reply(view, index) for index in range(first, len(view.heard))]
    levels: dict[str, int] = {}
    quotes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    words = needs()["reasons"]
    for axis in AXES:
        ups, downs = zip(*(sides[axis] for sides, _ in read), strict=True)
        for key, side in zip(form_keys([axis]), (max(ups), min(downs)), strict=True):
            levels[key] = _level(side.points)
            if levels[key]:
                quotes[key], reasons[key] = side.quote, words[side.reason]
    appraisal = read[-1][1]
    strategies = sorted(appraisal.strategies.items(), key=lambda pair: -pair[1])
    sides = read[-1][0]
    evidence = {
        "points": {axis: [round(sides[axis][0].points, 2), round(sides[axis][1].points, 2)] for axis in AXES},
        "strategies": {name: round(confidence, 2) for name, confidence in strategies if confidence >= 0.5},
        "flaws": {flaw.kind: round(appraisal.severity(flaw.kind), 2) for flaw in appraisal.flaws},
        "bound": round(max((s.bound for s in appraisal.sentences if not s.broken), default=0.0), 2),
        "silent": appraisal.silent,
        "worst": min((sides[axis][1] for axis in AXES), key=lambda side: side.points).reason,
    }
    return Judgement(levels, quotes, reasons, evidence)


def read_reply(view: View, index: int) -> tuple[dict[str, tuple[Side, Side]], Appraisal]:
    """Gains and losses of a reply on every axis, and its appraisal."""
    scenario, table = view.scenario, needs()
    reply, said = view.heard[index], view.said[: index + 1]
    story = story_of(scenario, said)
    appraisal = _with_literal_attempts(scenario, appraise(reply, story, view.heard[:index]))
    made_good = min(1.0, max(0.0, view.path.total / scenario.distance))
    mood = Mood(
        intention="C",
        temperament="even",
        emotion=table["receptive"][scenario.threshold] + table["receptive"]["ease"] * made_good,
        heard=int((view.path.energy > 0).sum()),
        variant="plain",
        **swings(table, scenario.id, view.seed),
    )
    named = _named(scenario, appraisal)
    axis_of = {concern.key: concern.axis for concern in scenario.concerns}
    sores = _sores(scenario, appraisal, said)
    stale = _stale(appraisal, view)
    sides: dict[str, tuple[Side, Side]] = {}
    for axis in AXES:
        on_axis = appraisal._replace(
            sentences=tuple(
                s._replace(insight=s.insight if s.insight is not None and axis_of[s.insight] == axis else None)
                for s in appraisal.sentences
            )
        )
        moves = [*_met(view, index, on_axis, named, axis_of, axis), *sores, *stale]
        weighed = weigh(on_axis, mood._replace(intention=axis), story, table, moves)
        weighed = _on_axis(weighed, named, axis_of, axis)
        up, down = sums(weighed, mood._replace(intention=axis), table, table["axes"][axis])
        if weighed.fixed is not None:  # silence and noise: `sums` applies no axis weights
            down *= table["axes"][axis].get(weighed.losses[0][0], 1.0)
        need = scenario.priorities.of(axis).level
        up, down = up * table["priority"]["lifts"][need], down * table["priority"]["sinks"][need]
        sides[axis] = (
            Side(up, *_lead(weighed.gains, table["axes"][axis], view, index)),
            Side(down, *_lead(weighed.losses, table["axes"][axis], view, index)),
        )
    return sides, appraisal


def _level(points: float) -> int:
    """The level of a sum of points: 0 to 2 for gains, 0 to -2 for losses."""
    steps = needs()["levels"]["progress" if points > 0 else "regress"]
    size = sum(1 for step in steps if abs(points) >= abs(step))
    return size if points > 0 else -size


def _lead(moves: Sequence[Move], share: Mapping[str, float], view: View, index: int) -> tuple[str, str]:
    """Reason and quote of the largest move; the whole reply, if the quote is not found in it."""
    reply = view.heard[index].strip() or SILENT
    if not moves:
        return "nothing", reply.split("\n")[0]
    reason, _, text = max(moves, key=lambda row: abs(row[1]) * share.get(row[0], 1.0))
    return reason, text if stands_in(text, [reply]) else reply


def _named(scenario: Scenario, appraisal: Appraisal) -> dict[str, tuple[str, ...]]:
    """Keys of the concerns that each unbroken sentence names."""
    matters = tuple((concern.key, concern.cues) for concern in scenario.concerns)
    return {s.text: tuple(matters_named(read_sentence(s.meant or s.text), matters)) for s in appraisal.sentences if not s.broken}


def _met(
    view: View,
    index: int,
    appraisal: Appraisal,
    named: Mapping[str, Sequence[str]],
    axis_of: Mapping[str, str],
    axis: str,
) -> list[Move]:
    """At most two moves for concerns of the axis that are named in sentences specific to this user."""
    table = needs()
    earlier = " ".join(view.heard[:index])
    matters = {concern.key: concern.cues for concern in view.scenario.concerns}
    moves: dict[str, Move] = {}
    for s in appraisal.sentences:
        if s.broken or not s.related or s.bound < table["credit"]["restated"]:
            continue
        if axis == "A" and s.strategies and s.strategies[0][0][0] in "FG":
            continue  # advice does not meet a concern of axis A
        for key in named[s.text]:
            if axis_of[key] == axis and key not in moves:
                before = len(matters_named(read_sentence(earlier), ((key, matters[key]),))) if earlier else 0
                points = table["moves"]["met"] * table["moves"]["met_again"] ** before * min(1.0, s.bound)
                moves[key] = ("met", points, s.text)
    return list(moves.values())[:2]  # a list of all concerns earns no more than two


def _sores(scenario: Scenario, appraisal: Appraisal, said: Sequence[str]) -> list[Move]:
    """Moves for the scenario's sores; a cue that the user has said does not count."""
    spoken = fold(" ".join(said))
    points = needs()["moves"]["sore"]
    moves: dict[int, Move] = {}
    for s in appraisal.sentences:
        text = fold(s.text)
        for number, sore in enumerate(scenario.sores):
            if not s.broken and any(_says((cue,), text) and not _says((cue,), spoken) for cue in sore.cues):
                moves.setdefault(number, ("sore", points, s.text))
    return list(moves.values())


def _with_literal_attempts(scenario: Scenario, appraisal: Appraisal) -> Appraisal:
    """The appraisal, with a repeated attempt only where the sentence contains a whole cue of it: "ask" is not "ask him"."""
    cues = {f"attempt-{n}": attempt.cues for n, attempt in enumerate(scenario.attempts)}
    return appraisal._replace(
        sentences=tuple(
            s if s.repeats_attempt is None or _says(cues[s.repeats_attempt], fold(s.text)) else s._replace(repeats_attempt=None)
            for s in appraisal.sentences
        )
    )


def _says(cues: tuple[str, ...], folded: str) -> bool:
    """Whether a folded text contains one of the cues at the start of a word."""
    return _pattern(cues).search(folded) is not None


@lru_cache(maxsize=4_096)
def _pattern(cues: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(re.escape(fold(cue)) for cue in cues)})")


def _stale(appraisal: Appraisal, view: View) -> list[Move]:
    """Moves for flaws that earlier windows had, too; each repetition, up to three, costs more."""
    moves: list[Move] = []
    for flaw in appraisal.flaws:
        if flaw.kind in ("template", "flattery", "lecture", "assistant_speak"):
            times = sum(flaw.kind in judged.evidence.get("flaws", {}) for judged in view.judgements)
            if times:
                moves.append((flaw.kind, -needs()["moves"]["worn"] * min(3, times) * flaw.severity, flaw.quote))
    return moves


def _on_axis(weighed: Weighed, named: Mapping[str, Sequence[str]], axis_of: Mapping[str, str], axis: str) -> Weighed:
    """Reduces the gains of sentences that name only concerns of other axes."""
    share = needs()["moves"]["elsewhere"]
    gains = []
    for reason, points, text in weighed.gains:
        keys = named.get(text, ())
        other = bool(keys) and all(axis_of[key] != axis for key in keys)
        gains.append((reason, points * share if other else points, text))
    gains.sort(key=lambda row: -row[1])
    return weighed._replace(gains=tuple(gains))
