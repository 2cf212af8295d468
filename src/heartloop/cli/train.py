"""`heartloop train`, `heartloop student` and `heartloop guard`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from heartloop.cli.options import CallLimits, GroupedCommands, RunArgument, RunOption, on_this_machine
from heartloop.core.errors import InputError, UseError

if TYPE_CHECKING:
    from heartloop.reader.model import LinearModel
    from heartloop.training.recipe import Recipe

student_app = typer.Typer(
    cls=GroupedCommands, rich_markup_mode=None, no_args_is_help=True,
    help="Fit a small model on a judge's judgements and show how well it agrees.",
)  # fmt: skip


def train(
    recipe: Annotated[str | None, Argument(help="Shipped recipe or YAML file. Without it, list the shipped recipes.")] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the plan, its calls and tokens, and what prevents it; do not train.")
    ] = False,
    variant: Annotated[list[str] | None, Option(help="Variant of the recipe, e.g. no_process; repeatable.")] = None,
    setting: Annotated[
        list[str] | None, Option("--set", help="Override a setting, e.g. batch.steps=20; repeatable (docs/recipe-settings.md).")
    ] = None,
    seed: Annotated[int | None, Option(help="Random seed. Default: that of the recipe.")] = None,
    out: Annotated[Path | None, Option(parser=on_this_machine, help="Run directory. Default: runs/RECIPE-HASH.")] = None,
    noise: Annotated[
        Path | None, Option(help="validity.json of suite `noise` for this user; the plan then states the reward's noise.")
    ] = None,
    allow_embedded: Annotated[
        bool, Option("--allow-embedded", help="Accept the embedded user as the reward, to test a training; no evidence of care.")
    ] = False,
    *,
    calls: CallLimits,
) -> None:
    """Train a policy against a user simulator with verl. Rerun the same command to resume.

    Limits of tokens and cost are of the user simulator's model, over all attempts at the run.
    """
    from heartloop.models.local import is_local
    from heartloop.models.names import load_env
    from heartloop.training.plan import Missing, checked_split, command_text, missing, plan_text, problems_text
    from heartloop.training.recipe import LAPTOP, read_recipe, recipe_names
    from heartloop.training.verl_config import RunPaths, environment_of, overrides
    from heartloop.validity.noise import noise_of

    if recipe is None:
        for name in recipe_names():
            typer.echo(f"{name:22} {read_recipe(name).about}")
        return
    load_env()
    chosen = read_recipe(recipe, variants=variant or (), settings=setting or (), seed=seed)
    run = out or Path("runs") / f"{chosen.name}-{chosen.hash}"
    if not dry_run:
        raise typer.Exit(_train(chosen, run, calls, allow_embedded=allow_embedded))
    absent = missing(chosen, allow_embedded=allow_embedded)
    try:
        split = checked_split(chosen)
    except (UseError, InputError) as error:
        split = None
        absent.insert(0, Missing("the scenarios cannot be used", str(error)))
    typer.echo(plan_text(chosen, split, None if noise is None else noise_of(noise, chosen.dialogue.user)))
    typer.echo(f"\n{problems_text(absent, get_terminal_size().columns)}")
    paths = RunPaths(run.resolve())
    made = chosen.policy.model == LAPTOP or is_local(chosen.policy.model)
    model = str(paths.policies / "..." / "model") if made else chosen.policy.model
    arguments = overrides(chosen, paths, model=model, train_rows=len(split.train) if split else chosen.batch.scenarios)
    settings = " ".join(f"{name}={value}" for name, value in environment_of(chosen).items())
    typer.echo(f"\nverl's command:\n\n  {settings} \\\n  {command_text('python', arguments)}\n")
    typer.echo(f"Run: {run}" + (" (problems: above verl's command)" if absent else ""))
    raise typer.Exit(2 if any(item.stops and not item.planned for item in absent) else 0)


def _train(recipe: Recipe, run: Path, calls: CallLimits, *, allow_embedded: bool) -> int:
    from heartloop.cli.running import say
    from heartloop.evaluation.scores import ALLOWED_UNSCORED
    from heartloop.training import launch
    from heartloop.training.plan import evaluation_command
    from heartloop.training.verl_config import RunPaths, UserCalls

    limits = UserCalls(**asdict(calls))
    ended = launch.train(recipe, run, calls=limits, allow_embedded=allow_embedded, progress=typer.echo)
    failures = ended.failures
    if failures.failed:
        share = f"{failures.failed} of {failures.dialogues} dialogues failed ({failures.share:.1%})"
        typer.echo(f"{share}; they were excluded from training.", err=True)
    if ended.spent:
        typer.echo(f"The user simulator took {ended.spent} in all attempts.")
    if ended.stopped:
        say(f"Stopped early after step {ended.step}: {ended.stopped}.", err=True)
        return 1
    if ended.code:
        typer.echo(
            f"heartloop: verl stopped with exit status {ended.code} after step {ended.step}: {ended.why}\n"
            f"Log: {ended.log}. Rerun the same command to resume from the last checkpoint.",
            err=True,
        )
        return 1
    checkpoint = RunPaths(run).checkpoint(ended.step)
    typer.echo(f"\nRun: {run}\nPolicy: {checkpoint}")
    typer.echo(f"Evaluate it as it was trained: {evaluation_command(recipe, str(checkpoint))}")
    typer.echo(f"See its curves and dialogues: heartloop report {run}")
    return 1 if failures.share > ALLOWED_UNSCORED else 0


@student_app.command("fit")
def fit(
    runs: Annotated[list[Path], RunArgument(help="Run directories of one environment, with a judge's changes.")],
    out: Annotated[Path, Option(help="File to write.")],
    seed: Annotated[int, Option(help="Random seed of the folds for the card.", min=0)] = 0,
) -> None:
    """Fit a student on the judged replies of runs. Use it with `--judge student:FILE`.

    A student that agrees with its judge by less than r 0.5 per held-out dialogue, or in the order of five or more models, is
    refused; nothing is written.
    """
    from heartloop.environments.reading import check_agreement
    from heartloop.fitting.student import fit_student, read_rows

    if out.exists():
        raise UseError(f"{out} exists; pass another --out")
    model = fit_student(read_rows(runs), seed)
    _show(model)
    check_agreement(model.card)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(model.to_bytes())
    typer.echo(f"\nStudent: {out}\nNext: heartloop rejudge RUN --judge student:{out}")


@student_app.command("show")
def show(student: Annotated[Path, Argument(help="File that `student fit` wrote.")]) -> None:
    """Print the card of a student."""
    from heartloop.reader.model import LinearModel

    _show(LinearModel.load(student))


def _show(model: LinearModel) -> None:
    from heartloop.environments.reading import LEAST_AGREEMENT

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
        within = seen.get("within_model_r", {}).get(key)  # a card of an earlier version has none
        if within is not None:
            ranks = (
                f", {within:.2f} within one model{'' if within >= LEAST_AGREEMENT else ' (does not rank its dialogues)'}{ranks}"
            )
        alone = f"reply length alone {seen['length_r'][key]:.2f}"
        typer.echo(f"  {key}: r {value:.2f} per reply, {seen['dialogue_r'][key]:.2f} per dialogue{ranks}; {alone}")
        parts = "  ".join(f"{guessed:+.1f} / {judged:+.1f}" for guessed, judged in seen["calibration"][key])
        typer.echo(f"  predicted / judged change by fifths: {parts}")


def guard(
    before: Annotated[
        Path | None, Argument(help="Results of a harness before training: a file or a folder (docs/general-capability.md).")
    ] = None,
    after: Annotated[Path | None, Argument(help="Results after training.")] = None,
    prepare: Annotated[
        str | None,
        Option(metavar="MODEL", help="Print the commands that measure a checkpoint's folder or a model of the hub; no more."),
    ] = None,
    harness: Annotated[str, Option(help="For --prepare: lm-eval or inspect.")] = "lm-eval",
    runs: Annotated[
        tuple[Path, Path] | None,
        RunOption(metavar="BEFORE AFTER", help="Two evaluations of the same models, whose difference is shown as well."),
    ] = None,
    min_difference: Annotated[float, Option(min=0.0, help="Points: a larger fall matters.")] = 2.0,
    worse_than: Annotated[
        float | None, Option(min=0.0, help="Exit with code 1 if a benchmark's interval lies below minus this number of points.")
    ] = None,
    out: Annotated[
        Path | None, Option(help="Folder for guard.json and the page; with --prepare, of the results. Default: guard.")
    ] = None,
) -> None:
    """Compare general capability before and after training, from results of lm-evaluation-harness, Inspect or LiveCodeBench."""

    from heartloop.environments.suites import RunSuite
    from heartloop.evaluation.compare import choose_sides, compare
    from heartloop.evaluation.store import read_run
    from heartloop.integrations.harness import read_results
    from heartloop.training.checkpoints import PREFIX, weights_in
    from heartloop.validity.guard import changes, commands, guard_result
    from heartloop.validity.page import Part, show_results

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
            if len({dialogue.model for dialogue in side.digests}) != 1:
                raise UseError(f"--runs: {side.path} holds several models or none; expected evaluations of one model each")
        gain = compare(*choose_sides(sides[0], sides[1], None, None))
    result = guard_result(found, notes, min_difference, gain)
    title = "General capability before and after training"
    about = "A training that gains in care should lose nothing elsewhere."
    source = "Reinforcement Learning with Verifiable Emotion Rewards, Table 2"
    suite = RunSuite(title, about, source, lambda material, answers: result)
    show_results([Part("guard", suite, result)], result.record, folder / "guard.json", title=title)
    if worse_than is not None and (worse := [one for one in found if one.high is not None and one.high < -worse_than]):
        names = " and ".join(one.benchmark.name for one in worse)
        typer.echo(f"Worse than before by more than {worse_than:g}: {names}.", err=True)
        raise typer.Exit(1)
