"""The user simulators of EIBench: a language model, asked once per turn, and an embedded one that says written lines.

Departure: the state is at the end of the last message, so that the prefix of the messages can be cached. EIBench Figure 6 puts it
at the top, with the round of the last; preset `paper` shows the number of the reply only. An answer that lacks a field, has a
change that is not a whole number or (preset `paper`) a change outside ±10 is re-asked once. Then the dialogue is unscored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictInt

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Call, Message, StopReason
from heartloop.core.judging import ask, parse
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.base import RoleModel
from heartloop.environments.dialogue_text import dialogue_text, pick, speaks_for
from heartloop.environments.eibench.environment import RELATION_WEIGHT, EIBenchView, Reaction
from heartloop.environments.eibench.scenario import (
    SCENES,
    AnyEIBenchScenario,
    EIBenchBrief,
    EIBenchLines,
    EIBenchReleasedScenario,
    EIBenchScenario,
    Scene,
    as_list,
    pools,
)
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, move, outcome
from heartloop.environments.episode import CallLog
from heartloop.environments.reading import (
    CORE_FROM,
    GOOD_FROM,
    HARM_FROM,
    Appraisal,
    AppraisingPlayer,
    LearnedReading,
    evidence_of,
    missed_by,
    next_line,
    no_written_lines,
    open_beats,
    unsaid,
    verdict,
    with_cues,
)
from heartloop.environments.written import beats_of
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import Context
from heartloop.reader.reader import REPEATED

REASKS = 1
"""Number of re-asks after an invalid answer; then the dialogue is unscored."""

_LIMIT = int(CHANGE_LIMIT)
_Change = Annotated[StrictInt, Field(ge=-1000, le=1000)]  # larger values are not changes
_NarrowChange = Annotated[_Change, Sent(minimum=-_LIMIT, maximum=_LIMIT)]


class _Reflection(BaseModel):
    model_config = ConfigDict(extra="ignore")
    need: Annotated[str, Sent(maxLength=400)] = Field(min_length=1)
    quality: Annotated[str, Sent(maxLength=300)] = Field(min_length=1)
    inertia: Annotated[str, Sent(maxLength=300)] = Field(min_length=1)
    changes: Annotated[str, Sent(maxLength=300)] = Field(min_length=1)
    tone: Annotated[str, Sent(maxLength=200)] = Field(min_length=1)


class _Answer(BaseModel):  # stored answers of earlier versions have `emotion_change`, and `no` for either end
    model_config = ConfigDict(extra="ignore", populate_by_name=True)
    reflection: _Reflection
    strain_change: _NarrowChange = Field(validation_alias=AliasChoices("strain_change", "emotion_change"))
    relation_change: _NarrowChange
    reply: Annotated[str, Sent(maxLength=900)] = Field(min_length=1)
    ending: Annotated[str, Sent(maxLength=200)] = ""
    goes_on: Annotated[Literal["yes", "settled", "broken_off", "no"], Sent(enum=["yes", "settled", "broken_off"])] = Field(
        alias="continue"
    )

    def problem(self, other: str = "") -> str | None:
        """What is wrong with the reply; `other` is the model's name."""
        if not self.reply.strip():
            return "the reply is blank"
        return f"the reply speaks for {other}; write only what you say yourself" if speaks_for(self.reply, other) else None

    @property
    def reaction(self) -> Reaction:
        stop: StopReason | None = "goodbye" if self.goes_on == "no" else None if self.goes_on == "yes" else self.goes_on
        ending = {"ending": self.ending} if stop and self.ending.strip() else {}
        a, t = float(self.strain_change), float(self.relation_change)
        return Reaction(a, t, self.reply.strip(), stop, {**self.reflection.model_dump(), **ending})


class _ReleasedAnswer(_Answer):  # what lies outside ±10 is clamped and counted, so a model must be able to write it
    strain_change: _Change = Field(validation_alias=AliasChoices("strain_change", "emotion_change"))
    relation_change: _Change


class EIBenchLLMUser(RoleModel):
    prompts: ClassVar = {
        name: load_prompt(__package__, name)
        for name in (
            *("react", "react_more", "react_turn", "react_turn_released", "react_profile", "react_profile_released"),
            *("react_enough", "react_story", *(f"react_{scene}" for scene in SCENES)),
        )
    }

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        paper, scenario, (a, t) = view.options.preset == "paper", view.scenario, view.states[-1]

        def check(answer: _Answer) -> str | None:
            problem = answer.problem(scenario.other)
            largest = max((answer.strain_change, answer.relation_change), key=abs)
            if problem is None and paper and abs(largest) > CHANGE_LIMIT:
                return f"a change is {largest}, expected whole numbers from {-CHANGE_LIMIT:g} to {CHANGE_LIMIT:g}"
            return problem

        now = {"dialogue": _talk(view), "a": f"{a:g}", "t": f"{t:g}", "turn": str(view.turn + 1)}
        own = {"steps": _last_steps(view)} if paper else {"turns": str(view.options.max_turns)}
        turn = self.prompts["react_turn" if paper else "react_turn_released"].fill(**now, **own)
        system = self._system_prompts.of(scenario, view.options.preset, lambda: self._system_text(scenario, paper=paper))
        answer = await ask(
            self._model,
            [system, Message(role="user", content=turn)],
            _Answer if paper else _ReleasedAnswer,
            reasks=REASKS,
            sampling=self._sampling.seeded(view.seed, view.turn),
            check=check,
            on_reply=log.recorder("react", view.turn, self._role),
        )
        return answer.reaction

    def _system_text(self, scenario: AnyEIBenchScenario, *, paper: bool) -> str:
        return self.prompts["react"].fill(
            profile=self._profile_of(scenario),
            scene=self.prompts[f"react_{scenario.scene}"].fill(other=scenario.other),
            other=scenario.other,
            more=f"\n{self.prompts['react_more'].text}\n" if paper else "",
        )

    def _profile_of(self, scenario: AnyEIBenchScenario) -> str:
        if isinstance(scenario, EIBenchReleasedScenario):
            prompt = scenario.record.aggressor_profile.system_prompt.strip()
            return self.prompts["react_profile_released"].fill(profile=prompt)
        user, story = scenario.user, ""
        enough = [*(f"To hear it owned: {wrong.text}" for wrong in scenario.wrongs), *(way.text for way in scenario.ways)]
        if scenario.concerns:
            sores = as_list(sore.text for sore in scenario.sores)
            story = f"\n{self.prompts['react_story'].fill(told=_told(scenario), sores=sores)}"
        profile = self.prompts["react_profile"].fill(
            **{name: str(getattr(user, name)) for name in ("name", "age", "gender", "role", "background", "goal")},
            place=scenario.place,
            style=user.speaking_style,
            personality=pools().personality[scenario.seed.personality],
            rules=as_list(user.rules),
            other=scenario.other,
            other_role=scenario.model.role,
            enough=f"{self.prompts['react_enough'].fill(ways=as_list(enough))}\n" if enough else "",
            story=story,
        )
        return re.sub(r"\b[Tt]he model\b", scenario.other, profile)  # profiles name the other so


_DEPTHS = {"surface": "On the surface:", "feeling": "Underneath:", "core": "At the bottom:"}


def _told(scenario: EIBenchBrief) -> str:
    """What the person can tell, from the surface down: each concern with the written lines about it."""
    lines = []
    for depth, heading in _DEPTHS.items():
        concerns = [concern for concern in scenario.concerns if concern.depth == depth]
        voiced = [[f'"{beat.text}"' for beat in beats_of(scenario) if beat.concern == concern.key] for concern in concerns]
        told = as_list(" ".join((concern.text, *quotes)) for concern, quotes in zip(concerns, voiced, strict=True))
        lines += [heading, told] if concerns else []
    return "\n".join(lines)


def _talk(view: EIBenchView) -> str:
    """The dialogue; under `released` with the person's earlier reflections."""
    first = () if view.scenario.opening is None else view.messages[:1]
    turns = [("You", message) for message in first]
    for reply, message, thoughts in zip_longest(view.replies, view.messages[len(first) :], view.thoughts):
        turns.append((view.scenario.other, reply))
        if message is not None:
            own = [("You, to yourself", " ".join(thoughts.values()))] if thoughts and view.options.preset == "released" else []
            turns += [*own, ("You", message)]
    return dialogue_text(turns)


def _last_steps(view: EIBenchView) -> str:
    """The last two changes of the state, with the person's reasons."""
    steps = []
    for n, ((a0, t0), (a, t)) in list(enumerate(pairwise(view.states), start=1))[-2:]:
        why = " ".join(view.thoughts[n - 1].get("changes", "").split()) if n <= len(view.thoughts) else ""
        steps.append(f"reply {n}: strain {a - a0:+g} to {a:g}, relation {t - t0:+g} to {t:g}. {why}".rstrip())
    return as_list(steps or ["none yet"])


def reaction_of(call: Call) -> Reaction | None:
    """The reaction in a stored call, whatever its changes, as preset `released` reads it; `None` if the answer is invalid.

    Unlike in a dialogue, an answer that speaks for the model by name is valid: a stored call does not contain the name.
    """
    answer, _ = parse(Reply(call.text, call.reasoning, call.finish_reason, tag=call.tag), _Answer)
    return None if answer is None or answer.problem() is not None else answer.reaction


def context_of(scenario: AnyEIBenchScenario, messages: Sequence[str], replies: Sequence[str]) -> Context:
    """The dialogue so far, what was not mentioned yet, and what the policy knows, must not give, could offer, and did."""
    if isinstance(scenario, EIBenchReleasedScenario):
        return Context(tuple(messages), tuple(replies))
    return Context(
        tuple(messages),
        tuple(replies),
        unsaid=unsaid(scenario.concerns, beats_of(scenario), messages),
        sore=with_cues(scenario.sores),
        known=tuple(scenario.model.knows),
        demand=(scenario.demand.text,) if scenario.demand is not None else (),
        ways=tuple(way.text for way in scenario.ways),
        wrongs=tuple(wrong.text for wrong in scenario.wrongs),
    )


READING = LearnedReading(
    "eibench",
    context_of,
    ("a", "t"),
    (-1.0, 1.0),
    {"": ((10.0, -10.0), (-10.0, 10.0))},
    silence=-0.25,
    owns=lambda scenario: bool(getattr(scenario, "wrongs", ())),
)
"""The changes of negative emotion and of relation."""

_COLD_FROM = -0.5  # outcome so far to which every second line is a cold one
_LEAST_TURNS = 3  # replies before the person ends the dialogue, well or badly


class _Felt(NamedTuple):
    a: float
    t: float
    state: tuple[float, float]
    outcome: float

    @property
    def worth(self) -> float:
        """The smaller gain: a reply that calms the person at the cost of the relation does no good."""
        return min(self.t, -self.a)


class EIBenchEmbeddedUser(AppraisingPlayer):
    """The user without a language model: an appraiser gives the changes, and the person says written lines."""

    reading = READING

    def admit(self, scenario: AnyEIBenchScenario) -> None:
        profile = scenario.record.aggressor_profile.system_prompt if isinstance(scenario, EIBenchReleasedScenario) else ""
        self.appraiser.admit(scenario.id, (scenario.opening or "", profile, *(beat.text for beat in beats_of(scenario))))
        if self.role != "judge" and not isinstance(scenario, EIBenchScenario):
            raise no_written_lines(scenario.id, self.name)

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        appraisal = self.appraiser.appraise(view.scenario, view.messages, view.replies, seed=view.seed)
        a, t = (round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, appraisal.change[axis])), 1) for axis in "at")
        before_a, before_t = view.states[-1]
        state = (move(before_a, a), move(before_t, t))
        felt = _Felt(a, t, state, outcome(*state, *view.scenario.axes, RELATION_WEIGHT))
        stop, line = (None, "") if self.role == "judge" else answer(view, appraisal, felt)
        return Reaction(a, t, line, stop, _thoughts(view.scenario.scene, appraisal, felt), evidence_of(appraisal))


def answer(view: EIBenchView, appraisal: Appraisal, felt: _Felt) -> tuple[StopReason | None, str]:
    """Whether and how the person ends the dialogue, and their next line.

    They end at both anchors of success or of failure, after three replies; the core only from an outcome of `CORE_FROM`.
    """
    scenario = view.scenario
    assert isinstance(scenario, EIBenchScenario)  # others are not admitted
    lines, (a, t), (a_anchors, t_anchors) = scenario.lines, felt.state, scenario.axes
    good, core = felt.worth >= GOOD_FROM, felt.outcome >= CORE_FROM
    if view.turn + 1 >= _LEAST_TURNS:
        if a <= a_anchors.success and t >= t_anchors.success and felt.worth > HARM_FROM:
            return "settled", pick(lines.settled, "end", scenario.id, view.seed)
        if a >= a_anchors.fail and t <= t_anchors.fail and not good:
            return "broken_off", pick(lines.broken_off, "end", scenario.id, view.seed)
    return None, next_line(
        view,
        worth=felt.worth,
        beat=next(iter(open_beats(scenario.beats, view.messages, good=good, core=core)), None),
        missed=_lines_for(scenario.scene, lines, appraisal),
        general=lines.missed,
        cold=felt.outcome <= _COLD_FROM,
    )


_BY_SCENE: Mapping[Scene, tuple[tuple[str, Mapping[str, float], Mapping[str, float]], ...]] = {
    "charm": (("pressed", {"pressure": 1.5}, {}), ("flattered", {"performance": 1.5}, {"honesty": 1.0})),
    "defense": (
        ("yielded", {}, {"honesty": 1.0, "performance": 1.5}),
        ("ruled", {"honesty": 1.5}, {"helpful": 1.0, "warmth": 1.0, "pressure": 1.5}),
    ),
    "repair": (
        ("hollow", {"performance": 1.5}, {"owning": 1.5}),
        ("excused", {}, {"owning": 1.5, "honesty": 1.5, "pressure": 1.5}),
    ),
    "support": (("advised", {"pressure": 1.5}, {}), ("comforted", {"performance": 1.5}, {})),
}
"""Lines that one scene has, with the marks of the replies that they answer: at least, and below. The first that fits is said,
else `missed`. In the judges' rubric, honesty is 0 for yielding or untrue and 2 where nothing is at stake, owning is 0 for excuses
and 2 where nothing is to be owned."""


def _lines_for(scene: Scene, lines: EIBenchLines, appraisal: Appraisal) -> Sequence[str]:
    missed, reading = missed_by(appraisal), appraisal.reading
    if missed in ("silence", "repeat", "cruel"):
        return {"silence": lines.silence, "repeat": lines.repeat, "cruel": lines.cold}[missed]
    marks = {} if reading is None else dict(zip(ASPECTS, reading.aspects, strict=True))
    for name, least, below in _BY_SCENE[scene] if marks else ():
        if all(marks[mark] >= x for mark, x in least.items()) and all(marks[mark] < x for mark, x in below.items()):
            group: Sequence[str] = getattr(lines, name)
            return group
    return lines.missed


_HOT, _COLD, _WARM = 60.0, 20.0, 60.0  # negative emotion above which, and relation below and above which, the tone changes


def _thoughts(scene: Scene, appraisal: Appraisal, felt: _Felt) -> dict[str, str]:
    """The five steps of the reflection, as the person would think them; a student's say what it predicted and no more."""
    changes = f"emotion {felt.a:+.1f}, relation {felt.t:+.1f}"
    if appraisal.reading is None:
        return {"changes": f"predicted: {changes}"}
    a, t = felt.state
    if a > _HOT:
        tone = "Short, and sharp."
    elif t < _COLD:
        tone = "Short and cold; I owe nothing."
    else:
        tone = "Softer. I may tell more." if t > _WARM else "As I am, no more and no less."
    return {
        "need": packaged_table(__package__, "scenes.toml")[scene]["need"],
        "quality": "Nothing was said." if appraisal.silent else verdict(appraisal, felt.worth),
        "inertia": "I have heard that before." if appraisal.again >= REPEATED else "That was not said before.",
        "changes": changes,
        "tone": tone,
    }
