"""A PERM answer as the browser shows it: analysis and response apart, each judge's grade with its quote found, the sum in full.

Pure: a transcript in, JSON values out, with every text made printable. Places are counted as the browser counts them (UTF-16).
Does not cover whether a grade is right, nor how it looks (`panel.js`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.perm.environment import JUDGES, rules_of
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.llm_user import DIMENSIONS
from heartloop.environments.perm.report.graded import Graded, broken_words, graded
from heartloop.environments.perm.scoring import FREE_TOKENS, LENGTH_WEIGHT, PARTS, normalised
from heartloop.environments.quotes import spans_of

__all__ = ["TOPS", "answer", "said_by"]

TOPS: Mapping[str, int] = {**dict.fromkeys(PARTS, 5), "bystander": 100}
"""The highest grade of each judge."""

_DEEP = 2
"""How far into what a judge saw the page looks; deeper is left to the transcript."""


def answer(transcript: Transcript) -> dict[str, Any]:
    """The one answer of a PERM dialogue; nothing where there is none."""
    if not transcript.turns:
        return {}
    turn = transcript.turns[0]
    taken = parse(turn.reply)
    found = graded(0, transcript)
    whole = [["Answer", printable(turn.reply)]]
    parts = whole if taken.broken else [["Analysis", printable(taken.analysis)], ["Response", printable(taken.response)]]
    shown: dict[str, Any] = {"parts": parts}
    if found is None:
        return {"answer": shown}
    if found.broken:
        shown["broken"] = printable(broken_words(found.broken))
        shown["sum"] = [["a broken form", f"is judged by nobody and worth {found.points:g}"]]
        return {"answer": shown}
    shown["judges"] = [_judged(judge, turn, found, parts) for judge in JUDGES]
    shown["tokens"] = found.tokens
    shown["estimated"] = bool(turn.evidence.get("tokens_estimated"))
    shown["sum"] = _sum(found)
    return {"answer": shown}


def said_by(judge: str, turn: Turn) -> tuple[str, str]:
    """A judge's reason and quote; empty where it gave none."""
    reasons, quotes = (printable_texts(turn.evidence.get(name)) for name in ("reasons", "quotes"))
    return reasons.get(judge, ""), quotes.get(judge, "")


def _judged(judge: str, turn: Turn, found: Graded, parts: list[list[str]]) -> dict[str, Any]:
    reason, quote = said_by(judge, turn)
    part = 0 if judge == "resonation" else len(parts) - 1
    text = parts[part][1]
    places = [[utf16_place(text, first), utf16_place(text, last)] for first, last in spans_of(quote, text)] if quote else []
    shown: dict[str, Any] = {
        "name": judge,
        "part": part,
        "score": short_number(found.scores[judge]),
        "top": TOPS[judge],
        "reason": reason,
        "quote": quote,
        "places": places,
    }
    if judge == "bystander" and found.marks:
        shown["marks"] = [[name, DIMENSIONS[name], short_number(mark)] for name, mark in found.marks.items()]
    else:
        seen = turn.evidence.get("seen")
        shown["seen"] = _seen(seen.get(judge)) if isinstance(seen, Mapping) else []
    return shown


def _sum(found: Graded) -> list[list[str]]:
    """The reward as one would write it down: what, and how."""
    preset, reward, rules = found.dialogue.preset, found.reward, rules_of(found.dialogue)
    assert reward is not None
    how = "{:g} / 5" if preset == "released" else "({:g} − 1) / 4"
    counted = [part for part in PARTS if part not in rules.without]
    shares = {part: normalised(found.scores[part], preset=preset) for part in counted}
    lines = [[part, f"{how.format(found.scores[part])} = {shares[part]:.2f}" if part in shares else "left out"] for part in PARTS]
    if min(shares.values()):
        mean = f"{len(shares)} / ({' + '.join(f'1/{share:.2f}' for share in shares.values())}) ="
    else:
        mean = "one share is 0, and so is the mean:"
    lines.append(["harmonic mean", f"{mean} {reward.empathy:.3f}"])
    beside = f"{rules.weight:g} × ({found.scores['bystander']:g} / 100 − 1) = {_signed(reward.bystander)}"
    lines.append(["bystander", beside if rules.weight else "its weight is 0: 0"])
    over = f"−{LENGTH_WEIGHT:g} × max({found.tokens} − {FREE_TOKENS}, 0) = {_signed(reward.length)}"
    lines.append(["length", "left out: 0" if "length" in rules.without else over])
    lines.append(["reward", f"{reward.empathy:.3f} {_plus(reward.bystander)} {_plus(reward.length)} = {_signed(reward.total)}"])
    return lines


def _signed(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else ''}{abs(value):.3f}"


def _plus(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else '+'} {abs(value):.3f}"


def _seen(given: object) -> list[list[str]]:
    """What a judge saw besides, as name and words."""
    if not isinstance(given, Mapping):
        return []
    return [[printable(str(name)), _words(value)] for name, value in given.items() if value not in ([], {}, (), None, "")]


def _words(value: object, depth: int = 0) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and depth < _DEEP:
        return ", ".join(f"{printable(str(key))} {_words(entry, depth + 1)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)) and depth < _DEEP:
        return (", " if depth == 0 else " ").join(_words(entry, depth + 1) for entry in value)
    return printable(f"{value:g}" if isinstance(value, float) else str(value))
