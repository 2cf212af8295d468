"""Every page of a report of all environments in a real browser: wide and on a phone, light and dark.

1. axe finds no violation of its rules (WCAG 2.2 A and AA, best practices).
2. The browser reports nothing, and a page on a phone does not scroll sideways.
3. No text, in tables or in drawings, is rendered below 12 pixels.

`make test-browser` installs what this needs. What a reader does on the pages is in the slow tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import heartloop
from heartloop.environments.registry import environment_names
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.store import read_run
from heartloop.report.site import write_site
from tests.eqbench_checkout import write_checkout
from tests.report.browser import quiet
from tests.report.training_bench import training_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MODELS = ("heartloop/counsellor", "heartloop/hostile")
LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"))

_VIOLATIONS = """async () => (await axe.run(document, { resultTypes: ["violations"], preload: false })).violations
    .flatMap(({ id, impact, nodes }) => nodes.map((node) => `${id} (${impact}): ${node.html.slice(0, 120)}`))"""
_SMALL = """() => [...document.querySelectorAll("body *")].flatMap((e) => {
    const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
    if (!words || !e.checkVisibility()) return [];
    const grown = e.ownerSVGElement ? Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1;
    const size = grown * parseFloat(getComputedStyle(e).fontSize);
    return size < 11.95 ? [words.slice(0, 30) + ": " + size.toFixed(1)] : [];
})"""
"""Texts below 12 pixels as rendered: of a drawing, after it was scaled."""
_UNFOLD = """() => {
    document.body.classList.remove("views"); // every view under the other, as without scripts
    for (const part of document.querySelectorAll("details")) part.open = true;
}"""


def thinking(messages: Sequence[Mapping[str, str]]) -> str:
    """A policy that thinks before it replies, and now and then forgets the form that it was asked for."""
    said = "I am sorry that it went like this. What was the worst of it?"
    return said if len(messages) % 3 == 0 else f"<think>They sound tired.\n\nI should ask.</think>{said}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of every environment, one of SAGE as if by another user simulator, and two of a training."""
    folder = tmp_path_factory.mktemp("runs")
    write_checkout(folder / "checkout")
    changed: dict[str, dict[str, Any]] = {
        "eqbench": {"scenarios": folder / "checkout"},
        "sage": {"limit": 6, "models": [*MODELS, thinking], "options": {"form": "think"}},
    }
    for name in environment_names():
        how = {"limit": None if name == "eqbench" else 6, "models": MODELS, **changed.get(name, {})}
        heartloop.evaluate(name, user="embedded", out=folder / name, progress=False, **how)
    (folder / "sage-other").mkdir()
    for file in ("settings.json", "transcripts.jsonl"):
        text = (folder / "sage" / file).read_text(encoding="utf-8")
        (folder / "sage-other" / file).write_text(re.sub(r'"user": ?"embedded"', '"user":"x/sim"', text), encoding="utf-8")
    for variant in ("no_floor", "control"):
        training_run(folder / variant, variants=(variant,))
    return sorted(path.parent for path in folder.glob("*/settings.json"))


@pytest.fixture(scope="module")
def site(runs: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of all runs, with a comparison of two models."""
    (sage,) = (run for run in runs if run.name == "sage")
    comparison = compare(*choose_sides(read_run(sage), None, *MODELS))
    return write_site(runs, tmp_path_factory.mktemp("site"), comparison=comparison).parent


@pytest.fixture(scope="module")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed; it holds axe")
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Page, axe: str) -> list[str]:
    """What is wrong with the page as it is, in each look."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe)
    found = []
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        wrong = [f"too small: {words}" for words in page.evaluate(_SMALL)]
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(f"{wide} pixels wide")
        if (width == 1280) is (scheme == "light"):  # crosswise: each width and each scheme once
            wrong += page.evaluate(_VIOLATIONS)
        found += [f"{width} {scheme}: {words}" for words in wrong]
    return found


def test_every_page_of_a_report_and_a_dialogue_of_every_environment(browser: Browser, site: Path, axe: str) -> None:
    """Each page is opened once; then one of its dialogues, alone and beside another of the same scenario."""
    pages = sorted(site.glob("*.html"))
    assert {"comparison", "index", "measurement-7", "numbers", "published", "settings", "side-by-side", "training"} <= {
        path.stem for path in pages
    }
    same = "(a, b) => a.scenarioNumber === b.scenarioNumber && a !== b"
    pair = (
        "() => { const last = heartloop.rows[heartloop.rows.length - 1];"
        f" return [last, heartloop.rows.find((row) => ({same})(row, last))].map((row) => row.address); }}"
    )
    found: dict[str, list[str]] = {}
    opened = 0
    for path in pages:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        with quiet(page):
            page.goto(path.as_uri())
            page.wait_for_selector("h1")
            listed = page.locator("#list").count() > 0
            if listed:
                page.wait_for_selector("#list .row", state="attached")
            page.evaluate(_UNFOLD)
            if page.locator("#space").count():
                page.wait_for_selector("#space-plots svg")
            found[path.stem] = faults(page, axe)
            if listed:
                opened += 1
                first, second = page.evaluate(pair)
                for address in (first, f"pair?a={first}&b={second}"):
                    page.evaluate("(address) => { window.location.hash = address; }", address)
                    page.wait_for_selector("dialog[open]" + (".wide" if "pair" in address else "") + " .bubble", state="attached")
                    page.evaluate(_UNFOLD)
                    found[f"{path.stem}#{address}"] = faults(page, axe)
        page.context.close()
    assert opened == len(environment_names()) + 1
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
