"""The contract of a validity suite: stored dialogues judged again in variants, and what follows from comparing them.

Covers what `heartloop validate` needs from a suite; an environment names its own suites in `EnvironmentSpec.suites`. Does not
cover the driver (`heartloop.validity`): which dialogues, run directories, the cost estimate, files and page.
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
"""Transcripts of one run by variant; of one dialogue the last counts."""


class Judges(Protocol):
    """A suite's judges: a model behind all of them, or the embedded rules."""

    @property
    def judge(self) -> Judge:
        """Who appraises stored replies by the environment's own rules."""
        ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Hashes, by name, of the prompts and texts that the suite adds to those of `judge`."""
        ...

    async def transcript(
        self, played: Transcript, scenario: Any, *, variant: str, preset: str, original: Transcript | None
    ) -> Transcript:
        """A stored dialogue as it is judged in a variant.

        Args:
            scenario: the scenario as it was played.
            original: the same dialogue in the suite's first variant; `None` in that variant itself.

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
    """Ends of the axis, the same in all panels that compare."""
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
    """What follows from the judged variants."""

    record: Mapping[str, Any]
    """The numbers, for `validity.json`."""
    notes: tuple[str, ...]
    """What a reader must know of the numbers: the first says what was compared, the others are warnings."""
    summary: Table
    """For the terminal, at most 80 columns wide; a row without cells is a heading of those below it."""
    page: tuple[Block | Slopes, ...]


class Suite(NamedTuple):
    """A validity suite."""

    title: str
    """The question it answers, as the heading of its page."""
    about: str
    """What is changed and what must follow, in one sentence."""
    variants: tuple[str, ...]
    """Each is judged into a run directory of its own, in this order; the first changes nothing."""
    judges: Callable[[EnvironmentSpec, ChatModel | None, Sampling | None], Judges]
    """Its judges for runs of an environment with a model, or with `None` embedded."""
    result: Callable[[Sequence[Variants]], Result]
    """What follows from one or several runs.

    Raises `InputError` where nothing can be compared."""
