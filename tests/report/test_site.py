"""The report site as files: self-contained, escaped, small, and open to runs of any state."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Call, Failure, Transcript, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import printable, script_json
from heartloop.report.dialogues import dialogue_ids
from heartloop.report.site import write_site

Talk = Callable[..., Transcript]
WriteRun = Callable[..., Path]


class _Elements(HTMLParser):
    """Every element with its attributes, and the ids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _data(path: Path) -> Any:
    """The value a data file hands to the page."""
    found = re.fullmatch(r'heartloop\.take\("\w+",(.*)\);\n', path.read_text(encoding="ascii"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_site_is_self_contained(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    index = write_site([write_run(dialogues)], tmp_path / "site")
    assert index == tmp_path / "site" / "index.html"
    for page in index.parent.glob("*.html"):
        for tag, attributes in _Elements(page.read_text(encoding="utf-8")).found:
            for name in ("src", "href", "action", "data", "poster", "srcset"):
                target = (attributes.get(name) or "").partition("#")[0]
                if target and not target.startswith("data:"):
                    assert (index.parent / target).is_file(), f"{page.name}: {tag} {name}={target}"
    style = (tmp_path / "site/assets/report.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    assert index.stat().st_size < 200_000


def test_hostile_text_never_becomes_markup(
    talk: Talk, hostile: str, write_run: WriteRun, tmp_path: Path, dialogues: list[Transcript]
) -> None:
    facts = dict.fromkeys(("intention", "intention_text", "theme", "title", "person", "place", "tags"), hostile)
    broken = Failure(role="user", kind="AnswerError", detail=hostile)
    log = {"started": hostile, "endpoints": {hostile: {"address": hostile, "retried": hostile, "dropped": {hostile: 1}}}}
    bad = [
        talk(hostile, "s1", [5], text=hostile, facts=facts),
        talk(hostile, hostile, [5], text=hostile, facts=facts, stop="failed", failure=broken),
    ]
    named = {"simulator": hostile, "date": hostile, "heartloop_version": hostile, hostile: hostile, "models": [hostile]}
    run = write_run([*dialogues, *bad], scenarios={hostile: hostile}, prices={hostile: {hostile: 1}}, **named)
    (run / "log.jsonl").write_text(json.dumps(log) + "\n", encoding="utf-8")
    site = write_site([run], tmp_path / "site")
    for page in site.parent.glob("*.html"):
        html = page.read_text(encoding="utf-8")
        elements = _Elements(html).found
        scripts = [attributes for tag, attributes in elements if tag == "script"]
        assert all(script.get("src") for script in scripts)
        assert len(scripts) == (6 if page == site else 2)
        assert not [tag for tag, attributes in elements if tag == "img" or any(name.startswith("on") for name in attributes)]
        assert "\x00" not in html
        assert "\u202e" not in html
        if page.name != "numbers.html":  # which holds no text of a run
            assert "{{ 7*7 }}" in html  # model text is a value, never a template
    for path in (site.parent / "data/1").iterdir():
        text = path.read_text(encoding="ascii")
        assert not re.search(r"[<>&]", text), path
    said = [turn["reply"] for path in sorted((site.parent / "data/1").glob("dialogues-*")) for d in _data(path)["dialogues"]
            for turn in d["turns"]]  # fmt: skip
    assert any("</script>" in reply and "␀" in reply for reply in said)


def test_script_json_reads_back_as_it_was() -> None:
    value = {"a": "</script><!-- & \u2028\u2029 é 🙂", "b": [1, 2.5, None]}
    assert json.loads(script_json(value)) == value
    assert script_json(value).isascii()


def test_every_dialogue_can_be_found_and_opened(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    site = write_site([write_run(dialogues)], tmp_path / "site")
    listing = _data(site.parent / "data/1/list.js")
    assert len(listing["rows"]) == 10
    assert len({row[0] for row in listing["rows"]}) == 10
    assert listing["rows"][0][:7] == ["dialogue-x-good-s1", 0, 0, 0, "success", 100.0, [40, 50, 60, 70, 80, 90, 100]]
    assert listing["rows"][2][6] == [40, 45]  # the unjudged reply adds no value
    assert listing["scenarios"][2]["heavy"] is True
    assert listing["scenarios"][1]["tags"] == ["death", "illness"]
    assert listing["strategies"]["B-2"][1] == "Emotional empathy"
    chunk = _data(site.parent / "data/1/dialogues-0.js")["dialogues"]
    assert chunk[0]["turns"][0]["evidence"]["strategies"] == {"B-2": 0.8, "Z-9": 0.4}
    assert chunk[5]["failure"]["kind"] == "AnswerError"
    assert chunk[6]["turns"][0]["silent"] is True
    html = site.read_text(encoding="utf-8")
    for address in re.findall(r'class="pick" href="#([^"]+)"', html):
        assert address in {row[0] for row in listing["rows"]}


def test_thinking_stands_with_its_reply_and_a_reply_that_breaks_its_form_is_marked(
    talk: Talk, hostile: str, write_run: WriteRun, tmp_path: Path
) -> None:
    said = [("<think>She is hurt.</think>Reply 0 of m.", None), ("Reply 1 of m.", hostile), ("Reply 2 of m.", None)]
    calls = [
        Call(role="policy", purpose="reply", turn=turn, text=text, reasoning=reasoning)
        for turn, (text, reasoning) in enumerate(said)
    ]
    asked = talk("m", "s1", [5, 5, 5], calls=calls, counts={"broken formats": 1})
    free = talk("m", "s2", [5, 5, 5], calls=calls)
    imported = talk("m", "s3", [5, 5, 5], counts={"broken formats": 1})  # without calls it is not known which
    site = write_site([write_run([asked, free, imported])], tmp_path / "site")
    chunk = _data(site.parent / "data/1/dialogues-0.js")["dialogues"]
    turns = [dialogue["turns"] for dialogue in chunk]
    assert [[turn.get("broken", False) for turn in three] for three in turns] == [[False, False, True], [False] * 3, [False] * 3]
    thought = ["She is hurt.", printable(hostile).strip(), None]
    assert [[turn.get("thinking") for turn in three] for three in turns] == [thought, thought, [None] * 3]


def test_every_ranked_row_has_its_group_as_a_letter_and_the_page_explains_it(
    dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    site = write_site([write_run(dialogues)], tmp_path / "site")
    html = site.read_text(encoding="utf-8")
    assert re.findall(r'data-label="group">(.*?)</td>', html) == [
        "A",
        "A",
        "A",
        "–",
    ]  # two scenarios tell nobody apart; failure case
    assert 'id="group"' in (site.parent / "numbers.html").read_text(encoding="utf-8")


def test_other_bounds_are_named_where_they_count(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    html = write_site([write_run(dialogues, success_at=70.0, failure_below=20.0)], tmp_path / "site").read_text(encoding="utf-8")
    assert "Reached 70" in html
    assert "Fell below 20" in html


def test_addresses_are_unique_even_for_names_that_look_alike(talk: Talk) -> None:
    ids = dialogue_ids([talk("a/b", "s", [1]), talk("a-b", "s", [1]), talk("a/b", "s", [1], repeat=1), talk("漢字", "漢", [1])])
    assert len(set(ids)) == 4
    assert all(re.fullmatch(r"dialogue-[A-Za-z0-9.-]+", address) for address in ids)


def test_the_embedded_user_is_said_on_the_face(
    dialogues: list[Transcript], talk: Talk, write_run: WriteRun, tmp_path: Path
) -> None:
    html = write_site([write_run(dialogues)], tmp_path / "one").read_text(encoding="utf-8")
    assert "a learned stand-in (embedded)" in html
    for user, said in (("embedded", True), ("openai/x", False)):
        run = write_run([talk("m", "s1", [5], user=user)], user.replace("/", "-"), user=user)
        html = write_site([run], tmp_path / f"site-{said}").read_text(encoding="utf-8")
        assert (f"a learned stand-in ({user})" in html) is ("a learned stand-in" in html) is said


def test_runs_that_do_not_compare_get_pages_of_their_own(talk: Talk, write_run: WriteRun, tmp_path: Path) -> None:
    first = write_run([talk("a", "s1", [5])], "first", models=["a"], scenarios=["s1"])
    (first / "log.jsonl").write_text('{"started": "2025-11-20T23:40:00+00:00", "played": 1}\n')
    second = write_run([talk("b", "s1", [9])], "second", models=["b"], scenarios=["s1"])
    other = write_run([talk("c", "s1", [5], user="openai/x")], "other")
    site = write_site([first, second, other], tmp_path / "site")
    html = site.read_text(encoding="utf-8")
    assert "measurement-2.html" in html
    assert "<dd>2025-11-20</dd>" in html
    assert "2 models, each evaluated on the same 1 scenario" in html
    assert len(_data(site.parent / "data/1/list.js")["rows"]) == 2
    assert len(_data(site.parent / "data/2/list.js")["rows"]) == 1


def test_an_empty_run_opens_and_says_so(write_run: WriteRun, tmp_path: Path) -> None:
    html = write_site([write_run([], models=["m"], scenarios=["s1"])], tmp_path / "site").read_text(encoding="utf-8")
    assert "No dialogue has been played" in html
    assert "nothing to rank" in html


def test_an_unscored_run_opens_and_says_why(talk: Talk, write_run: WriteRun, tmp_path: Path) -> None:
    broken = Failure(role="user", kind="TransportError", detail="timeout after 60 s")
    run = write_run([talk("m", s, [], stop="failed", failure=broken) for s in ("s1", "s2")])
    html = write_site([run], tmp_path / "site").read_text(encoding="utf-8")
    assert "2 of 2 dialogues (100%) are unscored" in html
    assert "user: TransportError 2" in html


def test_bad_input_is_named(tmp_path: Path, write_run: WriteRun) -> None:
    with pytest.raises(UseError, match="no run directory was given"):
        write_site([], tmp_path / "site")
    with pytest.raises(InputError, match="is no run directory"):
        write_site([tmp_path], tmp_path / "site")
    run = write_run([])
    (run / "settings.json").write_text("[1]")
    with pytest.raises(InputError, match="holds list; expected a JSON object"):
        write_site([run], tmp_path / "site")
    (run / "settings.json").write_text("{}")
    with pytest.raises(UseError, match="environment"):
        write_site([run], tmp_path / "site")
    (run / "settings.json").write_text('{"environment": "sage"}')
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the report"):
        write_site([run], tmp_path / "file")


def test_a_smaller_report_leaves_nothing_of_a_larger_one(talk: Talk, write_run: WriteRun, tmp_path: Path) -> None:
    large = write_run([talk("m", f"s{n}", [5]) for n in range(50)], "large")
    small = write_run([talk("m", "s1", [5])], "small")
    write_site([large], tmp_path / "site")
    write_site([small], tmp_path / "site")
    assert sorted(path.name for path in (tmp_path / "site/data/1").iterdir()) == ["dialogues-0.js", "list.js"]


def test_two_thousand_dialogues_stay_quick_and_small(talk: Talk, write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([talk(f"x/m{n % 8}", f"s{n // 8}", [(n * k) % 7 - 3 for k in range(10)], theme=f"t{n}") for n in range(2000)])
    started = time.monotonic()
    site = write_site([run], tmp_path / "site")
    assert time.monotonic() - started < 30
    assert site.stat().st_size < 400_000
    assert (site.parent / "data/1/list.js").stat().st_size < 1_000_000
    assert max(path.stat().st_size for path in (site.parent / "data/1").glob("dialogues-*")) < 300_000


def test_a_watched_report_is_written_again_when_a_run_changes(
    talk: Talk, write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, pages = write_run([talk("m", "s1", [5])]), []

    def sleep(_: float) -> None:
        """First the run grows by a whole line, then by half of one; then Ctrl-C."""
        pages.append((run / "report/index.html").read_text(encoding="utf-8"))
        with (run / "transcripts.jsonl").open("a", encoding="utf-8") as file:
            file.write(write_line(talk("m", "s2", [5])) if len(pages) == 1 else '{"half')
        if len(pages) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert CliRunner().invoke(app, ["report", str(run), "--watch"]).exit_code == 0
    assert ["on 1 scenario." in page for page in pages] == [True, False, False]
    assert all('data-reload="5"' in page for page in pages)
    assert "data-reload" not in (run / "report/index.html").read_text(encoding="utf-8")
