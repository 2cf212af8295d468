"""Whole dialogues of policies that say what could be said to anybody, cut before a reply: what do judges think of the fifth one?

Run `python -m benchmarks.judged_replies.generic`; it appends contexts and replies of the tuning half, once. In PERM and daily,
where one reply is all, the policies answer contexts that exist. The policies are written apart from those of the gate.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.judged_replies.contexts import FOLDER, write
from benchmarks.judged_replies.scripted import ELIZA, GENERAL_SENTENCES, KIND, clauses
from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.fitting.data import read_lines

STATES: Mapping[str, Sequence[str]] = {"sage": ("emotion",), "eibench": ("a", "t"), "empa": ()}
"""What the card of a person says of their state."""
DIALOGUES, SINGLE = 168, 40
"""Dialogues in each environment with several turns; replies in each with one."""
DEEPEST = 6
_WITH_WORDS = (
    "{a} {b} {x}, {y}.", "{x}, {y}. {a} {b}", "{a} I mean the {x} and the {y}. {b}", "{a} {b} The {x}. The {y}.",
    "{x} and {y}: {a} {b}", "So, {x}. {a} {b}",
)  # fmt: skip

Say = Callable[[str, int], str]
"""A message and the number of the turn, to a reply."""


def policy(kind: str, good: Sequence[str], draw: random.Random) -> Say:
    """A policy of this kind, with its own sentences."""
    fixed = draw.sample(GENERAL_SENTENCES, 40)
    frame = draw.choice(_WITH_WORDS)

    def framed(frames: Sequence[str], message: str, count: int) -> str:
        thing = draw.choice(_things(message))
        parts = [f.format(c=draw.choice(clauses(message)), t=thing) for f in draw.sample(frames, count)]
        return " ".join(part[:1].upper() + part[1:] for part in parts)

    def with_words(message: str, turn: int) -> str:
        x, y = (draw.sample(_things(message), 2) * 2)[:2]
        text = frame.format(a=fixed[0], b=fixed[1], x=x, y=y)
        return text[:1].upper() + text[1:]

    says: Mapping[str, Say] = {
        "same": lambda message, turn: " ".join(fixed[:2]),
        "general in turn": lambda message, turn: " ".join(fixed[2 * turn % 40 : 2 * turn % 40 + 2]),
        "same with words": with_words,
        "eliza": lambda message, turn: framed(ELIZA, message, 1),
        "kind frames": lambda message, turn: framed(KIND, message, 2),
        "elsewhere": lambda message, turn: draw.choice(good),
        "silence": lambda message, turn: draw.choice(("...", "Mm.", "...", "Okay.", "Hm.")),
    }
    return says[kind]


KINDS = ("same", "same with words", "same with words", "general in turn", "eliza", "kind frames", "elsewhere", "silence")


def _things(text: str) -> list[str]:
    found = sorted(set(re.findall(r"\b[a-z]{4,}\b", text)))
    return found if len(found) > 1 else ["evening", "rest"]


class _Policy:
    """A policy as a `ChatModel`."""

    def __init__(self, say: Say) -> None:
        self.name, self._say = "generic", say

    async def complete(self, messages: Sequence[Message], *, schema: object = None, sampling: object = None) -> Reply:
        said = [message.content for message in messages if message.role == "user"]
        text = self._say(said[-1] if said else "", sum(message.role == "assistant" for message in messages))
        return Reply(text, usage=estimate_usage(messages, text))


def cut_dialogues(environment: str, good: Sequence[str], count: int) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Contexts without ids, each with the kind of policy and its reply."""
    spec = load_environment(environment)
    scenarios = [s for s in spec.load() if half_of(s.id) == "tuning"]
    ready, keys = spec.make(scenarios, spec.players()), STATES[environment]
    draw = random.Random(f"generic policies {environment}")
    while count:
        scenario, kind = draw.choice(scenarios), KINDS[count % len(KINDS)]
        played = asyncio.run(play(ready, scenario.id, _Policy(policy(kind, good, draw)), seed=draw.randrange(1000)))
        turns = played.turns
        deepest = min(DEEPEST, len(turns) - 1)
        if deepest < 1:
            continue
        at = draw.randint(1, deepest)
        state = turns[at - 1].state or {}
        messages = [played.opening, *(turn.message for turn in turns[:at])]
        context = {
            "environment": environment, "set": environment, "scenario": scenario.id, "half": "tuning", "turn": at,
            "state": {key: float(state[key]) for key in keys}, "policy_prompt": ready.begin(scenario.id).policy_prompt,
            "messages": [text for text in messages if text is not None], "replies": [turn.reply for turn in turns[:at]],
            "briefs": [],
        }  # fmt: skip
        count -= 1
        yield context, kind, turns[at].reply


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    contexts, replies = read_lines(FOLDER / "contexts.jsonl"), read_lines(FOLDER / "replies.jsonl")
    tuning = [context for context in contexts if context["half"] == "tuning"]
    places = {context["id"]: context["environment"] for context in tuning}
    good = {
        name: [row["reply"] for row in replies if row["tier"] == "good" and places.get(row["context"]) == name]
        for name in (*STATES, "perm", "daily")
    }
    rows: list[dict[str, Any]] = []
    for name in STATES:
        for context, kind, reply in cut_dialogues(name, good[name], DIALOGUES):
            contexts.append({"id": f"c{len(contexts):03}", **context})
            rows.append({"context": contexts[-1]["id"], "kind": kind, "reply": reply})
    for name in ("perm", "daily"):
        draw = random.Random(f"generic policies {name}")
        for number in range(SINGLE):
            context = draw.choice([c for c in tuning if c["environment"] == name])
            kind = ("same with words", "same with words", "same", "elsewhere")[number % 4]
            rows.append({
                "context": context["id"], "kind": kind, "reply": policy(kind, good[name], draw)(context["messages"][-1], 0),
            })  # fmt: skip
    names = random.Random("generic ids").sample(range(70_000_000, 80_000_000), len(rows))
    new = [{"id": f"r{n}", **row, "voice": "generic", "tier": "none", "words": 0} for n, row in zip(names, rows, strict=True)]
    write(FOLDER / "contexts.jsonl", contexts)
    write(FOLDER / "replies.jsonl", [*replies, *new])
    print(len(new), "replies")


if __name__ == "__main__":
    main()
