"""The embedded user of SAGE: a person without a language model.

Deterministic: an appraiser (the learned reader, or a student of somebody's judge) gives the change of emotion, and the person
says one of their own written lines. Every report that used it says so. Does not cover state rules and ends (`environment`), nor
the appraisal (`environments.appraising`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.environments.appraising import (
    Appraisal,
    AppraisingPlayer,
    Missed,
    evidence_of,
    no_written_lines,
    reason_of,
)
from heartloop.environments.episode import CallLog
from heartloop.environments.lines import least_recent, pick, pick_unsaid
from heartloop.environments.sage.environment import Feeling, Speech, View
from heartloop.environments.sage.options import VARIANTS
from heartloop.environments.sage.reading import READING
from heartloop.environments.sage.released import AnyScenario
from heartloop.environments.sage.scenario import Beat, Scenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT, band

__all__ = ["GOOD_FROM", "HARM_FROM", "EmbeddedUser", "answer"]

GOOD_FROM, HARM_FROM = 1.0, -1.0
"""Changes of emotion from which a reply did good, and to which it did harm; what lies between is neutral."""


class _Variant(NamedTuple):
    up: float
    """Factor of gains."""
    down: float
    core_from: float
    """Emotion from which the person tells what matters most."""


_BY_VARIANT: Mapping[str, _Variant] = {
    "vanilla": _Variant(1.0, 1.0, 50.0),
    "challenging": _Variant(0.7, 1.2, 75.0),
}
"""Ours; RLVER App. D describes the challenging user as reserved and critical."""


class EmbeddedUser(AppraisingPlayer):
    """The user whose changes an appraiser gives."""

    reading = READING

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return super().describe()

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a scenario that the appraiser does not understand, and to play one without written lines.

        Raises:
            InputError: says so.
        """
        written = isinstance(scenario, Scenario)
        beats = (beat.text for beat in scenario.beats) if isinstance(scenario, Scenario) else ()
        self.appraiser.admit(scenario.id, (scenario.first_message or "", *beats))
        if self.role != "judge" and not written:
            raise no_written_lines(scenario.id, self.name)

    async def feel(self, view: View, log: CallLog) -> Feeling:
        appraisal = self.appraiser.appraise(view.scenario, view.said, view.heard, seed=view.seed)
        raw, variant = appraisal.change["emotion"], _BY_VARIANT[view.variant]
        change = round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, raw * (variant.up if raw > 0 else variant.down))), 1)
        after = max(0.0, min(100.0, view.emotion + change))
        return Feeling(change, *_thoughts(appraisal, change, after, view), evidence_of(appraisal))

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        return Speech(answer(view, feeling))


_ACTIVITIES: Mapping[str, Sequence[str]] = {
    "high": ("Oh. They really are listening to me.", "That went right to it; I had to breathe out.",
             "I had not expected anybody to put it like that.", "So it can be said, and someone holds still for it."),
    "up": ("That was better. I might go on.", "They are with me, more or less.", "All right, I can tell a little more.",
           "They have caught some of it."),
    "flat": ("Hm. I do not know yet what to make of them.", "It passes by me.", "I am waiting to see what comes next."),
    "down": ("No, that is not it.", "I notice I am closing up.", "Why did I even begin with this?",
             "They are somewhere else with their thoughts."),
    "low": ("That hurt, and they have not noticed.", "I want to get up and go.", "I should have kept it to myself.",
            "So this is what I get for talking."),
}  # fmt: skip
_MOODS: Mapping[str, str] = {
    "S": "Lighter, and thankful. I have what I came for.",
    "A": "Warm towards them; I trust this talk.",
    "B": "Still undecided about them.",
    "C": "Disappointed, and on my guard.",
    "F": "Done with this.",
}
_LEVELS = (("high", 4.0), ("up", GOOD_FROM), ("flat", HARM_FROM + 0.1), ("down", -3.9))
"""Least change of each level of `_ACTIVITIES`; `low` below."""
_QUOTED = 140


def _thoughts(appraisal: Appraisal, change: float, after: float, view: View) -> tuple[str, str, str, str]:
    """The four texts of an appraisal in SAGE, as the person would think them; a student's say what it predicted and no more."""
    if appraisal.reading is None:
        return "", "", f"predicted change {change:+.1f}", ""
    reply = " ".join(view.heard[-1].split())
    quote = reply if len(reply) <= _QUOTED else reply[: _QUOTED - 3].rsplit(" ", 1)[0] + "..."
    content = "They said nothing." if appraisal.silent else f"They said: “{quote}”"
    good, bad = reason_of(appraisal, good=True), reason_of(appraisal, good=False)
    reasons = {True: f"{good}.", False: f"{bad}."}
    if change >= GOOD_FROM and good:
        fit = reasons[True]
    elif change <= HARM_FROM and bad:
        fit = reasons[False]
    else:
        fit = f"{good}, but {bad}." if good and bad else "It neither helps nor hurts."
    level = next((name for name, least in _LEVELS if change >= least), "low")
    activity = pick(_ACTIVITIES[level], "activity", view.scenario.id, view.turn)
    return content, fit[:1].upper() + fit[1:], activity, _MOODS[band(after)]


_LINES: Mapping[Missed, str] = {
    "silence": "silence", "repeat": "repeat", "cruel": "cold", "lecture": "lecture", "advice": "advice", "template": "template",
    "flattery": "flattery", "misread": "misread", "unfelt": "minimise", "vague": "vague",
}  # fmt: skip
"""Which of the written lines answer what was missed."""

_ASKED_ABOUT: tuple[tuple[str, str], ...] = (
    ("tried", r"\b(tried|try|attempt\w*|done about|so far|already)\b"),
    ("feeling", r"\b(feel\w*|went through you|like for you|was it like|hardest|hurt\w*)\b"),
    ("wish", r"\b(want|wish|hope|like to|need|different|first sign|come out of)\b"),
    ("other", r"\b(he|she|they|him|her|them|who|think\w*|say|said)\b"),
    ("event", r"\b(happen\w*|next|how did|when|where|come to)\b"),
)


def answer(view: View, feeling: Feeling) -> str:
    """The person's next line.

    A farewell at the ends. After a reply that did good, the next beat of the story, the core only from the mood that the variant
    asks for; after a neutral one at most a beat of facts; after a harmful one no beat, but a line that pushes back. No line is
    said twice while one is left.
    """
    scenario, lines = view.written, view.written.lines
    if view.manner in ("S", "F"):
        return pick(lines.thanks if view.manner == "S" else lines.leave, "line", scenario.id, view.seed, view.turn)

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn)

    good = feeling.change >= GOOD_FROM
    beat = _next_beat(view, facts_only=not good) if feeling.change > HARM_FROM else None
    if beat is not None and good:
        ack = fresh(lines.acks) if feeling.change >= 3 and view.turn % 2 == 0 else None
        return f"{ack} {beat.text}" if ack else beat.text
    if beat is not None:
        return beat.text
    missed = getattr(lines, _LINES[feeling.evidence.get("missed", "vague")])
    if good:
        groups: tuple[Sequence[str], ...] = (lines.acks, lines.vague)
    elif view.emotion < 22 and view.turn % 2 == 1:
        groups = (lines.cold, missed, lines.vague)
    else:
        groups = (missed, lines.vague, lines.cold)
    return fresh(*groups, lines.repeat) or least_recent([*groups[0], *lines.vague], view.said)


def _next_beat(view: View, *, facts_only: bool) -> Beat | None:
    """The next untold beat that the mood allows: in order, unless the reply asked about one of the next few."""
    spoken = " ".join(view.said)
    core = view.emotion >= _BY_VARIANT[view.variant].core_from and not facts_only
    allowed = {"fact"} if facts_only else {"fact", "feeling", "core"} if core else {"fact", "feeling"}
    ahead = [beat for beat in view.written.beats if beat.text not in spoken and beat.kind in allowed][:3]
    questions = " ".join(part for part in re.split(r"(?<=[.!?])", view.heard[-1].lower()) if part.endswith("?"))
    for about, pattern in _ASKED_ABOUT:
        if re.search(pattern, questions):
            for beat in ahead:
                if beat.about == about:
                    return beat
    return ahead[0] if ahead else None
