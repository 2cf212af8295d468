"""What the rules of `appraisal` see in the replies of a finished dialogue: labels for reports, which move no mood.

Covers one dialogue, a hash of the rules, and the worker that labels many dialogues on another core
(`python -m heartloop.environments.sage.labels`: a JSON line in, a JSON line out). The embedded user appraises every reply
while it plays and needs none of this; beside a simulator model it would keep the calls waiting, so it is done afterwards
(`heartloop.report.labels`). English only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from heartloop.appraisal import appraise, lacks_english
from heartloop.core.dialogue import Transcript
from heartloop.environments.sage.scenario import Scenario
from heartloop.environments.sage.story import evidence_of, story_of

__all__ = ["label", "rules_hash", "talk_of"]


def label(scenario: Scenario, said: Sequence[str], heard: Sequence[str]) -> list[Mapping[str, Any]]:
    """The evidence of every reply, as `Turn.evidence` holds it; empty for a reply that is not English.

    Args:
        said: the person's messages, the opening first; at least as many as replies.
        heard: the policy's replies.
    """
    found: list[Mapping[str, Any]] = []
    for turn, reply in enumerate(heard):
        if lacks_english(reply):
            found.append({})
            continue
        appraisal = appraise(reply, story_of(scenario, said[: turn + 1]), heard[:turn])
        found.append(evidence_of(appraisal, scenario))
    return found


def talk_of(transcript: Transcript) -> tuple[list[str], list[str]]:
    """What was said and heard, as far as replies were judged: the two arguments of `label`.

    Empty where the person did not open, or a message is missing in between.
    """
    said, heard = [transcript.opening], []
    for turn in transcript.turns:
        if turn.state is None:
            break
        heard.append(turn.reply)
        said.append(turn.message)
    said = said[: len(heard)]
    known = [message for message in said if message is not None]
    return (known, heard) if len(known) == len(heard) else ([], [])


@cache
def rules_hash() -> str:
    """First 12 hex digits of the SHA-256 of all files the labels come from: changes with any rule."""
    rooms = [resources.files("heartloop.appraisal"), resources.files(__package__)]
    digest = hashlib.sha256()
    for room in rooms:
        for file in sorted(room.iterdir(), key=lambda file: file.name):
            if file.name.endswith((".py", ".toml")) and (room is rooms[0] or file.name in ("labels.py", "story.py")):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _work() -> None:
    """Answers every line with the labels of its dialogue. Text goes through as ASCII."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(label(Scenario.model_validate(asked["scenario"]), asked["said"], asked["heard"])), flush=True)


if __name__ == "__main__":
    _work()
