"""The form of an answer in PERM: an analysis under `# Analysis`, then a response under `# Response` (PERM Figure 12).

Covers parsing an answer and the kinds of invalid form. Thinking is removed before. Does not cover the reward (`scoring`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["BROKEN", "PLACEHOLDERS", "Answer", "parse"]

BROKEN: Mapping[str, str] = {
    "empty": "the answer is empty",
    "no analysis": "no line is `# Analysis`",
    "no response": "no line is `# Response`",
    "twice": "a heading occurs twice",
    "wrong order": "the response precedes the analysis",
    "text before": "text precedes `# Analysis`",
    "empty part": "a part is empty, or only gives back what stands in its place in the prompt",
}
"""Kinds of invalid form with their descriptions, in the order of the checks."""

PLACEHOLDERS = ("(what goes on in them)", "(your words to them)")
"""What stands in the place of each part in the policy's prompt. A policy that was trained here gave back nothing else (ours)."""

_HEADING = re.compile(r"^# (Analysis|Response)[ \t\r]*$", re.MULTILINE)


class Answer(NamedTuple):
    """A parsed answer; both parts are empty if the form is invalid."""

    analysis: str
    response: str
    broken: str = ""
    """A key of `BROKEN`; empty if the form is valid."""


def parse(text: str) -> Answer:
    """The two parts of an answer, stripped. The two headings must match exactly, each alone on its line; other headings are text.

    >>> parse("# Analysis\\nShe is proud of it.\\n\\n# Response\\nThree winters, and it floats!")
    Answer(analysis='She is proud of it.', response='Three winters, and it floats!', broken='')
    >>> parse("Three winters, and it floats!").broken
    'no analysis'
    """
    headings = list(_HEADING.finditer(text))
    names = [heading[1] for heading in headings]
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
    elif text[: headings[0].start()].strip():
        broken = "text before"
    if broken:
        return Answer("", "", broken)
    first, second = headings
    analysis, response = text[first.end() : second.start()].strip(), text[second.end() :].strip()
    given = all(part and part not in PLACEHOLDERS for part in (analysis, response))
    return Answer(analysis, response) if given else Answer("", "", "empty part")
