"""Asking judges the questions of suites that read runs: models, estimate, progress and exit code.

Does not cover which questions there are (`validity.answering`), nor what follows from the answers (a suite).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import typer

from heartloop.cli.running import Judging
from heartloop.core.text import amount
from heartloop.environments.suites import Answers, Material, RunSuite
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.runner import PILOT, Progress
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.models.budget import Meter, is_paid
from heartloop.models.names import close, local_speed
from heartloop.validity.answering import Answered, AnswerFile, answer_all

__all__ = ["ask_suites"]


def ask_suites(
    suites: Mapping[str, RunSuite],
    material: Material,
    path: Path,
    by: Judging,
    *,
    pilot: bool,
    yes: bool,
    retry_failed: bool,
    max_connections: int,
) -> tuple[dict[str, dict[str, Answers]], int]:
    """Asks every judge what the suites want to know; the answers by suite and judge, and the exit code.

    A suite whose questions were not all asked, because the budget was spent or nobody agreed to the estimate, is left out of
    the answers. The exit code is 1 then, and where more than the allowed share of a suite's questions failed.

    Args:
        path: of `answers.jsonl`.
        by: the judges of the material.
    """
    judges, meter, store, check = list(material.judges), by.meter, by.cache, by.check
    everything: dict[str, dict[str, Answers]] = {}
    code = 0

    async def go() -> None:
        nonlocal code
        agreed = yes or meter.limited
        try:
            for name, suite in suites.items():
                everything[name] = {}
                for judge in judges:
                    asked = partial(
                        answer_all, name, suite, material, judge, by.models[judge], file, sampling=by.sampling,
                        max_connections=max_connections, retry_failed=retry_failed,
                    )  # fmt: skip
                    if check.due({judge}) and (await asked(at_most=0)).open:
                        with store.only() if store is not None else nullcontext():
                            cached = store is not None and (await asked()).stopped is None
                        if not cached:
                            await check.ask({judge}, tell=partial(typer.echo, err=True))
                    if (pilot or is_paid(judge)) and not agreed:
                        before = meter.spend(judge)
                        tried = await asked(at_most=PILOT)
                        agreed = tried.open == 0 or _agreed(name, judge, tried, before, meter, pilot=pilot)
                        if not agreed:
                            everything.pop(name)
                            return
                    line = ProgressLine(meter, what=f"answers for {name}", speed=partial(local_speed, by.opened.values()))
                    started = time.monotonic()

                    def show(done: int, planned: int, line: ProgressLine = line, started: float = started) -> None:
                        line.show(Progress(planned, done, 0, time.monotonic() - started, None))

                    with line:
                        answered = await asked(report=show)
                    everything[name][judge] = answered.answers
                    code = max(code, _told(name, judge, answered))
                    if answered.stopped is not None:
                        everything.pop(name)
                        return
        finally:
            await close(by.opened.values())
            if store is not None:
                store.write()

    with store or nullcontext(), AnswerFile(path) as file:
        asyncio.run(go())
    if judges and (spent := meter.summary()):
        typer.echo(f"Judges: {spent}.")
    return everything, max(code, int(len(everything) < len(suites) and not pilot))


def _agreed(name: str, judge: str, tried: Answered, before: Any, meter: Meter, *, pilot: bool) -> bool:
    """Prints the estimate and returns whether to go on."""
    spent = meter.spend(judge)
    asked = max(1, tried.asked)
    tokens = round((spent.tokens - before.tokens) / asked * tried.open)
    cost = None if spent.cost is None or not meter.prices else (spent.cost - (before.cost or 0.0)) / asked * tried.open
    money = "" if cost is None else f", about {cost:.2f} at your prices"
    typer.echo(
        f"Suite {name} asks {judge} at least {amount(tried.open, 'more question')}: about {tokens:,} tokens{money}.", err=True
    )
    if pilot:
        return False
    if sys.stdin.isatty():
        return bool(typer.confirm("Continue, with this and the suites after it?", err=True))
    typer.echo("Not a terminal: pass --yes, --max-tokens or --max-cost to continue after the estimate.", err=True)
    return False


def _told(name: str, judge: str, answered: Answered) -> int:
    """Prints failures and an early stop, and returns the exit code."""
    if answered.stopped is not None:
        left = amount(answered.open, "question")
        typer.echo(f"Stopped early: {answered.stopped}. {left} of {name} to {judge} not asked.", err=True)
        return 1
    if not answered.failed:
        return 0
    total = len(answered.failed) + len(answered.answers)
    first = next(iter(answered.failed.values()))
    typer.echo(f"{len(answered.failed)} of {amount(total, 'question')} of {name} to {judge} failed: {first}", err=True)
    if len(answered.failed) / total > ALLOWED_UNSCORED:
        typer.echo(f"More than the {ALLOWED_UNSCORED:.0%} allowed; fix the cause, then rerun with --retry-failed.", err=True)
        return 1
    return 0
