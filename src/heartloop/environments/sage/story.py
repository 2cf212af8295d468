"""A scenario as the appraisal sees it, and an appraisal as a transcript keeps it.

Shared by both users: the embedded one reacts to the appraisal; beside a simulator model it only labels what a
reply did (strategies, flaws), so that reports show the same things for both. Does not cover reactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.appraisal import Appraisal, Story, Topic
from heartloop.environments.sage.scenario import Scenario

__all__ = ["LIKELY", "evidence_of", "story_of"]

LIKELY = 0.5
"""Confidence from which a strategy is kept in the transcript (ours)."""


def story_of(scenario: Scenario, said: Sequence[str]) -> Story:
    """The scenario as far as the talk has come: a concern is told once a beat about it was spoken or the opening names it."""
    spoken = " ".join(said)
    told = {beat.concern for beat in scenario.beats if beat.text in spoken}
    opening = said[0].lower() if said else ""
    concerns = tuple(
        Topic(c.key, c.cues, c.key in told or (c.depth == "surface" and any(cue in opening for cue in c.cues)), c.depth)
        for c in scenario.concerns
    )
    tried_told = any(beat.about == "tried" and beat.text in spoken for beat in scenario.beats)
    tried = tuple(Topic(f"tried-{i}", a.cues, tried_told, "tried") for i, a in enumerate(scenario.background.tried))
    return Story(tuple(said), concerns, tried)


def evidence_of(appraisal: Appraisal, scenario: Scenario) -> Mapping[str, Any]:
    """What a transcript keeps of an appraisal: strategies more likely than not, flaws, how far it is bound to the story."""
    concerns = {concern.key: concern.text for concern in scenario.concerns}
    insight = next((s.insight for s in appraisal.sentences if s.insight), None)
    strategies = sorted(appraisal.strategies.items(), key=lambda pair: -pair[1])
    return {
        "strategies": {name: round(confidence, 2) for name, confidence in strategies if confidence >= LIKELY},
        "flaws": {flaw.kind: round(appraisal.severity(flaw.kind), 2) for flaw in appraisal.flaws},
        "bound": round(max((s.bound for s in appraisal.sentences if not s.broken), default=0.0), 2),
        "insight": concerns.get(insight or ""),
        "words": appraisal.words,
        "silent": appraisal.silent,
    }
