"""The progress line of a run: a bar in a terminal, an output of the cell in a notebook, elsewhere a line every 10 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from heartloop.core.text import clock
from heartloop.models.budget import Meter

CELL_EVERY, PLAIN_EVERY = 0.2, 10.0  # seconds between updates of a notebook's cell, and between plain lines


class Progress(NamedTuple):
    """Times in seconds; `done` counts failed dialogues and those of earlier processes too."""

    planned: int
    done: int
    failed: int
    elapsed: float
    remaining: float | None


class ProgressLine:
    """Context manager that shows `Progress` values on standard error."""

    def __init__(self, meter: Meter, *, what: str = "dialogues", speed: Callable[[], str] = str) -> None:
        self._meter, self._speed, self._what = meter, speed, what
        self._console = Console(stderr=True)
        self._cell: Any = None  # the output of a notebook's cell
        self._latest: tuple[Progress, float] | None = None
        self._live: Live | None = None
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def resume(self) -> None:
        """Shows the line again if standard error is a terminal or a notebook."""
        if self._console.is_jupyter:
            from IPython import display  # comes with every notebook

            if self._cell is None:
                show: Callable[..., Any] = vars(display)["display"]  # without types
                self._cell = show({"text/plain": ""}, raw=True, display_id=True)
        elif sys.stderr.isatty():
            if self._latest is not None:
                self._latest = (self._latest[0], time.monotonic())
            self._live = Live(get_renderable=self._now, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        self._latest = (progress, now)
        if self._cell is not None:
            if progress.done == progress.planned or now - self._printed >= CELL_EVERY:
                self._printed = now
                text = self.text(progress)
                bar = f'<progress value="{progress.done}" max="{max(1, progress.planned)}"></progress> {escape(text)}'
                self._cell.update({"text/plain": text, "text/html": bar}, raw=True)
        elif self._live is None and not sys.stderr.isatty() and now - self._printed >= PLAIN_EVERY:
            self._printed = now
            self._console.print(self.text(progress), highlight=False, soft_wrap=True)

    def _now(self) -> Table | Text:
        if self._latest is None:
            return Text("")
        progress, since = self._latest
        passed = time.monotonic() - since
        remaining = None if progress.remaining is None else max(0.0, progress.remaining - passed)
        grid = Table.grid(padding=(0, 1))
        text = Text(self.text(progress._replace(elapsed=progress.elapsed + passed, remaining=remaining)))
        grid.add_row(ProgressBar(total=max(1, progress.planned), completed=progress.done, width=20), text)
        return grid

    def text(self, progress: Progress) -> str:
        parts = [f"{progress.done}/{progress.planned} {self._what}", f"{clock(progress.elapsed)} elapsed"]
        if progress.remaining is not None and progress.done < progress.planned:
            parts.append(f"{clock(progress.remaining)} left")
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        return "  ".join([*parts, *filter(None, (self._meter.summary(), self._speed()))])
