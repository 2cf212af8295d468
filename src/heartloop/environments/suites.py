"""The interface of a validity suite: stored dialogues rejudged in variants, and a comparison of the results.

Covers what `heartloop validate` needs from a suite; an environment names its own suites in `EnvironmentSpec.suites`. Does not
cover the driver (`heartloop.validity`): selection of dialogues, run directories, cost estimate, files and page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from heartloop.core.blocks import Block, Table
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.environments.spec import EnvironmentSpec, Judge

__all__ = ["Judges", "Result", "Slope", "SlopePanel", "Slopes", "Suite", "Variants"]

Variants = Mapping[str, Sequence[Transcript]]
"""Transcripts of one run by variant; the last transcript of a dialogue counts."""


class Judges(Protocol):
    """A suite's judges, all played by one model, or embedded."""

    @property
    def judge(self) -> Judge:
        """The judge of stored replies by the environment's own rules."""
        ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Hashes, by name, of the prompts and texts that the suite adds to those of `judge`."""
        ...

    async def transcript(
        self, played: Transcript, scenario: Any, *, variant: str, preset: str, original: Transcript | None
    ) -> Transcript:
        """A stored dialogue rejudged in a variant.

        Args:
            scenario: the scenario as it was played.
            original: the same dialogue in the suite's first variant; `None` if this is the first variant.

        Raises:
            InputError: the dialogue cannot be judged in this variant.
            BudgetSpent: a limit on tokens or cost was reached.
        """
        ...


class Slope(NamedTuple):
    """A value before and after a change."""

    name: str
    before: float
    after: float


class SlopePanel(NamedTuple):
    """Paired values as lines from left to right."""

    title: str
    slopes: tuple[Slope, ...]
    mean: Slope
    low: float
    """Ends of the axis; equal in all panels that are compared."""
    high: float
    tie: float
    """A change of at most this size is a tie."""
    note: str = ""


class Slopes(NamedTuple):
    """Panels side by side; a block of a validity page."""

    title: str
    panels: tuple[SlopePanel, ...]
    help: str = ""

    @property
    def kind(self) -> str:
        return "slopes"


class Result(NamedTuple):
    """The result of a suite."""

    record: Mapping[str, Any]
    """The numbers, for `validity.json`."""
    notes: tuple[str, ...]
    """The first says what was compared; the others are warnings."""
    summary: Table
    """For the terminal, at most 80 columns wide; a row without cells is a heading for those below."""
    page: tuple[Block | Slopes, ...]


class Suite(NamedTuple):
    """A validity suite."""

    title: str
    """The question it answers, as the heading of its page."""
    about: str
    """What is changed and what is expected, in one sentence."""
    variants: tuple[str, ...]
    """In the order of judging, each in a separate run directory; the first changes nothing."""
    judges: Callable[[EnvironmentSpec, ChatModel | None, Sampling | None], Judges]
    """`judges(spec, model, sampling)`; `None` as model: embedded."""
    result: Callable[[Sequence[Variants]], Result]
    """The result for one or more runs. Raises `InputError` if nothing can be compared."""
