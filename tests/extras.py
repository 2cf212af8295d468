"""Which modules need an extra that may not be installed: what `conftest.py` leaves out, and the house cannot load.

Covers what a module imports when it is loaded, through its siblings, too. Does not cover what its functions import when called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.python_source import syntax_tree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heartloop"
ROOMS = {
    "integrations/inspect": {"inspect_ai"},
    "training": {"hydra", "omegaconf", "ray", "tensordict", "tokenizers", "torch", "transfer_queue", "transformers", "verl"},
}
"""What each room alone may import, and may lack."""


def absent() -> list[Path]:
    """Modules that cannot be loaded here."""
    lacking = {room: {name for name in heavy if not find_spec(name)} for room, heavy in ROOMS.items()}
    return sorted(path for room, names in lacking.items() for path in _needing(room, names))


def _needing(room: str, lacking: set[str]) -> set[Path]:
    if not lacking:
        return set()
    imports = {path: set(_imported(path)) for path in (PACKAGE / room).rglob("*.py")}
    names = {_name(path): path for path in imports}
    found = {path for path, modules in imports.items() if any(module.partition(".")[0] in lacking for module in modules)}
    while more := {path for path in set(imports) - found if any(names.get(module) in found for module in imports[path])}:
        found |= more
    return found


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(path: Path) -> Iterator[str]:
    """Modules that loading a file loads; what stands under `if TYPE_CHECKING` is not."""
    for node in syntax_tree(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    parent = path.parent / "__init__.py"
    if path.name != "__init__.py":
        yield _name(parent)
