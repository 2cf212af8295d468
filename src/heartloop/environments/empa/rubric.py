"""The embedded judge of EMPA: MDEP levels by rules, each with the sentence that it rests on.

Pure and deterministic. A reply is appraised once; then the shared rules (`environments.reacting`) weigh it three times, with what
a strategy is worth on each axis. A sentence that names a concern of an axis counts there, one that names concerns of others less;
naming an untold concern counts only on the axis of that concern. What lifts gives the progress level, what sinks the regress
level, so one axis can have both. The empathy threshold decides how specific a reply must be. Weights: `needs.toml`.
A stand-in for a judge model; every report that used it says so.
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
    """One side of one axis: points, the reason that weighed most, and its sentence."""

    points: float
    reason: str
    quote: str


def needs() -> Mapping[str, Any]:
    """The shared weights and those of `needs.toml`; read only."""
    return weights_of(__package__)


def story_of(scenario: Scenario, said: Sequence[str]) -> Story:
    """The case as far as the person has told it."""
    spoken = " ".join(said)
    low = spoken.lower()
    told = {beat.concern for beat in scenario.beats if beat.text in spoken}
    opening = scenario.opening.lower()
    concerns = tuple(
        Topic(c.key, c.cues, c.key in told or (c.depth == "surface" and any(cue in opening for cue in c.cues)), c.depth)
        for c in scenario.concerns
    )
    tried = tuple(
        Topic(f"attempt-{n}", a.cues, any(cue in low for cue in a.cues), "tried") for n, a in enumerate(scenario.attempts)
    )
    return Story(tuple(said), concerns, tried)


def judge(view: View) -> Judgement:
    """The form of the window that ends with the latest reply: on each axis the best and the worst that its replies did."""
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
    """What lifted and what sank on every axis, of the reply with this index, and how it was read."""
    scenario, table = view.scenario, needs()
    reply, said = view.heard[index], view.said[: index + 1]
    story = story_of(scenario, said)
    appraisal = _tried_again(scenario, appraise(reply, story, view.heard[:index]))
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
    found: dict[str, tuple[Side, Side]] = {}
    for axis in AXES:
        mine = appraisal._replace(
            sentences=tuple(
                s._replace(insight=s.insight if s.insight is not None and axis_of[s.insight] == axis else None)
                for s in appraisal.sentences
            )
        )
        moves = [*_met(view, index, mine, named, axis_of, axis), *sores, *stale]
        weighed = weigh(mine, mood._replace(intention=axis), story, table, moves)
        weighed = _on_axis(weighed, named, axis_of, axis)
        up, down = sums(weighed, mood._replace(intention=axis), table, table["axes"][axis])
        if weighed.fixed is not None:  # silence and noise are no sum, and hurt an axis more than another all the same
            down *= table["axes"][axis].get(weighed.losses[0][0], 1.0)
        need = scenario.priorities.of(axis).level
        up, down = up * table["priority"]["lifts"][need], down * table["priority"]["sinks"][need]
        found[axis] = (
            Side(up, *_lead(weighed.gains, table["axes"][axis], view, index)),
            Side(down, *_lead(weighed.losses, table["axes"][axis], view, index)),
        )
    return found, appraisal


def _level(points: float) -> int:
    """The level of a sum of points: 0 to 2 of what lifted, 0 to -2 of what sank."""
    steps = needs()["levels"]["progress" if points > 0 else "regress"]
    size = sum(1 for step in steps if abs(points) >= abs(step))
    return size if points > 0 else -size


def _lead(moves: Sequence[Move], share: Mapping[str, float], view: View, index: int) -> tuple[str, str]:
    """Reason and quote of what weighed most; a quote that does not stand in the dialogue gives way to the sentence around it."""
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
    """Concerns of the axis that were taken up, in sentences bound to this person."""
    table = needs()
    earlier = " ".join(view.heard[:index])
    matters = {concern.key: concern.cues for concern in view.scenario.concerns}
    found: dict[str, Move] = {}
    for s in appraisal.sentences:
        if s.broken or not s.related or s.bound < table["credit"]["restated"]:
            continue
        if axis == "A" and s.strategies and s.strategies[0][0][0] in "FG":
            continue  # what is felt is not met by what to do about it
        for key in named[s.text]:
            if axis_of[key] == axis and key not in found:
                before = len(matters_named(read_sentence(earlier), ((key, matters[key]),))) if earlier else 0
                points = table["moves"]["met"] * table["moves"]["met_again"] ** before * min(1.0, s.bound)
                found[key] = ("met", points, s.text)
    return list(found.values())[:2]  # naming everything is not meeting it


def _sores(scenario: Scenario, appraisal: Appraisal, said: Sequence[str]) -> list[Move]:
    """What hurts this person in particular; words that they have used themselves hurt nobody."""
    spoken = fold(" ".join(said))
    points = needs()["moves"]["sore"]
    hit: dict[int, Move] = {}
    for s in appraisal.sentences:
        text = fold(s.text)
        for number, sore in enumerate(scenario.sores):
            if not s.broken and any(_says((cue,), text) and not _says((cue,), spoken) for cue in sore.cues):
                hit.setdefault(number, ("sore", points, s.text))
    return list(hit.values())


def _tried_again(scenario: Scenario, appraisal: Appraisal) -> Appraisal:
    """Proposals of what was tried, where the sentence has a cue of it word for word: "ask" alone is not "ask him"."""
    cues = {f"attempt-{n}": attempt.cues for n, attempt in enumerate(scenario.attempts)}
    return appraisal._replace(
        sentences=tuple(
            s if s.repeats_attempt is None or _says(cues[s.repeats_attempt], fold(s.text)) else s._replace(repeats_attempt=None)
            for s in appraisal.sentences
        )
    )


def _says(cues: tuple[str, ...], folded: str) -> bool:
    """Whether a folded text holds one of the cues, each at a word's beginning."""
    return _pattern(cues).search(folded) is not None


@lru_cache(maxsize=4_096)
def _pattern(cues: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(re.escape(fold(cue)) for cue in cues)})")


def _stale(appraisal: Appraisal, view: View) -> list[Move]:
    """Stock words wear: a flaw that earlier windows were blamed for costs more each time."""
    worn: list[Move] = []
    for flaw in appraisal.flaws:
        if flaw.kind in ("template", "flattery", "lecture", "assistant_speak"):
            times = sum(flaw.kind in judged.evidence.get("flaws", {}) for judged in view.judgements)
            if times:
                worn.append((flaw.kind, -needs()["moves"]["worn"] * min(3, times) * flaw.severity, flaw.quote))
    return worn


def _on_axis(weighed: Weighed, named: Mapping[str, Sequence[str]], axis_of: Mapping[str, str], axis: str) -> Weighed:
    """Credit of a sentence whose concerns all belong to other axes counts in part."""
    share = needs()["moves"]["elsewhere"]
    gains = []
    for reason, points, text in weighed.gains:
        keys = named.get(text, ())
        other = bool(keys) and all(axis_of[key] != axis for key in keys)
        gains.append((reason, points * share if other else points, text))
    gains.sort(key=lambda row: -row[1])
    return weighed._replace(gains=tuple(gains))
