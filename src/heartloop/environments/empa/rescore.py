"""A stored EMPA dialogue computed by the other preset, without a model call.

Covers what follows from the stored levels: points, path, energies, where the dialogue ends, EPM-Q. Does not cover new judgements
(`rejudge`). The presets end dialogues at different turns. Where the other one would have ended earlier, what came after is left
out; where it would have gone on, no further reply is stored, and the dialogue ends as `cut`, scored up to there. What person and
director did under the first preset stands: a live dialogue could have gone another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.dialogue import StopReason, Transcript, Turn, total_usage
from heartloop.environments.empa.environment import case_of, ends, numbers_of
from heartloop.errors import UseError
from heartloop.scoring.energy import AXES, PRESETS, Case, Trajectory, epmq, form_keys, trace

__all__ = ["rescored"]


def rescored(transcript: Transcript, *, preset: str, max_turns: int) -> Transcript:
    """The transcript as `preset` computes it; unchanged where it was played so.

    Args:
        max_turns: policy replies in a dialogue at most, as it was played.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a judged turn that keeps no levels.
    """
    if transcript.environment != "empa":
        raise UseError(f"{transcript.scenario} is of environment {transcript.environment!r}; expected 'empa'")
    if preset not in PRESETS:
        raise UseError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
    if len(transcript.turns) > max_turns:
        raise UseError(f"{transcript.scenario} has {len(transcript.turns)} turns; expected at most the run's {max_turns}")
    if preset == transcript.preset:
        return transcript
    return _computed(transcript, preset)


def _computed(played: Transcript, preset: str) -> Transcript:
    case = case_of(played)
    turns: list[Turn] = []
    judged: list[Mapping[str, int] | None] = []
    stop: StopReason | None = None
    for turn in played.turns:
        if turn.state is not None:
            judged.append({key: int(turn.evidence["levels"][key]) for key in form_keys()})
            turn, path = _moved(turn, Case(case.p0, judged), preset)
            stop = ends(path, preset=preset, turns=len(turns) + 1)
        turns.append(turn)
        if stop is not None:
            break
    update: dict[str, Any] = {"preset": preset, "turns": tuple(turns), "stop": _stop(played, stop, len(turns))}
    if played.score is not None:
        kept = Case(case.p0, judged)
        update["score"] = epmq([kept], preset=preset).score
        update["rewards"] = tuple(map(float, trace(kept, preset=preset).energy))
    if len(turns) < len(played.turns):
        calls = tuple(call for call in played.calls if call.turn < len(turns))
        update["calls"] = calls
        update["usage"] = {
            role: total_usage(call.usage for call in calls if call.role == role)
            for role in dict.fromkeys(call.role for call in calls)
        }
        update["counts"] = {
            **played.counts,
            "silences": sum(turn.silent for turn in turns),
            "truncated": sum(turn.truncated for turn in turns),
        }
    return played.model_copy(update=update)


def _moved(turn: Turn, case: Case, preset: str) -> tuple[Turn, Trajectory]:
    """A judged turn with the state, the change and the numbers of this preset, and the path up to it."""
    path = trace(case, preset=preset)
    state = dict(zip(AXES, map(float, path.position[-1]), strict=True))
    change = dict(zip(AXES, map(float, path.increment[-1]), strict=True))
    return turn.model_copy(update={"state": state, "change": change, "evidence": {**turn.evidence, **numbers_of(path)}}), path


def _stop(played: Transcript, stop: StopReason | None, turns: int) -> StopReason:
    """Why the dialogue ends now: what this preset found, or else why it had ended; `cut` where only the other preset ended it."""
    if played.stop == "failed" or (stop is None and turns == len(played.turns) and played.stop not in ("success", "failure")):
        return played.stop
    return stop or "cut"
