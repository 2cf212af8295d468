"""`heartloop student`: a small model fitted on the judgements of a run, which then judges in place of the judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from heartloop.reader.linear import LinearModel

__all__ = ["student_app"]

student_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Fit a small model on a judge's judgements and show how well it agrees."
)


@student_app.command("fit")
def fit(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of one environment, with a judge's changes.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    seed: Annotated[int, typer.Option(help="Random seed of the folds for the card.", min=0)] = 0,
) -> None:
    """Fit a student on the judged replies of runs. Use it with `--judge student:FILE`."""
    from heartloop.core.errors import UseError
    from heartloop.fitting.student import fit_student, read_rows

    if out.exists():
        raise UseError(f"{out} exists; pass another --out")
    model = fit_student(read_rows(runs), seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(model.to_bytes())
    _show(model)
    typer.echo(f"\nStudent: {out}\nNext: heartloop rejudge RUN --judge student:{out}")


@student_app.command("show")
def show(student: Annotated[Path, typer.Argument(help="File that `student fit` wrote.")]) -> None:
    """Print the card of a student."""
    from heartloop.reader.linear import LinearModel

    _show(LinearModel.load(student))


def _show(model: LinearModel) -> None:
    card = model.card
    fitted, seen = card["fitted_on"], card["held_out"]
    typer.echo(f"Student of {', '.join(card['judges'])} in {card['environment']}, weights {model.hash}")
    typer.echo(f"fitted on {fitted['replies']} replies of {len(fitted['models'])} models to {fitted['scenarios']} scenarios")
    if card["left_out_dialogues"]:
        typer.echo(f"{card['left_out_dialogues']} dialogues were left out: more than the fit takes")
    typer.echo(f"agreement with the judge on held-out {seen['of']}, {seen['dialogues']} dialogues:")
    for key, value in seen["turn_r"].items():
        spearman = seen["model_spearman"].get(key)
        ranks = f", models (Spearman) {spearman:.2f}" if spearman is not None else ""
        alone = f"reply length alone {seen['length_r'][key]:.2f}"
        typer.echo(f"  {key}: r {value:.2f} per reply, {seen['dialogue_r'][key]:.2f} per dialogue{ranks}; {alone}")
        parts = "  ".join(f"{guessed:+.1f} / {judged:+.1f}" for guessed, judged in seen["calibration"][key])
        typer.echo(f"  predicted / judged change by fifths: {parts}")
