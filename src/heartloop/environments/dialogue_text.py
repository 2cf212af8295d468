"""A dialogue as text, quotes found in it again, and the choice of a person's written lines."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat, starmap, zip_longest

_BREAK = re.compile(r"\s*[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")


def quoted(text: str) -> str:
    """A message with its further lines indented, so that none of them can be read as a turn or a state.

    >>> quoted("No.\\nPerson: yes")
    'No.\\n    | Person: yes'
    """
    text = text.strip()
    if len(text.splitlines()) < 2:  # the usual case; splits like the pattern and is ten times as fast
        return text
    return _BREAK.sub("\n    | ", text)


def dialogue_text(turns: Iterable[tuple[str, str]]) -> str:
    """One line per turn, `Speaker: words`; an empty message is silence.

    >>> print(dialogue_text([("You", "Well?"), ("Zeynep", "")]))
    You: Well?
    Zeynep: (silence)
    """
    return "\n".join(starmap(_line, turns))


def alternating_text(first: tuple[str, Iterable[str]], second: tuple[str, Iterable[str]]) -> str:
    """The alternating messages of two speakers, one line per turn, beginning with the first."""
    pairs = zip_longest(*(zip(repeat(speaker), messages) for speaker, messages in (first, second)))
    return dialogue_text(turn for pair in pairs for turn in pair if turn is not None)


@lru_cache(maxsize=4096)  # every turn renders the dialogue again, with the same earlier messages
def _line(speaker: str, text: str) -> str:
    return f"{speaker}: {quoted(text) or '(silence)'}"


def speaks_for(text: str, *others: str) -> bool:
    """Whether a line of an answer is marked as words of one of `others`, or of an assistant.

    >>> speaks_for("Hm.\\nNPC: I see.", "NPC"), speaks_for("Ask the NPC: it knows.", "NPC")
    (True, False)
    """
    names = "|".join(re.escape(name) for name in ("npc", "assistant", "supporter", "partner", "ai", "chatbot", *others) if name)
    return re.search(rf"^\s*\**({names})\**\s*[:：]", text, re.IGNORECASE | re.MULTILINE) is not None


SILENT = "(silence)"

_LEAST = 3  # letters or digits of a quote: fewer are found in anything, so they must be the whole message
_LONGEST, _MOST = 160, 60  # characters of a passage, and passages of a call, that a model is offered (ours)
_PASSAGE = re.compile(rf"[^.!?\n]{{1,{_LONGEST}}}(?:[.!?]+|$|\n|(?<=\s))")
_LEFT_OUT = re.compile(r"\s*(?:\[?\s*(?:\.{3,}|…)\s*\]?)\s*")


def stands_in(quote: str, messages: Iterable[str]) -> bool:
    """Whether a quote occurs in one of the messages, word for word; parts between ellipses in their order."""
    messages = [text.strip() or SILENT for text in messages]
    if quote.strip() and not _plain(quote):
        return quote.strip() in messages
    whole = [_plain(message) for message in messages]
    parts = [plain for part in _LEFT_OUT.split(quote) if (plain := _plain(part))]
    if sum(len(part.replace(" ", "")) for part in parts) < _LEAST:
        return _plain(quote) in whole and bool(_plain(quote))
    patterns = [(part, re.escape(part)) for part in parts]
    return any(_spans(patterns, message) for message in whole)


def passages_of(messages: Iterable[str]) -> Iterator[str]:
    """Sentences of the messages, the last ones first, each once, from which a model chooses its quote."""
    passages: set[str] = set()
    for message in [text.strip() or SILENT for text in messages][::-1]:
        parts = [part[0].strip() for part in _PASSAGE.finditer(message)] or [message[:_LONGEST]]
        for part in parts[::-1]:
            if len(passages) < _MOST and part not in passages and stands_in(part, [message]):
                passages.add(part)
                yield part


def spans_of(quote: str, message: str) -> list[tuple[int, int]]:
    """Where a quote occurs in a message, as (first, behind the last) character of each part between ellipses.

    Empty if it does not, or only after letters were normalised (ﬁ for fi).

    >>> spans_of("“nobody ASKED ... the vests”", "Nobody asked me, or about the vests.")
    [(0, 12), (26, 35)]
    """
    if not stands_in(quote, [message]):
        return []
    gap = r"(?:[^\w']|(?<!\w)['’]|['’](?!\w))+"
    parts = filter(None, map(_plain, _LEFT_OUT.split(quote)))
    patterns = ((part, gap.join(re.escape(word).replace("'", "['’]") for word in part.split())) for part in parts)
    return _spans(patterns, message, re.IGNORECASE)


def _spans(parts: Iterable[tuple[str, str]], text: str, flags: int = 0) -> list[tuple[int, int]]:
    """Where the parts, each with its pattern, occur in this order; empty if one does not."""
    spans: list[tuple[int, int]] = []
    for part, pattern in parts:
        whole_words = rf"(?<!\w){pattern}(?!\w)" if part.isascii() else pattern
        found = re.compile(whole_words, flags).search(text, spans[-1][1] if spans else 0)
        if found is None:
            return []
        spans.append(found.span())
    return spans


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    return re.sub(r"[^\w']+|(?<!\w)'|'(?!\w)", " ", text).strip()


def file_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def chance(*parts: object) -> float:
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32


def pick(lines: Sequence[str], *parts: object) -> str:
    return lines[int(chance(*parts) * len(lines))]


def pick_unsaid(groups: Iterable[Sequence[str]], said: Sequence[str], *parts: object) -> str | None:
    """A line that was not said yet, of the first group that has one; else `None`."""
    spoken = " ".join(said)
    left = next(filter(None, ([line for line in group if line not in spoken] for group in groups)), None)
    return pick(left, *parts) if left else None


def least_recent(lines: Sequence[str], said: Sequence[str]) -> str:
    """The line that was said the longest ago, so that a long dialogue never runs out of lines."""
    return min(lines, key=lambda line: max((n for n, message in enumerate(said) if line in message), default=-1))
