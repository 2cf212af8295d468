"""A stored EMPA dialogue computed by the other preset, without a model call.

Covers what follows from the stored levels: points, path, energies, where the dialogue ends, EPM-Q. Does not cover new judgements
(`rejudge`). The presets end dialogues at different turns. Where the other one would have ended earlier, what came after is left
out; where it would have gone on, no further reply is stored, and the dialogue ends as `cut`, scored up to there. What person and
director did under the first preset stands: a live dialogue could have gone another way.
"""

from __future__ import annotations

from typing import Any

from heartloop.core.dialogue import StopReason, Transcript, Turn, turn_counts, usage_by_role
from heartloop.environments.empa.environment import case_of, ends, numbers_of
from heartloop.environments.empa.scoring import AXES, PRESETS, Case, Trajectory, epmq, trace
from heartloop.environments.stored import check_rescorable

__all__ = ["rescored"]


def rescored(transcript: Transcript, *, preset: str, max_turns: int) -> Transcript:
    """The transcript as `preset` computes it; unchanged where it was played so.

    Args:
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a judged turn that keeps no levels.
    """
    check_rescorable(transcript, "empa", PRESETS, preset, max_turns)
    if preset == transcript.preset:
        return transcript
    return _computed(transcript, preset)


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
