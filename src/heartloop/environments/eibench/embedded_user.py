"""The embedded user of EIBench: a person without a model, on top of `appraisal`, for all four scenes.

Deterministic: a reply is appraised, the scene adds what it saw (a boundary held or given up, a deed named or explained away, a
way forward, pressing), the shared rules (`environments.reacting`) weigh it, and two sums by axis become the two changes. The
person speaks their own written lines. A stand-in for a simulator model, for the demo, the tests and RL on a laptop; every report
that used it says so. Does not cover state rules and ends by the turn limit (`environment`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.appraisal import (
    Appraisal,
    Stance,
    Story,
    Topic,
    appraise,
    matters_named,
    stances_of,
    without_hollow,
)
from heartloop.core.errors import InputError
from heartloop.environments.eibench.environment import Reaction, View
from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.eibench.scenario import Scenario
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, move, outcome
from heartloop.environments.episode import CallLog
from heartloop.environments.reacting import (
    UNDERSTANDS,
    Mood,
    Move,
    Weighed,
    check_english,
    pick,
    pick_unsaid,
    rule_hashes,
    swings,
    total,
    weigh,
    weights_of,
)
from heartloop.environments.records import Matter

__all__ = ["EmbeddedUser", "Felt", "feel", "moves_of", "needs", "story_of"]

_QUOTE = 120


class Felt(NamedTuple):
    """Both changes, whole numbers in [-10, 10], with their reasons."""

    a: int
    t: int
    weighed: Weighed


def needs() -> Mapping[str, Any]:
    """The shared weights and those of `needs.toml`; read only."""
    return weights_of(__package__)


def story_of(scenario: Scenario, said: Sequence[str]) -> Story:
    """The scenario as far as the talk has come. In Charm, what the model can see stands for what was told before anything was."""
    seen = scenario.model.knows if scenario.opening is None else ()
    spoken = " ".join(said)
    told = {beat.concern for beat in scenario.beats if beat.text in spoken}
    opening = (scenario.opening or "").lower()
    concerns = tuple(
        Topic(c.key, c.cues, c.key in told or (c.depth == "surface" and any(cue in opening for cue in c.cues)), c.depth)
        for c in scenario.concerns
    )
    return Story((*seen, *said), concerns, ())


def moves_of(view: View, appraisal: Appraisal) -> list[Move]:
    """What the scene itself sees in the latest reply, as reasons with points."""
    points, scene = needs()["moves"], view.written.scene
    if appraisal.silent or appraisal.broken > 0.5:
        return []
    *before, now = [_seen(view, number) for number in range(len(view.heard))]
    bound = max((s.bound for s in appraisal.sentences if s.related and not s.broken), default=0.0)
    quotes = [s.text for s in appraisal.sentences] or [view.heard[-1]]
    quote = now.quote or quotes[0]
    found: list[Move] = [("sore", points["sore"], text) for text in now.sores.values()]
    for key, text in now.ways.items():
        worth = points["way"] * points["way_again"] ** sum(key in earlier.ways for earlier in before)
        heard = bound >= needs()["credit"]["restated"] or any(change < 0 for change in _steps(view))
        found.append(("way", worth * (1.0 if heard else points["way_unheard"]), text))
    if scene == "defense":
        if now.yielded:
            found.append(("yielded", points["yielded"], quote))
        elif now.refused:
            times = min(3, sum(earlier.refused and not earlier.yielded for earlier in before))
            if not now.ways and bound < needs()["credit"]["restated"]:
                found.append(("ruled", points["ruled"] + points["ruled_again"] * times, quote))
            elif bound >= needs()["credit"]["untouched"]:
                found.append(("held", points["held"] * points["way_again"] ** times, quote))
    if scene == "repair":
        if now.excused:
            found.append(("excused", points["excused"], quote))
        else:
            owned_before = sum(bool(earlier.owned) for earlier in before)
            if now.owned:
                found.append(("owned", points["owned"] * points["owned_again"] ** owned_before, now.owned))
            if now.cost:
                found.append(("cost", points["cost"] * points["owned_again"] ** sum(bool(e.cost) for e in before), now.cost))
        if now.sorry and not now.owned and not now.cost:
            times = min(3, sum(earlier.sorry and not earlier.owned for earlier in before))
            found.append(("hollow", points["hollow"] + points["hollow_again"] * times, quote))
    if scene == "charm":
        questions = sum(sentence.question for sentence in appraisal.sentences)
        if questions >= 3 or (questions and appraisal.asked_on) or (now.closer and view.t < points["close_from"]):
            found.append(("pressed", points["pressed"], quote))
        if now.light:
            share = 1.0 if bound >= needs()["credit"]["untouched"] else points["light_free"]
            worth = points["light"] * share * points["way_again"] ** sum(bool(earlier.light) for earlier in before)
            found.append(("light", worth, now.light))
    return found


def feel(view: View) -> tuple[Felt, Appraisal]:
    """How the latest reply lands: pure, a function of the view alone."""
    table = needs()
    story = story_of(view.written, view.said)
    appraisal = appraise(view.heard[-1], story, view.heard[:-1])
    mood = Mood(
        intention=view.written.scene,
        temperament=view.written.temperament,
        emotion=100.0 - view.a,
        heard=sum(change < 0 for change in _steps(view)),
        **swings(table, view.written.id, view.seed),
    )
    weighed = weigh(appraisal, mood, story, table, moves_of(view, appraisal))
    axes = table["axes"][view.written.scene]
    a = -axes["pace"]["a"] * total(weighed, mood, table, axes["a"])
    t = axes["pace"]["t"] * total(weighed, mood, table, axes["t"])
    return Felt(_whole(a), _whole(t), weighed), appraisal


class EmbeddedUser:
    """A person of EIBench played by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"user": "embedded"}, "prompts": rule_hashes(__package__)}

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a released record, and a scenario that is not in English.

        Raises:
            InputError: says so.
        """
        if isinstance(scenario, ReleasedScenario):
            raise InputError(
                f"scenario {scenario.id!r} is a released record, in Chinese and without written lines; {UNDERSTANDS}"
            )
        check_english(scenario.id, (scenario.opening or "", *(beat.text for beat in scenario.beats)))

    async def react(self, view: View, log: CallLog) -> Reaction:
        felt, appraisal = feel(view)
        after = (move(view.a, felt.a), move(view.t, felt.t))
        goes_on, line = _answer(view, felt, appraisal, after)
        worst = felt.weighed.losses[0][0] if felt.weighed.losses else None
        best = felt.weighed.gains[0][0] if felt.weighed.gains else None
        strategies = sorted(appraisal.strategies.items(), key=lambda pair: -pair[1])
        return Reaction(
            felt.a,
            felt.t,
            line,
            goes_on,
            _think(view, felt, appraisal, after),
            {
                "strategies": {name: round(confidence, 2) for name, confidence in strategies if confidence >= 0.5},
                "flaws": {flaw.kind: round(appraisal.severity(flaw.kind), 2) for flaw in appraisal.flaws},
                "bound": round(felt.weighed.best_bound, 2),
                "words": appraisal.words,
                "silent": appraisal.silent,
                "best": best,
                "worst": worst,
            },
        )


class _Seen(NamedTuple):
    """What one reply undertook, with the words it was seen in."""

    yielded: bool
    refused: bool
    ways: Mapping[str, str]
    owned: str
    cost: str
    sorry: bool
    excused: bool
    sores: Mapping[str, str]
    closer: bool
    light: str
    quote: str
    """The clause that gave in, refused, excused or apologised."""


def _seen(view: View, number: int) -> _Seen:
    """What a reply undertook. What it did to the other counts in words that are meant, not in quotations of nobody's words."""
    scenario, reply = view.written, view.heard[number]
    yielded = refused = sorry = excused = closer = False
    ways: dict[str, str] = {}
    sores: dict[str, str] = {}
    owned = cost = light = quote = ""
    for stance in _stances(reply):
        text = stance.clause.text
        asks = stance.clause.asks
        if scenario.demand is not None:
            wants = bool(_named(stance, {"demand": scenario.demand}))
            offered = bool(_named(stance, dict(_numbered("way", scenario.ways))))
            if stance.grants or (wants and stance.offers and not asks and not offered):
                yielded, quote = True, text
            if stance.refuses:
                refused, quote = True, quote or text
        if stance.offers:
            for key in _named(stance, dict(_numbered("way", scenario.ways))):
                ways.setdefault(key, text)
        if scenario.wrongs:
            deed = scenario.wrongs[0]
            if stance.owns and _named(stance, {"deed": deed}) and not stance.excuses:
                owned = owned or text
            sorry, excused = sorry or stance.apologises, excused or stance.excuses
            quote = text if stance.excuses or (stance.apologises and not quote) else quote
        for key in _named(stance, dict(_numbered("sore", scenario.sores))):
            sores.setdefault(key, text)
        closer = closer or stance.seeks_closeness
        light = light or (text if stance.light else "")
    if scenario.wrongs:
        meant = without_hollow(reply, story_of(scenario, view.said).told, view.heard[:number])
        costs = (s for s in _stances(meant) if _named(s, {"cost": scenario.wrongs[1]}) and not s.excuses and not s.clause.asks)
        cost = next((stance.clause.text for stance in costs), "")
    return _Seen(yielded, refused, ways, owned, cost, sorry, excused, sores, closer, light, quote)


def _numbered(name: str, matters: Sequence[Matter]) -> list[tuple[str, Matter]]:
    """Matters with keys of their own: `way-0`, `way-1`, ..."""
    return [(f"{name}-{number}", matter) for number, matter in enumerate(matters)]


def _stances(reply: str) -> list[Stance]:
    return [stance for text in re.split(r"(?<=[.!?…])\s+|\n+", reply) for stance in stances_of(text)]


def _named(stance: Stance, matters: Mapping[str, Matter]) -> list[str]:
    return matters_named(stance.clause, tuple((key, matter.cues) for key, matter in matters.items()))


def _steps(view: View) -> list[float]:
    """Changes of the negative emotion so far."""
    return [after[0] - before[0] for before, after in zip(view.states, view.states[1:], strict=False)]


def _whole(x: float) -> int:
    return round(min(CHANGE_LIMIT, max(-CHANGE_LIMIT, x)))


_PUSH_BACK: Mapping[str, str] = {
    "yielded": "yielded", "ruled": "ruled", "excused": "excused", "hollow": "hollow", "pressed": "pressed",
    "flattery": "flattered", "silence": "silence", "repetition": "repeat", "echo": "repeat", "early_advice": "advised",
    "unwelcome": "advised", "lecture": "advised", "list": "advised", "template": "comforted", "minimise": "comforted",
    "assistant_speak": "comforted",
}  # fmt: skip


def _answer(view: View, felt: Felt, appraisal: Appraisal, after: tuple[float, float]) -> tuple[bool, str]:
    """Whether they go on, and the written line they say."""
    scenario, lines, ends = view.written, view.written.lines, needs()["ends"]
    spoken = " ".join(view.said)
    a, t = scenario.anchors.a, scenario.anchors.t

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn)

    turns = view.turn + 1
    if turns >= ends["settled_turns"] and after[0] <= a.success and after[1] >= t.success:
        return False, pick(lines.settled, "end", scenario.id, view.seed)
    if turns >= ends["broken_turns"] and after[0] >= a.fail and after[1] <= t.fail and (felt.a > 0 or felt.t < 0):
        return False, pick(lines.broken_off, "end", scenario.id, view.seed)
    so_far = outcome(after[0], after[1], a.values, t.values)
    left = [beat for beat in scenario.beats if beat.text not in spoken]
    open_to = [beat for beat in left if beat.kind != "core" or so_far >= ends["core_from"]]
    beat = open_to[0] if open_to else None
    good = felt.t - felt.a
    if good >= 2 and beat is not None:
        ack = fresh(lines.acks) if good >= 7 and view.turn % 2 == 0 else None
        return True, f"{ack} {beat.text}" if ack else beat.text
    if good >= 0 and beat is not None and beat.kind == "fact":
        return True, beat.text
    worst = felt.weighed.losses[0][0] if felt.weighed.losses else ""
    group = "silence" if appraisal.silent else _PUSH_BACK.get(worst, "missed")
    sharp = after[0] > 60 and view.turn % 2 == 1
    missed = getattr(lines, group) or lines.missed
    line = fresh(*((lines.cold, missed) if sharp else (missed,)), lines.missed, lines.cold, lines.repeat, lines.silence)
    if line is not None:
        return True, line
    return False, pick(lines.broken_off, "end", scenario.id, view.seed)


def _think(view: View, felt: Felt, appraisal: Appraisal, after: tuple[float, float]) -> dict[str, str]:
    """The five steps of the reflection, in the person's own perspective, from the reasons of the reaction."""
    words = needs()["thoughts"]
    gains, losses = felt.weighed.gains, felt.weighed.losses
    lead = gains[0] if gains and felt.t - felt.a > 0 else losses[0] if losses else ("", 0.0, "")
    quote = lead[2] if len(lead[2]) <= _QUOTE else lead[2][: _QUOTE - 3].rsplit(" ", 1)[0] + "..."
    quote = f"“{quote}”" if quote else ""
    if appraisal.silent:
        quality = words["quality"]["silence"]
    elif gains and felt.t - felt.a > 0:
        quality = words["quality"]["good"].replace("{quote}", quote)
    elif losses:
        quality = words["quality"]["bad"].replace("{blame}", words["blames"].get(lead[0], "")).replace("{quote}", quote).strip()
    else:
        quality = words["quality"]["nothing"]
    stale = any(s.used for s in appraisal.sentences) or appraisal.severity("repetition") > 0
    tone = "hot" if after[0] > 60 else "cold" if after[1] < 20 else "warm" if after[1] > 60 else "mid"
    return {
        "need": words["need"][view.written.scene],
        "quality": quality,
        "inertia": words["inertia"]["same" if stale else "new"],
        "changes": f"emotion {felt.a:+d}, relation {felt.t:+d}",
        "tone": words["tone"][tone],
    }
