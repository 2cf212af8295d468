"""Options that several commands take, each worded once; the commands give the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Cache", "Embedder", "Judge", "JudgePilot", "JudgeSampling", "MaxConnections", "MaxCost", "MaxTokens", "NewRun",
    "OptionValues", "Prices", "Retries", "RetryJudging", "Timeout", "WriterSampling", "WritingConnections", "Yes",
]  # fmt: skip

OptionValues = Annotated[
    list[str] | None,
    typer.Option(
        "-E", "--option", help="Option of the environment: name=value; repeatable (heartloop environments show ENVIRONMENT)."
    ),
]
MaxConnections = Annotated[int, typer.Option(min=1, help="Dialogues in flight at once.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for one answer.")]
Retries = Annotated[int, typer.Option(min=0, help="Further attempts at an answer after the first.")]
MaxCost = Annotated[float | None, typer.Option(help="Stop before spending more, in the price file's currency.")]
MaxTokens = Annotated[int | None, typer.Option(help="Stop before using more tokens, all roles together.")]
Prices = Annotated[Path | None, typer.Option(help="TOML file with input and output price per million tokens by model.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Go on after the estimate without asking.")]
Cache = Annotated[
    Path | None, typer.Option(help="File that keeps every answer; a stored one is not paid for again. Else $HEARTLOOP_CACHE.")
]

# Of what reads a finished run.
NewRun = Annotated[Path | None, typer.Option(help="The new run directory; by default beside the run.")]
Judge = Annotated[str, typer.Option(help="Who judges every stored reply anew: service/model, or embedded (rules, free).")]
JudgeSampling = Annotated[list[str] | None, typer.Option("--sampling", help="judge.setting=value, e.g. judge.temperature=0.")]
JudgePilot = Annotated[bool, typer.Option("--pilot", help="Judge two dialogues, print the estimate, stop.")]
RetryJudging = Annotated[bool, typer.Option("--retry-failed", help="Judge failed dialogues again.")]

# Of what writes scenarios.
Embedder = Annotated[
    str | None, typer.Option(help="Model behind /embeddings that finds the nearest scenarios; else character TF-IDF.")
]
WriterSampling = Annotated[
    list[str] | None,
    typer.Option("--sampling", help="role.setting=value, e.g. writer.temperature=1, auditor.max_tokens=2000."),
]
WritingConnections = Annotated[int, typer.Option(min=1, help="Scenarios in flight at once.")]
