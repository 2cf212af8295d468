"""Prompts by a large model's own chat template, without tokenising a generated reply again.

Covers templates that use the whole dialogue, as those of Qwen and Llama do. Each reply of the policy is rendered as a mark that
no text contains, the text around the marks is encoded piece by piece, and the ids replace the marks: the pieces meet at special
tokens, where no tokenizer merges. Does not cover the laptop policy's format (`chat_format`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError

__all__ = ["TemplateFormat"]

_MARK = re.compile("\ue000([0-9]+)\ue001")  # private-use characters, which no template trims


class TemplateFormat:
    """Prompts by one tokenizer (a `transformers` one).

    Args:
        options: variables of the template, e.g. `enable_thinking`.

    Raises:
        UseError: the tokenizer has no chat template, or one that loses replies, or hides think tags as special tokens.
    """

    def __init__(self, tokenizer: Any, *, options: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self._options = dict(options or {})
        if not tokenizer.chat_template:
            raise UseError("the tokenizer has no chat template; expected one in its tokenizer_config.json or chat_template.jinja")
        if {"<think>", "</think>"} & set(tokenizer.all_special_tokens):
            raise UseError("the tokenizer hides think tags as special tokens, so that the user would see the thinking")
        self._encoded = lru_cache(maxsize=20_000)(self._encode)  # every later turn has the same pieces

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        """The dialogue so far and the opening of a reply.

        Args:
            reply_ids: the ids of the policy's replies without their end token, by index in `messages`.

        Raises:
            UseError: the template does not show every reply exactly once.
        """
        own = reply_ids or {}
        marked = [
            {"role": message.role, "content": f"\ue000{place}\ue001" if place in own else message.content}
            for place, message in enumerate(messages)
        ]
        text = self.tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True, **self._options)
        pieces = _MARK.split(text)
        if [int(place) for place in pieces[1::2]] != sorted(own):
            raise UseError(
                f"the chat template shows {len(pieces) // 2} of {len(own)} earlier replies; expected each once, in order"
            )
        ids: list[int] = []
        for number, piece in enumerate(pieces):
            ids += own[int(piece)] if number % 2 else self._encoded(piece)
        return ids

    def _encode(self, piece: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(piece, add_special_tokens=False))

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))
