"""Scenarios drawn from EmpatheticDialogues (PERM App. A.1): situation, first message, and emotion label.

Covers the form that `heartloop import perm-samples` writes and `heartloop scenarios enrich` completes. Does not cover drawing
(`importers`), nor enriching (`enriching`). The texts are their authors' (CC BY-NC 4.0); none of them is part of this project.

The data set has no persona: the prompts then say that nothing is known, and the situation is the scenario; a writer model can add
both. The embedded judges refuse drawn scenarios, which lack the feelings, cues and needs that they require.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from heartloop.environments.perm.scenario import SETS, Brief, Emotion, load_any, who_is
from heartloop.environments.records import Persona, Tag, Written, first_record, set_loader

__all__ = ["FORM", "AnyScenario", "DrawnScenario", "load_drawn", "load_set"]

FORM: Literal["perm-drawn/1"] = "perm-drawn/1"
"""Value of `form` in every line of a file of drawn scenarios."""


class DrawnScenario(Written):
    """One dialogue of EmpatheticDialogues, without personal data that rules can find."""

    form: Literal["perm-drawn/1"]
    id: str = Field(pattern=r"^perm-[a-z]+-[0-9a-f]{8}$")
    emotion: Emotion
    tags: tuple[Tag, ...] = ()
    """`suicide` and `self-harm` by rules; other tags if a model wrote the scenario."""
    persona: Persona | None = None
    """`None` in imported scenarios; enriched ones have a persona."""
    scenario: str = Field(min_length=1, max_length=4000)
    """The situation from the data set, in the first person; if enriched, a scenario in the third person."""
    query: str = Field(min_length=1, max_length=4000)
    """The user's first message."""
    source: str
    """File and id of the conversation."""

    @property
    def title(self) -> str:
        """The beginning of the query."""
        return self.query if len(self.query) <= 60 else f"{self.query[:57].rstrip()}..."

    @property
    def person(self) -> str:
        """Name, age and occupation, if known."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}" if self.persona else "somebody"

    @property
    def who(self) -> str:
        """The persona as text for prompts."""
        return who_is(self.persona) if self.persona else "Somebody of whom no more is known than what follows."

    @property
    def stratum(self) -> str:
        """What `--limit` is stratified by: the emotion."""
        return self.emotion


AnyScenario = Brief | DrawnScenario


load_drawn = set_loader(DrawnScenario, (), __package__, schema="docs/perm.md")
"""Drawn scenarios of a file, without those that have an excluded tag."""


def load_set(name: str, *, exclude_tags: tuple[str, ...] | list[str] = ()) -> list[Brief] | list[DrawnScenario]:
    """A shipped set by name, or a file of written or drawn scenarios, without those that have an excluded tag.

    Raises:
        UseError: unknown set and no such file, unknown tag, or no scenario left.
        InputError: a line violates its schema.
    """
    if name not in SETS and first_record(Path(name)).get("form") == FORM:
        return load_drawn(name, exclude_tags=exclude_tags)
    return load_any(name, exclude_tags=exclude_tags)
