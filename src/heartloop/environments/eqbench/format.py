"""The sections of an answer in EQ-Bench3, parsed as by the released code, and the answer as its judge reads it.

Covers splitting an answer at the headings that its master prompt asks for. Does not cover the prompts (`environment`).

As released: a section ends at the next number sign, even within its text; the last section ends at the first double hyphen, so a
dash typed as two hyphens cuts it. A missing section is empty. The judge reads the sections only; the model's own history has the
whole answer. An answer without headings is scored with empty sections; it is not a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

__all__ = ["as_judged", "sections_of"]


def sections_of(answer: str, headings: Sequence[str]) -> dict[str, str]:
    """The stripped text of each section by its heading; empty if the heading is missing.

    Headings match in any case, with straight or curly apostrophes, and with hyphens or spaces.

    >>> sections_of("# what I think\\nOh no.\\n\\n# What I say\\nSit down -- please.", ["What I think", "What I say"])
    {'What I think': 'Oh no.', 'What I say': 'Sit down'}
    """
    sections = {}
    for heading in headings:
        match = _pattern(heading, last=heading == headings[-1]).search(answer)
        sections[heading] = match[1].strip() if match else ""
    return sections


def as_judged(answer: str, sections: Mapping[str, str]) -> str:
    """The answer as the judge reads it: the sections under their headings, or the whole answer if `sections` is empty."""
    if not sections:
        return answer
    return "\n\n".join(f"# {heading}\n{text}" for heading, text in sections.items()) + "\n\n--"


@lru_cache(maxsize=64)
def _pattern(heading: str, *, last: bool) -> re.Pattern[str]:
    words = "".join({"'": "['’]", "’": "['’]", "-": "[- ]"}.get(letter, re.escape(letter)) for letter in heading)
    return re.compile(rf"#\s*{words}\s*\n(.*?)(?={'--' if last else '#'}|\Z)", re.IGNORECASE | re.DOTALL)
