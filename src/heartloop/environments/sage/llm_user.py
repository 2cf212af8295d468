"""The LLM user of SAGE: `feel` and `speak` as two structured questions to a simulator model.

Covers how a scenario is told to the model and what counts as an answer. Does not cover state rules
(`environment`). Prompts lie in `prompts/`, in our own words; facts follow SAGE App. E.

Departures: the appraisal sees the current mood every turn (RLVER's released training code shows the start
value for ever); a change outside ±10 is asked again under `corrected`; an answer that speaks for the policy
is asked again; what cannot be mended raises, so that the dialogue is unscored instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from heartloop.appraisal import appraise, lacks_english
from heartloop.chat import ChatModel, Reply
from heartloop.dialogue import Call, Message, Sampling
from heartloop.environments.sage.environment import VARIANTS, CallLog, Feeling, Speech, View
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.story import evidence_of, story_of
from heartloop.errors import InputError
from heartloop.judging import ask
from heartloop.prompts import load_prompt
from heartloop.scoring.emotion import CHANGE_LIMIT, band

__all__ = ["LLMUser", "render_background", "render_persona"]

_SPEAKS_FOR_POLICY = re.compile(r"^\s*\**(npc|assistant|supporter|partner|ai|chatbot)\**\s*[:：]", re.IGNORECASE | re.MULTILINE)


def _plain_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a truth value; expected a whole number")
    if isinstance(value, str) and "_" in value:  # "1_0" would be read as ten
        raise ValueError("no plain number; expected a whole number")
    return value


class _FeelAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    content: str = Field(min_length=1)
    fit: str = Field(min_length=1)
    activity: str = Field(min_length=1)
    feeling: str = Field(min_length=1)
    change: Annotated[int, BeforeValidator(_plain_number)] = Field(ge=-1000, le=1000)  # beyond that it is no reading


class _SpeakAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    attitude: str
    aim: str
    tone: str
    matter: str
    reply: str = Field(min_length=1)
    leaves: bool = False


class LLMUser:
    """A person played by a simulator model.

    Under the preset `released` a change outside ±10 is passed on, to be clamped and counted; the variant
    `challenging` uses the more reserved manner (RLVER App. D.1).

    Args:
        sampling: settings of both calls; its seed, or else the dialogue's, is advanced by turn and step.
    """

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None) -> None:
        self._model = model
        self._sampling = sampling or Sampling()
        names = ["feel", "feel_turn", "speak", "speak_turn", "purpose_support", "purpose_chat"]
        self._prompts = {name: load_prompt(__package__, name) for name in [*names, *(_manner(v) for v in VARIANTS)]}

    @property
    def name(self) -> str:
        return self._model.name

    def describe(self, variant: str) -> Mapping[str, Any]:
        others = {_manner(v) for v in VARIANTS if v != variant}
        return {
            "models": {"simulator": self._model.name},
            "sampling": {"simulator": self._sampling},
            "prompts": {name: prompt.hash for name, prompt in self._prompts.items() if name not in others},
        }

    def admit(self, scenario: AnyScenario) -> None:
        if not scenario.first_message.strip():
            raise InputError(
                f"scenario {scenario.id!r} has no first message, as the released training profiles have none; "
                "write one into its record.first_talk, or leave that line out"
            )

    async def feel(self, view: View, log: CallLog) -> Feeling:
        answer = await ask(
            self._model,
            [
                Message(role="system", content=self._system("feel", view)),
                Message(
                    role="user",
                    content=self._prompts["feel_turn"].fill(
                        dialogue=_dialogue(view.said, view.heard[:-1]),
                        reply=_quoted(view.heard[-1]) or "(nothing: the NPC stayed silent)",
                        emotion=f"{view.emotion:g}",
                    ),
                ),
            ],
            _FeelAnswer,
            sampling=self._seeded(view, 0),
            check=_change_in_range if view.preset == "corrected" else None,
            heard=self._keep(log, "feel", view.turn),
        )
        evidence = _labels(view)
        return Feeling(float(answer.change), answer.content, answer.fit, answer.activity, answer.feeling, evidence)

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
                Message(role="system", content=self._system("speak", view)),
                Message(
                    role="user",
                    content=self._prompts["speak_turn"].fill(
                        dialogue=_dialogue(view.said, view.heard),
                        planning=planning,
                        band=band(view.emotion),
                        emotion=f"{view.emotion:g}",
                    ),
                ),
            ],
            _SpeakAnswer,
            sampling=self._seeded(view, 1),
            check=_speaks_for_itself,
            heard=self._keep(log, "speak", view.turn),
        )
        return Speech(answer.reply.strip(), answer.leaves)

    def _system(self, step: str, view: View) -> str:
        scenario = view.scenario
        return self._prompts[step].fill(
            purpose=self._prompts[f"purpose_{scenario.family}"].text,
            intention=scenario.intention_text,
            goal=scenario.goal,
            manner=self._prompts[_manner(view.variant)].text,
            persona=render_persona(scenario),
            background=render_background(scenario),
        )

    def _seeded(self, view: View, step: int) -> Sampling:
        base = view.seed if self._sampling.seed is None else self._sampling.seed
        return self._sampling.model_copy(update={"seed": base + 2 * view.turn + step})

    def _keep(self, log: CallLog, purpose: str, turn: int) -> Any:
        def heard(reply: Reply, reask: int) -> None:
            if reask:
                log.count("re-asks")
            log.calls.append(
                Call(
                    role="simulator",
                    purpose=purpose,
                    turn=turn,
                    text=reply.text,
                    reasoning=reply.reasoning,
                    finish_reason=reply.finish_reason,
                    usage=reply.usage,
                    reask=reask,
                )
            )

        return heard


def _labels(view: View) -> Mapping[str, Any]:
    """What the rules of `appraisal` see in the reply; it labels the turn in reports and moves nothing. English only."""
    if isinstance(view.scenario, ReleasedScenario) or lacks_english(view.heard[-1]):
        return {}
    appraisal = appraise(view.heard[-1], story_of(view.scenario, view.said), view.heard[:-1])
    return evidence_of(appraisal, view.scenario)


def _manner(variant: str) -> str:
    return f"manner_{variant}"


def _change_in_range(answer: _FeelAnswer) -> str | None:
    if abs(answer.change) > CHANGE_LIMIT:
        return f"change is {answer.change}, expected a whole number from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
    return None


def _speaks_for_itself(answer: _SpeakAnswer) -> str | None:
    if _SPEAKS_FOR_POLICY.search(answer.reply):
        return "the reply speaks for the NPC; write only what the person says"
    if not answer.reply.strip():
        return "the reply is blank"
    return None


def _dialogue(said: tuple[str, ...], heard: tuple[str, ...]) -> str:
    lines: list[str] = []
    for index, message in enumerate(said):
        lines.append(f"Person: {_quoted(message)}")
        if index < len(heard):
            lines.append(f"NPC: {_quoted(heard[index]) or '(silence)'}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A message whose further lines are indented, so that none of them can pass for a turn or a mood of its own."""
    return re.sub(r"\s*[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*", "\n    | ", text.strip())


def render_persona(scenario: AnyScenario) -> str:
    """The persona as the simulator reads it; of a released person the text as given."""
    if isinstance(scenario, ReleasedScenario):
        return f"{scenario.record.player}\n(Speaks the language this is written in.)"
    p = scenario.persona
    return "\n".join(
        (
            f"{p.name}, {p.age}, {p.gender}, {p.occupation}. {p.place}.",
            f"Character: {', '.join(p.traits)}.",
            f"Habits: {p.habits}",
            "Loves: " + " ".join(p.hobbies),
            f"Speaks: {p.speaking_style}",
            f"In talk: {p.way_of_speaking}",
            f"Sounds like this: {' / '.join((scenario.beats[0].text, *scenario.lines.acks[:2], scenario.lines.vague[0]))}",
        )
    )


def render_background(scenario: AnyScenario) -> str:
    """The background as the simulator reads it; of a released person the text as given."""
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
    lines.append("What weighs or matters, from surface to core: " + " ".join(c.text for c in scenario.concerns))
    r = b.reactions
    lines += [f"In high mood: {r.high}", f"In middling mood: {r.normal}", f"In low mood: {r.low}"]
    lines += ["Lifts the mood: " + "; ".join(b.lifts) + ".", "Sinks the mood: " + "; ".join(b.sinks) + "."]
    return "\n".join(lines)
