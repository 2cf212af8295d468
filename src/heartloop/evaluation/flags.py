"""Options and sampling settings as words of a command line, the reverse of reading them.

Does not cover commands as a whole (`report.provenance`, `training.plan`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["option_flags", "sampling_flags"]


def option_flags(options: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    """`-E` for each option that is not as in `base`."""
    differ = {name: value for name, value in options.items() if name not in base or base[name] != value}
    return [word for name, value in differ.items() for word in ("-E", f"{name}={_option_text(value)}")]


def _option_text(value: object) -> str:
    """A value as `-E` takes it.

    >>> [_option_text(value) for value in ("released", 0.5, None, True, ["bystander"])]
    ['released', '0.5', 'none', 'true', '["bystander"]']
    """
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sampling_flags(sampling: object, *, only: str = "") -> Iterator[str]:
    """`--sampling` and `--request` for the settings of every role, as a settings file has them, or of one role."""
    for role, values in sorted(sampling.items()) if isinstance(sampling, Mapping) else ():
        for name, value in values.items() if isinstance(values, Mapping) and role == (only or role) else ():
            if name == "request" and isinstance(value, Mapping):
                for field, content in value.items():
                    yield from ("--request", f"{role}.{field}={json.dumps(content, ensure_ascii=False)}")
            elif value is not None:
                yield from ("--sampling", f"{role}.{name}={json.dumps(value) if isinstance(value, list) else value}")
