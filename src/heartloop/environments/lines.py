"""Choosing among a person's written lines, and numbers that depend on their arguments alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

__all__ = ["chance", "file_hash", "least_recent", "pick", "pick_unsaid"]


def file_hash(data: bytes) -> str:
    """First 12 hex digits of the SHA-256."""
    return hashlib.sha256(data).hexdigest()[:12]


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return int(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:8], 16) / 2**32


def pick(lines: Sequence[str], *parts: object) -> str:
    """The line that the parts decide."""
    return lines[int(chance(*parts) * len(lines))]


def pick_unsaid(groups: Iterable[Sequence[str]], said: Sequence[str], *parts: object) -> str | None:
    """A line that was not said yet, of the first group that has one; `None` where none has."""
    spoken = " ".join(said)
    for group in groups:
        if left := [line for line in group if line not in spoken]:
            return pick(left, *parts)
    return None


def least_recent(lines: Sequence[str], said: Sequence[str]) -> str:
    """The line that was said the longest ago, so that a long dialogue never runs out of lines."""

    def last(line: str) -> int:
        return max((n for n, message in enumerate(said) if line in message), default=-1)

    return min(lines, key=last)
