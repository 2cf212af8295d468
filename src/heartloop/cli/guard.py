"""`heartloop guard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["guard_app"]

guard_app = typer.Typer(rich_markup_mode=None)


@guard_app.command()
def guard(
    before: Annotated[
        Path | None, typer.Argument(help="Results of a harness before training: a file or a folder (docs/general-capability.md).")
    ] = None,
    after: Annotated[Path | None, typer.Argument(help="Results after training.")] = None,
    prepare: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Print the commands that measure a checkpoint's folder or a model of the hub; no more."
        ),
    ] = None,
    harness: Annotated[str, typer.Option(help="For --prepare: lm-eval or inspect.")] = "lm-eval",
    runs: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="BEFORE AFTER", help="Two evaluations of the same models, whose difference is shown beside."),
    ] = None,
    margin: Annotated[float, typer.Option(min=0.0, help="Points: a larger fall matters.")] = 2.0,
    worse_than: Annotated[
        float | None,
        typer.Option(min=0.0, help="Exit with code 1 if a benchmark's interval lies below minus this number of points."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for guard.json and the page; with --prepare, of the results. Default: guard.")
    ] = None,
) -> None:
    """Compare general capability before and after training, from results of lm-evaluation-harness, Inspect or LiveCodeBench."""
    from rich.console import Console

    from heartloop.core.errors import UseError
    from heartloop.environments.suites import RunSuite
    from heartloop.evaluation.comparison import choose_sides, compare
    from heartloop.evaluation.runs import read_run
    from heartloop.integrations.harness import read_results
    from heartloop.training.checkpoints import PREFIX, weights_in
    from heartloop.validity.guard import changes, commands, guard_result
    from heartloop.validity.page import Part, result_table, write_validity_json, write_validity_page

    folder = out or Path("guard")
    if prepare is not None:
        if harness not in ("lm-eval", "inspect"):
            raise UseError(f"--harness is {harness!r}; expected lm-eval or inspect")
        model = str(weights_in(Path(prepare.removeprefix(PREFIX)))) if prepare.startswith(PREFIX) else prepare
        typer.echo("\n".join(commands(model, "inspect" if harness == "inspect" else "lm-eval", str(folder))))
        return
    if before is None or after is None:
        raise UseError("expected two arguments, results before and after training; --prepare MODEL prints how to make them")
    found, notes = changes(read_results(before), read_results(after))
    if not found:
        raise UseError(f"{before} and {after} share no benchmark of the papers; {' '.join(notes)}")
    gain = None
    if runs is not None:
        sides = [read_run(path) for path in runs]
        for side in sides:
            if len({dialogue.model for dialogue in side.transcripts}) != 1:
                raise UseError(f"--runs: {side.path} holds several models or none; expected evaluations of one model each")
        gain = compare(*choose_sides(sides[0], sides[1], None, None))
    result = guard_result(found, notes, margin, gain)
    title = "General capability before and after training"
    about = "A training that gains in care should lose nothing elsewhere."
    source = "Reinforcement Learning with Verifiable Emotion Rewards, Table 2"
    suite = RunSuite(title, about, source, lambda material, answers: result)
    write_validity_json(result.record, folder / "guard.json")
    page = write_validity_page([Part("guard", suite, result)], folder / "report", title=title)
    Console().print(result_table(result))
    typer.echo(f"\nNumbers: {folder / 'guard.json'}\nPage: {page}")
    if worse_than is not None and (worse := [one for one in found if one.high is not None and one.high < -worse_than]):
        names = " and ".join(one.benchmark.name for one in worse)
        typer.echo(f"Worse than before by more than {worse_than:g}: {names}.", err=True)
        raise typer.Exit(1)
