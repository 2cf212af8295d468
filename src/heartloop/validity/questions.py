"""Questions to a judge with a typed answer, and dialogues as the judge reads them.

Covers a question made of messages and an answer class. Does not cover prompts (each suite's own, in `validity/prompts`) nor who
asks (`answering`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.core.judging import ask
from heartloop.core.schemas import schema_of
from heartloop.environments.dialogue_text import dialogue_text
from heartloop.environments.suites import Material, Question

__all__ = ["dialogue_key", "fingerprint_of", "needs_judge", "question", "spoken"]

Form = TypeVar("Form", bound=BaseModel)


def dialogue_key(dialogue: Transcript) -> str:
    """A dialogue's key as one word of a question's key, `model|scenario|repeat|user`: runs of several users share the rest."""
    return "|".join(map(str, (*dialogue.key, dialogue.user)))


def fingerprint_of(*parts: Any) -> str:
    """SHA-256 of JSON values, for `Question.fingerprint`."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def question(
    key: str,
    messages: Sequence[Message],
    form: type[Form],
    *,
    repeat: int = 0,
    check: Callable[[Form], str | None] | None = None,
    passages: Sequence[str] = (),
) -> Question:
    """A question whose answer is an instance of `form`.

    Args:
        repeat: of the same question; shifts the sampling seed, so that repeats differ.
        check: as in `core.judging.ask`.
        passages: what can be quoted, as in `core.judging.ask`.
    """
    sent = [message.model_dump() for message in messages]

    async def answer(judge: ChatModel | None, sampling: Sampling | None) -> Mapping[str, Any]:
        if judge is None:
            raise UseError("this suite asks a language model; expected --judge service/model, not embedded")
        chosen = (sampling or Sampling()).seeded(0, repeat)
        return (await ask(judge, messages, form, sampling=chosen, check=check, passages=passages)).model_dump(mode="json")

    schema = schema_of(form)
    return Question(key, fingerprint_of(sent, dict(schema), repeat), answer, schema)


def needs_judge(material: Material) -> str | None:
    """For `RunSuite.lacks` of a suite that asks a language model."""
    if not any(name != "embedded" for name in material.judges):
        return "it asks a judge; pass --judge service/model"
    return None


def spoken(dialogue: Transcript) -> str:
    """The dialogue as text, a line a message, by USER and MODEL."""
    told = [("USER", dialogue.opening)] if dialogue.opening is not None else []
    for turn in dialogue.turns:
        told.append(("MODEL", turn.reply))
        if turn.message is not None:
            told.append(("USER", turn.message))
    return dialogue_text(told)
