"""The embedded user of EIBench: a person without a language model, in all four scenes.

Deterministic: an appraiser (the learned reader, or a student of somebody's judge) gives the changes of negative emotion and of
relation; the person says one of their own written lines, and ends the dialogue at the anchors of success and failure. Every
report that used it says so. Does not cover state rules and the turn limit (`environment`), nor the appraisal
(`environments.appraising`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from heartloop.environments.appraising import (
    Appraisal,
    AppraisingPlayer,
    evidence_of,
    missed_by,
    no_written_lines,
    reason_of,
)
from heartloop.environments.eibench.environment import Reaction, View
from heartloop.environments.eibench.options import RELATION_WEIGHT
from heartloop.environments.eibench.reading import READING
from heartloop.environments.eibench.released import AnyScenario, ReleasedScenario
from heartloop.environments.eibench.scenario import Lines, Scenario, Scene
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, move, outcome
from heartloop.environments.episode import CallLog
from heartloop.environments.lines import least_recent, pick, pick_unsaid
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.reader import REPEATED

__all__ = ["CORE_FROM", "GOOD_FROM", "HARM_FROM", "EmbeddedUser", "answer"]

GOOD_FROM, HARM_FROM = 1.0, -1.0
"""Worth of a reply from which it did good, and to which it did harm; what lies between is neutral. The worth is the smaller gain
of the two axes: a reply that calms the person at the cost of the relation does no good."""
CORE_FROM = 1 / 6
"""Outcome so far from which the person tells what matters most. In SAGE that is a mood of 50, a sixth of the way from its start,
40, to its best, 100; the outcome is 0 at the start and 1 at success."""
_COLD_FROM = -0.5
"""Outcome so far to which every second line is a cold one."""
_LEAST_TURNS = 3
"""Replies before the person ends the dialogue, well or badly."""
_ACKNOWLEDGED_FROM = 3.0
"""Worth from which a reply may be acknowledged before the next beat."""


class _Felt(NamedTuple):
    """The changes of a reply, and the state after it."""

    a: float
    t: float
    state: tuple[float, float]
    outcome: float
    """Of the state."""

    @property
    def worth(self) -> float:
        return min(self.t, -self.a)


class EmbeddedUser(AppraisingPlayer):
    """The user whose changes an appraiser gives."""

    reading = READING

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a scenario that the appraiser does not understand, and to play one without written lines.

        Raises:
            InputError: says so.
        """
        if isinstance(scenario, ReleasedScenario):
            texts = [scenario.record.aggressor_profile.system_prompt]
        else:
            texts = [beat.text for beat in scenario.told]
        self.appraiser.admit(scenario.id, (scenario.opening or "", *texts))
        if self.role != "judge" and not isinstance(scenario, Scenario):
            raise no_written_lines(scenario.id, self.name)

    async def react(self, view: View, log: CallLog) -> Reaction:
        appraisal = self.appraiser.appraise(view.scenario, view.said, view.heard, seed=view.seed)
        a, t = (round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, appraisal.change[axis])), 1) for axis in "at")
        state = (move(view.a, a), move(view.t, t))
        felt = _Felt(a, t, state, outcome(*state, *view.scenario.axes, RELATION_WEIGHT))
        goes_on, line = (True, "") if self.role == "judge" else answer(view, appraisal, felt)
        return Reaction(a, t, line, goes_on, _thoughts(view.scenario.scene, appraisal, felt), evidence_of(appraisal))


def answer(view: View, appraisal: Appraisal, felt: _Felt) -> tuple[bool, str]:
    """Whether the person goes on, and their next line.

    They end content at both anchors of success, and break off at both anchors of failure, each after three replies. After a
    reply that did good, they say the next beat of their story, the core only from an outcome of `CORE_FROM`; after a neutral one
    at most a beat of facts; after a harmful one no beat, but a line that pushes back. No line is said twice while one is left.
    """
    scenario, lines = view.written, view.written.lines
    (a, t), (a_anchors, t_anchors) = felt.state, scenario.axes
    good, harmful = felt.worth >= GOOD_FROM, felt.worth <= HARM_FROM
    if view.turn + 1 >= _LEAST_TURNS:
        if a <= a_anchors.success and t >= t_anchors.success and not harmful:
            return False, pick(lines.settled, "end", scenario.id, view.seed)
        if a >= a_anchors.fail and t <= t_anchors.fail and not good:
            return False, pick(lines.broken_off, "end", scenario.id, view.seed)

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn)

    spoken = " ".join(view.said)
    kinds = {"fact"} if not good else {"fact", "feeling", "core"} if felt.outcome >= CORE_FROM else {"fact", "feeling"}
    beat = next((beat for beat in scenario.beats if beat.kind in kinds and beat.text not in spoken), None)
    if beat is not None and not harmful:
        ack = fresh(lines.acks) if felt.worth >= _ACKNOWLEDGED_FROM and view.turn % 2 == 0 else None
        return True, f"{ack} {beat.text}" if ack else beat.text
    missed = _lines_for(scenario.scene, lines, appraisal)
    if good:
        groups: tuple[Sequence[str], ...] = (lines.acks, lines.missed)
    elif felt.outcome <= _COLD_FROM and view.turn % 2 == 1:
        groups = (lines.cold, missed, lines.missed)
    else:
        groups = (missed, lines.missed, lines.cold)
    return True, fresh(*groups, lines.repeat) or least_recent([*groups[0], *lines.missed], view.said)


class _Marks(NamedTuple):
    """A group of lines and the marks of the replies that it answers: at least, and below."""

    group: str
    least: Mapping[str, float]
    below: Mapping[str, float] = {}


_BY_SCENE: Mapping[Scene, tuple[_Marks, ...]] = {
    "charm": (_Marks("pressed", {"pressure": 1.5}), _Marks("flattered", {"performance": 1.5}, {"honesty": 1.0})),
    "defense": (
        _Marks("yielded", {}, {"honesty": 1.0, "performance": 1.5}),
        _Marks("ruled", {"honesty": 1.5}, {"helpful": 1.0, "warmth": 1.0, "pressure": 1.5}),
    ),
    "repair": (
        _Marks("hollow", {"performance": 1.5}, {"owning": 1.5}),
        _Marks("excused", {}, {"owning": 1.5, "honesty": 1.5, "pressure": 1.5}),
    ),
    "support": (_Marks("advised", {"pressure": 1.5}), _Marks("comforted", {"performance": 1.5})),
}
"""Lines that one scene has, the first that fits; else `missed`. In the judges' rubric, honesty is 0 for yielding or untrue and 2
where nothing is at stake, owning is 0 for excuses and 2 where nothing is to be owned."""


def _lines_for(scene: Scene, lines: Lines, appraisal: Appraisal) -> Sequence[str]:
    """The written lines that answer what was wrong with a reply."""
    missed, reading = missed_by(appraisal), appraisal.reading
    if missed in ("silence", "repeat", "cruel"):
        return {"silence": lines.silence, "repeat": lines.repeat, "cruel": lines.cold}[missed]
    marks = {} if reading is None else dict(zip(ASPECTS, reading.aspects, strict=True))
    for rule in _BY_SCENE[scene] if marks else ():
        if all(marks[name] >= x for name, x in rule.least.items()) and all(marks[name] < x for name, x in rule.below.items()):
            group: Sequence[str] = getattr(lines, rule.group)
            return group
    return lines.missed


_NEEDS: Mapping[Scene, str] = {
    "support": "Somebody who stays with what happened, with me in it.",
    "defense": "To get what I came for, or at least to be dealt with as somebody.",
    "repair": "To hear it said what was done to me, by the one who did it.",
    "charm": "To be left in peace, or else to meet somebody worth it.",
}
_HOT, _COLD, _WARM = 60.0, 20.0, 60.0
"""Negative emotion above which, and relation below and above which, the tone changes."""


def _thoughts(scene: Scene, appraisal: Appraisal, felt: _Felt) -> dict[str, str]:
    """The five steps of the reflection, as the person would think them; a student's say what it predicted and no more."""
    changes = f"emotion {felt.a:+.1f}, relation {felt.t:+.1f}"
    if appraisal.reading is None:
        return {"changes": f"predicted: {changes}"}
    good, bad = reason_of(appraisal, good=True), reason_of(appraisal, good=False)
    reason = good if felt.worth >= GOOD_FROM else bad if felt.worth <= HARM_FROM else f"{good}, but {bad}" if good and bad else ""
    quality = "nothing was said" if appraisal.silent else reason or "it neither helps nor hurts"
    (a, t) = felt.state
    if a > _HOT:
        tone = "Short, and sharp."
    elif t < _COLD:
        tone = "Short and cold; I owe nothing."
    else:
        tone = "Softer. I may tell more." if t > _WARM else "As I am, no more and no less."
    return {
        "need": _NEEDS[scene],
        "quality": f"{quality[:1].upper()}{quality[1:]}.",
        "inertia": "I have heard that before." if appraisal.again >= REPEATED else "That was not said before.",
        "changes": changes,
        "tone": tone,
    }
