"""`heartloop talk`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli import options as given

if TYPE_CHECKING:
    from heartloop.core.dialogue import Transcript
    from heartloop.environments.spec import EnvironmentSpec
    from heartloop.evaluation.plan import EvaluationPlan
    from heartloop.evaluation.store import StoredRun

__all__ = ["talk"]


def talk(
    context: typer.Context,
    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="Environment, or the id of a scenario. Default: the demo's first.")
    ] = None,
    scenario: Annotated[str | None, typer.Argument(help="Scenario id. Default: one chosen by --seed.")] = None,
    user: Annotated[str, typer.Option(help="User simulator: service/model, or embedded. Plays every role.")] = "embedded",
    role: given.Role = None,
    option: given.OptionValues = None,
    scenarios: Annotated[str | None, typer.Option(help="Scenario set, file or folder. Default: the environment's sets.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed: chooses the scenario and the person's lines.")] = 0,
    request: given.Request = None,
    max_tokens: given.MaxTokens = None,
    out: Annotated[Path | None, typer.Option(help="Run directory. Default: runs/talk-SCENARIO.")] = None,
    cache: given.Cache = None,
) -> None:
    """Talk with a simulated person yourself: you reply, the person answers and is moved. Needs no key.

    Without a terminal every line of stdin is a reply.
    """
    import tempfile
    from contextlib import nullcontext

    from rich.console import Console

    from heartloop.cli.conversation import Human, Screen, converse, name_of, standings
    from heartloop.cli.running import read_options
    from heartloop.core.chat import HUMAN
    from heartloop.core.text import amount
    from heartloop.evaluation.plan import plan_evaluation
    from heartloop.evaluation.runner import completed
    from heartloop.evaluation.store import check_new
    from heartloop.models.baselines import baseline_group
    from heartloop.models.names import close

    spec, chosen, chosen_set = _chosen(environment, scenario, scenarios, seed)
    with tempfile.TemporaryDirectory(prefix="heartloop-talk-") as folder:
        human = Human(lambda: "")
        asked = user != "embedded" or any(not text.endswith("=embedded") for text in role or ())
        baselines = [] if asked else baseline_group(spec.demo.baselines if spec.demo else "general")
        plan = plan_evaluation(
            spec.name, [HUMAN, *(f"heartloop/{name}" for name in baselines)], user=user, roles=role or (),
            options=read_options(context, spec, option), scenarios=chosen_set, scenario_ids=[chosen], seed=seed,
            requests=request or (), max_tokens=max_tokens, opened={HUMAN: human},
            cache=(cache or Path(folder) / "answers.sqlite") if asked else cache,
        )  # fmt: skip
        path = out or _free(chosen)
        check_new(path)
        console = Console(highlight=False, soft_wrap=False)
        screen = Screen(console, spec, plan, human)
        job = next(job for job in plan.settings.jobs if job.model == HUMAN)
        screen.begin(chosen)

        async def dialogue() -> Transcript:
            try:
                with screen.interrupt:
                    return await converse(plan.environment, chosen, human, show=screen.show, seed=job.seed)
            finally:
                await close(plan.opened.values())

        with plan.cache or nullcontext():
            transcript = completed(dialogue())
        if not transcript.turns:
            cause = "" if transcript.failure is None else f" ({transcript.failure.role}: {transcript.failure.detail})"
            console.print(f"\nNothing was said{cause}; no run is written.")
            raise typer.Exit(1 if transcript.failure else 0)
        screen.finish(transcript)
        played = _written(path, plan, transcript)
    if len(played.transcripts) > 1:
        console.print(standings(played.transcripts, name_of(transcript)))
        if transcript.stop == "cut":
            console.print("You ended the dialogue early; the others played to its end.", style="dim")
    elif asked:
        console.print("Baselines are played with the embedded user only.", style="dim")
    if asked and (spent := plan.meter.summary()):
        console.print(spent)
    others = amount(len(baselines), "baseline")
    console.print(
        f"\nRun: {path} (model {HUMAN}{f' and {others}' if baselines else ''})\nReport: heartloop report {path}", soft_wrap=True
    )
    raise typer.Exit(1 if transcript.failure else 0)


def _chosen(
    environment: str | None, scenario: str | None, scenarios: str | None, seed: int
) -> tuple[EnvironmentSpec, str, str | None]:
    """The environment, the scenario's id, and the set to look in.

    Raises:
        UseError: no such environment or scenario.
    """
    import random

    from heartloop.core.dialogue import HEAVY_TAGS
    from heartloop.environments.registry import (
        environment_names,
        find_scenario,
        load_environment,
        owner_of,
        scenarios_by_id,
        specs,
    )
    from heartloop.models.baselines.scripted import written_scenarios

    if environment is not None and environment not in environment_names() and scenario is None:
        spec, found = find_scenario(environment, scenarios)
        return spec, str(found.id), scenarios
    if environment is not None:
        spec = load_environment(environment)
    elif scenarios is not None:
        spec = owner_of(scenarios)
    else:
        spec = min((one for one in specs() if one.demo is not None), key=lambda one: one.demo.place if one.demo else 0)
    if scenario is not None:
        scenarios_by_id(spec, [scenario], scenarios)
        return spec, scenario, scenarios
    loaded = spec.load(scenarios)
    gentle = [one for one in loaded if not HEAVY_TAGS & set(one.tags)] or loaded
    written = written_scenarios()
    return spec, str(random.Random(seed).choice([one for one in gentle if one.id in written] or gentle).id), scenarios


def _free(scenario: str) -> Path:
    """A run directory that does not exist yet."""
    path, number = Path("runs") / f"talk-{scenario}", 2
    while path.exists():
        path, number = Path("runs") / f"talk-{scenario}-{number}", number + 1
    return path


def _written(path: Path, plan: EvaluationPlan, transcript: Transcript) -> StoredRun:
    """The run with the human's dialogue; the baselines are played now."""
    from heartloop.core.chat import HUMAN
    from heartloop.evaluation.runner import RunPlan, play_run
    from heartloop.evaluation.settings import Job

    async def play(job: Job) -> Transcript:
        return transcript if job.model == HUMAN else await plan.play(job)

    return play_run(path, RunPlan(settings=plan.settings, play=play, meter=plan.meter), max_connections=8).run
