"""examples/notebook.ipynb runs, and its stored outputs are current. Needs nbclient and ipykernel (`make test`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.write_docs import NOTEBOOK, notebook

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


def texts(cell: dict[str, Any]) -> list[str]:
    """What a cell prints and returns, as plain text."""
    return ["".join(out.get("text") or out["data"]["text/plain"]) for out in cell.get("outputs", [])]


@pytest.mark.documentation
def test_the_notebook_runs_and_its_stored_outputs_are_current() -> None:
    """`make docs` stores the outputs again. The cell that evaluates shows a duration, so its text differs."""
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    executed = {cell["id"]: texts(cell) for cell in notebook()["cells"]}
    assert "8/8 dialogues" in executed["run"][0]
    del executed["run"]
    assert executed == {cell["id"]: texts(cell) for cell in stored if cell["id"] != "run"}
