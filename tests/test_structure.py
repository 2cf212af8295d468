"""The structure of the package: imports, public names, where an environment is named, what a wheel holds."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import heartloop
from tests.extras import absent, syntax_tree

PACKAGE = Path(heartloop.__file__).parent
ROOT = PACKAGE.parent.parent
MODULES = sorted(
    ".".join(("heartloop", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)
_ABSENT = {path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".") for path in absent()}
LOADABLE = [name for name in MODULES if name not in _ABSENT and f"{name}.__init__" not in _ABSENT]
"""Modules whose extras are installed here; CI installs all."""
BANNED = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module."""
    paths = {name: PACKAGE.joinpath(*name.split(".")[1:]) for name in MODULES}
    sources = {name: path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for name, path in paths.items()}
    return {name: syntax_tree(path.read_text(encoding="utf-8")) for name, path in sources.items()}


def test_public_modules_list_names_that_exist() -> None:
    modules = [module for module in map(importlib.import_module, LOADABLE) if hasattr(module, "__all__")]
    assert {module.__name__ for module in modules} >= {"heartloop", "heartloop.environments.spec"}
    for module in modules:
        assert set(module.__all__) <= {*vars(module), *getattr(module, "_MODULES", ())}, module.__name__


def test_no_module_imports_a_private_name_of_another(trees: dict[str, ast.Module]) -> None:
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    own = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heartloop")]
    assert [name.name for node in own for name in node.names if name.name.startswith("_")] == []


def test_every_module_has_a_docstring(trees: dict[str, ast.Module]) -> None:
    assert [name for name, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_imports_point_one_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of the package that a module imports, also in functions and for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                f"{node.module}.{name.name}" if f"{node.module}.{name.name}" in MODULES else node.module for name in node.names
            )
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_modules_import_each_other_in_a_circle(trees: dict[str, ast.Module]) -> None:
    below = {name: tree for name, tree in trees.items() if name != "heartloop"}
    left = {name: {other for other in imported(tree) if other in below} - {name} for name, tree in below.items()}
    while free := {name for name, others in left.items() if not others}:  # what imports nothing that is left is in no circle
        left = {name: others - free for name, others in left.items() if name not in free}
    assert left == {}
    assert set(imported(syntax_tree("from heartloop.core import text"))) == {"heartloop.core.text"}


@pytest.mark.parametrize(
    "name", ["heartloop.cli.main", "heartloop.environments.sage", "heartloop.evaluation", "heartloop.models.names"]
)
def test_starting_a_command_loads_no_plots_or_learning_libraries(name: str) -> None:
    heavy = ("statsmodels", "sklearn", "scipy", "torch", "ray", "verl", "inspect_ai", "fastapi", "matplotlib", "pandas")
    program = f"import sys, {name}; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


ENVIRONMENTS = sorted(path.parent.name for path in (PACKAGE / "environments").glob("*/environment.py"))
_NAMED = re.compile(rf"(?<![A-Za-z])({'|'.join(ENVIRONMENTS)}|eq-bench)(?![A-Za-z])", re.IGNORECASE)
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def outside() -> Iterator[Path]:
    """Files of the package that belong to no single environment."""
    for path in sorted(PACKAGE.rglob("*")):
        parts = path.relative_to(PACKAGE).parts
        in_environment = parts[0] == "environments" and len(parts) > 2 and parts[1] in ENVIRONMENTS
        if path.is_file() and not in_environment and "__pycache__" not in parts:
            yield path


def environments_named(tree: ast.AST) -> Iterator[str]:
    """Imports, identifiers and string literals of a module that name an environment; docstrings may cite papers."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    documentation = {id(part.value) for body in bodies for part in body if isinstance(part, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documentation else None
        if isinstance(text, str) and _NAMED.search(text):
            yield f"line {getattr(node, 'lineno', 0)}: {text[:60]!r}"
        for word in identifiers(node):
            if {piece.lower() for piece in _PIECE.findall(word)} & set(ENVIRONMENTS):
                yield f"line {getattr(node, 'lineno', 0)}: {word}"


def identifiers(node: ast.AST) -> list[str]:
    """The names that a node introduces or uses."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    fields = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname"))
    return [field for field in fields if isinstance(field, str)]


def test_the_search_finds_imports_identifiers_and_literals_and_leaves_docstrings() -> None:
    module = syntax_tree("""'SAGE in a docstring.'
from heartloop.environments.sage import scoring
perm_weight = 1
usage, message = EmpaBoard(), "as eibench has it"
""")
    assert len(list(environments_named(module))) == 4


def test_no_module_outside_its_folder_names_an_environment() -> None:
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in outside() if path.suffix == ".py"}
    named = {name: list(environments_named(syntax_tree(path.read_text(encoding="utf-8")))) for name, path in modules.items()}
    assert {path: found for path, found in named.items() if found} == {}


def test_no_template_script_or_style_outside_its_folder_names_an_environment() -> None:
    files = [path for path in outside() if path.suffix in (".html", ".js", ".css")]
    assert len(files) > 10
    assert [path.name for path in files if _NAMED.search(path.read_text(encoding="utf-8"))] == []


def test_no_module_has_a_name_for_everything(trees: dict[str, ast.Module]) -> None:
    classes = [node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for name in MODULES if BANNED & set(name.split("."))] == []
    assert [name for name in classes if name.endswith(("Manager", "Helper", "Handler", "Util", "Utils"))] == []


def test_a_wheel_holds_every_data_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = {path for glob in project["tool"]["setuptools"]["package-data"]["heartloop"] for path in PACKAGE.glob(glob)}
    assert PACKAGE / "py.typed" in listed
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert sorted(path for path in files - listed if path.suffix not in (".py", ".pyc")) == []


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []
