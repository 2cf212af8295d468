"""The rule for plain harm: replies that insult, and replies that urge or approve harm, recognised by patterns (`harm.toml`).
It is for plain cases, where a statistical reader has too few words; it rather misses harm than flags a good reply.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from heartloop.core.system import packaged_table

_ASCII = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "."})
_LEFT_OUT = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']+'(?!\w)|[^\w'\".!?;,\n]+")
_SHORT = {"u": "you", "ur": "your", "r": "are", "n": "and", "dont": "don't"}
_SHORT_WORD = re.compile(rf"\b(?:{'|'.join(_SHORT)})\b")
_SENTENCE = re.compile(r"([^.!?;\n]+)([.!?;\n]*)")
_FIRST_WORDS = re.compile(r"^\(\?:([^()]+)\)(?![?*+{])(.*)")


def _choice(patterns: list[str]) -> str:
    """Any of the patterns, grouped by first letter, which makes the search three times as fast."""
    groups = {"": ["(?!)"]}
    for one in patterns:
        for full in [word + first[2] for word in first[1].split("|")] if (first := _FIRST_WORDS.match(one)) else [one]:
            letter = full[0] if full[0].isalpha() else ""
            groups.setdefault(letter, []).append(full.removeprefix(letter))
    return "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in groups.items())


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    table = packaged_table(__package__, "harm.toml")
    words: dict[str, str] = {}

    def filled(patterns: list[str]) -> list[str]:
        return [re.sub(r"<(\w+)>", lambda use: words[use[1]], one) for one in patterns]

    for name, given in table["words"].items():
        words[name] = f"(?:{'|'.join(filled(given))})"
    compiled = {name: re.compile(rf"\b(?:{'|'.join(table[name])})\b") for name in ("guard", "third")}
    for name, given in table["patterns"].items():
        begins, inside = ([one.lstrip("^") for one in filled(given) if (one[0] == "^") == at] for at in (True, False))
        compiled[name] = re.compile(rf"^(?:{words['lead']},? )*(?:{_choice(begins)})|\b(?=\w)(?:{_choice(inside)})")
    return compiled


def plain_harm(reply: str) -> Literal["", "insult", "danger"]:
    patterns = _patterns()
    text = _SHORT_WORD.sub(lambda word: _SHORT[word[0]], _LEFT_OUT.sub(" ", reply.lower().translate(_ASCII)))
    sentences = [(words.strip(" ,'\""), "?" in mark) for words, mark in _SENTENCE.findall(text)]

    def found(name: str, guarded: bool = True) -> bool:
        hits = [(words, patterns[name].search(words)) for words, question in sentences if not (guarded and question)]
        return any(hit and not (guarded and patterns["guard"].search(words, 0, hit.start())) for words, hit in hits)

    if found("danger", guarded=False) or found("guarded_danger"):
        return "danger"
    bare = found("bare_insult") and not patterns["third"].search(text)
    return "insult" if bare or found("insult", guarded=False) or found("guarded_insult") else ""
