"""From a dialogue to token ids, message by message, without tokenising a generated reply again.

A prompt is a sequence of pieces, one a message, each rendered by the tokenizer's chat template as if alone; a reply of the policy
is the ids that it was generated as. That is right for templates that render message by message, such as the laptop policy's
(`laptop.tokenizer`). Does not cover templates that use the whole list, as those of large models do (`template_format`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError

__all__ = ["ChatFormat"]


class ChatFormat:
    """Prompts by one tokenizer (a `transformers` one).

    Words that the tokenizer does not know are left out, so that no model learns to generate the unknown token.

    Args:
        longest: maximum number of prompt tokens; of a longer prompt the oldest messages after the system prompt are left out.
        `None`
            leaves out none.

    Raises:
        UseError: the tokenizer has no chat template or no end-of-text token.
    """

    def __init__(self, tokenizer: Any, *, longest: int | None = 960) -> None:
        if not tokenizer.chat_template or tokenizer.eos_token_id is None:
            raise UseError("the tokenizer has no chat template or no end token; expected both in its tokenizer_config.json")
        self.tokenizer = tokenizer
        self.longest = longest
        self.end = int(tokenizer.eos_token_id)
        """The token that closes a reply."""
        probe = [{"role": "user", "content": ""}]
        bare = tokenizer.apply_chat_template(probe, tokenize=False)
        opened = tokenizer.apply_chat_template(probe, tokenize=False, add_generation_prompt=True)
        self.opening = self._encode(opened[len(bare) :])
        """The tokens before a reply."""
        self._rendered = lru_cache(maxsize=20_000)(self._render)

    def message_ids(self, message: Message) -> tuple[int, ...]:
        """One message with its markers."""
        return self._rendered(message.role, message.content)

    def reply_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        """A reply with its markers, from the ids it was generated as, with or without their end token."""
        return (*self.opening, *ids, *(() if ids and ids[-1] == self.end else (self.end,)))

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        """The dialogue so far and the opening of a reply.

        Args:
            reply_ids: the ids of the policy's replies by index in `messages`; other messages are encoded from their text.
        """
        own = reply_ids or {}
        pieces = [self.reply_ids(own[i]) if i in own else self.message_ids(m) for i, m in enumerate(messages)]
        first = int(bool(messages) and messages[0].role == "system")
        if self.longest is not None:
            while len(pieces) > first + 1 and sum(map(len, pieces)) + len(self.opening) > self.longest:
                del pieces[first]
        return [token for piece in pieces for token in piece] + list(self.opening)

    def text(self, ids: Sequence[int]) -> str:
        """The text of a reply, without markers."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _render(self, role: str, content: str) -> tuple[int, ...]:
        return self._encode(self.tokenizer.apply_chat_template([{"role": role, "content": content}], tokenize=False))

    def _encode(self, text: str) -> tuple[int, ...]:
        unknown = self.tokenizer.unk_token_id
        return tuple(token for token in self.tokenizer.encode(text, add_special_tokens=False) if token != unknown)
