"""What a reader needs who sees no colour, has no mouse, or does not know a word.

1. Every heading of every table leads to an entry that explains it, on the page of meanings; every entry says what it is.
2. Headings follow in order, ids are unique, tables have scopes, links within the report lead somewhere.
3. Text stands out from its ground by at least 4.5 to 1, lines and marks by 3 to 1, in light and in dark, as the style's own
   variables have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.site import write_site
from tests.report.training_bench import training_run

Talk = Callable[..., Transcript]
WriteRun = Callable[..., Path]
STYLE = (resources.files("heartloop.report") / "static" / "report.css").read_text(encoding="utf-8")


class _Page(HTMLParser):
    """Ids, links, headings, and for each heading of a column the places its links lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.columns: list[tuple[str, list[str]]] = []
        self.scopeless = 0
        self._words: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            self.links.append(given["href"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th":
            self.scopeless += "scope" not in given
            if given.get("scope") == "col":
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


@pytest.fixture
def site(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> Path:
    """A report with every page there is: two simulators, failures, a log, prices, training in both environments."""
    run = write_run(dialogues, scenarios={"s1": "f"}, prices={"x/good": {"input": 1, "output": 2}})
    (run / "log.jsonl").write_text(
        '{"started": "2026-01-01", "endpoints": {"x/good": {"address": "a", "retried": 1, "dropped": {}}}}\n'
    )
    other = write_run([d.model_copy(update={"user": "x/sim"}) for d in dialogues], "other", user="x/sim")
    trained = [
        training_run(tmp_path / name, recipe=name, data={"dialogue/failed": 1}) for name in ("ctc_grpo_tiny", "rlver_ppo_tiny")
    ]
    trained.append(training_run(tmp_path / "control", variants=("control",)))
    return write_site([run, other, *trained], tmp_path / "site").parent


@pytest.fixture
def pages(site: Path) -> dict[str, _Page]:
    return {path.name: _Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}


def test_every_page_of_a_report_is_looked_at(pages: dict[str, _Page]) -> None:
    assert sorted(pages) == [
        "index.html", "measurement-2.html", "numbers.html", "published.html", "settings.html", "side-by-side.html",
        "training-2.html", "training.html",
    ]  # fmt: skip


def test_every_heading_of_a_table_leads_to_what_it_means(pages: dict[str, _Page]) -> None:
    entries = set(pages["numbers.html"].ids)
    columns = [(name, words, links) for name, page in pages.items() for words, links in page.columns]
    assert len(columns) > 120
    for name, words, links in columns:
        meant = [link.removeprefix("numbers.html#") for link in links if link.startswith("numbers.html#")]
        assert len(meant) == 1, f"{name}: the heading {words!r} leads to no entry"
        assert meant[0] in entries, f"{name}: {words!r} leads to {meant[0]!r}, which is not there"


def test_every_entry_says_something_and_every_mark_of_a_dialogue_has_one(site: Path, pages: dict[str, _Page]) -> None:
    html = (site / "numbers.html").read_text(encoding="utf-8")
    entries = re.findall(r'<div class="entry" id="([^"]+)">\s*<h3>(.+?)</h3>\s*<p>(.{20,}?)</p>', html, re.DOTALL)
    assert len(entries) == html.count('class="entry"') > 40
    marks = {"change", "thoughts", "strategies", "aspects", "cut", "bands", "spark", "tag", "trajectories", "bar"}
    assert marks <= set(pages["numbers.html"].ids)
    assert "No clinical tool" in html


def test_headings_follow_in_order_and_ids_are_unique(pages: dict[str, _Page]) -> None:
    for name, page in pages.items():
        assert page.headings[0] == 1, name
        assert page.headings.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False)), name
        assert len(page.ids) == len(set(page.ids)), name
        assert page.scopeless == 0, name


def test_links_within_the_report_lead_somewhere(pages: dict[str, _Page]) -> None:
    for name, page in pages.items():
        for link in page.links:
            target, _, place = link.partition("#")
            place = place.partition("?")[0]  # after it stand the choices of a view
            if target.startswith(("data:", "assets/")) or place.startswith("dialogue-") or place == "pair":
                continue
            assert (target or name) in pages, f"{name}: {link}"
            assert not place or place in pages[target or name].ids, f"{name}: {link}"


def test_every_page_has_a_skip_link_first_and_says_where_it_is(site: Path) -> None:
    for path in site.glob("*.html"):
        html = path.read_text(encoding="utf-8")
        body = html[html.index("<body") :]
        assert re.match(r'<body[^>]*>\s*<a class="skip" href="#[\w-]+">Skip to', body), path.name
        assert html.count('aria-current="page"') == (2 if path.name in ("index.html", "measurement-2.html") else 1), path.name


Colour = tuple[float, float, float]


def _variables(dark: bool) -> dict[str, str]:
    light, night = STYLE.split("@media screen and (prefers-color-scheme: dark)", 1)
    found = dict(re.findall(r"--([\w-]+):\s*([^;]+);", light))
    return {**found, **dict(re.findall(r"--([\w-]+):\s*([^;]+);", night.partition("\n}\n")[0]))} if dark else found


def _colour(value: str) -> Colour:
    if value.startswith("#"):
        return (int(value[1:3], 16), int(value[3:5], 16), int(value[5:7], 16))
    red, green, blue = (float(part) for part in value.split())
    return (red, green, blue)


def _over(top: Colour, ground: Colour, share: float) -> Colour:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(top, ground, strict=True))
    return (red, green, blue)


def _contrast(first: Colour, second: Colour) -> float:
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05) of relative luminance."""

    def luminance(colour: Colour) -> float:
        parts = [c / 255 for c in colour]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_worked_out_as_the_standard_has_it() -> None:
    assert _contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert _contrast(_colour("#777777"), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


TEXT = [
    ("ink", "paper"), ("ink", "card"), ("ink", "sunk"), ("ink", "accent-soft"), ("ink", "down-soft"),
    ("soft", "paper"), ("soft", "card"), ("soft", "sunk"),
    ("accent", "paper"), ("accent", "card"), ("accent", "accent-soft"), ("accent", "sunk"), ("accent", "down-soft"),
    ("down", "paper"), ("down", "card"), ("up", "card"), ("down", "down-soft"), ("up", "paper"), ("up", "accent-soft"),
    ("paper", "accent"), ("paper", "down"),
    *((f"m{n}", "paper") for n in range(8)), *(("paper", f"m{n}") for n in range(8)),
]  # fmt: skip
"""Every pair of text and ground that the style sets."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT)
def test_text_stands_out_from_its_ground(text: str, ground: str, dark: bool) -> None:
    colours = _variables(dark)
    assert _contrast(_colour(colours[text]), _colour(colours[ground])) >= 4.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("tint", [0.0, 0.5, 1.0])
def test_numbers_stand_out_from_shaded_cells(tint: float, dark: bool) -> None:
    colours = _variables(dark)
    shade = re.search(r"rgb\(var\(--zone\) / calc\(([\d.]+) \+ ([\d.]+) \* var\(--tint, 0\)\)\)", STYLE)
    assert shade is not None
    ground = _over(_colour(colours["zone"]), _colour(colours["paper"]), float(shade[1]) + float(shade[2]) * tint)
    assert _contrast(_colour(colours["ink"]), ground) >= 4.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axis_words_stand_out_from_the_bands(dark: bool) -> None:
    colours = _variables(dark)
    for zone, share in (("zone", 0.13), ("zone-low", 0.15)):
        assert _contrast(_colour(colours["soft"]), _over(_colour(colours[zone]), _colour(colours["paper"]), share)) >= 3.0


def test_the_style_knows_paper_and_still_eyes() -> None:
    assert "@media print" in STYLE
    assert "prefers-reduced-motion: reduce" in STYLE
    assert re.search(r":focus-visible \{ outline: 2px solid", STYLE)
