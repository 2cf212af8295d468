"""Formats of `heartloop export`: an unknown one is refused with the nearest, before anything is read or written."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.errors import UseError


def test_an_unknown_format_is_wrong_use_and_names_the_nearest(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(tmp_path), "--to", "inspct"])
    assert isinstance(done.exception, UseError)
    assert "'inspct'" in str(done.exception)
    assert "inspect" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
