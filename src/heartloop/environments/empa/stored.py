"""Stored EMPA dialogues: computed by the other preset without a model call, and rated by another judge.

Rescoring covers what follows from the stored levels: points, path, energies, where the dialogue ends, EPM-Q. The presets end
dialogues at different turns. Where the other one would have ended earlier, what came after is left out; where it would have gone
on, no further reply is stored, and the dialogue ends as `cut`, scored up to there. What person and director did under the first
preset stands: a live dialogue could have gone another way.

Rejudging: path, ends and score are those of the new levels. Where they end the dialogue earlier, it ends there; where the stored
dialogue has no further reply, it ends as `cut`, or as it had ended by the director or the turn limit.
"""

from __future__ import annotations

from typing import Any, Protocol

from heartloop.core.dialogue import StopReason, Transcript, Turn, turn_counts, usage_by_role
from heartloop.environments.base import answered
from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.environment import Judgement, View, case_of, ends, numbers_of
from heartloop.environments.empa.options import VARIANTS, EmpaOptions
from heartloop.environments.empa.scoring import AXES, Case, Trajectory, epmq, trace
from heartloop.environments.episode import CallLog
from heartloop.environments.spec import Player, Stored
from heartloop.environments.stored import StandIn, check_turns

__all__ = ["STORED", "FormJudge", "StoredPerson", "rescored"]


def rescored(transcript: Transcript, options: EmpaOptions) -> Transcript:
    """The transcript as `options.preset` computes it; unchanged where it was played so.

    Raises:
        UseError: more turns than `options.max_turns`.
        InputError: a judged turn that keeps no levels.
    """
    check_turns(transcript, options)
    return transcript if options.preset == transcript.preset else _computed(transcript, options.preset)


def _computed(played: Transcript, preset: str) -> Transcript:
    case = case_of(played)
    forms = [form for form in case.forms if form is not None]
    whole = trace(Case(case.p0, forms), preset=preset)
    turns: list[Turn] = []
    path = whole.until(0)
    stop: StopReason | None = None
    for turn in played.turns:
        if turn.state is not None:
            path = whole.until(len(path.energy) + 1)
            turn = _moved(turn, path)
            stop = ends(path, preset=preset, turns=len(turns) + 1)
        turns.append(turn)
        if stop is not None:
            break
    update: dict[str, Any] = {"preset": preset, "turns": tuple(turns), "stop": _stop(played, stop, len(turns))}
    if played.score is not None:
        update["score"] = epmq([Case(case.p0, forms[: len(path.energy)])], preset=preset).score
        update["rewards"] = tuple(map(float, path.energy))
    if len(turns) < len(played.turns):
        calls = tuple(call for call in played.calls if call.turn < len(turns))
        update["calls"] = calls
        update["usage"] = usage_by_role(calls)
        update["counts"] = {**played.counts, **turn_counts(turns)}
    return played.model_copy(update=update)


def _moved(turn: Turn, path: Trajectory) -> Turn:
    """A judged turn with the state, the change and the numbers of this preset; `path` leads up to it."""
    state = dict(zip(AXES, map(float, path.position[-1]), strict=True))
    change = dict(zip(AXES, map(float, path.increment[-1]), strict=True))
    return turn.model_copy(update={"state": state, "change": change, "evidence": {**turn.evidence, **numbers_of(path)}})


def _stop(played: Transcript, stop: StopReason | None, turns: int) -> StopReason:
    """Why the dialogue ends now: what this preset found, or else why it had ended; `cut` where only the other preset ended it."""
    if played.stop == "failed" or (stop is None and turns == len(played.turns) and played.stop not in ("success", "failure")):
        return played.stop
    return stop or "cut"


class FormJudge(Player, Protocol):
    """Who gives the levels of stored replies: an `EmpaUser`, or what stands for one."""

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        """As `EmpaUser.adjudicate`."""
        ...


class StoredPerson(StandIn[FormJudge]):
    """A person whose words, and a director whose calls, are stored; the levels are the judge's."""

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return await answered("judge", self._judge.adjudicate(view, log))

    async def direct(self, view: View, log: CallLog) -> Act:
        stored = self._played.turns[view.turn].evidence.get("director")
        return Act(**stored) if stored else Act("wait", reason="the stored dialogue had ended here")

    async def speak(self, view: View, log: CallLog) -> str:
        return self._played.turns[view.turn].message or ""


def _options(played: Transcript) -> dict[str, Any]:
    variant = played.variant if played.variant in VARIANTS else VARIANTS[0]  # runs imported by heartloop 0.1 have "released"
    return {"preset": played.preset, "variant": variant, "window": int(played.facts.get("window", "1"))}


STORED = Stored(options=_options, rescored=rescored, stand_in=StoredPerson, stops_with_its_turns=True)
