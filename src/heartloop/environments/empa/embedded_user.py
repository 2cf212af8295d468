"""The embedded user of EMPA: person, judge and director without a language model.

Deterministic: an appraiser (the learned reader, or a student of somebody's judge) says what a reply does, `rubric` makes the form
of it, `director` chooses the function calls, and the person says one of their own written lines, out of what the director has
released. Every report that used it says so. Does not cover state rules and ends (`environment`), nor the appraisal
(`environments.appraising`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from heartloop.environments.appraising import AppraisingPlayer, Missed, no_written_lines
from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.director import decide, open_beats
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.reading import READING
from heartloop.environments.empa.rubric import judge
from heartloop.environments.empa.scenario import Beat, Brief, Scenario
from heartloop.environments.empa.scoring import AXES, Case, trace
from heartloop.environments.episode import CallLog
from heartloop.environments.lines import least_recent, pick, pick_unsaid

__all__ = ["CORE_FROM", "EmbeddedUser", "line_of"]

CORE_FROM = 1 / 6
"""Share of |P_0| made good from which the person tells what matters most.

In SAGE the core is told from emotion 50, one sixth of the way from the start (40) to success (100). Here success is |P_0|.
"""
MOVED_FROM, ACK_FROM = 4.0, 1.5
"""Energies from which a reply reached the person deeply, and from which they may say that it helped."""
COLD_AFTER = 3
"""Windows in a row without positive energy, from which the person grows cold."""


class EmbeddedUser(AppraisingPlayer):
    """The user, the judge and the director with one appraiser."""

    reading = READING
    roles = ("user", "judge", "director")

    @property
    def hashes(self) -> Mapping[str, str]:
        return {} if self.role == "director" else super().hashes  # the director's rules depend on no weights

    def admit(self, scenario: Brief) -> None:
        """Refuses a scenario that the appraiser does not understand, and to play one without written lines.

        Raises:
            InputError: says so.
        """
        self.appraiser.admit(scenario.id, (scenario.opening, *(beat.text for beat in scenario.told)))
        if self.role == "user" and not isinstance(scenario, Scenario):
            raise no_written_lines(scenario.id, self.name)

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return judge(view, self.appraiser)

    async def direct(self, view: View, log: CallLog) -> Act:
        return decide(view)

    async def speak(self, view: View, log: CallLog) -> str:
        if view.ending is None and len(view.judgements) < len(view.heard):
            return line_of(view, _effect_of(view, judge(view._replace(window=1), self.appraiser)))
        return line_of(view)


class _Effect(NamedTuple):
    """What the latest reply did to the person."""

    energy: float
    missed: Missed
    axis: str
    """The axis on which it did worst, weighed by what is lacking there."""


def _effect_of(view: View, own: Judgement | None = None) -> _Effect:
    """The effect by the latest judgement, or by the person's own where a window has several replies: they answer the last one."""
    judgements = view.judgements if own is None else (*view.judgements, own)
    if not judgements:
        return _Effect(0.0, "vague", view.scenario.axis)
    path = view.path
    if own is not None:
        path = trace(Case(view.scenario.start, [judgement.levels for judgement in judgements]), preset=view.preset)
    silent = not view.heard[-1].strip()  # a model as the judge says nothing of what was missed
    missed: Missed = judgements[-1].evidence.get("missed", "silence" if silent else "vague")
    lacking = -path.position[0]
    return _Effect(float(path.energy[-1]), missed, min(zip(path.increment[-1] * lacking, AXES, strict=True))[1])


_LINES: Mapping[Missed, str] = {
    "silence": "silence", "repeat": "repeat", "cruel": "cold", "lecture": "lecture", "advice": "advice", "template": "template",
    "flattery": "flattery", "misread": "unclear", "unfelt": "unfelt",
}  # fmt: skip
"""Which of the written lines answer what was missed; else those of the axis."""
_BY_AXIS: Mapping[str, str] = {"C": "unclear", "A": "unfelt", "P": "unhelped"}


def line_of(view: View, effect: _Effect | None = None) -> str:
    """The person's next line.

    A farewell at the ends. After a reply of positive energy, the next beat that the director has released, the core only from
    `CORE_FROM`; after one of no energy a line that says what was missed, and in every other turn a beat of facts; after one of
    negative energy, or an insult, no beat. No line is said twice while one is left.
    """
    scenario, lines = view.scenario, view.written.lines
    if view.ending is not None:
        return pick(lines.settled if view.ending == "success" else lines.left, "end", scenario.id, view.seed)

    def fresh(*groups: Sequence[str]) -> str:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn) or ""

    energy, missed, axis = effect or _effect_of(view)
    if energy > 0:
        beat, ack = _next_beat(view, facts_only=False), ""
        if energy >= MOVED_FROM:
            ack = fresh(lines.moved, lines.acks)
        elif energy >= ACK_FROM and view.turn % 3 == 1:
            ack = fresh(lines.acks)
        if beat is not None:
            return f"{ack} {beat.text}".strip()
        return ack or fresh(lines.acks, lines.moved) or least_recent([*lines.acks, *lines.moved], view.said)
    apt: Sequence[str] = getattr(lines, _LINES.get(missed, _BY_AXIS[axis]))
    others = [getattr(lines, group) for group in dict.fromkeys((_BY_AXIS[axis], *_BY_AXIS.values()))]
    without = len(list(takewhile(lambda e: e <= 0, reversed(view.path.energy.tolist()))))
    cold = without >= COLD_AFTER and view.turn % 2 == 1
    line = fresh(*([lines.cold] if cold else []), apt, *others, lines.cold, lines.repeat)
    facts = _next_beat(view, facts_only=True) if energy == 0 and missed != "cruel" else None
    if facts is not None and (not line or view.turn % 2 == 0):
        return f"{line} {facts.text}".strip()
    return line or least_recent([*apt, *(line for group in others for line in group)], view.said)


def _next_beat(view: View, *, facts_only: bool) -> Beat | None:
    """The next line that is open: of the focused axis where one of the next few is, else in order."""
    core = view.path.total >= CORE_FROM * view.scenario.distance and not facts_only
    kinds = {"fact"} if facts_only else {"fact", "feeling", "core"} if core else {"fact", "feeling"}
    ahead = [beat for beat in open_beats(view) if beat.kind in kinds][:4]
    axis_of = {concern.key: concern.axis for concern in view.scenario.concerns}
    return next((beat for beat in ahead if view.focus and axis_of[beat.concern] == view.focus), ahead[0] if ahead else None)
