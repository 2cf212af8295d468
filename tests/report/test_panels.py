"""What the report makes of an environment of a third party: its scale alone, or a panel of blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from heartloop.core.blocks import shade
from heartloop.environments import registry
from heartloop.report.site import write_site
from tests.report.plain_environment import ENTRIES, plain_talk
from tests.report.sage_bench import WriteRun


@pytest.fixture
def report(write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """The report of two models with two scenarios each."""
    known = registry._entries()
    monkeypatch.setattr(registry, "_entries", lambda: {**known, **ENTRIES})

    def write(name: str) -> Path:
        talks = [plain_talk(name, model, s, 2.0, end) for model, end in (("x/a", 9.0), ("x/b", 1.0)) for s in ("s1", "s2")]
        return write_site([write_run(talks, environment=name)], tmp_path / "site")

    return write


def _ids(html: str) -> set[str]:
    return set(re.findall(r'<section id="([^"]+)"', html))


def test_a_panel_of_blocks_adds_sections_columns_facts_and_warnings(report: Callable[[str], Path]) -> None:
    index = report("blocks")
    html = index.read_text(encoding="utf-8")
    assert {"ease-again", "ease-by-turn", "ease-by-place", "rules", "about"} <= _ids(html)
    assert "Who arrives?" in html
    assert "It starts at 0." in html
    assert "<dt>Colour</dt><dd>blue</dd>" in html
    assert "Only a test." in html
    assert "Lift is a constant." in html
    assert re.search(r'data-label="lift">1\.25</td>', html)
    assert "<b>9.0</b>" in html
    assert '<td role="cell" class="num" data-label="Dialogues"><b>2</b></td>' in html
    assert "&lt;b&gt;said&lt;/b&gt;" in html
    assert '<td role="cell" data-label="Empty">–</td>' in html


def test_a_scenario_and_a_turn_are_described_by_default(report: Callable[[str], Path]) -> None:
    folder = report("blocks").parent / "data" / "1"
    listing = json.loads((folder / "list.js").read_text().removeprefix('heartloop.take("list",').removesuffix(");\n"))
    assert listing["scenarios"][0]["line"] == "Ana, 40 · office · work"
    chunk = json.loads((folder / "dialogues-0.js").read_text().removeprefix('heartloop.take("chunk",').removesuffix(");\n"))
    assert chunk["dialogues"][0]["turns"][0]["details"] == [["Notes", [["tone", "2 of 5", "<i>short</i>"]], True]]


def test_a_shade_grows_from_the_low_end_and_turns_below_zero() -> None:
    assert shade([50, 70], 20, 100) == (60, 2, 0.5, False)
    assert shade([-50], -100, 100) == (-50, 1, 0.5, True)
    assert shade([], 0, 100) == (None, 0, 0, False)
