"""The report site as files: self-contained, escaped, small, and open to runs of any state."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Call, Transcript, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import printable
from heartloop.report.dialogues import dialogue_ids
from heartloop.report.site import write_site
from tests.report.sage_bench import HOSTILE, WriteRun, talk


def _data(path: Path) -> Any:
    """The value a data file hands to the page."""
    found = re.fullmatch(r'heartloop\.take\("\w+",(.*)\);\n', path.read_text(encoding="ascii"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


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


def test_thinking_stands_with_its_reply_and_a_reply_that_breaks_its_form_is_marked(write_run: WriteRun, tmp_path: Path) -> None:
    said = [("<think>She is hurt.</think>Reply 0 of m.", None), ("Reply 1 of m.", HOSTILE), ("Reply 2 of m.", None)]
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
    thought = ["She is hurt.", printable(HOSTILE).strip(), None]
    assert [[turn.get("thinking") for turn in three] for three in turns] == [thought, thought, [None] * 3]


def test_addresses_are_unique_even_for_names_that_look_alike() -> None:
    ids = dialogue_ids([talk("a/b", "s", [1]), talk("a-b", "s", [1]), talk("a/b", "s", [1], repeat=1), talk("漢字", "漢", [1])])
    assert len(set(ids)) == 4
    assert all(re.fullmatch(r"dialogue-[A-Za-z0-9.-]+", address) for address in ids)


def test_runs_that_do_not_compare_get_pages_of_their_own(write_run: WriteRun, tmp_path: Path) -> None:
    first = write_run([talk("a", "s1", [5])], "first", models=["a"], scenarios=["s1"])
    (first / "log.jsonl").write_text('{"started": "2025-11-20T23:40:00+00:00", "played": 1}\n')
    second = write_run([talk("b", "s1", [9])], "second", models=["b"], scenarios=["s1"])
    other = write_run([talk("c", "s1", [5], user="openai/x")], "other")
    site = write_site([first, second, other], tmp_path / "site")
    assert "<dd>2025-11-20</dd>" in site.read_text(encoding="utf-8")
    assert len(_data(site.parent / "data/1/list.js")["rows"]) == 2
    assert len(_data(site.parent / "data/2/list.js")["rows"]) == 1


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


def test_a_smaller_report_leaves_nothing_of_a_larger_one(write_run: WriteRun, tmp_path: Path) -> None:
    large = write_run([talk("m", f"s{n}", [5]) for n in range(50)], "large")
    small = write_run([talk("m", "s1", [5])], "small")
    write_site([large], tmp_path / "site")
    write_site([small], tmp_path / "site")
    assert sorted(path.name for path in (tmp_path / "site/data/1").iterdir()) == ["dialogues-0.js", "list.js"]


def test_two_thousand_dialogues_stay_quick_and_small(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([talk(f"x/m{n % 8}", f"s{n // 8}", [(n * k) % 7 - 3 for k in range(10)], theme=f"t{n}") for n in range(2000)])
    started = time.monotonic()
    site = write_site([run], tmp_path / "site")
    assert time.monotonic() - started < 30
    assert site.stat().st_size < 400_000
    assert (site.parent / "data/1/list.js").stat().st_size < 1_000_000
    assert max(path.stat().st_size for path in (site.parent / "data/1").glob("dialogues-*")) < 300_000


def test_a_watched_report_is_written_again_when_a_run_changes(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
