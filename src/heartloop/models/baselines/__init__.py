"""Scripted supporters of different quality: models under test that need no key.

They see what any policy sees, the messages, and know nothing of scenarios. The order each environment should give them was
written down before tuning (docs/decisions). Eight are for any conversation (`general`), seven for the failures that EIBench is
about (`managing`). Where an analysis is asked for before the response, as in PERM, they write one (`analysing`); where sections
are, as in EQ-Bench3, they write those (`sectioned`); where notes of earlier talks are there, as in daily conversation, two of
them draw on one (`remembering`). Does not cover how they are scored. A reply depends on the messages, the seed and the name, on
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.models.baselines.analysing import asked_to_analyse, in_two_parts
from heartloop.models.baselines.general import GENERAL, at_once
from heartloop.models.baselines.hearing import Heard, Pick, listen, second_person
from heartloop.models.baselines.managing import MANAGING
from heartloop.models.baselines.remembering import asked_to_remember, with_memory
from heartloop.models.baselines.sectioned import in_sections, sections_asked, without_form

__all__ = ["BASELINES", "GENERAL", "IN_SCENES", "MANAGING", "RANKED", "Baseline", "second_person"]

BASELINES: Mapping[str, Callable[[Heard, Pick], str]] = {**GENERAL, **MANAGING}
"""The scripted supporters by name."""

RANKED: tuple[str, ...] = tuple(name for name in GENERAL if name != "garbage")
"""Those that belong to a ranking in SAGE; `garbage` is a failure case."""

IN_SCENES: tuple[str, ...] = (
    "listener", "coach", "template", "lecturer", "flatterer", "silent",
    "diplomat", "pushover", "rigid", "owner", "excuser", "light", "interviewer",
)  # fmt: skip
"""Those of which an order is claimed in a scene of EIBench (docs/decisions/0005)."""


class Baseline:
    """A scripted supporter as a `ChatModel`, named `heartloop/<name>`.

    Args:
        verbatim: what it takes up of others' words stands in quotation marks as it was said, instead of turned to "you". In
            EIBench that is worth about the same; it is what a very small model can learn.

    Raises:
        UseError: there is no supporter of that name.
    """

    def __init__(self, name: str, *, seed: int = 0, verbatim: bool = False) -> None:
        if name not in BASELINES:
            raise UseError(f"no scripted supporter {name!r}; expected heartloop/ and one of {', '.join(BASELINES)}")
        self._short = name
        self._seed = seed
        self._verbatim = verbatim

    @property
    def name(self) -> str:
        return f"heartloop/{self._short}"

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        headings = sections_asked(messages)
        heard = listen(without_form(messages) if headings else messages, verbatim=self._verbatim)
        # the loop advances the sampling seed by the turn; taking it back keeps one voice through a dialogue
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed - heard.turn
        pick = Pick(heard, self._short, seed)
        text = BASELINES[self._short](heard, pick)
        if asked_to_analyse(messages):
            text = in_two_parts(self._short, text, messages, heard, pick)
        if headings:
            text = in_sections(self._short, text, headings, heard, pick)
        if asked_to_remember(messages):
            text = with_memory(self._short, at_once(self._short, text, pick), messages, heard.last, pick)
        return Reply(text, usage=estimate_usage(messages, text))
