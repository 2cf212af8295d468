"""The runner: plays the dialogues of a run concurrently and keeps each as soon as it is finished.

Covers concurrency, resume, the pilot, the hard stop, and progress. Does not cover one dialogue
(`environments.episode.play`), one call (`chat`), or scores (`analysis`).

A dialogue all of whose answers were stored (`replay`) costs nothing: it is no pilot, and no part of an estimate.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import BudgetSpent
from heartloop.environments.episode import Environment, play
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.settings import Job
from heartloop.models.budget import is_scripted
from heartloop.models.cache import DialogueScope, attempt_number, dialogue_scope

__all__ = ["DECLINED", "PILOT", "Estimate", "Play", "Progress", "Run", "evaluate", "player", "work_through"]

PILOT = 2
"""Dialogues played at least before a paid run's estimate (they count as part of the run)."""


Play = Callable[[Job], Awaitable[Transcript]]
"""Plays one dialogue."""

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
    """What one finished dialogue took, stored answers left aside."""

    model: str
    calls: int
    tokens: int


def player(environment: Environment, policies: Mapping[str, ChatModel], sampling: Sampling | None = None) -> Play:
    """Plays a job's scenario with its model.

    Args:
        policies: a model for every name in the jobs.
        sampling: of the policy.
    """

    async def play_job(job: Job) -> Transcript:
        return await play(environment, job.scenario, policies[job.model], seed=job.seed, repeat=job.repeat, sampling=sampling)

    return play_job


async def evaluate(directory: RunDirectory, environment: Environment, policies: Mapping[str, ChatModel], **how: Any) -> Run:
    """Plays every dialogue of the directory's settings that is not finished yet; `how` as in `work_through`."""
    play_job = player(environment, policies, directory.settings.sampling.get("policy"))
    return await work_through(directory, play_job, **how)


async def work_through(
    directory: RunDirectory,
    play_job: Play,
    *,
    jobs: Sequence[Job] | None = None,
    max_connections: int = 32,
    retry_failed: bool = False,
    pilot: Callable[[Estimate], bool] | None = None,
    pilot_models: Sequence[str] = (),
    affords: Callable[[int], str | None] | None = None,
    finished: Callable[[Transcript, DialogueScope], None] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Run:
    """Plays what is not finished yet.

    Args:
        play_job: plays one dialogue (`player`).
        jobs: the dialogues; by default those of the settings.
        max_connections: dialogues in flight; each has one call in flight at a time.
        retry_failed: play failed dialogues again, too.
        pilot: asked with an estimate after the first dialogues that cost something; `False` ends the run there. A pilot of
            which every dialogue failed ends the run with the cause.
        pilot_models: models that the pilot must hear, one dialogue each; at least two dialogues in all.
        affords: asked before a dialogue is begun, with how many are in flight; a sentence says that the budget does
            not bear one more. So dialogues are not begun, paid for and then cut off.
        finished: called with every dialogue that is finished, and what of it was free.
        report: called whenever a dialogue is finished.

    Raises:
        UseError: the run directory cannot be written any more.
    """
    jobs = directory.settings.jobs if jobs is None else jobs
    planned = {job.key for job in jobs}
    open_jobs = [job for job in jobs if not _finished(directory, job, retry_failed)]
    resumed = len(jobs) - len(open_jobs)
    started = time.monotonic()
    seen: dict[tuple[str, str, int], _Seen] = {}
    done = 0
    failed = sum(not ok for key, ok in directory.finished.items() if key in planned)
    in_flight = 0
    stopped: str | None = None
    changed = asyncio.Event()

    def tell() -> None:
        if report is not None:
            elapsed = time.monotonic() - started
            remaining = elapsed / done * (len(open_jobs) - done) if done else None
            report(Progress(len(jobs), resumed + done, failed, elapsed, remaining))

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
        """One dialogue; a stored one, which is no part of a pilot, is told by having no entry in `seen`."""
        nonlocal stopped, failed, in_flight, done
        if not await admitted():
            return None
        in_flight += 1
        before = directory.finished.get(job.key)
        try:
            with dialogue_scope(job.repeat, attempt_number(directory.failures.get(job.key, ()))) as now:
                transcript = await play_job(job)
        except BudgetSpent as spent:
            stopped = str(spent)
            return None
        finally:
            in_flight -= 1
            changed.set()
        directory.append(transcript)
        failed += (not transcript.scored) - (before is False)
        done += 1
        if not _all_stored(transcript, now):
            tokens = sum(usage.total for usage in transcript.usage.values()) - sum(usage.total for _, usage in now.free.values())
            seen[job.key] = _Seen(job.model, len(transcript.calls) - now.free_calls, tokens)
        if finished is not None:
            finished(transcript, now)
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
            with _collecting_rarely():
                async with asyncio.TaskGroup() as group:
                    for _ in range(max(1, min(max_connections, len(some)))):
                        group.create_task(worker())
        except BaseExceptionGroup as group_of_errors:  # a full disk, a bug: the first is the cause, the others followed
            raise group_of_errors.exceptions[0] from group_of_errors
        return kept

    tell()
    rest = open_jobs
    if pilot is not None and open_jobs:
        heard: list[Transcript] = []
        first = _pilot_jobs(rest, pilot_models, PILOT)
        while stopped is None and first:
            taken = {job.key for job in first}
            rest = [job for job in rest if job.key not in taken]
            heard += [transcript for transcript in await batch(first) if transcript.key in seen]
            unheard = [name for name in pilot_models if name not in {t.model for t in heard}]
            first = _pilot_jobs(rest, unheard, PILOT - len(heard))
        if stopped is None and heard and all(t.failure for t in heard):
            failures = [t.failure for t in heard if t.failure]
            stopped = f"every dialogue of the pilot failed ({failures[0].role}: {failures[0].detail})"
        if stopped is None and rest:
            asked = time.monotonic()
            if not pilot(_estimate(list(seen.values()), rest)):
                stopped = DECLINED
            started += time.monotonic() - asked  # a person's thinking is no part of the run
    if stopped is None:
        await batch(rest)
    missing = sum(key not in directory.finished for key in planned)
    return Run(len(jobs), done, resumed, failed, missing, stopped, time.monotonic() - started)


@contextlib.contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Within it Python looks for reference cycles after 50,000 new objects, not 700: dialogues leave none worth the search."""
    before = gc.get_threshold()
    if before[0]:  # else somebody turned it off
        gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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


def _all_stored(transcript: Transcript, now: DialogueScope) -> bool:
    """Whether nobody had to be asked: all answers that are not worked out by rules were there, and none failed to come."""
    broke_off = transcript.failure is not None and transcript.failure.kind != "AnswerError"
    asked = sum(not is_scripted(transcript.models.get(call.role, transcript.model)) for call in transcript.calls)
    return 0 < now.free_calls >= asked and not broke_off


def _pilot_jobs(jobs: Sequence[Job], pilot_models: Sequence[str], at_least: int) -> list[Job]:
    """The first dialogue of each model to be heard, filled up to `at_least`."""
    first = [job for name in pilot_models for job in [next((j for j in jobs if j.model == name), None)] if job is not None]
    taken = {job.key for job in first}
    others = [job for job in jobs if job.key not in taken]
    others.sort(key=lambda job: job.model not in pilot_models)
    return [*first, *others[: max(0, at_least - len(first))]]


def _finished(directory: RunDirectory, job: Job, retry_failed: bool) -> bool:
    scored = directory.finished.get(job.key)
    return scored is not None and (scored or not retry_failed)
