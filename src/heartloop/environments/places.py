"""Places where invented people live, with given names that are common there (`people.toml`).

Covers reading the table. Does not cover drawing a place and a name (each scenario writer).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

__all__ = ["Place", "places"]


class Place(NamedTuple):
    """A place and the given names that are common there."""

    name: str
    women: tuple[str, ...]
    men: tuple[str, ...]

    def names(self, gender: str) -> tuple[str, ...]:
        """The given names of a `woman` or a `man`."""
        return self.women if gender == "woman" else self.men


@cache
def places() -> tuple[Place, ...]:
    """The places of `people.toml`, in the order of the file."""
    table = tomllib.loads((resources.files(__package__) / "people.toml").read_text(encoding="utf-8"))
    return tuple(Place(row["name"], tuple(row["women"]), tuple(row["men"])) for row in table["place"])
