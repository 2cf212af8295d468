"""Labels of the replies of a finished dialogue by the rules of `appraisal`, for reports. They change no emotion.

Covers one dialogue and a hash of the rules. The embedded user makes these labels while it plays; for an LLM user they are made
afterwards (`heartloop.report.labels`), so that they do not delay calls. English only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from heartloop.appraisal import appraise, lacks_english
from heartloop.environments.sage.scenario import Scenario
from heartloop.environments.sage.story import evidence_of, story_of
from heartloop.environments.spec import ReplyLabels

__all__ = ["LABELS", "label", "rules_hash"]


def label(scenario: Scenario, messages: Sequence[str], replies: Sequence[str]) -> list[Mapping[str, Any]]:
    """The evidence of every reply in the form of `Turn.evidence`; empty for a reply that is not English.

    Args:
        messages: the user's messages, first message included; at least as many as replies.
    """
    labels: list[Mapping[str, Any]] = []
    for turn, reply in enumerate(replies):
        if lacks_english(reply):
            labels.append({})
            continue
        appraisal = appraise(reply, story_of(scenario, messages[: turn + 1]), replies[:turn])
        labels.append(evidence_of(appraisal, scenario))
    return labels


@cache
def rules_hash() -> str:
    """First 12 hex digits of the SHA-256 of all files that determine the labels."""
    folders = [resources.files("heartloop.appraisal"), resources.files(__package__)]
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.iterdir(), key=lambda file: file.name):
            if file.name.endswith((".py", ".toml")) and (folder is folders[0] or file.name in ("labels.py", "story.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


LABELS = ReplyLabels(label, rules_hash, applies=lambda transcript: not lacks_english(transcript.opening or ""))
