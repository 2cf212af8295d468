"""What `heartloop validate` does: asks judges the questions of suites that read runs, or rejudges runs in variants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import typer

from heartloop.cli.options import Calls
from heartloop.cli.running import Judging, agreed_to, play_run, say
from heartloop.core.chat import LOCAL_PREFIX
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import Answers, Material, RejudgingSuite, RunSuite
from heartloop.evaluation.progress import Progress, ProgressLine
from heartloop.evaluation.runner import PILOT
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.evaluation.store import beside
from heartloop.models.budget import Meter
from heartloop.models.names import close
from heartloop.validity.judging import Answered, AnswerFile, JudgedVariants, answer_all, directories, judged_variants
from heartloop.validity.page import Part, show_results
from heartloop.validity.suites import few


def read_runs(
    material: Material, runs: list[Path], suites: Mapping[str, RunSuite], by: Judging, calls: Calls, *, named: bool,
    out: Path | None,
) -> int:  # fmt: skip
    lacking = {name: why for name, one in suites.items() if (why := one.lacks(material)) is not None}
    if named and lacking:
        name, why = next(iter(lacking.items()))
        raise UseError(f"suite {name} cannot run: {why}")
    ready = {name: one for name, one in suites.items() if name not in lacking}
    if calls.ray is not None:
        raise UseError("--ray applies only to suites that rejudge runs; remove it")
    folder = out or beside(runs[0], "validity")
    answers, code = _ask(ready, material, folder / "answers.jsonl", by, calls)
    whole = material._replace(earlier=answers)
    parts = [Part(name, one, one.result(whole, answers[name])) for name, one in ready.items() if name in answers]
    left_out = [(name, suites[name].title, why) for name, why in lacking.items()]
    record = {part.name: part.result.record for part in parts}
    names = " and ".join(path.name or path.resolve().name for path in runs)
    about = f"{amount(len(material.dialogues), 'dialogue')} of {amount(len(material.models), 'model')} in {material.spec.title}."
    if material.judges:
        about += f" Judged by {' and '.join(material.judges)}."
    if f"{LOCAL_PREFIX}smollm2" in material.judges:
        about += " A judge of 135 million parameters tests whether the suites run; its answers measure nothing."
    show_results(
        parts,
        record,
        folder / "validity.json",
        title=f"Validity of {names}",
        about=about,
        left_out=left_out,
        warning=few(material),
    )
    return code


def rejudge_runs(
    spec: EnvironmentSpec, runs: list[Path], name: str, suite: RejudgingSuite, by: Judging, calls: Calls,
    options: Mapping[str, Any], *, limit: int | None, scenarios: str | None, out: Path | None,
) -> int:  # fmt: skip
    ((judge, model),) = by.by_name.items()
    judges = suite.judges(spec, model, by.sampling)
    sources = [
        JudgedVariants(
            run, name, suite, judges, options=options, scenarios=scenarios, sampling=by.sampling, prices=by.models.meter.prices,
            limit=limit,
        )
        for run in runs
    ]  # fmt: skip
    folder = out or beside(runs[0], "validity", name, judge)
    paths = directories(folder, runs, suite.variants)
    code = 0
    ahead = [(source, path, variant) for source, path in zip(sources, paths, strict=True) for variant in suite.variants]
    for number, (source, path, variant) in enumerate(ahead):
        pilot = by.pilot if by.pilot is not None and not by.pilot.asked else None
        if pilot is not None:
            pilot.further = sum(len(later.jobs) for later, _, _ in ahead[number + 1 :])
        typer.echo(f"{path[variant]}:")
        plan = by.plan(
            source.settings(variant), source.play(variant), source.jobs, source.source(variant, path[suite.variants[0]])
        )
        played = play_run(path[variant], plan, calls, pilot=pilot, done="judged", ranked=False)
        code = max(code, played.code(pilot=calls.pilot))
        if played.ended.stopped is not None:
            if number < len(suite.variants) - 1:
                typer.echo("Not every variant of the first run is judged: no result yet. Rerun the same command to resume.")
                return code
            break
    result = suite.result(judged_variants(paths, suite))
    show_results([Part(name, suite, result)], result.record, folder / "validity.json", title=suite.title)
    return code


def _ask(
    suites: Mapping[str, RunSuite], material: Material, path: Path, by: Judging, calls: Calls
) -> tuple[dict[str, dict[str, Answers]], int]:
    """The answers by suite and judge, without suites whose questions were not all asked, and the exit code."""
    meter, cache = by.models.meter, by.models.cache
    answers: dict[str, dict[str, Answers]] = {}
    code = 0

    async def go() -> None:
        nonlocal code
        agreed = calls.yes or meter.limited
        try:
            for name, suite in suites.items():
                answers[name] = {}
                for judge in material.judges:
                    asked = partial(
                        answer_all, name, suite, material._replace(earlier=answers), judge, by.by_name[judge], file,
                        sampling=by.sampling, max_connections=calls.max_connections, retry_failed=calls.retry_failed,
                    )  # fmt: skip
                    if by.check.due({judge}) and (await asked(at_most=0)).open:
                        with cache.only() if cache is not None else nullcontext():
                            cached = cache is not None and (await asked()).stopped is None
                        if not cached:
                            await by.check.ask({judge}, tell=partial(typer.echo, err=True))
                    if (calls.pilot or meter.is_paid(judge)) and not agreed:
                        before = meter.spend(judge)
                        tried = await asked(at_most=PILOT)
                        agreed = tried.open == 0 or _agreed(name, judge, tried, before, meter, pilot=calls.pilot)
                        if not agreed:
                            answers.pop(name)
                            return
                    line = ProgressLine(meter, what=f"answers for {name}", speed=by.models.speed)
                    started = time.monotonic()

                    def show(done: int, planned: int, line: ProgressLine = line, started: float = started) -> None:
                        line.show(Progress(planned, done, 0, time.monotonic() - started, None))

                    with line:
                        answered = await asked(report=show)
                    answers[name][judge] = answered.answers
                    code = max(code, _code_of(name, judge, answered))
                    if answered.stopped is not None:
                        answers.pop(name)
                        return
        finally:
            await close(by.models.opened.values())
            if cache is not None:
                cache.write()

    with closing(AnswerFile(path)) as file, cache or nullcontext():
        asyncio.run(go())
    if material.judges and (spent := meter.summary()):
        typer.echo(f"Judges: {spent}.")
    return answers, max(code, int(len(answers) < len(suites) and not calls.pilot))


def _agreed(name: str, judge: str, tried: Answered, before: Any, meter: Meter, *, pilot: bool) -> bool:
    spent = meter.spend(judge)
    share = tried.open / max(1, tried.asked)
    cost = None if spent.cost is None or not meter.prices else (spent.cost - (before.cost or 0.0)) * share
    money = "" if cost is None else f", about {cost:.2f} at your prices"
    tokens = round((spent.tokens - before.tokens) * share)
    more = amount(tried.open, "more question")
    say(f"Suite {name} asks {judge} at least {more}: about {tokens:,} tokens{money}.", err=True)
    return not pilot and agreed_to("Continue, with this and the suites after it?")


def _code_of(name: str, judge: str, answered: Answered) -> int:
    if answered.stopped is not None:
        left = amount(answered.open, "question")
        say(f"Stopped early: {answered.stopped}. {left} of {name} to {judge} not asked.", err=True)
        return 1
    if not answered.failed:
        return 0
    total = len(answered.failed) + len(answered.answers)
    first = next(iter(answered.failed.values()))
    say(f"{len(answered.failed)} of {amount(total, 'question')} of {name} to {judge} failed: {first}", err=True)
    if len(answered.failed) / total > ALLOWED_UNSCORED:
        say(f"More than the {ALLOWED_UNSCORED:.0%} allowed; fix the cause, then rerun with --retry-failed.", err=True)
        return 1
    return 0
