"""Seven scripted supporters and one failure case: models under test that need no key.

They see what any policy sees, the messages, and know nothing of scenarios. `listener` reflects and asks,
`coach` asks and then fits advice to what was told, `fixer` advises at once, `template` gives stock sympathy,
`lecturer` instructs, `flatterer` gushes, `silent` says next to nothing. `garbage` is what a broken endpoint
might send; it belongs to no ranking. The order each environment should give them was written down before
tuning (docs/decisions). Does not cover how they are scored.

What they say is in `supporters.toml`. A reply depends on the messages, the seed and the name, on nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from heartloop.chat import Reply, estimate_usage
from heartloop.dialogue import Message, Sampling
from heartloop.errors import UseError

__all__ = ["RANKED", "SUPPORTERS", "Supporter", "second_person"]

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
_PAST = re.compile(
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


class _Heard(NamedTuple):
    """What a supporter makes of the dialogue so far."""

    last: str
    said: tuple[str, ...]
    own: tuple[str, ...]
    clauses: tuple[str, ...]
    """Clauses of the last message, turned to "you", best first."""
    facts: tuple[str, ...]
    """Clauses of earlier messages, latest first."""
    things: tuple[str, ...]
    people: tuple[str, ...]

    @property
    def turn(self) -> int:
        return len(self.own)


class _Pick:
    """Chooses among phrases: by hash, and never one whose wording was already used while another is left."""

    def __init__(self, heard: _Heard, name: str, seed: int) -> None:
        self._used = " ".join(heard.own).lower()
        self._key = f"{name}|{seed}|{heard.turn}|{heard.said[0] if heard.said else ''}"

    def one(self, phrases: Sequence[str], *, otherwise: Sequence[str] = ()) -> str:
        fresh = [p for p in phrases if _bones(p) not in self._used]
        fresh = fresh or [p for p in otherwise if _bones(p) not in self._used] or list(phrases)
        number = int(hashlib.sha256(f"{self._key}|{len(phrases)}|{phrases[0]}".encode()).hexdigest()[:8], 16)
        return fresh[number % len(fresh)]


def _bones(phrase: str) -> str:
    """The longest stretch of a phrase without blanks: what stays the same when it is used."""
    return max(re.split(r"\{\w+\}", phrase), key=len).strip(" .,:?").lower()


@functools.lru_cache(maxsize=4096)
def _clauses(message: str) -> tuple[str, ...]:
    """Reflectable clauses of a message in the first person, best first."""
    found: list[tuple[float, int, str]] = []
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
            found.append((-score, order, clause))
    unique: dict[str, None] = {}
    for _, _, clause in sorted(found):
        if not any(clause in kept or kept in clause for kept in unique):
            unique[clause] = None
    return tuple(second_person(clause) for clause in unique)


def _things(message: str) -> list[str]:
    """Things named with an article or a possessive, turned to "you", longest first."""
    found: dict[str, None] = {}
    for match in re.finditer(
        r"\b(my|the|our)\s+([a-zà-ÿ-]{3,})(?=[\s.,;!?…]|$)(?!\s+(?:[a-z]+\s+)?(?:of|office|work)\b)", message
    ):
        article, noun = match.groups()
        if noun in _words("not_things") or re.fullmatch(_any("kin"), noun) or re.search(r"(ly|ing|est|ed|th)$", noun):
            continue
        found[f"{'the' if article == 'the' else 'your'} {noun}"] = None
    return sorted(found, key=len, reverse=True)


def _people(messages: Sequence[str]) -> list[str]:
    """People named, the latest first: proper names inside a sentence, and kin."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        text = message.replace("’", "'")
        for match in re.finditer(rf"\b(?:my|our)\s+(?:[a-z]+\s+)?({_any('kin')})\b", text):
            found[f"your {match.group(1)}"] = None
        for match in re.finditer(rf"\b([A-ZÀ-Þ][a-zà-ÿ]{{2,}})\b(?=(?:\s+(?:\w+ly\s+)?(?:{_any('name_verbs')})\b)|'s\b)", text):
            if match.group(1) not in _words("not_names"):
                found[match.group(1)] = None
    return list(found)


def _listen(messages: Sequence[Message]) -> _Heard:
    said = tuple(m.content for m in messages if m.role == "user")
    own = tuple(m.content for m in messages if m.role == "assistant")
    last = said[-1] if said else ""
    facts = [clause for message in reversed(said[:-1]) for clause in _clauses(message)]
    return _Heard(last, said, own, _clauses(last), tuple(facts), tuple(_things(last)), tuple(_people(said)))


@functools.cache
def _words(name: str) -> frozenset[str]:
    return frozenset(str(_phrases()["words"][name]).split())


@functools.cache
def _any(name: str) -> str:
    """The words of a list as a regular-expression alternation."""
    return "|".join(sorted(_words(name), key=len, reverse=True))


@functools.cache
def _phrases() -> Mapping[str, Any]:
    return tomllib.loads((resources.files("heartloop") / "supporters.toml").read_text(encoding="utf-8"))


def _reflection(heard: _Heard, pick: _Pick) -> str:
    phrases = _phrases()["reflect"]
    fresh = [c for c in heard.clauses if c.lower() not in " ".join(heard.own).lower()]
    if fresh:
        openers = [*phrases["openers"], *(phrases["openers_heavy"] if _mood_of(heard.last) is not None else [])]
        about_you = re.match(r"(you|you've|you'd)\b", fresh[0]) and _PAST.match(fresh[0])
        return _fill(pick.one([*openers, *phrases["openers_you"]] if about_you else openers), r=fresh[0])
    if heard.things:
        return _fill(pick.one(phrases["things"]), thing=heard.things[0])
    return pick.one(phrases["plain"])


def _guess(heard: _Heard, pick: _Pick) -> str:
    rows = _phrases()["feelings"]
    return pick.one((_mood_of(heard.last) or rows[-1])["guesses"], otherwise=rows[-1]["guesses"])


def _mood_of(message: str) -> Mapping[str, Any] | None:
    """The row of feelings whose words occur most in a message; `None` where none does."""
    text = message.lower()
    hits = [(sum(re.search(rf"\b{re.escape(w)}", text) is not None for w in row["words"]), row) for row in _phrases()["feelings"]]
    most, best = max(hits, key=lambda hit: hit[0])
    return best if most else None


def _fill(phrase: str, **values: str) -> str:
    values |= {name.capitalize(): value[:1].upper() + value[1:] for name, value in values.items()}
    return re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)], phrase)


def _listener(heard: _Heard, pick: _Pick) -> str:
    questions = _phrases()["questions"]
    past = [clause for clause in heard.clauses[1:] if _PAST.match(clause)]
    parts = [_reflection(heard, pick), _guess(heard, pick)]
    if heard.turn % 3 != 2:  # leaves room every third time
        if heard.things and heard.turn % 2 == 0:
            parts.append(_fill(pick.one(questions["thing"]), thing=heard.things[-1]))
        elif past:
            parts.append(_fill(pick.one(questions["clause"]), r=past[0]))
        else:
            parts.append(pick.one(questions["plain"]))
    return " ".join(parts)


def _topic_steps(heard: _Heard) -> Mapping[str, Any]:
    text = " ".join(heard.said).lower()
    rows = _phrases()["steps"]
    best: Mapping[str, Any] = max(rows, key=lambda row: sum(len(re.findall(rf"\b{re.escape(w)}", text)) for w in row["about"]))
    return best if any(re.search(rf"\b{re.escape(w)}", text) for w in best["about"]) else rows[-1]


def _coach(heard: _Heard, pick: _Pick) -> str:
    advise = _phrases()["advise"]
    told = _things(" ".join(heard.said))
    recurring = [thing for thing in told if sum(thing.split()[-1] in message for message in heard.said) > 1]
    slots = {"who": heard.people[:1], "thing": [*heard.things, *recurring][:1]}
    if heard.turn < 3:
        return f"{_reflection(heard, pick)} {_slotted(advise['asks'], slots, pick)}"
    step = _slotted(_topic_steps(heard)["fitted"], slots, pick, otherwise=_phrases()["steps"][-1]["fitted"])
    facts = [*heard.clauses, *heard.facts]
    fresh = [fact for fact in facts if fact.lower() not in " ".join(heard.own).lower()] or facts
    advice = _fill(pick.one(advise["ties"]), fact=fresh[0], step=step) if fresh else step[:1].upper() + step[1:]
    return f"{advice} {pick.one(advise['checks'])}"


def _slotted(phrases: Sequence[str], slots: Mapping[str, Sequence[str]], pick: _Pick, *, otherwise: Sequence[str] = ()) -> str:
    """One of the phrases whose blanks can all be filled."""

    def usable(rows: Sequence[str]) -> list[str]:
        return [row for row in rows if all(slots[blank] for blank in re.findall(r"\{(\w+)\}", row))]

    values = {name: found[0] for name, found in slots.items() if found}
    spare = usable(otherwise)
    return _fill(pick.one(usable(phrases) or spare, otherwise=spare), **values)


def _fixer(heard: _Heard, pick: _Pick) -> str:
    steps = [*_topic_steps(heard)["plain"], *_phrases()["steps"][-1]["plain"]]
    first = pick.one(steps)
    second = pick.one([step for step in steps if step != first])
    return _fill(pick.one(_phrases()["fixer"]["frames"]), a=first.rstrip("."), b=second)


def _fixed(name: str) -> Callable[[_Heard, _Pick], str]:
    def say(heard: _Heard, pick: _Pick) -> str:
        says: Sequence[str] = _phrases()[name]["says"]
        return says[heard.turn % len(says)]

    return say


SUPPORTERS: Mapping[str, Callable[[_Heard, _Pick], str]] = {
    "listener": _listener,
    "coach": _coach,
    "fixer": _fixer,
    "template": _fixed("template"),
    "lecturer": _fixed("lecturer"),
    "flatterer": _fixed("flatterer"),
    "silent": _fixed("silent"),
    "garbage": _fixed("garbage"),
}
"""The scripted supporters by name."""

RANKED: tuple[str, ...] = tuple(name for name in SUPPORTERS if name != "garbage")
"""Those that belong to a ranking; `garbage` is a failure case."""


class Supporter:
    """A scripted supporter as a `ChatModel`, named `heartloop/<name>`.

    Raises:
        UseError: there is no supporter of that name.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        if name not in SUPPORTERS:
            raise UseError(f"no scripted supporter {name!r}; expected heartloop/ and one of {', '.join(SUPPORTERS)}")
        self._short = name
        self._seed = seed

    @property
    def name(self) -> str:
        return f"heartloop/{self._short}"

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        heard = _listen(messages)
        # the loop advances the sampling seed by the turn; taking it back keeps one voice through a dialogue
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed - heard.turn
        text = SUPPORTERS[self._short](heard, _Pick(heard, self._short, seed))
        return Reply(text, usage=estimate_usage(messages, text))
