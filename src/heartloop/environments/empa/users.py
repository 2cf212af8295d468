"""EMPA's user, judge and director as language models, and the players of a run: models, embedded, or both.

The prompts in `prompts/` are our wording. Every role knows the whole scenario; the user simulator reads what to keep back.
The director's function calls are structured output, because a `ChatModel` has no tool calling. An answer that stays invalid
raises, so that the dialogue is unscored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from textwrap import shorten
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.core.schemas import QUOTED, Sent
from heartloop.environments.base import SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, passages_of, speaks_for, stands_in
from heartloop.environments.empa.embedded import QUIET, EmpaEmbeddedUser
from heartloop.environments.empa.environment import (
    FUNCTIONS,
    MEMORIES,
    MIN_TURNS,
    SPEC,
    STAGES,
    Act,
    DeficitJudge,
    Empa,
    EmpaUser,
    EmpaView,
    Judgement,
    call_problem,
)  # fmt: skip
from heartloop.environments.empa.scenario import SOURCES, EmpaBrief, render_card, render_story
from heartloop.environments.empa.scoring import AXES, DEFICIT_POINTS, deficit, form_keys
from heartloop.environments.episode import CallLog

_ASKED = {"user": "speak", "judge": "adjudicate", "director": "direct"}
"""Prompts by role: NAME is the system prompt, NAME_turn the question."""
_RECENT = 5
_CREDITED = 24  # levels that the judge is reminded of, the latest ones
_FOCUS_HOLDS = 3  # messages for which a focus holds, if windows have one reply
_FOCUS: Mapping[str, str] = {
    "": "what the latest reply has touched.",
    "C": "you want to be understood, and to understand it yourself.",
    "A": "what you feel.",
    "P": "whether anything can still be done, and what you are worth in it.",
}
_ENDING = "The talk ends here. These are your last words in it: part in your own manner, as it has left you."


_AnswerT = TypeVar("_AnswerT", bound=BaseModel)


class _Speech(BaseModel):
    inside: Annotated[str, Sent(maxLength=400)] = ""
    reply: Annotated[str, Sent(maxLength=1200)] = Field(min_length=1)


class _Mark(BaseModel):
    quote: Annotated[str, Sent(minLength=1, maxLength=200), QUOTED] = ""
    reason: Annotated[str, Sent(minLength=1, maxLength=200)] = ""
    level: Annotated[StrictInt, Sent(enum=[-2, -1, 1, 2])] = Field(ge=-2, le=2)


_Marks = Annotated[list[_Mark], Sent(maxItems=2)]  # progress and regress; none is 0 and 0, so that no level lacks its quote


class _Form(BaseModel):
    C: _Marks
    A: _Marks
    P: _Marks

    @property
    def marks(self) -> list[tuple[str, _Mark]]:
        axes = (("C", self.C), ("A", self.A), ("P", self.P))
        return [(f"{axis}.{'Prog' if mark.level > 0 else 'Neg'}", mark) for axis, marks in axes for mark in marks if mark.level]


class _Rating(BaseModel):
    indicator: Annotated[str, Sent(enum=list(DEFICIT_POINTS))]
    quote: Annotated[str, Sent(maxLength=300)] = ""
    reason: Annotated[str, Sent(minLength=1, maxLength=300)] = ""
    level: Annotated[StrictInt, Sent(enum=[0, 1, 2, 3])] = Field(ge=0, le=3)


class _Deficit(BaseModel):
    ratings: Annotated[list[_Rating], Sent(minItems=len(DEFICIT_POINTS), maxItems=len(DEFICIT_POINTS))]

    @property
    def levels(self) -> dict[str, int]:
        return {rating.indicator: rating.level for rating in self.ratings}


class _Call(BaseModel):
    observed: Annotated[str, Sent(maxLength=500)] = ""
    function: Annotated[str, Sent(enum=list(FUNCTIONS))]
    argument: Annotated[str, Sent(enum=["", *chain.from_iterable(FUNCTIONS.values())])] = ""
    note: Annotated[str, Sent(maxLength=400)] = ""
    reason: Annotated[str, Sent(maxLength=400)] = ""

    @property
    def act(self) -> Act:
        function = self.function.strip()
        argument = self.argument.strip() if FUNCTIONS.get(function, (function,)) else ""
        return Act(function, argument, self.note.strip(), self.reason.strip())


class EmpaLLMUser:
    """User, judge and director as language models; only the judge if that is `role`, for rejudging.

    `model` and `sampling` are of each role that `models` and `samplings` do not name.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        sampling: Sampling | None = None,
        role: str = "user",
        models: Mapping[str, ChatModel] | None = None,
        samplings: Mapping[str, Sampling] | None = None,
    ) -> None:
        roles = ("judge",) if role == "judge" else tuple(_ASKED)
        self._models = {name: (models or {}).get(name, model) for name in roles}
        self._samplings = {name: (samplings or {}).get(name, sampling or Sampling()) for name in roles}
        names = ["sheet", *(name for each in roles for name in (_ASKED[each], f"{_ASKED[each]}_turn"))]
        self._prompts = {name: load_prompt(__package__, name) for name in names}
        self._system_prompts = SystemPrompts()
        self.name = model.name

    def describe(self) -> Mapping[str, Any]:
        return {
            "models": {role: model.name for role, model in self._models.items()},
            "sampling": self._samplings,
            "prompts": {name: prompt.hash for name, prompt in self._prompts.items()},
        }

    def admit(self, scenario: EmpaBrief) -> None:
        """Accepts every scenario, in any language."""

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        def check(answer: _Speech) -> str | None:
            if not answer.reply.strip():
                return "the reply is blank"
            return "the reply speaks for the supporter; write only what you say yourself" if speaks_for(answer.reply) else None

        blanks = {
            "dialogue": alternating_text(("You", view.said), ("Supporter", view.heard)),
            "released": ", ".join(view.released),
            "kept": ", ".join(stage for stage in STAGES if stage not in view.released) or "nothing any more",
            "guidance": f"{_FOCUS[_focus(view.acts)]} {view.acts[-1].note if view.acts else ''}".strip(),
            "ending": _ENDING if view.ending else "",
        }
        return (await self._ask("user", view, log, _Speech, check, blanks)).reply.strip()

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        replies = view.heard[-view.window :]

        def check(form: _Form) -> str | None:
            keys = [key for key, _ in form.marks]
            for key, mark in form.marks:
                if not stands_in(mark.quote, replies):
                    return f"{key} quotes {mark.quote!r}, which the supporter does not say in the window; quote exact words of it"
                if not mark.reason.strip():
                    return f"{key} is {mark.level} without a reason"
                if keys.count(key) > 1:
                    return f"{key} has two levels; give the stronger one"
            return None

        form = await self._ask(
            "judge", view, log, _Form, check, window_blanks(view) | {"credited": _credited(view)}, passages_of(replies)
        )
        return Judgement(
            dict.fromkeys(form_keys(), 0) | {key: mark.level for key, mark in form.marks},
            {key: mark.quote.strip() for key, mark in form.marks},
            {key: mark.reason.strip() for key, mark in form.marks},
        )

    async def rate(self, view: EmpaView, log: CallLog) -> Sequence[float]:
        sheet = sheet_of(self._prompts["sheet"], view.scenario)

        def check(form: _Deficit) -> str | None:
            if sorted(rating.indicator for rating in form.ratings) != sorted(DEFICIT_POINTS):
                return f"expected each of {', '.join(DEFICIT_POINTS)} once"
            for one in form.ratings:
                if one.level and not (stands_in(one.quote, [sheet]) and one.reason.strip()):
                    needs = f"it needs a reason, and exact words of the sheet as its quote, not {one.quote!r}"
                    return f"{one.indicator} is {one.level}; {needs}"
            return None if any(form.levels.values()) else "every level is 0; a person who lacks nothing is no case"

        form = await ask(
            self._models["judge"],
            [
                Message(role="system", content=Empa.iedr.fill(sheet=sheet)),
                Message(role="user", content=load_prompt(__package__, "iedr_turn").text),
            ],
            _Deficit,
            sampling=self._samplings["judge"].seeded(view.seed, 0),
            check=check,
            on_reply=log.recorder("iedr", 0, "judge"),
        )
        return [float(points) for points in deficit(form.levels)]

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        energy, released = view.path.energy, view.released
        quiet = len(energy) >= QUIET and bool((energy[-QUIET:] <= 0).all())

        def check(call: _Call) -> str | None:
            left = [source for source in SOURCES if source not in released]
            if call.act.function == "end" and left and not quiet and view.turn + 1 >= MIN_TURNS[view.preset]:
                return f"the talk does not end while {', '.join(left)} can still come up"
            return call_problem(call.act, released=released, turns=view.turn + 1, preset=view.preset)

        levels = view.judgements[-1].levels
        start, state = (", ".join(map("{} {:+g}".format, AXES, view.path.position[n])) for n in (0, -1))
        blanks = {
            "dialogue": window_blanks(view)["dialogue"],
            "turns": str(view.turn + 1),
            "state": state,
            "start": start,
            "total": f"{view.path.total:.1f}",
            "need": f"{view.path.distance[0]:.1f}",
            "lacking": "was lacking at the start" if view.preset == "released" else "was lacking before each",
            "energy": ", ".join(f"{round(one, 1) + 0.0:+.1f}" for one in energy[-_RECENT:]),
            "levels": ", ".join(f"{key} {level:+d}" for key, level in levels.items() if level) or "all 0",
            "released": ", ".join(released),
            "focus": _focus(view.acts, ahead=1) or "none",
            "acts": ", ".join(f"{act.function}({act.argument})" for act in view.acts[-_RECENT:]) or "none",
        }
        return (await self._ask("director", view, log, _Call, check, blanks)).act

    async def _ask(
        self,
        role: str,
        view: EmpaView,
        log: CallLog,
        answer: type[_AnswerT],
        check: Callable[[_AnswerT], str | None],
        blanks: Mapping[str, str],
        passages: Iterable[str] = (),
    ) -> _AnswerT:
        name = _ASKED[role]
        system = self._system_prompts.of(view.scenario, name, lambda: self._system_text(name, view))  # constant in a dialogue
        return await ask(
            self._models[role],
            [system, Message(role="user", content=self._prompts[f"{name}_turn"].fill(**blanks))],
            answer,
            sampling=self._samplings[role].seeded(view.seed, 3 * view.turn + list(_ASKED).index(role)),
            check=check,
            passages=passages,
            on_reply=log.recorder(name, view.turn, role),
        )

    def _system_text(self, name: str, view: EmpaView) -> str:
        blanks = {"sheet": sheet_of(self._prompts["sheet"], view.scenario)}
        if name == "speak":
            told = [f"- {beat.source}: {beat.text}" for beat in view.scenario.told]
            blanks["details"] = "\n".join(told) or "- nothing beyond the sheet"
        elif name == "direct":
            blanks |= {
                "stages": ", ".join(STAGES),
                "memories": ", ".join(MEMORIES),
                "focus_holds": str(_FOCUS_HOLDS),
                "quiet": str(QUIET),
                "min_turns": str(MIN_TURNS[view.preset]),
                "max_turns": str(view.max_turns),
            }
        return self._prompts[name].fill(**blanks)


def sheet_of(prompt: Prompt, scenario: EmpaBrief) -> str:
    """Person and story, with which the system prompts of all roles begin, so that a server computes them once."""
    return prompt.fill(card=render_card(scenario), story=render_story(scenario))


def window_blanks(view: EmpaView) -> dict[str, str]:
    dialogue = alternating_text(("Person", view.said), ("Supporter", view.heard))
    return {"dialogue": dialogue, "window": "reply" if view.window == 1 else f"{view.window} replies"}


def _focus(acts: Sequence[Act], *, ahead: int = 0) -> str:
    """The axis in front, which lapses; `ahead=1` is after the call that the director is about to make."""
    recent = acts[max(0, len(acts) + ahead - _FOCUS_HOLDS) :]
    return next((act.argument for act in reversed(recent) if act.function == "adjust_focus"), "")


def _credited(view: EmpaView) -> str:
    lines = [
        f"- window {number}: {key[0]} {level:+d} “{shorten(judged.quotes.get(key, ''), 80, placeholder=' ...')}”"
        for number, judged in enumerate(view.judgements, start=1)
        for key, level in judged.levels.items()
        if level > 0
    ]
    return "\n".join(lines[-_CREDITED:]) or "- none"


class MixedRoles:
    """Three roles with one player each; used if some are models and some embedded."""

    def __init__(self, parts: Mapping[str, EmpaUser]) -> None:
        self._parts = parts
        self.name = parts["user"].name
        self.speak, self.adjudicate, self.direct = parts["user"].speak, parts["judge"].adjudicate, parts["director"].direct
        if isinstance(judge := parts["judge"], DeficitJudge):
            self.rate = judge.rate

    def describe(self) -> Mapping[str, Any]:
        described = {role: part.describe() for role, part in self._parts.items()}
        return {
            "models": {role: one["models"][role] for role, one in described.items()},
            "sampling": {role: one["sampling"][role] for role, one in described.items() if role in one.get("sampling", {})},
            "prompts": {name: text for one in described.values() for name, text in one["prompts"].items()},
        }

    def admit(self, scenario: EmpaBrief) -> None:
        for part in self._parts.values():
            part.admit(scenario)


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmpaUser:
    """The three roles; one without a language model is embedded: by the learned reader, or by a student."""
    appraisers = {role: SPEC.appraiser(models.get(role)) for role in _ASKED}
    llm = {role: model for role in _ASKED if appraisers[role] is None and (model := models.get(role)) is not None}
    parts: dict[str, EmpaUser] = {role: EmpaEmbeddedUser(appraisers[role], role=role) for role in _ASKED if role not in llm}
    if llm:
        speaker = llm.get("user") or next(iter(llm.values()))
        parts |= dict.fromkeys(llm, EmpaLLMUser(speaker, models=llm, samplings=samplings))
    alike = not llm and len({part.name for part in parts.values()}) == 1
    return parts["user"] if alike or len(llm) == len(_ASKED) else MixedRoles(parts)
