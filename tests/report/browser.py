"""What tests in a real browser share: how it is started, that it stays quiet, which words of an open dialogue are too faint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

__all__ = ["FAINT", "FLAGS", "quiet", "view"]

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
FAINT = """() => {
    const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const found = rgba(getComputedStyle(e).backgroundColor);
            if (found.length < 4 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const e of document.querySelectorAll("dialog *")) {
        const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
        if (!words || !e.checkVisibility() || e.disabled) continue;
        const style = getComputedStyle(e);
        const [a, b] = [light(rgba(e.ownerSVGElement ? style.fill : style.color)), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) faint.push(words.slice(0, 30) + ": " + ratio.toFixed(2));
    }
    return faint;
}"""
"""Words in the open dialogue whose contrast is below 4.5 to 1 (WCAG 2.2, 1.4.3)."""
_OF_THE_DRIVER = ("GPU stall due to ReadPixels", "willReadFrequently")
"""Notes of Chromium on drawing without a graphics card; they come with WebGL and say nothing of the page."""


@contextmanager
def quiet(page: Page, home: str = "file:") -> Iterator[list[str]]:
    """What was asked for; fails on any other message of the browser and on any request to another place than `home`."""
    problems: list[str] = []
    asked: list[str] = []

    def told(message: ConsoleMessage) -> None:
        problems.append(message.text)

    page.on("console", told)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield asked
    page.remove_listener("console", told)
    assert [text for text in problems if not any(note in text for note in _OF_THE_DRIVER)] == []
    assert all(url.startswith((home, "data:")) for url in asked)


def view(page: Page, name: str) -> None:
    """Goes to a view of the open page by its address."""
    page.evaluate("(name) => { window.location.hash = name; }", name)
    page.wait_for_selector(f"#{name}", state="visible")
