"""`write_package`: a new package with an environment, by the example in this folder, `newcomer`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from heartloop.core.errors import UseError
from heartloop.core.system import reported
from heartloop.environments.registry import environment_names

_EXAMPLE = "newcomer"
_NAMES = re.compile(rf'(?:{re.escape(__name__)}\.|(?<=")){_EXAMPLE}')
"""In code the example's module and quoted names; its sentences and classes are about the example, and stay."""


def write_package(name: str, folder: Path) -> None:
    """Writes the example as a package and environment of this name."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or iskeyword(name):
        near = re.sub(r"\W+", "_", name.lower()).strip("_")
        example = near if re.fullmatch("[a-z][a-z0-9_]*", near) and not iskeyword(near) else "first_day"
        raise UseError(f"the name is {name!r}; expected a name of a Python package in lower case, such as {example}")
    if name in environment_names() or find_spec(name) is not None:
        raise UseError(f"an environment or a module {name!r} is installed; choose another name")
    if folder.exists():
        raise UseError(f"{folder} exists; choose another --out, or remove it")
    with reported(f"write {folder}"):
        for path, source in _sources(files(__name__)):
            file = folder / path.replace(_EXAMPLE, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            if path.endswith(".py"):
                text = _NAMES.sub(name, text).replace(f'"{_EXAMPLE.title()}"', f'"{name.replace("_", " ").capitalize()}"')
            else:
                text = text.replace(_EXAMPLE, name)
            file.write_text(text, encoding="utf-8")


def _sources(folder: Traversable, before: str = "") -> Iterator[tuple[str, Traversable]]:
    """The example's files with their paths, without this module."""
    for entry in folder.iterdir():
        path = f"{before}{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry, f"{path}/")
        elif entry.is_file() and path != "__init__.py":
            yield path, entry
