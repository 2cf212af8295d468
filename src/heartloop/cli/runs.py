"""Commands on finished runs: compare, merge, rescore. Part of the command line; the same rules as in `cli`.

No command here calls a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heartloop.cli.options import NewRun

__all__ = ["runs_app"]

runs_app = typer.Typer(rich_markup_mode=None)


@runs_app.command()
def compare(
    run_a: Annotated[Path, typer.Argument(help="A, what is there already.")],
    run_b: Annotated[Path | None, typer.Argument(help="B, what is new; without it, two models of the first run.")] = None,
    model_a: Annotated[str | None, typer.Option(help="Model of A, where it has several.")] = None,
    model_b: Annotated[str | None, typer.Option(help="Model of B, where it has several.")] = None,
    min_difference: Annotated[float | None, typer.Option(help="The smallest difference that matters, in points.")] = None,
    worse_than: Annotated[
        float | None, typer.Option(help="A gate: exit 1 if B is worse than A by more points, the whole 95 % interval agreeing.")
    ] = None,
) -> None:
    """B against A on the dialogues scored in both: difference, interval, test, and where they differ."""
    from heartloop.evaluation.comparison import choose_sides, worse_by
    from heartloop.evaluation.comparison import compare as compared
    from heartloop.evaluation.comparison_text import comparison_text
    from heartloop.evaluation.runs import read_run

    a, b = choose_sides(read_run(run_a), read_run(run_b) if run_b is not None else None, model_a, model_b)
    found = compared(a, b, min_difference=min_difference)
    failed = worse_than is not None and worse_by(found, worse_than)
    typer.echo(comparison_text(found, min_difference=min_difference))
    if failed:
        typer.echo(f"B is worse than A by more than {worse_than:g}.", err=True)
        raise typer.Exit(1)
    if worse_than is not None:
        typer.echo(f"Gate: B is not worse than A by more than {worse_than:g}.")


@runs_app.command()
def merge(
    runs: Annotated[list[Path], typer.Argument(help="Run directories that differ in shard, models, repeats or seed alone.")],
    out: Annotated[Path, typer.Option(help="The new run directory.")],
) -> None:
    """Put shards, further models or further repeats together into one run. The runs stay as they are."""
    from heartloop.evaluation.merging import merge_runs

    typer.echo(merge_runs(runs, out).summary)
    _leaderboard(out)


@runs_app.command()
def rescore(
    run: Annotated[Path, typer.Argument(help="A run directory; it stays as it is.")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="By these rules. sage: corrected or released. eibench, empa: paper or released. perm: released or unit. "
            "daily: paper. eqbench: released."
        ),
    ] = None,
    success_at: Annotated[float | None, typer.Option(help="Count a success from this final emotion on; 100 otherwise.")] = None,
    failure_below: Annotated[float | None, typer.Option(help="Count a failure below this final emotion; 10 otherwise.")] = None,
    relation_weight: Annotated[
        float | None, typer.Option(help="eibench: another weight of the relation in the outcome, 0 to 1.")
    ] = None,
    bystander_weight: Annotated[
        float | None, typer.Option(help="perm: another weight of the bystander in the reward, from 0.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="perm: leave out resonation, expression, reception, bystander or length; or nothing. Repeatable."),
    ] = None,
    out: NewRun = None,
) -> None:
    """Compute a run anew from its stored transcripts, by another preset, bounds or weight. No model call."""
    from heartloop.evaluation.rescoring import rescore_run

    done = rescore_run(
        run, out, preset=preset, success_at=success_at, failure_below=failure_below, relation_weight=relation_weight,
        bystander_weight=bystander_weight, without=None if without is None else [part for part in without if part != "nothing"],
    )  # fmt: skip
    typer.echo(done.summary)
    if _leaderboard(done.path):
        raise typer.Exit(1)


def _leaderboard(run: Path) -> bool:
    """Prints it; whether more dialogues are unscored than is allowed."""
    from rich.console import Console

    from heartloop.evaluation.leaderboard import leaderboard
    from heartloop.evaluation.runs import write_scores

    card = write_scores(run)
    Console().print(leaderboard(card))
    typer.echo(f"Run: {run}")
    return card.flagged
