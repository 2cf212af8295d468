"""The form of an answer in PERM: an analysis under `# Analysis`, then a response under `# Response` (PERM Figure 12).

Covers taking an answer apart, strictly, and naming what is wrong with one of another form. Does not cover what a broken form is
worth (`scoring`), nor the thinking of a model that thinks first: nobody sees that, so it is gone by now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["BROKEN", "Answer", "parse"]

BROKEN: Mapping[str, str] = {
    "empty": "nothing was said",
    "no analysis": "no line is `# Analysis`",
    "no response": "no line is `# Response`",
    "twice": "a heading stands twice",
    "wrong order": "the response stands before the analysis",
    "text before": "something stands before `# Analysis`",
    "empty part": "nothing stands under a heading",
}
"""Kinds of failure, in the order in which they are looked for; the first one found names the answer."""

_HEADING = re.compile(r"^# (Analysis|Response)[ \t\r]*$", re.MULTILINE)


class Answer(NamedTuple):
    """An answer taken apart; without its parts where the form is broken."""

    analysis: str
    response: str
    broken: str = ""
    """A key of `BROKEN`; empty where the form is right."""


def parse(text: str) -> Answer:
    """The two parts of an answer, stripped. Headings stand alone on their line, spelt exactly so; other headings are text.

    >>> parse("# Analysis\\nShe is proud of it.\\n\\n# Response\\nThree winters, and it floats!")
    Answer(analysis='She is proud of it.', response='Three winters, and it floats!', broken='')
    >>> parse("Three winters, and it floats!").broken
    'no analysis'
    """
    found = list(_HEADING.finditer(text))
    names = [heading[1] for heading in found]
    broken = ""
    if not text.strip():
        broken = "empty"
    elif "Analysis" not in names:
        broken = "no analysis"
    elif "Response" not in names:
        broken = "no response"
    elif len(names) > 2:
        broken = "twice"
    elif names[0] == "Response":
        broken = "wrong order"
    elif text[: found[0].start()].strip():
        broken = "text before"
    if broken:
        return Answer("", "", broken)
    first, second = found
    analysis, response = text[first.end() : second.start()].strip(), text[second.end() :].strip()
    return Answer(analysis, response) if analysis and response else Answer("", "", "empty part")
