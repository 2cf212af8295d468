"""PERM's page in a real browser: it fits, folds on a phone and unfolds on paper, and nothing a model or a judge wrote runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heartloop.report.site import write_site
from tests.report.browser import FAINT, quiet, view
from tests.report.empa_bench import EMPA, empa_talk, levels
from tests.report.perm_bench import PERM, perm_talk
from tests.report.test_perm_report import EVEN, SHOWY, perm_talks

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WriteRun = Callable[..., Path]
TALL = 12_000
"""Pixels that a page of seven models may take on a phone."""


@pytest.mark.parametrize("environment", ["perm", "empa"])
def test_seven_models_are_no_endless_page_on_a_phone_and_paper_shows_all(
    page: Page, write_run: WriteRun, tmp_path: Path, environment: str
) -> None:
    names, people = [f"x/m{n}" for n in range(7)], [f"s{n}" for n in range(12)]
    if environment == "perm":
        run = write_run([perm_talk(name, s, (1 + n % 5, 3, 3, 50)) for n, name in enumerate(names) for s in people], **PERM)
    else:
        facts = {f"s{n}": {"axis": "CAP"[n % 3], "domain": ("health", "career", "leisure")[n % 3]} for n in range(12)}
        forms = [levels(C=1), levels(A=-1)] * 3
        run = write_run([empa_talk(name, s, forms, facts=facts[s]) for name in names for s in people], **EMPA)
    index = write_site([run], tmp_path / "site")
    with quiet(page):
        page.goto(index.as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        assert page.evaluate("document.documentElement.scrollHeight") < TALL
        view(page, "components")
        table = page.locator("#components table").first
        assert not table.is_visible()
        page.emulate_media(media="print")  # without the event of printing: the style alone unfolds
        assert table.is_visible()
        assert page.locator("main table:visible").count() == page.locator("main table").count()


def test_an_answer_opened_is_read_in_parts_and_hostile_words_stay_words(
    page: Page, write_run: WriteRun, hostile: str, tmp_path: Path
) -> None:
    talks = [perm_talk("x/a", "s1", SHOWY, text=hostile, seen={"expression": {hostile: [hostile]}}), perm_talk("x/a", "s2", EVEN)]
    with quiet(page):
        index = write_site([write_run(talks, **PERM)], tmp_path / "site")
        page.goto(index.as_uri() + "#dialogue-x-a-s1")
        page.wait_for_selector("dialog[open] .judges")
        sheet = page.locator("dialog")
        assert sheet.locator(".speaker").all_inner_texts() == ["Ana", "a · analysis", "a · response"]
        assert "<img src=x" in sheet.locator(".bubble.analysis mark").first.inner_text()
        assert sheet.locator(".bubble.analysis .level").inner_text() == "resonation 1"
        assert sheet.locator(".bubble.analysis mark.bad").count() == 1  # a low grade
        assert sheet.locator(".bubble.reply:not(.analysis) .level").all_inner_texts() == [
            "expression 5", "reception 5", "bystander 60",
        ]  # fmt: skip
        assert sheet.locator(".grade strong").all_inner_texts() == ["1", "5", "5", "60"]
        assert sheet.locator(".marks dd b").all_inner_texts() == ["12"] * 5
        assert sheet.locator(".sum dd").last.inner_text() == "0.429 − 0.200 + 0.000 = 0.229"
        sheet.get_by_text("Unfold all details").click()
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("(() => { const d = document.querySelector('dialog'); return d.scrollWidth <= d.clientWidth; })()")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
            assert page.evaluate(FAINT) == [], scheme


def test_broken_and_unscored_answers_say_so(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    with quiet(page):
        index = write_site([write_run(perm_talks(), **PERM)], tmp_path / "site")
        page.goto(index.as_uri() + "#dialogue-x-showy-s3")
        page.wait_for_selector("dialog[open] .sum")
        sheet = page.locator("dialog")
        assert sheet.locator(".banner").inner_text() == "Invalid form: no line is `# Analysis`."
        assert sheet.locator(".judge").count() == 0
        page.goto(index.as_uri() + "#dialogue-x-third-s3")
        page.wait_for_selector("dialog[open] .banner:has-text('Unscored.')")
        assert "reception judge failed" in sheet.locator(".banner").inner_text()


def test_without_script_the_folded_parts_open(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    index = write_site([write_run(perm_talks(), **PERM)], tmp_path / "site")
    context = page.context.browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})  # type: ignore[union-attr]
    bare = context.new_page()
    bare.goto(index.as_uri())
    assert not bare.locator("#ablation table").first.is_visible()
    bare.locator("#ablation summary").first.click()
    assert bare.locator("#ablation table").first.is_visible()
    context.close()
