"""The LLM roles of EMPA: user, judge and director as structured questions to models.

Covers the prompts of a scenario and the validation of answers. Does not cover state rules (`environment`). The prompts in
`prompts/` are our wording. The user simulator sees only what the director has released; judge and director see everything.

The director's function calls are structured output, checked against the fixed set, because a `ChatModel` has no tool calling. A
level whose quote is not found in the dialogue, an invalid call, or an answer that speaks for the policy is re-asked; an answer
that stays invalid raises, so that the dialogue is unscored.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, WithJsonSchema

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import QUOTED, Sent
from heartloop.environments.base import SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, passages_of, speaks_for, stands_in
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import (
    FUNCTIONS,
    MEMORIES,
    MIN_TURNS,
    SPEC,
    STAGES,
    Act,
    EmpaUser,
    EmpaView,
    Judgement,
    call_problem,
)
from heartloop.environments.empa.scenario import SOURCES, EmpaBrief, render_card, render_released, source_text
from heartloop.environments.empa.scoring import AXES
from heartloop.environments.episode import CallLog

__all__ = ["ROLES", "EmpaLLMUser", "MixedRoles", "dialogue_of", "players"]


_RECENT = 5
_FOCUS: Mapping[str, str] = {
    "": "Wherever it is.",
    "C": "You want to be understood, and to understand it yourself.",
    "A": "What you feel is in front.",
    "P": "Whether anything can still be done, and what you are worth in it.",
}
_ENDING: Mapping[str, str] = {
    "success": "It has become lighter. These are your last words in this talk: part in your own manner.",
    "failure": "This talk has not helped. These are your last words in it: part in your own manner.",
    "goodbye": "The talk has come to its end. These are your last words in it: part in your own manner.",
}


class _Speech(BaseModel):
    model_config = ConfigDict(extra="ignore")
    inside: Annotated[str, Sent(maxLength=400)] = ""
    reply: Annotated[str, Sent(maxLength=1200)] = Field(min_length=1)


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    level: StrictInt
    quote: Annotated[str, Sent(maxLength=200)] = ""
    reason: Annotated[str, Sent(maxLength=200)] = ""


class _Zero(_Line):
    level: Literal[0]
    quote: Annotated[str, Sent(enum=[""])] = ""
    reason: Annotated[str, Sent(enum=[""])] = ""


class _NotZero(_Line):
    quote: Annotated[str, Sent(minLength=1, maxLength=200), QUOTED] = ""
    reason: Annotated[str, Sent(minLength=1, maxLength=200)] = ""


class _Gain(_NotZero):
    level: Literal[1, 2]


class _Loss(_NotZero):
    level: Literal[-1, -2]


def _sent_as(*kinds: type[_Line]) -> WithJsonSchema:
    """What is sent is a choice of kinds, so that a server that enforces schemas lets no level stand without its quote."""
    return WithJsonSchema({"anyOf": [kind.model_json_schema() for kind in kinds]})


class _Progress(_Line):
    level: StrictInt = Field(ge=0, le=2)


class _Regress(_Line):
    level: StrictInt = Field(ge=-2, le=0)


class _Axis(BaseModel):
    model_config = ConfigDict(extra="ignore")
    progress: Annotated[_Progress, _sent_as(_Zero, _Gain)]
    regress: Annotated[_Regress, _sent_as(_Zero, _Loss)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore")
    C: _Axis
    A: _Axis
    P: _Axis

    def lines(self) -> dict[str, _Line]:
        """Levels with quote and reason, by the keys of an MDEP form."""
        lines: dict[str, _Line] = {}
        for axis in AXES:
            sides: _Axis = getattr(self, axis)
            lines |= {f"{axis}.Prog": sides.progress, f"{axis}.Neg": sides.regress}
        return lines


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore")
    observed: Annotated[str, Sent(maxLength=500)] = ""
    function: Annotated[str, Sent(enum=list(FUNCTIONS))]
    argument: Annotated[str, Sent(enum=["", *chain.from_iterable(FUNCTIONS.values())])] = ""
    note: Annotated[str, Sent(maxLength=400)] = ""
    reason: Annotated[str, Sent(maxLength=400)] = ""


class EmpaLLMUser:
    """User, judge and director as language models.

    Args:
        model: plays the user, and each other role that has no model.
        sampling: sampling settings of all calls; its seed, or else the dialogue's, is advanced by turn and role.
        samplings: sampling settings by role, instead of `sampling`.
        role: `judge` for rejudging, where only the judge is called.
        judge: model of the judge.
        director: model of the director.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        sampling: Sampling | None = None,
        role: str = "user",
        judge: ChatModel | None = None,
        director: ChatModel | None = None,
        samplings: Mapping[str, Sampling] | None = None,
    ) -> None:
        self._model = model
        self._judge = judge or model
        self._director = director or model
        self._only_judges = role == "judge"
        by_role = samplings or {}
        self._samplings = {role: by_role.get(role, sampling or Sampling()) for role in ("user", "judge", "director")}
        names = ("speak", "speak_turn", "adjudicate", "adjudicate_turn", "direct", "direct_turn")
        self._prompts = {name: load_prompt(__package__, name) for name in names}
        self._system_prompts = SystemPrompts()

    @property
    def name(self) -> str:
        return self._model.name

    def describe(self) -> Mapping[str, Any]:
        models = {"user": self._model.name, "judge": self._judge.name, "director": self._director.name}
        used = {"judge": self._judge.name} if self._only_judges else models
        return {
            "models": used,
            "sampling": {role: self._samplings[role] for role in used},
            "prompts": {
                name: prompt.hash
                for name, prompt in self._prompts.items()
                if not self._only_judges or name.startswith("adjudicate")
            },
        }

    def admit(self, scenario: EmpaBrief) -> None:
        """Accepts every scenario, in any language."""

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        note = next((act.note for act in reversed(view.acts[-1:]) if act.note), "")
        text = self._prompts["speak_turn"].fill(
            dialogue=dialogue_of(view, "You", "Supporter"),
            memory=render_released(view.scenario, view.released),
            guidance=f"{_FOCUS[view.focus]} {note}".strip(),
            ending=_ENDING.get(view.ending or "", ""),
        )
        answer = await ask(
            self._model,
            [self._system("speak", view), Message(role="user", content=text)],
            _Speech,
            sampling=self._samplings["user"].seeded(view.seed, 3 * view.turn),
            check=_speaks_for_itself,
            on_reply=log.recorder("speak", view.turn, "user"),
        )
        return answer.reply.strip()

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        messages = (*view.said, *view.heard)

        def grounded(form: _Form) -> str | None:
            for key, line in form.lines().items():
                if line.level and not stands_in(line.quote, messages):
                    return (
                        f"{key} is {line.level}, and its quote {line.quote!r} does not stand in the dialogue; quote exact words"
                    )
                if line.level and not line.reason.strip():
                    return f"{key} is {line.level} without a reason"
            return None

        window = "reply" if view.window == 1 else f"{view.window} replies"
        text = self._prompts["adjudicate_turn"].fill(dialogue=dialogue_of(view, "Person", "Supporter"), window=window)
        form = await ask(
            self._judge,
            [self._system("adjudicate", view), Message(role="user", content=text)],
            _Form,
            sampling=self._samplings["judge"].seeded(view.seed, 3 * view.turn + 1),
            check=grounded,
            passages=passages_of(messages),
            on_reply=log.recorder("adjudicate", view.turn, "judge"),
        )
        lines = form.lines()
        not_zero = {key: line for key, line in lines.items() if line.level}
        return Judgement(
            {key: line.level for key, line in lines.items()},
            {key: line.quote.strip() for key, line in not_zero.items()},
            {key: line.reason.strip() for key, line in not_zero.items()},
        )

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        def valid(call: _Call) -> str | None:
            return call_problem(_act(call), released=view.released, turns=view.turn + 1)

        levels = view.judgements[-1].levels
        text = self._prompts["direct_turn"].fill(
            dialogue=dialogue_of(view, "Person", "Supporter"),
            turns=str(view.turn + 1),
            state=_point(view.path.position[-1]),
            start=_point(view.path.position[0]),
            energy=", ".join(f"{energy:+.1f}" for energy in view.path.energy[-_RECENT:]),
            levels=", ".join(f"{key} {level:+d}" for key, level in levels.items() if level) or "all 0",
            released=", ".join(view.released),
            acts=", ".join(f"{act.function}({act.argument})" for act in view.acts[-_RECENT:]) or "none",
        )
        call = await ask(
            self._director,
            [self._system("direct", view), Message(role="user", content=text)],
            _Call,
            sampling=self._samplings["director"].seeded(view.seed, 3 * view.turn + 2),
            check=valid,
            on_reply=log.recorder("direct", view.turn, "director"),
        )
        return _act(call)

    def _system(self, name: str, view: EmpaView) -> Message:
        """The system prompt of a role, made once per scenario, since it is constant in a dialogue."""
        return self._system_prompts.of(view.scenario, name, lambda: self._system_text(name, view))

    def _system_text(self, name: str, view: EmpaView) -> str:
        blanks = {"card": render_card(view.scenario)}
        if name != "speak":
            blanks["story"] = "\n".join(source_text(view.scenario, source) for source in SOURCES)
        if name == "direct":
            blanks |= {
                "stages": ", ".join(STAGES),
                "memories": ", ".join(MEMORIES),
                "min_turns": str(MIN_TURNS),
                "max_turns": str(view.max_turns),
            }
        return self._prompts[name].fill(**blanks)


def _speaks_for_itself(answer: _Speech) -> str | None:
    if not answer.reply.strip():
        return "the reply is blank"
    if speaks_for(answer.reply):
        return "the reply speaks for the supporter; write only what you say yourself"
    return None


def _act(call: _Call) -> Act:
    """The call; an argument of a function that takes none is left out, as the choice is plain without it."""
    function = call.function.strip()
    argument = call.argument.strip() if FUNCTIONS.get(function, (function,)) else ""
    return Act(function, argument, call.note.strip(), call.reason.strip())


def _point(position: Any) -> str:
    return ", ".join(f"{axis} {float(x):+g}" for axis, x in zip(AXES, position, strict=True))


def dialogue_of(view: EmpaView, user: str, policy: str) -> str:
    """The dialogue as text, starting with the user, with these names of the speakers."""
    return alternating_text((user, view.said), (policy, view.heard))


ROLES = ("user", "judge", "director")


class MixedRoles:
    """Three roles with one player each; used if some are models and some embedded.

    Args:
        parts: player by role (`user`, `judge`, `director`).
    """

    def __init__(self, parts: Mapping[str, EmpaUser]) -> None:
        self._parts = parts

    @property
    def name(self) -> str:
        return self._parts["user"].name

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

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        return await self._parts["user"].speak(view, log)

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        return await self._parts["judge"].adjudicate(view, log)

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        return await self._parts["director"].direct(view, log)


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmpaUser:
    """The three roles. One without a language model is embedded: by the learned reader, or by a student."""
    appraisers = {role: SPEC.appraiser(models.get(role)) for role in ROLES}
    llm = {role: model for role in ROLES if (model := models.get(role)) is not None and appraisers[role] is None}
    parts: dict[str, EmpaUser] = {role: EmpaEmbeddedUser(appraisers[role], role=role) for role in ROLES if role not in llm}
    if llm:
        speaker = llm.get("user") or next(iter(llm.values()))
        llm_user = EmpaLLMUser(speaker, judge=llm.get("judge"), director=llm.get("director"), samplings=samplings)
        if not parts:
            return llm_user
        parts |= dict.fromkeys(llm, llm_user)
    elif len({part.name for part in parts.values()}) == 1:
        return parts["user"]
    return MixedRoles(parts)
