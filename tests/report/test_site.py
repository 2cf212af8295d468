"""The report of one or several runs as files: what shares a page, escaped, small, and open to runs of any state."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Call, Sampling, Transcript, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import printable
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import read_run, runs_in, stored_transcripts
from heartloop.report.page import dialogue_ids
from heartloop.report.site import dialogue_list, write_site
from tests.report.talks import HOSTILE, WriteRun, pages_of_runs, talk


def _data(path: Path) -> Any:
    """The value a data file hands to the page."""
    found = re.fullmatch(r'heartloop\.take\("\w+",(.*)\);\n', path.read_text(encoding="ascii"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_every_dialogue_can_be_found_and_opened(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> None:
    site = write_site([write_run(dialogues)], tmp_path / "site")
    listing = _data(site.parent / "data/1/list.js")
    assert len({row[0] for row in listing["rows"]}) == len(listing["rows"]) == 10
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
    runs = [write_run([talk(name, "s1", [5])], name, models=[name], scenarios=["s1"]) for name in ("first", "second")]
    (runs[0] / "log.jsonl").write_text('{"started": "2025-11-20T23:40:00+00:00", "played": 1}\n')
    site = write_site([*runs, write_run([talk("c", "s1", [5], user="openai/x")], "other")], tmp_path / "site")
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
    with pytest.raises(UseError, match="cannot write the report"):
        write_site([run], tmp_path / "file")


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
    assert ["on 1 scenario:" in page for page in pages] == [True, False, False]
    assert all('data-reload="5"' in page for page in pages)
    assert "data-reload" not in (run / "report/index.html").read_text(encoding="utf-8")


def test_a_report_of_several_runs_names_them_and_which_are_unfinished(write_run: WriteRun) -> None:
    planned = {"scenarios": ["s1", "s2"]}
    whole = write_run([talk("a", "s1", [5]), talk("a", "s2", [5])], "whole", models=["a"], **planned)
    part = write_run([talk("b", "s1", [5])], "part", models=["b"], **planned)
    (page,) = pages_of_runs(whole, part)
    assert dict(page.facts)["Runs"] == "whole, part"
    assert [note for note in page.notes if "unfinished" in note] == ["part is unfinished: 1 of 2 dialogues is missing."]
    (alone,) = pages_of_runs(part)
    assert [note for note in alone.notes if "unfinished" in note] == ["The run is unfinished: 1 of 2 dialogues is missing."]


@pytest.mark.parametrize(
    ("change", "pages"),
    [
        ({"seed": 7}, 1),
        ({"sampling": {"policy": Sampling(temperature=0.2)}}, 2),
        ({"facts": {"family": "chat"}}, 2),
        ({"start": {"emotion": 60.0}}, 2),
        ({"prompts": {"feel": "another"}}, 2),
    ],
)
def test_what_decides_a_score_decides_the_page(write_run: WriteRun, change: dict[str, Any], pages: int) -> None:
    first = talk("a", "s1", [5]).model_copy(update={"sampling": {"policy": Sampling()}})
    runs = [write_run([first], "first"), write_run([first.model_copy(update=change)], "second")]
    assert len(pages_of_runs(*runs)) == pages


def test_seeds_are_all_counted_and_named(write_run: WriteRun) -> None:
    runs = [
        write_run(
            [talk("m", s, [seed]).model_copy(update={"seed": 100 + seed}) for s in ("s1", "s2")],
            f"seed{seed}",
            models=["m"], scenarios=["s1", "s2"], seed=seed, scenario_set=name,
        )
        for seed, name in ((0, "support"), (1, "support"), (2, "mine.jsonl"))
    ]  # fmt: skip
    (page,) = pages_of_runs(*runs)
    assert (page.card.played, page.card.replaced) == (6, 0)
    assert page.card.models[0].own.mean == 41.0  # 40, 41, 42, twice each
    assert not page.notes  # nothing is called missing
    facts = dict(page.facts)
    assert (facts["Seeds"], facts["Scenario sets"]) == ("0, 1, 2", "support, mine.jsonl")
    assert facts["Scenarios"] == "2, 3 times each"
    # in the list each of the three has a number of its own
    assert [row[3] for row in dialogue_list(page)["rows"]] == [0, 0, 1, 1, 2, 2]


def test_the_numbers_of_a_page_are_those_of_the_leaderboard(dialogues: list[Transcript], write_run: WriteRun) -> None:
    """x/plain failed with s3, so x/good is ranked on s1 and s2, (100 + 55) / 2, and its own s3 (45) is no highlight."""
    (page,) = pages_of_runs(write_run(dialogues))
    for panel in page.trajectories:
        assert panel["mean"].points[-1].y == panel["score"].headline.mean
        assert panel["basis"] == panel["score"].headline.n
    good = page.trajectories[0]
    assert (good["mean"].points[-1].y, good["basis"], good["n"], len([path for path, _ in good["lines"] if path])) == (
        77.5,
        2,
        3,
        3,
    )
    (_, best, worst), *_ = page.highlights
    assert (best["score"], worst["score"]) == (100.0, 55.0)


def test_pages_of_an_earlier_larger_report_go(write_run: WriteRun, tmp_path: Path) -> None:
    runs = [write_run([talk("m", "s1", [5], preset=f"p{n}")], f"run{n}") for n in range(3)]
    runs.append(write_run([talk("m", f"s{n}", [5], preset="p0") for n in range(50)], "large"))
    site = tmp_path / "site"
    write_site(runs[1:], site)
    write_site(runs, site)
    assert (site / "measurement-3.html").is_file()
    assert (site / "data/1/dialogues-2.js").is_file()
    (site / "measurement-x.html").write_text("mine")
    (site / "data" / "3" / "mine.txt").write_text("mine")
    (site / "data" / "notes").mkdir()
    write_site(runs[:1], site)
    assert sorted(path.name for path in site.iterdir()) == [
        "assets", "data", "index.html", "measurement-x.html", "numbers.html", "published.html", "settings.html"
    ]  # fmt: skip
    assert sorted(str(path.relative_to(site / "data")) for path in (site / "data").rglob("*")) == [
        "1", "1/dialogues-0.js", "1/list.js", "3", "3/mine.txt", "notes"
    ]  # fmt: skip


def test_of_raw_answers_only_the_policys_are_kept(write_run: WriteRun) -> None:
    calls = [
        Call(role="policy", purpose="reply", turn=0, text="x" * 999, reasoning="y" * 999, finish_reason="content_filter"),
        Call(role="user", purpose="feel", turn=0, text="{}", reasoning="y"),
    ]
    dialogue = talk("m", "s1", [5], calls=calls)
    (page,) = pages_of_runs(write_run([dialogue]))
    (shown,) = page.texts
    assert shown.calls[0] == calls[0]  # its thinking is in no turn
    assert (shown.calls[1].text, shown.calls[1].reasoning) == ("", None)
    assert shown.turns == dialogue.turns
    assert score_card([shown], {}) == score_card([dialogue], {})  # no number needs them


@pytest.mark.parametrize("written", ['"\\ud83d"', "NaN", "[" * 5000], ids=["half an emoji", "no number", "too deep"])
def test_settings_that_no_score_card_can_hold_are_refused(written: str, dialogues: list[Transcript], write_run: WriteRun) -> None:
    run = write_run(dialogues)
    (run / "settings.json").write_text(f'{{"environment": {written}}}')
    with pytest.raises(InputError, match=r"cannot read .*settings\.json"):
        read_run(run)


def test_a_folder_of_runs_stands_for_its_runs(write_run: WriteRun, tmp_path: Path) -> None:
    second, first = write_run([talk("m", "s1", [5])], "second"), write_run([talk("m", "s1", [5])], "first")
    assert runs_in(tmp_path) == [first, second]
    assert runs_in(first) == [first]
    for folder in ("group/deeper", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
    deep = second.rename(tmp_path / "group" / "deeper" / "second")
    shutil.copytree(first, tmp_path / ".hidden" / "first")
    shutil.copytree(first, first / "inside")  # such as the evaluations in a training run
    assert runs_in(tmp_path) == [first, deep]
    assert runs_in(tmp_path / "nothing") == [tmp_path / "nothing"], "so that it is named as no run directory"


class TestVersionsOfOneBot:
    @pytest.fixture
    def versions(self, write_run: WriteRun) -> list[Path]:
        """Two runs with the same settings; the bot behind the name changed between them."""
        ends = {"before": 5, "after": 9}
        settings: dict[str, Any] = {"models": ["http:bot.yaml"], "scenarios": ["s1", "s2"]}
        return [
            write_run([talk("http:bot.yaml", s, [end], text=f"The {name} one.") for s in ("s1", "s2")], name, **settings)
            for name, end in ends.items()
        ]

    def test_are_two_models_named_with_their_runs(self, versions: list[Path], tmp_path: Path) -> None:
        [page] = pages_of_runs(*versions)
        names = ["http:bot.yaml (after)", "http:bot.yaml (before)"]
        assert [(row.model, row.scored, row.own.mean) for row in page.card.models] == [(names[0], 2, 49.0), (names[1], 2, 45.0)]
        assert not page.notes
        site = write_site(versions, tmp_path / "site").parent
        data = _data(site / "data/1/list.js")
        assert (data["models"], len(data["rows"])) == (names, 4)
        assert "(after)" not in (site / "settings.html").read_text(encoding="utf-8"), "the command that repeats a run"

    def test_parts_of_one_run_stay_one_model(self, write_run: WriteRun, versions: list[Path]) -> None:
        copy = write_run(list(stored_transcripts(versions[0])), "copy")
        shard = write_run([talk("http:bot.yaml", "s3", [1])], "shard")
        [page] = pages_of_runs(versions[0], copy, shard)
        assert [(row.model, row.scored) for row in page.card.models] == [("http:bot.yaml", 3)]

    def test_another_model_of_the_runs_keeps_its_name(self, write_run: WriteRun) -> None:
        runs = [write_run([talk("x", "s1", [n]), talk("y", "s1", [1])], f"r{n}") for n in (1, 2)]
        [page] = pages_of_runs(*runs)
        assert {row.model for row in page.card.models} == {"x (r1)", "x (r2)", "y"}

    def test_runs_of_one_name_are_named_by_their_paths(self, write_run: WriteRun, tmp_path: Path) -> None:
        runs = []
        for number in (1, 2):
            (tmp_path / str(number)).mkdir()
            runs.append(write_run([talk("x", "s1", [number])], f"{number}/same"))
        [page] = pages_of_runs(*runs)
        assert {row.model for row in page.card.models} == {f"x ({run})" for run in runs}

    def test_a_model_that_plays_its_own_user_is_marked_under_both_names(self, write_run: WriteRun) -> None:
        runs = [write_run([talk("openai/x", "s1", [n], user="openai/x")], f"r{n}", user="openai/x") for n in (1, 2)]
        [page] = pages_of_runs(*runs)
        assert page.self_scored == {"openai/x (r1)", "openai/x (r2)"}
