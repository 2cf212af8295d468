"""One way to play a run, for commands and for Python: from resolved settings to a finished run directory.

Covers opening models by name, the check of the endpoints before anything is written, the accounting of tokens across processes,
the progress line, `log.jsonl`, `scores.json`, and the event loop, also beside one that runs already. Does not cover the runner
(`runner`), the plan of an evaluation (`planning`), nor what commands print.
"""

from __future__ import annotations

import asyncio
import pkgutil
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Transcript, Usage
from heartloop.core.errors import BudgetSpent
from heartloop.evaluation.card import ScoreCard
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.runner import Estimate, Play, Run, Spent, spent_on, unfinished, work_through
from heartloop.evaluation.runs import Run as Stored
from heartloop.evaluation.runs import read_run, write_scores
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.models.budget import Meter
from heartloop.models.cache import AnswerCache, DialogueScope, attempt_number, dialogue_scope
from heartloop.models.check import EndpointCheck
from heartloop.models.names import close, endpoint_habits, resolve

__all__ = ["Played", "completed", "open_models", "play_run"]

_Free = Mapping[tuple[str, str], tuple[int, Usage]]
"""Calls and tokens that were free because the cache answered, by model and role."""
_T = TypeVar("_T")


class Played(NamedTuple):
    """Result of `play_run`."""

    ended: Run
    run: Stored
    """As read for its scores."""
    failures: Mapping[tuple[str, str], tuple[int, str]]
    """Number and first detail of this run's failures, by role and kind."""
    dropped: Mapping[str, tuple[str, ...]]
    """Settings that an endpoint refused and that were left out, by model."""


def open_models(names: Iterable[str], *, baselines: Mapping[str, str] | None = None, **how: Any) -> dict[str, ChatModel]:
    """Models by name: `checkpoint:<directory>` (extra `train`), and every name that `models.names.resolve` accepts.

    Args:
        how: further arguments of `resolve`.

    Raises:
        UseError: a name that is no model.
    """
    models: dict[str, ChatModel] = {}
    for name in dict.fromkeys(names):
        if name.startswith("checkpoint:"):  # by name: training lies above evaluation, and only this needs it
            checkpoint = pkgutil.resolve_name("heartloop.training.checkpoints:CheckpointModel")
            models[name] = checkpoint(name.removeprefix("checkpoint:"))
        else:
            models[name] = resolve(name, baselines=baselines, **how)
    return models


def play_run(
    path: Path,
    settings: EvaluationSettings,
    play_job: Play,
    meter: Meter,
    *,
    jobs: Sequence[Job] | None = None,
    retry_failed: bool = False,
    opened: Mapping[str, ChatModel] | None = None,
    check: EndpointCheck | None = None,
    pilot: Callable[[Estimate], bool] | None = None,
    cache: AnswerCache | None = None,
    line: ProgressLine | None = None,
    tell: Callable[[str], None] = lambda text: None,
    scored: Callable[[ScoreCard], None] = lambda card: None,
    **how: Any,
) -> Played:
    """Plays the unfinished dialogues of a run and writes `scores.json` and `log.jsonl`, also when it is interrupted.

    Args:
        jobs: the dialogues; default: those of the settings.
        retry_failed: play failed dialogues again.
        opened: models to close at the end.
        check: asks the endpoints first, unless no dialogue is left or the cache answers all that are. The run directory is
            neither created nor changed if it fails.
        pilot: as for `work_through`; not called where the cache answers everything.
        cache: already entered.
        line: shows the progress.
        tell: called with remarks, each a sentence.
        scored: called with the score card, also of an interrupted run.
        how: further arguments of `work_through`.

    Raises:
        UseError: an endpoint cannot be used, or the run directory.
        SettingsMismatch: the run directory was made with other settings.
        InputError: a file of it cannot be read.
    """
    if cache is not None and cache.new_folder:
        tell(f"New cache {cache.path} in a new folder.")
    failures: Counter[tuple[str, str]] = Counter()
    lines: Counter[tuple[str, str, int]] = Counter()  # lines of each dialogue in transcripts.jsonl
    details: dict[tuple[str, str], str] = {}
    earlier: dict[tuple[str, str, int], Spent] = {}
    jobs = settings.jobs if jobs is None else jobs
    planned = {job.key for job in jobs}

    def account(transcript: Transcript, free: _Free) -> None:
        paid = {(transcript.models.get(role, transcript.model), role): usage for role, usage in transcript.usage.items()}
        for key, (_, usage) in free.items():
            paid[key] = _less(paid.get(key, Usage()), usage)
        if not free or any(usage.total for usage in paid.values()):  # a free dialogue is no evidence of costs
            meter.finish(paid)
        if transcript.failure is not None:
            cause = (transcript.failure.role, transcript.failure.kind)
            failures[cause] += 1
            details.setdefault(cause, transcript.failure.detail)

    def charge(transcript: Transcript) -> None:
        free = logged_free.get((transcript.key, lines[transcript.key]), {})
        lines[transcript.key] += 1
        calls: dict[tuple[str, str], list[Usage]] = {}
        for call in transcript.calls:
            calls.setdefault((transcript.models.get(call.role, transcript.model), call.role), []).append(call.usage)
        for key, usages in calls.items():
            given, usage = free.get(key, (0, Usage()))
            if given < len(usages):  # a model that was never called needs no price
                for call_usage in usages:
                    meter.record(*key, call_usage)
                meter.refund(*key, given, usage)
        if transcript.key in planned and transcript.scored:
            took = spent_on(transcript, free, settings.prices)
            if took is not None:
                earlier[transcript.key] = took
        account(transcript, free)

    async def play_and_flush(job: Job) -> Transcript:
        transcript = await play_job(job)
        if cache is not None:
            cache.write()  # before the transcript is written, so that every finished dialogue can be replayed
        return transcript

    async def go(directory: RunDirectory) -> Run:
        report = None if line is None else line.show
        try:
            return await work_through(
                directory, play_and_flush, jobs=jobs, retry_failed=retry_failed, earlier=list(earlier.values()), report=report,
                finished=finished, affords=meter.affords, pilot=None if cached else pilot, **how,
            )  # fmt: skip
        finally:
            await close((opened or {}).values())

    def finished(transcript: Transcript, now: DialogueScope) -> None:
        if now.free:  # logged per dialogue, so that a killed run still knows which calls were free
            free = [[*key, calls, u.prompt_tokens, u.completion_tokens] for key, (calls, u) in now.free.items()]
            directory.note(dialogue=transcript.key, playing=lines[transcript.key], free=free)
        lines[transcript.key] += 1
        account(transcript, now.free)

    def ready() -> bool:
        """Asks the endpoints unless the cache answers everything, which is returned."""
        left = unfinished(directory, jobs, retry_failed=retry_failed)
        under_test = {job.model for job in left}
        if check is None or not left or not check.due(under_test):
            return False
        if cache is not None and completed(_cached(cache, meter, play_job, left, directory.failures)):
            return True
        completed(check.ask(under_test, tell=tell))
        return False

    directory = RunDirectory(path, settings, found=charge)
    logged_free = _free_of(directory.log)
    fresh = directory.is_new()
    lost_before = meter.lost
    cached = ready() if fresh else False
    with directory:
        for entry in directory.log:
            for model, role, prompt, completion in entry.get("lost", []):
                meter.lose(model, role, Usage(prompt_tokens=prompt, completion_tokens=completion))
        before = {name: habit.get("address") for entry in directory.log for name, habit in entry.get("endpoints", {}).items()}
        for name, habit in endpoint_habits((opened or {}).values()).items():
            if before.get(name) not in (None, habit["address"]):
                tell(f"The address of {name} is now {habit['address']}; this run started with {before[name]}.")
        if not fresh:
            lost_before = meter.lost
            cached = ready()
        started = datetime.now(UTC)
        ended: Run | None = None
        try:
            if line is None:
                ended = completed(go(directory))
            else:
                with line:
                    ended = completed(go(directory))
        finally:
            habits = endpoint_habits((opened or {}).values())
            lost = [
                [*key, u.prompt_tokens - old.prompt_tokens, u.completion_tokens - old.completion_tokens]
                for key, u in meter.lost.items()
                if u != (old := lost_before.get(key, Usage()))
            ]
            directory.note(
                started=started.isoformat(timespec="seconds"), version=settings.heartloop_version, endpoints=habits, lost=lost,
                **(ended._asdict() if ended is not None else {"stopped": "interrupted"}),
            )  # fmt: skip
            run = read_run(path)  # read once, for the scores and the report
            scored(write_scores(run, prices=settings.prices or None))
    dropped = {name: tuple(habit["dropped"]) for name, habit in habits.items() if habit["dropped"]}
    causes = {cause: (count, details[cause]) for cause, count in failures.most_common()}
    return Played(ended, run, causes, dropped)


async def _cached(
    cache: AnswerCache, meter: Meter, play_job: Play, jobs: Iterable[Job],
    failures: Mapping[tuple[str, str, int], Sequence[str]],
) -> bool:  # fmt: skip
    """Whether the cache holds every answer that the jobs need; plays them up to the first that it lacks and calls no model."""
    with cache.only(), meter.uncounted():
        for job in jobs:
            try:
                with dialogue_scope(job.repeat, attempt_number(failures.get(job.key, ()))):
                    await play_job(job)
            except BudgetSpent:
                return False
    return True


def completed(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine to its end and returns its result.

    Where an event loop runs already, as in a notebook, the coroutine gets a thread with a loop of its own. An interrupt of the
    caller cancels it and is raised after it has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[_T] = []
    errors: list[BaseException] = []
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def known() -> _T:
        task = asyncio.current_task()
        if task is not None:
            running.append((asyncio.get_running_loop(), task))
        return await work

    def run() -> None:
        try:
            results.append(asyncio.run(known()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="heartloop")
    thread.start()
    try:
        thread.join()
    except BaseException:
        for loop, task in running:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]


def _less(usage: Usage, part: Usage) -> Usage:
    return Usage(
        prompt_tokens=max(0, usage.prompt_tokens - part.prompt_tokens),
        completion_tokens=max(0, usage.completion_tokens - part.completion_tokens),
        estimated=usage.estimated,
    )


def _free_of(log: Iterable[Mapping[str, Any]]) -> dict[tuple[tuple[str, str, int], int], _Free]:
    """What earlier processes logged as free, by dialogue and the index of the line among those of that dialogue."""
    free: dict[tuple[tuple[str, str, int], int], _Free] = {}
    for entry in log:
        if "free" in entry:
            model, scenario, repeat = entry["dialogue"]
            free[(model, scenario, repeat), entry["playing"]] = {
                (name, role): (calls, Usage(prompt_tokens=prompt, completion_tokens=completion))
                for name, role, calls, prompt, completion in entry["free"]
            }
    return free
