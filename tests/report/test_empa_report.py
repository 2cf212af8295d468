"""The report of EMPA runs: what stands on its page, beside the paper's numbers, and that nothing a model wrote breaks out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.site import write_site
from tests.report.empa_bench import EMPA, empa_talk, levels
from tests.report.sage_bench import WriteRun
from tests.report.test_eibench_report import data

GOOD, BAD = levels(C=2, A=2), levels(C=-2, A=-2)
DOMAINS = ("daily life", "health", "leisure", "career")
TIERS = ("easy", "medium", "hard", "extreme")


def empa_talks(text: str = "") -> list[Transcript]:
    """Three models and four people, one a difficulty; one model was not judged once, and one failed once."""
    facts = [{"domain": d, "difficulty": t, "axis": a} for d, t, a in zip(DOMAINS, TIERS, "CAPC", strict=True)]
    talks = []
    for n, fact in enumerate(facts):
        talks.append(empa_talk("x/one", f"s{n}", [GOOD] * (n + 2), stop="success", facts=fact, text=text))
        talks.append(empa_talk("x/two", f"s{n}", [BAD] * 5, stop="failure", facts=fact))
        talks.append(empa_talk("x/gap", f"s{n}", [levels(C=1), None, levels(P=1)], facts=fact))
    return [*talks, empa_talk("x/gap", "s9", [GOOD], failed=True)]


@pytest.fixture
def site(write_run: WriteRun, tmp_path: Path) -> Path:
    return write_site([write_run(empa_talks(), "empa", **EMPA)], tmp_path / "site").parent


def test_every_number_of_the_cases_opens_its_talk(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    table = html[html.index('class="heat cases"') :]
    addresses = {row[0] for row in data(site, 1, "list.js")["rows"]}
    found = re.findall(r'<td style="--tint:[\d.]+"><a href="#([^"]+)" title="([^"]+)">(\d+)</a>', table)
    assert len(found) == 12
    assert {address for address, *_ in found} <= addresses
    assert [words for _, words, _ in found[:3]] == [
        "covered the distance of the start",
        "ended by the director",
        "five windows of negative energy in a row",
    ]


def test_the_browser_gets_paths_windows_and_calls(site: Path) -> None:
    paths = data(site, 1, "panel.js")
    assert (paths["axes"], paths["zone"], len(paths["rows"])) == (["C", "A", "P"], -1, 13)
    assert paths["rows"][0] == ["easy", [-3, -4, 0, 3, 3, 0, 3, 3, 0], "++"]
    assert paths["rows"][-1] is None
    said = data(site, 1, "dialogues-0.js")["dialogues"]
    assert tuple(said[0]["panel"][name] for name in ("start", "lacking", "window")) == ([-3, -4, 0], 5, 1)
    first = said[0]["panel"]["windows"][0]
    assert first["claims"][0] == ["C.Prog", 2, "Reply number 0 of x/one.", "It says so.", [["reply", 0, 0, 23]]]
    assert first["act"] == ["advise", "", "Stay with it.", "a start"]
    assert said[2]["panel"]["windows"][1] is None
    assert said[0]["turns"][0]["thoughts"] == {}  # the judge's lines stand in the window
    assert data(site, 1, "list.js")["scenarios"][0]["line"].endswith("largest deficit on C · easy · low threshold")


def test_a_page_of_another_environment_leaves_no_paths_behind(
    write_run: WriteRun, dialogues: list[Transcript], site: Path
) -> None:
    assert (site / "data/1/panel.js").is_file()
    write_site([write_run(dialogues)], site)
    assert not (site / "data/1/panel.js").exists()
