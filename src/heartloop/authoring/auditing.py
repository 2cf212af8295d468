"""The auditor of written scenarios: a second model that may correct, and that recognises a repeated scenario.

Covers what a correction may change, how it is applied and recorded, and the question about repeats. Does not cover who wrote the
scenario or what follows (`writing`).

Rules cannot check that a correction adds no fact; they check that it keeps the sentence: at least half of its words, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from heartloop.authoring.neighbours import NEIGHBOURS
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.records import Tag

__all__ = ["AUDIT_PROMPTS", "KEPT_WORDS", "Audited", "Correction", "audit", "corrected", "repeated"]

KEPT_WORDS = 0.5
"""Least share of words that a corrected text has in common with the old one, of both together (ours)."""
AUDIT_PROMPTS = ("auditor", "audit", "duplicate")

_MOST = 12  # corrections of one scenario; what needs more is another scenario

Ask = Callable[[str, str], ChatModel]
"""A model for a question, given the question's name and its prompt's hash."""


_Number = Annotated[int, Sent(minimum=0, maximum=100)]  # ages, anchors and levels
_Text = Annotated[str, Sent(maxLength=1200)]
_Tags = Annotated[
    list[Annotated[str, Sent(enum=list(get_args(Tag)))]], Sent(maxItems=len(get_args(Tag)) - 1)
]  # the only whole list


class Correction(BaseModel):
    """One value that was wrong."""

    model_config = ConfigDict(extra="ignore")
    field: Annotated[str, Sent(maxLength=80)] = Field(min_length=2)
    """The path to it: `anchors.a.start`, `user.rules.2`, `tags`."""
    value: _Number | _Text | _Tags
    reason: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)


class _Audit(BaseModel):
    model_config = ConfigDict(extra="ignore")
    corrections: list[Correction] = Field(max_length=_MOST)


class _Repeats(BaseModel):
    model_config = ConfigDict(extra="ignore")
    shared: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)
    repeats: Annotated[list[Annotated[str, Sent(maxLength=80)]], Sent(maxItems=NEIGHBOURS)]


class Audited(NamedTuple):
    """A scenario's data after the audit, and what the auditor changed: field, from, to, reason."""

    scenario: dict[str, Any]
    changed: list[dict[str, Any]]


def corrected(scenario: Mapping[str, Any], corrections: Sequence[Correction], fixed: Sequence[str]) -> tuple[Audited | None, str]:
    """The scenario with its corrections, or `None` and a sentence that names the one that is more than a correction.

    Args:
        scenario: as JSON has it.
        fixed: fields, as whole paths or their last parts, that may not be corrected.
    """
    found: dict[str, Any] = json.loads(json.dumps(scenario))
    changed: list[dict[str, Any]] = []
    for one in corrections:
        parts = one.field.split(".")
        if {parts[0], parts[-1], one.field} & set(fixed):
            return None, f"{one.field} is not the auditor's to change"
        holder, last, old = _at(found, parts)
        if holder is None:
            return None, f"there is no field {one.field!r}"
        problem = _too_far(one, old)
        if problem:
            return None, problem
        holder[last] = one.value
        if old != one.value:
            changed.append({"field": one.field, "from": old, "to": one.value, "reason": one.reason})
    return Audited(found, changed), ""


async def audit(
    scenario: Mapping[str, Any],
    models: Ask,
    *,
    blanks: Mapping[str, str],
    fixed: Sequence[str],
    problem_of: Callable[[Mapping[str, Any]], str],
    sampling: Sampling | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> Audited:
    """The scenario as the auditor leaves it.

    Args:
        scenario: as JSON has it.
        blanks: values of the other blanks of the question: `looked_for`, `field`, `value`, `tags`.
        problem_of: what a corrected scenario violates; empty when nothing.

    Raises:
        AnswerError: after the re-asks a correction still goes too far or violates a rule.
        ModelError: a call failed for good.
    """
    prompt = load_prompt(__package__, "audit")
    done: list[Audited] = []

    def check(answer: _Audit) -> str | None:
        after, problem = corrected(scenario, answer.corrections, fixed)
        if after is None:
            return f"{problem}; you may only correct"
        problem = problem_of(after.scenario)
        if problem:
            return f"the corrected scenario breaks a rule: {problem}"
        done.append(after)
        return None

    text = prompt.fill(scenario=_data(scenario), fixed=", ".join(fixed), **blanks)
    await ask(models("audit", prompt.hash), _asked(text), _Audit, sampling=sampling, check=check, on_refusal=on_refusal)
    return done[-1]


async def repeated(
    scenario: Mapping[str, Any],
    neighbours: Mapping[str, str],
    models: Ask,
    *,
    sampling: Sampling | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> tuple[list[str], str]:
    """Ids of the neighbours that the scenario repeats, and the most that it shares with any of them.

    Args:
        neighbours: texts of the nearest scenarios, by id.

    Raises:
        AnswerError: no verdict on these neighbours after the re-asks.
        ModelError: a call failed for good.
    """
    prompt = load_prompt(__package__, "duplicate")

    def check(answer: _Repeats) -> str | None:
        unknown = [name for name in answer.repeats if name not in neighbours]
        return f"repeats names {unknown[0]!r}, expected ids out of {', '.join(neighbours)}" if unknown else None

    shown = "\n\n".join(f"### {name}\n{text}" for name, text in neighbours.items())
    text = prompt.fill(neighbours=shown, scenario=_data(scenario))
    answer = await ask(
        models("duplicate", prompt.hash), _asked(text), _Repeats, sampling=sampling, check=check, on_refusal=on_refusal
    )
    return sorted(set(answer.repeats)), answer.shared


def _asked(text: str) -> list[Message]:
    system = load_prompt(__package__, "auditor").text
    return [Message(role="system", content=system), Message(role="user", content=text)]


def _data(scenario: Mapping[str, Any]) -> str:
    return json.dumps(scenario, ensure_ascii=False)


def _at(scenario: dict[str, Any], parts: Sequence[str]) -> tuple[Any, Any, Any]:
    """The container of the value at a path, its key there, and the value; three times `None` where there is none."""
    holder: Any = None
    place: Any = None
    value: Any = scenario
    left = list(parts)
    while left:
        part = left.pop(0)
        holder = value
        if isinstance(holder, dict) and part not in holder and left:  # a name with a dot in it, such as iedr's C.1
            part = f"{part}.{left.pop(0)}"
        if isinstance(holder, list) and re.fullmatch(r"\d{1,3}", part) and int(part) < len(holder):
            place = int(part)
        elif isinstance(holder, dict) and part in holder:
            place = part
        else:
            return None, None, None
        value = holder[place]
    return holder, place, value


def _too_far(one: Correction, old: Any) -> str:
    if one.field == "tags":
        return "" if isinstance(one.value, list) else "tags: expected the whole list"
    if isinstance(old, bool) or not isinstance(old, int | str):
        return f"{one.field} is no single value; name the text or number within it"
    if type(one.value) is not type(old):
        return f"{one.field} is {type(old).__name__}, and the correction is {type(one.value).__name__}"
    if isinstance(old, str) and isinstance(one.value, str):
        share = SequenceMatcher(None, _words(old), _words(one.value), autojunk=False).ratio()
        if share < KEPT_WORDS:
            return f"{one.field} is written anew ({share:.0%} of the words stay, expected {KEPT_WORDS:.0%})"
    return ""


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
