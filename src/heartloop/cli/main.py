"""The command line: the application, its command groups and its entry point.

There is one module per command group. Commands import what they need inside the function, so that `--help` is fast. Exit codes: 0
done; 1 more than 5 % of the dialogues unscored, stopped by the budget, or a failed gate; 2 wrong use or input.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from heartloop.cli.demo import demo_app
from heartloop.cli.environments import environments_app
from heartloop.cli.evaluate import evaluate_app
from heartloop.cli.export import export_app
from heartloop.cli.guard import guard_app
from heartloop.cli.imports import import_app
from heartloop.cli.plan import plan_app
from heartloop.cli.rejudge import rejudge_app
from heartloop.cli.runs import runs_app
from heartloop.cli.scenarios import scenarios_app
from heartloop.cli.student import student_app
from heartloop.cli.talk import talk_app
from heartloop.cli.train import train_app
from heartloop.cli.validate import validate_app

__all__ = ["main"]

app = typer.Typer(
    name="heartloop",
    help="Evaluate and train dialogue models against user simulators.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(demo_app)
app.add_typer(talk_app)
app.add_typer(evaluate_app)
app.add_typer(environments_app)
app.add_typer(scenarios_app, name="scenarios")
app.add_typer(runs_app)
app.add_typer(rejudge_app)
app.add_typer(plan_app)
app.add_typer(student_app, name="student")
app.add_typer(train_app)
app.add_typer(import_app)
app.add_typer(export_app)
app.add_typer(validate_app)
app.add_typer(guard_app)


def main() -> None:
    """Entry point: runs the command. `UseError` and `InputError` are printed as one sentence, with exit code 2."""
    from heartloop.core.errors import InputError, UseError

    interrupted = "heartloop: interrupted; finished dialogues are saved, rerun the same command to resume"
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how typer reports Ctrl-C
            typer.echo(interrupted, err=True)
    except (UseError, InputError) as error:
        typer.echo(f"heartloop: {error}", err=True)
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        typer.echo(interrupted, err=True)
        code = 130
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # a usage error of typer, whose class differs between versions
        code = 2
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import heartloop

        typer.echo(heartloop.__version__)
        raise typer.Exit


if __name__ == "__main__":
    main()
