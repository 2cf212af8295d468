"""A training run in its directory (docs/training.md lists its files): prepared, started, followed, resumed.

Training itself is `python -m verl.trainer.main_ppo`, the entry point that clusters use, in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

import heartloop
from heartloop.core.chat import EMBEDDED
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.core.system import end_with_parent, write_whole
from heartloop.models.budget import load_prices
from heartloop.models.local import is_local
from heartloop.training.local_policy import learn_form, prepare_gguf
from heartloop.training.metrics import Failures, MetricsFile, step_line
from heartloop.training.plan import checked_split, missing
from heartloop.training.recipe import LAPTOP, Recipe
from heartloop.training.spending import SharedMeter
from heartloop.training.verl_config import RunPaths, Split, UserCalls, environment_of, overrides, write_data

_LOOK_EVERY = 0.5
_TRACKER = "latest_checkpointed_iteration.txt"
_PATIENCE = 30.0  # seconds that verl has to end its actors when it is stopped
_ERROR = re.compile(r"(?:\(.*?\) ?)?\s*([\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Ended(NamedTuple):
    step: int
    code: int
    """verl's exit status."""
    failures: Failures
    why: str
    """The last error in the log; empty after success."""
    log: Path
    stopped: str = ""
    """The limit that ended the run, in words."""
    spent: str = ""
    """By the user simulator's model over all attempts, in words."""


def train(
    recipe: Recipe,
    run: Path,
    *,
    calls: UserCalls = UserCalls(),  # noqa: B008
    allow_embedded: bool = False,
    progress: Callable[[str], None],
) -> Ended:
    """Trains to the end or to a limit of `calls`. An existing run resumes from its last checkpoint.

    Args:
        allow_embedded: accept the embedded user as the reward, to test a training.
    """
    if stops := [item for item in missing(recipe, allow_embedded=allow_embedded) if item.stops]:
        raise UseError("cannot train: " + "; ".join(f"{item.what}: {item.remedy}" for item in stops))
    split = checked_split(recipe)
    paths = RunPaths(run.resolve())
    prices = load_prices(calls.prices)
    if recipe.watching.prices is not None:
        prices = {recipe.dialogue.user: recipe.watching.prices.price} | prices
    with _locked(paths):
        _write_settings(recipe, split, paths)
        write_data(recipe, split, paths, calls)
        _repair_tracker(paths)
        resumed = _last_checkpoint(paths)
        price = prices.get(recipe.dialogue.user)
        metrics = MetricsFile(paths, recipe, split.held_out, resumed=resumed, price=price)
        if resumed >= recipe.batch.steps:
            progress(f"All {recipe.batch.steps} steps are done.")
            return Ended(resumed, 0, metrics.failures(), "", paths.attempts)
        arguments = overrides(recipe, paths, model=_policy(recipe, split, paths.policies, progress), train_rows=len(split.train))
        if resumed:
            progress(f"Resuming after step {resumed}.")
            arguments.append("trainer.val_before_train=false")
        if recipe.dialogue.user == EMBEDDED:
            return _follow(recipe, paths, arguments, metrics, resumed, progress)
        meter = SharedMeter(paths.spending)
        meter.start(max_tokens=calls.max_tokens, max_cost=calls.max_cost, prices=prices, model=recipe.dialogue.user)
        ended = _follow(recipe, paths, arguments, metrics, resumed, progress)
        meter.refresh()
        return ended._replace(stopped=meter.stopped if ended.code else "", spent=meter.summary())


def _last_checkpoint(paths: RunPaths) -> int:
    try:
        return int((paths.checkpoints / _TRACKER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _policy(recipe: Recipe, split: Split, policies: Path, progress: Callable[[str], None]) -> str:
    name = recipe.policy.model
    if name == LAPTOP:
        from heartloop.training.laptop.policy import prepare

        return str(prepare(policies, recipe.warm_start(), progress=progress).resolve())
    if not is_local(name):
        return str(Path(name).resolve()) if Path(name).is_dir() else name
    model = prepare_gguf(policies, name, progress=progress)
    if recipe.policy.warm_start:
        model = learn_form(policies, model, recipe, split.train, progress=progress)
    return str(model.resolve())


def _repair_tracker(paths: RunPaths) -> None:
    """Rewrites verl's file that names its last checkpoint, if a kill left it empty after the checkpoint was complete."""
    tracker = paths.checkpoints / _TRACKER
    if not tracker.exists() or tracker.read_bytes().strip().isdigit():
        return
    whole = [int(path.parent.name.removeprefix("global_step_")) for path in paths.checkpoints.glob("global_step_*/data.pt")]
    if whole:
        write_whole(tracker, str(max(whole)))
    else:
        tracker.unlink()


@contextmanager
def _locked(paths: RunPaths) -> Iterator[None]:
    try:
        if paths.run.exists() and not paths.run.is_dir():
            raise UseError(f"{paths.run} is a file; choose another --out")
        strangers = [path.name for path in paths.run.iterdir() if path.name != ".lock"] if paths.run.is_dir() else []
        if strangers and not paths.settings.exists():
            raise UseError(f"{paths.run} is not empty and holds no training run; choose an empty directory for --out")
        paths.run.mkdir(parents=True, exist_ok=True)
        lock = FileLock(paths.run / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UseError(f"another process trains in {paths.run}; wait for it, or choose another --out") from error
    except OSError as error:
        raise UseError(f"cannot write to {paths.run}: {error.strerror}; choose another --out") from error
    try:
        yield
    finally:
        lock.release()


def _write_settings(recipe: Recipe, split: Split, paths: RunPaths) -> None:
    scenarios = {name: {scenario.id: scenario.fingerprint for scenario in part} for name, part in split._asdict().items()}
    mine = {"recipe": recipe.decisive(), "scenarios": scenarios}
    if paths.settings.exists():
        try:
            saved = json.loads(paths.settings.read_text(encoding="utf-8"))
            theirs = {"recipe": {name: saved["recipe"].get(name) for name in mine["recipe"]}, "scenarios": saved["scenarios"]}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{paths.settings} is not a training run's; choose another --out") from error
        if changed := sorted(_differences(mine, theirs)):
            raise SettingsMismatch(
                f"{paths.run} has other settings: {', '.join(changed[:5])} differ; "
                "repeat the first command to resume it, or choose another --out"
            )
    body = {
        "recipe": recipe.model_dump(mode="json"),
        "scenarios": scenarios,
        "hash": recipe.hash,
        "heartloop": heartloop.__version__,
    }
    write_whole(paths.settings, json.dumps(body, indent=2, ensure_ascii=False) + "\n")


def _differences(mine: Any, theirs: Any, name: str = "") -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict) and name not in ("scenarios.train", "scenarios.held_out"):
        for key in mine.keys() | theirs.keys():
            yield from _differences(mine.get(key), theirs.get(key), f"{name}.{key}" if name else key)
    elif mine != theirs:
        yield name.removeprefix("recipe.")


def _follow(
    recipe: Recipe, paths: RunPaths, arguments: list[str], metrics: MetricsFile, resumed: int, progress: Callable[[str], None]
) -> Ended:
    paths.attempts.mkdir(exist_ok=True)
    attempt = paths.attempts / f"{len(list(paths.attempts.iterdir())) + 1:03}"
    attempt.mkdir()
    log = attempt / "log.txt"
    modules = [str(Path(part).resolve()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if recipe.dialogue.user.startswith("python:"):  # modules are found from the working directory of the command
        modules.insert(0, str(Path.cwd()))
    set_here = {
        **environment_of(recipe),
        "PYTHONPATH": os.pathsep.join(modules),
        "TENSORBOARD_DIR": os.environ.get("TENSORBOARD_DIR", str(paths.run / "tensorboard")),
        "VERL_FILE_LOGGER_PATH": str(attempt / "metrics.jsonl"),
    }
    if os.environ.get("RAY_ADDRESS"):  # processes of a cluster have the environment of its `ray start`, not of this command
        arguments = [*arguments, *(f"+ray_kwargs.ray_init.runtime_env.env_vars.{n}={json.dumps(v)}" for n, v in set_here.items())]
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *arguments, f'hydra.run.dir="{attempt}"']
    (attempt / "command.json").write_text(json.dumps(command, indent=2) + "\n", encoding="utf-8")
    lines: list[dict[str, Any]] = []
    progress(f"Starting verl; log: {log}")
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=attempt, env={**os.environ, **set_here}, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            # on Linux verl ends when this process is killed, so that the run can be resumed
            preexec_fn=partial(end_with_parent, signal.SIGTERM) if sys.platform == "linux" else None,
        )  # fmt: skip
    try:
        news = metrics.follow(attempt)
        while True:
            code = process.poll()  # polled before the file is read, so that no last line is missed
            for line in next(news):
                lines.append(line)
                progress(step_line(lines, steps=recipe.batch.steps))
            if code is not None:
                break
            time.sleep(_LOOK_EVERY)
    finally:
        _stop(process)
    step = max([_last_checkpoint(paths) if code == 0 else 0, *(line["step"] for line in lines)], default=resumed)
    return Ended(step, code, metrics.failures(), "" if code == 0 else _last_error(log), log)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)


def _last_error(log: Path) -> str:
    """Ray repeats an actor's error for each caller, so the last line that names one."""
    text = _ANSI.sub("", log.read_text(encoding="utf-8", errors="replace"))
    errors = [match[1].strip() for line in text.splitlines() if (match := _ERROR.match(line))]
    return errors[-1][:500] if errors else "no error in its log"
