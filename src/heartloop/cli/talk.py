"""`heartloop demo` and `heartloop talk`, which need no key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli import options as given


def demo(out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Path("demo")) -> None:
    """Evaluate the baselines with the embedded user simulator and write a report. Needs no key and no network.

    With the extra local a small language model plays four further dialogues, within a minute.
    """
    from heartloop.cli.demo import run_demo

    run_demo(out)


def talk(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="Environment, or the id of a scenario. Default: the demo's first.")
    ] = None,
    scenario: Annotated[str | None, typer.Argument(help="Scenario id. Default: one chosen by --seed.")] = None,
    user: Annotated[str, typer.Option(help="User simulator: service/model, or embedded. Plays every role.")] = "embedded",
    role: given.Role = None,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: the environment's sets.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed: chooses the scenario and the person's lines.")] = 0,
    request: given.Request = None,
    max_tokens: given.MaxTokens = None,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/talk-SCENARIO.")] = None,
    cache: given.Cache = None,
) -> None:
    """Talk with a simulated person yourself: you reply, the person answers and is moved. Needs no key.

    Without a terminal every line of stdin is a reply.
    """
    from heartloop.cli.conversation import run_talk
    from heartloop.cli.running import read_options
    from heartloop.evaluation.plan import read_roles

    code = run_talk(
        environment, scenario, scenarios, seed, lambda spec: read_options(context, spec, option), out=out, user=user,
        roles=read_roles(role or ()), requests=request or (), max_tokens=max_tokens, cache=cache,
    )  # fmt: skip
    raise typer.Exit(code)
