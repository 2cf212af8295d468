"""Options that several commands share. Each command gives its own default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Cache", "Embedder", "Judge", "JudgePilot", "JudgeRequest", "JudgeSampling", "MaxConnections", "MaxCost", "MaxTokens",
    "NewRun", "OptionValues", "Prices", "Retries", "RetryJudging", "Timeout", "WriterRequest", "WriterSampling",
    "WritingConnections", "Yes",
]  # fmt: skip

OptionValues = Annotated[
    list[str] | None,
    typer.Option(
        "-E", "--option", help="Option of the environment: name=value; repeatable (heartloop environments show ENVIRONMENT)."
    ),
]
MaxConnections = Annotated[int, typer.Option(min=1, help="Maximum number of concurrent dialogues.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Timeout of one model call in seconds.")]
Retries = Annotated[int, typer.Option(min=0, help="Maximum number of retries of a failed model call.")]
MaxCost = Annotated[float | None, typer.Option(help="Maximum cost, in the currency of --prices; stop before exceeding it.")]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum number of tokens of all roles together; stop before exceeding it.")]
Prices = Annotated[Path | None, typer.Option(help="TOML file of prices: input and output per million tokens, by model.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Continue after the estimate without asking.")]
Cache = Annotated[
    Path | None, typer.Option(help="SQLite file of answers; a cached answer is not paid for again. Default: $HEARTLOOP_CACHE.")
]

# Options of commands that read a finished run.
NewRun = Annotated[Path | None, typer.Option(help="New run directory. Default: beside the run.")]
Judge = Annotated[str, typer.Option(help="Judge that re-scores stored replies: service/model, or embedded.")]
JudgeRequest = Annotated[
    list[str] | None,
    typer.Option("--request", help="judge.field=JSON: another field of the judge's requests, e.g. judge.min_p=0.05."),
]
JudgeSampling = Annotated[list[str] | None, typer.Option("--sampling", help="judge.setting=value, e.g. judge.temperature=0.")]
JudgePilot = Annotated[
    bool, typer.Option("--pilot", help="Print the estimate and stop; it judges two dialogues if none is finished.")
]
RetryJudging = Annotated[bool, typer.Option("--retry-failed", help="Rejudge failed dialogues.")]

# Options of commands that write scenarios.
Embedder = Annotated[
    str | None, typer.Option(help="Embedding model that selects the nearest scenarios. Default: character TF-IDF, no model.")
]
WriterSampling = Annotated[
    list[str] | None, typer.Option("--sampling", help="role.setting=value, e.g. writer.temperature=1, auditor.max_tokens=2000.")
]
WriterRequest = Annotated[
    list[str] | None,
    typer.Option("--request", help="role.field=JSON: another field of the role's requests, e.g. writer.min_p=0.05."),
]
WritingConnections = Annotated[int, typer.Option(min=1, help="Maximum number of concurrent scenarios.")]
