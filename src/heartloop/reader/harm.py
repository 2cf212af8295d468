"""The rule for plain harm: words and patterns (`harm.toml`) of replies that insult, and of replies that urge or approve harm.
It is for plain cases, where a statistical reader has too few words; it rather misses harm than flags a good reply.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from heartloop.core.system import packaged_table

_Together = dict[str, list[tuple[set[str], set[str]]]]
"""Rules by name: classes that a reply has, and classes that it hasn't."""
_ASCII = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "."})
_LEFT_OUT = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']+'(?!\w)|[^\w'\".!?;,\n]+")
_WORD = re.compile(r"[\w']+|\?")
_SENTENCE = re.compile(r"([^.!?;\n]+)([.!?;\n]*)")
_COMMA = re.compile(r",\s+")
_BRANCH = re.compile(r"\\.|[(|)]")


def _by_letter(patterns: list[str]) -> dict[str, str]:
    """Any of the patterns, by the letter it begins with ("": another sign); tried so, they take a third of the time."""
    groups: dict[str, list[str]] = {}
    for pattern in patterns:
        depth, begin, ways, rest = 0, 3, [], pattern
        for sign in _BRANCH.finditer(pattern) if pattern.startswith("(?:") else ():
            depth += {"(": 1, ")": -1}.get(sign[0], 0)
            if (depth, sign[0]) in ((1, "|"), (0, ")")):
                ways.append(pattern[begin : sign.start()])
                begin = sign.end()
            if not depth:
                rest = pattern[begin:]
                break
        if ways and rest[:1] not in ("?", "*", "+", "{"):
            for letter, choice in _by_letter(ways).items():
                groups.setdefault(letter, []).append(f"(?:{choice}){rest}")
        else:
            letter = pattern[0] if pattern[:1].isalpha() and pattern[1:2] not in ("?", "*") else ""
            groups.setdefault(letter, []).append(pattern.removeprefix(letter))
    return {letter: "|".join(rests) for letter, rests in groups.items()}


def _any(patterns: list[str]) -> str:
    return "|".join(f"{letter}(?:{rests})" for letter, rests in _by_letter([f"(?:{one})" for one in patterns]).items())


@cache
def _rules() -> tuple[dict[str, str], dict[str, re.Pattern[str]], dict[str, set[str]], _Together]:
    table = packaged_table(__package__, "harm.toml")
    words = {name: f"(?:{'|'.join(given.split())})" for name, given in table["classes"].items()}

    def filled(pattern: str) -> str:
        return re.sub(r"<(\w+)>", lambda use: words[use[1]], pattern)

    for name, given in table["words"].items():
        words[name] = f"(?:{'|'.join(_COMMA.split(filled(given)))})"
    patterns = {"part": re.compile(rf"^|,|\b{words['urge']}(?= )")}
    patterns |= {name: re.compile(rf"\b(?:{'|'.join(_COMMA.split(given))})(?![\w'])") for name, given in table["guards"].items()}
    for name, given in table["patterns"].items():
        begins = _any([filled(one[1:]) for one in given if one[0] == "^"] or ["(?!)"])
        patterns[f"{name} begins"] = re.compile(rf"\W*(?:{words['lead']},? )*(?:{begins})")
        patterns[name] = re.compile(rf"\b(?=\w)(?:{_any([filled(one) for one in given if one[0] != '^'] or ['(?!)'])})")
    classes: dict[str, set[str]] = {}
    for name, given in table["classes"].items():
        for word in given.split():
            classes.setdefault(word, set()).add(name)
    together: _Together = {name: [] for name in table["together"]}
    for name, rules in table["together"].items():
        for parts in map(str.split, rules):
            together[name].append(({one for one in parts if one[0] != "!"}, {one[1:] for one in parts if one[0] == "!"}))
    return dict(one.split(" = ") for one in _COMMA.split(table["spelling"])), patterns, classes, together


def plain_harm(reply: str) -> Literal["", "insult", "danger"]:
    spelling, patterns, classes, together = _rules()
    text = _LEFT_OUT.sub(" ", reply.lower().translate(_ASCII))
    if not spelling.keys().isdisjoint(_WORD.findall(text)):
        text = _WORD.sub(lambda word: spelling.get(word[0], word[0]), text)
    sentences = [(words.strip(" ,'"), "?" in mark) for words, mark in _SENTENCE.findall(text)]
    parts = [[part.end() for part in patterns["part"].finditer(words)] for words, _ in sentences]

    def found(name: str, guard: str = "") -> bool:
        for (words, question), starts in zip(sentences, parts, strict=True):
            begins = [patterns[f"{name} begins"].match(words, start) for start in starts]
            for hit in filter(None, [patterns[name].search(words), *begins]):
                part = words.rfind(",", 0, hit.start()) + 1
                if not guard or not (question or patterns[guard].search(words, part, hit.start())):
                    return True
        return False

    def present(words: str) -> set[str]:
        return {name for word in _WORD.findall(words) for name in classes.get(word, ())}

    def combined(name: str, has: set[str]) -> bool:
        return any(needed <= has and not barred & has for needed, barred in together[name])

    has = present(text)
    if found("danger") or combined("danger", has):
        return "danger"
    if found("guarded_danger", "before") and not patterns["care"].search(text):
        return "danger"
    if found("insult"):
        return "insult"
    if patterns["kind"].search(text):
        return ""
    bare = found("bare_insult", "before_insult") and not patterns["third"].search(text)
    if bare or found("guarded_insult", "before_insult") or combined("insult", has):
        return "insult"
    alone = [present(words + " ?" * question) for words, question in sentences] if len(sentences) > 1 else [has]
    return "insult" if any(combined("sentence_insult", one) for one in alone) else ""
