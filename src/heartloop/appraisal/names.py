"""Names of the learned readers, as `--user` and `--judge` take them. Imports nothing, so that asking for a name costs nothing."""

from __future__ import annotations

__all__ = ["EMBEDDED", "EMBEDDED_LM", "LEARNED", "is_embedded"]

EMBEDDED = "embedded"
"""The reader that needs its weights only, and no call of a model."""
EMBEDDED_LM = "embedded-lm"
"""The reader on hidden states of a small language model on this machine."""
LEARNED = frozenset({EMBEDDED, EMBEDDED_LM})


def is_embedded(model: str) -> bool:
    """Whether a model is an embedded user: one of the learned readers in place of a language model.

    >>> is_embedded("embedded"), is_embedded("embedded-lm"), is_embedded("openai/gpt-4.1")
    (True, True, False)
    """
    return model in LEARNED
