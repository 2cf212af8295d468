"""The LLM user of EIBench: one structured answer per turn holds reflection, both changes, the reply, and whether they go on.

Covers how a scenario is told to the simulator model and what counts as an answer. Does not cover state rules (`environment`).
The system prompt never changes within a dialogue, the dialogue grows at its end, the state comes last: EIBench Figure 6 puts the
state on top, which costs a server its prompt cache every turn.

An answer without one of its fields, with a change that is no whole number, or (preset `paper`) beyond ±10 is asked again once;
then the dialogue is unscored. Nothing is read into an answer that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Call, Message, Sampling
from heartloop.core.judging import ask, parse
from heartloop.core.prompts import load_prompt
from heartloop.environments.base import RoleModel, SystemPrompts
from heartloop.environments.dialogue_text import alternating_text, speaks_for
from heartloop.environments.eibench.environment import Reaction, View
from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.eibench.scenario import Scene, pools
from heartloop.environments.eibench.scoring import CHANGE_LIMIT
from heartloop.environments.episode import CallLog

__all__ = ["REASKS", "LLMUser", "reaction_of"]

REASKS = 1
"""Re-asks after an answer that cannot be used (systems of record: one, then the dialogue is unscored)."""

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
"""What the two axes are in each scene (EIBench Figure 9; our words)."""


class _Reflection(BaseModel):
    model_config = ConfigDict(extra="ignore")
    need: str = Field(min_length=1)
    quality: str = Field(min_length=1)
    inertia: str = Field(min_length=1)
    changes: str = Field(min_length=1)
    tone: str = Field(min_length=1)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    reflection: _Reflection
    emotion_change: StrictInt = Field(ge=-1000, le=1000)  # beyond that it is no reading
    relation_change: StrictInt = Field(ge=-1000, le=1000)
    reply: str = Field(min_length=1)
    goes_on: Literal["yes", "no"] = Field(alias="continue")


class LLMUser(RoleModel):
    """A person of EIBench played by a simulator model.

    Args:
        sampling: settings of its calls; its seed, or else the dialogue's, is advanced by the turn.
        role: under which its calls are kept; `judge` where it only feels what a stored person heard.
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
        def fits(answer: _Answer) -> str | None:
            wrong = _unsaid(answer, view.scenario.other)
            far = max((answer.emotion_change, answer.relation_change), key=abs)
            if wrong is None and view.preset == "paper" and abs(far) > CHANGE_LIMIT:
                return f"a change is {far}, expected whole numbers from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
            return wrong

        answer = await ask(
            self._model,
            [
                self._system_prompts.of(view.scenario, "react", lambda: self._told(view.scenario)),
                Message(role="user", content=self._asked(view)),
            ],
            _Answer,
            reasks=REASKS,
            sampling=self._sampling.seeded(view.seed, view.turn),
            check=fits,
            on_reply=log.recorder("react", view.turn, self._role),
        )
        return _reaction(answer)

    def _asked(self, view: View) -> str:
        return self._turn.fill(
            dialogue=_dialogue(view), a=f"{view.a:g}", t=f"{view.t:g}", turn=str(view.turn + 1), turns=str(view.max_turns)
        )

    def _told(self, scenario: AnyScenario) -> str:
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
            personality=pools().personalities[scenario.seed.personality][0],
            goal=user.goal,
            rules="\n".join(f"- {rule}" for rule in user.rules),
        )


def reaction_of(call: Call) -> Reaction | None:
    """A stored raw answer as the preset `released` takes it, whatever its changes; `None` where it is no answer.

    One departure: a call does not tell the model's name, so an answer that speaks for it by name passes.
    """
    answer, _ = parse(Reply(call.text, call.reasoning, call.finish_reason), _Answer)
    return None if answer is None or _unsaid(answer) is not None else _reaction(answer)


def _unsaid(answer: _Answer, other: str = "") -> str | None:
    """Why its reply is not what this person says, if it is not."""
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
    """In Charm the model begins, elsewhere the person."""
    said, heard = ("You", view.said), (view.scenario.other, view.heard)
    return alternating_text(heard, said) if view.scenario.opening is None else alternating_text(said, heard)
