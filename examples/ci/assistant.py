"""The policy that the example workflow evaluates: replace `reply` by a call of your own system.

Evaluated as `python:assistant:reply` from the folder of this file.
"""

from __future__ import annotations

from collections.abc import Sequence


def reply(messages: Sequence[dict[str, str]]) -> str:
    """The next reply of a dialogue.

    Args:
        messages: system prompt of the environment, then the dialogue, each with `role` and `content`; the last is the person's.
    """
    about = messages[-1]["content"].split(".")[0].strip()
    return f"I keep thinking of what you just said, {about[:80].lower()}. What was that like for you?"
