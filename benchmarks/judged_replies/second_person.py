"""First-person clauses turned to "you", for the attacks that copy what the person said (`scripted`)."""

from __future__ import annotations

import re

__all__ = ["second_person"]

_SWAP = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "me": "you", "my": "your",
    "mine": "yours", "myself": "yourself", "we": "you", "we're": "you're", "we've": "you've", "we'd": "you'd",
    "we'll": "you'll", "us": "you", "our": "your", "ours": "yours", "ourselves": "yourselves", "am": "are",
}  # fmt: skip
_CLAUSE_STARTS = """
i i'm i've i'd i'll my we we've we're our he he's she she's they they've the her his their nobody everyone everybody
somebody no
"""
_CAPITALISED = """
I The A An And But So It He She They We You My Her His Their Our This That There Then When What Who Why How If In On
At For Of To Not No Yes Nobody Everybody Everyone Some Somebody Nothing Now Well Also With Without Only Just First
Second Third Fourth Three Four Two One Twenty Hm Mm Okay Ok Right Yeah Monday Tuesday Wednesday Thursday Friday
Saturday Sunday January February March April May June July August September October November December English God Even
Still Every Each After Before Because By Or Maybe Never Once Last Christmas Easter Ramadan Sundays Saturdays
"""
_SUBJECTS = frozenset(_CLAUSE_STARTS.split())
_NOT_NAMES = frozenset(_CAPITALISED.split())
"""Capitalised words that are no names."""


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
    if first.lower().strip(",.'") in _SUBJECTS or first in _NOT_NAMES or first.split("'")[0] in _NOT_NAMES:
        text = text[:1].lower() + text[1:]
    return text
