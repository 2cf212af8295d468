"""A dialogue's score in points of its environment's `Scale`: points, trajectory, group, bounds.

Evaluation and report read scores through these functions. Does not cover sums over dialogues (`scores`) or their display
(`heartloop.report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from heartloop.core.dialogue import Transcript
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scale

__all__ = [
    "bounds_of", "course_of", "group_means", "group_of", "heard", "in_group_order", "options_of", "points_of", "roles_of",
    "scale_of",
]  # fmt: skip


def scale_of(environment: str) -> Scale:
    """The scale of an environment's score.

    Raises:
        UseError: an unknown environment.
    """
    return load_environment(environment).scale


def points_of(transcript: Transcript) -> float | None:
    """The score in points; `None` for an unscored dialogue."""
    return None if transcript.score is None else scale_of(transcript.environment).points * transcript.score


def heard(transcript: Transcript) -> list[str]:
    """What the person heard of each reply: of an answer in parts, such as PERM's, the last part."""
    training = load_environment(transcript.environment).training
    return [turn.reply if training is None else training.said(turn.reply) for turn in transcript.turns]


def course_of(transcript: Transcript) -> list[float]:
    """Points at the start and after every judged reply; an unjudged reply adds no value."""
    return scale_of(transcript.environment).course(transcript)


def group_of(transcript: Transcript) -> str:
    """The group of its scenario, the fact named by `Scale.group`; empty if it has none."""
    return transcript.facts.get(scale_of(transcript.environment).group, "")


def group_means(dialogues: Iterable[Transcript]) -> dict[str, float]:
    """Mean points of each group that has a scored dialogue."""
    groups: dict[str, list[float]] = {}
    for dialogue in dialogues:
        if (points := points_of(dialogue)) is not None:
            groups.setdefault(group_of(dialogue), []).append(points)
    return {key: float(np.mean(points)) for key, points in groups.items()}


def in_group_order(scale: Scale, keys: Iterable[str]) -> list[str]:
    """Groups in the published order, then other ones by name."""
    known = {key: place for place, key in enumerate(scale.group_order)}
    return sorted(set(keys), key=lambda key: (known.get(key, len(known)), key))


def options_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The environment's options in the settings of a run; empty if there are none."""
    options = settings.get("options")
    return options if isinstance(options, Mapping) else {}


def roles_of(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """The roles in the settings of a run, each a model's name or `embedded`; empty if there are none."""
    roles = settings.get("roles")
    return roles if isinstance(roles, Mapping) else {}


def bounds_of(settings: Mapping[str, Any], scale: Scale) -> tuple[float, float]:
    """Bounds of success and failure in points: options `success_at` and `failure_below` of the run, else the scale's."""
    options = options_of(settings)
    success_at, failure_below = (
        float(given) if isinstance(given := options.get(name), (int, float)) and abs(given) < 1e6 else getattr(scale, name)
        for name in ("success_at", "failure_below")
    )
    return success_at, failure_below
