"""What tests in a real browser share: how it is started, and that it stays quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

__all__ = ["FLAGS", "quiet", "view"]

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
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
