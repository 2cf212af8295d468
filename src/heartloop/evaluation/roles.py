"""Who plays an environment's roles: `--user`, `--judge` and `--role name=MODEL` as a mapping.

Does not cover how a name becomes a model (`heartloop.models.names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from heartloop.core.errors import UseError
from heartloop.environments.spec import EnvironmentSpec
from heartloop.models.budget import is_scripted

__all__ = ["EMBEDDED", "assign_roles", "model_names"]

EMBEDDED = "embedded"
"""In place of a model's name: the built-in rules, without a model call."""


def assign_roles(
    spec: EnvironmentSpec, *, user: str | None = None, judge: str | None = None, roles: Sequence[str] = ()
) -> dict[str, str]:
    """By role, the name of a model or `embedded`.

    Args:
        user: plays every role that is not given to somebody else.
        judge: plays the role `judge`.
        roles: `name=MODEL` texts.

    Raises:
        UseError: a role that this environment does not have or that is given twice, one that nobody plays, or a baseline.
    """
    given: dict[str, str] = {} if judge is None else {"judge": judge}
    if judge is not None and "judge" not in spec.role_names:
        raise UseError(
            f"--judge is {judge}; in {spec.name} the user appraises the replies: use --user, or `heartloop rejudge --judge` later"
        )
    for text in roles:
        name, equals, model = text.partition("=")
        if not equals or not model or name not in spec.role_names:
            near = get_close_matches(name, spec.role_names, n=1, cutoff=0.0)
            raise UseError(
                f"--role is {text!r}; expected name=MODEL with {' or '.join(spec.role_names)}; the nearest role is {near[0]!r}"
            )
        if name in given:
            raise UseError(f"role {name} is given twice; name one model for it")
        given[name] = model
    played = {name: given.get(name, user) for name in spec.role_names}
    missing = [name for name, model in played.items() if model is None]
    if missing:
        raise UseError(
            f"nobody plays {' and '.join(missing)} in {spec.name}; pass --user MODEL, or --user {EMBEDDED} for the built-in rules"
        )
    found = {name: model for name, model in played.items() if model is not None}
    for name, model in found.items():
        if model != EMBEDDED and is_scripted(model):
            raise UseError(f"role {name} is {model}, a baseline that only replies; expected service/model, or {EMBEDDED}")
    return found


def model_names(roles: Mapping[str, str]) -> list[str]:
    """The models among the players, each once."""
    return list(dict.fromkeys(name for name in roles.values() if name != EMBEDDED))
