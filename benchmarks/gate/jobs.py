"""The jobs of the gate, one per part of the results, and how they are done: one after the other or in processes, resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gate import policies, search, singles
from benchmarks.gate.target import target_of
from heartloop.fitting.data import read_lines
from heartloop.reader.reader import embedded_reader

__all__ = ["BUDGETS", "Budget", "Job", "run"]


class Budget(NamedTuple):
    """How much is tried in each environment."""

    contexts: int
    """In which is searched."""
    scored: int
    """Replies that a search scores, over all contexts."""
    words: int
    """That are scored alone first."""
    scenarios: int
    """Dialogues of a policy."""
    replies: int
    """Of a tier, or of a kind of harm."""
    messages: int
    """That every policy answers once."""


BUDGETS = {
    "small": Budget(contexts=5, scored=300, words=40, scenarios=3, replies=60, messages=15),
    "large": Budget(contexts=40, scored=200_000, words=800, scenarios=100, replies=100_000, messages=10_000),
}


class Job(NamedTuple):
    """One part of the results; `environment` is empty for what does not depend on it."""

    environment: str
    kind: str
    what: str = ""
    """The id of a reply, in whose context is searched."""

    @property
    def name(self) -> str:
        return " ".join(part for part in self if part)

    @property
    def weights(self) -> str:
        return target_of(self.environment).hash if self.environment else embedded_reader().hash


def made(job: Job, budget: Budget) -> Any:
    """The result of a job."""
    if not job.environment:
        return singles.hard_negatives(embedded_reader())
    target = target_of(job.environment)
    if job.kind == "search":
        chosen = {row.id: row for row in search.contexts_of(target, budget.contexts)}
        return search.hunt(target, chosen[job.what], (budget.scored - budget.words) // len(chosen), budget.words)
    makers: Mapping[str, Callable[[], Any]] = {
        "good": lambda: round(target.good, 2),
        "tiers": lambda: singles.tiers(target, budget.replies),
        "floors": lambda: singles.floors(target, budget.replies),
        "paraphrases": lambda: singles.paraphrases(target),
        "dialogues": lambda: policies.dialogues(target, budget.scenarios),
        "replies": lambda: policies.in_contexts(target, budget.messages),
    }
    return makers[job.kind]()


def timed(job: Job, budget: Budget) -> tuple[Any, float]:
    started = time.perf_counter()
    result = json.loads(json.dumps(made(job, budget)))
    return result, time.perf_counter() - started


def run(
    budget: Budget,
    names: Sequence[str],
    parts: Path | None = None,
    *,
    processes: int = 1,
    say: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """The results by environment.

    Args:
        parts: file of finished parts, read and added to.
        say: is told what was done.
    """
    jobs = [Job("", "hard negatives")]
    for name in names:
        jobs += [Job(name, kind) for kind in ("good", "tiers", "floors", "paraphrases", "dialogues", "replies")]
        jobs += [Job(name, "search", row.id) for row in search.contexts_of(target_of(name), budget.contexts)]
    keys = {job: (job.name, f"{job.weights} {tuple(budget)}") for job in jobs}
    rows = read_lines(parts) if parts is not None and parts.exists() else []
    finished = {(row["part"], row["of"]): row["result"] for row in rows}

    def finish(job: Job, result: Any, seconds: float) -> None:
        part, of = keys[job]
        finished[part, of] = result
        say(f"{part}: {seconds:.1f} s")
        if parts is not None:
            with parts.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": part, "of": of, "result": result}) + "\n")

    missing = [job for job in jobs if keys[job] not in finished]
    if processes == 1:
        for job in missing:
            finish(job, *timed(job, budget))
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            waiting = {pool.submit(timed, job, budget): job for job in missing}
            for future in as_completed(waiting):
                finish(waiting[future], *future.result())
    found = {
        name: {
            "effect": target_of(name).effect.hash,
            **{job.kind: finished[keys[job]] for job in jobs if job.environment == name and job.kind != "search"},
            "search": [finished[keys[job]] for job in jobs if job.environment == name and job.kind == "search"],
        }
        for name in names
    }
    return {
        "reader": embedded_reader().hash,
        "budget": budget._asdict(),
        "environments": found,
        "hard_negatives": finished[keys[jobs[0]]],
    }
