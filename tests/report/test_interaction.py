"""The report in a real browser, opened from disk: nothing breaks out, nothing is fetched, everything can be reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heartloop.core.dialogue import Call, Transcript
from heartloop.report.site import write_site
from tests.report.bench import bench_talk
from tests.report.browser import FAINT, quiet, view

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WriteRun = Callable[..., Path]


def test_the_report_works_in_a_browser(page: Page, dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    index = write_site([write_run(dialogues)], tmp_path / "site")
    with quiet(page):
        page.goto(index.as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        assert page.locator("#list .row").count() == 10
        assert "100" in page.locator("#list .row").first.inner_text()
        assert "unscored" in page.locator("#list .row").last.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

        # the hostile dialogue: shown as text, run by nobody
        page.select_option("#filters [name=model]", label="x/plain")
        page.select_option("#filters [name=sort]", "worst")
        page.locator("#list .row").first.press("Enter")
        page.wait_for_selector("dialog[open] .bubble")
        assert "</script><script>" in page.locator("dialog .bubble.reply").first.inner_text()
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert "▼ −5" in page.locator("dialog .felt").first.inner_text()
        assert "Empathy with the problem restated 80 %" in page.locator("dialog .signs").first.inner_text()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("dialog[open] :text('2 of 3')")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="hidden")

        # what was said is searched only when asked, and reads the chunks
        page.select_option("#filters [name=model]", "")
        page.fill("#filters [name=text]", "Reply 2 of x/good")
        page.wait_for_selector("#found:has-text('0 dialogues')")
        page.check("#filters [name=said]")
        page.wait_for_selector("#found:has-text('2 dialogues')")

        # a deep link, a silent turn, a folded talk, a failed one
        page.goto(index.as_uri() + "#dialogue-x-mute-s1")
        page.wait_for_selector("dialog[open] .bubble.silence")
        page.goto(index.as_uri() + "#dialogue-x-good-s3")
        page.wait_for_selector("dialog[open] details.care")
        assert not page.locator("dialog .bubble").first.is_visible()
        page.goto(index.as_uri() + "#dialogue-x-plain-s3")
        page.wait_for_selector("dialog[open] .banner.warning:has-text('AnswerError')")
        page.keyboard.press("Escape")

        # the small curves start where the person did
        assert page.locator("#list .row .spark-start").first.get_attribute("d") == "M2 23.4h92"  # 3 + 34 * (1 - 0.4)
        high = [dialogue.model_copy(update={"start": {"emotion": 60.0}}) for dialogue in dialogues]
        page.goto(write_site([write_run(high, "high")], tmp_path / "high-site").as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        assert page.locator("#list .row .spark-start").first.get_attribute("d") == "M2 16.6h92"
        page.goto(index.as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")

    # markup that did get in could still neither run a script nor ask the network
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        const image = new Image();
        image.src = "https://example.invalid/x.png";
        document.body.append(script, image);
    }""")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert len(problems) == 2
    assert all("Content Security Policy" in problem for problem in problems)


def test_everything_is_reached_by_the_keyboard(
    page: Page, dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    index = write_site([write_run(dialogues)], tmp_path / "site")
    page.goto(index.as_uri())
    page.wait_for_selector("#list .row", state="attached")

    def focused(expression: str) -> str:
        return str(page.evaluate(f"(() => {{ const e = document.activeElement; return {expression}; }})()"))

    # the skip link comes first and is seen; what is reached shows it
    page.keyboard.press("Tab")
    assert focused("e.textContent") == "Skip to the leaderboard"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Tab")
    assert focused("getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth") == "solid2px"
    unreached = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, summary, .box")]
            .filter((e) => e.checkVisibility() && e.tabIndex < 0).map((e) => e.outerHTML)"""
    )
    assert unreached == []

    # from the search down into the list, along it, and back
    view(page, "dialogues")
    page.focus("#filters [name=text]")
    page.keyboard.press("ArrowDown")
    assert focused("[...document.querySelectorAll('#list .row')].indexOf(e)") == "0"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert focused("[...document.querySelectorAll('#list .row')].indexOf(e)") == "1"
    page.keyboard.press("End")
    assert focused("[...document.querySelectorAll('#list .row')].indexOf(e)") == "9"
    page.keyboard.press("Home")
    address = focused("e.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] .bubble")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.wait_for_selector(f'#list .row[href="{address}"]:focus')  # where one was before
    page.wait_for_timeout(200)
    page.keyboard.press("Escape")
    assert focused("e.name") == "text"


@pytest.mark.parametrize(("width", "first"), [(390, 12), (1280, 40)])
def test_the_end_of_the_list_brings_more(
    page: Page, talk: Callable[..., Transcript], write_run: WriteRun, tmp_path: Path, width: int, first: int
) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(write_site([write_run([talk("m", f"s{n}", [5]) for n in range(60)])], tmp_path / "site").as_uri() + "#dialogues")
    page.wait_for_selector("#list .row")
    assert page.locator("#list .row").count() == first
    page.locator("#list .row").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    assert page.locator("#list .row").count() == min(60, 2 * first)
    assert page.evaluate("[...document.querySelectorAll('#list .row')].indexOf(document.activeElement)") == first


def test_the_other_pages_open_without_a_fault_and_fit_a_phone(
    page: Page, dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    long = {"x/good": "service/" + "very-long-name-" * 8}
    said = [d.model_copy(update={"model": long.get(d.model, d.model)}) for d in dialogues]
    other = [d.model_copy(update={"user": "x/sim"}) for d in said]
    site = write_site([write_run(said), write_run(other, "other", user="x/sim")], tmp_path / "site").parent
    for name in ("side-by-side", "settings"):
        with quiet(page):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_selector("h1")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    page.locator("summary:has-text('settings.json')").first.click()
    page.locator(".copy:visible").first.click()
    page.wait_for_selector("#copied:has-text('Copied'), #copied:has-text('Marked')")


def test_thinking_opens_on_demand_and_a_broken_format_is_marked(
    page: Page, talk: Callable[..., Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    said = ["<think>She is <b>hurt</b>.</think>Reply 0 of m.", "Reply 1 of m."]
    calls = [Call(role="policy", purpose="reply", turn=turn, text=text) for turn, text in enumerate(said)]
    site = write_site([write_run([talk("m", "s1", [5, 5], calls=calls, counts={"broken formats": 1})])], tmp_path / "site")
    with quiet(page):
        page.goto(site.as_uri() + "#dialogue-m-s1")
        thinking = page.locator("dialog[open] details.thinking")
        thinking.wait_for()
        assert (thinking.count(), thinking.get_attribute("open")) == (1, None)
        page.locator("dialog .copy:has-text('Unfold all details')").click()
        assert thinking.get_attribute("open") is None  # of its own
        thinking.locator("summary").click()
        assert "She is <b>hurt</b>." in thinking.inner_text()
        assert page.locator("dialog .bubble.reply").first.inner_text() == "Reply 0 of m."
        marks = page.locator("dialog .signs .flaw:has-text('broken format')")
        assert marks.count() == 1
        assert "think block" in str(marks.get_attribute("title"))
        assert page.evaluate(FAINT) == []


def test_paper_shows_what_is_folded(page: Page, dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    page.goto(write_site([write_run(dialogues)], tmp_path / "site").as_uri() + "#dialogues")
    page.wait_for_selector("#list .row")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.quiet:not([open])").count() == 0
    assert not page.locator("#filters").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#1d2228"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.quiet[open]").count() == 0


def _bench_site(write_run: WriteRun, folder: Path) -> Path:
    """Four scenes, two models, of which one gives itself away as hostile and long; a run unscored in part."""
    wild = "service/" + "very-long-name-" * 6 + "end"
    path = [(58.0, 32.0), (50.0, 33.0), (50.0, 34.0), (44.0, 41.0), (39.0, 50.0)]
    talks = [
        bench_talk(model, f"{scene}-{n}", path[: 2 + n] if model == "x/one" else [(70.0, 20.0), (90.0, 5.0)], scene=scene)
        for model in ("x/one", wild)
        for scene in ("charm", "defense", "repair", "support")
        for n in range(3)
    ]
    talks.append(bench_talk("x/one", "repair-9", [(50.0, 33.0)], scene="repair", failed=True))
    told = {
        "played": "Barış, new flatmate",
        "task": "Stay for breakfast.",
        "goal": "To find out <b>who</b> stays.",
        "limits": "None.",
    }
    talks = [talk.model_copy(update={"facts": {**talk.facts, **told}}) for talk in talks]
    run = write_run(talks, "bench", environment="eibench", preset="paper", variant="think", max_turns=8)
    return write_site([run], folder)


def test_a_page_of_eibench_opens_without_a_fault_and_fits_a_phone(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    index = _bench_site(write_run, tmp_path / "site")
    with quiet(page):
        page.goto(index.as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        assert page.locator("#list .row").count() == 12
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        # on a phone the scenes stand under each other, with the name of each
        view(page, "groups")
        scenes = page.locator("#groups [role=row]").nth(1)
        assert scenes.locator("[data-label]").count() == 5
        assert page.evaluate("(e) => e.scrollWidth <= e.clientWidth", page.locator("#groups .box").element_handle())
        view(page, "leaderboard")
        assert page.locator("#leaderboard .more-numbers:visible").first.inner_text().startswith("charm")
        assert page.locator("#planes svg.plane").count() == 2
        assert page.locator("svg[role=img]:not([aria-label])").count() == 0
        for name in ("tokens", "lengths"):
            view(page, name)
            assert page.locator(".plot .narrow-plot:visible").count() == 1
        view(page, "leaderboard")
        page.set_viewport_size({"width": 1280, "height": 900})
        assert page.locator(".board thead th:visible").all_inner_texts()[5:9] == ["Charm", "Defense", "Repair", "Support"]


def test_a_dialogue_of_eibench_leads_from_the_reply_to_the_anchors(page: Page, write_run: WriteRun, tmp_path: Path) -> None:
    with quiet(page):
        page.goto(_bench_site(write_run, tmp_path / "site").as_uri() + "#dialogues")
        page.wait_for_selector("#list .row")
        page.focus("#filters [name=text]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] svg.plane")
        sheet = page.locator("dialog")

        # the plane: start, success and failure by shape and word, the path numbered by turn, in room of its own
        plane = sheet.locator("svg.plane")
        assert (plane.locator(".ring").count(), plane.locator(".success").count(), plane.locator(".anchor").count()) == (1, 1, 1)
        words = plane.locator("text").all_text_contents()
        assert {"start", "success", "failure", "start 60", "success 20", "failure 100"} <= set(words)
        turns = plane.locator(".turn").all_text_contents()
        assert turns[0] == "4"  # the end is named first
        assert {"1", "2–3"} <= set(turns)  # two replies that moved it by one unit share a place
        boxes = [found.bounding_box() for found in plane.locator(".turn").all()]
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                assert one is not None
                assert other is not None
                apart = one["x"] >= other["x"] + other["width"] - 2 or other["x"] >= one["x"] + one["width"] - 2
                assert apart or one["y"] >= other["y"] + other["height"] - 4 or other["y"] >= one["y"] + one["height"] - 4

        # the table beside it adds up to the outcome
        cells = [line.locator("th, td").all_inner_texts() for line in sheet.locator(".axes tbody tr").all()]
        assert cells == [["negative emotion a", "100", "60", "20", "44", "+0.40"], ["relation t", "0", "30", "70", "41", "+0.28"]]
        assert sheet.locator(".axes p").first.inner_text() == "Outcome 33.8 = 100 × (50 % of +0.40 and 50 % of +0.28)"

        # each reply: whose it is, the reflection, then both axes with word and sign, and a gauge between the anchors
        assert sheet.locator(".speaker.right").first.inner_text() == "one as Barış · reply 1"
        reply = sheet.locator(".felt").first
        assert reply.locator("> *").evaluate_all("(all) => all.map((e) => e.className || e.tagName)") == ["moved", "DETAILS"]
        assert reply.locator(".change").all_inner_texts() == ["▼ −2 down, better", "▲ +2 up, better"]
        assert reply.locator(".gauge").first.get_attribute("aria-label") == (
            "axis score +0.05, before +0.00; failure at 100, start at 60, success at 20"
        )
        assert "<b>who</b>" in sheet.locator(".parts").inner_text()
        sheet.locator("button:has-text('Unfold all details')").press("Enter")
        assert sheet.locator(".felt details[open]").count() == 4
        assert page.evaluate("(() => { const d = document.querySelector('dialog'); return d.scrollWidth <= d.clientWidth; })()")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(FAINT) == [], scheme

        # a dialogue that failed still opens, and says why
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="hidden")
        page.select_option("#filters [name=stop]", "failed")
        page.locator("#list .row").first.press("Enter")
        page.wait_for_selector("dialog[open] .banner.warning:has-text('no continue')")


def test_a_chart_names_the_point_nearest_to_the_pointer(
    page: Page, talk: Callable[..., Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    index = write_site([write_run([talk("m", "s1", [10, 10]), talk("m", "s2", [10, 10])])], tmp_path / "site")
    page.set_viewport_size({"width": 1280, "height": 900})
    with quiet(page):
        page.emulate_media(reduced_motion="reduce")  # no smooth scrolling while the place of the point is asked for
        page.goto(index.as_uri() + "#tokens")
        box = page.locator("#tokens .wide-plot .point").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".tip:visible")
        name, mean, tokens = page.locator(".tip").inner_text().replace(": ", " at ").split(" at ")
        assert name == "m"
        assert [float(mean), float(tokens)] == pytest.approx([60, 100], abs=1)
        page.mouse.move(5, 5)
        assert not page.locator(".tip").is_visible()
