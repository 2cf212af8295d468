"""The live page: runs that are still going on, followed in a browser on this machine.

Covers what is shown of an evaluation (running means, failures, cost, the newest dialogue) and of a training run (curves by step,
the newest dialogue), and the server on the loopback address. Files are read when they have changed; no run is written to. Does
not cover the report of a finished run (`site`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import printable
from heartloop.environments.registry import load_environment
from heartloop.evaluation.scores import course_of, latest, points_of, score_card
from heartloop.evaluation.store import StoredRun, read_run
from heartloop.report.training_runs import TrainingRun, is_training_run, read_training_run

__all__ = ["Follower", "serve", "state_of"]

POINTS = 200
"""Most points of a curve; of a longer one every n-th, and the last."""
_LEAST_WAIT = 1.0
"""Seconds between two readings of a run; ten times what the last one took, where that is more."""
_CURVES = {
    "held_out/score": "Held-out score", "dialogue/score": "Training score", "actor/kl_loss": "KL to the start",
    "actor/entropy": "Entropy", "dialogue/reply_tokens": "Tokens of a reply",
}  # fmt: skip
"""Metrics of a training run and what they are called."""
_FILES = {"report.css": "text/css", "live.js": "text/javascript"}
_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src data:", "base-uri 'none'",
    "form-action 'none'",
))  # fmt: skip


class Follower:
    """The state of one run directory, read again when its files have changed.

    Raises:
        InputError: it is no run directory.
    """

    def __init__(self, run: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self._clock = clock
        self._seen: object = None
        self._not_before = 0.0
        self._state: dict[str, Any] = {}
        self.state()

    def state(self) -> dict[str, Any]:
        """As `state_of`; a file that cannot be read at the moment leaves the last state with a `problem`."""
        stamp = _stamp(self.run)
        if stamp == self._seen or self._clock() < self._not_before:
            return self._state
        started = self._clock()
        try:
            self._state = state_of(self.run)
        except InputError as error:
            if not self._state:
                raise
            self._state = {**self._state, "problem": printable(str(error))}
        self._seen = stamp
        self._not_before = self._clock() + max(_LEAST_WAIT, 10 * (self._clock() - started))
        return self._state


def state_of(run: Path) -> dict[str, Any]:
    """What the page shows of a run: `kind`, `name`, `title`, `facts`, and for an evaluation `models` and `failures`, for a
    training run `curves`; `newest` is the dialogue that ended last, or `None`.

    Raises:
        InputError: it is no run directory, or a file of it does not fit.
    """
    return _training(read_training_run(run)) if is_training_run(run) else _evaluation(read_run(run))


def _evaluation(run: StoredRun) -> dict[str, Any]:
    dialogues = latest(run.transcripts)
    if not dialogues and not run.settings.get("environment"):
        raise InputError(f"{run.path} names no environment and holds no dialogue; expected the directory of an evaluation")
    card = score_card(run.transcripts, run.settings)
    spec = load_environment(card.environment)
    models = []
    for row in card.models:
        mine = [points for d in dialogues if d.model == row.model and (points := points_of(d)) is not None]
        means = [total / number for number, total in enumerate(accumulate(mine), start=1)]
        models.append({
            "name": printable(row.model), "played": row.played, "planned": row.planned, "unscored": row.unscored,
            "mean": None if not means else round(means[-1], 2), "cost": row.cost,
            "running": [[number, round(mean, 3)] for number, mean in _thinned(list(enumerate(means, start=1)))],
        })  # fmt: skip
    failures = Counter(
        f"{d.failure.role}, {d.failure.kind}: {_shortened(d.failure.detail)}" for d in dialogues if d.failure is not None
    )
    planned = sum(row.planned for row in card.models if row.planned is not None)
    costs = [row.cost for row in card.models]
    cost = None if None in costs else sum(cost for cost in costs if cost is not None)
    return {
        "kind": "evaluation", "name": _name(run.path), "title": spec.title, "unit": spec.scale.of,
        "low": spec.scale.low, "high": spec.scale.high,
        "facts": [
            ["dialogues", f"{card.played} of {planned}" if planned else str(card.played)], ["unscored", str(card.unscored)],
            *([] if not cost else [["cost", f"{cost:,.2f}"]]),
        ],
        "done": bool(planned) and card.played >= planned,
        "models": models, "failures": [[printable(what), count] for what, count in failures.most_common(8)],
        "newest": _shown(run.transcripts[-1]) if run.transcripts else None,
    }  # fmt: skip


def _training(run: TrainingRun) -> dict[str, Any]:
    curves = []
    for name, title in _CURVES.items():
        if values := sorted(run.curve(name).items()):
            curves.append({"title": title, "points": [[step, round(value, 4)] for step, value in _thinned(values)]})
    files = sorted((run.path / "transcripts").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    newest = [transcript for file in files[-1:] for transcript in read_transcripts(file)][-1:]
    step = f"{run.last} of {run.planned}" if run.planned else str(run.last)
    return {
        "kind": "training", "name": _name(run.path), "title": run.spec.title if run.spec is not None else run.environment,
        "facts": [["recipe", str(run.recipe.get("name", ""))], ["step", step]],
        "done": run.planned is not None and run.last >= run.planned,
        "curves": curves, "newest": _shown(newest[0]) if newest else None,
    }  # fmt: skip


def _shown(dialogue: Transcript) -> dict[str, Any]:
    lines: list[list[Any]] = [] if dialogue.opening is None else [["person", printable(dialogue.opening), None]]
    course = course_of(dialogue)
    for number, turn in enumerate(dialogue.turns):
        lines.append(["model", printable(turn.reply), None])
        change = round(course[number + 1] - course[number], 1) if number + 1 < len(course) else None
        if turn.message or change is not None:
            lines.append(["person", printable(turn.message or ""), change])
    points = points_of(dialogue)
    return {
        "scenario": printable(dialogue.scenario), "model": printable(dialogue.model),
        "score": None if points is None else round(points, 1), "lines": lines,
    }  # fmt: skip


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    step = -(-len(points) // POINTS)
    return [] if not points else [*points[: -1 : max(1, step)], points[-1]]


def _shortened(detail: str) -> str:
    return detail if len(detail) <= 160 else detail[:157] + "..."


def _name(path: Path) -> str:
    return printable(path.resolve().name)


def _stamp(run: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of every file whose change can change the state."""
    files = [
        run / "settings.json",
        run / "transcripts.jsonl",
        run / "metrics.jsonl",
        *sorted((run / "transcripts").glob("*.jsonl")),
    ]
    found = []
    for file in files:
        try:
            seen = file.stat()
        except OSError:
            continue
        found.append((file.name, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


async def serve(runs: Sequence[Path], *, port: int = 0, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serves the live page of some runs on 127.0.0.1 until it is cancelled.

    Args:
        port: 0 for any that is free.
        ready: called with the address once it answers.

    Raises:
        InputError: one of them is no run directory.
        UseError: the port is taken.
    """
    from aiohttp import web

    followers = [Follower(run) for run in runs]
    reading = asyncio.Lock()
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=_file("live.html"), content_type="text/html", headers=headers)

    async def state(_: web.Request) -> web.Response:
        async with reading:
            return web.json_response({"runs": await asyncio.to_thread(_states, followers)}, headers=headers)

    async def asset(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _FILES:
            raise web.HTTPNotFound
        return web.Response(text=_file(name), content_type=_FILES[name], headers=headers)

    @web.middleware
    async def own(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.host.rpartition(":")[0] not in ("127.0.0.1", "localhost"):  # a page elsewhere under a name that leads here
            raise web.HTTPForbidden
        answer: web.StreamResponse = await handler(request)
        return answer

    app = web.Application(middlewares=[own])
    app.router.add_get("/", page)
    app.router.add_get("/state.json", state)
    app.router.add_get("/assets/{name}", asset)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            raise UseError(f"port {port} of 127.0.0.1: {error.strerror}; choose another --port, or 0 for any") from error
        ready(f"http://127.0.0.1:{runner.addresses[0][1]}/")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _states(followers: Sequence[Follower]) -> list[Mapping[str, Any]]:
    return [follower.state() for follower in followers]


def _file(name: str) -> str:
    folder = "templates" if name.endswith(".html") else "static"
    return (resources.files("heartloop.report") / folder / name).read_text(encoding="utf-8")
