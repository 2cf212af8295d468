"""What the commands that play or judge dialogues share: options, the question before a paid run, printed results, exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from heartloop.cli.options import Calls
from heartloop.core.chat import EMBEDDED
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.core.text import amount, money, roughly
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation import runner
from heartloop.evaluation.leaderboard import leaderboard
from heartloop.evaluation.plan import read_requests
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.remote import with_urls
from heartloop.evaluation.runner import Estimate, OpenModels, Played, RunPlan
from heartloop.evaluation.scores import ALLOWED_UNSCORED, ScoreCard
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.evaluation.store import StoredRun
from heartloop.integrations.ray import RayPool
from heartloop.models.batch import DIALOGUES, BatchChat
from heartloop.models.budget import Meter, is_baseline, is_scripted
from heartloop.models.check import AskedRole, EndpointCheck
from heartloop.models.names import load_env
from heartloop.report.site import write_site


def say(text: str, *, err: bool = False) -> None:
    """Prints text as it is, or to a terminal in lines that end between words."""
    Console(stderr=err).print(Text(text), soft_wrap=not (sys.stderr if err else sys.stdout).isatty())


def read_options(context: typer.Context, spec: EnvironmentSpec, texts: Sequence[str] | None) -> dict[str, Any]:
    """`-E name=value` texts as a mapping."""
    own = [str(parameter.name) for parameter in context.command.params if parameter.param_type_name == "option"]
    return spec.options.parse(texts or (), environment=spec.name, reserved=own)


def agreed_to(question: str) -> bool:
    if sys.stdin.isatty():
        return bool(typer.confirm(question, err=True))
    typer.echo("Not a terminal: pass --yes, --max-tokens or --max-cost to continue after the estimate.", err=True)
    return False


class Pilot:
    """Prints the estimate and returns whether the run continues: with --yes or a limit, or as answered in a terminal."""

    def __init__(self, meter: Meter, calls: Calls) -> None:
        self._priced, self._only = bool(meter.prices), calls.pilot
        self.agreed = (calls.yes or meter.limited) and not calls.pilot
        self.line: ProgressLine | None = None  # hidden while a question is open
        self.further = 0  # dialogues in later runs of the same command; each is estimated to cost as much
        self.asked = False
        self.batch = False
        """Whether the dialogues after the estimate are judged by batches. The first ones are judged directly."""

    def __call__(self, estimate: Estimate) -> bool:
        self.asked = True
        share = 1.0 + self.further / estimate.dialogues if estimate.dialogues else 1.0
        dialogues = estimate.dialogues + (self.further if estimate.dialogues else 0)
        cost = f", cost about {money(share * estimate.cost)} at your prices" if self._priced and estimate.cost is not None else ""
        basis = f"From {amount(estimate.earlier, 'finished dialogue')}" if estimate.earlier else "Pilot"
        time = "up to a day for each call of a dialogue" if self.batch else roughly(share * estimate.seconds)
        if self.line is not None:
            self.line.pause()
        typer.echo(
            f"{basis}: {amount(dialogues, 'more dialogue')} will take about {amount(round(share * estimate.calls), 'call')}, "
            f"{amount(round(share * estimate.tokens), 'token')} and {time}{cost}.",
            err=True,
        )
        go_on = self.agreed or (not self._only and agreed_to("Continue?"))
        if self.line is not None:
            self.line.resume()
        return go_on


class Judging:
    def __init__(self, judges: Sequence[str], requests: Sequence[str] | None, calls: Calls, **how: Any) -> None:
        load_env()
        for judge in judges:
            if is_baseline(judge):
                raise UseError(f"--judge is {judge}, a baseline that only replies; expected service/model, or {EMBEDDED}")
        self.sampling: Sampling | None = read_requests(requests or (), models={"judge": judges}).get("judge")
        self.models = OpenModels(judges, **calls.models, **how)
        in_turn = len(judges) > 1  # each is asked before its own questions
        roles = [AskedRole(model, self.sampling, under_test=in_turn) for model in self.models.opened.values()]
        self.check = EndpointCheck(roles, self.models.meter)
        self.by_name = {judge: None if judge == EMBEDDED else self.models.counted(judge, "judge") for judge in judges}
        asks = calls.pilot or any(map(self.models.meter.is_paid, judges))
        self.pilot = Pilot(self.models.meter, calls) if asks else None

    def plan(
        self, settings: EvaluationSettings, play: Callable[..., Awaitable[Transcript]], jobs: Sequence[Job],
        source: Callable[[Job], Any],
    ) -> RunPlan:  # fmt: skip
        return RunPlan(settings=settings, play=play, source=source, jobs=jobs, models=self.models, check=self.check)


@contextlib.contextmanager
def by_batches(by: Judging, folder: Path, calls: Calls) -> Iterator[Calls]:
    """In its body, the judge's calls but those of the pilot go through its provider's batch interface, so many at a time."""
    judge, pilot = next(iter(by.models.opened.values()), None), by.pilot
    if not isinstance(judge, BatchChat):
        raise UseError(f"--batch needs a judge behind an endpoint, service/model; --judge is {next(iter(by.by_name))}")
    if calls.ray is not None:
        raise UseError("--batch waits for a provider and needs no cluster; pass it without --ray")
    judge.folder = folder
    if pilot is not None:
        pilot.batch, judge.direct = True, lambda: not pilot.asked
    try:
        yield replace(calls, max_connections=DIALOGUES)
    finally:
        if judge.open:
            left = amount(len(judge.open), "batch", "batches")
            say(f"{left} of {judge.name} not answered yet; rerun the same command to continue.", err=True)


def play_run(
    path: Path, plan: RunPlan, calls: Calls, *, pilot: Pilot | None = None, done: str = "played", ranked: bool = True
) -> Played:
    """Plays a run with a progress line, and prints the leaderboard, the failures, and why it stopped."""

    def show(card: ScoreCard) -> None:
        if ranked:
            Console().print(leaderboard(card))

    meter, cache = plan.models.meter, plan.models.cache
    line = ProgressLine(meter, speed=plan.models.speed)
    if pilot is not None:
        pilot.line = line
    played = runner.play_run(
        path, plan, pilot=pilot, agreed=pilot is not None and pilot.agreed and not pilot.batch, line=line, scored=show,
        pool=None if calls.ray is None else partial(RayPool, calls.ray), tell=partial(say, err=True),
        max_connections=calls.max_connections, retry_failed=calls.retry_failed,
    )  # fmt: skip
    ended = played.ended
    if calls.max_tokens is not None and all(map(is_scripted, plan.models.opened)):
        say("--max-tokens limits nothing here: tokens of baselines and embedded roles do not count.", err=True)
    for name, refused in played.dropped.items():
        say(f"{name} does not accept {', '.join(refused)}; the calls were sent without.", err=True)
    say(
        f"{amount(ended.played, 'dialogue')} {done} in {ended.seconds:.1f} s"
        + (f", {ended.resumed} finished before" if ended.resumed else "")
        + (f", {ended.failed} failed and unscored" if ended.failed else "")
        + (f"; {spent}" if (spent := meter.summary()) else "")
    )
    if cache is not None and (summary := cache.summary()):
        say(summary)
    for (role, _), (count, detail) in list(played.failures.items())[:3] if ended.failed else []:
        say(f"  {count} x {role}: {detail}", err=True)
    for name, causes in played.retried.items():
        by_cause = ", ".join(f"{n:,} x {cause}" for cause, n in sorted(causes.items(), key=lambda item: -item[1]))
        say(f"  {name}: {amount(sum(causes.values()), 'call')} sent again ({by_cause})", err=True)
    for sentence in filter(None, (played.failed_replies, played.thinking_only)):
        say(f"{sentence}.", err=True)
    if ended.stopped is not None:
        left = f"{ended.missing} of {amount(ended.planned, 'dialogue')} {'was' if ended.missing == 1 else 'were'} not {done}"
        say(f"Stopped early: {ended.stopped}. {left}.", err=True)
    if played.unscored > ALLOWED_UNSCORED:
        say(
            f"{played.unscored:.1%} of the dialogues are unscored, more than the {ALLOWED_UNSCORED:.0%} allowed; "
            "fix the cause, then rerun with --retry-failed.",
            err=True,
        )
    for sentence in played.broken_bots:
        typer.echo(f"{sentence}.", err=True)
    return played


def next_lines(path: Path, run: StoredRun, *, report: bool) -> str:
    """The last lines of a command that made a run: its path and that of its report, which is written here."""
    made = write_site([run], path / "report") if report else f"heartloop report {path}"
    return with_urls(f"Run: {path}\nReport: {made}")
