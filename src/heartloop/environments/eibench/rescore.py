"""A stored EIBench dialogue computed by the other preset, or with another relation weight, without a model call.

Covers what follows from what was said and answered. The presets differ where a change went beyond ±10, and nowhere else:
`paper` asks again once and then leaves the dialogue unscored, `released` clamps the first answer.

To `released`: where `paper` asked again, the later answer stands (the talk went on from it), and how often is told. A dialogue
that `paper` left unscored over such an answer is scored by it where it ends the talk; else the cause is `not played on`.
To `paper`: a dialogue with a clamped change is unscored, `change clamped`, since `paper` would have asked again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from heartloop.core.dialogue import Call, StopReason, Transcript, Turn, turn_counts, usage_by_role, visible, writable
from heartloop.core.errors import InputError
from heartloop.environments.eibench.environment import PRESETS, Reaction, anchors_of, relation_weight_of, taken
from heartloop.environments.eibench.llm_user import reaction_of
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, Anchors, outcome, process_rewards
from heartloop.environments.stored import check_rescorable, unscored

__all__ = ["out_of_range", "rescored"]

_WHY = {
    "not played on": "under released the first answer would have stood and the talk gone on; only a new dialogue can tell",
    "change clamped": "a change outside ±10 was clamped under released; paper would have asked again",
}


def rescored(transcript: Transcript, *, preset: str, max_turns: int, relation_weight: float | None = None) -> Transcript:
    """The transcript as `preset` computes it, with the outcome by `relation_weight`; unchanged where it was played so.

    Args:
        max_turns: policy replies in a dialogue at most, as it was played.
        relation_weight: lambda of the outcome, in [0, 1]; as it was played, where it is `None`.

    Raises:
        UseError: another environment, an unknown preset, or more turns than `max_turns`.
        InputError: a weight outside [0, 1], or a transcript that tells no anchors.
    """
    check_rescorable(transcript, "eibench", PRESETS, preset, max_turns)
    found = transcript
    if preset != transcript.preset:
        found = _released(transcript, max_turns) if preset == "released" else _paper(transcript)
    return found if relation_weight is None else _weighed(found, relation_weight)


def out_of_range(transcript: Transcript) -> bool:
    """Whether the simulator was asked again over a change outside ±10, whose first answer `released` would have clamped."""
    calls = [call for call in transcript.calls if call.purpose == "react"]
    again = (call for call, after in pairwise(calls) if after.turn == call.turn)
    answers = (reaction_of(call) for call in again)
    return any(max(abs(found.a), abs(found.t)) > CHANGE_LIMIT for found in answers if found is not None)


def _released(played: Transcript, max_turns: int) -> Transcript:
    refused = _refused(played)
    if refused is None:
        return played.model_copy(update={"preset": "released"})
    answer, found = refused
    turn = len(played.turns)
    calls = [call for call in played.calls if call.turn == turn and call.role == "policy"]
    if (found.goes_on and turn + 1 < max_turns) or not calls:
        return unscored(played, "released", "not played on", _WHY["not played on"])
    said = visible(writable(calls[-1].text)).text
    states = [played.start, *(t.state for t in played.turns if t.state is not None)]
    before = (states[-1]["a"], states[-1]["t"])
    (a, t), cut = taken(before, found)
    last = Turn(
        index=turn,
        reply=said,
        silent=not said,
        truncated=calls[-1].finish_reason == "length",
        state={"a": a, "t": t},
        change={"a": a - before[0], "t": t - before[1]},
        thoughts=dict(found.reflection),
        message=found.reply,
    )
    return _ended(played, last, answer, cut, "turn_limit" if found.goes_on else "goodbye")


def _paper(played: Transcript) -> Transcript:
    if played.counts.get("clamped changes"):
        return unscored(played, "paper", "change clamped", _WHY["change clamped"])
    return played.model_copy(update={"preset": "paper"})


def _refused(played: Transcript) -> tuple[Call, Reaction] | None:
    """The answer over which `paper` left the dialogue unscored and which `released` takes, raw and read."""
    if played.failure is None or played.failure.role != "simulator":
        return None
    asked = (call for call in played.calls if call.purpose == "react" and call.turn == len(played.turns))
    return next(((call, found) for call in asked if (found := reaction_of(call)) is not None), None)


def _ended(played: Transcript, last: Turn, answer: Call, cut: list[str], stop: StopReason) -> Transcript:
    """The dialogue with its last turn; calls, tokens and counts are those that belong to it."""
    turns = (*played.turns, last)
    states = [played.start, *(turn.state for turn in turns if turn.state is not None)]
    anchors = _anchors(played)
    rewards = process_rewards([state["a"] for state in states], [state["t"] for state in states])
    calls = tuple(call for call in played.calls if call.turn < last.index or call.role == "policy" or call.reask <= answer.reask)
    counts = {name: n for name, n in played.counts.items() if name != "re-asks"}
    for what in cut:
        counts[what] = counts.get(what, 0) + 1
    if asked_again := sum(call.reask > 0 for call in calls):
        counts["re-asks"] = asked_again
    return played.model_copy(
        update={
            "preset": "released",
            "turns": turns,
            "stop": stop,
            "failure": None,
            "score": outcome(states[-1]["a"], states[-1]["t"], *anchors, relation_weight_of(played)),
            "rewards": tuple(float(reward) for reward in rewards),
            "calls": calls,
            "usage": usage_by_role(calls),
            "counts": {**counts, **turn_counts(turns)},
        }
    )


def _weighed(played: Transcript, weight: float) -> Transcript:
    if not 0.0 <= weight <= 1.0:
        raise InputError(f"relation_weight is {weight:g}; expected a number from 0 to 1")
    update: dict[str, Any] = {"facts": {**played.facts, "relation_weight": f"{weight:g}"}}
    if played.score is not None:
        state = next((turn.state for turn in reversed(played.turns) if turn.state is not None), played.start)
        update["score"] = outcome(state["a"], state["t"], *_anchors(played), weight)
    return played.model_copy(update=update)


def _anchors(played: Transcript) -> tuple[Anchors, Anchors]:
    found = anchors_of(played)
    if found is None:
        raise InputError(f"{played.scenario}: the transcript tells no anchors; expected them among its facts, play it again")
    return found
