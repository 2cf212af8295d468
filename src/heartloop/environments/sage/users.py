"""The user simulators of SAGE: a language model, asked by `feel` and `speak`, and an embedded one that says written lines.

The prompts are our wording; their content follows SAGE App. E, and departures are in docs/sage.md. Both steps start with the same
text about the person and the growing dialogue, and end with the step, so that an endpoint's prompt cache is reused
(`benchmarks/prompt_cache.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, Field

from heartloop.core.dialogue import Message
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.base import RoleModel
from heartloop.environments.dialogue_text import alternating_text, pick, speaks_for
from heartloop.environments.episode import CallLog
from heartloop.environments.reading import (
    GOOD_FROM,
    HARM_FROM,
    Appraisal,
    AppraisingPlayer,
    LearnedReading,
    Missed,
    evidence_of,
    next_line,
    no_written_lines,
    open_beats,
    unsaid,
    verdict,
)
from heartloop.environments.sage.environment import OPENING, VARIANTS, Feeling, SageView, Speech
from heartloop.environments.sage.scenario import (
    AnySageScenario,
    SageBeat,
    SageBrief,
    SageScenario,
    render_background,
    render_persona,
    render_story,
)
from heartloop.environments.sage.scoring import CHANGE_LIMIT, band
from heartloop.environments.written import beats_of
from heartloop.reader.features import Context


def _plain_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a truth value; expected a whole number")
    if isinstance(value, str) and "_" in value:  # int() reads "1_0" as ten
        raise ValueError("no plain number; expected a whole number")
    return value


_Change = Annotated[int, Field(ge=-1000, le=1000), BeforeValidator(_plain_number)]  # far outside the range the answer is invalid
_LIMIT = int(CHANGE_LIMIT)


AnswerT = TypeVar("AnswerT", bound=BaseModel)
_Check = Callable[[Any], str | None] | None


class _FeelAnswer(BaseModel, populate_by_name=True):
    content: Annotated[str, Sent(maxLength=600)] = Field(min_length=1, alias="meant")
    fit: Annotated[str, Sent(maxLength=600)] = Field(min_length=1)
    activity: Annotated[str, Sent(maxLength=600)] = Field(min_length=1, alias="thoughts")
    feeling: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    change: Annotated[_Change, Sent(minimum=-_LIMIT, maximum=_LIMIT)]


class _ReleasedFeelAnswer(_FeelAnswer):
    change: _Change  # preset `released` clamps and counts what lies outside ±10, so a model must be able to write it


class _SpeakAnswer(BaseModel):
    attitude: Annotated[str, Sent(maxLength=400)]
    aim: Annotated[str, Sent(maxLength=400)]
    tone: Annotated[str, Sent(maxLength=400)]
    matter: Annotated[str, Sent(maxLength=400)]
    reply: Annotated[str, Sent(maxLength=900)] = Field(min_length=1)


_PLANNING: Mapping[str, str] = {
    "content": "What the NPC meant",
    "fit": "Whether it served",
    "activity": "What went through your mind",
    "feeling": "How you feel about it",
}
_MEMORY = 2  # earlier replies whose effect a request recalls (ours)
_NAMES = (
    "person", "feel_turn", "speak_turn", "purpose_support", "purpose_chat", *map("manner_{}".format, VARIANTS),
    "mood_released", *map("mood_{}".format, "sabcf"),
)  # fmt: skip


class SageLLMUser(RoleModel):
    """A user simulator that is a language model; a variant is another manner (RLVER App. D.1)."""

    prompts: ClassVar = {name: load_prompt(__package__, name) for name in _NAMES}

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        others = {f"manner_{other}" for other in VARIANTS if other != variant}
        prompts = {name: prompt.hash for name, prompt in self.prompts.items() if name not in others}
        return {**super().describe(), "prompts": prompts}

    async def open(self, view: SageView, log: CallLog) -> str:
        mood = self.prompts[f"mood_{view.manner.lower()}"].text
        request = [self._system(view), Message(role="user", content=OPENING.fill(emotion=f"{view.emotion:g}", mood=mood))]
        sampling, record = self._sampling.seeded(0, 0), log.recorder("open", 0, self._role)
        answer = await ask(self._model, request, _SpeakAnswer, sampling=sampling, check=_speaks_for_itself, on_reply=record)
        return answer.reply.strip()

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        corrected = view.options.preset == "corrected"
        kind, check = (_FeelAnswer, _change_in_range) if corrected else (_ReleasedFeelAnswer, None)
        answer = await self._ask("feel", view, kind, log, check)
        return Feeling(float(answer.change), answer.model_dump(exclude={"change"}))

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        planning = "\n".join(f"{title}: {feeling.thoughts[name]}" for name, title in _PLANNING.items())
        mood = self.prompts[f"mood_{view.manner.lower()}"].text
        if view.options.preset == "released":
            mood = self.prompts["mood_released"].fill(band=view.manner)
        answer = await self._ask("speak", view, _SpeakAnswer, log, _speaks_for_itself, planning=planning, mood=mood)
        return Speech(answer.reply.strip())

    async def _ask(self, step: str, view: SageView, kind: type[AnswerT], log: CallLog, check: _Check, **blanks: str) -> AnswerT:
        dialogue = alternating_text(("Person", view.messages), ("NPC", view.replies))
        memory = "\n".join(f"- mood {felt.change:+g}: {felt.thoughts.get('feeling', '')}" for felt in view.felt[-_MEMORY:])
        turn = self.prompts[f"{step}_turn"].fill(
            dialogue=dialogue, memory=memory or "- there were none", emotion=f"{view.emotion:g}", **blanks
        )
        return await ask(
            self._model,
            [self._system(view), Message(role="user", content=turn)],
            kind,
            sampling=self._sampling.seeded(view.seed, 2 * view.turn + (step == "speak")),
            check=check,
            on_reply=log.recorder(step, view.turn, self._role),
        )

    def _system(self, view: SageView) -> Message:
        scenario, variant = view.scenario, view.options.variant
        return self._system_prompts.of(scenario, variant, lambda: self._person(scenario, variant))

    def _person(self, scenario: AnySageScenario, variant: str) -> str:
        return self.prompts["person"].fill(
            purpose=self.prompts[f"purpose_{scenario.family}"].text,
            intention=scenario.intention_text,
            goal=scenario.goal,
            manner=self.prompts[f"manner_{variant}"].text,
            persona=render_persona(scenario),
            background=render_background(scenario),
            story=render_story(scenario) or "What is written above, and nothing else.",
        )


def _change_in_range(answer: _FeelAnswer) -> str | None:
    if abs(answer.change) > CHANGE_LIMIT:
        return f"change is {answer.change}, expected a whole number from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
    return None


def _speaks_for_itself(answer: _SpeakAnswer) -> str | None:
    if not answer.reply.strip():
        return "the reply is blank"
    return "the reply speaks for the NPC; write only what the person says" if speaks_for(answer.reply) else None


def context_of(scenario: SageBrief, messages: Sequence[str], replies: Sequence[str]) -> Context:
    background = scenario.background
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=(*unsaid(scenario.concerns, beats_of(scenario), messages), *background.lifts),
        sore=tuple(background.sinks),
    )


READING = LearnedReading("sage", context_of, ("emotion",), (-1.0, 1.0), {"": ((-10.0,), (10.0,))}, silence=-0.2)
"""The change of emotion."""


class _Variant(NamedTuple):
    up: float
    down: float
    core_from: float  # emotion from which the person says what matters most


_BY_VARIANT: Mapping[str, _Variant] = {
    "vanilla": _Variant(1.0, 1.0, 50.0),
    **dict.fromkeys(("challenging", "hard"), _Variant(0.7, 1.2, 75.0)),
}
"""Ours. RLVER's challenging user conceals more and is another, more critical model (App. D.1); here one user is both."""
_COLD_BELOW = 22  # emotion below which every second line is a cold one


class SageEmbeddedUser(AppraisingPlayer):
    """The user without a language model: an appraiser gives the changes of emotion, and the person says written lines."""

    reading = READING

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return super().describe()

    def admit(self, scenario: AnySageScenario) -> None:
        self.appraiser.admit(scenario.id, (scenario.first_message, *(beat.text for beat in beats_of(scenario))))
        if self.role != "judge" and not isinstance(scenario, SageScenario):
            raise no_written_lines(scenario.id, self.name)

    async def open(self, view: SageView, log: CallLog) -> str:
        raise no_written_lines(view.scenario.id, self.name)

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        appraisal = self.appraiser.appraise(view.scenario, view.messages, view.replies, seed=view.seed)
        raw, variant = appraisal.change["emotion"], _BY_VARIANT[view.options.variant]
        change = round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, raw * (variant.up if raw > 0 else variant.down))), 1)
        after = max(0.0, min(100.0, view.emotion + change))
        return Feeling(change, _thoughts(appraisal, change, after, view), evidence_of(appraisal))

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        """A farewell at the ends, else `next_line`; the core only from the mood that the variant asks for."""
        scenario = view.scenario
        assert isinstance(scenario, SageScenario)  # others are not admitted
        lines = scenario.lines
        if view.manner in ("S", "F"):
            return Speech(pick(lines.thanks if view.manner == "S" else lines.leave, "line", scenario.id, view.seed, view.turn))
        core = view.emotion >= _BY_VARIANT[view.options.variant].core_from
        beats = open_beats(scenario.beats, view.messages, good=feeling.change >= GOOD_FROM, core=core)
        line = next_line(
            view,
            worth=feeling.change,
            beat=_asked_about(beats, view.replies[-1]),
            missed=getattr(lines, _LINES[feeling.evidence.get("missed", "vague")]),
            general=lines.vague,
            cold=view.emotion < _COLD_BELOW,
        )
        return Speech(line)


_THOUGHTS = packaged_table(__package__, "thoughts.toml")
_LEVELS = (("high", 4.0), ("up", GOOD_FROM), ("flat", HARM_FROM + 0.1), ("down", -3.9))
"""Least change of each level of activities; `low` below."""
_QUOTED = 140


def _thoughts(appraisal: Appraisal, change: float, after: float, view: SageView) -> dict[str, str]:
    """The four texts of an appraisal, as the person would think them; a student's say what it predicted and no more."""
    if appraisal.reading is None:
        return {"content": "", "fit": "", "activity": f"predicted change {change:+.1f}", "feeling": ""}
    reply = " ".join(view.replies[-1].split())
    quote = reply if len(reply) <= _QUOTED else reply[: _QUOTED - 3].rsplit(" ", 1)[0] + "..."
    level = next((name for name, least in _LEVELS if change >= least), "low")
    return {
        "content": "They said nothing." if appraisal.silent else f"They said: “{quote}”",
        "fit": verdict(appraisal, change),
        "activity": pick(_THOUGHTS["activities"][level], "activity", view.scenario.id, view.turn),
        "feeling": _THOUGHTS["moods"][band(after)],
    }


_LINES: Mapping[Missed, str] = {
    "silence": "silence", "repeat": "repeat", "cruel": "cold", "lecture": "lecture", "advice": "advice", "template": "template",
    "flattery": "flattery", "misread": "misread", "unfelt": "minimise", "vague": "vague",
}  # fmt: skip

_ASKED_ABOUT: tuple[tuple[str, str], ...] = (
    ("tried", r"\b(tried|try|attempt\w*|done about|so far|already)\b"),
    ("feeling", r"\b(feel\w*|went through you|like for you|was it like|hardest|hurt\w*)\b"),
    ("wish", r"\b(want|wish|hope|like to|need|different|first sign|come out of)\b"),
    ("other", r"\b(he|she|they|him|her|them|who|think\w*|say|said)\b"),
    ("event", r"\b(happen\w*|next|how did|when|where|come to)\b"),
)


def _asked_about(beats: Sequence[SageBeat], reply: str) -> SageBeat | None:
    """The first beat, or the one of the next three that the reply asked about."""
    questions = " ".join(part for part in re.split(r"(?<=[.!?])", reply.lower()) if part.endswith("?"))
    asked = [about for about, pattern in _ASKED_ABOUT if re.search(pattern, questions)]
    fitting = (beat for about in asked for beat in beats[:3] if beat.about == about)
    return next(fitting, beats[0] if beats else None)
