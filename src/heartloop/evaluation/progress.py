"""The progress line of a run: done, elapsed, remaining, tokens and cost so far.

Covers what a terminal shows; where output is no terminal, a plain line every 10 seconds.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from heartloop.evaluation.runner import Progress

__all__ = ["ProgressLine", "Spending"]

PLAIN_EVERY = 10.0
"""Seconds between plain lines where the output is no terminal."""


class Spending(Protocol):
    """Whatever can say in a few words what was spent so far."""

    def summary(self) -> str: ...


class ProgressLine:
    """Shows `Progress` values on standard error while it is entered."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True) if sys.stderr.isatty() else None
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """The latest state of the run."""
        if self._live is not None:
            self._live.update(Text(self.text(progress)))
        elif time.monotonic() - self._said >= PLAIN_EVERY:
            self._said = time.monotonic()
            self._console.print(self.text(progress), highlight=False, soft_wrap=True)

    def text(self, progress: Progress) -> str:
        """One line for a state of the run."""
        parts = [f"{progress.done}/{progress.planned} dialogues", f"{_clock(progress.elapsed)} elapsed"]
        if progress.remaining is not None and progress.done < progress.planned:
            parts.append(f"{_clock(progress.remaining)} left")
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        spent = self._spending.summary()
        return "  ".join([*parts, spent] if spent else parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
