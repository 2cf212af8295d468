"""`compare --report`: the comparison as a page of the report, with the numbers of the command and links to the dialogues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.report.comparing import COMPARISON
from heartloop.report.site import write_site
from tests.report.sage_bench import WriteRun, talk


@pytest.fixture
def run(write_run: WriteRun) -> Path:
    talks = [talk(model, f"s{n}", [rise * n]) for model, rise in (("x/a", 1), ("x/b", 3)) for n in range(4)]
    return write_run(talks)


def _compare(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_has_the_numbers_of_the_command_and_leads_to_the_dialogues(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    text = _compare(run, "--model-a", "x/a", "--model-b", "x/b", "--report", out)
    html = (out / COMPARISON).read_text(encoding="utf-8")
    # B - A is 0, 2, 4, 6
    assert "B - A: +3.0" in text
    assert "B - A: +3.0" in html
    links = re.findall(r'href="(index\.html#pair\?[^"]*)"', html)
    assert len(links) == 3  # the pair without a difference is no extreme
    assert links[0] == "index.html#pair?a=dialogue-x-a-s3&amp;b=dialogue-x-b-s3"
    assert COMPARISON in (out / "index.html").read_text(encoding="utf-8")
    write_site([run], out)  # a later report without a comparison has no such page
    assert not (out / COMPARISON).exists()


def test_the_same_model_in_two_runs_links_only_what_the_report_shows(write_run: WriteRun, tmp_path: Path) -> None:
    first = write_run([talk("x/a", f"s{n}", [n]) for n in range(3)], "first")
    second = write_run([talk("x/a", f"s{n}", [2 * n], text=f"other {n}") for n in range(3)], "second")
    _compare(first, second, "--report", tmp_path / "site")
    html = (tmp_path / "site" / COMPARISON).read_text(encoding="utf-8")
    assert "#pair?" not in html
    assert html.count('href="index.html#dialogue-x-a-s2"') == 2  # the score and the link of B; A was replaced
