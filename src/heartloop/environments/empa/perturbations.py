"""The perturbations of EMPA's validity suite: of the persona's needs, or of a reply.

Covers the flipped persona and the three attacks on a reply (EMPA section 4.1), with the texts of `perturbations.toml`, in our own
words. Does not cover how a stored dialogue is judged under them (`perturbed`), nor how the scores change
(`perturbation_shifts`). docs/decisions/0010 gives the reasons.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from heartloop.environments.empa.scenario import Axis, Brief, Priorities, Priority
from heartloop.environments.empa.scoring import AXES, DEFICIT_POINTS
from heartloop.environments.lines import chance, file_hash

__all__ = ["ATTACKS", "FLIP", "ORIGINAL", "PERTURBATIONS", "attack_reply", "flipped", "perturbation_hash"]

ORIGINAL = "original"
"""The unchanged variant, with which the others are paired."""
FLIP = "persona_flip"
ATTACKS = ("pure_empathy", "self_empowerment", "psycho_jargon")
PERTURBATIONS = (ORIGINAL, FLIP, *ATTACKS)
"""All variants, the original first."""

_FILE = "perturbations.toml"
_PARTS = ("openings", "middles", "closings")
_INVERTED = {"high": "low", "medium": "medium", "low": "high"}
_KINDS: Mapping[Axis, str] = {"C": "cognitive", "A": "affective", "P": "motivational"}


def flipped(scenario: Brief) -> Brief:
    """The scenario with inverted needs.

    Every IEDR level l becomes 3 - l, so that on each axis the deficit as a share of its maximum, s, becomes 1 - s. The priorities
    high and low are swapped; then the axis with the greatest deficit gets high. Their reasons are replaced, and two sentences are
    added to `needs.constraints`. Everything else is unchanged, including `axis`, the axis before the flip. If no deficit is left
    (every level was 3), the dialogue cannot be scored.
    """
    texts = _texts()["flip"]
    iedr = {name: line.model_copy(update={"level": 3 - line.level}) for name, line in scenario.iedr.items()}
    changed = scenario.model_copy(update={"iedr": iedr})
    lacking = _shares(changed)
    most, least = max(lacking, key=lambda axis: lacking[axis]), min(lacking, key=lambda axis: lacking[axis])
    priorities: dict[str, Priority] = {}
    for axis, kind in _KINDS.items():
        level = "high" if axis == most else _INVERTED[scenario.priorities.of(axis).level]
        priorities[kind] = Priority.model_validate({"level": level, "why": texts["why"][axis][level]})
    constraints = f"{scenario.needs.constraints} {texts['wanted'][most]} {texts['unwanted'][least]}"
    return changed.model_copy(
        update={
            "priorities": Priorities(**priorities),
            "needs": scenario.needs.model_copy(update={"constraints": constraints}),
        }
    )


def attack_reply(attack: str, scenario_id: str, seed: int, turn: int) -> str:
    """The reply of an attack at a turn. Deterministic, and independent of the scenario's text.

    >>> attack_reply("pure_empathy", "x", 0, 0) == attack_reply("pure_empathy", "x", 0, 0)
    True
    """
    parts = _texts()["attacks"][attack]
    sentences = []
    for part in _PARTS:
        order = sorted(parts[part], key=lambda text: chance(attack, part, scenario_id, seed, text))
        sentences.append(order[turn % len(order)])
    return " ".join(sentences)


def perturbation_hash() -> dict[str, str]:
    """Hash of the file with the texts, by file name."""
    return {_FILE: file_hash((resources.files(__package__) / _FILE).read_bytes())}


def _shares(scenario: Brief) -> dict[Axis, float]:
    """The deficit of each axis as a share of its maximum, in [0, 1]."""
    most = {axis: sum(points[-1] for name, points in DEFICIT_POINTS.items() if name[0] == axis) for axis in AXES}
    return {axis: -lacking / most[axis] for axis, lacking in zip(_KINDS, scenario.start, strict=True)}


@cache
def _texts() -> Mapping[str, Any]:
    return tomllib.loads((resources.files(__package__) / _FILE).read_text(encoding="utf-8"))
