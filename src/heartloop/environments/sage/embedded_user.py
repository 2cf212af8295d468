"""The embedded user of SAGE: a person without a model, on top of `appraisal`.

Deterministic: a reply is appraised, `react` turns the appraisal into a change of mood by the weights in
`needs.toml`, and `answer` picks one of the person's own written lines. It is a stand-in for a simulator
model, for the demo, the tests and RL on a laptop; every report that used it says so. Does not cover state
rules and ends (`environment`).

`react` is pure: what the shared rules (`environments.reacting`) make of the appraisal for this intention, rounded to the steps in
which SAGE's released users move.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.appraisal import Appraisal, Story, appraise
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog
from heartloop.environments.reacting import (
    UNDERSTANDS,
    Mood,
    Move,
    check_english,
    pick,
    pick_unsaid,
    rule_hashes,
    swings,
    total,
    weigh,
    weights_of,
)
from heartloop.environments.sage.environment import Feeling, Speech, View
from heartloop.environments.sage.options import VARIANTS
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.scenario import Beat
from heartloop.environments.sage.scoring import band
from heartloop.environments.sage.story import evidence_of, story_of

__all__ = ["EmbeddedUser", "Reaction", "answer", "needs", "react", "say"]


class Reaction(NamedTuple):
    """A change with its reasons, best and worst first."""

    change: float
    raw: float
    """Before rounding to the tiers."""
    gains: tuple[Move, ...]
    losses: tuple[Move, ...]


def needs() -> Mapping[str, Any]:
    """The shared weights and those of `needs.toml`; read only."""
    return weights_of(__package__)


def react(appraisal: Appraisal, mood: Mood, story: Story) -> Reaction:
    """The change of mood that a reply causes, one of the tiers in [-10, 10], with its reasons."""
    table = needs()
    weighed = weigh(appraisal, mood, story, table)
    raw = total(weighed, mood, table)
    tiers: Sequence[float] = table["limits"]["tiers"]
    change = min(tiers, key=lambda tier: (abs(tier - raw), tier))
    return Reaction(float(change), raw, weighed.gains, weighed.losses)


class EmbeddedUser:
    """A person played by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return {"models": {"user": "embedded"}, "prompts": rule_hashes(__package__)}

    def admit(self, scenario: AnyScenario) -> None:
        if isinstance(scenario, ReleasedScenario):
            raise InputError(
                f"scenario {scenario.id!r} is a released person, in Chinese and without written lines; {UNDERSTANDS}"
            )
        check_english(scenario.id, (scenario.first_message, *(beat.text for beat in scenario.beats)))

    async def feel(self, view: View, log: CallLog) -> Feeling:
        story = story_of(view.written, view.said)
        appraisal = appraise(view.heard[-1], story, view.heard[:-1])
        mood = Mood(
            intention=view.written.intention,
            temperament=view.written.persona.temperament,
            emotion=view.emotion,
            heard=view.lifted,
            variant=view.variant,
            **swings(needs(), view.written.id, view.seed),
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
        return say(view, feeling)


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
    activity = pick(words["activity"][level], "activity", view.written.id, view.turn)
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


def say(view: View, feeling: Feeling) -> Speech:
    """The person's next line, or their farewell where none is left."""
    line = answer(view, feeling)
    return Speech(line) if line is not None else Speech(view.written.lines.leave[0], leaves=True)


def answer(view: View, feeling: Feeling) -> str | None:
    """The person's next line: a beat when heard, a push-back when missed, a short cold line when low, a farewell at the ends.

    No line is used twice in a dialogue; `None` when none is left (in talks far longer than SAGE's). A seed may vary
    the choice among equal lines, nothing else.
    """
    scenario, lines = view.written, view.written.lines
    spoken = " ".join(view.said)

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn)

    state = view.manner
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
