"""API keys: shown to the server that asks for them, and taken out of everything else.

Covers the request's headers and finding a key again in a text, whole, encoded or cut short. Does not cover where a key comes
from (`models`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import quote

__all__ = ["Key", "scrub"]


def scrub(text: str, secret: str) -> str:
    """The text without the secret, whole, URL-encoded, in base64, or cut short after eight characters or more."""
    if len(secret) < 4:  # a placeholder, and part of many words
        return text
    text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    if len(secret) < 12:
        return text
    for start in (secret[:8], *_in_base64(secret)):
        if start in text:
            text = re.sub(re.escape(start) + r"[^\s\"'<>,;]*", "***", text)
    return text


def _in_base64(secret: str) -> tuple[str, ...]:
    """How base64 may begin to show a secret of twelve characters or more, alone or behind other text.

    For each of the three alignments the first characters that depend on nothing but the secret; both alphabets.
    """
    found: list[str] = []
    for before in range(3):
        code = base64.b64encode(b"\0" * before + secret.encode())
        shown = code[4 if before else 0 :][:10].decode()
        found += [shown, shown.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(found))


class Key:
    """An API key that shows itself to the server only; `others` are secrets of the address, to be kept as quiet."""

    def __init__(self, value: str, *others: str) -> None:
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {value}"} if value else {})}
        self._secrets = tuple(secret for secret in (value, *others) if secret)
        # a placeholder such as `EMPTY` may stand in a model's words by right
        long = [secret for secret in self._secrets if len(secret) >= 12]
        self._starts = tuple(part for secret in long for part in (secret[:8], quote(secret, safe="")[:8], *_in_base64(secret)))

    def __repr__(self) -> str:
        return "***"

    def headers(self) -> Mapping[str, str]:
        """What the server wants to see."""
        return self._headers

    def scrub(self, text: str) -> str:
        """The text without the key."""
        for secret in self._secrets:
            text = scrub(text, secret)
        return text

    def in_words(self, *texts: str | None) -> bool:
        """Whether a model's words may hold the key."""
        return any(start in text for start in self._starts for text in texts if text)
