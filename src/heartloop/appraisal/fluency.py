"""Whether a sentence is one that a person would say.

Covers word salad, keyword soup, strings of cues, repeated words, text without a verb. Does not cover style or tact:
a clumsy sentence is a sentence. Each sentence is judged by itself, with the one before it, in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from heartloop.appraisal.grammar import has_finite_verb, is_question
from heartloop.appraisal.lexicon import class_set, classes_of, data, is_function_word
from heartloop.appraisal.words import Sentence, stem

__all__ = ["broken_sentences", "flow", "lacks_english"]

_OTHER_KINDS = ("modal", "negation", "wh", "det", "possessive", "subject", "object", "have", "do", "be", "preposition")
_SHARED = class_set("not_only_english")
_NEEDS_NOUN = class_set("needs_noun")
_NEVER_NOUN = class_set("never_noun")
_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ANY_LETTER = re.compile(r"[^\W\d_]")
_ROW_OF_MARKS = re.compile(r"(?:[,;:]\s*){4}|(?:[?!]\s*){8}")
"""More than anybody writes; a policy in training did."""


@lru_cache(maxsize=1)
def _order() -> tuple[dict[str, int], list[list[float]]]:
    table = data("lexicon.toml")["order"]
    kinds = {kind: number for number, kind in enumerate(table["kinds"].split())}
    return kinds, [[table["lowest"] + table["step"] * int(level) for level in row] for row in table["rows"]]


@lru_cache(maxsize=20_000)
def _kind(word: str) -> int:
    """Which row of the table of order a word belongs to: frequent function words have one each, others go by class or ending."""
    kinds, _ = _order()
    if word in kinds:
        return kinds[word]
    classes = classes_of(word)
    if word[0].isdigit() or "number" in classes:
        return kinds["#"]
    for name in (*_OTHER_KINDS, "coordinator", "subordinator"):
        if name in classes:
            return kinds.get("@" + name, kinds["~"])
    if "function" in classes:
        return kinds["@fn"]
    if word.endswith("ing") and len(word) > 4:
        return kinds["~ing"]
    if word.endswith("ly") and len(word) > 4:
        return kinds["~ly"]
    if "past" in classes:
        return kinds["~past"]
    if word.endswith("ed") and len(word) > 4:
        return kinds["~ed"]
    if {"distress", "warmth", "praise"} & classes:
        return kinds["~adj"]
    if "base_verb" in classes:
        return kinds["~vb"]
    return kinds["~s"] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else kinds["~"]


class _Order(NamedTuple):
    flow: float
    clashes: int


@lru_cache(maxsize=4_000)
def _order_of(clauses: tuple[tuple[str, ...], ...]) -> _Order:
    """Mean mutual information of neighbours, and how many neighbours hardly ever stand together (`the your`, `in but`)."""
    kinds, rows = _order()
    lowest = float(data("lexicon.toml")["order"]["lowest"])
    before = kinds["^"]
    total = 0.0
    steps = clashes = 0
    for number, clause in enumerate(clauses):
        for here in (*map(_kind, clause), kinds["$"] if number == len(clauses) - 1 else kinds["|"]):
            level = rows[before][here]
            total += level
            steps += 1
            clashes += level <= lowest
            before = here
    return _Order(total / steps if steps else 0.0, clashes)


def flow(sentence: Sentence) -> float:
    """How much its words stand in the order of English: the mean mutual information of neighbours, in nats.

    Above 0.2 for nearly every sentence of speech; below 0 for most shuffled ones.
    """
    return _order_of(sentence.clauses).flow


def _is_content(word: str) -> bool:
    return not is_function_word(word)


def _longest_run(words: Sequence[str]) -> int:
    """The longest row of matter words with no grammar between them; numbers do not count."""
    longest = run = 0
    for word in words:
        run = run + 1 if _is_content(word) and "number" not in classes_of(word) and not word[0].isdigit() else 0
        longest = max(longest, run)
    return longest


def _longest_list(sentence: Sentence) -> int:
    """The longest row of short members, joined by commas, and, or, of which none has a verb."""
    longest = run = 0
    for clause in sentence.clauses:
        member: list[str] = []
        for word in (*clause, ""):
            if word in {"and", "or", "plus", ""}:
                if member:
                    bare = len(member) <= 3 and sum(map(_is_content, member)) <= 2 and not has_finite_verb(tuple(member))
                    run = run + 1 if bare else 0
                    longest = max(longest, run)
                member = []
            else:
                member.append(word)
    return longest


def _is_bare(sentence: Sentence) -> bool:
    """Two words or fewer, all matter, and none of those that make a natural utterance."""
    words = sentence.words
    return (
        len(words) <= 2
        and not is_question(sentence)
        and all(_is_content(w) and "stock_fragment" not in classes_of(w) and "interjection" not in classes_of(w) for w in words)
    )


def _is_broken(sentence: Sentence, after_broken: bool) -> bool:
    limits = data("lexicon.toml")["speech"]
    words = sentence.words
    if not words or _ROW_OF_MARKS.search(sentence.text):
        return True
    count = len(words)
    matter = sum(map(_is_content, words))
    if max((_longest_run(clause) for clause in sentence.clauses), default=0) >= limits["matter_in_a_row"]:
        return True
    if _longest_list(sentence) >= limits["members_of_a_list"]:
        return True
    if count >= 12 and len(set(words)) / count < limits["least_variety"]:
        return True
    if count >= 5 and matter >= 5:
        stems = [stem(w) for w in words if _is_content(w)]
        if max(stems.count(s) for s in set(stems)) > max(2, 0.4 * len(stems)):
            return True
    if any(a in _NEEDS_NOUN and b in _NEVER_NOUN for clause in sentence.clauses for a, b in pairwise(clause)):
        return True
    verb = any(has_finite_verb(clause) for clause in sentence.clauses)
    if not verb:
        stock = any({"stock_fragment", "interjection"} & classes_of(w) for w in words)
        if count >= 3 and matter == count and not stock:
            return True
        if count >= limits["longest_without_verb"] or (count >= 7 and matter / count > limits["dense_without_verb"]):
            return True
    if count >= 8 and matter / count > limits["dense"]:
        return True
    if count >= 5:
        least = limits["least_flow"] if count >= 8 else limits["least_flow_short"]
        clashes = limits["clashes"]
        if sentence.asks:  # the corpus asks seldom, so its table knows questions less well: "am I" looks like a clash
            least = min(least, limits["least_flow_question"])
            clashes += 1
        if _order_of(sentence.clauses).clashes >= clashes and flow(sentence) < limits["least_flow_with_clashes"]:
            return True
        return flow(sentence) < float(limits["least_flow_after_broken"] if after_broken else least)
    return after_broken and (not verb or flow(sentence) < float(limits["least_flow_after_broken"]))


def broken_sentences(sentences: Sequence[Sentence]) -> tuple[bool, ...]:
    """Which sentences of a reply are broken. What follows never changes what came before, bar a row of single words."""
    found: list[bool] = []
    bare = 0
    for number, sentence in enumerate(sentences):
        found.append(_is_broken(sentence, bool(found) and found[-1]))
        bare = bare + 1 if _is_bare(sentence) else 0
        if bare >= 3:
            found[number - bare + 1 :] = [True] * bare
    return tuple(found)


def lacks_english(text: str) -> bool:
    """Whether a text is mostly not English: another script, or hardly any English function words in eight or more words.

    >>> lacks_english("我在这里，慢慢说。"), lacks_english("Das tut mir wirklich leid, erzähl mir bitte mehr davon.")
    (True, True)
    >>> lacks_english("Ay, mamá. You stood there the whole night?"), lacks_english("ok")
    (False, False)
    """
    text = text[:4_000]
    letters = _ANY_LETTER.findall(text)
    if not letters:
        return False
    if sum(c.isascii() for c in letters) < 0.6 * len(letters):
        return True
    words = _LATIN.findall(text.lower().replace("’", "'"))
    if len(words) < 8:
        return False
    english = sum(is_function_word(w) or "'" in w for w in words if w not in _SHARED)
    # a short line may name many things and still be English; only one without any English grammar is not
    return english == 0 if len(words) < 20 else bool(english / len(words) < data("lexicon.toml")["speech"]["least_english"])
