"""What the commands that play or judge dialogues share, from resolved settings to a finished run directory.

Covers the progress line, the pilot, the accounting of tokens, the leaderboard, the list of failures and the exit code. Does not
cover command options (`cli.options`), the runner (`evaluation.runner`), scores (`evaluation.scores`) or pages (`report`).
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from heartloop.appraisal.names import EMBEDDED
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript, Usage
from heartloop.core.errors import UseError
from heartloop.core.wording import amount
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation.leaderboard import leaderboard
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.runner import DECLINED, Estimate, Play, Run, work_through
from heartloop.evaluation.runs import Run as Played
from heartloop.evaluation.runs import read_run, write_scores
from heartloop.evaluation.sampling import read_samplings
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.models.budget import is_baseline
from heartloop.models.cache import AnswerCache, DialogueScope, cache_at
from heartloop.models.names import (
    Meter,
    close,
    counted,
    endpoint_habits,
    is_paid,
    load_env,
    load_prices,
    local_speed,
    resolve,
)
from heartloop.report.site import write_site

__all__ = ["Judging", "Pilot", "exit_code_of", "open_models", "play_run", "read_options", "write_report"]


_Free = Mapping[tuple[str, str], tuple[int, Usage]]
"""Calls and tokens that were free because the cache answered, by model and role."""


def exit_code_of(ended: Run, *, done: str = "played") -> int:
    """The exit code: 0 done, 1 more than the allowed share is unscored or the budget stopped the run. Prints the reason.

    Args:
        done: past participle of what happened to a dialogue, for the message.
    """
    finished = ended.planned - ended.missing
    if ended.stopped is not None:
        left = f"{ended.missing} of {amount(ended.planned, 'dialogue')} {'was' if ended.missing == 1 else 'were'} not {done}"
        typer.echo(f"Stopped early: {ended.stopped}. {left}.", err=True)
    if finished and ended.failed / finished > ALLOWED_UNSCORED:
        share = f"{ended.failed / finished:.1%} of the dialogues are unscored"
        typer.echo(
            f"{share}, more than the {ALLOWED_UNSCORED:.0%} allowed; fix the cause, then rerun with --retry-failed.", err=True
        )
        return 1
    return 0 if ended.stopped in (None, DECLINED) else 1


def read_options(context: typer.Context, spec: EnvironmentSpec, texts: Sequence[str] | None) -> dict[str, Any]:
    """`-E name=value` texts as a mapping.

    Raises:
        UseError: a text that is not `name=value`, an option given twice, or a name of the command's own options.
    """
    own = [str(parameter.name) for parameter in context.command.params if parameter.param_type_name == "option"]
    return spec.options.parse(texts or (), environment=spec.name, reserved=own)


def open_models(names: Iterable[str], *, baselines: Mapping[str, str] | None = None, **how: Any) -> dict[str, ChatModel]:
    """Models by name: `checkpoint:<directory>` (extra `train`), and every name that `models.names.resolve` accepts.

    Args:
        how: further arguments of `resolve`.

    Raises:
        UseError: a name that is no model.
    """
    models: dict[str, ChatModel] = {}
    for name in dict.fromkeys(names):
        if name.startswith("checkpoint:"):
            from heartloop.training.checkpoints import CheckpointModel

            models[name] = CheckpointModel(name.removeprefix("checkpoint:"))
        else:
            models[name] = resolve(name, baselines=baselines, **how)
    return models


class Pilot:
    """Prints the estimate and returns whether the run continues. Asks in a terminal; elsewhere continues with --yes or a limit.

    Args:
        yes: continue after the estimate without asking.
        only: stop after the estimate.
        meter: tokens and cost so far; if it has a limit, the run continues without asking.
    """

    def __init__(self, meter: Meter, *, yes: bool, only: bool) -> None:
        self._meter, self._yes, self._only = meter, yes or meter.limited, only
        self.line: ProgressLine | None = None
        """The progress line, hidden while a question is open."""
        self.further = 0
        """Dialogues in later runs of the same command; each is estimated to cost as much."""
        self.asked = False

    def __call__(self, estimate: Estimate) -> bool:
        self.asked = True
        if self.further and estimate.dialogues:
            dialogues = estimate.dialogues + self.further
            share = dialogues / estimate.dialogues
            estimate = Estimate(dialogues, round(estimate.calls * share), round(estimate.tokens * share))
        share = estimate.tokens / used if (used := self._meter.tokens) else 0.0
        cost = self._meter.cost if self._meter.prices else None
        money = f", about {cost * share:.2f} at your prices" if cost is not None else ""
        if self.line is not None:
            self.line.pause()
        typer.echo(
            f"Pilot: {amount(estimate.dialogues, 'more dialogue')} will take about {amount(estimate.calls, 'call')} "
            f"and {amount(estimate.tokens, 'token')}{money}.",
            err=True,
        )
        go_on = not self._only and (self._yes or (sys.stdin.isatty() and typer.confirm("Continue?", err=True)))
        if not go_on and not self._only and not sys.stdin.isatty():
            typer.echo("Not a terminal: pass --yes, --max-tokens or --max-cost to continue after the estimate.", err=True)
        if self.line is not None:
            self.line.resume()
        return go_on


class Judging:
    """The judge of a command: its model with meter and cache, and its sampling.

    Args:
        texts: sampling settings, `judge.setting=value`.
        requests: further fields of a request, `judge.field=JSON`.
        pilot: stop after the estimate.
        yes: continue after the estimate without asking.
        how: further arguments of `models.names.resolve`.

    Raises:
        UseError: a baseline as the judge, or a text that `read_samplings` refuses.
    """

    def __init__(
        self, judge: str, texts: Sequence[str] | None, requests: Sequence[str] | None, *, max_tokens: int | None,
        max_cost: float | None, prices: Path | None, cache: Path | None, pilot: bool, yes: bool, **how: Any,
    ) -> None:  # fmt: skip
        load_env()
        if is_baseline(judge):
            raise UseError(f"--judge is {judge}, a baseline that only replies; expected service/model, or {EMBEDDED}")
        samplings = read_samplings(texts or (), requests or (), models={"judge": [judge]})
        self.sampling: Sampling | None = samplings.get("judge")
        self.meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=[judge])
        self.cache = cache_at(cache)
        self.opened = {} if judge == EMBEDDED else {judge: resolve(judge, **how)}
        self.model = counted(self.opened[judge], self.meter, "judge", self.cache) if self.opened else None
        self.pilot = Pilot(self.meter, yes=yes, only=pilot) if pilot or is_paid(judge) else None


def play_run(
    path: Path,
    settings: EvaluationSettings,
    play_job: Play,
    meter: Meter,
    *,
    opened: Mapping[str, ChatModel] | None = None,
    pilot: Pilot | None = None,
    cache: AnswerCache | None = None,
    done: str = "played",
    ranked: bool = True,
    **how: Any,
) -> tuple[Run, Played]:
    """Plays a run with a progress line, writes `scores.json` and `log.jsonl`, prints the leaderboard and the failures.

    Returns the result of `work_through`, and the run as read for its scores, for `write_report`.

    Args:
        opened: models to close at the end.
        cache: its hits are printed at the end.
        done: past participle of what happens to a dialogue, for the messages.
        ranked: whether to print a leaderboard.
        how: further arguments of `work_through`.
    """
    if cache is not None and cache.new_folder:
        typer.echo(f"New cache {cache.path} in a new folder.", err=True)
    failures: Counter[tuple[str, str]] = Counter()
    lines: Counter[tuple[str, str, int]] = Counter()  # lines of each dialogue in transcripts.jsonl
    details: dict[tuple[str, str], str] = {}

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
        account(transcript, free)

    async def play_and_flush(job: Job) -> Transcript:
        transcript = await play_job(job)
        if cache is not None:
            cache.write()  # before the transcript is written, so that every finished dialogue can be replayed
        return transcript

    async def go(directory: RunDirectory, line: ProgressLine) -> Run:
        if pilot is not None:
            pilot.line = line
        try:
            return await work_through(
                directory, play_and_flush, report=line.show, finished=finished, affords=meter.affords, pilot=pilot, **how
            )
        finally:
            await close((opened or {}).values())

    def finished(transcript: Transcript, now: DialogueScope) -> None:
        if now.free:  # logged per dialogue, so that a killed run still knows which calls were free
            free = [[*key, calls, u.prompt_tokens, u.completion_tokens] for key, (calls, u) in now.free.items()]
            directory.note(dialogue=transcript.key, playing=lines[transcript.key], free=free)
        lines[transcript.key] += 1
        account(transcript, now.free)

    directory = RunDirectory(path, settings, found=charge)
    logged_free = _free_of(directory.log)
    with directory:
        for entry in directory.log:
            for model, role, prompt, completion in entry.get("lost", []):
                meter.lose(model, role, Usage(prompt_tokens=prompt, completion_tokens=completion))
        before = {name: habit.get("address") for entry in directory.log for name, habit in entry.get("endpoints", {}).items()}
        for name, habit in endpoint_habits((opened or {}).values()).items():
            if before.get(name) not in (None, habit["address"]):
                typer.echo(f"The address of {name} is now {habit['address']}; this run started with {before[name]}.", err=True)
        lost_before = meter.lost
        started = datetime.now(UTC)
        ended: Run | None = None
        try:
            with ProgressLine(meter, speed=partial(local_speed, (opened or {}).values())) as line:
                ended = asyncio.run(go(directory, line))
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
            card = write_scores(run, prices=settings.prices or None)
            if ranked:
                Console().print(leaderboard(card))
    for name, habit in habits.items():
        if habit["dropped"]:
            typer.echo(f"{name} does not accept {', '.join(habit['dropped'])}; the calls were sent without.", err=True)
    typer.echo(
        f"{amount(ended.played, 'dialogue')} {done} in {ended.seconds:.1f} s"
        + (f", {ended.resumed} finished before" if ended.resumed else "")
        + (f", {ended.failed} failed and unscored" if ended.failed else "")
        + (f"; {spent}" if (spent := meter.summary()) else "")
    )
    if cache is not None and (summary := cache.summary()):
        typer.echo(summary)
    for (role, kind), count in failures.most_common(3) if ended.failed else []:
        typer.echo(f"  {count} x {role}, {kind}: {details[role, kind]}", err=True)
    return ended, run


def write_report(runs: Sequence[Played], page: Path) -> Path:
    """Writes the report of `runs` into the directory `page`, prints slow steps, and returns the path of its `index.html`."""
    return write_site(runs, page, tell=partial(typer.echo, err=True))


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
