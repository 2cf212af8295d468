"""The runner: plays the dialogues of a run concurrently and keeps each as soon as it is finished.

Covers concurrency, resume, the pilot, the hard stop, and progress. Does not cover one dialogue
(`environments.episode.play`), one call (`chat`), or scores (`analysis`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from heartloop.chat import ChatModel
from heartloop.dialogue import Transcript
from heartloop.environments.episode import Environment, play
from heartloop.errors import BudgetSpent
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.settings import Job

__all__ = ["PILOT", "Estimate", "Progress", "Run", "estimate", "evaluate"]

PILOT = 2
"""Dialogues played before a paid run's estimate (they count as part of the run)."""


class Progress(NamedTuple):
    """Where a run stands. Times in seconds."""

    planned: int
    done: int
    """Finished now or before, failed ones included."""
    failed: int
    elapsed: float
    remaining: float | None
    """Expected; `None` until a dialogue of this process is finished."""


class Run(NamedTuple):
    """How a run ended."""

    planned: int
    played: int
    """Dialogues finished by this process."""
    resumed: int
    """Dialogues found finished."""
    failed: int
    """Finished but unscored, of all planned."""
    missing: int
    """Planned but not played: budget or interruption."""
    stopped: str | None
    """Why it stopped early, or `None`."""
    seconds: float


class Estimate(NamedTuple):
    """What the rest of a run will take, from the dialogues already played."""

    dialogues: int
    calls: int
    tokens: int


async def evaluate(
    directory: RunDirectory,
    environment: Environment,
    policies: Mapping[str, ChatModel],
    *,
    max_connections: int = 32,
    retry_failed: bool = False,
    pilot: Callable[[Estimate], bool] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Run:
    """Plays what is not finished yet.

    Args:
        policies: a model for every name in the settings.
        max_connections: dialogues in flight; each has one call in flight at a time.
        retry_failed: play failed dialogues again, too.
        pilot: asked with an estimate after the first two dialogues; `False` ends the run there.
        report: called whenever a dialogue is finished.
    """
    settings = directory.settings
    jobs = settings.jobs
    planned = {job.key for job in jobs}
    open_jobs = [job for job in jobs if not _finished(directory, job, retry_failed)]
    resumed = len(jobs) - len(open_jobs)
    started = time.monotonic()
    played: list[Transcript] = []
    stopped: str | None = None

    def tell() -> None:
        if report is not None:
            elapsed = time.monotonic() - started
            left = len(open_jobs) - len(played)
            done = [ok for key, ok in directory.finished.items() if key in planned]
            remaining = elapsed / len(played) * left if played else None
            report(Progress(len(jobs), resumed + len(played), done.count(False), elapsed, remaining))

    async def batch(some: Sequence[Job]) -> None:
        nonlocal stopped
        queue = iter(some)  # one shared iterator: a worker takes the next job when it is free

        async def worker() -> None:
            nonlocal stopped
            for job in queue:
                if stopped is not None:
                    return
                try:
                    transcript = await play(
                        environment,
                        job.scenario,
                        policies[job.model],
                        seed=job.seed,
                        repeat=job.repeat,
                        sampling=settings.sampling.get("policy"),
                    )
                except BudgetSpent as spent:
                    stopped = str(spent)
                    return
                directory.append(transcript)
                played.append(transcript)
                tell()
                await asyncio.sleep(0)  # a scripted dialogue never waits; this lets the progress and other workers live

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, min(max_connections, len(some)))):
                    group.create_task(worker())
        except BaseExceptionGroup as failed:  # a full disk, a bug: the first is the cause, the others followed from it
            raise failed.exceptions[0] from failed

    tell()
    rest = open_jobs
    if pilot is not None and open_jobs:
        await batch(open_jobs[:PILOT])
        rest = open_jobs[PILOT:]
        if stopped is None and rest and not pilot(estimate(played, len(rest))):
            stopped = "stopped after the pilot"
    if stopped is None:
        await batch(rest)
    failed = sum(not ok for key, ok in directory.finished.items() if key in planned)
    missing = sum(key not in directory.finished for key in planned)
    return Run(len(jobs), len(played), resumed, failed, missing, stopped, time.monotonic() - started)


def estimate(played: Sequence[Transcript], dialogues: int) -> Estimate:
    """Calls and tokens of so many more dialogues like the ones played; zero when none was played."""
    if not played:
        return Estimate(dialogues, 0, 0)
    calls = sum(len(transcript.calls) for transcript in played) / len(played)
    tokens = sum(usage.total for transcript in played for usage in transcript.usage.values()) / len(played)
    return Estimate(dialogues, round(calls * dialogues), round(tokens * dialogues))


def _finished(directory: RunDirectory, job: Job, retry_failed: bool) -> bool:
    scored = directory.finished.get(job.key)
    return scored is not None and (scored or not retry_failed)
