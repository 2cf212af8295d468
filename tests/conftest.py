"""For all tests: no deadline for property tests, the longest files first, and one demo for all test processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from heartloop.models import client

settings.register_profile("heartloop", deadline=None)
settings.load_profile("heartloop")

_LONG = (
    "test_browser.py",
    "test_docs.py",
    "test_commands.py",
    "test_ci_example.py",
    "test_rejudge_command.py",
    "test_demo.py",
    "test_cli.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, in the order of `_LONG`; `--no-loadscope-reorder` keeps it so with several processes."""
    place = {name: number for number, name in enumerate(_LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(_LONG)))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts at one call follow each other at once."""
    monkeypatch.setattr(client, "pause_before", lambda tries: 0.0)


@pytest.fixture(scope="session")
def demo_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one `heartloop demo`, made once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "demo"
    with FileLock(shared / "demo.lock"):
        if not (folder / "index.html").exists():
            subprocess.run([sys.executable, "-m", "heartloop.cli", "demo", "--out", str(folder)], check=True, capture_output=True)
    return folder
