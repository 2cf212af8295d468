"""A page of more dialogues than it shows: its numbers are those of all, its texts those of an even sample."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.digests import digest_of
from heartloop.evaluation.store import read_run
from heartloop.report import page as page_module
from heartloop.report.page import evenly
from heartloop.report.site import write_site
from tests.report.talks import PERM, WriteRun, pages_of_runs, perm_talk, talk
from tests.report.test_calls import data

MODELS, SCENARIOS = ("x/good", "x/plain", "x/mute"), [f"s{n:02}" for n in range(16)]


@pytest.fixture
def many() -> list[Transcript]:
    return [
        talk(model, scenario, [step, (7 * n + 3 * m + repeat) % 11 - 5], repeat=repeat, seed=repeat)
        for repeat in range(2)
        for n, scenario in enumerate(SCENARIOS)
        for m, (model, step) in enumerate(zip(MODELS, (8, 0, -8), strict=True))
    ]


def test_a_sample_is_even_over_scenarios_with_all_models_before_it_has_a_second_repeat(many: list[Transcript]) -> None:
    order = [many[place] for place in evenly([digest_of(one) for one in many])]
    assert Counter(one.key for one in order) == Counter(one.key for one in many)
    assert [one.repeat for one in order] == [0] * 48 + [1] * 48
    for shown in (2, 4, 8):
        first = order[: 3 * shown]
        assert {one.scenario for one in first} == set(SCENARIOS[:: 16 // shown])
        assert set(Counter(one.model for one in first).values()) == {shown}


def test_a_page_shows_a_sample_with_all_that_it_links_to_and_numbers_of_all(
    many: list[Transcript], write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(many)
    run = read_run(path)
    comparison = compare(*choose_sides(run, None, "x/good", "x/plain"))
    whole = write_site([path], tmp_path / "whole", comparison=comparison).parent
    monkeypatch.setattr(page_module, "MOST_SHOWN", 40)
    sampled = write_site([path], tmp_path / "sampled", comparison=comparison).parent
    rows = data(sampled, "list.js")["rows"]
    assert len(rows) == 40 < len(many) == len(data(whole, "list.js")["rows"])
    assert sum(len(data(sampled, f"dialogues-{n}.js")["dialogues"]) for n in range(2)) == 40
    assert {row[1] for row in rows} == {0, 1, 2}
    known = {row[0]: row for row in data(whole, "list.js")["rows"]}
    assert all(row[1:2] + row[3:7] == known[row[0]][1:2] + known[row[0]][3:7] for row in rows), (
        "model, repeat, end, score, course"
    )
    html = (sampled / "index.html").read_text()
    linked = set(re.findall(r"(?:[#=])(dialogue-[\w.-]+)", html + (sampled / "comparison.html").read_text()))
    assert len(linked) > 8
    assert linked <= {row[0] for row in rows}
    assert "This page shows 40 of 96 dialogues" in html
    numbers = re.compile(r'<tr role="row".*?</tr>', re.DOTALL)
    assert numbers.findall(html) == numbers.findall((whole / "index.html").read_text())


def test_the_parts_of_an_environment_are_computed_on_the_even_sample(
    many: list[Transcript], write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "MOST_SHOWN", 40)
    (page,) = pages_of_runs(write_run(many))
    given = page.panel_input
    assert len(given.dialogues) == len(given.addresses) == len(page.shown) == 40
    behind = {row.model: given.behind(row) for row in page.card.models}
    keys = [one.key for one in page.dialogues]
    assert sorted(one.key for mine in behind.values() for one in mine) == sorted(keys[i] for i in page.sample)
    assert set(page.sample) == set(evenly(page.dialogues)[: len(page.sample)]), "not the best and the worst of all"
    assert 20 < len(page.sample) < 40
    for model, mine in behind.items():
        assert {one.model for one in mine} == {model}


def test_columns_of_a_sample_say_so(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_run([perm_talk("x/m", f"s{number}", (4, 4, 4, 80)) for number in range(6)], **PERM)
    (whole,) = pages_of_runs(path)
    monkeypatch.setattr(page_module, "MOST_SHOWN", 4)
    (sampled,) = pages_of_runs(path)
    assert [one.name for one in sampled.columns] == [f"{one.name} (sample)" for one in whole.columns] != []


def test_every_environment_shows_models_without_a_dialogue_in_the_sample(every_run: list[Path]) -> None:
    for run in every_run:
        for page in pages_of_runs(run) if (run / "transcripts.jsonl").is_file() else ():
            given = page.panel_input
            for names in (list(given.basis), list(given.basis)[:1]):
                page.panel.build(given._replace(basis={**given.basis, **dict.fromkeys(names, ())}))
