"""The rows of docs/papers.md name what exists, and the commands of rows that need nothing run, each once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper_coverage.__main__ import PAGE, Item, page, problems, read_papers, wrong_with
from tests.commands import Done, heartloop

PAPERS = read_papers()
ITEMS = {item.id: item for paper in PAPERS for item in paper.item}
SLOW = ("scenarios stats eibench", "scenarios check")


def test_the_page_is_written_from_the_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(PAPERS)


def test_every_row_is_whole_and_names_what_exists() -> None:
    assert list(problems(PAPERS)) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cites": ("src/heartloop/gone.py",)}, "gone.py"),
        ({"cites": ("option:sage.gone",)}, "gone"),
        ({"cites": ("option:gone.preset",)}, "gone"),
        ({"cites": ("recipe:gone",)}, "gone"),
        ({"cites": ("recipe:rlver_ppo_tiny/gone",)}, "gone"),
        ({"cites": ("suite:gone",)}, "gone"),
        ({"cites": ("gone:x",)}, "expected a file"),
        ({"test": "tests/gone.py"}, "gone.py"),
        ({"test": ""}, "no test"),
        ({"needs": "people"}, "people"),
        ({"lacks": "half of it"}, "lacks"),
        ({"state": "partly"}, "lacks"),
        ({"command": "heartloop gone"}, "gone"),
        ({"command": "heartloop report talks && heartloop eval sage --gone"}, "--gone"),
        ({"command": "heartloop eval gone --user embedded"}, "gone"),
        ({"command": "heartloop eval sage -E gone=1"}, "gone"),
        ({"command": "heartloop eval sage -E variant=gone"}, "gone"),
        ({"command": "heartloop train gone --dry-run"}, "gone"),
        ({"command": "heartloop train rlver_ppo_tiny --variant gone"}, "gone"),
        ({"command": "heartloop train rlver_ppo_tiny --set gone.x=1"}, "gone"),
        ({"command": "heartloop validate talks --suite gone"}, "gone"),
        ({"command": "heartloop import gone data"}, "gone"),
        ({"command": "heartloop scenarios list gone"}, "gone"),
        ({"command": "heartloop check gone"}, "gone"),
        ({"command": "python -m benchmarks.gone"}, "gone"),
        ({"command": "python examples/gone.py"}, "gone"),
        ({"command": "make gone"}, "gone"),
    ],
)
def test_what_is_gone_is_a_problem(change: dict[str, Any], named: str) -> None:
    changed = Item.model_validate({**ITEMS["S16"].model_dump(), **change})
    assert [problem for problem in wrong_with(changed) if named in problem]


def test_an_item_or_a_departure_without_a_line_is_a_problem() -> None:
    assert "['X1', 'X2']" in next(problems(PAPERS[:-1]))
    assert "D1" in list(problems(PAPERS[3:4]))[1]  # EMPA's rows have D4, D5 and D15


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """Runs a command in a folder of all rows, once."""
    folder: Path = tmp_path_factory.mktemp("papers")
    return cache(lambda command: heartloop(*shlex.split(command)[1:], cwd=folder))


def rows() -> Iterator[Any]:
    for item in ITEMS.values():
        if item.needs == "nothing" and item.command.startswith("heartloop"):
            slow = [pytest.mark.slow] if any(part in item.command for part in SLOW) else []
            yield pytest.param(item, id=item.id, marks=slow)


@pytest.mark.parametrize("item", list(rows()))
def test_a_command_that_needs_nothing_runs(item: Item, run: Callable[[str], Done]) -> None:
    for command in item.commands:
        done = run(command)
        assert done.code == 0, f"{command}\n{done.out}\n{done.err}"
