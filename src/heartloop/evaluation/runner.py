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

__all__ = ["DECLINED", "PILOT", "Estimate", "Progress", "Run", "evaluate"]

PILOT = 2
"""Dialogues played at least before a paid run's estimate (they count as part of the run)."""


DECLINED = "stopped after the pilot"
"""Why a run ended that was not to go on after its estimate."""


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


class _Seen(NamedTuple):
    """What one finished dialogue took."""

    model: str
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
    hear_first: Sequence[str] = (),
    affords: Callable[[int], str | None] | None = None,
    finished: Callable[[Transcript], None] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Run:
    """Plays what is not finished yet.

    Args:
        policies: a model for every name in the settings.
        max_connections: dialogues in flight; each has one call in flight at a time.
        retry_failed: play failed dialogues again, too.
        pilot: asked with an estimate after the first dialogues; `False` ends the run there. A pilot of which every
            dialogue failed ends the run with the cause.
        hear_first: models that the pilot must hear, one dialogue each; at least two dialogues in all.
        affords: asked before a dialogue is begun, with how many are in flight; a sentence says that the budget does
            not bear one more. So dialogues are not begun, paid for and then cut off.
        finished: called with every dialogue that is finished.
        report: called whenever a dialogue is finished.

    Raises:
        UseError: the run directory cannot be written any more.
    """
    settings = directory.settings
    jobs = settings.jobs
    planned = {job.key for job in jobs}
    open_jobs = [job for job in jobs if not _finished(directory, job, retry_failed)]
    resumed = len(jobs) - len(open_jobs)
    started = time.monotonic()
    seen: list[_Seen] = []
    failed = sum(not ok for key, ok in directory.finished.items() if key in planned)
    in_flight = 0
    stopped: str | None = None
    changed = asyncio.Event()

    def tell() -> None:
        if report is not None:
            elapsed = time.monotonic() - started
            remaining = elapsed / len(seen) * (len(open_jobs) - len(seen)) if seen else None
            report(Progress(len(jobs), resumed + len(seen), failed, elapsed, remaining))

    async def admitted() -> bool:
        """Waits until the budget bears one more dialogue; `False` when it will not."""
        nonlocal stopped
        while stopped is None and affords is not None and (reason := affords(in_flight)) is not None:
            if in_flight == 0:
                stopped = reason
                break
            changed.clear()
            await changed.wait()
        return stopped is None

    async def one(job: Job) -> Transcript | None:
        nonlocal stopped, failed, in_flight
        if not await admitted():
            return None
        in_flight += 1
        before = directory.finished.get(job.key)
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
            return None
        finally:
            in_flight -= 1
            changed.set()
        directory.append(transcript)
        failed += (not transcript.scored) - (before is False)
        tokens = sum(usage.total for usage in transcript.usage.values())
        seen.append(_Seen(job.model, len(transcript.calls), tokens))
        if finished is not None:
            finished(transcript)
        tell()
        return transcript

    async def batch(some: Sequence[Job]) -> list[Transcript]:
        queue = iter(some)  # one shared iterator: a worker takes the next job when it is free
        kept: list[Transcript] = []

        async def worker() -> None:
            for job in queue:
                transcript = await one(job)
                if transcript is None:
                    return
                if some is not rest:
                    kept.append(transcript)
                await asyncio.sleep(0)  # a scripted dialogue never waits; this lets the progress and other workers live

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, min(max_connections, len(some)))):
                    group.create_task(worker())
        except BaseExceptionGroup as group_of_errors:  # a full disk, a bug: the first is the cause, the others followed
            raise group_of_errors.exceptions[0] from group_of_errors
        return kept

    tell()
    rest = open_jobs
    if pilot is not None and open_jobs:
        first = _pilot_jobs(open_jobs, hear_first)
        rest = [job for job in open_jobs if job not in first]
        heard = await batch(first)
        if stopped is None and heard and all(t.failure for t in heard):
            failures = [t.failure for t in heard if t.failure]
            stopped = f"every dialogue of the pilot failed ({failures[0].role}: {failures[0].detail})"
        if stopped is None and rest:
            asked = time.monotonic()
            if not pilot(_estimate(seen, rest)):
                stopped = DECLINED
            started += time.monotonic() - asked  # a person's thinking is no part of the run
    if stopped is None:
        await batch(rest)
    missing = sum(key not in directory.finished for key in planned)
    return Run(len(jobs), len(seen), resumed, failed, missing, stopped, time.monotonic() - started)


def _estimate(seen: Sequence[_Seen], jobs: Sequence[Job]) -> Estimate:
    """Calls and tokens of further dialogues, each taken like those of its model, or like all where it was not heard."""
    if not seen:
        return Estimate(len(jobs), 0, 0)
    calls = tokens = 0.0
    for job in jobs:
        alike = [one for one in seen if one.model == job.model] or seen
        calls += sum(one.calls for one in alike) / len(alike)
        tokens += sum(one.tokens for one in alike) / len(alike)
    return Estimate(len(jobs), round(calls), round(tokens))


def _pilot_jobs(jobs: Sequence[Job], hear_first: Sequence[str]) -> list[Job]:
    """The first dialogue of each model to be heard, filled up to two."""
    first = [job for name in hear_first for job in [next((j for j in jobs if j.model == name), None)] if job is not None]
    others = [job for job in jobs if job not in first]
    others.sort(key=lambda job: job.model not in hear_first)
    return [*first, *others[: max(0, PILOT - len(first))]]


def _finished(directory: RunDirectory, job: Job, retry_failed: bool) -> bool:
    scored = directory.finished.get(job.key)
    return scored is not None and (scored or not retry_failed)
