"""Stored SAGE dialogues: rescoring by the other preset without a model call, and rejudging.

A dialogue whose score under the other preset does not follow from the transcript becomes unscored, with one of three causes.

- `not judged`: the last reply was not judged (`released`), and `corrected` needs its judgement. `rejudge` adds it.
- `not played on`: the dialogue ended by a rule of its preset, and would continue under the other one.
- `change clamped`: a change outside ±10 was clamped (`released`); `corrected` would have re-asked.

To `released`: the judgement of the reply at the turn limit is dropped, and the first "goodbye" of the user ends the dialogue. To
`corrected`: the user's decision to leave ends it, which is in the raw answer; the embedded user never decides to leave. One
departure: if `corrected` re-asked for a change outside ±10, the later answer is used, where `released` would have clamped the
first. The prompts of the two presets are the same.

Rejudging: the judge sees its own emotion, and the rules apply to it: at 100 or below 10 the dialogue ends, even if more replies
    are
stored. If the stored dialogue ends and would continue by the judge's emotion, it is `cut` and scored by the emotion there. A
dialogue that the user left still ends in goodbye.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.core.dialogue import Call, StopReason, Transcript, Turn, turn_counts, usage_by_role, visible, writable
from heartloop.environments.base import answered
from heartloop.environments.episode import CallLog
from heartloop.environments.sage.environment import VARIANTS, Feeling, SageOptions, SageUser, SageView, Speech, says_goodbye
from heartloop.environments.sage.scoring import CHANGE_LIMIT, band
from heartloop.environments.spec import Stored
from heartloop.environments.stored import StandIn, check_turns, unscored
from heartloop.scoring.credit import turn_rewards

__all__ = ["STORED", "OneReply", "StoredPerson", "decided_to_leave", "out_of_range", "rescored"]

_LEAVES = re.compile(r'"leaves"\s*:\s*(true|false)\b')
_CHANGE = re.compile(r'"change"\s*:\s*(-?\d{1,4})\b')
_READABLE = 1000
"""Larger changes are invalid under both presets (`llm_user`)."""
_WHY = {
    "not judged": "the last reply was not judged under preset released; `heartloop rejudge` adds its judgement",
    "not played on": "the dialogue would continue under the other preset; it needs a new dialogue",
    "change clamped": "a change outside ±10 was clamped under preset released; corrected would have re-asked",
}


def rescored(transcript: Transcript, options: SageOptions) -> Transcript:
    """The transcript as `options.preset` computes it; unchanged where it was played so.

    Raises:
        UseError: more turns than `options.max_turns`.
    """
    check_turns(transcript, options)
    if transcript.preset == options.preset:
        return transcript
    return _released(transcript, options.max_turns) if options.preset == "released" else _corrected(transcript)


def out_of_range(transcript: Transcript) -> bool:
    """Whether an appraisal has a change outside ±10 that preset `released` would have clamped."""
    answers = (_CHANGE.search(visible(call.text).text) for call in transcript.calls if call.purpose == "feel")
    return any(CHANGE_LIMIT < abs(int(match[1])) <= _READABLE for match in answers if match is not None)


def _released(played: Transcript, max_turns: int) -> Transcript:
    turns: list[Turn] = []
    for place, turn in enumerate(played.turns):
        if place == max_turns - 1:
            return _ended(played, "released", [*turns, _unjudged(turn)], "turn_limit")
        turns.append(turn)
        by_mood = place == len(played.turns) - 1 and played.stop in ("success", "failure")
        if turn.message is not None and not by_mood and says_goodbye(turn.message):
            return _ended(played, "released", turns, "goodbye")
    if played.stop == "goodbye":
        return unscored(played, "released", "not played on", _WHY["not played on"])
    last = _reply_before_failure(played, max_turns)
    if last is not None:
        return _ended(played, "released", [*turns, last], "turn_limit")
    return played.model_copy(update={"preset": "released"})


def _corrected(played: Transcript) -> Transcript:
    if played.counts.get("clamped changes"):
        return unscored(played, "corrected", "change clamped", _WHY["change clamped"])
    for place, turn in enumerate(played.turns):
        by_mood = place == len(played.turns) - 1 and played.stop in ("success", "failure")
        if turn.message is not None and not by_mood and decided_to_leave(played.calls, turn.index):
            return _ended(played, "corrected", list(played.turns[: place + 1]), "goodbye")
    if played.stop == "goodbye":
        return unscored(played, "corrected", "not played on", _WHY["not played on"])
    if played.stop == "turn_limit" and (not played.turns or played.turns[-1].state is None):
        return unscored(played, "corrected", "not judged", _WHY["not judged"])
    return played.model_copy(update={"preset": "corrected"})


def decided_to_leave(calls: Sequence[Call], turn: int) -> bool:
    """Whether the last answer to `speak` in a turn says that the user leaves."""
    answers = [visible(call.text).text for call in calls if call.purpose == "speak" and call.turn == turn]
    match = _LEAVES.search(answers[-1]) if answers else None
    return match is not None and match[1] == "true"


def _unjudged(turn: Turn) -> Turn:
    return turn.model_copy(update={"state": None, "change": None, "thoughts": {}, "evidence": {}, "message": None})


def _reply_before_failure(played: Transcript, max_turns: int) -> Turn | None:
    """The reply at the turn limit if its judgement failed, which `released` does not need."""
    place = len(played.turns)
    if played.failure is None or played.failure.role != "user" or place != max_turns - 1:
        return None
    replies = [call for call in played.calls if call.role == "policy" and call.turn == place]
    if not replies:
        return None
    reply = visible(writable(replies[-1].text)).text
    return Turn(index=place, reply=reply, silent=not reply, truncated=replies[-1].finish_reason == "length")


def _ended(played: Transcript, preset: str, turns: Sequence[Turn], stop: StopReason) -> Transcript:
    """The dialogue with these turns, and with their calls, tokens and counts."""
    emotions = [played.start["emotion"], *(turn.state["emotion"] for turn in turns if turn.state is not None)]
    judged = [turn.index for turn in turns if turn.state is not None]
    played_turns = {turn.index for turn in turns}
    calls = tuple(call for call in played.calls if call.turn in (played_turns if call.role == "policy" else judged))
    counts = {**played.counts, **turn_counts(turns)}
    usage = dict(played.usage)
    if len(calls) < len(played.calls):
        counts = {name: n for name, n in counts.items() if name not in ("lost farewells", "re-asks")}
        if asked_again := sum(call.reask > 0 for call in calls if call.role != "policy"):
            counts["re-asks"] = asked_again
        usage = usage_by_role(calls)
    return played.model_copy(
        update={
            "preset": preset,
            "turns": tuple(turns),
            "stop": stop,
            "failure": None,
            "score": emotions[-1],
            "rewards": tuple(map(float, turn_rewards(emotions))),
            "calls": calls,
            "usage": usage,
            "counts": counts,
        }
    )


class StoredPerson(StandIn[SageUser]):
    """A user simulator with stored messages and the judge's appraisals."""

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return self._judge.describe(variant)

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        return await answered("judge", self._judge.feel(view, log))

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        played = self._played
        last = view.turn == len(played.turns) - 1
        if band(view.emotion) in ("S", "F") and not last:  # the stored message belongs to a dialogue that continues
            return Speech("")
        left = last and played.preset == "corrected" and played.stop == "goodbye"  # the embedded user has no raw answer
        leaves = left or decided_to_leave(played.calls, view.turn)
        return Speech(played.turns[view.turn].message or "", leaves=leaves, cut=last)


class OneReply(StandIn[SageUser]):
    """A judge of one reply of a stored dialogue; the replies before it keep their stored appraisal."""

    def __init__(self, played: Transcript, judge: SageUser, turn: int) -> None:
        super().__init__(played, judge)
        self._turn = turn

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return self._judge.describe(variant)

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        turn = self._played.turns[view.turn]
        if view.turn >= self._turn or turn.change is None:
            return await self._judge.feel(view, log)
        return Feeling(turn.change["emotion"], turn.thoughts, turn.evidence)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, "start": played.start["emotion"]}


STORED = Stored(
    options=_options,
    rescored=rescored,
    stand_in=StoredPerson,
    described=lambda judge, played: judge.describe(played.variant),
    unused_prompts="speak",
    one_reply=OneReply,
    asked_again=out_of_range,
)
