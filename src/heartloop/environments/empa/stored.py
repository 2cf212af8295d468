"""Stored EMPA dialogues: rescoring by the other preset from the stored levels, and rejudging.

The presets end dialogues at different turns. If the other preset, or the new levels, end the dialogue earlier, later turns are
dropped; if it would continue, it is `cut` and scored up to its last reply. Messages, director calls and P_0 are not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from heartloop.core.dialogue import StopReason, Transcript, Turn, turn_counts, usage_by_role
from heartloop.environments.base import answered
from heartloop.environments.empa.environment import Act, EmpaOptions, EmpaView, Judgement, ends, judged_dialogue, numbers_of
from heartloop.environments.empa.scoring import AXES, Case, epmq, trace
from heartloop.environments.episode import CallLog
from heartloop.environments.replay import StandIn, check_turns
from heartloop.environments.spec import Player, Stored


def rescored(played: Transcript, options: EmpaOptions) -> Transcript:
    """The transcript as `options.preset` computes it; unchanged if that is its preset."""
    check_turns(played, options)
    preset = options.preset
    if preset == played.preset:
        return played
    dialogue = judged_dialogue(played)
    forms = [form for form in dialogue.forms if form is not None]
    whole = trace(Case(dialogue.p0, forms), preset=preset)
    turns: list[Turn] = []
    path = whole.until(0)
    stop: StopReason | None = None
    for turn in played.turns:
        if turn.state is not None:
            path = whole.until(len(path.energy) + 1)
            state, change = (dict(zip(AXES, map(float, row[-1]), strict=True)) for row in (path.position, path.increment))
            turn = turn.model_copy(update={"state": state, "change": change, "evidence": {**turn.evidence, **numbers_of(path)}})
            stop = ends(path, preset=preset, turns=len(turns) + 1)
        turns.append(turn)
        if stop is not None:
            break
    update: dict[str, Any] = {"preset": preset, "turns": tuple(turns), "stop": _stop(played, stop, len(turns))}
    if played.score is not None:
        update["score"] = epmq([Case(dialogue.p0, forms[: len(path.energy)])], preset=preset).score
        update["rewards"] = tuple(map(float, path.energy))
    if len(turns) < len(played.turns):
        calls = tuple(call for call in played.calls if call.turn < len(turns))
        update |= {"calls": calls, "usage": usage_by_role(calls), "counts": {**played.counts, **turn_counts(turns)}}
    return played.model_copy(update=update)


def _stop(played: Transcript, stop: StopReason | None, turns: int) -> StopReason:
    """`cut` if only the other preset ended the dialogue."""
    if played.stop == "failed" or (stop is None and turns == len(played.turns) and played.stop not in ("success", "failure")):
        return played.stop
    return stop or "cut"


class FormJudge(Player, Protocol):
    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement: ...


class StoredPerson(StandIn[FormJudge]):
    """A user simulator and a director with stored messages and calls, and the judge's levels."""

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        return await answered("judge", self._judge.adjudicate(view, log))

    async def rate(self, view: EmpaView, log: CallLog) -> Sequence[float]:
        return [self._played.start[axis] for axis in AXES]

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        stored = self._played.turns[view.turn].evidence.get("director")
        return Act(**stored) if stored else Act("wait", reason="the stored dialogue had ended here")

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        return self._played.turns[view.turn].message or ""


def _options(played: Transcript) -> dict[str, Any]:
    window, deficit = int(played.facts.get("window", "1")), played.facts.get("deficit", "scenario")
    return {"preset": played.preset, "variant": played.variant, "window": window, "deficit": deficit}


STORED = Stored(options=_options, rescored=rescored, stand_in=StoredPerson, stops_with_its_turns=True)
