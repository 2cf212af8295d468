"""What a sentence names: matters by their cues, feelings that are said to be there, sores; and a level out of points.

Shared by the embedded judges of PERM and of daily conversation. Does not cover how a reply is read (`heartloop.appraisal`), nor
what anything found is worth (each environment's `needs.toml`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from heartloop.appraisal import Appraisal, matters_named
from heartloop.appraisal.lexicon import is_function_word
from heartloop.appraisal.words import fold, read_sentence, words_of
from heartloop.environments.cues import stands
from heartloop.environments.grading import Grade
from heartloop.environments.quotes import stands_in
from heartloop.environments.reacting import Mood, Move, Weighed, swings
from heartloop.environments.records import Matter

__all__ = [
    "DENIAL", "cost_of", "felt_in", "grade_of", "level_of", "mood_of_reader", "named_in", "quote_of", "said_in",
]  # fmt: skip

DENIAL = frozenset({"not", "never", "isn't", "aren't", "wasn't", "don't", "doesn't", "nor", "no", "hardly", "without", "rather"})
"""Words that deny the feeling named just behind them."""


def named_in(sentences: Sequence[str], matters: Sequence[Matter]) -> dict[str, str]:
    """Those matters that a sentence names, by their text, with the sentence."""
    found: dict[str, str] = {}
    rows = tuple((matter.text, matter.cues) for matter in matters)
    for text in sentences:
        for key in matters_named(read_sentence(text), rows):
            found.setdefault(key, text)
    return found


def felt_in(sentences: Sequence[str], names: Sequence[str], denies: int) -> tuple[dict[str, str], int]:
    """Those feelings that a sentence says are there, with the sentence, and how many different words say so.

    One that is denied just before is not said. A word can be near to several feelings, and is still one word.

    Args:
        denies: words before a feeling in which a "not" denies it.
    """
    rows = tuple((name, (name,)) for name in names)
    phrases = [name for name in names if " " in name]
    found: dict[str, str] = {}
    said: set[str] = set()
    for text in sentences:
        words = words_of(text)
        for n, word in enumerate(words):
            keys = list(_near(word, rows))
            keys += [name for name in phrases if " ".join(words[n : n + len(name.split())]).startswith(name)]
            if keys and not DENIAL & set(words[max(0, n - denies) : n]):
                said.add(word)
                for key in keys:
                    found.setdefault(key, text)
    return found, len(said)


@lru_cache(maxsize=20_000)
def _near(word: str, rows: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """Names of those feelings that a word alone stands for."""
    return tuple(matters_named(read_sentence(word), rows)) if len(word) > 2 and not is_function_word(word) else ()


def said_in(appraisal: Appraisal, matters: Sequence[Matter], own: str) -> dict[int, str]:
    """Matters of which a whole sentence says a cue word for word, by number, with the sentence.

    Args:
        own: what they have said themselves; a cue that stands there is nobody else's word.
    """
    told = fold(own)
    found: dict[int, str] = {}
    for s in appraisal.sentences:
        text = fold(s.text)
        for number, matter in enumerate(matters):
            cues = (fold(cue) for cue in matter.cues)
            if not s.broken and any(stands(cue, text) and not stands(cue, told) for cue in cues):
                found.setdefault(number, s.text)
    return found


def level_of(points: float, steps: Sequence[float]) -> int:
    """1, and one more for every step that the points reach."""
    return 1 + sum(points >= step for step in steps)


def quote_of(texts: Sequence[str], part: str) -> str:
    """The first of the texts that stands in the part, or else its first line."""
    return next((text for text in texts if text and stands_in(text, [part])), part.strip().split("\n")[0])


def cost_of(appraisal: Appraisal, points: Mapping[str, float]) -> float:
    """Points that the flaws of a reply cost, each by its severity."""
    return sum(points.get(flaw.kind, 0.0) * flaw.severity for flaw in appraisal.flaws)


def mood_of_reader(want: str, scenario_id: str, seed: int, table: Mapping[str, Any]) -> Mood:
    """Of somebody who gets one answer; nobody can ask it to have listened before, so it counts as if it had."""
    return Mood(intention=want, temperament="even", emotion=50.0, heard=1, variant="plain", **swings(table, scenario_id, seed))


def grade_of(weighed: Weighed, points: float, level: int, part: str, table: Mapping[str, Any]) -> Grade:
    """The grade of what an answer does to the person, with the first reason on the level's side."""
    lead: Move = ("untouched", 0.0, "")
    if weighed.gains and (level > 2 or not weighed.losses):
        lead = weighed.gains[0]
    elif weighed.losses:
        lead = weighed.losses[0]
    found = {
        "points": round(points, 2),
        "gains": [[reason, round(worth, 2)] for reason, worth, _ in weighed.gains[:3]],
        "losses": [[reason, round(worth, 2)] for reason, worth, _ in weighed.losses[:3]],
    }
    return Grade(level, table["reasons"][lead[0]], quote_of([lead[2]], part), found)
