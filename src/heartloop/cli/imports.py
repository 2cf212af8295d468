"""The `heartloop import` commands: one short function each; imports inside the function, as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["import_app"]

REFUSED_SHOWN = 50  # records of a source that the terminal names

import_app = typer.Typer(
    help="Bring what others released into heartloop's own form; their files stay where you keep them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@import_app.command("sage-profiles")
def import_sage_profiles(
    file: Annotated[Path, typer.Argument(help="A profile file of the SAGE or RLVER release (JSON lines).")],
    out: Annotated[
        Path | None, typer.Option(help="Scenario file to write; by default the file's name with -imported, here.")
    ] = None,
) -> None:
    """Released people as scenarios, for `eval sage --scenarios ... --simulator MODEL`. Nothing of a record is lost."""
    from collections import Counter

    from heartloop.authoring.importers import read_profiles, write_people
    from heartloop.core.wording import amount
    from heartloop.environments.sage import INTENTIONS

    people = read_profiles(file)
    target = out or Path(f"{file.stem}-imported.jsonl")
    write_people(people, target)
    intentions = Counter(person.intention if person.intention in INTENTIONS else "unknown" for person in people)
    mute = sum(not person.first_message for person in people)
    typer.echo("\n".join(f"{name:12} {n}" for name, n in sorted(intentions.items(), key=lambda pair: (-pair[1], pair[0]))))
    typer.echo(f"{amount(len(people), 'person', 'people')} written to {target}")
    if mute:
        typer.echo(f"{mute} of them have no first message and cannot be played until record.first_talk holds one.", err=True)


@import_app.command("sage-logs")
def import_sage_logs(
    source: Annotated[Path, typer.Argument(help="A released SAGE log (JSON lines), or a folder of them, one a model.")],
    model: Annotated[str | None, typer.Option(help="Name of the model under test; by default the file's name.")] = None,
    simulator: Annotated[
        str | None, typer.Option(help="Who played the person, if you know; shown with the word imported.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/imported- and the name.")] = None,
) -> None:
    """Released dialogues as a run that `report` opens, with every turn's emotion and thoughts."""
    from rich.console import Console

    from heartloop.authoring.sage_logs import COUNTED, read_logs
    from heartloop.core.wording import amount
    from heartloop.evaluation.imported import keep_run
    from heartloop.evaluation.leaderboard import leaderboard
    from heartloop.evaluation.runs import write_scores

    found = read_logs(source, model=model, simulator=simulator)
    name = model or (source.resolve().name if source.is_dir() else source.stem)
    run = out or Path("runs") / f"imported-{name.replace('/', '-')}"
    keep_run(run, found.transcripts, scenario_set=f"imported: {source.name}", raw=found.raw, counts=found.counts)
    Console().print(leaderboard(write_scores(run)))
    typer.echo(f"{amount(len(found.transcripts), 'dialogue')} imported")
    for name, meaning in COUNTED.items():
        if found.counts[name]:
            typer.echo(f"  {found.counts[name]} x {meaning}")
    typer.echo(f"Run: {run}\nReport: heartloop report {run}")


@import_app.command("perm-samples")
def import_perm_samples(
    source: Annotated[Path, typer.Argument(help="A CSV file of EmpatheticDialogues, or the folder with train, valid and test.")],
    out: Annotated[Path, typer.Option(help="Sample file to write; it must not be there yet.")],
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many, evenly over the 32 emotions; all by default. The paper drew 4,981.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides which are drawn.")] = 0,
    exclude_tag: Annotated[
        list[str] | None, typer.Option(help="Pass over dialogues that speak outright of suicide or self-harm; repeatable.")
    ] = None,
) -> None:
    """First words of real people as samples, for `eval perm --scenarios ... --simulator MODEL`; personal data out by rules."""
    from collections import Counter

    from heartloop.authoring.perm_samples import draw, write_samples
    from heartloop.authoring.raw_dialogues import MENDED, read_dialogues
    from heartloop.core.wording import amount
    from heartloop.evaluation.scores import ALLOWED_UNSCORED

    read = read_dialogues(source, "empathetic")
    drawn = draw(read.dialogues, limit=limit, seed=seed, exclude=exclude_tag or [])
    write_samples(drawn.samples, out)
    emotions = Counter(sample.emotion for sample in drawn.samples)
    typer.echo("\n".join(f"{name:13} {n:,}" for name, n in emotions.items()))
    for kind, n in read.mended.items():
        typer.echo(f"  {n:,} times: {MENDED[kind]}", err=True)
    for reason, n in drawn.passed.items():
        typer.echo(f"  {n:,} passed over: {reason}", err=True)
    for one in read.refused[:REFUSED_SHOWN]:
        typer.echo(f"  left out: {one.place}: {one.reason}", err=True)
    if len(read.refused) > REFUSED_SHOWN:
        typer.echo(f"  and {len(read.refused) - REFUSED_SHOWN:,} more", err=True)
    removed = ", ".join(amount(n, kind) for kind, n in drawn.removed.items())
    typer.echo(f"Personal data taken out by rules: {removed or 'none found'}. Rules miss things: read some of it yourself.")
    typer.echo(f"{amount(len(drawn.samples), 'sample')} written to {out}; {amount(len(read.refused), 'record')} left out.")
    raise typer.Exit(int(len(read.refused) > ALLOWED_UNSCORED * (len(read.dialogues) + len(read.refused))))


@import_app.command("eibench-scenarios")
def import_eibench_scenarios(
    source: Annotated[Path, typer.Argument(help="A released EIBench file (JSON list or lines), or a folder of them.")],
    out: Annotated[Path, typer.Option(help="Scenario file to write; it must not be there yet.")],
) -> None:
    """Released EIBench records as scenarios, for `eval eibench --scenarios ... --simulator MODEL`: whole, or refused with why."""
    from collections import Counter

    from heartloop.authoring.eibench_scenarios import COUNTED, read_released
    from heartloop.authoring.importers import write_people
    from heartloop.core.errors import InputError
    from heartloop.core.wording import amount
    from heartloop.evaluation.scores import ALLOWED_UNSCORED

    found = read_released(source)
    for place, reason in found.refused:
        typer.echo(f"{place}: {reason}", err=True)
    total = len(found.scenarios) + len(found.refused)
    refused = f"{len(found.refused)} of {amount(total, 'record')} refused"
    if not found.scenarios:
        raise InputError(f"{source} holds no record that can be played ({refused}); nothing is written")
    write_people(found.scenarios, out)
    scenes = Counter(scenario.scene for scenario in found.scenarios)
    typer.echo("\n".join(f"{scene:12} {n}" for scene, n in sorted(scenes.items())))
    for name, meaning in COUNTED.items():
        if found.counts[name]:
            typer.echo(f"  {found.counts[name]} x {meaning}")
    typer.echo(f"{amount(len(found.scenarios), 'scenario')} written to {out}" + (f"; {refused}" if found.refused else ""))
    if len(found.refused) > ALLOWED_UNSCORED * total:
        raise typer.Exit(1)


@import_app.command("empa-results")
def import_empa_results(
    source: Annotated[Path, typer.Argument(help="A released EMPA result (JSON), or a folder of them.")],
    out: Annotated[Path | None, typer.Option(help="Run directory; by default runs/imported- and the name.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Disagreeing numbers to print.")] = 10,
) -> None:
    """Released EMPA dialogues as a run that `report` opens; their numbers are computed anew, and what disagrees is printed."""
    from heartloop.authoring.empa_results import COUNTED, by_model, read_results
    from heartloop.core.wording import amount
    from heartloop.evaluation.imported import keep_run
    from heartloop.evaluation.runs import write_scores

    found = read_results(source)
    name = source.resolve().name if source.is_dir() else source.stem
    run = out or Path("runs") / f"imported-{name}"
    counts = {what: n for what, n in found.counts.items() if n}
    keep_run(run, found.transcripts, scenario_set=f"imported: {source.name}", raw=found.raw, counts=counts)
    write_scores(run)
    typer.echo("EPM-Q, preset released: as the authors count (an unjudged turn is zeros), and with such turns left out")
    for row in by_model(found.transcripts):
        parts = "  ".join(f"{part:.2f}" for part in (row.theirs.outcome, row.theirs.efficiency, row.theirs.stability))
        unjudged = f", {amount(row.unjudged, 'unjudged turn')}" if row.unjudged else ""
        typer.echo(f"{row.model}: {row.theirs.score:.2f} ({parts}), left out {row.ours.score:.2f}; "
                   f"{amount(row.dialogues, 'dialogue')}, {row.success} succeeded{unjudged}")  # fmt: skip
    typer.echo(f"{amount(len(found.transcripts), 'dialogue')} imported")
    for what, meaning in COUNTED.items():
        if found.counts[what]:
            typer.echo(f"  {found.counts[what]} x {meaning}")
    if found.differences:
        typer.echo(f"{amount(len(found.differences), 'released number')} disagree with their levels:")
        for place, turn, field, theirs, ours in found.differences[:show]:
            typer.echo(f"  {place}, turn {turn}, {field}: {theirs}, from the levels {ours}")
    else:
        typer.echo("Every released number follows from its levels, to rounding.")
    typer.echo(f"Run: {run}\nReport: heartloop report {run}")
