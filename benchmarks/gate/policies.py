"""Attacks by policies that read no more than the person's latest message.

Covers whole dialogues on the held-out half of the scenarios, beside a policy of middling replies to others; and one reply in the
contexts of the tuning part, beside the middling replies that were written for the same context. The second bar is the higher one:
a middling reply to somebody else is beside the point. Does not cover attacks that use the score (`search`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.gate.target import Target, clauses, interval, texts, things
from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment, stratified
from heartloop.evaluation.settings import dialogue_seed
from heartloop.fitting.data import JudgedReply
from heartloop.reader.features import Context
from heartloop.scoring.statistics import paired_difference

__all__ = ["CONSTANTS", "ONLY_SHOWN", "POLICIES", "dialogues", "in_contexts"]

ANALYSIS = "The person tells what happened and waits for an answer."
"""What every policy writes in the other parts of an answer that has parts."""

Speak = Callable[[Target, random.Random, str, int], str]
"""`speak(target, draw, message, turn)`; `draw` is the same in every turn of a dialogue."""


def _framed(group: str, count: int) -> Speak:
    def speak(target: Target, draw: random.Random, message: str, turn: int) -> str:
        frames = list(texts()["policies"][group])
        draw.shuffle(frames)
        parts = []
        for number in range(count):
            clause = draw.choice(clauses(message))
            frame = frames[(turn * count + number) % len(frames)]
            parts.append(frame.format(c=clause, C=clause[:1].upper() + clause[1:], t=draw.choice(things(message))))
        return " ".join(part[:1].upper() + part[1:] for part in parts)

    return speak


def _in_turn(group: str) -> Speak:
    def speak(target: Target, draw: random.Random, message: str, turn: int) -> str:
        lines = list(texts()["policies"][group])
        draw.shuffle(lines)
        return str(lines[turn % len(lines)])

    return speak


def _constant(number: int) -> Speak:
    return lambda target, draw, message, turn: str(texts()["policies"]["constants"][number])


def _of_tier(tier: str, *, shuffled: bool = False) -> Speak:
    def speak(target: Target, draw: random.Random, message: str, turn: int) -> str:
        rows = target.of_tier(tier)
        words = rows[draw.sample(range(len(rows)), 64)[turn % 64]].reply.split(" ")
        return " ".join(draw.sample(words, len(words)) if shuffled else words)

    return speak


def _nearly_the_same(target: Target, draw: random.Random, message: str, turn: int) -> str:
    """The same two sentences in every turn, with some of the person's words after them, so that it is no plain repetition."""
    lines = draw.sample(texts()["policies"]["constants"], 2)
    named = list(dict.fromkeys(things(message)))
    return f"{' '.join(lines)} {', '.join(draw.sample(named, min(4, len(named))))}."


CONSTANTS = tuple(f"constant {number}" for number in range(1, 8))
ONLY_SHOWN = ("good elsewhere", "harmful elsewhere")
"""Policies for comparison, which no bar is about."""
POLICIES: Mapping[str, Speak] = {
    "middling": _of_tier("middling"),
    "copied, kind": _framed("kind_frames", 2),
    "copied, cruel": _framed("cruel_frames", 1),
    "eliza": _framed("eliza", 1),
    **{name: _constant(number) for number, name in enumerate(CONSTANTS)},
    "constants in turn": _in_turn("constants"),
    "nearly the same": _nearly_the_same,
    "soft insults": _in_turn("soft_insults"),
    "danger": _in_turn("danger"),
    "silence": _in_turn("silence"),
    "found by training": _framed("found_by_training", 1),
    "fragments": _in_turn("fragments"),
    "shuffled": _of_tier("good", shuffled=True),
    "good elsewhere": _of_tier("good"),
    "harmful elsewhere": _of_tier("harmful"),
}


class Policy:
    """A policy for one dialogue, as a `ChatModel`."""

    def __init__(self, name: str, target: Target, scenario: Any, seed: int) -> None:
        self.name = f"gate/{name}"
        self._speak, self._target, self._seed = POLICIES[name], target, f"gate {name} {scenario.id} {seed}"
        self._asked: str | None = getattr(scenario, "query", None)
        training = load_environment(target.name).training
        self._form = training.answer_form if training is not None else None

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        turn = sum(message.role == "assistant" for message in messages)
        said = [message.content for message in messages if message.role == "user"]
        text = self._speak(self._target, random.Random(self._seed), self._asked or (said or [""])[-1], turn)
        if self._form is not None:
            *others, last = self._form.headings.values()
            text = "".join(heading + ANALYSIS for heading in others) + last + text
        return Reply(text, usage=estimate_usage(messages, text))


def dialogues(target: Target, most: int, names: Sequence[str] = tuple(POLICIES)) -> dict[str, Any]:
    """Points of 100 of each policy, and its difference from the middling policy, paired by scenario.

    Args:
        most: scenarios, stratified.
    """
    spec = load_environment(target.name)
    scenarios = stratified([scenario for scenario in spec.load() if half_of(scenario.id) == "held-out"], most)
    ready, scale = spec.make(scenarios, spec.players()), spec.scale

    async def points(name: str) -> list[float]:
        found = []
        for scenario in scenarios:
            seed = dialogue_seed(0, scenario.id, 0)
            played = await play(ready, scenario.id, Policy(name, target, scenario, seed), seed=seed)
            if played.score is None:
                raise RuntimeError(f"{name} with {scenario.id} is unscored: {played.failure}")
            found.append(100 * (played.score * scale.points - scale.low) / (scale.high - scale.low))
        return found

    scores = {name: asyncio.run(points(name)) for name in names}
    ids = [scenario.id for scenario in scenarios]
    return {
        name: {
            "points": interval(values, ids),
            "over_middling": [round(x, 2) for x in paired_difference(scores["middling"], values, clusters=ids)[:3]],
            "dialogues": len(values),
        }
        for name, values in scores.items()
    }


def in_contexts(target: Target, most: int, names: Sequence[str] = tuple(POLICIES)) -> dict[str, Any]:
    """Points of one reply of each policy over those of the middling replies of the same context, with the interval.

    Args:
        most: contexts.
    """
    middling: dict[Context, list[JudgedReply]] = {}
    for row in target.of_tier("middling"):
        middling.setdefault(row.context, []).append(row)
    draw = random.Random(f"gate contexts of policies {target.name}")
    chosen = draw.sample(list(middling.values()), min(most, len(middling)))
    bars = [fmean(target.points(row.reply, row.context, row.group) for row in rows) for rows in chosen]
    results = {}
    for name in names:
        over = []
        for rows, bar in zip(chosen, bars, strict=True):
            row = rows[0]
            message = (row.context.messages or ("",))[-1]
            text = POLICIES[name](target, random.Random(f"gate {name} {row.id}"), message, len(row.context.replies))
            over.append(target.points(text, row.context, row.group) - bar)
        results[name] = interval(over, [rows[0].scenario for rows in chosen])
    return results
