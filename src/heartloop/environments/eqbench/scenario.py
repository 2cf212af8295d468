"""A scenario of EQ-Bench3 as this project holds one: what is asked in turn, in what form, and what a judge marks.

Covers the values, and a template of the checkout with its blanks. Does not cover reading the checkout (`released`). No text of
EQ-Bench3 is part of this project: all of it is read from the user's own checkout when a run begins.
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
"""`role-play`: in a part, in three sections; `drafting`: a message to write, in three sections; `conversation`: the prompts as
they are, without sections; `analysis`: one question about a dialogue that took place, without a debrief."""
KINDS: tuple[Kind, ...] = get_args(Kind)

VARIANTS = ("official", "repaired")
"""How prompt headers are read. `official`: as the released parser reads them; a header of another form is text, or lost with all
that follows where no prompt stands before it. `repaired`: a header that has the number alone is a header."""


class Template(NamedTuple):
    """A text with blanks `{name}`, as Python's `str.format` has them; doubled braces stand for single ones."""

    name: str
    text: str

    @property
    def blanks(self) -> frozenset[str]:
        """Names of the blanks.

        Raises:
            ValueError: a brace without its partner.
        """
        return frozenset(name for _, name, *_ in Formatter().parse(self.text) if name is not None)

    def fill(self, **values: str) -> str:
        """The text with every blank filled in one pass: what is filled in is never read again for blanks.

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
    """What a judge is asked about a dialogue of one kind."""

    template: Template
    """With blanks `transcript`, `output_format` and, but for an analysis, `debrief`."""
    criteria: tuple[str, ...]
    """All that are marked, in the file's order."""
    counted: frozenset[str]
    """Those that enter the score; the others describe abilities' price or style."""
    reasoning_hint: str
    """What the released code writes into the answer's form where the judge is to reason."""

    @property
    def output_format(self) -> str:
        """The form of an answer as the judge is shown it: JSON with every criterion and its range."""
        shown = json.dumps({"chain_of_thought_reasoning": self.reasoning_hint, **dict.fromkeys(self.criteria, 0)}, indent=2)
        return shown.replace(": 0", ": 0-20")


class Form(NamedTuple):
    """What all scenarios of a kind share."""

    kind: Kind
    master: Template | None
    """Each prompt goes through it, by its blank `scenario_prompt`; `None` leaves prompts as they are."""
    sections: tuple[str, ...]
    """Headings of the sections that an answer is to have; none where it is taken whole."""
    debrief: str | None
    """The last prompt, out of the part; `None` for an analysis."""
    rubric: Rubric
    files: Mapping[str, str]
    """Hash of every text of the checkout that anybody is asked with, by name."""


@dataclass(frozen=True)
class Scenario:
    """One scenario: its prompts as either parser reads them, its notes, and what its kind shares."""

    id: str
    category: str
    title: str
    form: Form
    official: tuple[str, ...]
    """Prompts as the released parser reads them; empty where it finds none and leaves the scenario out."""
    repaired: tuple[str, ...]
    """Prompts with malformed headers mended."""
    notes: str = ""
    """For pairwise judges, as released; the rubric's judge is not told."""

    @property
    def kind(self) -> Kind:
        return self.form.kind

    @property
    def person(self) -> str:
        """Nobody: what is said is written in advance."""
        return "Written prompts"

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the category."""
        return self.category

    @property
    def tags(self) -> Sequence[str]:
        """None: the release has no content tags."""
        return ()

    def prompts(self, variant: str) -> tuple[str, ...]:
        """What is asked in turn, without master prompt and debrief."""
        return self.repaired if variant == "repaired" else self.official

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of all that the model under test may be asked: changes when any word does."""
        form = self.form
        asked = [self.id, self.kind, self.official, self.repaired, form.master.text if form.master else None, form.debrief]
        return hashlib.sha256(json.dumps(asked, ensure_ascii=False).encode()).hexdigest()[:16]


def has_prompts(scenario: Scenario, variant: str) -> bool:
    """Whether a scenario has a prompt in a variant."""
    return bool(scenario.prompts(variant))
