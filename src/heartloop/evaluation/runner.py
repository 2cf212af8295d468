"""The runner: plays the dialogues of a run concurrently and writes each transcript as soon as its dialogue is finished.

Covers concurrency, resuming, the pilot, the estimate, the budget's stop, and progress. Does not cover one dialogue
(`environments.episode.play`), one call (`core.chat`), or scores (`scores`).

A dialogue that the cache answers completely costs nothing: it does not count as a pilot dialogue, nor in an estimate. Dialogues
that were finished and scored before give the estimate of a resumed run, which plays no pilot.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript, Usage
from heartloop.core.errors import BudgetSpent
from heartloop.environments.episode import Environment, play
from heartloop.evaluation.costs import cost_of_usage
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.settings import Job
from heartloop.models.budget import is_baseline, is_scripted
from heartloop.models.cache import DialogueScope, attempt_number, dialogue_scope

__all__ = [
    "DECLINED", "PILOT", "Estimate", "Play", "Progress", "Run", "Spent", "evaluate", "player", "spent_on", "unfinished",
    "work_through",
]  # fmt: skip

PILOT = 2
"""Minimum number of dialogues before the estimate of a paid run that has none. They are part of the run."""


Play = Callable[[Job], Awaitable[Transcript]]
"""Plays one dialogue."""

DECLINED = "stopped after the estimate"
"""`Run.stopped` of a run that did not continue after its estimate."""


class Progress(NamedTuple):
    """Progress of a run. Times in seconds."""

    planned: int
    done: int
    """Finished by this or an earlier process, failed ones included."""
    failed: int
    elapsed: float
    remaining: float | None
    """Estimate; `None` until this process has finished a dialogue."""


class Run(NamedTuple):
    """Result of `work_through`, in dialogues."""

    planned: int
    played: int
    """Finished by this process."""
    resumed: int
    """Finished by earlier processes."""
    failed: int
    """Finished but unscored, among all planned."""
    missing: int
    """Planned but not finished, because of the budget or an interruption."""
    stopped: str | None
    """Reason of an early stop, or `None`."""
    seconds: float


class Estimate(NamedTuple):
    """What the remaining dialogues will take, by the mean of the finished dialogues of each model."""

    dialogues: int
    calls: int
    tokens: int
    cost: float | None = None
    """In the currency of the settings' prices; `None` if a paid model has none."""
    seconds: float = 0.0
    """At the speed of the finished dialogues, as many at once as the run has connections."""
    earlier: int = 0
    """Dialogues of earlier processes that it rests on; 0 where a pilot was played."""


class Spent(NamedTuple):
    """What one finished dialogue took beside cached answers; the seconds include those."""

    model: str
    calls: int
    tokens: int
    cost: float | None
    seconds: float


class _Mean(NamedTuple):
    """What a dialogue of one model takes on average."""

    calls: float
    tokens: float
    cost: float | None
    seconds: float


def spent_on(transcript: Transcript, free: Mapping[tuple[str, str], tuple[int, Usage]], prices: object) -> Spent | None:
    """What a dialogue took; `None` if the cache answered it completely.

    Args:
        free: number and tokens of its cached answers, by model and role.
        prices: as for `costs.cost_of`.
    """
    free_calls = sum(calls for calls, _ in free.values())
    # a failed call is no answer, so the cache did not give all
    call_failed = transcript.failure is not None and transcript.failure.kind != "AnswerError"
    asked = sum(not is_scripted(transcript.models.get(call.role, transcript.model)) for call in transcript.calls)
    if 0 < free_calls >= asked and not call_failed:
        return None
    paid: list[tuple[str, Usage]] = []
    for role, usage in transcript.usage.items():
        model = transcript.models.get(role, transcript.model)
        _, cached = free.get((model, role), (0, Usage()))
        rest = Usage(
            prompt_tokens=max(0, usage.prompt_tokens - cached.prompt_tokens),
            completion_tokens=max(0, usage.completion_tokens - cached.completion_tokens),
        )
        paid.append((model, rest))
    tokens = sum(usage.total for _, usage in paid)
    calls = len(transcript.calls) - free_calls
    return Spent(transcript.model, calls, tokens, cost_of_usage(paid, prices), transcript.seconds)


def player(
    environment: Environment,
    policies: Mapping[str, ChatModel],
    sampling: Sampling | None = None,
    *,
    policy_prompt: str | None = None,
    think: bool = False,
) -> Play:
    """A function that plays a job's scenario with the job's model.

    Args:
        policies: models by the names in the jobs.
        sampling: sampling settings of the policy.
        policy_prompt: system prompt of every policy but the baselines in place of the environment's. Baselines get the
            environment's, from which some read the form of an answer or their role.
        think: count replies without a think block, except those of baselines, which were not written for one.
    """

    async def play_job(job: Job) -> Transcript:
        baseline = is_baseline(job.model)
        return await play(
            environment, job.scenario, policies[job.model], seed=job.seed, repeat=job.repeat, sampling=sampling,
            policy_prompt=None if baseline else policy_prompt, think=think and not baseline,
        )  # fmt: skip

    return play_job


async def evaluate(directory: RunDirectory, environment: Environment, policies: Mapping[str, ChatModel], **how: Any) -> Run:
    """Plays every unfinished dialogue of the directory's settings; `how` are further arguments of `work_through`."""
    settings = directory.settings
    play_job = player(environment, policies, settings.sampling.get("policy"), policy_prompt=settings.policy_prompt)
    return await work_through(directory, play_job, **how)


def unfinished(directory: RunDirectory, jobs: Sequence[Job], *, retry_failed: bool = False) -> list[Job]:
    """The jobs without a finished dialogue; with `retry_failed` also those whose dialogue failed."""

    def finished(job: Job) -> bool:
        scored = directory.finished.get(job.key)
        return scored is not None and (scored or not retry_failed)

    return [job for job in jobs if not finished(job)]


async def work_through(
    directory: RunDirectory,
    play_job: Play,
    *,
    jobs: Sequence[Job] | None = None,
    max_connections: int = 32,
    retry_failed: bool = False,
    earlier: Sequence[Spent] = (),
    pilot: Callable[[Estimate], bool] | None = None,
    pilot_models: Sequence[str] = (),
    affords: Callable[[int], str | None] | None = None,
    finished: Callable[[Transcript, DialogueScope], None] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Run:
    """Plays the unfinished dialogues of a run.

    Args:
        play_job: plays one dialogue (`player`).
        jobs: the dialogues; default: those of the settings.
        max_connections: maximum number of concurrent dialogues; each makes one call at a time.
        retry_failed: play failed dialogues again.
        earlier: what scored dialogues of earlier processes took; if there is one, the estimate rests on them and no pilot is
            played.
        pilot: called with an estimate after the first dialogues that cost something; `False` stops the run. If every dialogue
            of the pilot failed, the run stops with the cause.
        pilot_models: models with at least one dialogue each in the pilot, which has at least `PILOT` dialogues.
        affords: called with the number of concurrent dialogues before another starts; a returned sentence says that the budget
            is too small for it. This avoids dialogues that are paid for and then cut off.
        finished: called with every finished transcript and its free calls.
        report: called with the progress after every finished dialogue.

    Raises:
        UseError: the run directory cannot be written.
    """
    jobs = directory.settings.jobs if jobs is None else jobs
    planned = {job.key for job in jobs}
    open_jobs = unfinished(directory, jobs, retry_failed=retry_failed)
    resumed = len(jobs) - len(open_jobs)
    started = time.monotonic()
    spent: dict[tuple[str, str, int], Spent] = {}
    done = 0
    failed = sum(not ok for key, ok in directory.finished.items() if key in planned)
    running = 0
    stopped: str | None = None
    changed = asyncio.Event()

    def report_progress() -> None:
        if report is not None:
            elapsed = time.monotonic() - started
            remaining = elapsed / done * (len(open_jobs) - done) if done else None
            report(Progress(len(jobs), resumed + done, failed, elapsed, remaining))

    async def admitted() -> bool:
        """Waits until the budget suffices for another dialogue; `False` if it never will."""
        nonlocal stopped
        while stopped is None and affords is not None and (reason := affords(running)) is not None:
            if running == 0:
                stopped = reason
                break
            changed.clear()
            await changed.wait()
        return stopped is None

    async def play_one(job: Job) -> Transcript | None:
        """Plays one dialogue. A dialogue answered by the cache gets no entry in `spent`, so it is no pilot dialogue."""
        nonlocal stopped, failed, running, done
        if not await admitted():
            return None
        running += 1
        before = directory.finished.get(job.key)
        try:
            with dialogue_scope(job.repeat, attempt_number(directory.failures.get(job.key, ()))) as now:
                transcript = await play_job(job)
        except BudgetSpent as error:
            stopped = str(error)
            return None
        finally:
            running -= 1
            changed.set()
        directory.append(transcript)
        failed += (not transcript.scored) - (before is False)
        done += 1
        if (took := spent_on(transcript, now.free, directory.settings.prices)) is not None:
            spent[job.key] = took
        if finished is not None:
            finished(transcript, now)
        report_progress()
        return transcript

    async def batch(batch_jobs: Sequence[Job]) -> list[Transcript]:
        queue = iter(batch_jobs)  # shared by the workers, each takes the next job
        transcripts: list[Transcript] = []

        async def worker() -> None:
            for job in queue:
                transcript = await play_one(job)
                if transcript is None:
                    return
                if batch_jobs is not rest:
                    transcripts.append(transcript)
                await asyncio.sleep(0)  # a scripted dialogue never awaits; this lets the progress line and other workers run

        try:
            with _collecting_rarely():
                async with asyncio.TaskGroup() as group:
                    for _ in range(max(1, min(max_connections, len(batch_jobs)))):
                        group.create_task(worker())
        except BaseExceptionGroup as group_of_errors:  # the first error is the cause of the others
            raise group_of_errors.exceptions[0] from group_of_errors
        return transcripts

    report_progress()
    rest = open_jobs
    if pilot is not None and open_jobs:
        piloted: list[Transcript] = []
        first = [] if earlier else _pilot_jobs(rest, pilot_models, PILOT)
        while stopped is None and first:
            taken = {job.key for job in first}
            rest = [job for job in rest if job.key not in taken]
            piloted += [transcript for transcript in await batch(first) if transcript.key in spent]
            not_piloted = [name for name in pilot_models if name not in {t.model for t in piloted}]
            first = _pilot_jobs(rest, not_piloted, PILOT - len(piloted))
        if stopped is None and piloted and all(t.failure for t in piloted):
            failures = [t.failure for t in piloted if t.failure]
            stopped = f"every dialogue of the pilot failed ({failures[0].role}: {failures[0].detail})"
        if stopped is None and rest:
            asked = time.monotonic()
            estimate = _estimate([*earlier, *spent.values()], rest, max_connections)
            if not pilot(estimate._replace(earlier=len(earlier))):
                stopped = DECLINED
            started += time.monotonic() - asked  # the time of the answer is not part of the run
    if stopped is None:
        await batch(rest)
    missing = sum(key not in directory.finished for key in planned)
    return Run(len(jobs), done, resumed, failed, missing, stopped, time.monotonic() - started)


@contextlib.contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Raises the threshold of garbage collection from 700 to 50,000 new objects: dialogues create few reference cycles."""
    before = gc.get_threshold()
    if before[0]:  # 0: collection is turned off
        gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _estimate(spent: Sequence[Spent], jobs: Sequence[Job], max_connections: int) -> Estimate:
    """What `jobs` will take: the mean over the finished dialogues of a job's model, or over all if its model has none."""
    if not spent:
        return Estimate(len(jobs), 0, 0)
    models = {job.model for job in jobs}
    means = {model: _mean([one for one in spent if one.model == model] or spent) for model in models}
    expected = [means[job.model] for job in jobs]
    costs = [one.cost for one in expected if one.cost is not None]
    seconds = [one.seconds for one in expected]
    return Estimate(
        len(jobs),
        round(sum(one.calls for one in expected)),
        round(sum(one.tokens for one in expected)),
        sum(costs) if len(costs) == len(expected) else None,
        max(max(seconds), sum(seconds) / max_connections),
    )


def _mean(spent: Sequence[Spent]) -> _Mean:
    costs = [one.cost for one in spent if one.cost is not None]
    return _Mean(
        statistics.fmean(one.calls for one in spent),
        statistics.fmean(one.tokens for one in spent),
        statistics.fmean(costs) if len(costs) == len(spent) else None,
        statistics.fmean(one.seconds for one in spent),
    )


def _pilot_jobs(jobs: Sequence[Job], pilot_models: Sequence[str], at_least: int) -> list[Job]:
    """The first job of each model in `pilot_models`, then further jobs up to `at_least`."""
    first = [job for name in pilot_models for job in [next((j for j in jobs if j.model == name), None)] if job is not None]
    taken = {job.key for job in first}
    others = [job for job in jobs if job.key not in taken]
    others.sort(key=lambda job: job.model not in pilot_models)
    return [*first, *others[: max(0, at_least - len(first))]]
