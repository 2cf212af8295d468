"""An analysis before the response, where the system prompt asks for both (PERM).

Covers an analysis as good as the baseline: the counsellor's was written for the message, the others' are in `phrases.toml` and
name nothing that was said. `garbage` ignores the form. Does not cover the responses (`general`, `managing`, `counsellor`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heartloop.core.dialogue import Message
from heartloop.models.baselines.counsellor import written_for
from heartloop.models.baselines.general import in_one_turn
from heartloop.models.baselines.text import Context, Pick, phrases

__all__ = ["analyses_of", "in_two_parts", "wants_two_parts"]


def wants_two_parts(messages: Sequence[Message]) -> bool:
    """Whether the system prompt asks for an analysis and a response, each under its heading."""
    role = next((message.content for message in messages if message.role == "system"), "")
    return all(re.search(rf"^# {heading}$", role, re.MULTILINE) for heading in ("Analysis", "Response"))


def in_two_parts(name: str, reply: str, context: Context, pick: Pick) -> str:
    """The reply under the heading of the response, after an analysis; the dialogue has one turn (`in_one_turn`)."""
    if name == "garbage":
        return reply
    return f"# Analysis\n{analyses_of(name, context, pick)[0]}\n\n# Response\n{in_one_turn(name, reply, pick)}"


def analyses_of(name: str, context: Context, pick: Pick) -> list[str]:
    """The baseline's analyses of the last message, the first of them to be used first."""
    written = written_for(context) if name == "counsellor" else None
    if written is not None and written.analysis:
        return [written.analysis]
    kinds = phrases()["analysis"]
    if name == "counsellor":
        name = "reflector"
    frames: Sequence[str] = kinds[name if name in kinds else "others"]
    return pick.order(frames)
