"""A dialogue's score in points, as its environment's `Scale` reads it: points, course, group, bounds.

Everything that all environments have in common reads a score through here. Does not cover sums over dialogues (`scores`) or how
they look (`heartloop.report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from heartloop.core.dialogue import Transcript
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scale

__all__ = [
    "bounds_of", "course_of", "group_means", "group_of", "in_group_order", "options_of", "points_of", "roles_of", "scale_of",
]  # fmt: skip


def scale_of(environment: str) -> Scale:
    """How an environment's score is read.

    Raises:
        UseError: there is no environment of that name.
    """
    return load_environment(environment).scale


def points_of(transcript: Transcript) -> float | None:
    """The score in points; `None` where it is unscored."""
    return None if transcript.score is None else scale_of(transcript.environment).points * transcript.score


def course_of(transcript: Transcript) -> list[float]:
    """Points at the start and after every judged reply; an unjudged reply adds no value."""
    return scale_of(transcript.environment).course(transcript)


def group_of(transcript: Transcript) -> str:
    """The group its scenario belongs to, by the fact that groups scenarios; empty where it has none."""
    return transcript.facts.get(scale_of(transcript.environment).group, "")


def group_means(dialogues: Iterable[Transcript]) -> dict[str, float]:
    """Mean points of each group that has a scored dialogue."""
    groups: dict[str, list[float]] = {}
    for dialogue in dialogues:
        if (points := points_of(dialogue)) is not None:
            groups.setdefault(group_of(dialogue), []).append(points)
    return {key: float(np.mean(points)) for key, points in groups.items()}


def in_group_order(scale: Scale, keys: Iterable[str]) -> list[str]:
    """Groups in the published order, unknown ones after them by name."""
    known = {key: place for place, key in enumerate(scale.group_order)}
    return sorted(set(keys), key=lambda key: (known.get(key, len(known)), key))


def options_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The environment's options of a run, from its settings; empty where they hold none."""
    options = settings.get("options")
    return options if isinstance(options, Mapping) else {}


def roles_of(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """By role, who played it in a run: a model's name, or `embedded`; empty where the settings do not say."""
    roles = settings.get("roles")
    return roles if isinstance(roles, Mapping) else {}


def bounds_of(settings: Mapping[str, Any], scale: Scale) -> tuple[float, float]:
    """Bounds of success and failure in points: the options of the run where its environment has such, else the scale's."""
    options = options_of(settings)
    success_at, failure_below = (
        float(given) if isinstance(given := options.get(name), (int, float)) and abs(given) < 1e6 else getattr(scale, name)
        for name in ("success_at", "failure_below")
    )
    return success_at, failure_below
