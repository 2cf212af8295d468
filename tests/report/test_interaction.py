"""What a reader does in a report, in a real browser that opens it from disk: nothing runs or is fetched, all can be reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.site import write_site
from tests.report.talks import EMPA, HOSTILE, PERM, bench_talk, empa_talk, levels, perm_talk, sage_talks, talk, write_run_into
from tests.report.test_empa_report import empa_talks
from tests.report.test_perm_report import SHOWY, perm_talks

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SAGE, EIBENCH, EMPA_PAGE, PERM_PAGE = ("index", *(f"measurement-{number}" for number in range(2, 5)))
TALL = 12_000
"""Pixels that a page of seven models may take on a phone."""


def eibench_talks() -> list[Transcript]:
    """Four scenes, two models, of which one has a long name; a dialogue unscored."""
    wild = "service/" + "very-long-name-" * 6 + "end"
    path = [(58.0, 32.0), (50.0, 33.0), (50.0, 34.0), (44.0, 41.0), (39.0, 50.0)]
    talks = [
        bench_talk(model, f"{scene}-{n}", path[: 2 + n] if model == "x/one" else [(70.0, 20.0), (90.0, 5.0)], scene=scene)
        for model in ("x/one", wild)
        for scene in ("charm", "defense", "repair", "support")
        for n in range(3)
    ]
    told = {"played": "Barış, new flatmate", "task": "Stay.", "goal": "To find out <b>who</b> stays.", "limits": "None."}
    return [one.model_copy(update={"facts": {**one.facts, **told}}) for one in talks]


def long_empa_talk() -> Transcript:
    """Twelve turns that go there and back, with hostile words in all that was written."""
    forms = [levels(C=1), levels(A=-1), levels(C=1, P=1), levels()] * 3
    one = empa_talk("x/long", "s0", forms, text=HOSTILE, start=(-12.0, -9.0, -20.0))
    quoted = {"C.Prog": HOSTILE, "P.Prog": "nowhere said", "A.Neg": HOSTILE}
    turns = [turn.model_copy(update={"evidence": {**turn.evidence, "quotes": quoted}}) for turn in one.turns]
    return one.model_copy(update={"turns": tuple(turns)})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report."""
    folder = tmp_path_factory.mktemp("interaction")
    wild = perm_talk("x/wild", "s1", SHOWY, text=HOSTILE, seen={"expression": {HOSTILE: [HOSTILE]}})
    runs = [
        write_run_into(folder / "sage", sage_talks()),
        write_run_into(folder / "eibench", eibench_talks(), environment="eibench", preset="paper", variant="think"),
        write_run_into(folder / "empa", [*empa_talks(), long_empa_talk()], **EMPA),
        write_run_into(folder / "perm", [*perm_talks(), wild], **PERM),
    ]
    return write_site(runs, folder / "site").parent.as_uri()


def open_page(page: Page, site: str, name: str, fragment: str = "dialogues") -> None:
    page.goto("about:blank")
    page.goto(f"{site}/{name}.html#{fragment}")
    page.wait_for_selector("dialog[open] .bubble" if fragment.startswith("dialogue-") else "#list .row", state="attached")


def write_one(folder: Path, talks: list[Transcript], **settings: str) -> str:
    return write_site([write_run_into(folder / "run", talks, **settings)], folder / "site").as_uri()


def view(page: Page, name: str) -> None:
    """Goes to a view of the open page by its address."""
    page.evaluate("(name) => { window.location.hash = name; }", name)
    page.wait_for_selector(f"#{name}", state="visible")


def fits(page: Page) -> bool:
    """Whether neither the page nor an open dialogue scrolls sideways."""
    wide = "(e) => e.scrollWidth <= Math.max(e.clientWidth, 390)"
    return bool(page.evaluate(f"[document.documentElement, ...document.querySelectorAll('dialog[open]')].every({wide})"))


def test_dialogues_are_found_opened_and_read(page: Page, site: str) -> None:
    open_page(page, site, SAGE)
    assert page.locator("#list .row").count() == 10
    assert "100" in page.locator("#list .row").first.inner_text()
    assert "unscored" in page.locator("#list .row").last.inner_text()
    assert fits(page)

    # the hostile dialogue is text, and runs nothing
    page.select_option("#filters [name=model]", label="x/plain")
    page.select_option("#filters [name=sort]", "worst")
    page.locator("#list .row").first.press("Enter")
    page.wait_for_selector("dialog[open] .bubble")
    assert "</script><script>" in page.locator("dialog .bubble.reply").first.inner_text()
    assert page.evaluate("window.hacked") is None
    assert fits(page)
    assert "▼ −5" in page.locator("dialog .felt").first.inner_text()
    assert "Empathy with the problem restated 80 %" in page.locator("dialog .signs").first.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("dialog[open] :text('2 of 3')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")

    # replies are searched only when asked, and that reads the chunks
    page.select_option("#filters [name=model]", "")
    page.fill("#filters [name=text]", "Reply 2 of x/good")
    page.wait_for_selector("#found:has-text('0 dialogues')")
    page.check("#filters [name=said]")
    page.wait_for_selector("#found:has-text('2 dialogues')")

    failed = ".banner.warning:has-text('The user failed: change is')"
    for address, expected in [("x-mute-s1", ".bubble.silence"), ("x-good-s3", "details.care"), ("x-plain-s3", failed)]:
        page.goto(f"{site}/{SAGE}.html#dialogue-{address}")
        page.wait_for_selector(f"dialog[open] {expected}")
    page.keyboard.press("Escape")
    assert page.locator("#list .row .spark-start").first.get_attribute("d") == "M2 23.4h92"  # 3 + 34 * (1 - 0.4)


def test_markup_that_got_in_could_neither_run_nor_ask_the_network(browser: Browser, site: str) -> None:
    page = browser.new_page()
    open_page(page, site, SAGE)
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
    page.close()


def test_everything_is_reached_by_the_keyboard(page: Page, site: str) -> None:
    page.goto(f"{site}/{SAGE}.html")
    page.wait_for_selector("#list .row", state="attached")

    def focused(expression: str) -> str:
        return str(page.evaluate(f"(() => {{ const e = document.activeElement; return {expression}; }})()"))

    # the skip link comes first and is seen; what is reached shows it
    page.keyboard.press("Tab")
    assert focused("e.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Tab")
    assert focused("getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth") == "solid2px"
    unreached = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, summary, .box")]
            .filter((e) => e.checkVisibility() && e.tabIndex < 0).map((e) => e.outerHTML)"""
    )
    assert unreached == []

    # from the search down into the list, along it, and back
    row = "[...document.querySelectorAll('#list .row')].indexOf(e)"
    view(page, "dialogues")
    page.focus("#filters [name=text]")
    for key, place in [("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 9), ("Home", 0)]:
        page.keyboard.press(key)
        assert focused(row) == str(place), key
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
def test_the_end_of_the_list_brings_more(page: Page, tmp_path: Path, width: int, first: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(write_one(tmp_path, [talk("m", f"s{n}", [5]) for n in range(60)]) + "#dialogues")
    page.wait_for_selector("#list .row")
    assert page.locator("#list .row").count() == first
    page.locator("#list .row").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    assert page.locator("#list .row").count() == min(60, 2 * first)
    assert page.evaluate("[...document.querySelectorAll('#list .row')].indexOf(document.activeElement)") == first


def test_a_choice_stands_in_the_address_and_an_address_opens_it_again(page: Page, site: str) -> None:
    page.goto(f"{site}/{SAGE}.html")
    # a row leads to its model, the model to its dialogues, one of them to the same scenario with another model
    page.locator(".board a.to-model").first.click()
    page.wait_for_selector("#model-x-good", state="visible")
    page.locator("#model-x-good .chips a", has_text="listen").click()
    page.wait_for_selector("#found:has-text('2 dialogues')")
    page.select_option("#filters [name=sort]", "scenario")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#found:has-text('2 dialogues')")
    assert page.locator("#filters [name=sort]").input_value() == "scenario"
    page.locator("#list .row").first.click()
    page.wait_for_selector("dialog[open] .bubble")
    page.locator("dialog .beside-link").first.click()
    page.wait_for_selector("dialog[open].wide .together")
    assert fits(page)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    # a cell of the groups leads to its dialogues
    view(page, "groups")
    page.locator("#groups .heat td a").first.click()
    page.wait_for_selector("#list .row")
    assert page.locator("#filters [name=group]").input_value() != ""


def test_the_leaderboard_is_sorted_on_a_phone_and_by_its_headings(page: Page, tmp_path: Path) -> None:
    page.goto(write_one(tmp_path, sage_talks()))
    names, way = page.locator(".board tbody.ranked .short"), page.locator(".sort-by button")
    assert page.locator("#example").bounding_box()["y"] < 500 < page.viewport_size["height"]  # type: ignore[index]  # on the first screen
    ranked = names.all_inner_texts()
    assert (ranked, way.is_visible()) == (["good", "plain", "mute"], False)
    page.select_option(".sort-by select", "silences")
    assert names.all_inner_texts()[0] == "mute"  # a number: the highest first
    way.click()
    assert names.all_inner_texts()[-1] == "mute"
    assert page.url.endswith("#leaderboard?sort=silences")
    page.select_option(".sort-by select", label="as ranked")
    assert names.all_inner_texts() == ranked
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator(".board thead .sort").first.click()
    page.wait_for_selector(".board th[aria-sort]")


def test_a_line_of_a_chart_opens_its_dialogue(page: Page, tmp_path: Path) -> None:
    page.goto(write_one(tmp_path, [talk("m", "low", [-10, -10]), talk("m", "high", [10, 10])]))
    chart = page.locator("#trajectories svg.courses")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    # two of ten turns across 270 of 330 units from 26; 60 points of 100 over 150 of 184 units from 10
    page.mouse.click(box["x"] + box["width"] * (26 + 54) / 330, box["y"] + box["height"] * (10 + 60) / 184)
    page.wait_for_selector("dialog[open] :text('The title of high')")


def test_a_chart_names_the_point_nearest_to_the_pointer(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(reduced_motion="reduce")  # no smooth scrolling while the place of the point is asked for
    page.goto(write_one(tmp_path, [talk("m", "s1", [10, 10]), talk("m", "s2", [10, 10])]) + "#tokens")
    box = page.locator("#tokens .wide-plot .point").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".tip:visible")
    name, mean, tokens = page.locator(".tip").inner_text().replace(": ", " at ").split(" at ")
    assert name == "m"
    assert [float(mean), float(tokens)] == pytest.approx([60, 100], abs=1)
    page.mouse.move(5, 5)
    assert not page.locator(".tip").is_visible()


def test_a_ninth_model_is_grey_until_it_is_chosen(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(write_one(tmp_path, [talk(f"m{n}", "s", [n]) for n in range(10)]))
    page.wait_for_selector(".choose")
    inks = "[...document.querySelectorAll('.board .swatch')].map((e) => getComputedStyle(e).backgroundColor)"
    before = page.evaluate(inks)
    assert len(set(before)) == 9
    page.locator(".choose").last.click()
    after = page.evaluate(inks)
    assert (after[9], after[7]) == (before[7], before[9])


def test_a_dialogue_of_eibench_leads_from_the_reply_to_the_anchors(page: Page, site: str) -> None:
    open_page(page, site, EIBENCH, "dialogue-x-one-charm-2")
    sheet = page.locator("dialog")

    # the plane: start, success and failure by shape and word, the path numbered by turn
    plane = sheet.locator("svg.plane")
    assert (plane.locator(".ring").count(), plane.locator(".success").count(), plane.locator(".anchor").count()) == (1, 1, 1)
    turns = plane.locator(".turn").all_text_contents()
    sheet.get_by_text("About this scenario").click()
    assert turns[0] == "4"  # the end is named first
    assert {"1", "2–3"} <= set(turns)  # two replies that moved it by one unit share a place

    # the table adds up to the outcome
    cells = [line.locator("th, td").all_inner_texts() for line in sheet.locator(".axes tbody tr").all()]
    assert cells == [["negative emotion a", "100", "60", "20", "44", "+0.40"], ["relation t", "0", "30", "70", "41", "+0.28"]]

    changes = sheet.locator(".felt").first.locator(".change")
    assert changes.all_inner_texts() == ["▼ −2 down, better", "▲ +2 up, better"]
    assert "<b>who</b>" in sheet.locator(".parts").inner_text()
    sheet.locator("button:has-text('Unfold all details')").press("Enter")
    assert sheet.locator(".felt details[open]").count() == 4
    assert fits(page)


def test_the_paths_in_space_are_loaded_when_opened_and_turned_by_the_keyboard(page: Page, site: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_page(page, site, EMPA_PAGE)
    view(page, "paths")
    assert not any(url.endswith("panel.js") for url in asked)
    page.locator("#space > summary").click()
    page.wait_for_selector("#space-plots svg .towards")
    assert page.locator("#space-plots figure").count() == 4
    line = page.locator("#space-plots .towards").first
    before = line.get_attribute("d")
    page.locator("#space-plots svg").first.focus()
    page.keyboard.press("ArrowRight")
    assert line.get_attribute("d") not in (before, "")
    assert fits(page)
    page.emulate_media(media="print")
    assert not page.locator("#space").is_visible()
    assert page.locator("#paths .panels.paths svg").first.is_visible()


def test_the_path_keeps_step_with_the_dialogue(page: Page, site: str) -> None:
    open_page(page, site, EMPA_PAGE, "dialogue-x-long-s0")
    page.wait_for_selector("dialog[open] .journey")
    sheet = page.locator("dialog")
    words = sheet.locator(".journey-words")
    assert words.inner_text() == "At the start: C −12, A −9, P −20"
    slider = sheet.locator(".journey input")  # its arrows do not turn to the next dialogue
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert words.inner_text().startswith("After reply 3 of 12: C −10, A −11, P −19, energy ")
    assert slider.get_attribute("aria-valuetext") == words.inner_text()
    # the judge's levels at the words they quote, and the director between the turns
    assert sheet.locator("mark.good .level").first.inner_text() == "C +1"
    assert sheet.locator("mark.bad .level").first.inner_text() == "A −1"
    first, third = sheet.locator(".judged").first, sheet.locator(".judged").nth(2)
    assert first.locator(".change").all_inner_texts() == ["▲ +1", "= no change", "= no change"]
    assert "not found in the dialogue" in third.locator(".claims").nth(2).inner_text()
    assert sheet.locator(".act").count() == 12
    assert page.evaluate("window.hacked") is None
    assert fits(page)


def test_seven_models_are_no_endless_page_on_a_phone_and_paper_shows_all(page: Page, tmp_path: Path) -> None:
    facts = [{"axis": "CAP"[n % 3], "domain": ("health", "career", "leisure")[n % 3]} for n in range(12)]
    forms = [levels(C=1), levels(A=-1)] * 3
    talks = [empa_talk(f"x/m{n}", f"s{place}", forms, facts=fact) for n in range(7) for place, fact in enumerate(facts)]
    page.goto(write_one(tmp_path, talks, **EMPA) + "#dialogues")
    page.wait_for_selector("#list .row")
    assert page.evaluate("document.documentElement.scrollHeight") < TALL
    view(page, "components")
    table = page.locator("#components table").first
    assert not table.is_visible()
    page.emulate_media(media="print")  # without the event of printing: the style alone unfolds
    assert table.is_visible()
    assert page.locator("main table:visible").count() == page.locator("main table").count()


def test_an_answer_is_read_in_parts_and_hostile_words_stay_words(page: Page, site: str) -> None:
    open_page(page, site, PERM_PAGE, "dialogue-x-wild-s1")
    page.wait_for_selector("dialog[open] .judges")
    sheet = page.locator("dialog")
    assert sheet.locator(".speaker").all_inner_texts() == ["Ana", "wild · analysis", "wild · response"]
    assert "<img src=x" in sheet.locator(".bubble.analysis mark").first.inner_text()
    assert sheet.locator(".bubble.analysis mark.bad").count() == 1  # a low grade
    levels = sheet.locator(".bubble .level").all_inner_texts()
    assert levels == ["resonation 1", "expression 5", "reception 5", "bystander 60"]
    assert sheet.locator(".marks dd b").all_inner_texts() == ["12"] * 5
    assert sheet.locator(".sum dd").last.inner_text() == "0.429 − 0.200 + 0.000 = 0.229"
    sheet.get_by_text("Unfold all details").click()
    assert page.evaluate("window.hacked") is None
    assert fits(page)
    open_page(page, site, PERM_PAGE, "dialogue-x-showy-s3")
    assert sheet.locator(".judge").count() == 0
    assert "Invalid form" in sheet.locator(".banner").inner_text()
