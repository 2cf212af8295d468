"""An environment's `LearnedReading`: what the learned reader knows of a person besides the dialogue, and what a reply changes.

Covers what several environments share. Which texts and numbers an environment has is in its own `reading` module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import Turn
from heartloop.environments.analyses import LearnedAnalysis
from heartloop.reader.features import Context
from heartloop.reader.reader import Output

__all__ = ["LearnedReading", "unsaid", "with_cues"]


class LearnedReading(NamedTuple):
    """How the learned reader is used in an environment."""

    package: str
    """The package whose `effect.json` holds the weights."""
    context: Callable[[Any, Sequence[str], Sequence[str]], Context]
    """`context(scenario, messages, replies)` before a reply: the dialogue and what is known of the person."""
    outputs: tuple[Output, ...]
    """The numbers that judges gave, in the order of the data's `change`."""
    group: Callable[[Any], str] = lambda scenario: ""
    """The kind of person a scenario is about; weights differ between kinds."""
    judged: Callable[[Turn], Mapping[str, float] | None] = lambda turn: turn.change
    """What a judge gave a stored reply, by output; `None` for a reply that was not judged."""
    analysis: LearnedAnalysis | None = None
    """Of the analysis that comes before an answer, where the environment grades one."""


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
