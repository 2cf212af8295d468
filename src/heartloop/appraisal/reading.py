from __future__ import annotations
from collections.abc import Sequence
from heartloop.appraisal.values import Appraisal, Story

__all__ = ["appraise", "lacks_english"]


def appraise(reply: str, story: Story, earlier: Sequence[str] = ()) -> Appraisal:
    return Appraisal((), (), len(reply.split()), not reply.strip(), 0.0)


def lacks_english(text: str) -> bool:
    return False
