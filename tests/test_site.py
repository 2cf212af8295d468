"""The documentation site: built by mkdocs, strictly (navigation, links); no page loads anything from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.write_docs import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("the extra site is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "website" / "mkdocs.yml"), "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """What a page loads when it is opened, and the pages that it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.loaded.append(values.get("src") or "")
        if tag == "link" and values.get("rel") != "canonical":
            self.loaded.append(values.get("href") or "")
        if tag == "a":
            self.links.append(values.get("href") or "")


def read(page: Path) -> Loaded:
    parser = Loaded()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_the_readme_is_the_front_page_and_links_to_the_pages_of_the_site(site: Path) -> None:
    links = read(site / "index.html").links
    assert {"sage.html", "write-a-scenario.html", "decisions/index.html", "repository/CHANGELOG.html"} <= set(links)


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    away = {
        (page.name, address) for page in site.rglob("*.html") for address in read(page).loaded if re.match(r"(\w+:)?//", address)
    }
    assert away == set()
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8"))
