"""Every page of a report of all environments in a real browser: wide and light, on a phone and dark."""

from __future__ import annotations

from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from heartloop.environments.registry import environment_names

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (390, "dark"))

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


@pytest.fixture(scope="module")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed; it holds axe")
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Page, axe: str, *, rules_in: Collection[int]) -> list[str]:
    """What is wrong with the page as it is, in each look; the rules of axe are checked in some of them."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe)
    found = []
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        wrong = [f"too small: {words}" for words in page.evaluate(_SMALL)]
        if LOOKS.index((width, scheme)) in rules_in:
            wrong += page.evaluate(_VIOLATIONS)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(f"{wide} pixels wide")
        found += [f"{width} {scheme}: {words}" for words in wrong]
    return found


def test_every_page_of_a_report(page: Page, whole: Path, axe: str) -> None:
    """Pages take turns with the look in which axe checks them: pages of measurements are of one kind."""
    found: dict[str, list[str]] = {}
    for number, path in enumerate(sorted(whole.glob("*.html"))):
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        if page.locator("#list").count():
            page.wait_for_selector("#list .row", state="attached")
        page.evaluate(_UNFOLD)
        if page.locator("#space").count():
            page.wait_for_selector("#space-plots svg")
        found[path.stem] = faults(page, axe, rules_in=[number % 2])
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.slow
def test_a_dialogue_of_every_environment_alone_and_beside_another(page: Page, whole: Path, axe: str) -> None:
    same = "(a, b) => a.scenarioNumber === b.scenarioNumber && a !== b"
    pair = (
        "() => { const last = heartloop.rows[heartloop.rows.length - 1];"
        f" return [last, heartloop.rows.find((row) => ({same})(row, last))].map((row) => row.address); }}"
    )
    found: dict[str, list[str]] = {}
    for path in [whole / "index.html", *whole.glob("measurement-*.html")]:
        page.goto(path.as_uri())
        page.wait_for_selector("#list .row", state="attached")
        first, second = page.evaluate(pair)
        for address in (first, f"pair?a={first}&b={second}"):
            page.evaluate("(address) => { window.location.hash = address; }", address)
            page.wait_for_selector("dialog[open]" + (".wide" if "pair" in address else "") + " .bubble", state="attached")
            page.evaluate(_UNFOLD)
            found[f"{path.stem}#{address}"] = faults(page, axe, rules_in=range(2))
    assert len(found) == 2 * (len(environment_names()) + 1)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
