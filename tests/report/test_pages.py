"""Every page of a report of all environments: headings, ids and links, and that no text of a run is ever markup."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Failure, Transcript
from heartloop.environments.registry import environment_names
from heartloop.evaluation.store import write_scores
from heartloop.report.site import write_site
from tests.report.talks import EMPA, HOSTILE, PERM, WriteRun, bench_talk, empa_talk, levels, perm_talk, talk
from tests.report.training_bench import training_run


class ParsedPage(HTMLParser):
    """Elements, headings, and for each heading of a column the places its links lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.columns: list[tuple[str, list[str]]] = []
        self._words: list[str] | None = None
        self.feed(html)

    def values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag == "th" and given.get("scope") == "col":
            self._words = []
            self.columns.append(("", []))
        if tag == "a" and self._words is not None:
            self.columns[-1][1].append(given.get("href", ""))

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "th" and self._words is not None:
            self.columns[-1] = ("".join(self._words).strip(), self.columns[-1][1])
            self._words = None


@cache
def parsed(site: Path) -> dict[str, ParsedPage]:
    return {path.name: ParsedPage(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}


@pytest.fixture
def pages(whole: Path) -> dict[str, ParsedPage]:
    return parsed(whole)


def test_every_page_of_a_report_is_looked_at(pages: dict[str, ParsedPage]) -> None:
    measured = ["index.html", *(f"measurement-{number}.html" for number in range(2, len(environment_names()) + 2))]
    others = ["comparison", "numbers", "published", "settings", "side-by-side", "training", "training-2"]
    assert sorted(pages) == sorted([*measured, *(f"{name}.html" for name in others)])


def test_every_heading_of_a_table_leads_to_what_it_means(pages: dict[str, ParsedPage]) -> None:
    entries = set(pages["numbers.html"].values("id"))
    columns = [(name, words, links) for name, page in pages.items() for words, links in page.columns]
    assert len(columns) > 400
    for name, words, links in columns:
        meant = [link.removeprefix("numbers.html#") for link in links if link.startswith("numbers.html#")]
        assert len(meant) == 1, f"{name}: the heading {words!r} leads to no entry"
        assert meant[0] in entries, f"{name}: {words!r} leads to {meant[0]!r}, which is not there"


def test_headings_follow_in_order_and_ids_are_unique(pages: dict[str, ParsedPage]) -> None:
    for name, page in pages.items():
        headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
        assert headings[0] == 1, name
        assert headings.count(1) == 1, name
        assert all(after <= before + 1 for before, after in pairwise(headings)), name
        ids = page.values("id")
        assert len(ids) == len(set(ids)), name
        assert all("scope" in attributes for tag, attributes in page.elements if tag == "th"), name


def test_links_and_files_are_in_the_report(whole: Path, pages: dict[str, ParsedPage]) -> None:
    for name, page in pages.items():
        for link in (link for kind in ("href", "src", "action", "data", "poster", "srcset") for link in page.values(kind)):
            target, _, place = link.partition("#")
            place = place.partition("?")[0]  # the choices of a view follow
            if target.startswith("data:") or place.startswith("dialogue-") or place == "pair":
                continue
            assert (whole / (target or name)).is_file(), f"{name}: {link}"
            assert not place or place in pages[target or name].values("id"), f"{name}: {link}"
    style = (whole / "assets" / "report.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


def test_every_page_has_a_skip_link_first_and_allows_no_script_but_its_own(whole: Path, pages: dict[str, ParsedPage]) -> None:
    for name, page in pages.items():
        html = (whole / name).read_text(encoding="utf-8")
        assert re.match(r'<body[^>]*>\s*<a class="skip" href="#[\w-]+">Skip to', html[html.index("<body") :]), name
        measured = name == "index.html" or name.startswith("measurement-")  # in the tabs and in the links between pages
        assert page.values("aria-current") == ["page"] * (2 if measured else 1), name
        assert "default-src 'none'; script-src 'self' file:; script-src-attr 'none'" in html
        assert not re.search(r">-0(\.0)?<", html), "no number is minus zero"


def test_the_numbers_of_a_page_are_those_of_scores_json_and_a_stand_in_is_named(whole: Path, every_run: list[Path]) -> None:
    measured = [run for run in every_run if (run / "transcripts.jsonl").is_file()]
    for number, run in enumerate(measured, start=1):
        html = (whole / (f"measurement-{number}.html" if number > 1 else "index.html")).read_text(encoding="utf-8")
        board = html[html.index('<table class="board') :].partition("</table>")[0]
        means = [row.headline.mean for row in write_scores(run).models]
        assert re.findall(r"<strong>(.+?)</strong>", board) == [
            f"{round(mean, 1) + 0.0:.1f}" for mean in means if mean is not None
        ]
        assert ("stand-in (embedded)" in html) is (run.name != "sage-other"), run.name


def assert_that_no_text_is_markup(site: Path) -> None:
    for name, page in parsed(site).items():
        assert all(attributes.get("src") for tag, attributes in page.elements if tag == "script"), name
        assert not [tag for tag, given in page.elements if tag == "img" or any(word.startswith("on") for word in given)], name
        assert not re.search("[\x00\u202e]", (site / name).read_text(encoding="utf-8")), name
    for path in site.glob("data/*/*.js"):
        text = path.read_text(encoding="ascii")
        assert not re.search(r"[<>&]", text), path
        json.loads(text[text.index(",") + 1 : text.rindex(")")])


def test_what_a_model_writes_is_text_in_every_environment(whole: Path) -> None:
    assert_that_no_text_is_markup(whole)
    for number in range(1, len(environment_names()) + 2):
        dialogues = "".join(path.read_text() for path in (whole / "data" / str(number)).glob("dialogues-*.js"))
        assert "window.hacked" in dialogues, number


def test_hostile_scenarios_judges_settings_and_names_are_text(
    write_run: WriteRun, tmp_path: Path, dialogues: list[Transcript]
) -> None:
    facts = dict.fromkeys(("intention", "intention_text", "theme", "title", "person", "place", "tags"), HOSTILE)
    broken = Failure(role="user", kind="AnswerError", detail=HOSTILE)
    log = {"started": HOSTILE, "endpoints": {HOSTILE: {"address": HOSTILE, "retried": HOSTILE, "dropped": {HOSTILE: 1}}}}
    bad = [
        talk(HOSTILE, "s1", [5], text=HOSTILE, facts=facts),
        talk(HOSTILE, HOSTILE, [5], text=HOSTILE, facts=facts, stop="failed", failure=broken),
    ]
    named = {"simulator": HOSTILE, "date": HOSTILE, "heartloop_version": HOSTILE, HOSTILE: HOSTILE, "models": [HOSTILE]}
    sage = write_run([*dialogues, *bad], scenarios={HOSTILE: HOSTILE}, prices={HOSTILE: {HOSTILE: 1}}, **named)
    (sage / "log.jsonl").write_text(json.dumps(log) + "\n", encoding="utf-8")
    wild: dict[str, Any] = dict.fromkeys(
        (*facts, "axis", "domain", "difficulty", "threshold", "window", "emotion", "want"), HOSTILE
    )
    told = {"played": HOSTILE, "task": HOSTILE, "goal": HOSTILE, "limits": HOSTILE, "scene": "charm"}
    charm = bench_talk(HOSTILE, "s0", [(50.0, 40.0)], scene="charm")
    others = [
        write_run([empa_talk(HOSTILE, "s0", [levels(C=2), levels(A=-2)], facts=wild, text=HOSTILE)], "empa", **EMPA),
        write_run(
            [perm_talk(HOSTILE, "s0", (1, 5, 5, 60), text=HOSTILE, seen={"expression": {HOSTILE: [HOSTILE]}})], "perm", **PERM
        ),
        write_run([charm.model_copy(update={"facts": {**charm.facts, **told}})], "eibench", environment="eibench"),
    ]
    trained = training_run(tmp_path / "trained", "batch.steps=2", data={f"dialogue/score/{HOSTILE}": 0.5})
    settings = json.loads((trained / "settings.json").read_text())
    settings["recipe"]["name"] = settings["recipe"]["environment"]["name"] = HOSTILE
    (trained / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    site = write_site([sage, *others, trained], tmp_path / "site").parent
    assert_that_no_text_is_markup(site)
    for name in ("index.html", "measurement-2.html", "settings.html", "training.html"):
        assert "{{ 7*7 }}" in (site / name).read_text(encoding="utf-8"), "text of a run is a value, never a template"
