"""A number with its noun, and a duration.

Covers English singular and plural. Does not cover the report's pages (their templates).
"""

from __future__ import annotations

__all__ = ["amount", "clock"]


def amount(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular or plural.

    Args:
        many: the plural; by default the singular with an s.

    >>> amount(1, "dialogue"), amount(2009, "dialogue"), amount(0, "reply", "replies")
    ('1 dialogue', '2,009 dialogues', '0 replies')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def clock(seconds: float) -> str:
    """A duration in minutes or hours.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
