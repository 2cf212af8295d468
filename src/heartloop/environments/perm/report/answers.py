"""A PERM answer for the browser: analysis, response, each judge's grade with the places of its quote, and the steps of the sum.

Input is a transcript, output are JSON values with printable texts. Places are UTF-16 offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import printable, printable_texts, short_number, utf16_place
from heartloop.environments.dialogue_text import spans_of
from heartloop.environments.perm.environment import DIMENSIONS, JUDGES, rules_of
from heartloop.environments.perm.report.graded import Graded, broken_words, graded
from heartloop.environments.perm.scenario import parse
from heartloop.environments.perm.scoring import FREE_TOKENS, LENGTH_WEIGHT, PARTS, normalised

__all__ = ["HIGHEST", "answer", "reason_and_quote"]

HIGHEST: Mapping[str, int] = {**dict.fromkeys(PARTS, 5), "bystander": 100}
"""The highest grade of each judge."""

_MAX_DEPTH = 2
"""Nesting levels of a judge's evidence that the page shows."""


def answer(transcript: Transcript) -> dict[str, Any]:
    """The answer of a PERM dialogue; empty if there is none."""
    if not transcript.turns:
        return {}
    turn = transcript.turns[0]
    parsed = parse(turn.reply)
    scored = graded(0, transcript)
    parts = [["Analysis", printable(parsed.analysis)], ["Response", printable(parsed.response)]]
    if parsed.broken:
        parts = [["Answer", printable(turn.reply)]]
    shown: dict[str, Any] = {"parts": parts}
    if scored is None:
        return {"answer": shown}
    if scored.broken:
        shown["broken"] = printable(broken_words(scored.broken))
        shown["sum"] = [["reward", f"{scored.points:g} points: the form is invalid, so the answer is not judged"]]
        return {"answer": shown}
    shown["judges"] = [_judged(judge, turn, scored, parts) for judge in JUDGES]
    shown["tokens"] = scored.tokens
    shown["estimated"] = bool(turn.evidence.get("tokens_estimated"))
    shown["sum"] = _sum(scored)
    return {"answer": shown}


def reason_and_quote(judge: str, turn: Turn) -> tuple[str, str]:
    """A judge's reason and quote; empty if missing."""
    reasons, quotes = (printable_texts(turn.evidence.get(name)) for name in ("reasons", "quotes"))
    return reasons.get(judge, ""), quotes.get(judge, "")


def _judged(judge: str, turn: Turn, scored: Graded, parts: list[list[str]]) -> dict[str, Any]:
    reason, quote = reason_and_quote(judge, turn)
    part = 0 if judge == "resonation" else len(parts) - 1
    text = parts[part][1]
    places = [[utf16_place(text, first), utf16_place(text, last)] for first, last in spans_of(quote, text)] if quote else []
    shown: dict[str, Any] = {
        "name": judge,
        "part": part,
        "score": short_number(scored.scores[judge]),
        "top": HIGHEST[judge],
        "reason": reason,
        "quote": quote,
        "places": places,
    }
    if judge == "bystander" and scored.marks:
        shown["marks"] = [[name, DIMENSIONS[name], short_number(mark)] for name, mark in scored.marks.items()]
    else:
        seen = turn.evidence.get("seen")
        shown["seen"] = _seen(seen.get(judge)) if isinstance(seen, Mapping) else []
    return shown


def _sum(scored: Graded) -> list[list[str]]:
    """The steps of the reward: name and calculation of each."""
    preset, reward, rules = scored.dialogue.preset, scored.reward, rules_of(scored.dialogue)
    assert reward is not None
    formula = "{:g} / 5" if preset == "released" else "({:g} − 1) / 4"
    counted = [part for part in PARTS if part not in rules.without]
    shares = {part: normalised(scored.scores[part], preset=preset) for part in counted}
    lines = [
        [part, f"{formula.format(scored.scores[part])} = {shares[part]:.2f}" if part in shares else "left out"] for part in PARTS
    ]
    if min(shares.values()):
        mean = f"{len(shares)} / ({' + '.join(f'1/{share:.2f}' for share in shares.values())}) ="
    else:
        mean = "a share is 0, so the mean is 0:"
    lines.append(["harmonic mean", f"{mean} {reward.empathy:.3f}"])
    penalty = f"{rules.weight:g} × ({scored.scores['bystander']:g} / 100 − 1) = {_signed(reward.bystander)}"
    lines.append(["bystander", penalty if rules.weight else "the weight is 0: 0"])
    excess = f"−{LENGTH_WEIGHT:g} × max({scored.tokens} − {FREE_TOKENS}, 0) = {_signed(reward.length)}"
    lines.append(["length", "left out: 0" if "length" in rules.without else excess])
    lines.append(["reward", f"{reward.empathy:.3f} {_plus(reward.bystander)} {_plus(reward.length)} = {_signed(reward.total)}"])
    return lines


def _signed(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else ''}{abs(value):.3f}"


def _plus(value: float) -> str:
    return f"{'−' if round(value, 3) < 0 else '+'} {abs(value):.3f}"


def _seen(evidence: object) -> list[list[str]]:
    """A judge's further evidence, as names and texts."""
    if not isinstance(evidence, Mapping):
        return []
    return [[printable(str(name)), _words(value)] for name, value in evidence.items() if value not in ([], {}, (), None, "")]


def _words(value: object, depth: int = 0) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return ", ".join(f"{printable(str(key))} {_words(entry, depth + 1)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        return (", " if depth == 0 else " ").join(_words(entry, depth + 1) for entry in value)
    return printable(f"{value:g}" if isinstance(value, float) else str(value))
