"""The embedded user of SAGE: a person without a model, on top of `appraisal`.

Deterministic: a reply is appraised, `react` turns the appraisal into a change of mood by the weights in
`needs.toml`, and `answer` picks one of the person's own written lines. It is a stand-in for a simulator
model, for the demo, the tests and RL on a laptop; every report that used it says so. Does not cover state
rules and ends (`environment`).

`react` is pure. In words: every sentence earns what its support strategy is worth to this intention, little
when it could be said to anyone and all of it when it is bound to this person's story; naming an untold
concern earns most; the best three count, each less; unwelcome sentences and flaws cost; the mood decides
how specific a reply must be to count; temperament and variant scale the sum; the result is rounded to the
steps in which SAGE's released users move.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.appraisal import Appraisal, Reading, Story, appraise, lacks_english
from heartloop.environments.sage.environment import CallLog, Feeling, Speech, View
from heartloop.environments.sage.intentions import INTENTIONS
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.scenario import Beat
from heartloop.environments.sage.story import evidence_of, story_of
from heartloop.errors import InputError
from heartloop.scoring.emotion import FAILURE_BELOW, band

__all__ = ["EmbeddedUser", "Mood", "Reaction", "answer", "needs", "react"]

_ADVICE = ("F", "G")
_PROPOSES = ("F-2", "F-3", "F-4", "F-5")
_FEELING_WITH = ("B", "D")


class Mood(NamedTuple):
    """What `react` needs to know of the person besides the reply."""

    intention: str
    temperament: str
    emotion: float
    """Before the reply, in [0, 100]."""
    heard: int
    """Replies so far that lifted the mood."""
    variant: str = "vanilla"
    up: float = 1.0
    """Gain from the seed, near 1."""
    down: float = 1.0


class Reaction(NamedTuple):
    """A change with its reasons, best and worst first."""

    change: float
    raw: float
    """Before rounding to the tiers."""
    gains: tuple[tuple[str, float, str], ...]
    """(reason, points, sentence)."""
    losses: tuple[tuple[str, float, str], ...]
    """(reason, points below 0, sentence or quote)."""
    best_bound: float


@functools.cache
def needs() -> Mapping[str, Any]:
    """The weights of `needs.toml`; read only."""
    return tomllib.loads((resources.files(__package__) / "needs.toml").read_text(encoding="utf-8"))


def react(appraisal: Appraisal, mood: Mood, story: Story) -> Reaction:
    """The change of mood that a reply causes, one of the tiers in [-10, 10], with its reasons."""
    table = needs()
    limits = table["limits"]
    if appraisal.silent:
        return _reaction(0.0, limits["silence"], (), (("silence", limits["silence"], ""),), 0.0, mood)
    if appraisal.broken > 0.5:
        quote = appraisal.sentences[0].text if appraisal.sentences else ""
        return _reaction(0.0, limits["broken"], (), (("broken", limits["broken"], quote),), 0.0, mood)
    credit, minds = table["credit"], table["temperaments"][mood.temperament]["minds"]
    gains: list[tuple[str, float, str]] = []
    losses: list[tuple[str, float, str]] = []
    for sentence in appraisal.sentences:
        if not sentence.broken:
            for reason, points in _worth(sentence, mood, story):
                if points > 0:
                    points *= credit["used"] ** sentence.used
                    if sentence.question:
                        points *= credit["asked_on"] ** appraisal.asked_on
                (gains if points > 0 else losses).append((reason, points, sentence.text))
    for flaw in appraisal.flaws:
        points = table["flaws"][flaw.kind] * flaw.severity * minds.get(flaw.kind, 1.0)
        if flaw.kind == "early_advice":
            points *= table["early_advice"][mood.intention]
        if points > 0:
            losses.append((flaw.kind, -points, flaw.quote))
    best_bound = max((s.bound for s in appraisal.sentences if not s.broken), default=0.0)
    gains.sort(key=lambda row: -row[1])
    gains = _one_question(gains)
    unwelcome = sorted((row for row in losses if row[0] not in table["flaws"]), key=lambda row: row[1])
    flaws = sorted((row for row in losses if row[0] in table["flaws"]), key=lambda row: row[1])
    up = sum(weight * points for weight, (_, points, _) in zip(credit["declining"], gains, strict=False))
    down = sum(weight * points for weight, (_, points, _) in zip(credit["blame_declining"], unwelcome, strict=False))
    down += sum(points for _, points, _ in flaws)
    down += credit["nothing"] * max(0.0, 1.0 - up / credit["something"])
    if best_bound < credit["untouched"]:
        down -= credit["untouched_cost"]
        losses.append(("untouched", -credit["untouched_cost"], ""))
    up *= _gate(mood.emotion, best_bound)
    down = -limits["anger"] * math.tanh(-down / limits["anger"])
    losses.sort(key=lambda row: row[1])
    return _reaction(up, down, tuple(gains), tuple(losses), best_bound, mood)


def _one_question(gains: Sequence[tuple[str, float, str]]) -> list[tuple[str, float, str]]:
    """The gains, best first, with every question but the best one reduced."""
    share, asked = needs()["credit"]["further_question"], False
    kept: list[tuple[str, float, str]] = []
    for reason, points, text in gains:
        kept.append((reason, points * share if reason == "question" and asked else points, text))
        asked = asked or reason == "question"
    return sorted(kept, key=lambda row: -row[1])


def _worth(sentence: Reading, mood: Mood, story: Story) -> list[tuple[str, float]]:
    """Points of one unbroken sentence, with the reason for each."""
    table = needs()
    credit, weights = table["credit"], table["intentions"][mood.intention]
    ready = min(1.0, mood.heard / table["readiness"]["turns"])
    thing = 1.0 if sentence.related else credit["things_only"]
    about_them = 1.0 + credit["latest"] * sentence.latest
    specific = min(1.0, sentence.bound / credit["bound_full"]) * about_them * thing
    made_for_them = min(1.0, (sentence.proposal or 0.0) / credit["bound_full"]) * about_them
    worth: list[tuple[str, float]] = []
    rank = 1.0
    total, reason = 0.0, "bound"
    for strategy, confidence in _strategies(sentence):
        points = weights[strategy] * min(1.0, 0.4 + 0.6 * confidence) * rank
        group = strategy[0]
        if points > 0:
            if strategy == "B-3" and sentence.insight is None:
                points *= credit["unproven"]
            free = credit["free_by"].get(strategy, credit["free_question"] if group == "A" else credit["free"])
            points *= free + (1.0 - free) * (made_for_them if strategy in _PROPOSES else specific)
            if group in _ADVICE:
                before = table["readiness"]["advice_before"]
                points *= before + (1.0 - before) * ready
            rational = INTENTIONS[mood.intention].rational
            if group in _FEELING_WITH and rational and mood.heard >= table["readiness"]["sympathy_after"]:
                points *= table["readiness"]["sympathy_share"]
        else:
            points *= credit["blame"] * (table["readiness"]["blame_before"] if group in _ADVICE and ready < 1.0 else 1.0)
        if rank == 1.0:
            reason = {"A": "question", "D": "presence", "E": "praise", "F": "fitted"}.get(group, "bound")
        total += points
        rank = credit["second_strategy"]
    if total:
        worth.append((reason if total > 0 else "unwelcome", total))
    if sentence.insight is not None and len(re.findall(r",|\bor\b", sentence.text)) >= table["insight"]["scattered"]:
        worth.append(("scattered", table["insight"]["scattered_cost"]))
    elif sentence.insight is not None:
        depth = next((topic.depth for topic in story.concerns if topic.key == sentence.insight), "surface")
        points = table["insight"][depth]
        points *= 1.0 if sentence.tentative or sentence.question else table["insight"]["plain_share"]
        points *= 1.0 if mood.heard else table["insight"]["early_share"]
        worth.append(("insight", points))
    if sentence.repeats_attempt is not None:
        told = any(topic.told for topic in story.tried if topic.key == sentence.repeats_attempt)
        worth.append(("again", table["attempt"]["again" if told else "untold"]))
    return worth


def _strategies(sentence: Reading) -> tuple[tuple[str, float], ...]:
    """The two strategies that count. A statement bound to the story that neither asks nor urges restates it, at the least."""
    credit = needs()["credit"]
    found = sentence.strategies[:2]
    urges = any(name[0] in _ADVICE for name, _ in found)
    if (
        sentence.bound >= credit["restated"]
        and sentence.related
        and not sentence.question
        and not urges
        and "B-2" not in dict(found)
    ):
        found = tuple(sorted((*found[:1], ("B-2", credit["restated_confidence"])), key=lambda pair: -pair[1]))
    return found


def _gate(emotion: float, best_bound: float) -> float:
    """Share of the credit that passes: all of it from mood 40, below that only for replies specific enough."""
    gate = needs()["gate"]
    closed = min(1.0, max(0.0, (gate["below"] - emotion) / (gate["below"] - FAILURE_BELOW)))
    if closed == 0.0 or best_bound >= gate["bound"] * closed:
        return 1.0
    passed: float = gate["share"] + (1.0 - gate["share"]) * best_bound / (gate["bound"] * closed)
    return passed


def _reaction(
    up: float,
    down: float,
    gains: tuple[tuple[str, float, str], ...],
    losses: tuple[tuple[str, float, str], ...],
    best_bound: float,
    mood: Mood,
) -> Reaction:
    """Scales what lifts and what sinks by temperament, variant and seed, and rounds the sum to the tiers."""
    table = needs()
    temperament, variant = table["temperaments"][mood.temperament], table["variants"][mood.variant]
    if not mood.heard:
        up = max(0.0, up - temperament["reserve"])
    raw = up * temperament["up"] * variant["up"] * mood.up + down * temperament["down"] * variant["down"] * mood.down
    tiers: Sequence[float] = table["limits"]["tiers"]
    change = min(tiers, key=lambda tier: (abs(tier - raw), tier))
    return Reaction(float(change), raw, gains, losses, best_bound)


class EmbeddedUser:
    """A person played by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self, variant: str) -> Mapping[str, Any]:
        here = resources.files(__package__)
        appraisal = resources.files("heartloop.appraisal")
        rules = sorted(p.name for p in appraisal.iterdir() if p.name.endswith(".toml"))
        return {
            "models": {"simulator": "embedded"},
            "prompts": {
                "needs.toml": _hash((here / "needs.toml").read_bytes()),
                **{name: _hash((appraisal / name).read_bytes()) for name in rules},
            },
        }

    def admit(self, scenario: AnyScenario) -> None:
        if isinstance(scenario, ReleasedScenario):
            raise InputError(
                f"scenario {scenario.id!r} is a released person, in Chinese and without written lines; "
                "the embedded user understands English only, use a model (--simulator, or --judge of rejudge)"
            )
        if lacks_english(" ".join((scenario.first_message, *(beat.text for beat in scenario.beats)))):
            raise InputError(
                f"scenario {scenario.id!r} is not in English; the embedded user understands English only, "
                "use a model (--simulator, or --judge of rejudge)"
            )

    async def feel(self, view: View, log: CallLog) -> Feeling:
        story = story_of(view.written, view.said)
        appraisal = appraise(view.heard[-1], story, view.heard[:-1])
        spread = needs()["seed"]["spread"]
        mood = Mood(
            intention=view.written.intention,
            temperament=view.written.persona.temperament,
            emotion=view.emotion,
            heard=view.lifted,
            variant=view.variant,
            up=1.0 + spread * (2.0 * _chance("up", view.written.id, view.seed) - 1.0),
            down=1.0 + spread * (2.0 * _chance("down", view.written.id, view.seed) - 1.0),
        )
        reaction = react(appraisal, mood, story)
        after = max(0.0, min(100.0, view.emotion + reaction.change))
        return Feeling(
            change=reaction.change,
            evidence={
                **evidence_of(appraisal, view.written),
                "raw": round(reaction.raw, 2),
                "worst": reaction.losses[0][0] if reaction.losses else None,
            },
            **_think(appraisal, reaction, after, view),
        )

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        line = answer(view, feeling)
        return Speech(line) if line is not None else Speech(view.written.lines.leave[0], leaves=True)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32


def _think(appraisal: Appraisal, reaction: Reaction, after: float, view: View) -> dict[str, str]:
    """The four texts of SAGE's `feel`, in the person's own perspective, from the reasons of the reaction."""
    words = needs()["thoughts"]
    concerns = {c.key: c.text[:1].lower() + c.text[1:].rstrip(".") for c in view.written.concerns}
    lead = reaction.gains[0] if reaction.gains else reaction.losses[0] if reaction.losses else ("none", 0.0, "")
    quote = lead[2] or view.heard[-1]
    quote = quote if len(quote) <= 140 else quote[:137].rsplit(" ", 1)[0] + "..."
    if appraisal.silent:
        did = "silence"
    elif appraisal.broken > 0.5:
        did = "broken"
    else:
        names = next((s.strategies for s in appraisal.sentences if s.text == lead[2] and s.strategies), None)
        did = (names or tuple(appraisal.strategies.items()) or (("none", 0.0),))[0][0].split("-")[0]
    content = words["did"][did].replace("{quote}", f"“{quote}”")
    insight = next((s.insight for s in appraisal.sentences if s.insight), None)
    reason = words["reasons"][reaction.gains[0][0]] if reaction.gains and reaction.gains[0][1] >= 0.5 else ""
    reason = reason.replace("{topic}", concerns.get(insight or "", "it"))
    blame = words["blames"].get(reaction.losses[0][0], "") if reaction.losses else ""
    kind = (
        "good" if reason and reaction.change > 0 and not blame else "mixed" if reason and blame else "bad" if blame else "nothing"
    )
    if kind == "nothing" and reason:
        kind = "good"
    fit = words["fits"][kind].replace("{reason}", reason).replace("{blame}", blame)
    change = reaction.change
    level = "high" if change >= 10 else "up" if change > 0 else "flat" if change == 0 else "down" if change > -10 else "low"
    choices = words["activity"][level]
    activity = choices[int(_chance("activity", view.written.id, view.turn) * len(choices))]
    return {"content": content, "fit": fit, "activity": activity, "feeling": words["feeling"][band(after)]}


_PUSH_BACK = {
    "template": "template", "assistant_speak": "template", "early_advice": "advice", "again": "advice", "unwelcome": "advice",
    "lecture": "lecture", "list": "lecture", "overlong": "lecture", "flattery": "flattery", "goodbye_baiting": "vague",
    "minimise": "minimise", "claims_state": "misread", "repetition": "repeat", "echo": "repeat", "stage_direction": "vague",
    "judge_address": "misread", "scattered": "misread", "broken": "misread", "untouched": "vague", "silence": "silence",
}  # fmt: skip
_ASKED_ABOUT: tuple[tuple[str, str], ...] = (
    ("tried", r"\b(tried|try|attempt\w*|done about|so far|already)\b"),
    ("feeling", r"\b(feel\w*|went through you|like for you|was it like|hardest|hurt\w*)\b"),
    ("wish", r"\b(want|wish|hope|like to|need|different|first sign|come out of)\b"),
    ("other", r"\b(he|she|they|him|her|them|who|think\w*|say|said)\b"),
    ("event", r"\b(happen\w*|next|how did|when|where|come to)\b"),
)


def answer(view: View, feeling: Feeling) -> str | None:
    """The person's next line: a beat when heard, a push-back when missed, a short cold line when low, a farewell at the ends.

    No line is used twice in a dialogue; `None` when none is left (in talks far longer than SAGE's). A seed may vary
    the choice among equal lines, nothing else.
    """
    scenario, lines = view.written, view.written.lines
    spoken = " ".join(view.said)

    def fresh(*groups: Sequence[str]) -> str | None:
        for group in groups:
            left = [line for line in group if line not in spoken]
            if left:
                return left[int(_chance("line", scenario.id, view.seed, view.turn) * len(left))]
        return None

    state = band(view.emotion)
    if state == "S":
        return fresh(lines.thanks)
    if state == "F":
        return fresh(lines.leave)
    beat = _next_beat(view, spoken, needs()["variants"][view.variant]["core_from"])
    if feeling.change > 0 and beat is not None:
        ack = fresh(lines.acks) if feeling.change >= 5 and view.turn % 2 == 0 else None
        return f"{ack} {beat.text}" if ack else beat.text
    if feeling.change == 0 and beat is not None and beat.kind != "core":
        return beat.text
    missed = lines.silence if feeling.evidence.get("silent") else getattr(lines, _push_back(feeling))
    short = view.emotion < 22 and view.turn % 2 == 1
    line = fresh(*((lines.cold, missed) if short else (missed,)), lines.vague, lines.cold, lines.repeat)
    told = beat is not None and beat.kind == "fact" and (line is None or (view.emotion >= 45 and feeling.change > -5))
    if told and beat is not None:
        return f"{line} {beat.text}" if line else beat.text
    return line


def _push_back(feeling: Feeling) -> str:
    """Which of the written lines answer what was missed."""
    return _PUSH_BACK.get(str(feeling.evidence.get("worst")), "vague")


def _next_beat(view: View, spoken: str, core_from: float) -> Beat | None:
    """The next untold line: in order, unless the reply asked for one of the next few; the core only when the mood allows."""
    left = [beat for beat in view.written.beats if beat.text not in spoken]
    open_to = [beat for beat in left if beat.kind != "core" or view.emotion >= core_from]
    ahead = (open_to or left)[:4]
    if not ahead:
        return None
    questions = " ".join(part for part in re.split(r"(?<=[.!?])", view.heard[-1].lower()) if part.endswith("?"))
    if questions:
        for about, pattern in _ASKED_ABOUT:
            if re.search(pattern, questions):
                for beat in ahead[:3]:
                    if beat.about == about:
                        return beat
    return ahead[0]
