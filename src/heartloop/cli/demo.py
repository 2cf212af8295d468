"""What `heartloop demo` does: runs of the baselines in several environments, and of one small language model."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from heartloop.cli.options import Calls
from heartloop.cli.running import play_run
from heartloop.core.chat import EMBEDDED, ChatModel, Reply, Schema
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import BudgetSpent, UseError
from heartloop.environments.registry import specs, stratified
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation.plan import plan_evaluation
from heartloop.evaluation.runner import OpenModels, RunPlan, player
from heartloop.evaluation.settings import settings_of
from heartloop.evaluation.store import StoredRun
from heartloop.models.baselines import baseline_group
from heartloop.models.baselines.scripted import written_scenarios
from heartloop.models.names import resolve
from heartloop.models.recorded import READER, Recording, recordings
from heartloop.report.site import write_site

REAL_MODEL = "local/smollm2"
REAL_BESIDE = ("heartloop/counsellor", "heartloop/reflector", "heartloop/hostile")
REAL_SCENARIOS, REAL_TOKENS, REAL_SECONDS = 4, 40, 60.0
"""What the language model of the demo plays: dialogues, tokens of a reply, and seconds after which it stops."""


def run_demo(out: Path) -> None:
    marker, real_run = out / ".demo", out / "language-model"
    shown = [(spec, spec.demo, out / spec.name) for spec in specs() if spec.demo is not None]
    shown.sort(key=lambda part: part[1].place)
    places = {spec.name: part.place for spec, part, _ in shown}
    recorded = {
        out / f"recorded-{one.environment}": one for one in sorted(recordings(), key=lambda one: places.get(one.environment, 99))
    }
    for run in [*recorded, *(run for _, _, run in shown), real_run]:  # of an earlier demo, whose settings may differ
        if (run / "settings.json").exists():
            if not marker.exists():
                raise UseError(f"{run} contains a run that `heartloop demo` did not make; choose another --out")
            shutil.rmtree(run)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    runs = [play_recording(one, run) for run, one in recorded.items()]
    for spec, part, run in shown:
        names = [f"heartloop/{baseline}" for baseline in baseline_group(part.baselines)]
        runs.append(_played(run, spec, {name: resolve(name) for name in names}, part.limit))
    if shown and (real := _language_model(shown[0][0], real_run)) is not None:
        runs.append(real)
    typer.echo(
        "\nThe embedded user simulator is a small fitted model: the demo shows how the software works, it does not rank models.\n"
        f"Report: {write_site(runs, out)}"
    )


def play_recording(recording: Recording, run: Path) -> StoredRun:
    """Replays recorded dialogues into a run directory; no model is called."""
    plan = plan_evaluation(
        recording.environment, recording.policies, user=READER, scenario_ids=recording.scenarios, options=recording.options
    )
    return play_run(run, plan, Calls()).run


def _played(
    run: Path, spec: EnvironmentSpec, policies: Mapping[str, ChatModel], limit: int, *, max_connections: int = 8,
    opened: Mapping[str, ChatModel] | None = None, **more: Any,
) -> StoredRun:  # fmt: skip
    """Plays scenarios for which the counsellor's replies were written, if any; elsewhere it says what the reflector says."""
    written = written_scenarios()
    loaded = spec.load()
    chosen = stratified([scenario for scenario in loaded if scenario.id in written] or loaded, limit)
    environment = spec.make(chosen, spec.players())
    settings = settings_of(
        environment, list(policies), roles=dict.fromkeys(spec.role_names, EMBEDDED), scenario_set=spec.set_of(None),
        limit=limit, **more,
    )  # fmt: skip
    play = player(environment, policies, settings.sampling.get("policy"))
    plan = RunPlan(settings=settings, play=play, models=OpenModels(given=opened))
    return play_run(run, plan, Calls(max_connections=max_connections)).run


def _language_model(spec: EnvironmentSpec, run: Path) -> StoredRun | None:
    """A run of the one language model of the demo and three baselines; `None` if it is not installed or does not start."""
    try:
        model = resolve(REAL_MODEL, max_connections=REAL_SCENARIOS)
    except UseError as error:
        typer.echo(f"\nWithout a language model: {error}.")
        return None
    typer.echo(f"\n{REAL_MODEL}, the one language model of this demo, has {REAL_SECONDS:.0f} s for {REAL_SCENARIOS} dialogues:")
    policies = {name: resolve(name) for name in REAL_BESIDE} | {REAL_MODEL: _Until(model, time.monotonic() + REAL_SECONDS)}
    played = _played(
        run, spec, policies, REAL_SCENARIOS, max_connections=REAL_SCENARIOS * len(policies), opened={REAL_MODEL: model},
        sampling={"policy": Sampling(max_tokens=REAL_TOKENS)}, weights={REAL_MODEL: getattr(model, "source", "")},
    )  # fmt: skip
    finished = {dialogue.scenario for dialogue in played.digests if dialogue.model == REAL_MODEL}
    if missing := [scenario for scenario in played.settings["scenarios"] if scenario not in finished]:
        typer.echo(f"{REAL_MODEL} did not finish within {REAL_SECONDS:.0f} s: {', '.join(missing)}.")
    return played if played.digests else None


class _Until:
    """A model that stops the run at a point in time."""

    def __init__(self, model: ChatModel, end: float) -> None:
        self.name, self._model, self._end = model.name, model, end

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        try:
            async with asyncio.timeout(self._end - time.monotonic()):
                return await self._model.complete(messages, schema=schema, sampling=sampling)
        except TimeoutError:
            raise BudgetSpent(f"{REAL_SECONDS:.0f} s are over") from None
