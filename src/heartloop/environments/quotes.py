"""Whether words that a judge quotes stand in the dialogue.

Covers the comparison, which forgives case, spaces, the shape of quotation marks and an ellipsis for words left out. Does not
cover whether a quote supports the level it is given for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["SILENT", "passages_of", "spans_of", "stands_in"]

SILENT = "(silence)"
"""How an empty message is shown to a judge, and so how it is quoted."""

_LEAST = 3
"""Letters or digits of a quote: fewer are found in anything, so they must be the whole message."""
_LONGEST, _MOST = 160, 60
"""Characters of a passage, and passages of a call, that a model is offered (ours)."""
_PASSAGE = re.compile(rf"[^.!?\n]{{1,{_LONGEST}}}(?:[.!?]+|$|\n|(?<=\s))")
_LEFT_OUT = re.compile(r"\s*(?:\[?\s*(?:\.{3,}|…)\s*\]?)\s*")


def stands_in(quote: str, messages: Iterable[str]) -> bool:
    """Whether a quote stands in one of the messages, word for word; parts between ellipses in their order.

    A message of next to nothing, as dots or "Ok", is quoted whole.

    >>> stands_in("“Nobody asked ... the vests”", ["Nobody asked me about it, or about the vests."])
    True
    >>> stands_in("they asked", ["Nobody asked me."]), stands_in("ask", ["Nobody asked me."])
    (False, False)
    """
    messages = [text.strip() or SILENT for text in messages]
    if quote.strip() and not _plain(quote):
        return quote.strip() in messages
    whole = [_plain(message) for message in messages]
    parts = [plain for part in _LEFT_OUT.split(quote) if (plain := _plain(part))]
    if sum(len(part.replace(" ", "")) for part in parts) < _LEAST:
        return _plain(quote) in whole and bool(_plain(quote))
    return any(_in_order(parts, message) for message in whole)


def passages_of(messages: Iterable[str]) -> list[str]:
    """Sentences of the messages, the last ones first, each once: what a model can quote that must choose its quote.

    >>> passages_of(["She left. I said nothing!", ""])
    ['(silence)', 'I said nothing!', 'She left.']
    """
    passages: dict[str, None] = {}
    for message in [text.strip() or SILENT for text in messages][::-1]:
        parts = [part[0].strip() for part in _PASSAGE.finditer(message)] or [message[:_LONGEST]]
        passages |= dict.fromkeys(part for part in parts[::-1] if stands_in(part, [message]))
    return list(passages)[:_MOST]


def spans_of(quote: str, message: str) -> list[tuple[int, int]]:
    """Where a quote stands in a message, as (first, behind the last) character of each part between ellipses.

    Empty where it does not stand there as one reads it; a quote that only `stands_in` after letters were brought into another
    form (ﬁ for fi) has no place either.

    >>> spans_of("“nobody ASKED ... the vests”", "Nobody asked me, or about the vests.")
    [(0, 12), (26, 35)]
    """
    if not stands_in(quote, [message]):
        return []
    spans: list[tuple[int, int]] = []
    for part in filter(None, map(_plain, _LEFT_OUT.split(quote))):
        words = r"(?:[^\w']|(?<!\w)['’]|['’](?!\w))+".join(re.escape(word).replace("'", "['’]") for word in part.split())
        found = re.compile(rf"(?<!\w){words}(?!\w)" if part.isascii() else words, re.IGNORECASE).search(
            message, spans[-1][1] if spans else 0
        )
        if found is None:
            return []
        spans.append(found.span())
    return spans


def _in_order(parts: list[str], message: str) -> bool:
    at = 0
    for part in parts:
        found = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)" if part.isascii() else re.escape(part)).search(message, at)
        if found is None:
            return False
        at = found.end()
    return True


def _plain(text: str) -> str:
    """Words in lower case with one space between them."""
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    return re.sub(r"[^\w']+|(?<!\w)'|'(?!\w)", " ", text).strip()
