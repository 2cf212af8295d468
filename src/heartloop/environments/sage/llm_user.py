"""The LLM user of SAGE: `feel` and `speak` as two structured questions to a user simulator.

Covers the prompts of a scenario and the validation of answers. Does not cover state rules (`environment`), nor labels of replies
(`labels`). The prompts in `prompts/` are our wording; their content follows SAGE App. E.

A prompt starts with the constant part, then the dialogue, which grows by appending, and ends with the emotion and thoughts of the
turn, so that an endpoint's prompt cache is reused (benchmarks/results/prompt_cache.md).

Departures: the appraisal sees the current emotion every turn (RLVER's released training code always shows the start value); a
change outside ±10 is re-asked under `corrected`; an answer that speaks for the policy is re-asked; an answer that stays invalid
raises, so that the dialogue is unscored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.base import RoleModel, SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, speaks_for
from heartloop.environments.episode import CallLog
from heartloop.environments.sage.environment import Feeling, Speech, View
from heartloop.environments.sage.options import VARIANTS
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.scenario import Scenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT

__all__ = ["LLMUser", "render_background", "render_persona"]


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


class LLMUser(RoleModel):
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

    def admit(self, scenario: AnyScenario) -> None:
        if not scenario.first_message.strip():
            raise InputError(
                f"scenario {scenario.id!r} has no first message, like all released training profiles; "
                "add record.first_talk, or remove the scenario from the file"
            )

    async def feel(self, view: View, log: CallLog) -> Feeling:
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

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
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

    def _system(self, step: str, view: View) -> Message:
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


def render_persona(scenario: AnyScenario) -> str:
    """The persona in the prompt; for an imported scenario its text."""
    if isinstance(scenario, ReleasedScenario):
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
    if isinstance(scenario, Scenario):
        voice = (scenario.beats[0].text, *scenario.lines.acks[:2], scenario.lines.vague[0])
        lines.append(f"Sounds like this: {' / '.join(voice)}")
    return "\n".join(lines)


def render_background(scenario: AnyScenario) -> str:
    """The background in the prompt; for an imported scenario its text."""
    if isinstance(scenario, ReleasedScenario):
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
