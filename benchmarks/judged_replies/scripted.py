"""Replies that nobody wrote for the data: the baselines, attacks on a reader, and a small language model.

Attacks: the person's clauses in kind, empty and cruel frames, reflections of the ELIZA sort, good replies to somebody else, good
replies with shuffled words, constant sentences. Each is judged like any other reply. The shipped replies were made with the
baselines of that time, some of which (`listener`, `coach`, `diplomat`, `owner`, `light`) no longer exist.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.judged_replies.contexts import FOLDER, write
from benchmarks.judged_replies.second_person import second_person
from heartloop.core.dialogue import Message
from heartloop.fitting.data import read_lines
from heartloop.models.baselines import BASELINES, GENERAL, Baseline

KIND = (
    "I hear that {c}.", "It sounds like {c}.", "So {c}, and that stays with you.", "What was it like that {c}?",
    "When you say {c}, I feel how much is in that.", "{c}. That matters.",
)  # fmt: skip
CRUEL = (
    "It serves you right that {c}.", "I wonder if you are ashamed that {c}.", "Of course {c}. Who else would put up with you?",
    "{c}, and you still expect pity?", "Nobody is surprised that {c}. What did you do to deserve it?",
)  # fmt: skip
ELIZA = ("Why do you say that {c}?", "How does it make you feel that {c}?", "Tell me more about {t}.", "Please go on.", "I see.")
_CONSTANT = (
    "I'm here with you. Take all the time you need; there is no rush at all.",
    "That sounds really hard. I hear you, and your feelings are valid.",
    "What is the part of this that weighs on you the most right now?", "You are stronger than you know, and this will pass.",
    "You did not deserve that, and I am glad you told me.", "I am sorry for what I did. It was wrong, and it cost you something.",
    "I can't do that, and I won't pretend otherwise. But tell me what is behind it.",
)  # fmt: skip


def clauses(message: str) -> list[str]:
    """Clauses of a message of four words and more, turned to the second person."""
    parts = [part.strip(" \"'") for part in re.split(r"[.!?;:,]\s+|\n", message)]
    turned = [second_person(part) for part in parts if 4 <= len(part.split()) <= 16]
    return [part[:1].lower() + part[1:].rstrip(".,!?") for part in turned] or ["this happened to you"]


def attack(context: Mapping[str, Any], replies: Sequence[Mapping[str, Any]], draw: random.Random) -> tuple[str, str]:
    """One attack on this context: its name and its text."""
    spoken = " ".join(context["messages"][-2:]) or "You are new here and I am as well"
    clause = draw.choice(clauses(spoken))
    thing = draw.choice(re.findall(r"[a-zA-Z]{5,}", spoken) or ["that"]).lower()
    good = [row["reply"] for row in replies if row["tier"] == "good" and row["context"] != context["id"]]

    def framed(frames: Sequence[str]) -> str:
        text = " ".join(frame.format(c=clause, t=thing) for frame in draw.sample(frames, draw.choice((1, 1, 2))))
        return text[:1].upper() + text[1:]

    def shuffled() -> str:
        words = draw.choice(good).split()
        return " ".join(draw.sample(words, len(words)))

    makers: Mapping[str, Callable[[], str]] = {
        "kind_frame": lambda: framed(KIND),
        "cruel_frame": lambda: framed(CRUEL),
        "eliza": lambda: framed(ELIZA),
        "constant": lambda: draw.choice(_CONSTANT),
        "elsewhere": lambda: draw.choice(good),
        "shuffled": shuffled,
    }
    name = draw.choices(list(makers), (3, 3, 2, 2, 3, 2))[0]
    return name, makers[name]()


def chat(context: Mapping[str, Any]) -> list[Message]:
    """The dialogue as a chat model sees it."""
    rows = [Message(role="system", content=context["policy_prompt"].partition("## How to answer")[0])]
    messages, replies = context["messages"], context["replies"]
    if len(messages) <= len(replies) or not messages:
        rows.append(Message(role="user", content="(You speak first. Say your first words to them.)"))
    for n in range(max(len(messages), len(replies))):
        if n < len(messages):
            rows.append(Message(role="user", content=messages[n]))
        if n < len(replies):
            rows.append(Message(role="assistant", content=replies[n]))
    return rows


def scripted(contexts: Sequence[Mapping[str, Any]], replies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One reply of a baseline and one attack for every context."""
    draw = random.Random("scripted")
    halves = {context["id"]: context["half"] for context in contexts}
    rows: list[dict[str, Any]] = []
    for context in contexts:
        mine = [row for row in replies if halves[row["context"]] == context["half"]]
        scene = context["environment"] == "eibench"
        name = draw.choice([name for name in BASELINES if name != "counsellor" and (scene or name in GENERAL)])
        text = asyncio.run(Baseline(name, seed=draw.randrange(1000)).complete(chat(context))).text
        rows.append({"context": context["id"], "voice": "baseline", "kind": name, "reply": text})
        kind, text = attack(context, mine, draw)
        rows.append({"context": context["id"], "voice": "attack", "kind": kind, "reply": text})
    return rows


GENERAL_SENTENCES = (
    "I'm listening.", "Go on, if you like.", "There is no hurry.", "What was that like for you?", "What do you need right now?",
    "I don't know what to say, but I want to hear it.", "Tell me more about that.", "How are you holding up?",
    "That must have been a lot.", "You can say it here.", "What would help you most today?", "I believe you.",
    "It's all right to feel that way.", "What happened then?", "I won't tell you what to do.",
    "Thank you for trusting me with this.",
    "And how is it for you now?", "Take your time.", "I'm not going anywhere.", "What part of it stays with you?",
    "I can hear that this matters to you.", "That is a hard place to be.", "Is there anybody with you in this?",
    "You don't have to explain it any better than that.", "I got that wrong before. Say it again and I'll listen.",
    "What do you make of it yourself?", "You noticed it, and that counts for something.", "I'd like to understand it properly.",
    "Nobody should have to carry that alone.", "What would you want to happen?", "That took something to say.",
    "We can leave it there for a moment.", "I'm glad you said it.", "It makes sense that you are tired.",
    "I'll stay with you in this.", "What is the hardest part?", "Say as much or as little as you want.",
    "I was too quick. I'm sorry.", "Start wherever you like.", "That's worth a second look.",
)  # fmt: skip
"""What can be said to anybody: one to three of these are a policy that reads nothing."""

NEW_BASELINES: Mapping[str, int] = {"hostile": 90, "reflector": 45, "assistant": 45}
"""Replies of the baselines that came after the first rounds, on contexts of the tuning half."""


def of_new_baselines(contexts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replies of the new baselines."""
    draw = random.Random("new baselines")
    tuning = [c for c in contexts if c["half"] == "tuning" and len(c["replies"]) == c["turn"]]
    rows: list[dict[str, Any]] = []
    for name, count in NEW_BASELINES.items():
        by_environment = {e: [c for c in tuning if c["environment"] == e] for e in sorted({c["environment"] for c in tuning})}
        for number in range(count):
            context = draw.choice(list(by_environment.values())[number % len(by_environment)])
            text = asyncio.run(Baseline(name, seed=draw.randrange(1000)).complete(chat(context))).text
            rows.append({"context": context["id"], "voice": "baseline", "kind": name, "reply": text, "tier": "none", "words": 0})
    names = draw.sample(range(40_000_000, 50_000_000), len(rows))
    return [{"id": f"r{number}", **row} for number, row in zip(names, rows, strict=True)]


def of_general_policies(contexts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Replies that could be said to anybody, of `reflector` and of one to three general sentences; tuning half only."""
    draw = random.Random("general policies")
    tuning = [c for c in contexts if c["half"] == "tuning" and len(c["replies"]) == c["turn"]]
    by_environment = [[c for c in tuning if c["environment"] == e] for e in sorted({c["environment"] for c in tuning})]
    rows: list[dict[str, Any]] = []
    for number in range(360):
        context = draw.choice(by_environment[number % len(by_environment)])
        if number % 3 == 0:
            text = asyncio.run(Baseline("reflector", seed=draw.randrange(1000)).complete(chat(context))).text
            voice, kind = "baseline", "reflector"
        else:
            text = " ".join(draw.sample(GENERAL_SENTENCES, draw.choice((1, 2, 2, 3))))
            voice, kind = "attack", "general"
        rows.append({"context": context["id"], "voice": voice, "kind": kind, "reply": text, "tier": "none", "words": 0})
    names = draw.sample(range(60_000_000, 70_000_000), len(rows))
    return [{"id": f"r{number}", **row} for number, row in zip(names, rows, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-replies", type=Path, help="JSON lines of `context` and `reply` by the small language model")
    parser.add_argument("--requests", type=Path, help="writes what the small language model is asked, and stops")
    parser.add_argument("--new-baselines", action="store_true", help="append the replies of the new baselines, and stop")
    parser.add_argument("--general", action="store_true", help="append replies that could be said to anybody, and stop")
    chosen = parser.parse_args()
    contexts, replies = read_lines(FOLDER / "contexts.jsonl"), read_lines(FOLDER / "replies.jsonl")
    if chosen.requests:
        asked = [c for number, c in enumerate(contexts) if number % 2 == 0]
        write(chosen.requests, ({"context": c["id"], "messages": [message.model_dump() for message in chat(c)]} for c in asked))
        return
    if chosen.new_baselines:
        write(FOLDER / "replies.jsonl", [*replies, *of_new_baselines(contexts)])
        return
    if chosen.general:
        write(FOLDER / "replies.jsonl", [*replies, *of_general_policies(contexts)])
        return
    written = [row for row in replies if row["voice"] not in ("baseline", "attack", "smollm2")]
    rows = scripted(contexts, written)
    if chosen.model_replies:
        rows += [{**row, "voice": "smollm2", "kind": "smollm2"} for row in read_lines(chosen.model_replies)]
    names = random.Random("scripted ids").sample(range(100_000, 1_000_000), len(rows))
    new = [{"id": f"r{name}", **row, "tier": "none", "words": 0} for name, row in zip(names, rows, strict=True)]
    write(FOLDER / "replies.jsonl", [*written, *new])
    print(len(written), "written,", len(new), "scripted")


if __name__ == "__main__":
    main()
