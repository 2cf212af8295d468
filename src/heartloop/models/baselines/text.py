"""How a baseline reads a dialogue, and how it picks a phrase.

Covers the messages, the replies and the system prompt; phrases in an order of their own for each dialogue. Does not cover replies
(`general`, `managing`, `counsellor`).
"""

from __future__ import annotations

import functools
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.core.dialogue import Message

__all__ = ["Context", "Pick", "fill", "phrases", "read_context", "section"]

_CUES = {"(Nobody has spoken yet. You begin.)"}  # stands for the first message where the policy opens (`episode.YOU_BEGIN`)


class Context(NamedTuple):
    """The dialogue so far, as a baseline reads it."""

    prompt: str
    """The system prompt; empty without one."""
    messages: tuple[str, ...]
    """The other person's messages."""
    replies: tuple[str, ...]
    """The baseline's own."""

    @property
    def last(self) -> str:
        """The other person's last message; empty before the first."""
        return self.messages[-1] if self.messages else ""

    @property
    def turn(self) -> int:
        """Replies so far."""
        return len(self.replies)


class Pick:
    """Picks phrases in an order that depends on name, seed and first message; none twice before all were used."""

    def __init__(self, context: Context, name: str, seed: int) -> None:
        self._turn = context.turn
        self._key = f"{name}|{seed}|{context.messages[0] if context.messages else ''}"

    def order(self, phrases: Sequence[str]) -> list[str]:
        """The phrases in the order of this dialogue."""
        return random.Random(f"{self._key}|{len(phrases)}|{phrases[0]}").sample(phrases, len(phrases))

    def one(self, phrases: Sequence[str]) -> str:
        """The phrase of this turn."""
        return self.order(phrases)[self._turn % len(phrases)]


def read_context(messages: Sequence[Message]) -> Context:
    """The context of a reply."""
    return Context(
        next((message.content for message in messages if message.role == "system"), ""),
        tuple(message.content for message in messages if message.role == "user" and message.content not in _CUES),
        tuple(message.content for message in messages if message.role == "assistant"),
    )


def section(text: str, word: str) -> str:
    """The text under the first second-level heading of a prompt that contains the word; empty without one."""
    match = re.search(rf"^## [^\n]*\b{word}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


@functools.cache
def phrases() -> Mapping[str, Any]:
    """`phrases.toml`."""
    return tomllib.loads((resources.files(__package__) / "phrases.toml").read_text(encoding="utf-8"))


def fill(phrase: str, **values: str) -> str:
    """The phrase with its blanks filled; the blank `{A}` is `a` with a capital."""
    values |= {name.capitalize(): value[:1].upper() + value[1:] for name, value in values.items()}
    return re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)], phrase)
