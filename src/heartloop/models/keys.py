"""API keys: sent to the server in the request headers, and removed from all other text.

Covers the headers, and finding a key in a text: whole, encoded or truncated. Does not cover where a key comes from (`names`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import quote

__all__ = ["Key", "scrub"]


def scrub(text: str, secret: str) -> str:
    """The text without the secret: whole, URL-encoded, in base64, or truncated to eight characters or more."""
    if len(secret) < 4:  # a placeholder, which may be part of ordinary words
        return text
    text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
    if len(secret) < 12:
        return text
    for start in (secret[:8], *_in_base64(secret)):
        if start in text:
            text = re.sub(re.escape(start) + r"[^\s\"'<>,;]*", "***", text)
    return text


def _in_base64(secret: str) -> tuple[str, ...]:
    """The first base64 characters of a secret of twelve characters or more, which may follow other text.

    For each of the three alignments, the characters that depend on the secret alone; in both alphabets.
    """
    starts: list[str] = []
    for before in range(3):
        code = base64.b64encode(b"\0" * before + secret.encode())
        start = code[4 if before else 0 :][:10].decode()
        starts += [start, start.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(starts))


class Key:
    """An API key that only the server sees; `others` are secrets in the address, removed from texts too."""

    def __init__(self, value: str, *others: str) -> None:
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {value}"} if value else {})}
        self._secrets = tuple(secret for secret in (value, *others) if secret)
        # a short placeholder such as `EMPTY` may be part of a model's answer
        long = [secret for secret in self._secrets if len(secret) >= 12]
        self._starts = tuple(part for secret in long for part in (secret[:8], quote(secret, safe="")[:8], *_in_base64(secret)))

    def __repr__(self) -> str:
        return "***"

    def headers(self) -> Mapping[str, str]:
        """Request headers."""
        return self._headers

    def scrub(self, text: str) -> str:
        """The text without the key."""
        for secret in self._secrets:
            text = scrub(text, secret)
        return text

    def may_occur_in(self, *texts: str | None) -> bool:
        """Whether one of the texts may contain the key; a fast check before `scrub`."""
        return any(start in text for start in self._starts for text in texts if text)
