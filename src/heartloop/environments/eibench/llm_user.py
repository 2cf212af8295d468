"""The LLM user of EIBench: one structured answer per turn with reflection, both changes, the message, and whether to continue.

Covers the messages to the user simulator model and the validation of its answers. Does not cover state rules (`environment`).

Departure: the state is at the end of the last message, so that the prefix of the messages can be cached. EIBench Figure 6 puts it
at the top.

An answer that lacks a field, has a change that is not a whole number or (preset `paper`) a change outside ±10 is re-asked once.
Then the dialogue is unscored. Missing values are never inferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Call, Message, Sampling
from heartloop.core.judging import ask, parse
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.base import RoleModel, SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, speaks_for
from heartloop.environments.eibench.environment import Reaction, View
from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.eibench.scenario import Scene, pools
from heartloop.environments.eibench.scoring import CHANGE_LIMIT
from heartloop.environments.episode import CallLog

__all__ = ["REASKS", "LLMUser", "reaction_of"]

REASKS = 1
"""Number of re-asks after an invalid answer; then the dialogue is unscored."""

_MEANS: Mapping[Scene, tuple[str, str]] = {
    "charm": (
        "how averse, guarded or bored you are towards this stranger",
        "how interested, open and warm you are towards them",
    ),
    "defense": (
        "how angry, pressing and frustrated you are with them",
        "how willing you are to go on talking with them without escalating",
    ),
    "repair": (
        "how much you resent what they did, and how far you are from forgiving it",
        "how much of your trust in them is restored",
    ),
    "support": (
        "how sad, desperate or hopeless you are over what happened",
        "how heard, comforted and safe you feel with them",
    ),
}
"""Meaning of a and of t in each scene (after EIBench Figure 9, in our words)."""


_LIMIT = int(CHANGE_LIMIT)
_Change = Annotated[StrictInt, Field(ge=-1000, le=1000)]  # larger values are not changes
_NarrowChange = Annotated[_Change, Sent(minimum=-_LIMIT, maximum=_LIMIT)]


class _Reflection(BaseModel):
    model_config = ConfigDict(extra="ignore")
    need: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    quality: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    inertia: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    changes: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    tone: Annotated[str, Sent(maxLength=300)] = Field(min_length=1)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    reflection: _Reflection
    emotion_change: _NarrowChange
    relation_change: _NarrowChange
    reply: Annotated[str, Sent(maxLength=900)] = Field(min_length=1)
    goes_on: Literal["yes", "no"] = Field(alias="continue")


class _ReleasedAnswer(_Answer):
    emotion_change: _Change  # preset `released` clamps and counts what lies outside ±10, so a model must be able to write it
    relation_change: _Change


class LLMUser(RoleModel):
    """The user simulator of EIBench, played by a model.

    Args:
        sampling: settings of the calls. The turn is added to the seed (default: the dialogue's seed).
        role: role of the calls in the transcript; `judge` if it appraises the replies of stored dialogues.
    """

    def __init__(self, model: ChatModel, *, sampling: Sampling | None = None, role: str = "user") -> None:
        self._system = load_prompt(__package__, "react")
        self._turn = load_prompt(__package__, "react_turn")
        self._profile = load_prompt(__package__, "react_profile")
        self._released = load_prompt(__package__, "react_profile_released")
        prompts = {prompt.name: prompt for prompt in (self._system, self._turn, self._profile, self._released)}
        super().__init__(model, sampling=sampling, role=role, prompts=prompts)
        self._system_prompts = SystemPrompts()

    async def react(self, view: View, log: CallLog) -> Reaction:
        def check(answer: _Answer) -> str | None:
            problem = _problem_of_reply(answer, view.scenario.other)
            largest = max((answer.emotion_change, answer.relation_change), key=abs)
            if problem is None and view.preset == "paper" and abs(largest) > CHANGE_LIMIT:
                return f"a change is {largest}, expected whole numbers from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
            return problem

        answer = await ask(
            self._model,
            [
                self._system_prompts.of(view.scenario, "react", lambda: self._system_text(view.scenario)),
                Message(role="user", content=self._turn_text(view)),
            ],
            _Answer if view.preset == "paper" else _ReleasedAnswer,
            reasks=REASKS,
            sampling=self._sampling.seeded(view.seed, view.turn),
            check=check,
            on_reply=log.recorder("react", view.turn, self._role),
        )
        return _reaction(answer)

    def _turn_text(self, view: View) -> str:
        return self._turn.fill(
            dialogue=_dialogue(view), a=f"{view.a:g}", t=f"{view.t:g}", turn=str(view.turn + 1), turns=str(view.max_turns)
        )

    def _system_text(self, scenario: AnyScenario) -> str:
        emotion, relation = _MEANS[scenario.scene]
        a, t = scenario.axes
        return self._system.fill(
            profile=self._profile_of(scenario),
            other=scenario.other,
            emotion_means=emotion,
            relation_means=relation,
            start_a=f"{a.start:g}",
            start_t=f"{t.start:g}",
            success_a=f"{a.success:g}",
            success_t=f"{t.success:g}",
            fail_a=f"{a.fail:g}",
            fail_t=f"{t.fail:g}",
        )

    def _profile_of(self, scenario: AnyScenario) -> str:
        if isinstance(scenario, ReleasedScenario):
            return self._released.fill(profile=scenario.record.aggressor_profile.system_prompt.strip())
        user = scenario.user
        return self._profile.fill(
            name=user.name,
            age=str(user.age),
            gender=user.gender,
            role=user.role,
            place=scenario.place,
            background=user.background,
            style=user.speaking_style,
            personality=pools().personalities[scenario.seed.personality],
            goal=user.goal,
            rules="\n".join(f"- {rule}" for rule in user.rules),
        )


def reaction_of(call: Call) -> Reaction | None:
    """The reaction in a stored call, whatever its changes, as preset `released` reads it; `None` if the answer is invalid.

    Unlike in a dialogue, an answer that speaks for the model by name is valid: a stored call does not contain the name.
    """
    answer, _ = parse(Reply(call.text, call.reasoning, call.finish_reason), _Answer)
    return None if answer is None or _problem_of_reply(answer) is not None else _reaction(answer)


def _problem_of_reply(answer: _Answer, other: str = "") -> str | None:
    if not answer.reply.strip():
        return "the reply is blank"
    if speaks_for(answer.reply, other):
        return f"the reply speaks for {other}; write only what you say yourself"
    return None


def _reaction(answer: _Answer) -> Reaction:
    return Reaction(
        float(answer.emotion_change),
        float(answer.relation_change),
        answer.reply.strip(),
        answer.goes_on == "yes",
        answer.reflection.model_dump(),
    )


def _dialogue(view: View) -> str:
    user, model = ("You", view.said), (view.scenario.other, view.heard)
    return alternating_text(model, user) if view.scenario.opening is None else alternating_text(user, model)
