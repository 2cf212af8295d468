"""A number with its noun.

Covers English singular and plural. Does not cover the report's pages (their templates).
"""

from __future__ import annotations

__all__ = ["amount"]


def amount(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular or plural.

    Args:
        many: the plural; by default the singular with an s.

    >>> amount(1, "dialogue"), amount(2009, "dialogue"), amount(0, "reply", "replies")
    ('1 dialogue', '2,009 dialogues', '0 replies')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
