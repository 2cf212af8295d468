"""Names of an earlier schema in stored transcripts and settings, and what they are called now: the one table for both.

Used by the readers of stored runs and by the comparison of behaviour across versions. Does not cover fields that were dropped:
there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MOVED_OPTIONS", "ROLES", "TRANSCRIPT_FIELDS", "current_role", "current_transcript", "is_old_settings"]

TRANSCRIPT_FIELDS: Mapping[str, str] = {"simulator": "user"}
"""Fields of a transcript of schema 1."""

ROLES: Mapping[str, str] = {"simulator": "user"}
"""Roles in the calls, models, sampling, usage and failure of a transcript of schema 1, and in the settings of its run."""

MOVED_OPTIONS = (
    "preset", "variant", "max_turns", "relation_weight", "window", "bystander_weight", "without", "success_at", "failure_below",
)  # fmt: skip
"""Settings of a run that were fields of their own and now are entries of `options`."""


def current_role(role: str) -> str:
    """Today's name of a role."""
    return ROLES.get(role, role)


def current_transcript(record: Mapping[str, Any]) -> dict[str, Any]:
    """A transcript record of schema 1 with the names of schema 2."""
    renamed = {TRANSCRIPT_FIELDS.get(name, name): value for name, value in record.items()}
    for field in ("models", "sampling", "usage"):
        if isinstance(renamed.get(field), Mapping):
            renamed[field] = {current_role(role): value for role, value in renamed[field].items()}
    if isinstance(renamed.get("calls"), (list, tuple)):
        renamed["calls"] = [_with_role(call) for call in renamed["calls"]]
    renamed["failure"] = _with_role(renamed.get("failure"))
    renamed["schema_version"] = 2
    return renamed


def is_old_settings(settings: Mapping[str, Any]) -> bool:
    """Whether a run's settings were written before options and roles were mappings."""
    return "simulator" in settings or ("preset" in settings and "options" not in settings)


def _with_role(part: Any) -> Any:
    return (
        {**part, "role": current_role(part["role"])} if isinstance(part, Mapping) and isinstance(part.get("role"), str) else part
    )
