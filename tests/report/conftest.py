"""Fixtures of the report's tests: runs, one report of every environment for all tests that look at whole pages, and a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import heartloop
from heartloop.core.dialogue import Transcript
from heartloop.environments.registry import environment_names
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.store import read_run, stored_transcripts
from heartloop.report.site import write_site
from tests.eqbench_checkout import write_checkout
from tests.report.talks import HOSTILE, WriteRun, sage_talks, write_run_into
from tests.report.training_bench import training_run, write_held_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
_OF_THE_DRIVER = ("GPU stall due to ReadPixels", "willReadFrequently")
"""Notes of Chromium on drawing without a graphics card; they come with WebGL and say nothing of the page."""


@pytest.fixture
def dialogues() -> list[Transcript]:
    return sage_talks()


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run directory of some dialogues, by default `run`, and returns its path."""

    def write(dialogues: Sequence[Transcript], name: str = "run", **settings: Any) -> Path:
        return write_run_into(tmp_path / name, dialogues, **settings)

    return write


def thinking(messages: Sequence[Mapping[str, str]]) -> str:
    """A policy that thinks before it replies, now and then forgets the form that it was asked for, and writes markup."""
    reply = f"I am sorry that it went like this. What was the worst of it? {HOSTILE}"
    return reply if len(messages) % 3 == 0 else f"<think>They sound tired.\n\nI should ask.</think>{reply}"


@pytest.fixture(scope="session")
def every_run(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of every environment, of SAGE also as if by another user simulator, and of two trainings."""
    folder = tmp_path_factory.mktemp("runs")
    write_checkout(folder / "checkout")
    models: list[str | Callable[..., str]] = ["heartloop/counsellor", "heartloop/hostile", thinking]
    changed: dict[str, dict[str, Any]] = {
        "eqbench": {"scenarios": folder / "checkout", "limit": None},
        "sage": {"limit": 6, "options": {"form": "think"}},
    }
    for name in environment_names():
        heartloop.evaluate(
            name, models, user="embedded", out=folder / name, progress=False, **{"limit": 4, **changed.get(name, {})}
        )
    (folder / "sage-other").mkdir()
    for file in ("settings.json", "transcripts.jsonl"):
        text = (folder / "sage" / file).read_text(encoding="utf-8")
        (folder / "sage-other" / file).write_text(re.sub(r'"user": ?"embedded"', '"user":"x/sim"', text), encoding="utf-8")
    for variant in ("no_floor", "control"):
        training_run(folder / variant, variants=(variant,), data={"dialogue/failed": 1})
    trained = training_run(folder / "ppo", recipe="rlver_ppo_tiny", made=3)
    played = list(stored_transcripts(folder / "sage"))
    ends = {0: "heartloop/hostile", 3: "heartloop/counsellor"}
    write_held_out(trained, {step: [one for one in played if one.model == model] for step, model in ends.items()})
    return sorted(path.parent for path in folder.glob("*/settings.json"))


@pytest.fixture(scope="session")
def whole(every_run: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of all runs, with a comparison of two models."""
    (sage,) = (run for run in every_run if run.name == "sage")
    comparison = compare(*choose_sides(read_run(sage), None, "heartloop/counsellor", "heartloop/hostile"))
    return write_site(every_run, tmp_path_factory.mktemp("site"), comparison=comparison).parent


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a module: while it is open, no other event loop can run in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; it drives the browser")
    installed = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_api.sync_playwright() as play:
        chromium = installed or play.chromium.executable_path
        if not Path(chromium).exists():
            pytest.skip("no Chromium is installed; `make test-browser` installs one and looks at the report in it")
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of a phone's size; fails on any message of the browser and on any request to another place than the disk."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    problems: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert [text for text in problems if not any(note in text for note in _OF_THE_DRIVER)] == []
    assert all(url.startswith(("file:", "data:", "about:")) for url in asked)
