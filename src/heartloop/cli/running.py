"""What the commands that play or judge dialogues share: options, the question before a paid run, printed results, exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.core.text import amount, money, roughly
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation import runner
from heartloop.evaluation.leaderboard import leaderboard
from heartloop.evaluation.plan import read_requests
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.runner import DECLINED, Estimate, Play, RunPlan, RunResult
from heartloop.evaluation.scores import ALLOWED_UNSCORED, ScoreCard
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.evaluation.store import StoredRun
from heartloop.models.budget import Meter, is_baseline, is_paid, load_prices
from heartloop.models.cache import cache_at
from heartloop.models.check import AskedRole, EndpointCheck
from heartloop.models.names import counted, load_env, local_speed, resolve
from heartloop.report.site import write_site


def exit_code_of(ended: RunResult, *, done: str = "played") -> int:
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
    """`-E name=value` texts as a mapping."""
    own = [str(parameter.name) for parameter in context.command.params if parameter.param_type_name == "option"]
    return spec.options.parse(texts or (), environment=spec.name, reserved=own)


def agreed_to(question: str) -> bool:
    """Asks in a terminal; elsewhere prints which options continue without a question."""
    if sys.stdin.isatty():
        return bool(typer.confirm(question, err=True))
    typer.echo("Not a terminal: pass --yes, --max-tokens or --max-cost to continue after the estimate.", err=True)
    return False


class Pilot:
    """Prints the estimate and returns whether the run continues. Asks in a terminal; elsewhere continues with --yes or a limit.

    Args:
        yes: continue after the estimate without asking.
        only: stop after the estimate.
        meter: if it has a limit, the run continues without asking; the cost is printed if it has prices.
    """

    def __init__(self, meter: Meter, *, yes: bool, only: bool) -> None:
        self._priced, self._yes, self._only = bool(meter.prices), yes or meter.limited, only
        self.line: ProgressLine | None = None
        """The progress line, hidden while a question is open."""
        self.further = 0
        """Dialogues in later runs of the same command; each is estimated to cost as much."""
        self.asked = False

    def __call__(self, estimate: Estimate) -> bool:
        self.asked = True
        share = 1.0 + self.further / estimate.dialogues if estimate.dialogues else 1.0
        dialogues = estimate.dialogues + (self.further if estimate.dialogues else 0)
        cost = f", cost about {money(share * estimate.cost)} at your prices" if self._priced and estimate.cost is not None else ""
        basis = f"From {amount(estimate.earlier, 'finished dialogue')}" if estimate.earlier else "Pilot"
        if self.line is not None:
            self.line.pause()
        typer.echo(
            f"{basis}: {amount(dialogues, 'more dialogue')} will take about {amount(round(share * estimate.calls), 'call')}, "
            f"{amount(round(share * estimate.tokens), 'token')} and {roughly(share * estimate.seconds)}{cost}.",
            err=True,
        )
        go_on = not self._only and (self._yes or agreed_to("Continue?"))
        if self.line is not None:
            self.line.resume()
        return go_on


class Judging:
    """The judges of a command: their models with meter and cache, and their sampling.

    Args:
        judges: models, or `embedded`.
        requests: sampling settings and further fields of a request, `judge.field=value`.
        how: further arguments of `models.names.resolve`.
    """

    def __init__(
        self, judges: Sequence[str], requests: Sequence[str] | None, *, max_tokens: int | None, max_cost: float | None,
        prices: Path | None, cache: Path | None, **how: Any,
    ) -> None:  # fmt: skip
        load_env()
        for judge in judges:
            if is_baseline(judge):
                raise UseError(f"--judge is {judge}, a baseline that only replies; expected service/model, or {EMBEDDED}")
        self.sampling: Sampling | None = read_requests(requests or (), models={"judge": list(judges)}).get("judge")
        self.meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=judges)
        self.cache = cache_at(cache)
        self.opened = {judge: resolve(judge, key_later=self.cache is not None, **how) for judge in judges if judge != EMBEDDED}
        in_turn = len(judges) > 1  # each is asked before its own questions
        roles = [AskedRole(model, self.sampling, under_test=in_turn) for model in self.opened.values()]
        self.check = EndpointCheck(roles, self.meter)
        self.models: dict[str, ChatModel | None] = {judge: None for judge in judges if judge == EMBEDDED}
        self.models |= {judge: counted(model, self.meter, "judge", self.cache) for judge, model in self.opened.items()}

    def pilot(self, *, yes: bool, only: bool) -> Pilot | None:
        """The estimate before the judges of stored dialogues are asked; `None` if no judge is paid and it was not requested."""
        return Pilot(self.meter, yes=yes, only=only) if only or any(map(is_paid, self.models)) else None

    def plan(self, settings: EvaluationSettings, play: Play, jobs: Sequence[Job]) -> RunPlan:
        """The plan of a run of these judges."""
        return RunPlan(
            settings=settings, play=play, jobs=jobs, meter=self.meter, opened=self.opened, cache=self.cache, check=self.check
        )


def play_run(
    path: Path, plan: RunPlan, *, pilot: Pilot | None = None, done: str = "played", ranked: bool = True, **how: Any
) -> tuple[RunResult, StoredRun]:
    """Plays a run with a progress line, prints the leaderboard and the failures; returns the run as read for its scores, too.

    Args:
        done: past participle of what happens to a dialogue, for the messages.
        ranked: whether to print a leaderboard.
        how: further arguments of `runner.play_run`.
    """

    def show(card: ScoreCard) -> None:
        if ranked:
            Console().print(leaderboard(card))

    line = ProgressLine(plan.meter, speed=partial(local_speed, plan.opened.values()))
    if pilot is not None:
        pilot.line = line
    ended, run, failures, dropped = runner.play_run(
        path, plan, pilot=pilot, line=line, scored=show, tell=partial(typer.echo, err=True), **how
    )
    for name, refused in dropped.items():
        typer.echo(f"{name} does not accept {', '.join(refused)}; the calls were sent without.", err=True)
    typer.echo(
        f"{amount(ended.played, 'dialogue')} {done} in {ended.seconds:.1f} s"
        + (f", {ended.resumed} finished before" if ended.resumed else "")
        + (f", {ended.failed} failed and unscored" if ended.failed else "")
        + (f"; {spent}" if (spent := plan.meter.summary()) else "")
    )
    if plan.cache is not None and (summary := plan.cache.summary()):
        typer.echo(summary)
    for (role, kind), (count, detail) in list(failures.items())[:3] if ended.failed else []:
        typer.echo(f"  {count} x {role}, {kind}: {detail}", err=True)
    return ended, run


def write_report(runs: Sequence[StoredRun], page: Path) -> Path:
    """Writes the report of `runs` into the directory `page`, prints slow steps, and returns the path of its `index.html`."""
    return write_site(runs, page)


def next_lines(path: Path, run: StoredRun, *, report: bool) -> str:
    """The last lines of a command that made a run: its path and that of its report, which is written here."""
    return f"Run: {path}\nReport: {write_report([run], path / 'report') if report else f'heartloop report {path}'}"
