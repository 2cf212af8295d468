"""The `heartloop validate` commands; the same rules as in `cli`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heartloop.cli.options import (
    Cache,
    Judge,
    JudgePilot,
    JudgeSampling,
    MaxConnections,
    MaxCost,
    MaxTokens,
    Prices,
    Retries,
    RetryJudging,
    Timeout,
    Yes,
)

if TYPE_CHECKING:
    from heartloop.core.chat import ChatModel

__all__ = ["validate_app"]

validate_app = typer.Typer(
    help="Change one thing in stored dialogues, judge them again, and see whether the measure notices.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@validate_app.callback()
def _group() -> None:
    """Keeps the environment's name a command, while there is one."""


@validate_app.command("empa")
def validate_empa(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of empa, played or imported; they stay as they are.")],
    judge: Judge,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many dialogues of each run, drawn by chance; a larger one later goes on.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="paper or released; by default as played.")] = None,
    scenarios: Annotated[str | None, typer.Option(help="cases, or a file; by default what the run was played with.")] = None,
    sampling: JudgeSampling = None,
    max_connections: MaxConnections = 32,
    timeout: Timeout = 120.0,
    retries: Retries = 6,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    prices: Prices = None,
    pilot: JudgePilot = False,
    yes: Yes = False,
    retry_failed: RetryJudging = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the variants and what they show; by default beside the first run.")
    ] = None,
    cache: Cache = None,
) -> None:
    """Flip the persona, or replace replies by performed empathy: does EMPA's score fall, and do plainer scores?"""
    from contextlib import nullcontext

    from rich.console import Console

    from heartloop.cli.running import Pilot, exit_code_of, play_run, sampling_of_judge
    from heartloop.core.dialogue import read_transcripts
    from heartloop.environments.empa import EmbeddedUser, LLMUser
    from heartloop.environments.empa.direct_judge import DirectJudge, EmbeddedDirectJudge, LLMDirectJudge
    from heartloop.environments.empa.environment import EmpaUser
    from heartloop.environments.empa.perturbations import ORIGINAL, PERTURBATIONS
    from heartloop.evaluation.validating import Validating, check_empa, place_beside, places_of
    from heartloop.models.cache import cache_at
    from heartloop.models.names import Meter, counted, is_paid, load_env, load_prices, resolve
    from heartloop.validity.page import write_validity_page
    from heartloop.validity.perturbation import validity, write_validity
    from heartloop.validity.text import validity_table

    load_env()
    for run in runs:
        check_empa(run)
    samplings = sampling_of_judge(judge, sampling or [])
    meter = Meter(max_tokens=max_tokens, max_cost=max_cost, prices=load_prices(prices), models=[judge])
    kept = cache_at(cache)
    found: dict[str, ChatModel] = {}
    reader: EmpaUser = EmbeddedUser()
    direct: DirectJudge = EmbeddedDirectJudge()
    if judge != "embedded":
        found[judge] = resolve(judge, timeout=timeout, retries=retries, max_connections=max_connections)
        asked = counted(found[judge], meter, "judge", kept)
        reader, direct = LLMUser(asked, sampling=samplings, role="judge"), LLMDirectJudge(asked, sampling=samplings)
    sources = [
        Validating(
            run, reader, direct, preset=preset, scenarios=scenarios, sampling=samplings, prices=meter.prices, limit=limit
        )
        for run in runs
    ]  # fmt: skip
    folder = out or place_beside(runs[0], judge)
    places = places_of(folder, runs)
    ask = Pilot(meter, yes=yes, only=pilot) if pilot or is_paid(judge) else None
    code, stopped = 0, False
    ahead = [(source, place, variant) for source, place in zip(sources, places, strict=True) for variant in PERTURBATIONS]
    with kept or nullcontext():
        for number, (source, place, variant) in enumerate(ahead):
            if ask is not None:
                ask.further = sum(len(later.jobs) for later, _, _ in ahead[number + 1 :])
            typer.echo(f"{place[variant]}:")
            ended, _ = play_run(
                place[variant], source.settings(variant), source.play(variant, place[ORIGINAL]), meter, jobs=source.jobs,
                max_connections=max_connections, retry_failed=retry_failed, opened=found, cache=kept, done="judged", ranked=False,
                pilot=ask if ask is not None and not ask.asked else None,
            )  # fmt: skip
            code = max(code, exit_code_of(ended, done="judged"))
            stopped = ended.stopped is not None
            if stopped:
                break
    if stopped and number < len(PERTURBATIONS) - 1:
        typer.echo("Not every variant of the first run is judged, so there is nothing to compare yet; the same command goes on.")
        raise typer.Exit(code)
    read = [
        {variant: list(read_transcripts(path / "transcripts.jsonl")) for variant, path in place.items() if path.is_dir()}
        for place in places
    ]
    seen = validity([variants for variants in read if ORIGINAL in variants])
    write_validity(seen, folder / "validity.json")
    page = write_validity_page(seen, folder / "report")
    Console().print(validity_table(seen))
    typer.echo(f"\nNumbers: {folder / 'validity.json'}\nPage: {page}")
    raise typer.Exit(code)
