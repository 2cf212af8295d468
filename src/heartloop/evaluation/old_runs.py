"""Settings of runs of earlier versions in the current form. Does not cover transcripts (`core.renames`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.errors import UseError
from heartloop.core.renames import MOVED_OPTIONS, current_role, is_old_settings
from heartloop.environments.registry import load_environment

__all__ = ["current_settings"]


def current_settings(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings with `roles` and `options`; current settings are returned unchanged.

    A missing option gets its default. If the environment is not installed, its options are not completed.
    """
    if not is_old_settings(saved):
        return dict(saved)
    settings = {name: value for name, value in saved.items() if name not in (*MOVED_OPTIONS, "user", "simulator")}
    options = {name: saved[name] for name in MOVED_OPTIONS if saved.get(name) is not None}
    roles: tuple[str, ...] = ("user",)
    try:
        spec = load_environment(str(saved.get("environment")))
    except UseError:
        pass
    else:
        known = {name: value for name, value in options.items() if name in spec.options.model_fields}
        options = spec.read_options(known).model_dump(mode="json")
        roles = spec.role_names
    if isinstance(saved.get("sampling"), Mapping):
        settings["sampling"] = _sampling(saved["sampling"], roles)
    if "rejudged" in saved:
        roles = ("judge",)
        if isinstance(saved["rejudged"], Mapping):
            settings["rejudged"] = {current_role(name): value for name, value in saved["rejudged"].items()}
    player = saved.get("simulator") or saved.get("user")
    settings["roles"] = dict.fromkeys(roles, player) if player else {}
    settings["options"] = options
    return settings


def _sampling(saved: Mapping[str, Any], roles: tuple[str, ...]) -> dict[str, Any]:
    """Sampling settings of the former `simulator`, for every role that it played and that has no settings of its own."""
    played = dict.fromkeys(roles, saved["simulator"]) if "simulator" in saved else {}
    return {**played, **{role: values for role, values in saved.items() if role != "simulator"}}
