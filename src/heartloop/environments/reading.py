"""What the learned reader knows of a person besides the dialogue: texts of scenarios for an `appraisal.features.Context`.

Covers what several environments share. Which texts an environment gives is in its own `reading` module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

__all__ = ["unsaid", "with_cues"]


class _Cued(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def cues(self) -> Sequence[str]: ...


class _Concern(_Cued, Protocol):
    @property
    def key(self) -> str: ...


class _Beat(Protocol):
    @property
    def concern(self) -> str: ...
    @property
    def text(self) -> str: ...


def with_cues(matters: Iterable[_Cued]) -> tuple[str, ...]:
    """Each matter with the words by which a reply would name it."""
    return tuple(f"{matter.text} {' '.join(matter.cues)}" for matter in matters)


def unsaid(concerns: Iterable[_Concern], beats: Iterable[_Beat], messages: Sequence[str]) -> tuple[str, ...]:
    """The concerns of which no beat was said yet, with their cues."""
    spoken = " ".join(messages)
    told = {beat.concern for beat in beats if beat.text in spoken}
    return with_cues(concern for concern in concerns if concern.key not in told)
