"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option
from typer.core import TyperGroup

from heartloop.core.errors import UseError
from heartloop.evaluation.remote import local, new

Environment = Annotated[str, Argument(help="Name of an environment (heartloop environments lists them).")]
OptionValues = Annotated[
    list[str] | None,
    Option("-E", "--option", help="Option of the environment: name=value; repeatable (heartloop environments show ENVIRONMENT)."),
]
Role = Annotated[list[str] | None, Option(help="Model of another role: name=MODEL; repeatable.")]
ExcludeTag = Annotated[list[str] | None, Option(help="Exclude scenarios with this tag; repeatable.")]
Request = Annotated[
    list[str] | None,
    Option(
        help="role.field=value: a sampling setting or any other field of the role's requests, e.g. policy.temperature=0.7, "
        "user.max_tokens=800 or policy.chat_template_kwargs.enable_thinking=false; repeatable.",
    ),
]
Timeout = Annotated[float, Option(min=0.1, help="Seconds without data from the server after which a model call times out.")]
MaxTokens = Annotated[int | None, Option(help="Maximum tokens without baselines and embedded roles; stop before exceeding it.")]
Prices = Annotated[Path | None, Option(help="TOML file of prices: input and output per million tokens, by model.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Continue after the estimate without asking.")]
Cache = Annotated[
    Path | None, Option(help="SQLite file of answers; a cached answer is not paid for again. Default: $HEARTLOOP_CACHE.")
]
Report = Annotated[bool, Option("--report/--no-report", help="Write the HTML report into the run directory.")]


def on_this_machine(given: str | Path) -> Path:
    if "://" in str(given):
        raise UseError(f"{given} is a URL; expected a folder of this machine")
    return Path(given)


# Parameters that take a run or folder of runs, or its URL; those of `Out` write to it.
RunArgument, RunOption = partial(Argument, parser=local), partial(Option, parser=local, metavar="<path or URL>")
OutArgument, OutOption = partial(Argument, parser=new), partial(Option, parser=new, metavar="<path or URL>")

# Options of commands that read a finished run.
NewRun = Annotated[Path | None, OutOption(help="New run directory. Default: next to the run.")]
Judge = Annotated[str, Option(help="Judge that re-scores stored replies: service/model, or embedded.")]
JudgeRequest = Annotated[
    list[str] | None,
    Option(help="judge.field=value: a sampling setting or other field of the judge's requests, e.g. judge.temperature=0."),
]
ScenariosOfRun = Annotated[str | None, Option(help="Scenario set, file or folder. Default: that of the run.")]


@dataclass(frozen=True, kw_only=True)
class CallLimits:
    """How long a call may take, and what all calls may cost."""

    timeout: Timeout = 300.0
    retries: Annotated[int, Option(min=0, help="Maximum number of retries of a failed model call.")] = 6
    max_cost: Annotated[float | None, Option(help="Maximum cost, in the currency of --prices; stop before exceeding it.")] = None
    max_tokens: MaxTokens = None
    prices: Prices = None


@dataclass(frozen=True, kw_only=True)
class Calls(CallLimits):
    """Options of commands that play or judge dialogues: how models are called, what that may cost, and what a rerun does."""

    max_connections: Annotated[int, Option(min=1, help="Maximum number of concurrent dialogues.")] = 32
    cache: Cache = None
    pilot: Annotated[
        bool, Option("--pilot", help="Print the estimate and stop; if no dialogue is finished, finish two for it.")
    ] = False
    yes: Yes = False
    retry_failed: Annotated[bool, Option("--retry-failed", help="Play or judge failed dialogues again.")] = False
    ray: Annotated[
        str | None,
        Option(
            metavar="[ADDRESS]",
            help="Play on a Ray cluster (extra ray), of which this machine is a node: auto, or HOST:PORT; without ADDRESS on "
            "the CPUs of this machine.",
        ),
    ] = None

    @property
    def models(self) -> dict[str, Any]:
        """The arguments of `evaluation.runner.OpenModels`."""
        names = ("max_connections", "timeout", "retries", "max_cost", "max_tokens", "prices", "cache")
        return {name: getattr(self, name) for name in names}


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: a parameter that is a dataclass of options, such as `Calls`, becomes these options."""
    declared = signature(command, eval_str=True)
    groups: dict[str, Any] = {name: one.annotation for name, one in declared.parameters.items() if is_dataclass(one.annotation)}
    parameters: list[Parameter] = []
    for name, parameter in declared.parameters.items():
        parameters += signature(groups[name], eval_str=True).parameters.values() if name in groups else [parameter]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    order = sorted(parameters, key=lambda one: one.kind)
    run.__signature__ = declared.replace(parameters=order)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in order} | {"return": None}
    return run


# Options of commands that write scenarios.
Embedder = Annotated[
    str | None, Option(help="Embedding model that selects the nearest scenarios. Default: character TF-IDF, no model.")
]


@dataclass(frozen=True, kw_only=True)
class WritingCalls(CallLimits):
    """Options of commands that write scenarios: how models are called, and what that may cost."""

    max_connections: Annotated[int, Option(min=1, help="Maximum number of concurrent scenarios.")] = 8
    request: Annotated[
        list[str] | None,
        Option(
            help="role.field=value: a sampling setting or other field of the role's requests, e.g. writer.temperature=1 or "
            "auditor.max_tokens=2000.",
        ),
    ] = None


class GroupedCommands(TyperGroup):
    """Lists the commands by their help panels, in plain text, with the whole first sentence of each."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place, following in enumerate([*args[1:], "-"]):  # typer knows no option whose value may be missing
            if args[place : place + 1] == ["--ray"] and following.startswith("-"):
                args[place] = "--ray=local"
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            sentence = re.split(r"\n\n|\.\s+(?=[A-Z])", command.help or "")[0].rstrip(".")
            panel = getattr(command, "rich_help_panel", None)
            panels.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, sentence))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)
