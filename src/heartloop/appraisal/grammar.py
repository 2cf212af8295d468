"""How a sentence is built: does it ask, tell, urge, exclaim; who is in it; has it a verb.

Covers the features that the rules of `rules.toml` name in `when`. Does not cover wording (`phrases`), nor whether the
sentence is one that a person would say (`fluency`). No parser: word classes, order and endings are enough for the
question asked here, and stay fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from heartloop.appraisal.lexicon import class_set, classes_of, is_function_word, weight_of
from heartloop.appraisal.words import Sentence, stem, words_of

__all__ = ["features_of", "has_finite_verb", "is_open_question", "is_question", "overlap"]

_WH = class_set("wh")
_INVERTING = class_set("inverting")
_SUBJECT = class_set("asked_subject")
_FIRST = class_set("first_person")
_SECOND = class_set("second_person")
_THIRD = class_set("third_person")
_LEADING = class_set("leading")
_PRESENT = class_set("present_verb")
_GUESSES = class_set("guess")
_OPENS_IT = frozenset({"if", "whether", "or", "right", "no", "yes"})
_OPENS_REQUEST = frozenset({
    "if", "when", "before", "after", "once", "since", "for", "next", "tonight", "tomorrow", "instead", "first", "please",
})  # fmt: skip
_HAS = {
    name: f"has:{name}" for name in (
        "distress", "warmth", "praise", "outrage", "relief", "professional", "science", "official", "hedge", "cause", "idea",
        "deed", "quality", "time_comfort", "people",
    )
}  # fmt: skip


def _is(word: str, name: str) -> bool:
    return name in classes_of(word)


def _head(words: Sequence[str]) -> int:
    """Where a clause begins once `oh`, `well`, `and so` have been said."""
    i = 0
    while i < len(words) - 1 and i < 3 and _is(words[i], "interjection"):
        i += 1
    return i


def _inverted(words: Sequence[str]) -> bool:
    i = _head(words)
    return len(words) > i + 2 and words[i] in _INVERTING and (words[i + 1] in _SUBJECT or _is(words[i + 1], "possessive"))


def is_question(sentence: Sentence) -> bool:
    """Whether it asks: a question mark behind anything but a statement about oneself, or the word order of a question."""
    if sentence.asks:
        return not _tells(sentence)
    if sentence.exclaims or not sentence.clauses:
        return False
    words = sentence.clauses[0]
    i = _head(words)
    if len(words) > i + 3 and words[i] in _WH:
        return words[i + 1] in _INVERTING and (words[i + 2] in _SUBJECT or _is(words[i + 2], "possessive"))
    return _inverted(words) and not sentence.text.rstrip().endswith((".", ":", ","))


def _tells(sentence: Sentence) -> bool:
    """Whether it says something of the speaker and asks nothing, a question mark behind it or not: "I'll think of it today?"

    A guess ("I take it you slept?"), a wh-word, `if`, `or` or a tag makes it a question. A policy in training found that a mark
    was enough.
    """
    first = sentence.clauses[0] if sentence.clauses else ()
    i = _head(first)
    if len(first) < i + 3 or first[i] != "i" or first[i + 1] in _GUESSES:
        return False
    return not _has_tag(sentence) and not (_WH | _OPENS_IT) & set(sentence.words) and not any(map(_inverted, sentence.clauses))


def is_open_question(sentence: Sentence) -> bool:
    """Whether yes or no would not answer it: it asks who, what, how, or between two things.

    Such a question may come late in its sentence ("And inside, while you smiled, what was it like?").
    """
    if not is_question(sentence):
        return False
    for words in sentence.clauses:
        i = _head(words)
        rest = words[i:]
        if not rest:
            continue
        if rest[0] in _WH and rest[:2] not in (("why", "not"), ("how", "about"), ("what", "about"), ("what", "if")):
            return True
        if len(rest) > 2 and rest[0] in {"of", "in", "on", "at", "to", "for", "from", "with", "by"} and rest[1] in _WH:
            return True
    return any(_inverted(words) for words in sentence.clauses) and "or" in sentence.words


def _has_tag(sentence: Sentence) -> bool:
    """Whether it is a statement that only asks to be confirmed: `..., is it?`, `..., don't you?`."""
    if not sentence.asks or len(sentence.clauses) < 2:
        return False
    *body, tag = sentence.clauses
    short = 2 <= len(tag) <= 3 and tag[0] in _INVERTING and tag[-1] in _SUBJECT
    return short and not _inverted(body[0]) and body[0][_head(body[0])] not in _WH


@lru_cache(maxsize=8_000)
def has_finite_verb(words: tuple[str, ...]) -> bool:
    """Whether some word can carry the sentence: an auxiliary, a past form, a verb after its subject, a request's first word."""
    if not words:
        return False
    i = _head(words)
    if _is(words[i], "base_verb") or any(w in _LEADING and _is(v, "base_verb") for w, v in pairwise(words)):
        return True
    for before, word in zip(("", *words), words, strict=False):
        classes = classes_of(word)
        if "finite" in classes:
            return True
        if before in _SUBJECT and before != "this" and not is_function_word(word) and not word.endswith(("ing", "ly")):
            return True
        if before in {"who", "which", "that"} and not is_function_word(word):
            return True
        if _is(before, "det") or _is(before, "possessive"):
            continue
        if "past" in classes or (word.endswith("ed") and len(word) > 4):
            return True
        if before and not is_function_word(before) and word.endswith("s") and _is(word[:-1], "base_verb"):
            return True
        if before and not is_function_word(before) and before.endswith("s") and _is(word, "base_verb"):
            return True
        if before.endswith("s") and not is_function_word(before) and not is_function_word(word) and not word.endswith(_NOT_PLAIN):
            return True
    if any(w.endswith("s") and (_is(w[:-1], "base_verb") or _is(w[:-2], "base_verb") or w in _PRESENT) for w in words):
        return True
    return any(
        before.endswith("s")
        and not before.endswith("ss")
        and not is_function_word(before)
        and (_is(word, "det") or _is(word, "object"))
        for before, word in pairwise(words[1:])
    )


_NOT_PLAIN = ("s", "ing", "ly", "ed", "'s")


def _imperative(sentence: Sentence) -> tuple[bool, bool]:
    """Whether a clause is a request, and whether it is one about the speaker (`tell me`)."""
    for number, words in enumerate(sentence.clauses):
        i = _head(words)
        while i < len(words) - 1 and words[i] in _LEADING:
            i += 1
        if words[i : i + 2] == ("do", "not") and len(words) > i + 2:
            i += 2
        elif words[i] == "never" and len(words) > i + 1:
            i += 1
        if i >= len(words):
            continue
        word, after = words[i], words[i + 1] if len(words) > i + 1 else ""
        if not _is(word, "base_verb") or _is(after, "gerund_noun") or (word in {"do", "have"} and after in _SUBJECT):
            continue
        if number and not after:
            continue
        if number and not _opens_request(sentence.clauses[number - 1]) and not (_is(after, "det") or _is(after, "possessive")):
            continue
        return True, any(w in {"me", "us"} for w in words[i + 1 : i + 5])
    return False, False


def _opens_request(clause: Sequence[str]) -> bool:
    """Whether what stands before the comma leads up to a request: `if she is late, ...`, `for now, ...`, a name."""
    return clause[0] in _OPENS_REQUEST or len(clause) <= 2


@lru_cache(maxsize=64)
def _stems(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem(w) for w in words if weight_of(w) > 0)


def overlap(words: Sequence[str], told: Sequence[str]) -> float:
    """How much of what was told the words take up, as a sum of word weights."""
    there = _stems(tuple(told))
    seen: dict[str, float] = {}
    for word in words:
        key = stem(word)
        if key in there:
            seen[key] = max(seen.get(key, 0.0), weight_of(word))
    return sum(seen.values())


def features_of(sentence: Sentence, context: str = "") -> frozenset[str]:
    """The features of a sentence by name, as rules name them in `when`; `context` is what the person said last."""
    found: set[str] = set()
    words = set(sentence.words)
    if _has_tag(sentence):
        found.add("tag")
    elif is_question(sentence):
        found.add("question")
        if is_open_question(sentence):
            found.add("open")
    if sentence.exclaims:
        found.add("exclaims")
    urges, about_me = _imperative(sentence)
    if urges and "question" not in found:
        found.add("urges_me" if about_me else "urges")
    if _FIRST & words:
        found.add("first")
    if {"i", "me", "my", "mine", "myself"} & words:
        found.add("i")
    if _SECOND & words:
        found.add("you")
    if _THIRD & words:
        found.add("they")
    if not (_FIRST | _SECOND) & words:
        found.add("general")
    if {"we", "us", "our"} & words:
        found.add("we")
    if re.search(" (?:i|we) (?:will|shall|am going to) ", sentence.line):
        found.add("promises")
    if re.search(" (?:will|is going to|are going to) ", sentence.line):
        found.add("future")
    if re.search(" (?:could|would|might|should) ", sentence.line):
        found.add("modal")
    if {"not", "never", "no", "nobody", "nothing", "without", "none"} & words:
        found.add("negated")
    pairs = list(pairwise(sentence.words))
    if any(a == "i" and (_is(b, "past") or b.endswith("ed")) for a, b in pairs):
        found.add("i_past")
    if any(_is(w, "past") or (w.endswith("ed") and len(w) > 4) for w in words):
        found.add("past")
    if any(a == "you" and (_is(b, "past") or b.endswith("ed")) for a, b in pairs):
        found.add("you_past")
    for clause in sentence.clauses:
        i = _head(clause)
        rest = clause[i:]
        if (
            len(rest) > 1
            and "question" not in found
            and (
                (rest[0] == "how" and rest[1] not in _INVERTING and rest[1] not in {"you", "to", "i"})
                or rest[:2] in (("what", "a"), ("what", "an"))
            )
        ):
            found.add("how_exclaim")
    classes = [classes_of(w) for w in sentence.words]
    found.update(_HAS[name] for name in frozenset().union(*classes) & _HAS.keys())
    if len(sentence.words) <= 4:
        found.add("short")
    if len(sentence.words) >= 16:
        found.add("long")
    if not has_finite_verb(sentence.words):
        found.add("verbless")
    if sentence.words and sentence.words[_head(sentence.words)].endswith("ing") and len(sentence.words) > 3:
        found.add("starts_ing")
    shared = overlap(sentence.words, words_of(context)) if context else 0.0
    if shared >= 0.3:
        found.add("bound")
    if shared >= 1.3:
        found.add("well_bound")
    if sum("relief" in c for c in classes) >= 2:
        found.add("much_relief")
    if sum("official" in c for c in classes) >= 2:
        found.add("much_official")
    return frozenset(found)
