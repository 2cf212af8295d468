"""Canonical JSON of items, their hashes, and how they differ from the reference."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "REFERENCE",
    "Items",
    "Json",
    "differences",
    "environment_of",
    "hash_of",
    "plain",
    "report",
    "text_of",
    "write_reference",
]

Json = Any
REFERENCE = Path(__file__).parents[1] / "results" / "unchanged.json"
KINDS = (
    "whole", "file", "scenario", "prompt", "table", "catalogue", "composed", "stratified", "seed", "recipe", "training", "play",
    "cache", "rescored", "rejudged", "perturbed", "card",
)  # fmt: skip
"""Kinds of items in the order in which differences are listed: causes first."""
CHEAP = ("file", "scenario", "prompt", "table", "catalogue")
"""Kinds of which a quick comparison makes all items."""
SHOWN = 40
"""Number of differences that are listed."""
DIGITS = 6
"""Hex digits of a hash in the reference."""
RAISED = "raised:"
"""In place of the hashes of an item that could not be made; the type of the exception follows."""


def plain(value: Any) -> Json:
    """A value as JSON: arrays as lists, floats to 10 significant digits."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return float(f"{value:.10g}") + 0.0
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, Iterable):
        return [plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def text_of(value: Any, *, indent: int | None = None) -> str:
    """A value as canonical JSON."""
    return json.dumps(plain(value), ensure_ascii=False, sort_keys=True, indent=indent)


def hash_of(text: str | bytes) -> str:
    """SHA-256 in hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text).hexdigest()


def environment_of(key: str) -> str:
    """The environment of an item's key: `kind/environment/...`, or `rescored/play/environment/...`."""
    parts = key.split("/")
    return parts[2] if parts[0] in ("rescored", "rejudged", "perturbed") else parts[1]


class Items:
    """Hashes of items by key.

    Args:
        dump: a directory for the canonical JSON of every item.
        most: maximum number of items of a kind and environment; the `CHEAP` kinds have no limit.
    """

    def __init__(self, dump: Path | None = None, most: int | None = None) -> None:
        self._dump = dump
        self._most = most
        self._wanted: Counter[tuple[str, str]] = Counter()
        self.parts: dict[str, list[str]] = {}
        self.hashes: dict[str, list[str]] = {}

    @property
    def whole(self) -> bool:
        """Whether there is no limit."""
        return self._most is None

    def wants(self, key: str) -> bool:
        """Whether the item is to be made; counts it."""
        kind = (key.split("/")[0], environment_of(key))
        self._wanted[kind] += 1
        return self._most is None or kind[0] in CHEAP or self._wanted[kind] <= self._most

    def add(self, key: str, parts: Mapping[str, Any]) -> None:
        """One item; all items of a kind have the same parts."""
        names = self.parts.setdefault(key.split("/")[0], list(parts))
        if key in self.hashes or names != list(parts):
            raise ValueError(f"{key} exists already, or has parts {list(parts)} where others of its kind have {names}")
        self.hashes[key] = [hash_of(text_of(part))[:DIGITS] for part in parts.values()]
        if self._dump is not None:
            path = self._dump / f"{key}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text_of(parts, indent=1) + "\n", encoding="utf-8", errors="surrogatepass")

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[None]:
        """The making of one item; an unexpected exception is recorded in its place, and the other items are made."""
        try:
            yield
        except Exception as error:
            print(f"{key}: {error!r}", file=sys.stderr)
            self.hashes[key] = [f"{RAISED}{type(error).__name__}"]

    @property
    def raised(self) -> list[str]:
        """Keys of the items that could not be made."""
        return [key for key, hashes in self.hashes.items() if hashes[0].startswith(RAISED)]


def write_reference(items: Items, path: Path) -> None:
    """Writes a reference, one line an item."""
    lines = [f"{json.dumps(key, ensure_ascii=False)}:{json.dumps(' '.join(items.hashes[key]))}" for key in sorted(items.hashes)]
    head = json.dumps({kind: items.parts[kind] for kind in sorted(items.parts)})
    path.write_text('{"parts":' + head + ',\n"items":{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def differences(path: Path, items: Items, *, only: str | None = None, quick: bool = False) -> dict[str, list[str]]:
    """The parts that differ from a reference, by key.

    Args:
        only: the one environment that was made.
        quick: whether items of the reference may be missing.
    """
    reference = json.loads(path.read_text(encoding="utf-8"))
    before = {key: value.split() for key, value in reference["items"].items() if only in (None, environment_of(key))}
    differ: dict[str, list[str]] = {}
    for key in sorted(items.hashes.keys() if quick else before.keys() | items.hashes.keys()):
        old, new = before.get(key), items.hashes.get(key)
        if old is None or new is None:
            differ[key] = ["is new" if old is None else "is missing"]
        elif new[0].startswith(RAISED):
            differ[key] = new
        elif old != new:
            kind = key.split("/")[0]
            was = dict(zip(reference["parts"][kind], old, strict=False))
            now = dict(zip(items.parts[kind], new, strict=False))
            differ[key] = [part for part in {**was, **now} if was.get(part) != now.get(part)]
    return differ


def report(differ: Mapping[str, Sequence[str]]) -> list[str]:
    """Differences in lines: the number of each kind, and some keys."""
    by_kind: dict[str, list[str]] = {}
    for key in differ:
        by_kind.setdefault(key.split("/")[0], []).append(key)
    kinds = sorted(by_kind, key=KINDS.index)
    lines, left = [], SHOWN
    for place, kind in enumerate(kinds):
        keys = by_kind[kind]
        where = Counter(map(environment_of, keys))
        parts = Counter(part for key in keys for part in differ[key])
        lines.append(
            f"{kind}: {len(keys)} items ({', '.join(f'{name} {number}' for name, number in where.items())}), "
            f"parts {', '.join(f'{name} {number}' for name, number in parts.items())}"
        )
        shown = keys[: max(1, left // (len(kinds) - place))]
        left -= len(shown)
        lines += [f"  {key}: {', '.join(differ[key])}" for key in shown]
        if len(keys) > len(shown):
            lines.append(f"  ... and {len(keys) - len(shown)} more")
    return lines
