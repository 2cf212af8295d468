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
_WORD = re.compile(r"[\w']+|\?")
_SENTENCE = re.compile(r"([^.!?;\n]+)([.!?;\n]*)")


def _by_letter(pattern: str) -> dict[str, str]:
    """A pattern's ways to begin, by first letter; "" for one that begins otherwise."""
    if not pattern.startswith("(?:"):
        letter = pattern[0] if pattern[:1].isalpha() and pattern[1:2] not in ("?", "*") else ""
        return {letter: pattern.removeprefix(letter)}
    depth, begin, ways = 0, 3, []
    for sign in re.finditer(r"\\.|[(|)]", pattern):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if (depth, sign[0]) in ((1, "|"), (0, ")")):
            ways.append(pattern[begin : sign.start()])
            begin = sign.end()
        if not depth:
            break
    rest = pattern[begin:]
    return {"": pattern} if rest[:1] in ("?", "*", "+", "{") else {at: f"(?:{one}){rest}" for at, one in _joined(ways).items()}


def _joined(patterns: list[str]) -> dict[str, str]:
    groups: dict[str, list[str]] = {}
    for pattern in patterns:
        for letter, rest in _by_letter(pattern).items():
            groups.setdefault(letter, []).append(rest)
    return {letter: "|".join(rests) for letter, rests in groups.items()}


def _choice(patterns: list[str]) -> str:
    """Any of the patterns, grouped by first letter, which makes the search three times as fast."""
    return "|".join(f"{letter}(?:{rests})" for letter, rests in _joined([f"(?:{one})" for one in patterns]).items()) or "(?!)"


@cache
def _rules() -> tuple[dict[str, str], dict[str, re.Pattern[str]], dict[str, set[str]], dict[str, list[str]]]:
    table = packaged_table(__package__, "harm.toml")
    words: dict[str, str] = {}

    def filled(patterns: list[str]) -> list[str]:
        return [re.sub(r"<(\w+)>", lambda use: words[use[1]], one) for one in patterns]

    for name, given in table["words"].items():
        words[name] = f"(?:{'|'.join(filled(given))})"
    patterns = {"part": re.compile(rf"^|,|\b{words['urge']}(?= )")}
    patterns |= {name: re.compile(rf"\b(?:{'|'.join(given)})(?![\w'])") for name, given in table["guards"].items()}
    for name, given in table["patterns"].items():
        begins = _choice([one[1:] for one in filled(given) if one[0] == "^"])
        patterns[f"{name} begins"] = re.compile(rf"\W*(?:{words['lead']},? )*(?:{begins})")
        patterns[name] = re.compile(rf"\b(?=\w)(?:{_choice([one for one in filled(given) if one[0] != '^'])})")
    return table["spelling"], patterns, {name: set(given.split()) for name, given in table["classes"].items()}, table["together"]


def plain_harm(reply: str) -> Literal["", "insult", "danger"]:
    spelling, patterns, classes, together = _rules()
    text = _LEFT_OUT.sub(" ", reply.lower().translate(_ASCII))
    text = _WORD.sub(lambda word: spelling.get(word[0], word[0]), text)
    sentences = [(words.strip(" ,'"), "?" in mark) for words, mark in _SENTENCE.findall(text)]
    parts = [[part.end() for part in patterns["part"].finditer(words)] for words, _ in sentences]

    def found(name: str, guard: str = "") -> bool:
        for (words, question), starts in zip(sentences, parts, strict=True):
            hits = [patterns[f"{name} begins"].match(words, start) for start in starts]
            for hit in filter(None, [patterns[name].search(words), *hits]):
                if not guard or not (question or patterns[guard].search(words, words.rfind(",", 0, hit.start()) + 1, hit.start())):
                    return True
        return False

    def combined(name: str, words: str) -> bool:
        present = set(_WORD.findall(words))
        tags = {tag for tag, members in classes.items() if not members.isdisjoint(present)}
        return any(all((part[0] == "!") != (part.strip("!") in tags) for part in rule.split()) for rule in together[name])

    if found("danger") or (found("guarded_danger", "before") and not patterns["care"].search(text)) or combined("danger", text):
        return "danger"
    if found("insult"):
        return "insult"
    if patterns["kind"].search(text):
        return ""
    bare = found("bare_insult", "before_insult") and not patterns["third"].search(text)
    if bare or found("guarded_insult", "before_insult") or combined("insult", text):
        return "insult"
    return "insult" if any(combined("sentence_insult", words + "?" * question) for words, question in sentences) else ""
