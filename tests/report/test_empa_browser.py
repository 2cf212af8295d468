"""EMPA's page in a real browser: pictures open and fit, the path keeps step with the talk, nothing a model wrote runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heartloop.report.site import write_site
from tests.report.browser import FAINT, quiet, view
from tests.report.empa_bench import EMPA, empa_talk, levels
from tests.report.test_empa_report import empa_talks

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WriteRun = Callable[..., Path]


def _long_site(write_run: WriteRun, hostile: str, folder: Path) -> Path:
    """Twelve turns that go there and back, with hostile words in all that was said and told."""
    forms = [levels(C=1), levels(A=-1), levels(C=1, P=1), levels()] * 3
    talk = empa_talk("x/long", "s0", forms, text=hostile, start=(-12.0, -9.0, -20.0))
    quoted = {"C.Prog": hostile, "P.Prog": "nowhere said", "A.Neg": hostile}
    turns = [
        turn.model_copy(update={"evidence": {**turn.evidence, "quotes": quoted}}) if turn.evidence else turn
        for turn in talk.turns
    ]
    return write_site([write_run([talk.model_copy(update={"turns": tuple(turns)})], "long", **EMPA)], folder)


def test_the_paths_in_space_are_loaded_when_opened_and_turned_by_the_keyboard(
    page: Page, write_run: WriteRun, tmp_path: Path
) -> None:
    with quiet(page) as asked:
        page.goto(write_site([write_run(empa_talks(), "empa", **EMPA)], tmp_path / "site").as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        view(page, "paths")
        assert not any(url.endswith("data/1/panel.js") for url in asked)
        page.locator("#space > summary").click()
        page.wait_for_selector("#space-plots svg .towards")
        assert page.locator("#space-plots figure").count() == 4
        line = page.locator("#space-plots .towards").first
        before = line.get_attribute("d")
        page.locator("#space-plots svg").first.focus()
        page.keyboard.press("ArrowRight")
        assert line.get_attribute("d") not in (before, "")
        page.select_option("#space-colour", "case")
        assert page.locator("#space-plots .spark-line").count() == 4  # a dialogue a difficulty
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.emulate_media(media="print")
        assert not page.locator("#space").is_visible()
        assert page.locator("#paths .panels.paths svg").first.is_visible()


def test_the_path_keeps_step_with_the_talk(page: Page, write_run: WriteRun, hostile: str, tmp_path: Path) -> None:
    with quiet(page):
        index = _long_site(write_run, hostile, tmp_path / "site")
        page.goto(index.as_uri() + "#dialogue-x-long-s0")
        page.wait_for_selector("dialog[open] .journey")
        sheet = page.locator("dialog")
        words = sheet.locator(".journey-words")
        assert words.inner_text() == "At the start: C −12, A −9, P −20"
        # by the slider, whose arrows do not turn to the next talk; C +1, then A -2, then C +1 and P +1
        slider = sheet.locator(".journey input")
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert words.inner_text().startswith("After reply 3 of 12: C −10, A −11, P −19, energy ")
        assert slider.get_attribute("aria-valuetext") == words.inner_text()
        gone = sheet.locator(".journey .spark-line").first.get_attribute("d")
        assert gone is not None
        assert gone.count("L") == 3
        assert sheet.locator(".journey .now").count() == 1
        # by reading on
        page.wait_for_timeout(500)
        sheet.evaluate("(dialog) => { dialog.scrollTop = dialog.scrollHeight; }")
        words.filter(has_text="After reply 12").wait_for()  # the page's policy forbids `wait_for_function`, which evaluates text
        assert sheet.locator(".journey").bounding_box()["y"] < 70  # type: ignore[index]


def test_evidence_stands_where_it_was_said_and_the_director_between(
    page: Page, write_run: WriteRun, hostile: str, tmp_path: Path
) -> None:
    with quiet(page):
        index = _long_site(write_run, hostile, tmp_path / "site")
        page.goto(index.as_uri() + "#dialogue-x-long-s0")
        page.wait_for_selector("dialog[open] .journey")
        sheet = page.locator("dialog")
        assert sheet.locator("mark.good .level").first.inner_text() == "C +1"
        assert sheet.locator("mark.bad .level").first.inner_text() == "A −1"
        assert "<img src=x" in sheet.locator("mark").first.inner_text()
        assert page.evaluate("window.hacked") is None
        first = sheet.locator(".judged").first
        assert first.locator(".change").all_inner_texts() == ["▲ +1", "= no change", "= no change"]
        assert first.locator(".energies").inner_text() == "energy +0.48 · alignment +0.48 · energy so far +0.5 of 25"
        third = sheet.locator(".judged").nth(2)
        assert "nowhere said (not found in the dialogue)" in third.locator(".claims").nth(2).inner_text().replace(
            "“", ""
        ).replace("”", "")
        act = sheet.locator(".act").first.inner_text()
        assert act.startswith("Director advise() advises, without new information")
        assert "to the user simulator: " in act
        assert sheet.locator(".act").count() == 12
        assert page.evaluate("(() => { const d = document.querySelector('dialog'); return d.scrollWidth <= d.clientWidth; })()")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
            assert page.evaluate(FAINT) == [], scheme


def test_two_paths_in_one_scene_are_followed_turn_by_turn(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    talks = [
        empa_talk("x/one", "s0", [levels(C=1)] * 4, start=(-12.0, -9.0, -20.0)),
        empa_talk("x/two", "s0", [levels(A=-1)] * 2, start=(-12.0, -9.0, -20.0)),
    ]
    with quiet(page):
        index = write_site([write_run(talks, "two", **EMPA)], tmp_path / "site")
        page.goto(index.as_uri() + "#pair?a=dialogue-x-one-s0&b=dialogue-x-two-s0")
        page.wait_for_selector("dialog[open].wide .pair-of-paths")
        paths = page.locator(".pair-of-paths svg.planes .whole")
        assert paths.count() == 4  # two models in two planes
        words = page.locator(".pair-of-paths .journey-words p")
        assert words.all_inner_texts() == [
            "After reply 4", "one: C −8, A −9, P −20", "two: C −12, A −13, P −20 (ended after reply 2)",
        ]  # fmt: skip
        page.locator(".pair-of-paths input").focus()
        page.keyboard.press("Home")
        assert words.all_inner_texts() == ["At the start", "one: C −12, A −9, P −20", "two: C −12, A −9, P −20"]
        assert page.evaluate("(() => { const d = document.querySelector('dialog'); return d.scrollWidth <= d.clientWidth; })()")
        # both dialogues stand turn by turn, the shorter one with its end
        assert page.locator(".together > .talk.side").count() == 2 * 4


def test_a_window_without_a_judgement_says_so(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    with quiet(page):
        index = write_site([write_run(empa_talks(), "empa", **EMPA)], tmp_path / "site")
        page.goto(index.as_uri() + "#dialogue-x-gap-s0")
        page.wait_for_selector("dialog[open] .journey")
        assert page.locator("dialog .judged").nth(1).inner_text().split("\n") == ["not judged", "excluded from all numbers"]
