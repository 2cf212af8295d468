"""Plays the dialogues of a run concurrently; dialogues that the cache answers completely enter no estimate and no pilot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import pkgutil
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Failure, Sampling, Transcript, Usage, used_up_by_thinking
from heartloop.core.errors import ANSWER_ERRORS, BotError, BudgetSpent, EndpointStopped
from heartloop.core.text import amount
from heartloop.environments.episode import Environment, play
from heartloop.evaluation.progress import PLAIN_EVERY, Progress, ProgressLine
from heartloop.evaluation.scores import ALLOWED_FAILED, ALLOWED_UNSCORED, ScoreCard, cost_of_usage, latest
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.evaluation.store import RunDirectory, StoredRun, read_log, read_run, write_scores
from heartloop.models.batch import BatchChat
from heartloop.models.budget import Meter, Price, is_baseline, is_scripted, load_prices
from heartloop.models.cache import attempt_number, cache_at, dialogue_scope
from heartloop.models.check import EndpointCheck
from heartloop.models.client import CONNECTIONS, Connections
from heartloop.models.gate import place_in_line
from heartloop.models.names import close, counted, endpoint_habits, keeps_dialogues, local_speed, resolve

PILOT = 2  # least number of dialogues before the estimate of a paid run; part of the run
FIRST_FAILURES = 8
"""A run without a pilot stops if so many dialogues finish before the first scored one, all with the same kind of failure."""
PARKED_AFTER = 5
"""Dialogues in a row in which calls of a model under test fail in the same way, after which a run with others leaves it out."""
DECLINED = "stopped after the estimate"

Play = Callable[[Job], Awaitable[Transcript]]
_T = TypeVar("_T")


class RunResult(NamedTuple):
    """Result of `work_through`, in dialogues: `played` by this process, `failed` ones among all planned."""

    planned: int
    played: int
    resumed: int
    failed: int
    missing: int
    stopped: str | None
    seconds: float


class Estimate(NamedTuple):
    """What the remaining dialogues will take, by the mean of the finished dialogues of each model."""

    dialogues: int
    calls: int
    tokens: int
    cost: float | None = None  # `None` if a paid model has no price
    seconds: float = 0.0
    """At the speed of the finished dialogues, as many at once as the run has connections."""
    earlier: int = 0  # finished dialogues that it is based on; 0 after a pilot


class OpenModels:
    """The models of a run by name, with the meter that counts their calls and the cache that answers them.

    A name is `checkpoint:<directory>` (extra `train`), or one that `models.names.resolve`, which gets `how`, accepts.
    """

    def __init__(
        self, names: Sequence[str] = (), *, given: Mapping[str, ChatModel] | None = None, max_tokens: int | None = None,
        max_cost: float | None = None, prices: Path | Mapping[str, Price] | None = None, cache: Path | None = None,
        max_connections: int = CONNECTIONS, **how: Any,
    ) -> None:  # fmt: skip
        by_model = prices if isinstance(prices, Mapping) else load_prices(prices)
        self.meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=by_model, models=names)
        self.cache = cache_at(cache) if names else None
        self.connections = Connections(max_connections)
        """Shared by all models, so that the gates of each address know each other."""
        self.opened = dict(given or {})
        how |= {"connections": self.connections, "max_connections": max_connections, "key_later": self.cache is not None}
        for name in names:
            if name.startswith("checkpoint:"):  # by name: training is a layer above evaluation
                checkpoint = pkgutil.resolve_name("heartloop.training.checkpoints:CheckpointModel")
                self.opened[name] = checkpoint(name.removeprefix("checkpoint:"))
            elif name not in self.opened and name != EMBEDDED:
                self.opened[name] = resolve(name, **how)

    def counted(self, name: str, role: str) -> ChatModel:
        return counted(self.opened[name], self.meter, role, self.cache)

    def speed(self) -> str:
        """What batches, local models and rate limits do, in words for the progress line."""
        batches = [model.progress for model in self.opened.values() if isinstance(model, BatchChat)]
        return "  ".join(filter(None, (*batches, local_speed(self.opened.values()), self.connections.waiting())))


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A run that is ready to be played; `jobs` are by default those of the settings."""

    settings: EvaluationSettings
    play: Callable[..., Awaitable[Transcript]]
    """Plays a job; its second argument is what `source` gives, if there is one."""
    source: Callable[[Job], Any] | None = None
    """What a job needs besides the plan, such as a stored dialogue; called in the process of the run."""
    models: OpenModels = field(default_factory=OpenModels)
    jobs: Sequence[Job] | None = None
    check: EndpointCheck | None = None
    """Asks the endpoints before anything is written, unless no dialogue is left or the cache answers all that are."""
    pilot_models: Sequence[str] = ()
    """Models with at least one dialogue each in the pilot, which has at least `PILOT` dialogues."""
    later: Sequence[Job] = ()
    """Jobs that cannot be played yet and are part of the estimate."""

    def arguments(self, job: Job) -> tuple[Any, ...]:
        return (job,) if self.source is None else (job, self.source(job))


class Pool(Protocol):
    """Other processes that play the dialogues of a run."""

    def playing(self, plan: RunPlan, directory: RunDirectory, most: int) -> AbstractAsyncContextManager[Play]:
        """Within it, a function that has a job played elsewhere, for at most so many jobs at once.

        What the meter, the gates and the cache of the plan's models do, they do in this process.
        """


class Played(NamedTuple):
    ended: RunResult
    run: StoredRun
    failures: Mapping[tuple[str, str], tuple[int, str]]
    """Number and first detail of this run's failures, by role and kind."""
    dropped: Mapping[str, tuple[str, ...]]
    """Settings that an endpoint refused and that were left out, by model."""
    retried: Mapping[str, Mapping[str, int]]
    """Calls that were sent again, by model and cause."""

    @property
    def unscored(self) -> float:
        return self.ended.failed / max(1, self.ended.planned - self.ended.missing)

    @property
    def failed_replies(self) -> str:
        """One sentence on replies that bots failed to give, with the first cause; empty without one."""
        failed = sum(one.failed_replies for one in self.run.digests)
        if not failed or self.run.settings.get("rejudged"):
            return ""
        first = next(one.error for one in self.run.digests if one.error is not None)
        return f"{failed} of {self._replies} failed and are scored as silence; the first: {first}"

    @property
    def broken_bots(self) -> list[str]:
        """A sentence on each model of whose replies more than `ALLOWED_FAILED` failed."""
        replies: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for dialogue in latest(self.run.digests) if not self.run.settings.get("rejudged") else ():
            replies[dialogue.model] += len(dialogue.lengths)
            failed[dialogue.model] += dialogue.failed_replies
        return [
            f"{failed[model]} of {amount(n, 'reply', 'replies')} of {model} failed, more than the {ALLOWED_FAILED:.0%} allowed; "
            "correct the bot, then evaluate it into another --out"
            for model, n in replies.items()
            if failed[model] > ALLOWED_FAILED * n
        ]

    @property
    def thinking_only(self) -> str:
        """One sentence on replies of which the token limit left nothing but thinking; empty without one."""
        cut = [one for one in self.run.digests if one.used_up]
        if not cut or self.run.settings.get("rejudged"):
            return ""
        limit = sampling.max_tokens if (sampling := cut[0].sampling.get("policy")) else None
        return f"{sum(one.used_up for one in cut)} of {self._replies} empty: {used_up_by_thinking('policy', limit)}"

    @property
    def _replies(self) -> str:
        return amount(sum(len(one.lengths) for one in self.run.digests), "reply", "replies")

    def code(self, *, pilot: bool = False) -> int:
        """Exit code: 1 if the run stopped early (with `pilot`: not by the estimate), or too much is unscored or failed."""
        stopped = self.ended.stopped not in ((None, DECLINED) if pilot else (None,))
        return int(stopped or self.unscored > ALLOWED_UNSCORED or bool(self.broken_bots))


class _Spent(NamedTuple):
    """What one finished dialogue took without its cached answers; the seconds include those."""

    model: str
    calls: int
    tokens: int
    cost: float | None
    seconds: float


def player(
    environment: Environment,
    policies: Mapping[str, ChatModel],
    sampling: Sampling | None = None,
    *,
    policy_prompt: str | None = None,
    think: bool = False,
) -> Play:
    """A function that plays a job's scenario with the job's model.

    Baselines get neither `policy_prompt`, as some read the form of an answer or their role from the environment's, nor `think`
    (count replies without a think block).
    """

    async def play_job(job: Job) -> Transcript:
        baseline = is_baseline(job.model)
        return await play(
            environment, job.scenario, policies[job.model], seed=job.seed, repeat=job.repeat, sampling=sampling,
            policy_prompt=None if baseline else policy_prompt, think=think and not baseline,
        )  # fmt: skip

    return play_job


def play_run(
    path: Path,
    plan: RunPlan,
    *,
    max_connections: int = 32,
    retry_failed: bool = False,
    pilot: Callable[[Estimate], bool] | None = None,
    agreed: bool = False,
    line: ProgressLine | None = None,
    pool: Callable[[], Pool] | None = None,
    tell: Callable[[str], None] = lambda text: None,
    scored: Callable[[ScoreCard], None] = lambda card: None,
) -> Played:
    """Plays the unfinished dialogues of a run and writes `scores.json` and `log.jsonl`, also when it is interrupted."""
    settings, meter, cache, opened = plan.settings, plan.models.meter, plan.models.cache, plan.models.opened.values()
    jobs = settings.jobs if plan.jobs is None else plan.jobs
    planned = {job.key for job in jobs}
    failures: dict[tuple[str, str], list[str]] = {}  # details by role and kind
    earlier: dict[tuple[str, str, int], _Spent] = {}
    lines: Counter[tuple[str, str, int]] = Counter()  # lines of each dialogue in transcripts.jsonl

    def account(transcript: Transcript) -> None:
        paid = paid_usage(transcript)
        if len(paid) == len(transcript.calls) or any(usage.total for _, _, usage in paid):  # a free dialogue shows no costs
            meter.finish(paid)
        if transcript.failure is not None:
            failures.setdefault((transcript.failure.role, transcript.failure.kind), []).append(transcript.failure.detail)

    def charge(transcript: Transcript) -> None:
        cached_calls = logged_cached.get((transcript.key, lines[transcript.key]), ())
        lines[transcript.key] += 1
        transcript = with_cached(transcript, cached_calls)
        for model, role, usage in paid_usage(transcript):
            meter.record(model, role, usage)
        if transcript.key in planned and transcript.scored and (took := _spent(transcript, settings.prices)):
            earlier[transcript.key] = took
        account(transcript)

    def finish(transcript: Transcript) -> None:
        if cached_calls := [n for n, call in enumerate(transcript.calls) if call.cached]:  # so that a killed run still knows
            directory.note(dialogue=transcript.key, playing=lines[transcript.key], cached=cached_calls)
        lines[transcript.key] += 1
        account(transcript)

    def note_charged(model: str, role: str, usage: Usage) -> None:  # at once, so that a killed run still knows
        lost_before[model, role] = lost_before.get((model, role), Usage()) + usage
        directory.note(lost=[[model, role, *usage.counts]])

    async def play_here(job: Job) -> Transcript:
        transcript = await plan.play(*plan.arguments(job))
        if cache is not None:
            cache.write()  # before the transcript, so that every finished dialogue can be replayed
        return transcript

    async def go(directory: RunDirectory) -> RunResult:
        most = min(max_connections, len(unfinished(directory, jobs, retry_failed=retry_failed)))
        playing = contextlib.nullcontext(play_here) if pool is None or not most else pool().playing(plan, directory, most)
        try:
            async with playing as play_job:
                return await work_through(
                    directory, play_job, jobs=jobs, max_connections=max_connections, retry_failed=retry_failed,
                    earlier=list(earlier.values()), pilot=None if cached else pilot, pilot_models=plan.pilot_models,
                    agreed=agreed, later=plan.later, affords=meter.affords, finished=finish,
                    report=line.show if line is not None else None,
                )  # fmt: skip
        finally:
            await close(opened)

    async def all_cached() -> bool:
        """Whether the cache answers everything, of which the jobs are played as a trial; otherwise asks the endpoints."""
        left = unfinished(directory, jobs, retry_failed=retry_failed)
        under_test = {job.model for job in left}
        if plan.check is None or not left or not plan.check.due(under_test):
            return False
        if cache is not None and not any(map(keeps_dialogues, opened)):
            with cache.only(), meter.uncounted(), contextlib.suppress(BudgetSpent):  # raised at the first missing answer
                for job in left:
                    with dialogue_scope(job.repeat, attempt_number(directory.failures.get(job.key, ()))):
                        await plan.play(*plan.arguments(job))
                return True
        await plan.check.ask(under_test, tell=tell)
        return False

    directory = RunDirectory(path, settings, found=charge)
    logged_cached = {(tuple(e["dialogue"]), e["playing"]): e["cached"] for e in read_log(path) if "cached" in e}
    with cache or contextlib.nullcontext():
        if cache is not None and cache.new_folder:
            tell(f"New cache {cache.path} in a new folder.")
        if (fresh := directory.is_new()) and pool is not None:
            pool()  # raises before anything is written
        lost_before = meter.lost
        cached = fresh and completed(all_cached())
        with directory:
            started_at: dict[str, str] = {}
            for entry in read_log(path):
                for model, role, *counts in entry.get("lost", []):
                    meter.lose(model, role, Usage.of_counts(counts))
                started_at |= {name: habit.get("address") for name, habit in entry.get("endpoints", {}).items()}
            for name, habit in endpoint_habits(opened).items():
                if started_at.get(name) not in (None, habit["address"]):
                    tell(f"The address of {name} is now {habit['address']}; this run started with {started_at[name]}.")
            if not fresh:
                lost_before = meter.lost
                cached = completed(all_cached())
            checks = {key: usage - lost_before.get(key, Usage()) for key, usage in meter.lost.items()}
            meter.charged = note_charged
            started = datetime.now(UTC)
            ended: RunResult | None = None
            try:
                with line or contextlib.nullcontext():
                    ended = completed(go(directory))
            finally:
                meter.charged = None
                habits = endpoint_habits(opened)
                kept = {model.name for model in opened if isinstance(model, BatchChat) and not model.direct()}
                lost = {key: usage - lost_before.get(key, Usage()) for key, usage in meter.lost.items()}
                lost |= {key: checks.get(key, Usage()) for key in lost if key[0] in kept}  # its answers count when taken again
                directory.note(
                    started=started.isoformat(timespec="seconds"), version=settings.heartloop_version, endpoints=habits,
                    lost=[[*key, *usage.counts] for key, usage in lost.items() if usage.total],
                    **(ended._asdict() if ended is not None else {"stopped": "interrupted"}),
                )  # fmt: skip
                run = read_run(path)  # read once, for the scores and the report
                scored(write_scores(run, prices=settings.prices or None))
    dropped = {name: tuple(habit["dropped"]) for name, habit in habits.items() if habit["dropped"]}
    retried = {name: habit["retried"] for name, habit in habits.items() if habit["retried"]}
    most_common = sorted(failures.items(), key=lambda item: -len(item[1]))
    return Played(ended, run, {cause: (len(details), details[0]) for cause, details in most_common}, dropped, retried)


def with_cached(transcript: Transcript, cached: Sequence[int]) -> Transcript:
    """The transcript with these of its calls, by number, marked as answered by the cache."""
    calls = (call.model_copy(update={"cached": n in cached}) for n, call in enumerate(transcript.calls))
    return transcript.model_copy(update={"calls": tuple(calls)})


def paid_usage(transcript: Transcript) -> list[tuple[str, str, Usage]]:
    """Model, role and tokens of each call that was made for this dialogue: without cached ones."""
    calls = (call for call in transcript.calls if not call.cached)
    return [(transcript.models.get(call.role, transcript.model), call.role, call.usage) for call in calls]


def _never_answered(transcript: Transcript) -> Failure | None:
    """The failure that left a dialogue unscored, or that of a bot that failed at every reply."""
    errors = [turn.error for turn in transcript.turns]
    if transcript.failure is None and errors and errors[0] is not None and None not in errors:
        return Failure(role="policy", kind=BotError.__name__, detail=errors[0])
    return transcript.failure


def _spent(transcript: Transcript, prices: object) -> _Spent | None:
    paid = paid_usage(transcript)
    # a failed call is no answer, so the cache did not answer everything
    call_failed = transcript.failure is not None and transcript.failure.kind not in ANSWER_ERRORS
    if len(paid) < len(transcript.calls) and not call_failed and all(is_scripted(model) for model, _, _ in paid):
        return None
    cost = cost_of_usage(((model, usage) for model, _, usage in paid), prices)
    return _Spent(transcript.model, len(paid), sum(usage.total for _, _, usage in paid), cost, transcript.seconds)


def unfinished(directory: RunDirectory, jobs: Sequence[Job], *, retry_failed: bool) -> list[Job]:
    again = (None, False) if retry_failed else (None,)
    return [job for job in jobs if directory.finished.get(job.key) in again]


async def work_through(
    directory: RunDirectory,
    play_job: Play,
    *,
    jobs: Sequence[Job] | None = None,
    max_connections: int = 32,
    retry_failed: bool = False,
    earlier: Sequence[_Spent] = (),
    pilot: Callable[[Estimate], bool] | None = None,
    pilot_models: Sequence[str] = (),
    agreed: bool = False,
    later: Sequence[Job] = (),
    affords: Callable[[int], str | None] | None = None,
    finished: Callable[[Transcript], None] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Plays the unfinished dialogues of a run. A model that fails `PARKED_AFTER` times in a row is parked: the others go on.

    Args:
        earlier: what scored dialogues of earlier processes took; if there is one, it gives the estimate and no pilot is played.
        pilot: called with an estimate after the first dialogues that cost something; `False` stops the run. If every dialogue
            of the pilot failed, the run stops with the cause.
        agreed: the run continues after any estimate, so all dialogues are played at once and the first ones give the estimate.
            If the first `FIRST_FAILURES` fail in the same way, the run stops with the cause.
        later: jobs that are part of the estimate, and not played.
        affords: called with the number of concurrent dialogues before another starts; a returned sentence says that the budget
            is too small for it. This avoids dialogues that are paid for and then cut off.
    """
    jobs = directory.settings.jobs if jobs is None else jobs
    planned = {job.key for job in jobs}
    open_jobs = unfinished(directory, jobs, retry_failed=retry_failed)
    resumed = len(jobs) - len(open_jobs)
    started = time.monotonic()
    spent: dict[tuple[str, str, int], _Spent] = {}  # without dialogues that the cache answered
    ended: set[tuple[str, str, int]] = set()
    running = 0
    failed = sum(not ok for key, ok in directory.finished.items() if key in planned)
    stopped: str | None = None
    changed, numbers = asyncio.Event(), itertools.count(1)
    estimated = pilot is None or not agreed or bool(earlier)
    causes: Counter[tuple[str, str]] = Counter()  # role and kind of failures before the first scored dialogue
    in_a_row: dict[str, list[Failure]] = {}  # the latest dialogues of each model under test, while its calls fail in the same way
    parked: dict[str, str] = {}

    def report_progress() -> None:
        if report is not None:
            elapsed, done = time.monotonic() - started, len(ended)
            remaining = elapsed / done * (len(open_jobs) - done) if done else None
            report(Progress(len(jobs), resumed + done, failed, elapsed, remaining))

    async def report_often() -> None:
        while True:  # also while no dialogue ends: a rate limit may hold up all
            await asyncio.sleep(PLAIN_EVERY)
            report_progress()

    async def play_one(job: Job) -> Transcript | None:
        nonlocal stopped, failed, running
        while stopped is None and affords is not None and (reason := affords(running)) is not None:
            if running == 0:  # the budget will never suffice for another dialogue
                stopped = reason
                break
            changed.clear()
            await changed.wait()
        if stopped is not None or job.model in parked:
            return None
        running += 1
        place_in_line.set(next(numbers))
        before = directory.finished.get(job.key)
        try:
            with dialogue_scope(job.repeat, attempt_number(directory.failures.get(job.key, ()))):
                transcript = await play_job(job)
        except BudgetSpent as error:
            if isinstance(error, EndpointStopped) and error.model == job.model and dispensable(job.model):
                parked[job.model] = str(error)
            else:
                stopped = str(error)
            return None
        finally:
            running -= 1
            changed.set()
        directory.append(transcript)
        failed += (not transcript.scored) - (before is False)
        ended.add(job.key)
        look_for_failures(transcript)
        if (took := _spent(transcript, directory.settings.prices)) is not None:
            spent[job.key] = took
        if finished is not None:
            finished(transcript)
        report_progress()
        if not estimated and job.key in spent:
            look_at_first(transcript)
        return transcript

    def dispensable(model: str) -> bool:
        """Whether the run has other models under test, and no role needs this one."""
        return len(directory.settings.models) > 1 and model not in directory.settings.roles.values()

    def look_for_failures(transcript: Transcript) -> None:
        model, failure = transcript.model, transcript.failure
        before = in_a_row.pop(model, [])
        if failure is None or failure.role != "policy" or not dispensable(model):
            return
        in_a_row[model] = [*(one for one in before if one.kind == failure.kind), failure]
        if len(in_a_row[model]) == PARKED_AFTER:
            parked[model] = f"{model}, after {PARKED_AFTER} failed dialogues in a row ({failure.detail})"

    def look_at_first(transcript: Transcript) -> None:
        """Stops a run without a pilot if all its first dialogues fail in the same way; otherwise reports the estimate."""
        nonlocal stopped, estimated
        if not (left := [one for one in open_jobs if one.key not in ended]):
            return
        if (failure := _never_answered(transcript)) is not None:
            causes[failure.role, failure.kind] += 1
        same = len(causes) == 1 and causes.total() == len(spent)
        if failure is not None and same and len(spent) >= FIRST_FAILURES:
            stopped = stopped or f"the first {len(spent)} dialogues failed ({failure.role}: {failure.detail})"
        waited_for = {*pilot_models} & {one.model for one in left} - {one.model for one in spent.values()}
        if pilot is not None and not same and len(spent) >= PILOT and not waited_for:
            estimated = True
            pilot(_estimate(list(spent.values()), left, max_connections)._replace(earlier=len(spent)))

    async def batch(batch_jobs: Sequence[Job]) -> list[Transcript]:
        queue = iter(batch_jobs)  # shared by the workers, each takes the next job
        transcripts: list[Transcript] = []

        async def worker() -> None:
            for job in queue:
                transcript = await play_one(job)
                if transcript is None:
                    continue
                if batch_jobs is not rest:
                    transcripts.append(transcript)
                await asyncio.sleep(0)  # a scripted dialogue never awaits; this lets the progress line and other workers run

        ticking = asyncio.create_task(report_often())
        try:
            with _collecting_rarely():
                async with asyncio.TaskGroup() as group:
                    for _ in range(max(1, min(max_connections, len(batch_jobs)))):
                        group.create_task(worker())
        except BaseExceptionGroup as group_of_errors:  # the first error is the cause of the others
            raise group_of_errors.exceptions[0] from group_of_errors
        finally:
            ticking.cancel()
        return transcripts

    report_progress()
    rest = open_jobs
    if not estimated:
        first = _pilot_jobs(rest, pilot_models, PILOT)
        rest = [*first, *(job for job in rest if job not in first)]
    elif pilot is not None and open_jobs:
        piloted: list[Transcript] = []
        first = [] if earlier else _pilot_jobs(rest, pilot_models, PILOT)
        while stopped is None and first:
            taken = {job.key for job in first}
            rest = [job for job in rest if job.key not in taken]
            piloted += [transcript for transcript in await batch(first) if transcript.key in spent]
            not_piloted = [name for name in pilot_models if name not in {t.model for t in piloted}]
            first = _pilot_jobs(rest, not_piloted, PILOT - len(piloted))
        failures = [failure for t in piloted if (failure := _never_answered(t))]
        if stopped is None and piloted and len(failures) == len(piloted):
            stopped = f"every dialogue of the pilot failed ({failures[0].role}: {failures[0].detail})"
        if stopped is None and (rest or later):
            asked = time.monotonic()
            estimate = _estimate([*earlier, *spent.values()], [*rest, *later], max_connections)
            if not pilot(estimate._replace(earlier=len(earlier))):
                stopped = DECLINED
            started += time.monotonic() - asked  # the time of the answer is not part of the run
    if stopped is None:
        await batch(rest)
    missing = sum(key not in directory.finished for key in planned)
    left_out = [why for model, why in parked.items() if any(job.model == model and job.key not in ended for job in open_jobs)]
    stopped = "; ".join(filter(None, (stopped, *left_out))) or None
    return RunResult(len(jobs), len(ended), resumed, failed, missing, stopped, time.monotonic() - started)


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


def _estimate(spent: Sequence[_Spent], jobs: Sequence[Job], max_connections: int) -> Estimate:
    """What `jobs` will take: the mean over the finished dialogues of a job's model, or over all if its model has none."""
    if not spent:
        return Estimate(len(jobs), 0, 0)
    calls = tokens = seconds = longest = 0.0
    cost: float | None = 0.0
    for model, n in Counter(job.model for job in jobs).items():
        mine = [one for one in spent if one.model == model] or spent
        costs = [one.cost for one in mine if one.cost is not None]
        calls += n * statistics.fmean(one.calls for one in mine)
        tokens += n * statistics.fmean(one.tokens for one in mine)
        cost = None if cost is None or len(costs) < len(mine) else cost + n * statistics.fmean(costs)
        mean = statistics.fmean(one.seconds for one in mine)
        seconds, longest = seconds + n * mean, max(longest, mean)
    return Estimate(len(jobs), round(calls), round(tokens), cost, max(longest, seconds / max_connections))


def _pilot_jobs(jobs: Sequence[Job], pilot_models: Sequence[str], at_least: int) -> list[Job]:
    first = list({job.model: job for job in reversed(jobs) if job.model in pilot_models}.values())
    first.sort(key=lambda job: pilot_models.index(job.model))
    others = sorted((job for job in jobs if job not in first), key=lambda job: job.model not in pilot_models)
    return [*first, *others[: max(0, at_least - len(first))]]


def completed(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine; if a loop runs already, as in a notebook, in a thread, which an interrupt of the caller cancels."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    cancels: list[Callable[[], object]] = []

    async def cancellable() -> _T:
        if (task := asyncio.current_task()) is not None:
            cancels.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        return await work

    with ThreadPoolExecutor(1, "heartloop") as threads:  # leaving it waits for the thread
        future = threads.submit(asyncio.run, cancellable())
        try:
            return future.result()
        except BaseException:
            for cancel in cancels:
                with contextlib.suppress(RuntimeError):  # the loop is closed: the work itself raised
                    cancel()
            raise
