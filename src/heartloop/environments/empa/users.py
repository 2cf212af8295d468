"""EMPA's user, judge and director as language models, and the players of a run: models, embedded, or both.

The prompts in `prompts/` are our wording. The user simulator sees only what the director has released. The director's function
calls are structured output, because a `ChatModel` has no tool calling. An answer that stays invalid raises, so that the dialogue
is unscored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StrictInt, WithJsonSchema

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
)  # fmt: skip
from heartloop.environments.empa.scenario import SOURCES, EmpaBrief, render_card, render_released
from heartloop.environments.empa.scoring import AXES
from heartloop.environments.episode import CallLog

_ASKED = {"user": "speak", "judge": "adjudicate", "director": "direct"}
"""Prompts by role: NAME is the system prompt, NAME_turn the question."""
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


_AnswerT = TypeVar("_AnswerT", bound=BaseModel)


class _Speech(BaseModel):
    inside: Annotated[str, Sent(maxLength=400)] = ""
    reply: Annotated[str, Sent(maxLength=1200)] = Field(min_length=1)


class _Line(BaseModel):
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
    # a choice of kinds, so that a server that enforces schemas accepts no level without its quote
    return WithJsonSchema({"anyOf": [kind.model_json_schema() for kind in kinds]})


class _Progress(_Line):
    level: StrictInt = Field(ge=0, le=2)


class _Regress(_Line):
    level: StrictInt = Field(ge=-2, le=0)


class _Axis(BaseModel):
    progress: Annotated[_Progress, _sent_as(_Zero, _Gain)]
    regress: Annotated[_Regress, _sent_as(_Zero, _Loss)]


class _Form(BaseModel):
    C: _Axis
    A: _Axis
    P: _Axis

    def lines(self) -> dict[str, _Line]:
        lines: dict[str, _Line] = {}
        for axis, sides in (("C", self.C), ("A", self.A), ("P", self.P)):
            lines |= {f"{axis}.Prog": sides.progress, f"{axis}.Neg": sides.regress}
        return lines


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
        names = [name for each in roles for name in (_ASKED[each], f"{_ASKED[each]}_turn")]
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

        note = view.acts[-1].note if view.acts else ""
        blanks = {
            "dialogue": alternating_text(("You", view.said), ("Supporter", view.heard)),
            "memory": render_released(view.scenario, view.released),
            "guidance": f"{_FOCUS[view.focus]} {note}".strip(),
            "ending": _ENDING.get(view.ending or "", ""),
        }
        return (await self._ask("user", view, log, _Speech, check, blanks)).reply.strip()

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        messages = (*view.said, *view.heard)

        def check(form: _Form) -> str | None:
            for key, line in form.lines().items():
                if line.level and not stands_in(line.quote, messages):
                    return (
                        f"{key} is {line.level}, and its quote {line.quote!r} does not stand in the dialogue; quote exact words"
                    )
                if line.level and not line.reason.strip():
                    return f"{key} is {line.level} without a reason"
            return None

        form = await self._ask("judge", view, log, _Form, check, window_blanks(view), passages=passages_of(messages))
        lines = form.lines()
        not_zero = {key: line for key, line in lines.items() if line.level}
        return Judgement(
            {key: line.level for key, line in lines.items()},
            {key: line.quote.strip() for key, line in not_zero.items()},
            {key: line.reason.strip() for key, line in not_zero.items()},
        )

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        def check(call: _Call) -> str | None:
            return call_problem(call.act, released=view.released, turns=view.turn + 1)

        levels = view.judgements[-1].levels
        start, state = (", ".join(map("{} {:+g}".format, AXES, view.path.position[n])) for n in (0, -1))
        blanks = {
            "dialogue": window_blanks(view)["dialogue"],
            "turns": str(view.turn + 1),
            "state": state,
            "start": start,
            "energy": ", ".join(f"{energy:+.1f}" for energy in view.path.energy[-_RECENT:]),
            "levels": ", ".join(f"{key} {level:+d}" for key, level in levels.items() if level) or "all 0",
            "released": ", ".join(view.released),
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
        blanks = {"card": render_card(view.scenario)}
        if name != "speak":
            blanks["story"] = render_released(view.scenario, SOURCES)
        if name == "direct":
            blanks |= {
                "stages": ", ".join(STAGES),
                "memories": ", ".join(MEMORIES),
                "min_turns": str(MIN_TURNS),
                "max_turns": str(view.max_turns),
            }
        return self._prompts[name].fill(**blanks)


def window_blanks(view: EmpaView) -> dict[str, str]:
    dialogue = alternating_text(("Person", view.said), ("Supporter", view.heard))
    return {"dialogue": dialogue, "window": "reply" if view.window == 1 else f"{view.window} replies"}


class MixedRoles:
    """Three roles with one player each; used if some are models and some embedded."""

    def __init__(self, parts: Mapping[str, EmpaUser]) -> None:
        self._parts = parts
        self.name = parts["user"].name
        self.speak, self.adjudicate, self.direct = parts["user"].speak, parts["judge"].adjudicate, parts["director"].direct

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
