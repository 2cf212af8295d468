"""The LLM roles of EMPA: person, judge and director as structured questions to models.

Covers how a case is told to each role and what counts as an answer. Does not cover state rules (`environment`). Prompts lie in
`prompts/`, in our own words. The person is told only what the director has released; judge and director know the whole case.

The director's function calls are structured output, checked against the fixed set: every model has that, and a `ChatModel` knows
no tools. A level whose quote does not stand in the dialogue, a call that cannot be carried out, or a reply that speaks for the
supporter is asked again; what cannot be mended raises, so that the dialogue is unscored instead of guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, speaks_for
from heartloop.environments.empa.acts import MEMORIES, MIN_TURNS, STAGES, Act, refused
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.listing import render_card, render_released, source_text
from heartloop.environments.empa.scenario import SOURCES, Scenario
from heartloop.environments.empa.scoring import AXES
from heartloop.environments.episode import CallLog
from heartloop.environments.quotes import stands_in

__all__ = ["LLMUser", "dialogue_of"]

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
    inside: str = ""
    reply: str = Field(min_length=1)


class _Progress(BaseModel):
    model_config = ConfigDict(extra="ignore")
    level: StrictInt = Field(ge=0, le=2)
    quote: str = ""
    reason: str = ""


class _Regress(BaseModel):
    model_config = ConfigDict(extra="ignore")
    level: StrictInt = Field(ge=-2, le=0)
    quote: str = ""
    reason: str = ""


class _Axis(BaseModel):
    model_config = ConfigDict(extra="ignore")
    progress: _Progress
    regress: _Regress


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore")
    C: _Axis
    A: _Axis
    P: _Axis

    def lines(self) -> dict[str, _Progress | _Regress]:
        """Levels with their grounds, by the keys of an MDEP form."""
        found: dict[str, _Progress | _Regress] = {}
        for axis in AXES:
            sides: _Axis = getattr(self, axis)
            found |= {f"{axis}.Prog": sides.progress, f"{axis}.Neg": sides.regress}
        return found


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore")
    observed: str = ""
    function: str
    argument: str = ""
    note: str = ""
    reason: str = ""


class LLMUser:
    """A case of EMPA with models as person, judge and director.

    Args:
        model: plays the person, and the other two where they have no model of their own.
        sampling: settings of every call; its seed, or else the dialogue's, is advanced by turn and role.
        samplings: settings by role, in place of `sampling`.
        role: under which the judge's calls are kept where nobody speaks, as for a stored dialogue.
        judge: another model for the judge.
        director: another model for the director.
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
        given = samplings or {}
        self._samplings = {role: given.get(role, sampling or Sampling()) for role in ("user", "judge", "director")}
        names = ("speak", "speak_turn", "adjudicate", "adjudicate_turn", "direct", "direct_turn")
        self._prompts = {name: load_prompt(__package__, name) for name in names}
        self._system_prompts = SystemPrompts()

    @property
    def name(self) -> str:
        return self._model.name

    def describe(self) -> Mapping[str, Any]:
        models = {"user": self._model.name, "judge": self._judge.name, "director": self._director.name}
        mine = {"judge": self._judge.name} if self._only_judges else models
        return {
            "models": mine,
            "sampling": {role: self._samplings[role] for role in mine},
            "prompts": {
                name: prompt.hash
                for name, prompt in self._prompts.items()
                if not self._only_judges or name.startswith("adjudicate")
            },
        }

    def admit(self, scenario: Scenario) -> None:
        """Models play every case, in any language."""

    async def speak(self, view: View, log: CallLog) -> str:
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

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
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
            on_reply=log.recorder("adjudicate", view.turn, "judge"),
        )
        lines = form.lines()
        given = {key: line for key, line in lines.items() if line.level}
        return Judgement(
            {key: line.level for key, line in lines.items()},
            {key: line.quote.strip() for key, line in given.items()},
            {key: line.reason.strip() for key, line in given.items()},
        )

    async def direct(self, view: View, log: CallLog) -> Act:
        def possible(call: _Call) -> str | None:
            return refused(_act(call), released=view.released, turns=view.turn + 1)

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
            check=possible,
            on_reply=log.recorder("direct", view.turn, "director"),
        )
        return _act(call)

    def _system(self, name: str, view: View) -> Message:
        """A role's system prompt: the same for a whole dialogue, so it is made once for each case."""
        return self._system_prompts.of(view.scenario, name, lambda: self._system_text(name, view))

    def _system_text(self, name: str, view: View) -> str:
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
    return Act(call.function.strip(), call.argument.strip(), call.note.strip(), call.reason.strip())


def _point(position: Any) -> str:
    return ", ".join(f"{axis} {float(x):+g}" for axis, x in zip(AXES, position, strict=True))


def dialogue_of(view: View, person: str, supporter: str) -> str:
    """All that was said so far, the person first, under these names."""
    return alternating_text((person, view.said), (supporter, view.heard))
