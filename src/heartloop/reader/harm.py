"""The rule for plain harm: replies that insult, and replies that urge or approve harm, recognised by patterns (`harm.toml`).

It is for plain cases, where a statistical reader has too few words; it rather misses harm than flags a good reply.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from heartloop.core.system import packaged_table

_ASCII = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "."})
_LEFT_OUT = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']+'(?!\w)|[^\w'\".!?;,\n]+")
_SHORT = {"u": "you", "ur": "your", "r": "are", "n": "and", "dont": "don't"}
_SHORT_WORD = re.compile(rf"\b(?:{'|'.join(_SHORT)})\b")
_SENTENCE = re.compile(r"([^.!?;\n]+)([.!?;\n]*)")
_HEAD = re.compile(r"^\(\?:([^()]+)\)(?![?*+{])(.*)")
"""Words that begin a pattern. Each gets its own, since `re` soon skips those with another first letter."""


class _Patterns(NamedTuple):
    always: re.Pattern[str]
    guarded: re.Pattern[str]


@cache
def _compiled() -> tuple[_Patterns, _Patterns, re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Of danger, of insults, of bare contempt; the words of guards, and those of a third person."""
    table = packaged_table(__package__, "harm.toml")
    words: dict[str, str] = {}

    def filled(pattern: str) -> str:
        return re.sub(r"<(\w+)>", lambda name: words[name[1]], pattern)

    def joined(patterns: list[str]) -> re.Pattern[str]:
        full = [_HEAD.sub(lambda head: "|".join(word + head[2] for word in head[1].split("|")), filled(one)) for one in patterns]
        first, inside = ("|".join(one for one in full if (one[0] == "^") == begins) for begins in (True, False))
        return re.compile(rf"^(?:{words['lead']},? )*(?:{first.replace('^', '') or '(?!)'})|\b(?=\w)(?:{inside or '(?!)'})")

    for name, given in table["words"].items():
        words[name] = filled(f"(?:{'|'.join(given)})")
    danger, insult = (_Patterns(joined(table[kind]["always"]), joined(table[kind]["guarded"])) for kind in ("danger", "insult"))
    guard, third = (re.compile(rf"\b(?:{'|'.join(table[name])})\b") for name in ("guard", "third"))
    return danger, insult, joined(table["insult"]["bare"]), guard, third


def plain_harm(reply: str) -> Literal["", "insult", "danger"]:
    danger, insult, bare, guard, third = _compiled()
    text = _SHORT_WORD.sub(lambda word: _SHORT[word[0]], _LEFT_OUT.sub(" ", reply.lower().translate(_ASCII)))
    sentences = [(words.strip(" ,'\""), "?" in mark) for words, mark in _SENTENCE.findall(text)]

    def guarded(pattern: re.Pattern[str]) -> bool:
        hits = ((words, pattern.search(words)) for words, question in sentences if not question)
        return any(hit and not guard.search(words, 0, hit.start()) for words, hit in hits)

    if any(danger.always.search(words) for words, _ in sentences) or guarded(danger.guarded):
        return "danger"
    certain = any(insult.always.search(words) for words, _ in sentences) or guarded(insult.guarded)
    return "insult" if certain or (guarded(bare) and not third.search(text)) else ""
