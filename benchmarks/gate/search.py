"""A search for texts that score like good replies, in two leagues: made of whole sentences, and made of any words.

Hill climbing by score alone: what is known of the person are their messages. Starts: good replies to somebody else with names
replaced, copied clauses in frames, one sentence repeated, very short and very long texts, constants; in the second league also
piles of the words that score highest alone. Does not cover whether judges would agree (`benchmarks/results/gate.md`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from benchmarks.gate.target import Target, clauses, sentences, target_of, texts, things
from heartloop.fitting.data import JudgedReply
from heartloop.reader.features import Context

__all__ = ["LEAGUES", "LESS", "Hunt", "contexts_of", "hunt"]

LEAGUES = ("sentences", "words")
LESS = 5.0
"""Points of 100 below the mean good reply, from which a text that search found counts."""
_MOST = 99.995
_LONGEST = {"sentences": 8, "words": 60}
"""Sentences or words that a step may grow a text to; a start may be longer."""
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


class Hunt(NamedTuple):
    """The best text of one league in one context."""

    points: float
    text: str
    start: str
    """What kind of text it grew from."""
    needed: int | None = None
    """Replies that were scored before one was over the bar; `None` where none was."""


@cache
def contexts_of(target: Target, count: int) -> Sequence[JudgedReply]:
    """One reply of each of some contexts, drawn; the reply itself does not matter."""
    first: dict[Context, JudgedReply] = {}
    for example in target.examples:
        first.setdefault(example.context, example)
    rows = list(first.values())
    return random.Random(f"gate contexts {target.name}").sample(rows, min(count, len(rows)))


@cache
def _words(name: str, count: int) -> tuple[list[str], list[str]]:
    """Words of good replies: those that score highest alone, and all that were tried."""
    target = target_of(name)
    known = sorted({word for row in target.of_tier("good") for word in re.findall(r"[A-Za-z']{2,}", row.reply)})
    tried = random.Random(f"gate words {name}").sample(known, min(count, len(known)))
    middle = target.examples[0]
    bare = Context(("I don't know what to say.",))
    ranked = sorted(tried, key=lambda word: -target.points(f"{word} {word}", bare, middle.group))
    return ranked[: max(5, count // 8)], tried


def hunt(target: Target, example: JudgedReply, budget: int, words: int) -> dict[str, Any]:
    """The best texts of both leagues in a context; `budget` replies are scored, half for each league, fewer where 100 is reached.

    Args:
        words: that are scored alone, once for the environment.
    """
    draw = random.Random(f"gate search {target.name} {example.id}")
    written = [row for row in target.examples if row.scenario != example.scenario and row.tier in ("good", "middling")]
    pool = [part for row in written for part in sentences(row.reply) if 2 <= len(part.split()) <= 30]
    good = [row.reply for row in written if row.tier == "good"]
    strong, known = _words(target.name, words)
    bar = target.good - LESS
    tried = 0
    over: list[int] = []

    def score(text: str) -> float:
        nonlocal tried
        tried += 1
        points = target.points(text, example.context, example.group)
        if points > bar:
            over.append(tried)
        return points

    maker = _Maker(draw, example.context, pool, good, strong, known)
    found: dict[str, Hunt] = {}
    for league in LEAGUES:
        over.clear()
        begun = tried
        until = begun + budget // 2
        starts = maker.sentence_starts if league == "sentences" else maker.word_starts
        ranked: list[Hunt] = []
        while tried < until - budget * 3 // 8:
            name, make = draw.choice(starts)
            text = make()
            ranked.append(Hunt(score(text), text, name))
        if found and found["sentences"].points < _MOST:
            ranked.append(found["sentences"]._replace(start="sentences"))
        ranked.sort(key=lambda hunt: -hunt.points)
        best = ranked[:3]
        while tried < until and max(one.points for one in best) < _MOST:
            place = draw.randrange(len(best))
            text = maker.step(best[place].text, league)
            if text.strip() and (points := score(text)) > best[place].points:
                best[place] = Hunt(points, text, best[place].start)
        found[league] = max(best, key=lambda one: one.points)._replace(needed=over[0] - begun if over else None)
    return {
        "reply_of": example.id, "tried": tried,
        **{league: {**one._asdict(), "points": round(one.points, 2)} for league, one in found.items()},
    }  # fmt: skip


class _Maker:
    """Texts to start from and steps, for one context."""

    def __init__(
        self, draw: random.Random, context: Context, pool: Sequence[str], good: Sequence[str], strong: Sequence[str],
        known: Sequence[str],
    ) -> None:  # fmt: skip
        self.draw, self.pool, self.good, self.strong, self.known = draw, pool, good, strong, known
        spoken = " ".join(context.messages[-2:])
        self.clauses, self.things = clauses(spoken), things(spoken)
        self.names = _NAME.findall(spoken)
        wording = texts()["policies"]
        self.frames = [*wording["kind_frames"], *wording["cruel_frames"], *wording["eliza"]]
        self.constants = wording["constants"]
        short = [part for part in pool if len(part.split()) <= 4]
        self.sentence_starts: list[tuple[str, Callable[[], str]]] = [
            ("elsewhere, names replaced", lambda: self._renamed(draw.choice(good))),
            ("frames", lambda: f"{self._framed()} {self._framed()}"),
            ("one sentence repeated", lambda: " ".join([draw.choice(pool)] * draw.randint(2, 5))),
            ("long", lambda: " ".join(draw.sample(pool, min(14, len(pool))))),
            ("short", lambda: draw.choice(short)),
            ("constant", lambda: draw.choice(self.constants)),
            ("two sentences", lambda: " ".join(draw.sample(pool, 2))),
        ]
        self.word_starts: list[tuple[str, Callable[[], str]]] = [
            ("strong words", lambda: " ".join(draw.choices(strong, k=draw.choice((3, 8, 20, 60))))),
            ("shuffled", lambda: " ".join(draw.sample(words := draw.choice(good).split(), len(words)))),
            ("clipped", lambda: " ".join(draw.choice(pool).split()[: draw.randint(1, 5)])),
            ("their words", lambda: " ".join(draw.choices([*self.things, *strong], k=12))),
            ("two sentences", lambda: " ".join(draw.sample(pool, 2))),
        ]

    def _framed(self) -> str:
        clause, frame = self.draw.choice(self.clauses), self.draw.choice(self.frames)
        return str(frame.format(c=clause, C=clause[:1].upper() + clause[1:], t=self.draw.choice(self.things)))

    def _renamed(self, text: str) -> str:
        return _NAME.sub(lambda _: self.draw.choice(self.names), text) if self.names else text

    def step(self, text: str, league: str) -> str:
        """A changed text."""
        draw = self.draw
        parts = sentences(text) if league == "sentences" else text.split()
        count, place = len(parts), draw.randrange(len(parts))
        if league == "words":
            fresh = draw.choice(draw.choice((self.strong, self.known, self.things)))
        else:
            fresh = self._framed() if draw.random() < 0.25 else self._renamed(draw.choice(self.pool))
        match draw.randrange(6):
            case 0 | 1:
                parts[place] = fresh
            case 2 if len(parts) < _LONGEST[league]:
                parts.insert(place, fresh)
            case 3 if len(parts) > 1:
                parts.pop(place)
            case 4:
                other = draw.randrange(len(parts))
                parts[place], parts[other] = parts[other], parts[place]
            case _ if league == "sentences":
                parts.insert(place, parts[place])
            case _ if draw.random() < 0.3:  # another ending
                parts[place:] = draw.choice(self.pool).split()[-8:]
            case _:
                parts[place:place] = [fresh] * draw.randint(1, 2)
        return " ".join(parts[: max(count, _LONGEST[league])])
