"""Content tags of a scenario, as a transcript keeps them. Does not cover who assigns them."""

from __future__ import annotations

from heartloop.core.dialogue import Transcript

__all__ = ["HEAVY_TAGS", "content_tags"]

HEAVY_TAGS = frozenset({"self-harm", "suicide", "abuse", "sexual-violence"})
"""Dialogues with these tags stay folded until a reader opens them."""


def content_tags(transcript: Transcript) -> list[str]:
    """Tags other than `none`."""
    return [tag for tag in transcript.facts.get("tags", "").split() if tag != "none"]
