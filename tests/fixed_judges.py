"""Judges of one answer whose grades are given: for the environments of one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from heartloop.core.chat import Reply
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Grade


class FixedJudges:
    """Judges that give what they are told, and say when they were asked; nobody answers before all are."""

    name = "fixed"

    def __init__(self, scores: Mapping[str, int], quote: str, breaks: Mapping[str, Exception] | None = None) -> None:
        self.scores = dict(scores)
        self.breaks = breaks or {}
        self.asked: dict[str, Any] = {}
        self._judges = tuple(scores)
        self._quote = quote
        self._all = asyncio.Event()

    def admit(self, scenario: Any) -> None:
        if scenario.title == "cannot be judged":
            raise InputError("cannot be judged")

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"judge": "fixed"}}

    async def grade(self, judge: str, view: Any, log: CallLog) -> Grade:
        self.asked[judge] = view
        if len(self.asked) == len(self._judges):
            self._all.set()
        await asyncio.wait_for(self._all.wait(), 5)  # nobody answers before all are asked
        for _ in range(self._judges[::-1].index(judge)):  # the first is the last to answer
            await asyncio.sleep(0)
        log.recorder(judge, 0, "judge")(Reply(f"{judge} says"), 0)
        if judge in self.breaks:
            raise self.breaks[judge]
        return Grade(self.scores[judge], f"because of {judge}", self._quote, {"seen": judge})
