"""What the commands that play or judge dialogues share: what is read from the command line, asked and printed.

Covers the pilot's question, the leaderboard, the list of failures and the exit code. Does not cover command options
(`cli.options`), playing a run (`evaluation.playing`), scores (`evaluation.scores`) or pages (`report`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount, money, roughly
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation import playing
from heartloop.evaluation.card import ScoreCard
from heartloop.evaluation.leaderboard import leaderboard
from heartloop.evaluation.progress import ProgressLine
from heartloop.evaluation.runner import DECLINED, Estimate, Play, Run
from heartloop.evaluation.runs import Run as Played
from heartloop.evaluation.sampling import read_samplings
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.models.budget import Meter, is_baseline, is_paid, load_prices
from heartloop.models.cache import AnswerCache, cache_at
from heartloop.models.check import AskedRole, EndpointCheck
from heartloop.models.names import counted, load_env, local_speed, resolve
from heartloop.report.site import write_site

__all__ = [
    "Judging", "Pilot", "exit_code_of", "given_options", "play_run", "read_options", "read_prompt", "write_report",
]  # fmt: skip


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
        if self.further and estimate.dialogues:
            dialogues = estimate.dialogues + self.further
            share = dialogues / estimate.dialogues
            estimate = estimate._replace(
                dialogues=dialogues, calls=round(estimate.calls * share), tokens=round(estimate.tokens * share),
                cost=None if estimate.cost is None else estimate.cost * share, seconds=estimate.seconds * share,
            )  # fmt: skip
        cost = f", cost about {money(estimate.cost)} at your prices" if self._priced and estimate.cost is not None else ""
        basis = f"From {amount(estimate.earlier, 'finished dialogue')}" if estimate.earlier else "Pilot"
        if self.line is not None:
            self.line.pause()
        typer.echo(
            f"{basis}: {amount(estimate.dialogues, 'more dialogue')} will take about {amount(estimate.calls, 'call')}, "
            f"{amount(estimate.tokens, 'token')} and {roughly(estimate.seconds)}{cost}.",
            err=True,
        )
        go_on = not self._only and (self._yes or (sys.stdin.isatty() and typer.confirm("Continue?", err=True)))
        if not go_on and not self._only and not sys.stdin.isatty():
            typer.echo("Not a terminal: pass --yes, --max-tokens or --max-cost to continue after the estimate.", err=True)
        if self.line is not None:
            self.line.resume()
        return go_on


class Judging:
    """The judges of a command: their models with meter and cache, and their sampling.

    Args:
        judges: models, or `embedded`.
        texts: sampling settings, `judge.setting=value`.
        requests: further fields of a request, `judge.field=JSON`.
        how: further arguments of `models.names.resolve`.

    Raises:
        UseError: a baseline as the judge, or a text that `read_samplings` refuses.
    """

    def __init__(
        self, judges: Sequence[str], texts: Sequence[str] | None, requests: Sequence[str] | None, *, max_tokens: int | None,
        max_cost: float | None, prices: Path | None, cache: Path | None, **how: Any,
    ) -> None:  # fmt: skip
        load_env()
        for judge in judges:
            if is_baseline(judge):
                raise UseError(f"--judge is {judge}, a baseline that only replies; expected service/model, or {EMBEDDED}")
        samplings = read_samplings(texts or (), requests or (), models={"judge": list(judges)})
        self.sampling: Sampling | None = samplings.get("judge")
        self.meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=judges)
        self.cache = cache_at(cache)
        keyless = self.cache is not None
        self.opened = {judge: resolve(judge, key_later=keyless, **how) for judge in judges if judge != EMBEDDED}
        in_turn = len(judges) > 1  # each is asked before its own questions
        roles = [AskedRole(model, self.sampling, under_test=in_turn) for model in self.opened.values()]
        self.check = EndpointCheck(roles, self.meter)
        self.models: dict[str, ChatModel | None] = {judge: None for judge in judges if judge == EMBEDDED}
        self.models |= {judge: counted(model, self.meter, "judge", self.cache) for judge, model in self.opened.items()}

    def pilot(self, *, yes: bool, only: bool) -> Pilot | None:
        """The estimate before the judges of stored dialogues are asked; `None` where nobody is paid and it was not wished for.

        Args:
            yes: continue after the estimate without asking.
            only: stop after the estimate.
        """
        return Pilot(self.meter, yes=yes, only=only) if only or any(map(is_paid, self.models)) else None


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
    """Plays a run (`evaluation.playing.play_run`) with a progress line, prints the leaderboard and the failures.

    Returns the result of `work_through`, and the run as read for its scores, for `write_report`.

    Args:
        opened: models to close at the end.
        cache: its hits are printed at the end.
        done: past participle of what happens to a dialogue, for the messages.
        ranked: whether to print a leaderboard.
        how: further arguments of `work_through`.
    """

    def show(card: ScoreCard) -> None:
        if ranked:
            Console().print(leaderboard(card))

    line = ProgressLine(meter, speed=partial(local_speed, (opened or {}).values()))
    if pilot is not None:
        pilot.line = line
    ended, run, failures, dropped = playing.play_run(
        path, settings, play_job, meter, opened=opened, pilot=pilot, cache=cache, line=line, scored=show,
        tell=partial(typer.echo, err=True), **how,
    )  # fmt: skip
    for name, refused in dropped.items():
        typer.echo(f"{name} does not accept {', '.join(refused)}; the calls were sent without.", err=True)
    typer.echo(
        f"{amount(ended.played, 'dialogue')} {done} in {ended.seconds:.1f} s"
        + (f", {ended.resumed} finished before" if ended.resumed else "")
        + (f", {ended.failed} failed and unscored" if ended.failed else "")
        + (f"; {spent}" if (spent := meter.summary()) else "")
    )
    if cache is not None and (summary := cache.summary()):
        typer.echo(summary)
    for (role, kind), (count, detail) in list(failures.items())[:3] if ended.failed else []:
        typer.echo(f"  {count} x {role}, {kind}: {detail}", err=True)
    return ended, run


def write_report(runs: Sequence[Played], page: Path) -> Path:
    """Writes the report of `runs` into the directory `page`, prints slow steps, and returns the path of its `index.html`."""
    return write_site(runs, page)


def read_prompt(path: Path | None) -> str | None:
    """The text of `--policy-prompt`, without the white space around it.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; expected a text file with a system prompt") from error
    if not text:
        raise InputError(f"{path} is empty; expected a text file with a system prompt")
    return text


_CHOOSING = ("scenario_ids", "tags", "exclude_tags", "limit")


def given_options(
    context: typer.Context, chosen: Mapping[str, Any], of_file: Mapping[str, Any], *, environment: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a plan: those that the command line gives, over those of a file, over the defaults of the command.

    The options of the environment are merged by name, if the file is of the same environment. A `--user` replaces every role of
    the file, `--judge` and `--role` the roles that they name. One way of choosing scenarios replaces the file's.

    Args:
        chosen: values of the command line, defaults included, by the argument's name.
        of_file: arguments from `config.arguments_of`.
        environment: name of the environment.
        options: of the environment, from the command line.
    """
    merged = {**chosen, **{name: value for name, value in of_file.items() if name != "models"}}
    named = {name for name, value in chosen.items() if _is_given(context, name, value)}
    if named & set(_CHOOSING):
        named |= set(_CHOOSING)
    merged |= {name: chosen[name] for name in named}
    merged["options"] = {**of_file.get("options", {}), **options}
    by_role = {} if "user" in named else dict(text.split("=", 1) for text in of_file.get("roles", ()))
    if chosen["judge"] is not None:
        by_role.pop("judge", None)
    own = [text.partition("=")[0] for text in chosen["roles"]]
    merged["roles"] = [*chosen["roles"], *(f"{role}={model}" for role, model in by_role.items() if role not in own)]
    return merged


_PARAMETERS = {"roles": "role", "scenario_ids": "scenario", "tags": "tag", "exclude_tags": "exclude_tag"}


def _is_given(context: typer.Context, name: str, value: Any) -> bool:
    """Whether a value comes from the command line and is no default."""
    source = context.get_parameter_source(_PARAMETERS.get(name, name))
    return value is not None and source is not None and source.name == "COMMANDLINE"
