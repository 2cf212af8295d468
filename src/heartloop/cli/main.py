"""The command line. Commands import what they need inside the function, so that `--help` is fast.

Exit codes: 0 done; 1 more than 5 % of the dialogues unscored, more than half of a bot's replies failed, stopped by the
budget, or a failed gate; 2 wrong use or input.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Annotated

import typer
from typer import Option

from heartloop.cli.environments import check_app, environments_app
from heartloop.cli.evaluate import demo, evaluate, plan, talk
from heartloop.cli.exchange import export, import_data
from heartloop.cli.options import GroupedCommands, with_options
from heartloop.cli.runs import compact, compare, merge, rejudge, report, rescore, validate
from heartloop.cli.scenarios import scenarios_app
from heartloop.cli.train import guard, student_app, train
from heartloop.core.errors import InputError, UseError
from heartloop.evaluation.remote import close_all, with_urls

app = typer.Typer(
    name="heartloop",
    help="Evaluate and train dialogue models against user simulators.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=GroupedCommands,
)
TRY, MEASURE, COMPARE, AUTHOR, TRAIN = "Try", "Measure", "Compare", "Author", "Train"
app.command(rich_help_panel=TRY)(demo)
app.command(rich_help_panel=TRY)(talk)
app.command("eval", rich_help_panel=MEASURE)(with_options(evaluate))
app.command(rich_help_panel=MEASURE)(plan)
app.command(rich_help_panel=MEASURE)(report)
app.command(rich_help_panel=MEASURE)(merge)
app.command(rich_help_panel=MEASURE)(compact)
app.command(rich_help_panel=MEASURE)(rescore)
app.command(rich_help_panel=MEASURE)(with_options(rejudge))
app.command(rich_help_panel=MEASURE)(export)
app.command(rich_help_panel=COMPARE)(compare)
app.command(rich_help_panel=COMPARE)(with_options(validate))
app.command(rich_help_panel=COMPARE)(guard)
app.add_typer(environments_app, name="environments", rich_help_panel=AUTHOR)
app.add_typer(scenarios_app, name="scenarios", rich_help_panel=AUTHOR)
app.add_typer(check_app, name="check", rich_help_panel=AUTHOR)
app.command("import", rich_help_panel=AUTHOR)(import_data)
app.command(rich_help_panel=TRAIN)(with_options(train))
app.add_typer(student_app, name="student", rich_help_panel=TRAIN)


def main() -> None:
    """Entry point: runs the command. `UseError` and `InputError` are printed as one sentence, with exit code 2."""
    with contextlib.suppress(ValueError):  # not the main thread; clusters end a job by SIGTERM
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in the background of a script
        signal.signal(signal.SIGTERM, signal.default_int_handler if ignored else lambda *_: signal.raise_signal(signal.SIGINT))
    code: object = 2  # if the command cannot be run
    try:
        code = app(standalone_mode=False)
    except (UseError, InputError) as error:
        typer.echo(f"heartloop: {with_urls(error)}", err=True)
    except (typer.Abort, KeyboardInterrupt):
        code = 130  # which typer returns, too
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        error.show()  # a usage error of typer, whose class differs between versions
    finally:
        if code == 130:
            typer.echo("heartloop: interrupted; finished dialogues are saved, rerun the same command to resume", err=True)
        for sentence in close_all():
            typer.echo(f"heartloop: {sentence}", err=True)
            code = code or 1
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import heartloop

        typer.echo(heartloop.__version__)
        raise typer.Exit
