"""The report of EMPA runs: what stands on its page, beside the paper's numbers, and that nothing a model wrote breaks out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.site import write_site
from tests.report.empa_bench import EMPA, empa_talk, levels
from tests.report.test_eibench_report import data
from tests.report.test_meanings import _Page

WriteRun = Callable[..., Path]
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


def test_every_heading_leads_to_what_it_means_and_every_link_somewhere(site: Path) -> None:
    pages = {path.name: _Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    entries = set(pages["numbers.html"].ids)
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
        assert page.scopeless == 0, name
        assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False)), name
        for words, links in page.columns:
            meant = [link.removeprefix("numbers.html#") for link in links if link.startswith("numbers.html#")]
            assert len(meant) == 1, f"{name}: {words!r}"
        for link in page.links:
            target, _, place = link.partition("#")
            if target == "numbers.html" and place:
                assert place in entries, f"{name}: {link}"
            elif not target and place and not place.startswith(("dialogue-", "pair?")):
                assert place.partition("?")[0] in page.ids, f"{name}: {link}"


def test_the_board_names_its_preset_and_shows_components_groups_and_what_was_not_judged(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert "Computed by preset released;" in html
    assert "EPM-Q by preset <b>released</b>" in html
    assert ">EPM-Q<" in html
    assert "Epm-q" not in html
    assert "4 windows were not judged" in html
    assert re.findall(r'data-label="Windows judged"><b>(\d+)', html) == ["14", "8", "20"]
    assert re.findall(r'data-label="Not judged"><b>(\d+)', html) == ["0", "4", "0"]
    heads = re.findall(r'<a class="def" href="numbers.html#(components|empa-axes|difficulty)">([^<]*)</a>', html)
    assert [words for entry, words in heads if entry == "components"] == ["Outcome", "Efficiency", "Stability"] * 2
    assert [words for entry, words in heads if entry != "components"] == [
        "C · cognitive", "A · affective", "P · proactive", "Easy", "Medium", "Hard", "Extreme",
    ]  # fmt: skip
    assert "reached 100" not in html  # SAGE's words for an ending
    assert "<dt>Judged after</dt><dd>every reply</dd>" in html


def test_every_picture_is_there_and_said_in_words(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert len(re.findall('href="numbers.html#index-', html)) == 9
    assert len(re.findall('href="numbers.html#profile-', html)) == 4 + 4 + 3  # domains, mechanisms, needs that occur
    pictures = re.findall(r'<svg[^>]* role="img" aria-label="([^"]*)"', html)
    assert sum("paths of 4 dialogues in the planes" in words for words in pictures) == 3
    assert sum(words.startswith("x/one, EPM-Q: daily life ") for words in pictures) == 1
    assert 'aria-label="success, covered the distance of the start: 4 of 4"' in html
    assert 'aria-label="failure, five windows of negative energy in a row: 4 of 4"' in html
    assert len(re.findall(r'<use href="#path-\d-[01]-\d"/>', html)) == 3 * 4 * 2
    for target in re.findall(r'<use href="#([^"]+)"', html):
        assert f'id="{target}"' in html


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


def test_published_results_stand_apart(site: Path) -> None:
    html = (site / "published.html").read_text(encoding="utf-8")
    section = html[html.index('id="empa"') :]
    assert section.index("published, EMPA, Table 7 · theirs") < section.index("measured here · ")
    assert re.search(r"Claude 4.6 Opus</th>\s*<td[^>]*><b>1</b></td>\s*<td[^>]*><b>107.2</b>", section)
    assert "121.4" in section
    assert re.findall(r"measured here · <a[^>]*>([^<]*)<", section) == ["EMPA · embedded · released · plain"]


def test_a_model_that_judges_itself_is_marked(write_run: WriteRun, tmp_path: Path) -> None:
    talks = [talk.model_copy(update={"user": "x/one"}) for talk in empa_talks()]
    index = write_site([write_run(talks, "own", **EMPA, user="x/one")], tmp_path / "own")
    assert "x/one is scored by itself here" in index.read_text(encoding="utf-8")


def test_hostile_text_stays_text(write_run: WriteRun, hostile: str, tmp_path: Path) -> None:
    talks = empa_talks(hostile)
    wild: dict[str, Any] = dict.fromkeys(
        ("axis", "domain", "difficulty", "threshold", "person", "place", "theme", "window"), hostile
    )
    talks.append(empa_talk(hostile, "s0", [GOOD, BAD], facts=wild, text=hostile))
    site = write_site([write_run(talks, "wild", **EMPA)], tmp_path / "wild").parent
    for page in site.glob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert "<script>" not in html
        assert not re.search(r"<img|\x00|\u202e", html)
    for path in (site / "data/1").iterdir():
        text = path.read_text(encoding="ascii")
        assert not re.search(r"[<>&]", text)
        json.loads(text[text.index(",") + 1 : text.rindex(")")])


def test_a_page_of_another_environment_leaves_no_paths_behind(
    write_run: WriteRun, dialogues: list[Transcript], site: Path
) -> None:
    assert (site / "data/1/panel.js").is_file()
    write_site([write_run(dialogues)], site)
    assert not (site / "data/1/panel.js").exists()
