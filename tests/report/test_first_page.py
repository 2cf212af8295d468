"""The first page of a report: what was measured, two dialogues of one person, who played, and what the tabs are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.comparing import tab_labels
from heartloop.report.page import Page
from heartloop.report.site import write_site
from tests.report.talks import WriteRun, pages_of_runs, perm_talk, sage_talks, talk


def page_of(write_run: WriteRun, dialogues: Sequence[Transcript]) -> Page:
    (page,) = pages_of_runs(write_run(dialogues))
    return page


def moments(page: Page) -> list[tuple[str, str, float, int]]:
    """Of both dialogues the model, the title, the score, and the number of the reply shown."""
    return [(one["model"], one["title"], one["score"], one["turn"].index + 1) for one in page.example]


def test_what_was_measured_is_one_sentence(write_run: WriteRun) -> None:
    page = page_of(write_run, [talk(model, who, [1]) for model in ("x/a", "x/b") for who in ("s1", "s2")])
    assert page.lede == (
        "2 models, each evaluated on the same 2 scenarios: how the user feels at the end of the dialogue, from 0 to 100."
    )
    assert "The user’s emotion starts at 40 of 100" in page.about


def test_a_rise_and_a_fall_come_before_a_larger_difference(write_run: WriteRun) -> None:
    """In s1 they end at 70 and 41 (29 apart, both above 40), in s2 at 52 and 31 (21 apart)."""
    page = page_of(
        write_run,
        [talk("x/a", "s1", [20, 10]), talk("x/b", "s1", [1]), talk("x/a", "s2", [4, 8]), talk("x/b", "s2", [-1, -6, -2])],
    )
    assert moments(page) == [("x/a", "The title of s2", 52, 2), ("x/b", "The title of s2", 31, 2)]
    assert [round(one["change"]) for one in page.example] == [8, -6]
    assert (page.example_chart.line, page.example_chart.line_name) == (40, "40 is where they start")


def test_without_both_the_largest_difference_is_shown(write_run: WriteRun) -> None:
    lowered = [talk("x/a", "s1", [-1]), talk("x/b", "s1", [-3]), talk("x/a", "s2", [-2]), talk("x/b", "s2", [-9])]
    assert moments(page_of(write_run, lowered)) == [("x/a", "The title of s2", 38, 1), ("x/b", "The title of s2", 31, 1)]


def test_one_model_is_shown_against_itself_and_one_dialogue_a_scenario_shows_none(write_run: WriteRun) -> None:
    twice = [talk("x/a", "s1", [change], repeat=repeat) for repeat, change in enumerate((9, -9))]
    assert [(model, score) for model, _, score, _ in moments(page_of(write_run, twice))] == [("x/a", 49), ("x/a", 31)]


@pytest.mark.parametrize("tags", ["death", "none"])
def test_no_pair_of_a_scenario_with_a_content_tag(tags: str, write_run: WriteRun) -> None:
    page = page_of(write_run, [talk("x/a", "s1", [9], tags=tags), talk("x/b", "s1", [-9], tags=tags)])
    assert bool(page.example) is (tags == "none")


def test_the_pair_comes_before_the_ranking_which_says_who_played(write_run: WriteRun, tmp_path: Path) -> None:
    html = write_site([write_run(sage_talks())], tmp_path / "site").read_text(encoding="utf-8")
    places = [
        html.index(part) for part in ("is where they start", 'id="leaderboard"', "The person is played by the embedded user")
    ]
    assert places == sorted(places)

    answers = write_run([perm_talk("x/a", "s1", (4, 4, 4, 60), user="x/judge")], "perm", environment="perm", user="x/judge")
    assert "The replies are judged by x/judge" in write_site([answers], tmp_path / "perm-site").read_text(encoding="utf-8")


def test_tabs_name_in_words_what_differs(write_run: WriteRun) -> None:
    """Sampling has no words here, so two runs that differ in it alone are named by their folders."""

    def run(name: str, user: str = "embedded", **fields: Any) -> Path:
        return write_run([talk("x/a", "s1", [1], user=user, **fields)], name, user=user)

    assert tab_labels(pages_of_runs(run("one"))) == ["SAGE"]
    assert tab_labels(pages_of_runs(run("two"), run("three", user="x/user"), run("four", user="recorded/reader"))) == [
        "SAGE, played by the embedded user",
        "SAGE, played by x/user",
        "SAGE, played by a recorded model",
    ]
    assert tab_labels(pages_of_runs(run("five"), run("six", variant="hard"), run("seven", prompts={"feel": "other"}))) == [
        "SAGE, variant vanilla, run five",
        "SAGE, variant hard",
        "SAGE, variant vanilla, run seven",
    ]


def test_a_baseline_below_silence_is_explained(write_run: WriteRun) -> None:
    """Silence ends at 36 after two replies of -2 each, the fixer at 30 after -1, -4, -5; x/a is no baseline."""
    silent, fixer = talk("heartloop/silent", "s1", [-2, -2], silent=2), talk("heartloop/fixer", "s1", [-1, -4, -5])
    page = page_of(write_run, [silent, fixer, talk("heartloop/reflector", "s1", [-3]), talk("x/a", "s1", [-20])])
    assert page.explained == {
        "heartloop/fixer": "Below silence (36.0): 3 of 3 replies lower the score; "
        "each changes it by -3.3 on average, silence by -2.0."
    }


def test_a_baseline_that_talks_longer_than_silence_falls_by_its_length(write_run: WriteRun) -> None:
    silent, fixer = talk("heartloop/silent", "s1", [-4], silent=1), talk("heartloop/fixer", "s1", [-1, 0, -4])
    assert page_of(write_run, [silent, fixer]).explained == {
        "heartloop/fixer": "Below silence (36.0): 2 of 3 replies lower the score; "
        "each changes it by -1.7 on average, silence by -4.0 over fewer replies."
    }


def test_where_silence_was_not_played_the_start_counts(write_run: WriteRun) -> None:
    page = page_of(write_run, [talk("heartloop/fixer", "s1", [5, -6]), talk("heartloop/reflector", "s1", [1])])
    assert page.explained == {
        "heartloop/fixer": "Below the start (40): 1 of 2 replies lower the score; each changes it by -0.5 on average."
    }
