"""A model's best or worst dialogue in brief: score, scenario, how it ended, its course as a small curve.

Pure: a transcript in, values out. Does not cover which dialogues these are (`page`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heartloop.core.dialogue import HEAVY_TAGS, Transcript, content_tags
from heartloop.evaluation.scores import group_of
from heartloop.report.trajectories import Frame, path_of

__all__ = ["Highlight", "highlight_of"]


class Highlight(NamedTuple):
    """A dialogue worth opening first."""

    address: str
    score: float
    title: str
    person: str
    group: str
    stop: str
    tags: str
    heavy: bool
    opening: str
    path: str
    end: tuple[float, float]


def highlight_of(
    dialogue: Transcript, *, address: str, score: float, stop: str, course: Sequence[float], frame: Frame
) -> Highlight:
    """The dialogue in brief; `course` is its points turn by turn, drawn in `frame`, and `stop` why it ended, in words."""
    curve, tags = list(course) or [0.0], content_tags(dialogue)
    return Highlight(
        address=address,
        score=score,
        title=dialogue.facts.get("title") or dialogue.scenario,
        person=dialogue.facts.get("person", ""),
        group=group_of(dialogue),
        stop=stop,
        tags=", ".join(tags),
        heavy=any(tag in HEAVY_TAGS for tag in tags),
        opening=dialogue.opening or "",
        path=path_of(curve, frame),
        end=(frame.x(len(curve) - 1), frame.y(curve[-1])),
    )
