"""Several runs in one report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Call, Sampling, Transcript
from heartloop.core.errors import InputError
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run, runs_in
from heartloop.report.dialogues import dialogue_list
from heartloop.report.page import Page
from heartloop.report.site import write_site
from tests.report.sage_bench import WriteRun, talk


def _page(*paths: Path) -> Page:
    (measurement,) = comparable([read_run(path) for path in paths])
    return Page(measurement, score_card(measurement.transcripts, measurement.settings), 1)


def _facts(*paths: Path) -> dict[str, str]:
    return dict(_page(*paths).facts)


@pytest.mark.parametrize(
    ("change", "pages"),
    [
        ({}, 1),
        ({"seed": 7}, 1),
        ({"sampling": {"policy": Sampling(temperature=0.2)}}, 2),
        ({"sampling": {"policy": Sampling(), "user": Sampling(top_p=0.5)}}, 2),
        ({"facts": {"family": "chat"}}, 2),
        ({"start": {"emotion": 60.0}}, 2),
        ({"prompts": {"feel": "another"}}, 2),
    ],
)
def test_what_decides_a_score_decides_the_page(write_run: WriteRun, change: dict[str, Any], pages: int) -> None:
    first = talk("a", "s1", [5]).model_copy(update={"sampling": {"policy": Sampling()}})
    runs = [write_run([first], "first"), write_run([first.model_copy(update=change)], "second")]
    assert len(comparable([read_run(path) for path in runs])) == pages


def test_seeds_are_all_counted_and_named(write_run: WriteRun) -> None:
    runs = [
        write_run(
            [talk("m", s, [seed]).model_copy(update={"seed": 100 + seed}) for s in ("s1", "s2")],
            f"seed{seed}",
            models=["m"], scenarios=["s1", "s2"], seed=seed, scenario_set=name,
        )
        for seed, name in ((0, "support"), (1, "support"), (2, "mine.jsonl"))
    ]  # fmt: skip
    page = _page(*runs)
    assert (page.card.played, page.card.replaced) == (6, 0)
    assert page.card.models[0].own.mean == 41.0  # 40, 41, 42, twice each
    assert not page.card.notes  # nothing is called missing
    facts = dict(page.facts)
    assert facts["Seeds"] == "0, 1, 2"
    assert facts["Scenario sets"] == "support, mine.jsonl"
    assert facts["Scenarios"] == "2, 3 times each"
    assert "Replaced" not in facts
    alone = _facts(runs[0])
    assert (alone["Seed"], alone["Scenario set"], alone["Scenarios"]) == ("0", "support", "2")
    # in the list each of the three has a number of its own
    assert [row[3] for row in dialogue_list(page)["rows"]] == [0, 0, 1, 1, 2, 2]


def test_the_numbers_of_a_page_are_those_of_the_leaderboard(
    dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path
) -> None:
    """x/plain failed with s3, so x/good is ranked on s1 and s2, (100 + 55) / 2, and its own s3 (45) is no highlight."""
    run = write_run(dialogues)
    page = _page(run)
    for panel in page.trajectories:
        assert panel.mean.points[-1].y == panel.score.headline.mean
        assert panel.basis == panel.score.headline.n
    good = page.trajectories[0]
    assert (good.mean.points[-1].y, good.basis, good.n, len([path for path, _ in good.lines if path])) == (77.5, 2, 3, 3)
    (_, best, worst), *_ = page.highlights
    assert (best["score"], worst["score"]) == (100.0, 55.0)
    html = write_site([run], tmp_path / "site").read_text(encoding="utf-8")
    assert "over the 2 dialogues scored for every one of them" in html
    assert "</b> n 2 of 3<" in html


def test_pages_of_an_earlier_larger_report_go(write_run: WriteRun, tmp_path: Path) -> None:
    runs = [write_run([talk("m", "s1", [5]).model_copy(update={"preset": f"p{n}"})], f"run{n}") for n in range(3)]
    site = tmp_path / "site"
    write_site(runs, site)
    assert (site / "measurement-3.html").is_file()
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
        Call(role="user", purpose="feel", turn=0, text="?"),
        Call(role="user", purpose="feel", turn=0, text="{}", reask=1),
    ]
    dialogue = talk("m", "s1", [5], calls=calls, counts={"re-asks": 1})
    run = read_run(write_run([dialogue]))
    assert run.transcripts[0].calls[0] == calls[0]  # its thinking is in no turn
    assert [(call.text, call.reasoning) for call in run.transcripts[0].calls[1:]] == [("", None)] * 2
    assert run.transcripts[0].turns == dialogue.turns
    assert score_card(run.transcripts, {}) == score_card([dialogue], {})  # no number needs them


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
    assert runs_in(tmp_path / "nothing") == [tmp_path / "nothing"], "so that it is named as no run directory"
