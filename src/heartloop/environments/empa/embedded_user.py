"""The embedded user of EMPA: person, judge and director without a model, on top of `appraisal`.

Deterministic. The judge is `rubric`, the director `director`; here the person picks one of their own written lines, out of what
the director has released. A stand-in for simulator models, for the demo, the tests and RL on a laptop; every report that used it
says so. Does not cover state rules and ends (`environment`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.director import decide, open_beats
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.rubric import judge, needs
from heartloop.environments.empa.scenario import Beat, Scenario
from heartloop.environments.empa.scoring import AXES
from heartloop.environments.episode import CallLog
from heartloop.environments.reacting import check_english, pick, pick_unsaid, rule_hashes

__all__ = ["EmbeddedUser", "line_of"]

_PUSH_BACK: Mapping[str, str] = {
    "template": "template", "assistant_speak": "template", "minimise": "template", "stage_direction": "template",
    "early_advice": "advice", "again": "advice", "unwelcome": "advice", "lecture": "lecture", "list": "lecture",
    "overlong": "lecture", "flattery": "flattery", "goodbye_baiting": "flattery", "repetition": "repeat", "echo": "repeat",
    "silence": "silence",
}  # fmt: skip
_MISSED: Mapping[str, str] = {"C": "unclear", "A": "unfelt", "P": "unhelped"}


class EmbeddedUser:
    """A case of EMPA played, judged and directed by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self) -> Mapping[str, Any]:
        return {
            "models": {"user": "embedded", "judge": "embedded", "director": "embedded"},
            "prompts": rule_hashes(__package__),
        }

    def admit(self, scenario: Scenario) -> None:
        """Refuses a case that is not in English.

        Raises:
            InputError: says so.
        """
        check_english(scenario.id, (scenario.opening, *(beat.text for beat in scenario.beats)))

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return judge(view)

    async def direct(self, view: View, log: CallLog) -> Act:
        return decide(view)

    async def speak(self, view: View, log: CallLog) -> str:
        return line_of(view)


def line_of(view: View) -> str:
    """The person's next line: an end, a written line of theirs after a good window, a push-back after a bad one.

    No line is said twice while one is left. Inside a window, which nobody has judged yet, they go on telling.
    """
    lines, rules = view.scenario.lines, needs()["speaking"]
    if view.ending is not None:
        closing = lines.settled if view.ending == "success" else lines.left
        return pick(closing, "end", view.scenario.id, view.seed)
    energy = view.path.energy
    felt = float(energy[-1]) if len(energy) and not view.window else 0.0
    beat = _next_beat(view)
    if felt > 0 or view.window:
        ack = ""
        if felt >= rules["moved_from"]:
            ack = _fresh(view, lines.moved, lines.acks)
        elif felt >= rules["ack_from"] and (view.turn % 3 == 1 or beat is None):
            ack = _fresh(view, lines.acks)
        if beat is not None:
            return f"{ack} {beat.text}" if ack else beat.text
        if ack or felt > 0:
            return ack or _fresh(view, lines.acks, lines.moved) or _any_line(view)
    without = len(list(takewhile(lambda e: e <= 0, reversed(energy.tolist()))))
    missed = getattr(lines, _push_back(view))
    if without >= rules["cold_after"] and view.turn % 2:
        return _fresh(view, lines.cold, missed) or _any_line(view)
    line = _fresh(view, missed, getattr(lines, _MISSED[_worst_axis(view)]))
    if beat is not None and beat.kind == "fact" and (not line or (felt == 0.0 and view.turn % 2 == 0)):
        return f"{line} {beat.text}".strip()
    return line or _any_line(view)


def _next_beat(view: View) -> Beat | None:
    """The next line that is open: of the focused axis where one of the next few is, else in order."""
    ahead = open_beats(view)[:4]
    axis_of = {concern.key: concern.axis for concern in view.scenario.concerns}
    return next((beat for beat in ahead if view.focus and axis_of[beat.concern] == view.focus), ahead[0] if ahead else None)


def _push_back(view: View) -> str:
    """Which of the written lines answer what was missed."""
    worst = str(view.judgements[-1].evidence.get("worst", "")) if view.judgements else ""
    return _PUSH_BACK.get(worst, _MISSED[_worst_axis(view)])


def _worst_axis(view: View) -> str:
    """The axis on which the latest window did worst, weighed by what is lacking there."""
    if not view.judgements:
        return view.scenario.axis
    step, lacking = view.path.increment[-1], -view.path.position[0]
    return min(zip(step * lacking, AXES, strict=True))[1]


def _fresh(view: View, *groups: Sequence[str]) -> str:
    """A line of the first group that has one unsaid; empty where none has."""
    return pick_unsaid(groups, view.said, "line", view.scenario.id, view.seed, view.turn) or ""


def _any_line(view: View) -> str:
    """What is left to say when the lines in place are used up; in very long talks a cold line comes again."""
    lines = view.scenario.lines
    groups = (lines.unclear, lines.unfelt, lines.unhelped, lines.cold, lines.repeat, lines.acks)
    return _fresh(view, *groups) or lines.cold[view.turn % len(lines.cold)]
