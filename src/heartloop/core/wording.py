"""A number with its noun, for what is printed.

Covers English singular and plural. Does not cover the report's pages, whose templates hold their own sentences.
"""

from __future__ import annotations

__all__ = ["amount"]


def amount(n: int, one: str, many: str | None = None) -> str:
    """So many of something.

    Args:
        many: the plural, where it is not the singular with an s.

    >>> amount(1, "dialogue"), amount(2009, "dialogue"), amount(0, "reply", "replies")
    ('1 dialogue', '2,009 dialogues', '0 replies')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
