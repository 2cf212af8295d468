"""How a baseline reads a dialogue, and how it picks a phrase.

Covers clauses turned to the second person, things and people named, what the system prompt says about the baseline's own role,
and picking a phrase that was not used yet. Does not cover replies (`general`, `managing`).
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.core.dialogue import Message

__all__ = ["PAST", "Context", "Pick", "clauses_of", "fill", "phrases", "read_context", "second_person", "section", "things_of"]

_SWAP = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "me": "you", "my": "your",
    "mine": "yours", "myself": "yourself", "we": "you", "we're": "you're", "we've": "you've", "we'd": "you'd",
    "we'll": "you'll", "us": "you", "our": "your", "ours": "yours", "ourselves": "yourselves", "am": "are",
}  # fmt: skip
_LEADS = re.compile(
    r"^(?:(?:and|but|so|because|then|well|anyway|now|though|also|or|plus|okay|ok|yeah|yes|no|ha|oh|ah|right|hm|mm|wait|look|"
    r"funny thing is|of course|the thing is|what i haven't told anyone is that|i think|i guess|i mean|i keep thinking that|"
    r"i suppose)\b[,:]?\s+)+",
    re.IGNORECASE,
)
_ADDRESSES = re.compile(r"\b(you|your|yours|yourself|you're|you've|you'd|you'll)\b", re.IGNORECASE)
PAST = re.compile(
    r"^(?:\S+\s){1,3}?(was|were|had|did|didn't|wasn't|went|got|said|told|knew|thought|came|saw|took|gave|kept|sat|stood|ran|made|felt|"
    r"left|found|heard|held|lost|paid|sent|sold|wrote|brought|bought|slept|ate|drove|spoke|fell|began|woke|wore|cut|\w{3,}ed)\b"
)
_VERBS = re.compile(
    r"\b(am|is|are|was|were|be|been|has|have|had|do|does|did|don't|didn't|doesn't|isn't|wasn't|can|can't|could|couldn't|will|won't|would|"
    r"wouldn't|should|might|must|go|goes|went|get|gets|got|say|says|said|tell|tells|told|know|knows|knew|think|thinks|thought|come|comes|"
    r"came|see|saw|take|takes|took|give|gives|gave|keep|keeps|kept|sit|sat|stand|stood|run|ran|make|makes|made|put|puts|want|wants|need|"
    r"needs|feel|feels|felt|leave|left|find|found|hear|heard|hold|held|lose|lost|pay|paid|send|sent|sell|sold|write|wrote|read|bring|"
    r"brought|buy|bought|teach|taught|sleep|slept|eat|ate|drive|drove|speak|spoke|fall|fell|let|lets|cut|hit|shut|set|cost|knows|lives|"
    r"works|calls|asks|sends|stands|talks|looks|cries|\w{3,}ed)\b|\b(i|you|he|she|they|we|it|that|who)['](m|s|re|ve|d|ll)\b",
    re.IGNORECASE,
)


def second_person(clause: str) -> str:
    """A first-person clause turned to "you", lower-cased at its start unless it starts with a name.

    >>> second_person("I was sure my sister had told me everything")
    'you were sure your sister had told you everything'
    >>> second_person("Rubén says I'm strong")
    "Rubén says you're strong"
    """
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*|[\W\d_]+", clause.replace("’", "'"))
    out: list[str] = []
    after_i = False
    for word in words:
        low = word.lower()
        if not word[0].isalpha():
            out.append(word)
            continue
        if after_i and low in ("was", "wasn't"):
            out.append("were" if low == "was" else "weren't")
            after_i = False
            continue
        out.append(_SWAP.get(low, word))
        # an adverb may stand between subject and verb: "I never was"
        after_i = low == "i" or (after_i and low in ("never", "always", "just", "only", "really", "still", "also"))
    text = "".join(out).strip()
    first = clause.split()[0] if clause.split() else ""
    if (
        first.lower().strip(",.'") in _words("subjects")
        or first in _words("not_names")
        or first.split("'")[0] in _words("not_names")
    ):
        text = text[:1].lower() + text[1:]
    return text


_CUES = {"(Nobody has spoken yet. You begin.)"}  # stands for the first message where the policy opens (`episode.YOU_BEGIN`)


class Context(NamedTuple):
    """The dialogue so far, as a baseline reads it."""

    last: str
    """The other person's last message; empty before the first."""
    messages: tuple[str, ...]
    """The other person's messages."""
    replies: tuple[str, ...]
    """The baseline's own."""
    clauses: tuple[str, ...]
    """Clauses of the last message, turned to "you", best first."""
    facts: tuple[str, ...]
    """Clauses of earlier messages, latest first."""
    things: tuple[str, ...]
    people: tuple[str, ...]
    name: str = ""
    """The baseline's own name, where the system prompt gives one; likewise its situation and what it knows."""
    background: str = ""
    knows: tuple[str, ...] = ()

    @property
    def turn(self) -> int:
        """Replies so far."""
        return len(self.replies)


class Pick:
    """Picks phrases by a hash of name, seed, turn and first message; repeats a wording only when no other is left."""

    def __init__(self, context: Context, name: str, seed: int) -> None:
        self._used = " ".join(context.replies).lower()
        self._key = f"{name}|{seed}|{context.turn}|{context.messages[0] if context.messages else ''}"

    def one(self, phrases: Sequence[str], *, otherwise: Sequence[str] = ()) -> str:
        """One of the phrases; one of `otherwise` where all of them were used."""
        fresh = [p for p in phrases if _fixed_part(p) not in self._used]
        fresh = fresh or [p for p in otherwise if _fixed_part(p) not in self._used] or list(phrases)
        number = int(hashlib.sha256(f"{self._key}|{len(phrases)}|{phrases[0]}".encode()).hexdigest()[:8], 16)
        return fresh[number % len(fresh)]


def _fixed_part(phrase: str) -> str:
    """The longest part of a phrase without blanks."""
    return max(re.split(r"\{\w+\}", phrase), key=len).strip(" .,:?").lower()


@functools.lru_cache(maxsize=4096)
def clauses_of(message: str, *, verbatim: bool = False) -> tuple[str, ...]:
    """First-person clauses of a message, best first, turned to "you", or `verbatim` in quotation marks."""
    ranked: list[tuple[float, int, str]] = []
    text = message.replace("’", "'")
    order = 0
    for sentence in re.split(r"(?<=[.!?…])\s+", text):
        if sentence.rstrip().endswith("?"):
            continue
        whole = sentence.strip().rstrip(".!…")
        pieces = [whole] if len(whole.split()) <= 13 else []
        pieces += re.split(r"\s*[;:—]\s*|,\s+(?=(?:and|but|so|because|then|i|he|she|they|we|my)\b)", whole, flags=re.IGNORECASE)
        for piece in pieces:
            order += 1
            clause = _LEADS.sub("", piece.strip(" ,\"“”'"))
            words = clause.split()
            if not 4 <= len(words) <= 15 or _ADDRESSES.search(clause) or re.search(r"[\"“”()]|'\w+'", clause):
                continue
            first = words[0].lower()
            named = words[0][:1].isupper() and words[0].isalpha() and words[0] not in _words("not_names")
            if first not in _words("subjects") and not named:
                continue
            if not _VERBS.search(" ".join(words[1:6])) and not re.match(r"(i|he|she|they|we)'", first):
                continue
            if clause.count(",") > 1 or words[-1].lower() in ("and", "but", "the", "a", "of", "to", "that", "because", "with"):
                continue
            score = (
                2.0 * (first in ("i", "i've", "i'm", "my", "we"))
                + 1.0 * (first in ("she", "he", "they", "her", "his"))
                + 0.1 * len(words)
            )
            ranked.append((-score, order, clause))
    unique: dict[str, None] = {}
    for _, _, clause in sorted(ranked):
        if not any(clause in other or other in clause for other in unique):
            unique[clause] = None
    return tuple(_quoted(clause) if verbatim else second_person(clause) for clause in unique)


def _quoted(text: str) -> str:
    return f'"{text.rstrip(".")}"'


def things_of(message: str, *, verbatim: bool = False) -> list[str]:
    """Things named with an article or a possessive, turned to "you" or in quotation marks, longest first."""
    things: dict[str, None] = {}
    for match in re.finditer(
        r"\b(my|the|our)\s+([a-zà-ÿ-]{3,})(?=[\s.,;!?…]|$)(?!\s+(?:[a-z]+\s+)?(?:of|office|work)\b)", message
    ):
        article, noun = match.groups()
        if noun in _words("not_things") or re.fullmatch(_any("kin"), noun) or re.search(r"(ly|ing|est|ed|th)$", noun):
            continue
        things[_quoted(match[0]) if verbatim else f"{'the' if article == 'the' else 'your'} {noun}"] = None
    return sorted(things, key=len, reverse=True)


def _people(messages: Sequence[str]) -> list[str]:
    """People named, latest first: proper names inside a sentence, and kin."""
    people: dict[str, None] = {}
    for message in reversed(messages):
        text = message.replace("’", "'")
        for match in re.finditer(rf"\b(?:my|our)\s+(?:[a-z]+\s+)?({_any('kin')})\b", text):
            people[f"your {match.group(1)}"] = None
        for match in re.finditer(rf"\b([A-ZÀ-Þ][a-zà-ÿ]{{2,}})\b(?=(?:\s+(?:\w+ly\s+)?(?:{_any('name_verbs')})\b)|'s\b)", text):
            if match.group(1) not in _words("not_names"):
                people[match.group(1)] = None
    return list(people)


def read_context(messages: Sequence[Message], *, verbatim: bool = False) -> Context:
    """The context of a reply; with `verbatim`, clauses and things are quoted instead of turned to "you"."""
    received = tuple(m.content for m in messages if m.role == "user" and m.content not in _CUES)
    replies = tuple(m.content for m in messages if m.role == "assistant")
    last = received[-1] if received else ""
    facts = [clause for message in reversed(received[:-1]) for clause in clauses_of(message, verbatim=verbatim)]
    role = next((m.content for m in messages if m.role == "system"), "")
    knows = re.findall(r"^- (.+)$", section(role, "know"), re.MULTILINE)
    named = re.match(r"You are ([^:\n]+):", role)
    return Context(
        last,
        received,
        replies,
        clauses_of(last, verbatim=verbatim),
        tuple(facts),
        tuple(things_of(last, verbatim=verbatim)),
        tuple(_people(received)),
        named[1] if named else "",
        section(role, "situation"),
        tuple(knows),
    )


def section(text: str, word: str) -> str:
    """The text under the first second-level heading of a prompt that contains the word; empty without one."""
    match = re.search(rf"^## [^\n]*\b{word}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


@functools.cache
def _words(name: str) -> frozenset[str]:
    return frozenset(str(phrases()["words"][name]).split())


@functools.cache
def _any(name: str) -> str:
    """The words of a list as a regular-expression alternation."""
    return "|".join(sorted(_words(name), key=len, reverse=True))


@functools.cache
def phrases() -> Mapping[str, Any]:
    """`phrases.toml`."""
    return tomllib.loads((resources.files(__package__) / "phrases.toml").read_text(encoding="utf-8"))


def fill(phrase: str, **values: str) -> str:
    """The phrase with its blanks filled; the blank `{R}` is `r` with a capital."""
    values |= {name.capitalize(): value[:1].upper() + value[1:] for name, value in values.items()}
    return re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)], phrase)
