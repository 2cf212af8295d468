"""The sections of an answer in EQ-Bench3, as the released code finds them, and the answer as its judge sees it.

Covers taking an answer apart by the headings that its master prompt asks for. Does not cover what is asked (`environment`).

As released, and odd in places: a section ends at the next number sign, even one within its text; the last ends at the first
double hyphen, so a dash typed as two hyphens cuts it short. A section that is not found is empty, and a judge is shown the
sections alone: whatever stands outside them is gone. The model's own history keeps its answer whole. An answer without its
headings is scored on empty sections; it is no failure of the instrument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

__all__ = ["as_judged", "sections_of"]


def sections_of(answer: str, headings: Sequence[str]) -> dict[str, str]:
    """The text of each section by its heading, stripped; empty where the heading is not found.

    Headings are found in any case and with a curly apostrophe, and a hyphen in one may be a space.

    >>> sections_of("# what I think\\nOh no.\\n\\n# What I say\\nSit down -- please.", ["What I think", "What I say"])
    {'What I think': 'Oh no.', 'What I say': 'Sit down'}
    """
    found = {}
    for heading in headings:
        match = _pattern(heading, last=heading == headings[-1]).search(answer)
        found[heading] = match[1].strip() if match else ""
    return found


def as_judged(answer: str, sections: Mapping[str, str]) -> str:
    """The answer as a judge is shown it: its sections under their headings, or the whole where there are none to be."""
    if not sections:
        return answer
    return "\n\n".join(f"# {heading}\n{text}" for heading, text in sections.items()) + "\n\n--"


@lru_cache(maxsize=64)
def _pattern(heading: str, *, last: bool) -> re.Pattern[str]:
    words = "".join({"'": "['’]", "’": "['’]", "-": "[- ]"}.get(letter, re.escape(letter)) for letter in heading)
    return re.compile(rf"#\s*{words}\s*\n(.*?)(?={'--' if last else '#'}|\Z)", re.IGNORECASE | re.DOTALL)
