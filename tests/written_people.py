"""What the tests of embedded users share: which beats and lines of a scenario a dialogue told."""

from __future__ import annotations

from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.written import written_lines

__all__ = ["check_own_words", "told"]


def told(scenario: Any, transcript: Transcript) -> list[str]:
    """Kinds of the beats that were told, in order."""
    return [beat.kind for turn in transcript.turns for beat in scenario.beats if beat.text in (turn.message or "")]


def check_own_words(scenario: Any, transcript: Transcript) -> None:
    """Every message consists of the person's written lines, and none comes twice."""
    lines = sorted([*(beat.text for beat in scenario.beats), *written_lines(scenario.lines)], key=len, reverse=True)
    said: list[str] = []
    for turn in transcript.turns:
        rest = turn.message or ""
        for line in lines:
            if line in rest:
                rest = rest.replace(line, "", 1)
                said.append(line)
        assert not rest.strip()
    assert len(said) == len(set(said))
