"""Baselines: scripted policies of different quality, named `heartloop/<name>`, that need no key.

Covers the policies by name, the groups they are run in, and one reply. A baseline sees the messages, like any policy, and knows
nothing of scenarios. `counsellor` has replies that were written line by line for some held-out scenarios (`counsellor`); nine
others work in any dialogue (`general`); four make the mistakes of dialogues in which the policy has a role and limits
(`managing`). None copies what the other person said. Answer forms that a prompt asks for are in `forms`. A reply depends on the
name, the messages and the seed. The order in which an environment should rank them was written before its user was fitted
(docs/decisions/0013). Does not cover how they are scored, nor baselines that an environment brings (`names.resolve`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.models.baselines.counsellor import counsellor
from heartloop.models.baselines.forms.sections import in_sections, requested_sections, without_form
from heartloop.models.baselines.forms.two_parts import in_two_parts, wants_two_parts
from heartloop.models.baselines.general import SCRIPTED, in_one_turn
from heartloop.models.baselines.managing import MANAGING
from heartloop.models.baselines.text import Context, Pick, read_context, section

__all__ = ["BASELINES", "GENERAL", "MANAGING", "RANKED", "Baseline", "baseline_group"]

GENERAL: Mapping[str, Callable[[Context, Pick], str]] = {"counsellor": counsellor, **SCRIPTED}
"""The baselines for any dialogue by name."""

BASELINES: Mapping[str, Callable[[Context, Pick], str]] = {**GENERAL, **MANAGING}
"""The built-in baselines by name."""

RANKED: tuple[str, ...] = tuple(GENERAL)
"""Baselines whose order is claimed in every environment (docs/decisions/0013)."""

_GROUPS: Mapping[str, tuple[str, ...]] = {"all": tuple(BASELINES), "general": RANKED, "managing": tuple(MANAGING)}


def baseline_group(name: str) -> tuple[str, ...]:
    """Names of the baselines of a group: `all`, `general` or `managing`.

    Raises:
        UseError: an unknown group.

    >>> baseline_group("managing")
    ('pushover', 'rigid', 'excuser', 'interviewer')
    """
    if name not in _GROUPS:
        raise UseError(f"unknown group of baselines {name!r}; expected one of {', '.join(_GROUPS)}")
    return _GROUPS[name]


class Baseline:
    """A built-in baseline as a `ChatModel`, named `heartloop/<name>`.

    Args:
        seed: varies the wording; used where the call has no sampling seed.

    Raises:
        UseError: an unknown name.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        if name not in BASELINES:
            raise UseError(f"unknown baseline 'heartloop/{name}'; expected heartloop/ and one of {', '.join(BASELINES)}")
        self._short, self.name = name, f"heartloop/{name}"
        self._seed = seed

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        headings = requested_sections(messages)
        context = read_context(without_form(messages) if headings else messages)
        # the turn loop advances the sampling seed by the turn; subtracting it gives all turns of a dialogue one seed
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed - context.turn
        pick = Pick(context, self._short, seed)
        text = BASELINES[self._short](context, pick)
        if wants_two_parts(messages):
            text = in_two_parts(self._short, text, context, pick)
        elif headings:
            text = in_sections(self._short, text, headings, context, pick)
        elif section(context.prompt, "earlier talks"):  # notes of them: a dialogue of one turn
            text = in_one_turn(self._short, text, pick)
        return Reply(text, usage=estimate_usage(messages, text))
