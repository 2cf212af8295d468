"""Stored SAGE dialogues: rescored by the other preset, and rejudged.

A dialogue whose score under the other preset does not follow from the transcript becomes unscored: the last reply was not judged,
the dialogue would continue, or a change was clamped that `corrected` would have re-asked. One departure: if `corrected` re-asked,
the later answer is used, where `released` would have clamped the first. If a stored dialogue would continue by a judge's emotion,
it is `cut` there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from heartloop.core.dialogue import Transcript, visible
from heartloop.core.errors import AnswerError
from heartloop.environments.base import answered
from heartloop.environments.episode import CallLog
from heartloop.environments.replay import NotStored, StandIn, by_other_rules, check_turns, unscored
from heartloop.environments.sage.environment import VARIANTS, Feeling, Sage, SageOptions, SageUser, SageView, Speech
from heartloop.environments.sage.scoring import CHANGE_LIMIT, band
from heartloop.environments.spec import Stored

_CHANGE = re.compile(r'"change"\s*:\s*(-?\d{1,4})\b')
_READABLE = 1000  # larger changes are invalid under both presets (`users`)


def rescored(transcript: Transcript, options: SageOptions) -> Transcript:
    """The transcript as `options.preset` computes it; unchanged where it was played so."""
    check_turns(transcript, options)
    preset = options.preset
    if transcript.preset == preset:
        return transcript
    if preset == "corrected" and transcript.counts.get("clamped changes"):
        why = "a change outside ±10 was clamped under preset released; corrected would have re-asked"
        return unscored(transcript, preset, "change clamped", why)
    scenario = SimpleNamespace(id=transcript.scenario, first_message="")
    leaves_at = transcript.facts.get("leaves_at")
    given = {**options.model_dump(), "leaves_at": None if leaves_at is None else float(leaves_at)}
    sage = Sage([scenario], StoredPerson(transcript), **given)  # type: ignore[list-item]
    result = by_other_rules(transcript, sage, preset)
    as_played = transcript.failure is not None and not result.scored
    return transcript.model_copy(update={"preset": preset}) if as_played else result


def out_of_range(transcript: Transcript) -> bool:
    """Whether an appraisal has a change outside ±10 that preset `released` would have clamped."""
    answers = (_CHANGE.search(visible(call.text)) for call in transcript.calls if call.purpose == "feel")
    return any(CHANGE_LIMIT < abs(int(match[1])) <= _READABLE for match in answers if match is not None)


class StoredPerson(StandIn[SageUser]):
    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return self._judge.describe(variant)

    async def open(self, view: SageView, log: CallLog) -> str:
        self.repeat_calls(log, "open", 0)
        return self._played.opening or ""

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        if self.judges(view.turn):
            return await answered("judge", self._judge.feel(view, log))
        turn = self.turn(view.turn)
        if turn.change is None:
            raise NotStored("not judged", "the last reply was not judged under preset released")
        self.repeat_calls(log, "feel", view.turn)
        return Feeling(turn.change["emotion"], turn.thoughts, turn.evidence)

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        played = self._played
        last = view.turn == len(played.turns) - 1
        if band(view.emotion) in ("S", "F") and not last:  # the stored message belongs to a dialogue that continues
            return Speech("")
        if not self.has_judge:
            self.repeat_calls(log, "speak", view.turn)
            if last and played.counts.get("lost farewells"):
                raise AnswerError("the farewell was lost")
        return Speech(played.turns[view.turn].message or "", cut=last and self.has_judge)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, "start": played.start["emotion"]}


STORED = Stored(
    options=_options,
    rescored=rescored,
    stand_in=StoredPerson,
    described=lambda judge, played: judge.describe(played.variant),
    unused_prompts="speak",
    one_reply=StoredPerson,
    asked_again=out_of_range,
)
