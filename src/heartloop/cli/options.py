"""Options that several commands share. Each command gives its own default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Environment = Annotated[str, typer.Argument(help="Name of an environment (heartloop environments lists them).")]
OptionValues = Annotated[
    list[str] | None,
    typer.Option(
        "-E", "--option", help="Option of the environment: name=value; repeatable (heartloop environments show ENVIRONMENT)."
    ),
]
Role = Annotated[list[str] | None, typer.Option("--role", help="Model of another role: name=MODEL; repeatable.")]
ExcludeTag = Annotated[list[str] | None, typer.Option(help="Exclude scenarios with this tag; repeatable.")]
Request = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        help="role.field=value: a sampling setting or any other field of the role's requests, e.g. policy.temperature=0.7, "
        "user.max_tokens=800 or policy.chat_template_kwargs.enable_thinking=false; repeatable.",
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
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write the HTML report into the run directory.")]

# Options of commands that read a finished run.
NewRun = Annotated[Path | None, typer.Option(help="New run directory. Default: next to the run.")]
Judge = Annotated[str, typer.Option(help="Judge that re-scores stored replies: service/model, or embedded.")]
JudgeRequest = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        help="judge.field=value: a sampling setting or other field of the judge's requests, e.g. judge.temperature=0.",
    ),
]
JudgePilot = Annotated[
    bool, typer.Option("--pilot", help="Print the estimate and stop; it judges two dialogues if none is finished.")
]
RetryJudging = Annotated[bool, typer.Option("--retry-failed", help="Rejudge failed dialogues.")]
ScenariosOfRun = Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: that of the run.")]

# Options of commands that write scenarios.
Embedder = Annotated[
    str | None, typer.Option(help="Embedding model that selects the nearest scenarios. Default: character TF-IDF, no model.")
]
WriterRequest = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        help="role.field=value: a sampling setting or other field of the role's requests, e.g. writer.temperature=1 or "
        "auditor.max_tokens=2000.",
    ),
]
WritingConnections = Annotated[int, typer.Option(min=1, help="Maximum number of concurrent scenarios.")]
