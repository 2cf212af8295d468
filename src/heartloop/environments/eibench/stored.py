"""Stored EIBench dialogues: rescored with another preset or relation weight without a model call, and rejudged by another judge.

Rescoring. The presets differ only if a change is outside ±10: `paper` re-asks once and then leaves the dialogue unscored;
`released` clamps the first answer.

To `released`: if `paper` re-asked, the later answer is used, since the dialogue continued from it; such dialogues are counted
(`out_of_range`). A dialogue that `paper` left unscored is scored by the refused answer if that answer ends the dialogue;
otherwise it stays unscored, with cause `not played on`. To `paper`: a dialogue with a clamped change is unscored, with cause
`change clamped`.

Rejudging. The judge gets the prompts of the user simulator, with its own running state. Its message and its decision to continue
are ignored: the dialogue ends at the stored turn, for the stored reason.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from heartloop.core.dialogue import Call, StopReason, Transcript, Turn, turn_counts, usage_by_role, visible, writable
from heartloop.core.errors import InputError
from heartloop.environments.base import answered
from heartloop.environments.eibench.environment import (
    EIBenchOptions,
    EIBenchUser,
    EIBenchView,
    Reaction,
    anchors_of,
    next_state,
    relation_weight_of,
)
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, Anchors, outcome, process_rewards
from heartloop.environments.eibench.users import reaction_of
from heartloop.environments.episode import CallLog
from heartloop.environments.spec import Stored
from heartloop.environments.stored import StandIn, check_turns, unscored

__all__ = ["STORED", "OneReply", "StoredPerson", "out_of_range", "rescored"]

_WHY = {
    "not played on": "under released the first answer would have stood and the talk gone on; only a new dialogue can tell",
    "change clamped": "a change outside ±10 was clamped under released; paper would have asked again",
}


def rescored(transcript: Transcript, options: EIBenchOptions) -> Transcript:
    """The transcript rescored with the preset and the relation weight of the options.

    Raises:
        UseError: more turns than `options.max_turns`.
        InputError: the transcript has no anchors.
    """
    check_turns(transcript, options)
    result = transcript
    if options.preset != transcript.preset:
        result = _released(transcript, options.max_turns) if options.preset == "released" else _paper(transcript)
    return result if options.relation_weight == relation_weight_of(result) else _weighed(result, options.relation_weight)


def out_of_range(transcript: Transcript) -> bool:
    """Whether an answer with a change outside ±10 was re-asked; `released` would have clamped it."""
    calls = [call for call in transcript.calls if call.purpose == "react"]
    reasked = (call for call, after in pairwise(calls) if after.turn == call.turn)
    reactions = (reaction_of(call) for call in reasked)
    return any(max(abs(r.a), abs(r.t)) > CHANGE_LIMIT for r in reactions if r is not None)


def _released(played: Transcript, max_turns: int) -> Transcript:
    refused = _refused(played)
    if refused is None:
        return played.model_copy(update={"preset": "released"})
    answer, reaction = refused
    turn = len(played.turns)
    calls = [call for call in played.calls if call.turn == turn and call.role == "policy"]
    if (reaction.goes_on and turn + 1 < max_turns) or not calls:
        return unscored(played, "released", "not played on", _WHY["not played on"])
    reply = visible(writable(calls[-1].text)).text
    states = [played.start, *(t.state for t in played.turns if t.state is not None)]
    before = (states[-1]["a"], states[-1]["t"])
    (a, t), clamps = next_state(before, reaction)
    last = Turn(
        index=turn,
        reply=reply,
        silent=not reply,
        truncated=calls[-1].finish_reason == "length",
        state={"a": a, "t": t},
        change={"a": a - before[0], "t": t - before[1]},
        thoughts=dict(reaction.reflection),
        message=reaction.reply,
    )
    return _ended(played, last, answer, clamps, "turn_limit" if reaction.goes_on else "goodbye")


def _paper(played: Transcript) -> Transcript:
    if played.counts.get("clamped changes"):
        return unscored(played, "paper", "change clamped", _WHY["change clamped"])
    return played.model_copy(update={"preset": "paper"})


def _refused(played: Transcript) -> tuple[Call, Reaction] | None:
    """The call that `paper` refused and `released` accepts, and its reaction; `None` if there is none."""
    if played.failure is None or played.failure.role != "user":
        return None
    calls = (call for call in played.calls if call.purpose == "react" and call.turn == len(played.turns))
    return next(((call, reaction) for call in calls if (reaction := reaction_of(call)) is not None), None)


def _ended(played: Transcript, last: Turn, answer: Call, clamps: list[str], stop: StopReason) -> Transcript:
    """The dialogue with a last turn added; calls, tokens and counts end with its answer."""
    turns = (*played.turns, last)
    states = [played.start, *(turn.state for turn in turns if turn.state is not None)]
    anchors = _anchors(played)
    rewards = process_rewards([state["a"] for state in states], [state["t"] for state in states])
    calls = tuple(call for call in played.calls if call.turn < last.index or call.role == "policy" or call.reask <= answer.reask)
    counts = {name: n for name, n in played.counts.items() if name != "re-asks"}
    for name in clamps:
        counts[name] = counts.get(name, 0) + 1
    if reasks := sum(call.reask > 0 for call in calls):
        counts["re-asks"] = reasks
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
    anchors = anchors_of(played)
    if anchors is None:
        raise InputError(f"{played.scenario}: the transcript has no anchors; expected them in its facts; play the scenario again")
    return anchors


class StoredPerson(StandIn[EIBenchUser]):
    """A user with stored messages, and changes by the judge."""

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        reaction = await answered("judge", self._judge.react(view, log))
        left = self._played.stop == "goodbye" and view.turn == len(self._played.turns) - 1
        return reaction._replace(reply=self._played.turns[view.turn].message or "", goes_on=not left)


class OneReply(StandIn[EIBenchUser]):
    """A judge of one reply of a stored dialogue; the replies before it keep their stored changes."""

    def __init__(self, played: Transcript, judge: EIBenchUser, turn: int) -> None:
        super().__init__(played, judge)
        self._turn = turn

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        turn = self._played.turns[view.turn]
        if view.turn >= self._turn or turn.change is None:
            return await self._judge.react(view, log)
        return Reaction(turn.change["a"], turn.change["t"], turn.message or "", True, turn.thoughts, turn.evidence)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, "relation_weight": relation_weight_of(played)}


STORED = Stored(options=_options, rescored=rescored, stand_in=StoredPerson, one_reply=OneReply, asked_again=out_of_range)
