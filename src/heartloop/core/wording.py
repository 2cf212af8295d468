"""A number with its noun, durations and costs.

Covers English singular and plural. Does not cover the report's pages (their templates).
"""

from __future__ import annotations

__all__ = ["amount", "clock", "money", "roughly"]


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


def money(cost: float | None) -> str:
    """A cost with two decimals, below 0.1 with two significant digits; a dash where it is unknown.

    >>> money(12.345), money(0.0042), money(0.0), money(None)
    ('12.35', '0.0042', '0', '–')
    """
    if cost is None:
        return "–"
    return f"{cost:.2f}" if cost >= 0.1 else f"{cost:.2g}"


def roughly(seconds: float) -> str:
    """A duration with its unit, for an estimate.

    >>> roughly(0.2), roughly(75), roughly(600), roughly(9000)
    ('1 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
