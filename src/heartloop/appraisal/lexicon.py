"""Word classes: what kind of word this is, which words mean the same, how much a word tells.

Covers loading `lexicon.toml` and looking words up. Does not cover phrases (`phrases`) nor inflection (`words`).
A class entry that ends in `*` stands for every word with that beginning.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources
from typing import Any

__all__ = ["class_set", "class_words", "classes_of", "data", "irregular", "is_function_word", "synonyms", "weight_of"]


@lru_cache(maxsize=8)
def data(name: str) -> dict[str, Any]:
    """One of the package's TOML files by name."""
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _classes() -> dict[str, tuple[str, ...]]:
    return {name: tuple(entry["words"].split()) for name, entry in data("lexicon.toml")["class"].items()}


def class_words(name: str) -> tuple[str, ...]:
    """The entries of a word class; `@other` inside a class has been opened."""
    found: list[str] = []
    for word in _classes()[name]:
        found.extend(class_words(word[1:]) if word.startswith("@") else (word,))
    return tuple(found)


def class_set(name: str) -> frozenset[str]:
    """The words of a class in which no word is cut short."""
    return frozenset(class_words(name))


@lru_cache(maxsize=1)
def _index() -> tuple[dict[str, set[str]], dict[str, list[tuple[str, str]]]]:
    exact: dict[str, set[str]] = {}
    begun: dict[str, list[tuple[str, str]]] = {}
    for name in _classes():
        for word in class_words(name):
            if word.endswith("*"):
                begun.setdefault(word[:3], []).append((word[:-1], name))
            else:
                exact.setdefault(word, set()).add(name)
    return exact, begun


@lru_cache(maxsize=20_000)
def classes_of(word: str) -> frozenset[str]:
    """All classes a word belongs to."""
    exact, begun = _index()
    found = set(exact.get(word, ()))
    found.update(name for beginning, name in begun.get(word[:3], ()) if word.startswith(beginning))
    return frozenset(found)


@lru_cache(maxsize=20_000)
def is_function_word(word: str) -> bool:
    """Whether a word belongs to the grammar of a sentence rather than to its matter."""
    return "function" in classes_of(word)


@lru_cache(maxsize=1)
def _forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for row in data("lexicon.toml")["irregular"]["rows"]:
        base, *others = row.split()
        forms.update(dict.fromkeys(others, base))
    return forms


def irregular(word: str) -> str:
    """The base of an irregular form (`slept`, `children`, `four`), else the word itself."""
    return _forms().get(word, word)


@lru_cache(maxsize=1)
def synonyms() -> dict[str, str]:
    """Every word of a group of near synonyms with the first of its group."""
    shared: dict[str, str] = {}
    for row in data("lexicon.toml")["synonym"]["rows"]:
        first, *others = row.split()
        shared.update(dict.fromkeys((first, *others), first))
    return shared


@lru_cache(maxsize=20_000)
def weight_of(word: str) -> float:
    """How much it tells, in [0, 1], to share this word: nothing for `thing`, little for `mother`, much for `marquee`."""
    weights = data("lexicon.toml")["weight"]
    classes = classes_of(word)
    if word[:1].isdigit():
        return float(weights["small_number"] if len(word) == 1 else weights["number"])
    if "number" in classes:
        return float(weights["small_number"])
    if "vague" in classes or "function" in classes:
        return 0.0
    return float(weights["everyday"] if "everyday" in classes else weights["particular"])
