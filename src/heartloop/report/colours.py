"""The colour of every model in a report, the same on all of its pages and in the next report of the same runs.

Covers which of `PALETTE` colours a model has, and `colours.json` in a run directory, which keeps the choice. That file is no
part of the run's settings: it changes neither its identity nor a score, and a report is the same without it but for colours.
Does not cover the colours themselves (`static/report.css`) or choosing another model in the browser (`static/views.js`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

__all__ = ["COLOURS", "GREY", "PALETTE", "assign_colours", "keep_colours", "read_colours"]

COLOURS = "colours.json"
"""In a run directory: a mapping of model names to colours."""
PALETTE = 8
"""Colours that readers tell apart, also with a colour vision deficiency; more models than that are not all coloured."""
GREY = PALETTE
"""The colour of every further model, until a reader chooses it."""


def assign_colours(models: Iterable[str], kept: Mapping[str, int] | None = None) -> dict[str, int]:
    """A colour from 0 to `PALETTE` - 1 for at most `PALETTE` models, `GREY` for the others.

    A model keeps the colour it had. Of the others, in their order, each gets the colour that the hash of its name proposes, or
    the next free one where that is taken.

    Args:
        models: names; the first ones are coloured first.
        kept: colours of earlier reports; where two models had the same, the first in `models` keeps it.

    >>> assign_colours(["a", "b"], {"b": 3})["b"]
    3
    """
    names = list(dict.fromkeys(models))
    found: dict[str, int] = {}
    for name in names:
        slot = (kept or {}).get(name, GREY)
        if slot != GREY and slot not in found.values():
            found[name] = slot
    for name in names:
        if name not in found and len(found) < PALETTE:
            first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
            taken = set(found.values())
            found[name] = next(slot for step in range(PALETTE) if (slot := (first + step) % PALETTE) not in taken)
    return {name: found.get(name, GREY) for name in names}


def read_colours(runs: Sequence[Path]) -> dict[str, int]:
    """The colours kept with some run directories; the first run that names a model decides. Unreadable files count as empty."""
    found: dict[str, int] = {}
    for run in runs:
        with contextlib.suppress(OSError, ValueError):
            entries = json.loads((run / COLOURS).read_text(encoding="utf-8"))
            if isinstance(entries, dict):
                valid = {k: v for k, v in entries.items() if type(v) is int and 0 <= v < PALETTE}
                found = {**valid, **found}
    return found


def keep_colours(run: Path, models: Iterable[str], colours: Mapping[str, int]) -> None:
    """Keeps the colours of a run's models in its directory; nothing happens where it cannot be written."""
    mine = {model: colours[model] for model in sorted(set(models)) if colours.get(model, GREY) != GREY}
    if mine and read_colours([run]) != mine:
        with contextlib.suppress(OSError):
            (run / COLOURS).write_text(json.dumps(mine, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
