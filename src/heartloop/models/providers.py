"""The table of providers and of example models, `providers.toml`, whose comments explain its fields."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def provider_table() -> dict[str, dict[str, dict[str, Any]]]:
    """`services` by name, and `examples` by `service/model`."""
    return tomllib.loads(Path(__file__).with_name("providers.toml").read_text(encoding="utf-8"))
