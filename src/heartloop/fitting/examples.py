"""Judged replies as examples to fit on: the reply in its context, the mean of its judgements, and what to group by.

Covers reading a folder in the form of `data/judged_replies`. Does not cover how it was made.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import Context

__all__ = ["ASPECTS", "Example", "read_examples", "read_lines", "scenarios_by_id", "standardised"]


class Example(NamedTuple):
    """One judged reply."""

    id: str
    environment: str
    scenario: str
    group: str
    """The kind of person that the environment tells apart (`LearnedReading.group`)."""
    voice: str
    tier: str
    """What the author's brief asked for; `none` for replies that nobody wrote."""
    kind: str
    """What the reply does, in the brief's words; `edit of ID` for one that changes a few words of another."""
    reply: str
    context: Context
    aspects: NDArray[np.float64]
    """The mean mark of each aspect."""
    change: NDArray[np.float64]
    """The mean judged change, in the environment's parts."""
    judges: int


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file.

    Raises:
        InputError: it cannot be read, or a line is no JSON.
    """
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; expected JSON lines") from None


@lru_cache
def scenarios_by_id(source: str) -> Mapping[str, Any]:
    """The scenarios of `environment` or `environment/set`, by id."""
    name, _, chosen = source.partition("/")
    return {scenario.id: scenario for scenario in load_environment(name).load(chosen or None)}


def read_examples(folder: Path, half: str) -> list[Example]:
    """The judged replies of one half, `tuning` or `held-out`, in the order of the file of replies.

    Raises:
        InputError: a file cannot be read.
    """
    contexts = {row["id"]: row for row in read_lines(folder / "contexts.jsonl")}
    judgements: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_lines(folder / "judgements.jsonl"):
        judgements[row["id"]].append(row)
    examples: list[Example] = []
    for reply in read_lines(folder / "replies.jsonl"):
        context, judged = contexts[reply["context"]], judgements.get(reply["id"])
        if judged is None or context["half"] != half:
            continue
        name, scenario = context["environment"], scenarios_by_id(context["set"])[context["scenario"]]
        reading = load_environment(name).reading
        if reading is None:
            raise InputError(f"{folder} has replies of {name}, which has no learned reader")
        before = reading.context(scenario, context["messages"], context["replies"])
        aspects, change = (np.mean([row[part] for row in judged], axis=0) for part in ("aspects", "change"))
        examples.append(
            Example(
                reply["id"], name, context["scenario"], reading.group(scenario), reply["voice"], reply["tier"], reply["kind"],
                reply["reply"], before, aspects, change, len(judged),
            )
        )  # fmt: skip
    return examples


def standardised(examples: Sequence[Example], value: Callable[[Example], float]) -> NDArray[np.float64]:
    """A value of each example, standardised among the examples of the same environment, shape (examples,)."""
    raw = np.array([value(example) for example in examples])
    names = np.array([example.environment for example in examples])
    for name in set(names):
        mine = names == name
        raw[mine] = (raw[mine] - raw[mine].mean()) / (raw[mine].std() or 1.0)
    return raw
