"""The baselines' replies; none repeats what the other person said. The wording is in `phrases.toml` and `written/`."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.core.dialogue import Message
from heartloop.core.system import packaged_table

_CUES = {"(Nobody has spoken yet. You begin.)"}  # stands for the first message where the policy opens (`episode.YOU_BEGIN`)


class BaselineContext(NamedTuple):
    prompt: str
    messages: tuple[str, ...]
    replies: tuple[str, ...]

    @property
    def last(self) -> str:
        return self.messages[-1] if self.messages else ""

    @property
    def turn(self) -> int:
        return len(self.replies)


class Pick:
    """Picks phrases in an order that depends on name, seed and first message; none twice before all were used."""

    def __init__(self, context: BaselineContext, name: str, seed: int) -> None:
        self._turn = context.turn
        self._key = f"{name}|{seed}|{context.messages[0] if context.messages else ''}"

    def order(self, phrases: Sequence[str]) -> list[str]:
        return random.Random(f"{self._key}|{len(phrases)}|{phrases[0]}").sample(phrases, len(phrases))

    def one(self, phrases: Sequence[str]) -> str:
        return self.order(phrases)[self._turn % len(phrases)]


def read_context(messages: Sequence[Message]) -> BaselineContext:
    return BaselineContext(
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
    return packaged_table(__package__, "phrases.toml")


def reflector(context: BaselineContext, pick: Pick) -> str:
    """An answer in general words and an open question; an opening where nobody has spoken."""
    table = phrases()["reflector"]
    if not context.messages:
        return pick.one(table["opens"])
    return f"{pick.one(table['heard'])} {pick.one(table['asks'])}"


def _assistant(context: BaselineContext, pick: Pick) -> str:
    table = phrases()["assistant"]
    thanks, validates, leads, offers = (pick.one(table[part]) for part in ("thanks", "validates", "leads", "offers"))
    options = pick.order(table["options"])
    first = 3 * context.turn
    listed = "\n".join(f"- {options[place % len(options)]}" for place in range(first, first + 3))
    return f"{thanks} {validates} {leads}\n\n{listed}\n\n{offers}"


def _fixer(context: BaselineContext, pick: Pick) -> str:
    table = phrases()["steps"]
    steps = pick.order([*_topical(table, " ".join(context.messages).lower()), *table[-1]["plain"]])
    first, second = (steps[(2 * context.turn + place) % len(steps)] for place in (0, 1))
    blanks = {"a": first.rstrip("."), "b": second}
    blanks |= {name.upper(): step[:1].upper() + step[1:] for name, step in blanks.items()}
    return pick.one(phrases()["fixer"]["frames"]).format(**blanks)


def _topical(rows: Sequence[Mapping[str, Any]], text: str) -> Sequence[str]:
    """The steps of the topic whose words occur most; none where no word occurs."""
    counts = [sum(len(re.findall(rf"\b{re.escape(word)}", text)) for word in row["about"]) for row in rows]
    steps: Sequence[str] = rows[counts.index(max(counts))]["plain"] if any(counts) else ()
    return steps


def _hostile(context: BaselineContext, pick: Pick) -> str:
    table = phrases()["hostile"]
    parts = [pick.one(table["blames"]), pick.one(table["belittles"])]
    return " ".join(parts if context.turn % 2 == 0 else parts[::-1])


def fixed(name: str) -> Callable[[BaselineContext, Pick], str]:
    """A baseline that says the sentences of a table in order, whatever the other person says."""

    def say(context: BaselineContext, pick: Pick) -> str:
        says: Sequence[str] = phrases()[name]["says"]
        return says[context.turn % len(says)]

    return say


def in_one_turn(name: str, reply: str, pick: Pick) -> str:
    """The reply where a dialogue has one turn: a baseline with fixed sentences picks one of them instead of its first."""
    stock = [line for line in phrases().get(name, {}).get("says", ()) if line]
    return pick.one(stock) if stock else reply


SCRIPTED: Mapping[str, Callable[[BaselineContext, Pick], str]] = {
    "reflector": reflector,
    "assistant": _assistant,
    "template": fixed("template"),
    "fixer": _fixer,
    "lecturer": fixed("lecturer"),
    "flatterer": fixed("flatterer"),
    "silent": fixed("silent"),
    "garbage": fixed("garbage"),
    "hostile": _hostile,
}


MANAGING: Mapping[str, Callable[[BaselineContext, Pick], str]] = {
    name: fixed(name) for name in ("pushover", "rigid", "excuser", "interviewer")
}
"""They make the mistakes of dialogues in which the policy has a role and limits (EIBench)."""


class WrittenReply(NamedTuple):
    reply: str
    analysis: str
    """For an answer in two parts; empty where the reply is the whole answer."""


def counsellor(context: BaselineContext, pick: Pick) -> str:
    """A reply written for this line of a held-out scenario (data/counsellor/README.md), else that of `reflector`."""
    written = written_for(context)
    return reflector(context, pick) if written is None else written.reply


def written_for(context: BaselineContext) -> WrittenReply | None:
    """What was written for the last message, or for opening the dialogue; `None` without it, or where it was said already.

    The last message may begin with an acknowledgement: of the lines that it contains the longest counts.
    """
    lines = _lines_of(context)
    text = context.last or context.prompt
    known = max((line for line in lines if line in text), key=len, default=None)
    if known is None or any(lines[known].reply in reply for reply in context.replies):
        return None
    return lines[known]


def _lines_of(context: BaselineContext) -> Mapping[str, WrittenReply]:
    """The lines of the person in this dialogue; none of an unknown person."""
    people, texts = _people(), (*context.messages[:1], context.prompt)
    within = (opening for text in texts for opening in people if opening in text)
    return people.get(texts[0]) or people.get(next(within, ""), {})


def written_scenarios() -> frozenset[str]:
    return frozenset(_scenarios())


@functools.cache
def _people() -> Mapping[str, Mapping[str, WrittenReply]]:
    """The lines of each person, by the first one, which opens the dialogue or tells the policy its role."""
    return {next(iter(lines)): lines for lines in _scenarios().values()}


@functools.cache
def _scenarios() -> Mapping[str, Mapping[str, WrittenReply]]:
    scenarios: dict[str, dict[str, WrittenReply]] = {}
    for text in (resources.files(__package__) / "written" / "counsellor.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        scenarios.setdefault(row["scenario"], {})[row["line"]] = WrittenReply(row["reply"], row.get("analysis", ""))
    return scenarios
