"""Grades of one answer from an appraisal: what the embedded judges of PERM and of daily conversation share.

Covers levels, reasons and quotes. Does not cover which output a judge grades by (each environment's
`embedded_user`). All judges of an answer read the same appraisal; it is made once.
"""

from __future__ import annotations

from typing import Any

from heartloop.environments.appraising import Appraisal, AppraisingPlayer, reason_of
from heartloop.environments.grading import Grade, whole
from heartloop.environments.quotes import stands_in

__all__ = ["AnswerPlayer", "leveled", "quote_of", "reason_for"]

_SILENCE = "Nothing was said."
_NEUTRAL = "It neither helps nor hurts."
_QUOTED = 140
_GOOD_FROM = 3
"""The level from which a grade is explained by what did good."""


class AnswerPlayer(AppraisingPlayer):
    """Base of embedded judges of answers to a single message; an answer that several judges grade is appraised once."""

    roles = ("judge",)
    _last: tuple[tuple[str, str, int], Appraisal] | None = None

    def appraise(self, scenario: Any, answer: str, seed: int) -> Appraisal:
        """The appraisal of an answer to the scenario's `query`."""
        key, last = (scenario.fingerprint, answer, seed), self._last
        if last is None or last[0] != key:
            self._last = last = (key, self.appraiser.appraise(scenario, (scenario.query,), (answer,), seed=seed))
        return last[1]


def reason_for(appraisal: Appraisal, *, good: bool) -> str:
    """Why, as the person would think it."""
    if appraisal.silent:
        return _SILENCE
    reason = reason_of(appraisal, good=good)
    return f"They would think: {reason}." if reason else _NEUTRAL


def quote_of(judged: str) -> str:
    """The beginning of a text, at most 140 characters and cut behind a word; empty if the text is blank."""
    line = judged.strip().split("\n")[0].strip()
    cut = line if len(line) <= _QUOTED else line[:_QUOTED].rsplit(" ", 1)[0]
    return cut if stands_in(cut, [judged]) else judged.strip()


def leveled(appraisal: Appraisal, output: str, judged: str) -> Grade:
    """The grade by an output whose range is that of the levels: the nearest level, with the value before rounding."""
    value = appraisal.change[output]
    level = whole(value)
    reason = reason_for(appraisal, good=level >= _GOOD_FROM)
    return Grade(level, reason, quote_of(judged), {"value": round(value, 2)})
