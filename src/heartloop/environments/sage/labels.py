"""Labels of the replies of a finished dialogue by the learned reader, for reports. They change no emotion.

Covers one dialogue and a hash of what decides the labels. The embedded user makes these labels while it plays; for an LLM user
they are made afterwards (`heartloop.report.labels`), so that they do not delay calls. English only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.environments.appraising import LearnedAppraiser, evidence_of
from heartloop.environments.sage.scenario import SageBrief
from heartloop.environments.sage.users import READING
from heartloop.environments.spec import ReplyLabels
from heartloop.reader.features import lacks_english

__all__ = ["LABELS", "label", "rules_hash"]


def label(scenario: SageBrief, messages: Sequence[str], replies: Sequence[str]) -> list[Mapping[str, Any]]:
    """The evidence of every reply in the form of `Turn.evidence`; empty for a reply that is not English.

    Args:
        messages: the user's messages, first message included; at least as many as replies.
    """
    appraiser = LearnedAppraiser(READING)
    return [
        {} if lacks_english(reply) else evidence_of(appraiser.appraise(scenario, messages[: turn + 1], replies[: turn + 1]))
        for turn, reply in enumerate(replies)
    ]


def rules_hash() -> str:
    """Of the reader's weights and of the effect."""
    return "-".join(LearnedAppraiser(READING).hashes.values())


LABELS = ReplyLabels(label, rules_hash, applies=lambda transcript: not lacks_english(transcript.opening or ""))
