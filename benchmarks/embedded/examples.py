"""What the embedded user is fitted on and tested with: plain replies, recorded dialogues, one-liners, and judged aspects.

Sealed are a third of the scenarios, by the hash of their id: nothing is fitted or chosen on them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.recorded.record import replay
from heartloop.environments.reading import LearnedReading
from heartloop.environments.registry import load_environment, specs
from heartloop.evaluation.api import load_run
from heartloop.evaluation.scores import points_of
from heartloop.models.recorded import recordings
from heartloop.reader.features import Context

DATA = Path(__file__).parents[2] / "data"
JUDGED_AT = "judged"
PLAIN, JUDGED = DATA / "plain_replies", DATA / "judged_replies"


class Example(NamedTuple):
    environment: str
    scenario: str
    kind: str
    """A kind of plain reply, or the name of a recorded policy."""
    where: str
    """The context of a plain reply; policy and scenario of a recorded one."""
    reply: str
    context: Context
    worth: float
    """What judges gave, as a worth in [-1, 1]."""
    insults: float = np.nan
    endangers: float = np.nan
    """Shares of judges; nan where none was asked."""


class Aspects(NamedTuple):
    """A reply with the marks of its judges (`reader.aspects.ASPECTS`) and, where labelled, its strategies."""

    example: Example
    """`where` is `judged`, the kind the tier of its brief."""
    marks: Sequence[float]
    strategies: Sequence[str] | None


def sealed(scenario: str) -> bool:
    return hashlib.sha256(scenario.encode()).digest()[0] % 3 == 0


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@lru_cache
def scenarios_by_id(source: str) -> Mapping[str, Any]:
    """The scenarios of `environment` or `environment/set`, by id."""
    name, _, chosen = source.partition("/")
    return {scenario.id: scenario for scenario in load_environment(name).load(chosen or None)}


@lru_cache
def readings() -> dict[str, LearnedReading]:
    """Of all environments that use the learned reader, by name."""
    return {spec.name: spec.reading for spec in specs() if spec.reading is not None}


def by_id(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of a file, by id."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_lines(path):
        rows[row["id"]].append(row)
    return rows


def context_before(row: Mapping[str, Any]) -> Context:
    """What a reply in a stored context answers."""
    scenario = scenarios_by_id(row["set"])[row["scenario"]]
    return readings()[row["environment"]].context(scenario, row["messages"], row["replies"])


def worth_of(environment: str, outputs: Sequence[float]) -> float:
    """The worth that goes with a judge's numbers; PERM's are weighted as in its reward."""
    if environment == "empa":
        return float(np.clip(sum(outputs), -4.0, 4.0)) / 5.0
    reading = readings()[environment]
    levels = np.array(reading.levels[""])
    shares = (np.vstack([levels, outputs]) - levels[0]) / (levels[-1] - levels[0])
    *at, mine = np.average(shares, axis=1, weights=(0.3, 0.3, *[0.08] * 5) if environment == "perm" else None)
    return float(np.interp(mine, at, reading.worths))


def plain_replies(*, opened: bool = False) -> list[Example]:
    """The open part, or with `opened` the sealed one."""
    contexts = {row["id"]: row for row in read_lines(PLAIN / "contexts.jsonl") if row["sealed"] is opened}
    slots = {row["id"]: row for row in read_lines(PLAIN / "slots.jsonl")}
    judged = by_id(PLAIN / "judgements.jsonl")
    examples = []
    for row in read_lines(PLAIN / "replies.jsonl"):
        slot, judgements = slots[row["id"]], judged[row["id"]]
        if (at := contexts.get(slot["context"])) is None or not judgements:
            continue
        name = at["environment"]
        change = np.mean([one["change"] for one in judgements], axis=0)
        worth = change[0] / 10.0 if name in ("perm", "daily") else worth_of(name, change)
        harms = (float(np.mean([one[name] for one in judgements])) for name in ("insult", "danger"))
        found = (name, at["scenario"], slot["kind"], slot["context"], row["reply"], context_before(at), float(worth))
        examples.append(Example(*found, *harms))
    return examples


class Dialogue(NamedTuple):
    """A recorded dialogue with the judge's score in points."""

    environment: str
    policy: str
    scenario: str
    points: float
    replies: Sequence[Example]


def recorded(*, opened: bool = False) -> list[Dialogue]:
    """The recorded dialogues with open scenarios, or with `opened` the sealed ones."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for one in recordings():
            kept = one._replace(scenarios=[name for name in one.scenarios if sealed(name) is opened])
            if kept.scenarios:
                replay(kept, Path(folder) / one.environment)
                found += [_dialogue(transcript) for transcript in load_run(Path(folder) / one.environment).transcripts]
        return found


def _dialogue(transcript: Any) -> Dialogue:
    name, policy = transcript.environment, transcript.model
    reading, scenario = readings()[name], scenarios_by_id(name)[transcript.scenario]
    messages = [] if transcript.opening is None else [transcript.opening]
    replies: list[str] = []
    examples = []
    for turn in transcript.turns:
        said = turn.reply.rpartition("# Response")[2].strip() if name == "perm" else turn.reply
        before = reading.context(scenario, [scenario.query] if name == "perm" else messages, replies)
        if (outputs := _outputs(name, turn)) is not None:
            worth = worth_of(name, outputs)
            examples.append(Example(name, scenario.id, policy, f"{policy} {scenario.id}", said, before, worth))
        replies.append(said)
        messages.append(turn.message or "")
    return Dialogue(name, policy, scenario.id, scored(transcript), examples)


def scored(transcript: Any) -> float:
    points = points_of(transcript)
    if points is None:
        raise SystemExit(f"{transcript.scenario} with {transcript.model} is unscored; expected a complete recording")
    return points


def _outputs(name: str, turn: Any) -> list[float] | None:
    """The judge's numbers of a turn, in the order of the environment's outputs."""
    if name in ("perm", "daily"):
        scores = {**turn.evidence["scores"], **turn.evidence["seen"].get("bystander", {})}
        return [float(scores[output]) for output in readings()[name].outputs]
    judged = readings()[name].judged(turn)
    return None if judged is None else [judged[output] for output in readings()[name].outputs]


def one_liners(*, opened: bool = False) -> Iterator[tuple[str, str]]:
    """Kind and text."""
    for row in read_lines(PLAIN / "one_liners.jsonl"):
        if row["sealed"] is opened:
            yield row["kind"], row["line"]


def aspects() -> list[Aspects]:
    """The judged replies of open scenarios."""
    contexts = {row["id"]: row for row in read_lines(JUDGED / "contexts.jsonl") if row["half"] == "tuning"}
    labels = {row["id"]: row["strategies"] for row in reversed(read_lines(JUDGED / "strategies.jsonl"))}
    judged = by_id(JUDGED / "judgements.jsonl")
    found = []
    for row in read_lines(JUDGED / "replies.jsonl"):
        at, judgements = contexts.get(row["context"]), judged[row["id"]]
        if at is None or sealed(at["scenario"]) or not judgements:
            continue
        name = at["environment"]
        marks, change = (np.mean([one[part] for one in judgements], axis=0).tolist() for part in ("aspects", "change"))
        example = Example(name, at["scenario"], row["tier"], JUDGED_AT, row["reply"], context_before(at), worth_of(name, change))
        found.append(Aspects(example, marks, labels.get(row["id"])))
    return found
