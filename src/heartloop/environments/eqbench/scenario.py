"""A scenario of EQ-Bench3: its prompts, the form of the answers, and the judge's rubric.

Covers the data classes, and templates of the checkout. Does not cover reading the checkout (`released`). This project contains no
text of EQ-Bench3; all texts are read from the user's checkout when a run begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Literal, NamedTuple, get_args

from heartloop.core.errors import PromptError

__all__ = ["KINDS", "VARIANTS", "Form", "Kind", "Rubric", "Scenario", "Template", "has_prompts"]

Kind = Literal["role-play", "drafting", "conversation", "analysis"]
"""`role-play`: the model plays a role, in three sections; `drafting`: it writes a message, in three sections; `conversation`: it
answers the prompts without sections; `analysis`: one question about a given dialogue, without a debrief."""
KINDS: tuple[Kind, ...] = get_args(Kind)

VARIANTS = ("official", "repaired")
"""How prompt headers are read. `official`: as by the released parser; a malformed header is text of the prompt before it, or
dropped with the following text if there is none. `repaired`: a header with the number alone is also a header."""


class Template(NamedTuple):
    """A text with blanks `{name}` as in `str.format`; doubled braces are single ones."""

    name: str
    text: str

    @property
    def blanks(self) -> frozenset[str]:
        """Names of the blanks.

        Raises:
            ValueError: an unmatched brace.
        """
        return frozenset(name for _, name, *_ in Formatter().parse(self.text) if name is not None)

    def fill(self, **values: str) -> str:
        """The text with all blanks filled in one pass; braces in the values stay as they are.

        Raises:
            PromptError: a blank without a value.

        >>> Template("t", "{{{who}}} says {what}").fill(who="{what}", what="no")
        '{{what}} says no'
        """
        missing = self.blanks - values.keys()
        if missing:
            raise PromptError(f"template {self.name!r}: no value for {', '.join(sorted(missing))}")
        parts = Formatter().parse(self.text)
        return "".join(literal + ("" if name is None else values[name]) for literal, name, *_ in parts)

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the unfilled text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


class Rubric(NamedTuple):
    """The judge's prompt and criteria for scenarios of one kind."""

    template: Template
    """With blanks `transcript`, `output_format` and, except for an analysis, `debrief`."""
    criteria: tuple[str, ...]
    """All criteria, in the file's order."""
    counted: frozenset[str]
    """Criteria that count for the score; the others describe style."""
    reasoning_hint: str
    """The released placeholder for the reasoning in the answer's form."""

    @property
    def output_format(self) -> str:
        """The form of an answer in the judge's prompt: JSON with every criterion and its range."""
        shown = json.dumps({"chain_of_thought_reasoning": self.reasoning_hint, **dict.fromkeys(self.criteria, 0)}, indent=2)
        return shown.replace(": 0", ": 0-20")


class Form(NamedTuple):
    """The parts that all scenarios of a kind share."""

    kind: Kind
    master: Template | None
    """Template of each prompt, with the blank `scenario_prompt`; `None` if prompts are sent as they are."""
    sections: tuple[str, ...]
    """Headings of an answer's sections; empty if an answer has none."""
    debrief: str | None
    """The last prompt, which asks for reflection; `None` for an analysis."""
    rubric: Rubric
    files: Mapping[str, str]
    """Hashes, by name, of all texts of the checkout that are used in prompts."""


@dataclass(frozen=True)
class Scenario:
    """One scenario: its prompts in both variants, its notes, and the form of its kind."""

    id: str
    category: str
    title: str
    form: Form
    official: tuple[str, ...]
    """Prompts as read by the released parser; empty if it finds none and drops the scenario."""
    repaired: tuple[str, ...]
    """Prompts with malformed headers repaired."""
    notes: str = ""
    """Notes for the released pairwise judges; not in any prompt here."""

    @property
    def kind(self) -> Kind:
        return self.form.kind

    @property
    def person(self) -> str:
        """There is no person; a label for reports."""
        return "Written prompts"

    @property
    def stratum(self) -> str:
        """The category, by which `--limit` is stratified."""
        return self.category

    @property
    def tags(self) -> Sequence[str]:
        """Empty; the release has no content tags."""
        return ()

    def prompts(self, variant: str) -> tuple[str, ...]:
        """The prompts in a variant, without master prompt and debrief."""
        return self.repaired if variant == "repaired" else self.official

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of all texts that the model under test may read."""
        form = self.form
        texts = [self.id, self.kind, self.official, self.repaired, form.master.text if form.master else None, form.debrief]
        return hashlib.sha256(json.dumps(texts, ensure_ascii=False).encode()).hexdigest()[:16]


def has_prompts(scenario: Scenario, variant: str) -> bool:
    """Whether a scenario has prompts in a variant."""
    return bool(scenario.prompts(variant))
