"""The scale of SAGE's score: the final emotion, 0 to 100."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.dialogue import Transcript
from heartloop.environments.sage.intentions import INTENTIONS
from heartloop.environments.sage.scoring import CHANGE_LIMIT, FAILURE_BELOW, START, SUCCESS_AT, summarise
from heartloop.environments.spec import Scale, Sums, Zone

__all__ = ["SCALE"]


def _emotions(transcript: Transcript) -> list[float]:
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return [state["emotion"] for state in states if "emotion" in state]


def _sums(dialogues: Sequence[tuple[str, float]], success_at: float, failure_below: float) -> Sums:
    summary = summarise([points for _, points in dialogues], success_at=success_at, failure_below=failure_below)
    return Sums(summary.mean, summary.success, summary.failure)


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=100.0,
    start=START,
    success_at=SUCCESS_AT,
    failure_below=FAILURE_BELOW,
    sums=_sums,
    group="intention",
    group_title="hidden intention",
    group_order=tuple(INTENTIONS),
    course=_emotions,
    rules=lambda transcript: tuple(sorted(transcript.start.items())),
    title="final emotion",
    now="emotion",
    of="Final emotion, 0 to 100",
    zones=(
        Zone("S", "s", 100, 100),
        Zone("A", "a", 70, 100),
        Zone("B", "b", 40, 70),
        Zone("C", "c", 10, 40),
        Zone("F", "f", 0, 10),
    ),
    ticks=(0, 40, 70, 100),
    change_limit=CHANGE_LIMIT,
)
