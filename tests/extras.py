"""Which modules need an extra that is not installed when they are loaded."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heartloop"
EXTRAS = {
    "integrations/inspect": {"inspect_ai"},
    "training": {"hydra", "omegaconf", "ray", "tensordict", "tokenizers", "torch", "transfer_queue", "transformers", "verl"},
}
"""The libraries of extras, by the only folder that may import them."""


def absent() -> list[Path]:
    """Modules that cannot be loaded here."""
    lacking = {folder: {name for name in heavy if not find_spec(name)} for folder, heavy in EXTRAS.items()}
    return sorted(path for folder, names in lacking.items() if names for path in _needing(folder, names))


def _needing(folder: str, lacking: set[str]) -> set[Path]:
    imports = {path: set(_imported(path)) for path in (PACKAGE / folder).rglob("*.py")}
    names = {_name(path): path for path in imports}
    found = {path for path, modules in imports.items() if any(module.partition(".")[0] in lacking for module in modules)}
    while more := {path for path in set(imports) - found if any(names.get(module) in found for module in imports[path])}:
        found |= more
    return found


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(path: Path) -> Iterator[str]:
    """Modules that loading a file loads."""
    for node in syntax_tree(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    if path.name != "__init__.py":
        yield _name(path.with_name("__init__.py"))


def syntax_tree(text: str) -> ast.Module:
    """A module's source parsed without garbage collection, in which CPython 3.11.0 to 3.11.7 may raise (cpython issue 106905)."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
