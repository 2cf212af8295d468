"""Samples drawn from EmpatheticDialogues in a user's checkout (PERM App. A.1): who said what, and the label of how they felt.

Covers the form that `heartloop import perm-samples` writes and `heartloop scenarios enrich` completes. Does not cover drawing
them (`importers`), writing what is missing (`enriching`), nor our own samples (`scenario`). The
texts are their authors' (CC BY-NC 4.0); none of them is part of this project.

The data set tells neither persona nor what an answer should have understood. Models under test and judge models get by without:
the situation stands for the scenario, and the persona says that nothing is known; or a model has written both. The embedded
judges do not: they read by feelings, cues and needs that somebody wrote, so they refuse these samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from heartloop.environments.perm.scenario import SETS, Emotion, Scenario, load_scenarios, who_is
from heartloop.environments.records import Persona, Tag, Written, first_record, set_loader

__all__ = ["FORM", "AnySample", "DrawnSample", "load_drawn", "load_set"]

FORM: Literal["perm-drawn/1"] = "perm-drawn/1"
"""Marks a line of a drawn file."""


class DrawnSample(Written):
    """One person of EmpatheticDialogues, without personal data that rules can find."""

    form: Literal["perm-drawn/1"]
    id: str = Field(pattern=r"^perm-[a-z]+-[0-9a-f]{8}$")
    emotion: Emotion
    tags: tuple[Tag, ...] = ()
    """What the text says outright of suicide or self-harm; the others, where a model wrote the scenario."""
    persona: Persona | None = None
    """The data set has none; a writer model's line has one, and one of your own may."""
    scenario: str = Field(min_length=1, max_length=4000)
    """The situation as they wrote it, in the first person; a writer model's is in the third."""
    query: str = Field(min_length=1, max_length=4000)
    """What they say first."""
    source: str
    """File and conversation."""

    @property
    def title(self) -> str:
        """The beginning of what they say."""
        return self.query if len(self.query) <= 60 else f"{self.query[:57].rstrip()}..."

    @property
    def person(self) -> str:
        """Name, age and trade, where the line has them."""
        return f"{self.persona.name}, {self.persona.age}, {self.persona.occupation}" if self.persona else "somebody"

    @property
    def who(self) -> str:
        """As prompts tell it."""
        return who_is(self.persona) if self.persona else "Somebody of whom no more is known than what follows."

    @property
    def stratum(self) -> str:
        """What `--limit` spreads evenly over: the emotion."""
        return self.emotion


AnySample = Scenario | DrawnSample


load_drawn = set_loader(DrawnSample, (), __package__, noun="sample", schema="docs/perm.md")
"""Drawn samples from a file, without those that carry an excluded tag."""


def load_set(name: str, *, exclude_tags: tuple[str, ...] | list[str] = ()) -> list[Scenario] | list[DrawnSample]:
    """A shipped set by name, or a file of our own or of drawn samples, without those that carry an excluded tag.

    Raises:
        UseError: unknown set and no such file, an unknown tag, or nothing left after exclusion.
        InputError: a line that does not fit its form.
    """
    if name not in SETS and first_record(Path(name)).get("form") == FORM:
        return load_drawn(name, exclude_tags=exclude_tags)
    return load_scenarios(name, exclude_tags=exclude_tags)
