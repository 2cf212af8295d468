"""`heartloop demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo_app"]

SEED = 0

demo_app = typer.Typer(rich_markup_mode=None)


@demo_app.command()
def demo(out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Path("demo")) -> None:
    """Evaluate the baselines with the embedded user simulator and write a report. Needs no key and no network."""
    import shutil

    from heartloop.cli.running import play_run, write_report
    from heartloop.core.errors import UseError
    from heartloop.environments.registry import specs
    from heartloop.evaluation.roles import EMBEDDED
    from heartloop.evaluation.runner import player
    from heartloop.evaluation.settings import settings_of, stratified
    from heartloop.models.baselines import baseline_group
    from heartloop.models.baselines.counsellor import written_scenarios
    from heartloop.models.names import Meter, resolve

    marker = out / ".demo"
    shown = [(spec, spec.demo, out / spec.name) for spec in specs() if spec.demo is not None]
    shown.sort(key=lambda part: part[1].place)
    for _, _, run in shown:  # of an earlier demo, whose settings may differ
        if (run / "settings.json").exists():
            if not marker.exists():
                raise UseError(f"{run} contains a run that `heartloop demo` did not make; choose another --out")
            shutil.rmtree(run)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    runs = []
    for spec, part, run in shown:
        models = [f"heartloop/{baseline}" for baseline in baseline_group(part.baselines)]
        written = written_scenarios()  # elsewhere `counsellor` says what `reflector` says
        loaded = spec.load()
        scenarios = [scenario for scenario in loaded if scenario.id in written] or loaded
        environment = spec.make(stratified(scenarios, part.limit), spec.players())
        settings = settings_of(
            environment, models, roles=dict.fromkeys(spec.role_names, EMBEDDED), scenario_set=spec.set_of(None),
            limit=part.limit, seed=SEED,
        )  # fmt: skip
        policies = {model: resolve(model) for model in models}
        runs.append(play_run(run, settings, player(environment, policies), Meter(), max_connections=8)[1])
    page = write_report(runs, out)
    typer.echo(
        "\nThe embedded user simulator is a small fitted model: the demo shows how the software works, it does not rank models.\n"
        f"Report: {page}"
    )
