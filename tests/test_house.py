"""The house: who may import whom, what is public, how large a room may grow, what a wheel holds.

1. `__all__` of every module names what it defines for others, and nothing that is not there.
2. Every module opens by saying what it covers.
3. Imports point one way (.importlinter), and no command needs the heavy rooms to start.
4. No module is over 450 lines; none is called utils, helpers, common or manager.
5. Every data file in the package is listed, so that a wheel holds it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

import heartloop
from tests.extras import absent

PACKAGE = Path(heartloop.__file__).parent
ROOT = PACKAGE.parent.parent
MODULES = sorted(
    ".".join(("heartloop", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)
_ABSENT = {path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".") for path in absent()}
LOADABLE = [name for name in MODULES if name not in _ABSENT and f"{name}.__init__" not in _ABSENT]
"""Without an extra what needs it cannot be imported; CI installs them all, in one environment or the other."""
LONGEST = 450
BANNED = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}


def source(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def defined(module: ModuleType) -> set[str]:
    """Functions and classes a module itself defines without an underscore, commands of the command line aside."""
    found = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isroutine(value))
        and getattr(value, "__module__", None) == module.__name__
    }
    return found - commands(module)


def commands(module: ModuleType) -> set[str]:
    """Functions registered as commands: they are called by the shell, not imported."""
    apps = [value for value in vars(module).values() if hasattr(value, "registered_commands")]
    return {command.callback.__name__ for app in apps for command in app.registered_commands if command.callback}


@pytest.mark.parametrize("name", LOADABLE)
def test_all_names_what_a_module_defines_for_others(name: str) -> None:
    module = importlib.import_module(name)
    public = list(getattr(module, "__all__", []))
    assert len(public) == len(set(public))
    assert sorted(set(public) - set(vars(module))) == [], "listed, but not there"
    assert sorted(defined(module) - set(public)) == [], "defined without an underscore, but not listed"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_opens_by_saying_what_it_covers(name: str) -> None:
    assert ast.get_docstring(ast.parse(source(name).read_text(encoding="utf-8")))


def test_imports_point_one_way() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["heartloop.cli.main", "heartloop.environments.sage", "heartloop.evaluation", "heartloop.models.names"]
)
def test_nothing_but_the_report_and_the_checks_loads_plots_or_learning_libraries(name: str) -> None:
    heavy = ("plotly", "sklearn", "scipy", "torch", "ray", "verl", "inspect_ai", "fastapi", "matplotlib", "pandas")
    program = f"import sys, {name}; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_environments_never_import_each_other() -> None:
    rooms = {path.name for path in (PACKAGE / "environments").iterdir() if path.is_dir() and not path.name.startswith("_")}
    for room in rooms:
        for path in (PACKAGE / "environments" / room).rglob("*.py"):
            for other in rooms - {room}:
                assert f"heartloop.environments.{other}" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("name", MODULES)
def test_no_module_outgrows_450_lines(name: str) -> None:
    assert len(source(name).read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("name", MODULES)
def test_no_module_is_a_drawer_for_everything(name: str) -> None:
    assert not BANNED & set(name.split("."))
    classes = [node.name for node in ast.walk(ast.parse(source(name).read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
    assert [c for c in classes if c.endswith(("Manager", "Helper", "Handler", "Util", "Utils"))] == []


class TestErrors:
    """The tree of errors is the one drawn in its docstring."""

    def test_every_error_is_drawn_and_every_drawn_error_exists(self) -> None:
        from heartloop.core import errors

        drawing = (errors.__doc__ or "").split("\n\n")[1]
        drawn = {line.lstrip(" │├└─").split()[0] for line in drawing.splitlines()}
        assert drawn == set(errors.__all__)

    def test_the_drawn_parent_is_the_parent(self) -> None:
        from heartloop.core import errors

        path: list[tuple[int, str]] = []
        for line in (errors.__doc__ or "").split("\n\n")[1].splitlines():
            name = line.lstrip(" │├└─").split()[0]
            depth = line.index(name)
            while path and path[-1][0] >= depth:
                path.pop()
            parent = path[-1][1] if path else "Exception"
            assert [base.__name__ for base in getattr(errors, name).__bases__] == [parent]
            path.append((depth, name))


class TestWheel:
    """What a wheel holds, without building one."""

    def patterns(self) -> list[str]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        found: list[str] = project["tool"]["setuptools"]["package-data"]["heartloop"]
        return found

    def listed(self) -> set[str]:
        """Files of the package that setuptools' globs find."""
        return {path.relative_to(PACKAGE).as_posix() for glob in self.patterns() for path in PACKAGE.glob(glob)}

    def test_every_data_file_is_listed(self) -> None:
        data = {
            path.relative_to(PACKAGE).as_posix()
            for path in PACKAGE.rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
        }
        assert sorted(data - self.listed()) == []

    @pytest.mark.parametrize(
        "file",
        [
            "py.typed",
            "models/baselines/phrases.toml",
            "environments/sage/needs.toml",
            "environments/sage/prompts/feel.md",
            "environments/sage/scenarios/support.jsonl",
            "environments/sage/scenarios/chat.jsonl",
            "environments/sage/report/published/sage_table02_leaderboard.csv",
        ],
    )
    def test_the_essentials_are_there_and_listed(self, file: str) -> None:
        assert (PACKAGE / PurePosixPath(file)).is_file()
        assert file in self.listed()

    def test_every_folder_with_modules_is_a_package(self) -> None:
        folders = {path.parent for path in PACKAGE.rglob("*.py")}
        assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []
