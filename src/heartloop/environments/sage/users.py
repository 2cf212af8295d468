"""What the learned reader knows of a SAGE scenario besides the dialogue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.base import RoleModel, SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, least_recent, pick, pick_unsaid, speaks_for
from heartloop.environments.episode import CallLog
from heartloop.environments.reading import (
    Appraisal,
    AppraisingPlayer,
    LearnedReading,
    Missed,
    evidence_of,
    no_written_lines,
    reason_of,
    unsaid,
)
from heartloop.environments.sage.environment import VARIANTS, Feeling, SageView, Speech
from heartloop.environments.sage.scenario import AnySageScenario, SageBeat, SageBrief, SageReleasedScenario, SageScenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT, band
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = [
    "GOOD_FROM",
    "HARM_FROM",
    "READING",
    "SageEmbeddedUser",
    "SageLLMUser",
    "answer",
    "context_of",
    "render_background",
    "render_persona",
]


def context_of(scenario: SageBrief, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, the concerns that were not told yet, what lifts the person and what hurts them."""
    background = scenario.background
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*unsaid(scenario.concerns, scenario.told, messages), *background.lifts),
        sore=tuple(background.sinks),
    )


READING = LearnedReading(
    "heartloop.environments.sage", context_of, (Output("emotion", -10.0, 10.0),), group=lambda scenario: str(scenario.intention)
)
"""The change of emotion; what does good depends on the hidden intention."""


def _plain_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a truth value; expected a whole number")
    if isinstance(value, str) and "_" in value:  # int() reads "1_0" as ten
        raise ValueError("no plain number; expected a whole number")
    return value


_Change = Annotated[int, Field(ge=-1000, le=1000), BeforeValidator(_plain_number)]  # far outside the range the answer is invalid
_LIMIT = int(CHANGE_LIMIT)


class _FeelAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    content: Annotated[str, Sent(maxLength=600)] = Field(min_length=1)
    fit: Annotated[str, Sent(maxLength=600)] = Field(min_length=1)
    activity: Annotated[str, Sent(maxLength=600)] = Field(min_length=1)
    feeling: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    change: Annotated[_Change, Sent(minimum=-_LIMIT, maximum=_LIMIT)]


class _ReleasedFeelAnswer(_FeelAnswer):
    change: _Change  # preset `released` clamps and counts what lies outside ±10, so a model must be able to write it


class _SpeakAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    attitude: Annotated[str, Sent(maxLength=400)]
    aim: Annotated[str, Sent(maxLength=400)]
    tone: Annotated[str, Sent(maxLength=400)]
    matter: Annotated[str, Sent(maxLength=400)]
    reply: Annotated[str, Sent(maxLength=900)] = Field(min_length=1)
    leaves: bool = False


class SageLLMUser(RoleModel):
    """A user simulator that is a language model.

    Under preset `released` a change outside ±10 is returned, to be clamped and counted. Variant `challenging` uses the more
    reserved manner (RLVER App. D.1).

    Args:
        sampling: sampling settings of both calls; its seed, or else the dialogue's, is advanced by turn and step.
        role: role of its calls in the transcript; `judge` for rejudging.
    """

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "user") -> None:
        names = ["feel", "feel_turn", "speak", "speak_turn", "purpose_support", "purpose_chat"]
        prompts = {name: load_prompt(__package__, name) for name in [*names, *(_manner(v) for v in VARIANTS)]}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)
        self._system_prompts = SystemPrompts()

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        others = {_manner(v) for v in VARIANTS if v != variant}
        prompts = {name: prompt.hash for name, prompt in self._prompts.items() if name not in others}
        return {**super().describe(), "prompts": prompts}

    def admit(self, scenario: AnySageScenario) -> None:
        if not scenario.first_message.strip():
            raise InputError(
                f"scenario {scenario.id!r} has no first message, like all released training profiles; "
                "add record.first_talk, or remove the scenario from the file"
            )

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        answer = await ask(
            self._model,
            [
                self._system("feel", view),
                Message(
                    role="user",
                    content=self._prompts["feel_turn"].fill(
                        dialogue=alternating_text(("Person", view.said), ("NPC", view.heard)), emotion=f"{view.emotion:g}"
                    ),
                ),
            ],
            _FeelAnswer if view.preset == "corrected" else _ReleasedFeelAnswer,
            sampling=self._sampling.seeded(view.seed, 2 * view.turn),
            check=_change_in_range if view.preset == "corrected" else None,
            on_reply=log.recorder("feel", view.turn, self._role),
        )
        return Feeling(float(answer.change), answer.content, answer.fit, answer.activity, answer.feeling)

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        planning = "\n".join(
            (
                f"What the NPC wants to say: {feeling.content}",
                f"Whether it serves you: {feeling.fit}",
                f"What goes through your mind: {feeling.activity}",
                f"How you feel about it: {feeling.feeling}",
            )
        )
        answer = await ask(
            self._model,
            [
                self._system("speak", view),
                Message(
                    role="user",
                    content=self._prompts["speak_turn"].fill(
                        dialogue=alternating_text(("Person", view.said), ("NPC", view.heard)),
                        planning=planning,
                        band=view.manner,
                        emotion=f"{view.emotion:g}",
                    ),
                ),
            ],
            _SpeakAnswer,
            sampling=self._sampling.seeded(view.seed, 2 * view.turn + 1),
            check=_speaks_for_itself,
            on_reply=log.recorder("speak", view.turn, self._role),
        )
        return Speech(answer.reply.strip(), answer.leaves)

    def _system(self, step: str, view: SageView) -> Message:
        """The system prompt of a step, made once per scenario, since it is constant in a dialogue."""
        scenario = view.scenario
        return self._system_prompts.of(
            scenario,
            f"{step} {view.variant}",
            lambda: self._prompts[step].fill(
                purpose=self._prompts[f"purpose_{scenario.family}"].text,
                intention=scenario.intention_text,
                goal=scenario.goal,
                manner=self._prompts[_manner(view.variant)].text,
                persona=render_persona(scenario),
                background=render_background(scenario),
            ),
        )


def _manner(variant: str) -> str:
    return f"manner_{variant}"


def _change_in_range(answer: _FeelAnswer) -> str | None:
    if abs(answer.change) > CHANGE_LIMIT:
        return f"change is {answer.change}, expected a whole number from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
    return None


def _speaks_for_itself(answer: _SpeakAnswer) -> str | None:
    if speaks_for(answer.reply):
        return "the reply speaks for the NPC; write only what the person says"
    if not answer.reply.strip():
        return "the reply is blank"
    return None


def render_persona(scenario: AnySageScenario) -> str:
    """The persona in the prompt; for an imported scenario its text."""
    if isinstance(scenario, SageReleasedScenario):
        return f"{scenario.record.player}\n(Speaks the language this is written in.)"
    p = scenario.persona
    lines = [
        f"{p.name}, {p.age}, {p.gender}, {p.occupation}. {p.place}.",
        f"Character: {', '.join(p.traits)}.",
        f"Habits: {p.habits}",
        "Loves: " + " ".join(p.hobbies),
        f"Speaks: {p.speaking_style}",
        f"In talk: {p.way_of_speaking}",
    ]
    if isinstance(scenario, SageScenario):
        voice = (scenario.beats[0].text, *scenario.lines.acks[:2], scenario.lines.vague[0])
        lines.append(f"Sounds like this: {' / '.join(voice)}")
    return "\n".join(lines)


def render_background(scenario: AnySageScenario) -> str:
    """The background in the prompt; for an imported scenario its text."""
    if isinstance(scenario, SageReleasedScenario):
        return scenario.record.scene
    b = scenario.background
    lines = [b.event, "Course of events:"]
    lines += [f"- {m.when}: {m.what} ({m.felt})" for m in b.timeline]
    if b.conflict is not None:
        lines.append(f"Conflict: {b.conflict.what} Between: {b.conflict.who}. Beneath it: {b.conflict.why}")
    if b.tried:
        lines.append("Tried without success: " + " ".join(a.text for a in b.tried))
    lines += [
        f"The trouble now: {b.problem}" if scenario.family == "support" else f"The moment: {b.problem}",
        f"State of things: {b.now}",
    ]
    if scenario.concerns:
        lines.append("What weighs or matters, from surface to core: " + " ".join(c.text for c in scenario.concerns))
    r = b.reactions
    lines += [f"In high mood: {r.high}", f"In middling mood: {r.normal}", f"In low mood: {r.low}"]
    lines += ["Lifts the mood: " + "; ".join(b.lifts) + ".", "Sinks the mood: " + "; ".join(b.sinks) + "."]
    return "\n".join(lines)


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


class SageEmbeddedUser(AppraisingPlayer):
    """The user whose changes an appraiser gives."""

    reading = READING

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return super().describe()

    def admit(self, scenario: AnySageScenario) -> None:
        """Refuses a scenario that the appraiser does not understand, and to play one without written lines.

        Raises:
            InputError: says so.
        """
        written = isinstance(scenario, SageScenario)
        beats = (beat.text for beat in scenario.beats) if isinstance(scenario, SageScenario) else ()
        self.appraiser.admit(scenario.id, (scenario.first_message or "", *beats))
        if self.role != "judge" and not written:
            raise no_written_lines(scenario.id, self.name)

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        appraisal = self.appraiser.appraise(view.scenario, view.said, view.heard, seed=view.seed)
        raw, variant = appraisal.change["emotion"], _BY_VARIANT[view.variant]
        change = round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, raw * (variant.up if raw > 0 else variant.down))), 1)
        after = max(0.0, min(100.0, view.emotion + change))
        return Feeling(change, *_thoughts(appraisal, change, after, view), evidence_of(appraisal))

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
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


def _thoughts(appraisal: Appraisal, change: float, after: float, view: SageView) -> tuple[str, str, str, str]:
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


def answer(view: SageView, feeling: Feeling) -> str:
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


def _next_beat(view: SageView, *, facts_only: bool) -> SageBeat | None:
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
