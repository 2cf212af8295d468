"""Models of an environment's roles: `--user`, `--judge` and `--role name=MODEL` as a mapping.

Does not cover resolving a name to a model (`heartloop.models.names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heartloop.core.chat import EMBEDDED, is_embedded
from heartloop.core.errors import UseError
from heartloop.core.text import nearest
from heartloop.environments.spec import EnvironmentSpec
from heartloop.models.budget import is_baseline

__all__ = ["assign_roles", "model_names"]


def assign_roles(
    spec: EnvironmentSpec, *, user: str | None = None, judge: str | None = None, roles: Sequence[str] = ()
) -> dict[str, str]:
    """The name of a model, or `embedded`, for every role of the environment.

    Args:
        user: model of every role without one of its own.
        judge: model of the role `judge`.
        roles: `name=MODEL` texts.

    Raises:
        UseError: an unknown role, a role given twice, a role without a model, or a baseline as the model of a role.
    """
    given: dict[str, str] = {} if judge is None else {"judge": judge}
    if judge is not None and "judge" not in spec.role_names:
        raise UseError(
            f"--judge does not apply to {spec.name}, where the user simulator judges: use --user, or `heartloop rejudge --judge`"
        )
    for text in roles:
        name, equals, model = text.partition("=")
        if not equals or not model or name not in spec.role_names:
            raise UseError(
                f"--role is {text!r}; expected name=MODEL with {' or '.join(spec.role_names)}{nearest(name, spec.role_names)}"
            )
        if name in given:
            raise UseError(f"role {name} is given twice; expected one model")
        given[name] = model
    played = {name: given.get(name, user) for name in spec.role_names}
    missing = [name for name, model in played.items() if model is None]
    if missing:
        raise UseError(
            f"no model for role {' and '.join(missing)} of {spec.name}; pass --user MODEL, or --user {EMBEDDED}, which needs none"
        )
    assigned = {name: model for name, model in played.items() if model is not None}
    for name, model in assigned.items():
        if not any(mark in model for mark in "/:") and not is_embedded(model):
            raise UseError(
                f"{_option_of(name, given=given, judge=judge)} is {model!r}; expected {EMBEDDED}, or service/model such as "
                f"openai/gpt-4.1{nearest(model, [EMBEDDED], cutoff=0.6)}"
            )
        if is_baseline(model):
            raise UseError(f"role {name} is {model}, a baseline that only replies; expected service/model, or {EMBEDDED}")
    return assigned


def _option_of(role: str, *, given: Mapping[str, str], judge: str | None) -> str:
    """The option that named the model of a role."""
    if role not in given:
        return "--user"
    return "--judge" if role == "judge" and judge is not None else f"--role {role}"


def model_names(roles: Mapping[str, str]) -> list[str]:
    """The distinct models of the roles, without `embedded`."""
    return list(dict.fromkeys(name for name in roles.values() if name != EMBEDDED))
