"""Name of the learned reader, as `--user` and `--judge` take it. Imports nothing, so that asking for a name costs nothing."""

from __future__ import annotations

__all__ = ["EMBEDDED", "is_embedded"]

EMBEDDED = "embedded"
"""The learned reader, which needs its weights only."""


def is_embedded(model: str) -> bool:
    """Whether the learned reader plays in place of a language model.

    >>> is_embedded("embedded"), is_embedded("openai/gpt-4.1")
    (True, False)
    """
    return model == EMBEDDED
