"""Variants of EMPA scenarios, with a writer and an auditor that are played (`scribe`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heartloop.authoring.checks import problems_of_set
from heartloop.authoring.store import steps_path
from heartloop.authoring.writing import WritingResult
from heartloop.core.errors import SettingsMismatch, UseError
from heartloop.environments.empa.scenario import SCENARIOS, load_scenarios
from heartloop.environments.empa.writing import EmpaExpanding
from tests.authoring.scribe import Scribe, changed, run_with, steps
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer

SHIPPED = load_scenarios("cases")[::10]
LABELS = {"axis": 3, "domain": 6, "difficulty": 4, "threshold": 3}
"""And how many values they have."""


def expanding(guidance: str = "") -> EmpaExpanding:
    return EmpaExpanding("cases", guidance, shipped=SHIPPED)


async def run(out: Path, scribe: Scribe | None = None, guidance: str = "", **how: Any) -> WritingResult:
    return await run_with(out, scribe, writing=expanding(guidance), **{"n": 2, "concurrency": 2, **how})


@pytest.mark.parametrize("n", [30, 1000])
def test_the_targets_are_spread_evenly_whatever_the_number(n: int) -> None:
    seeds = expanding().seeds(n, 0)
    for label, values in [*LABELS.items(), ("from", 30)]:
        counts = Counter(one.facts[label] for one in seeds)
        assert (len(counts), max(counts.values()) - min(counts.values()) <= 1) == (values, True)
    assert len({one.id for one in seeds}) == n
    assert list(expanding().seeds(10, 0)) == list(seeds[:10])
    assert [one.facts for one in expanding().seeds(10, 1)] != [one.facts for one in seeds[:10]]


def test_only_narrows_one_label_and_leaves_the_others_even() -> None:
    seeds = expanding().seeds(12, 0, ["axis=A", "difficulty=hard", "difficulty=extreme"])
    assert Counter(one.facts["axis"] for one in seeds) == {"A": 12}
    assert Counter(one.facts["difficulty"] for one in seeds) == {"hard": 6, "extreme": 6}
    assert set(Counter(one.facts["domain"] for one in seeds).values()) == {2}
    with pytest.raises(UseError, match="--only is 'A'; expected a label with its value: axis=C"):
        expanding().seeds(1, 0, ["A"])


async def test_a_variant_is_asked_for_by_need_target_and_guidance_and_is_fit_to_ship(tmp_path: Path) -> None:
    asked: dict[str, str] = {}

    def instead(stage: str, text: str, nth: int) -> str | None:
        asked.setdefault(stage, text)
        return None

    out = tmp_path / "more.jsonl"
    done = await run(out, Scribe(instead), "people who live at sea", concurrency=1)
    assert (done.written, done.refused, done.failed, done.stopped) == (2, {}, {}, None)
    more = load_scenarios(out)
    assert problems_of_set(SCENARIOS, [*SHIPPED, *more]) == []
    first = expanding().seeds(1, 0)[0]
    source = next(one for one in load_scenarios("cases") if one.id == first.facts["from"])
    for stage in ("card", "story"):
        assert "people who live at sea" in asked[stage]
        assert f"The trouble is about: {first.facts['domain']}." in asked[stage]
        assert source.topic[:25] in asked[stage]
        assert not any(name in asked[stage] for name in source.person.name.split())
    assert "people who live at sea" not in asked["label"]  # labels are read off the case, not off what was wished for
    assert (more[0].person.name, more[0].place) == (first.facts["name"], first.facts["place"])


async def test_a_rerun_continues_and_another_guidance_is_refused(tmp_path: Path) -> None:
    out, again = tmp_path / "more.jsonl", Scribe()
    await run(out)
    two = out.read_bytes()
    done = await run(out, again, n=3)
    assert (done.written, done.resumed, len(again.asked)) == (3, 2, 6)
    assert out.read_bytes().startswith(two)
    with pytest.raises(SettingsMismatch, match="guidance"):
        await run(out, guidance="people who live at sea")


SOURCE = next(one for one in load_scenarios("cases") if one.id == expanding().seeds(1, 0)[0].facts["from"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (SOURCE.needs.hopes, "say it otherwise"),
        ("He can be found at 12 Elm Street, or under m.doe@mail.example.", "the form of: email (1), address (1)"),
    ],
    ids=["words of the source", "personal data"],
)
async def test_a_draft_that_repeats_its_source_or_has_personal_data_is_asked_for_again(
    tmp_path: Path, words: str, problem: str
) -> None:
    def change(answer: dict[str, Any]) -> None:
        answer["story"]["outcome"] = words

    out = tmp_path / "more.jsonl"
    assert (await run(out, changed("story", change, times=1), n=1)).written == 1
    assert problem in steps(out, "refused")[0]["problem"]
    assert words not in out.read_text()


async def test_over_http_the_command_writes_variants_that_can_be_checked_and_sampled(tmp_path: Path) -> None:
    command = ("scenarios", "write", "empa", "--expand", "cases", "--limit", "3", "--only", "axis=C", "--writer", "lab/w",
        "--auditor", "lab/a", "--out", "more.jsonl")  # fmt: skip
    async with FaultyServer("rate_limit:1", retry_after="0.01", answer=Scribe().body) as server:
        done = await over_http(server, *command, cwd=tmp_path)
        assert done.code == 0, done
        asked = len(server.requests)
        done = await over_http(server, *command, cwd=tmp_path)
        assert (done.code, "3 of them from an earlier run" in done.out, len(server.requests)) == (0, True, asked)
    settings = json.loads(steps_path(tmp_path / "more.jsonl").read_text().splitlines()[0])["settings"]
    assert (settings["only"], settings["guidance"]) == (["axis=C"], "")
    checked = heartloop("scenarios", "check", "more.jsonl", cwd=tmp_path)
    assert (checked.code, "no problem found" in checked.out) == (0, True)
    sampled = heartloop("scenarios", "sample", "more.jsonl", "--limit", "2", "--out", "two.jsonl", cwd=tmp_path)
    assert (sampled.code, len(load_scenarios(tmp_path / "two.jsonl"))) == (0, 2)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("sage", "--expand", "support"), "scenarios write --expand is not available for sage; expected empa"),
        (("sage", "--guidance", "at sea"), "--guidance applies only with --expand"),
        (("empa", "--expand", "nowhere.jsonl"), "unknown scenario set 'nowhere.jsonl'"),
    ],
)
def test_wrong_use_gets_one_sentence(words: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    models = ("--writer", "python:tests.authoring.scribe:answer", "--auditor", "python:tests.authoring.scribe:answer")
    done = heartloop("scenarios", "write", *words, *models, "--out", "more.jsonl", cwd=tmp_path)
    assert (done.code, problem in done.err.replace("\n", " ")) == (2, True), done
