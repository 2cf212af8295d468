"""Stored EIBench dialogues: by the other preset or relation weight without a model call, and appraised by another judge.

Rescoring covers what follows from what was said and answered. The presets differ only where a change went beyond ±10: `paper`
asks again once and then leaves the dialogue unscored, `released` clamps the first answer.

To `released`: where `paper` asked again, the later answer stands (the talk went on from it), and how often is told. A dialogue
that `paper` left unscored over such an answer is scored by it where it ends the talk; else the cause is `not played on`.
To `paper`: a dialogue with a clamped change is unscored, `change clamped`, since `paper` would have asked again.

Rejudging: the judge sees its own running state. It is asked as a simulator is; the answer it would have given, and whether it
would have gone on, are ignored: the dialogue ends where it ended, by the person's words or by the turn limit.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from heartloop.core.dialogue import Call, StopReason, Transcript, Turn, turn_counts, usage_by_role, visible, writable
from heartloop.core.errors import InputError
from heartloop.environments.base import answered
from heartloop.environments.eibench.environment import EIBenchUser, Reaction, View, anchors_of, relation_weight_of, taken
from heartloop.environments.eibench.llm_user import reaction_of
from heartloop.environments.eibench.options import EIBenchOptions
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, Anchors, outcome, process_rewards
from heartloop.environments.episode import CallLog
from heartloop.environments.spec import Stored
from heartloop.environments.stored import StandIn, check_turns, unscored

__all__ = ["STORED", "StoredPerson", "out_of_range", "rescored"]

_WHY = {
    "not played on": "under released the first answer would have stood and the talk gone on; only a new dialogue can tell",
    "change clamped": "a change outside ±10 was clamped under released; paper would have asked again",
}


def rescored(transcript: Transcript, options: EIBenchOptions) -> Transcript:
    """The transcript as `options.preset` computes it, with the outcome by `options.relation_weight`.

    Raises:
        UseError: more turns than `options.max_turns`.
        InputError: a transcript that holds no anchors.
    """
    check_turns(transcript, options)
    result = transcript
    if options.preset != transcript.preset:
        result = _released(transcript, options.max_turns) if options.preset == "released" else _paper(transcript)
    return result if options.relation_weight == relation_weight_of(result) else _weighed(result, options.relation_weight)


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
    if played.failure is None or played.failure.role != "user":
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


class StoredPerson(StandIn[EIBenchUser]):
    """A person whose words are stored and whose changes are the judge's."""

    async def react(self, view: View, log: CallLog) -> Reaction:
        reaction = await answered("judge", self._judge.react(view, log))
        left = self._played.stop == "goodbye" and view.turn == len(self._played.turns) - 1
        return reaction._replace(reply=self._played.turns[view.turn].message or "", goes_on=not left)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, "relation_weight": relation_weight_of(played)}


STORED = Stored(options=_options, rescored=rescored, stand_in=StoredPerson, asked_again=out_of_range)
