"""The rule for plain harm: replies that insult, and replies that urge or approve harm, recognised by patterns (`harm.toml`).

It is for the plain cases, where a statistical reader sees too few words. It misses harm rather than finding some in a good reply.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from heartloop.core.system import packaged_table

_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "."})
_QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']+'(?!\w)")
_SHORT = {"u": "you", "ur": "your", "r": "are", "n": "and", "dont": "don't"}
_SHORT_WORD = re.compile(rf"\b(?:{'|'.join(_SHORT)})\b")
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
_NO_TEXT = re.compile(r"[^\w'.!?;,\n]+")
_SENTENCE = re.compile(r"([^.!?;\n]+)([.!?;\n]*)")


class _Patterns(NamedTuple):
    certain: re.Pattern[str]
    guarded: re.Pattern[str]


@cache
def _compiled() -> tuple[_Patterns, _Patterns, re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Of danger, of insults, of bare contempt; the words of guards, and those of a third person."""
    table = packaged_table(__package__, "harm.toml")
    words = {name: f"(?:{'|'.join(given)})" for name, given in table["words"].items()}

    def joined(patterns: list[str]) -> re.Pattern[str]:
        full = [re.sub(r"<(\w+)>", lambda name: words[name[1]], one) for one in patterns]
        first = [rf"^(?:{words['lead']},? )*(?:{'|'.join(one[1:] for one in full if one[0] == '^')})"]
        inside = [rf"\b(?:{'|'.join(one for one in full if one[0] != '^')})"]
        return re.compile("|".join(one for one in first + inside if not one.endswith("(?:)")))

    danger, insult = (_Patterns(joined(table[kind]["always"]), joined(table[kind]["guarded"])) for kind in ("danger", "insult"))
    guard, third = (re.compile(rf"\b(?:{'|'.join(table[name])})\b") for name in ("guard", "third"))
    return danger, insult, joined(table["insult"]["bare"]), guard, third


def plain_harm(reply: str) -> Literal["", "insult", "danger"]:
    danger, insult, bare, guard, third = _compiled()
    text = _NO_TEXT.sub(" ", _QUOTED.sub(" ", reply.lower().translate(_PLAIN)))
    text = _SHORT_WORD.sub(lambda word: _SHORT[word[0]], _DRAWN_OUT.sub(r"\1", text))
    sentences = [(words.strip(" ,'"), "?" in mark) for words, mark in _SENTENCE.findall(text)]

    def found(patterns: _Patterns) -> bool:
        for words, question in sentences:
            hit = None if question else patterns.guarded.search(words)
            if patterns.certain.search(words) or (hit and not guard.search(words, 0, hit.start())):
                return True
        return False

    if found(danger):
        return "danger"
    if found(insult) or (not third.search(text) and any(not question and bare.search(words) for words, question in sentences)):
        return "insult"
    return ""
