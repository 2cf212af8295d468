"""One run for all suites: three baselines in four scenarios of SAGE with the embedded user."""

from __future__ import annotations

from pathlib import Path

import pytest

from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.validity.suites import material_of
from tests.validity.judges import play


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run, `run`."""
    folder = tmp_path_factory.mktemp("validity")
    play(folder, "counsellor", "assistant", "hostile", limit=4)
    return folder


@pytest.fixture(scope="session")
def material(place: Path) -> Material:
    return material_of(load_environment("sage"), [place / "run"], judges=["lab/judge"])


@pytest.fixture
def counsellor(material: Material) -> Material:
    """The dialogues of one model."""
    return material._replace(dialogues=tuple(one for one in material.dialogues if one.model == "heartloop/counsellor"))
