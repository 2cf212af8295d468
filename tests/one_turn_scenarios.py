"""Scenarios of one turn, so that no test depends on the shipped sets: three of daily conversation, one of PERM."""

from __future__ import annotations

from pathlib import Path

from heartloop.environments.daily.scenario import DailyScenario
from heartloop.environments.perm.scenario import PermScenario

__all__ = ["AWAKE", "LIE", "SAMPLE", "SWIM"]

_LINES = (Path(__file__).parent / "data" / "one_turn_scenarios.jsonl").read_text(encoding="utf-8").splitlines()
AWAKE, LIE, SWIM = (DailyScenario.model_validate_json(line) for line in _LINES[:3])
SAMPLE = PermScenario.model_validate_json(_LINES[3])
