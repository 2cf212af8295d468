"""EIBench: its score card worked by hand, and what its page gives to the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.eibench.report import plane_of
from heartloop.evaluation.compare import choose_sides, compare
from heartloop.evaluation.digests import digest_of
from heartloop.evaluation.gate import gate
from heartloop.evaluation.scores import points_of, score_card
from heartloop.evaluation.store import StoredRun, comparable
from heartloop.report.site import write_site
from tests.report.talks import A, T, WriteRun, bench_talk

BENCH = {"environment": "eibench", "preset": "paper", "variant": "think", "max_turns": 8}


def data(site: Path, number: int, name: str) -> Any:
    text = (site / "data" / str(number) / name).read_text(encoding="ascii")
    return json.loads(text[text.index(",") + 1 : text.rindex(")")])


def test_the_browser_gets_points_course_anchors_and_path(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([bench_talk("x/one", "charm-0", [(50.0, 40.0), (20.0, 70.0)], scene="charm")], "bench", **BENCH)
    site = write_site([run], tmp_path / "site").parent
    listing, chunk = data(site, 1, "list.js"), data(site, 1, "dialogues-0.js")
    assert (listing["scale"]["low"], listing["scale"]["high"]) == (-100, 100)
    row, said = listing["rows"][0], chunk["dialogues"][0]
    assert (row[5], row[6]) == (100, [0, 25, 100])
    assert said["panel"]["anchors"] == {"a": [60, 20, 100], "t": [30, 70, 0]}
    assert said["panel"]["path"] == [[60, 30], [50, 40], [20, 70]]
    assert said["turns"][0]["change"] == {"a": -10, "t": 10}
    assert (said["panel"]["axes"], said["panel"]["weight"]) == ([[0, 0], [0.25, 0.25], [1, 1]], 0.5)
    assert listing["scenarios"][0]["group"] == "charm"


HALF, FULL, BACK = (40.0, 50.0), (20.0, 70.0), (80.0, 15.0)
"""Ends at which both axes are half of the way to success, all of it, and half of the way to failure."""


def run_of(*dialogues: Transcript, **settings: object) -> StoredRun:
    return StoredRun.of(Path("run"), {"environment": "eibench", "max_turns": 8, **settings}, dialogues)


@pytest.fixture
def mixed() -> list[Transcript]:
    """Two models; charm once, defense three times, one dialogue unscored."""
    ends = {"x/good": [FULL, HALF, HALF, (60.0, 30.0)], "x/poor": [HALF, BACK, BACK, BACK]}
    talks = [
        bench_talk(model, f"{'charm' if n == 0 else 'defense'}-{n}", [end], scene="charm" if n == 0 else "defense")
        for model, mine in ends.items()
        for n, end in enumerate(mine)
    ]
    return [*talks, bench_talk("x/poor", "repair-1", [HALF], scene="repair", failed=True)]


def test_a_card_worked_by_hand(mixed: list[Transcript]) -> None:
    card = score_card(mixed, {})
    # good (100 + 50 + 50 + 0) / 4 = 50, poor (50 - 50 - 50 - 50) / 4 = -25
    good, poor = card.models
    assert (card.environment, card.grouped_by, card.common) == ("eibench", "scene", 4)
    assert (good.model, good.rank, good.headline.mean) == ("x/good", 1, 50.0)
    assert (poor.model, poor.rank, poor.headline.mean) == ("x/poor", 2, -25.0)
    assert [(g.key, g.n, g.mean) for g in good.groups] == [("charm", 1, 100.0), ("defense", 3, pytest.approx(100 / 3))]
    assert (good.headline.success, good.headline.failure) == (1, 0)  # at 100, below 0
    assert (poor.headline.success, poor.headline.failure) == (0, 3)
    assert (poor.played, poor.scored, poor.unscored) == (5, 4, 1)
    assert [g.key for g in poor.groups] == ["charm", "defense"]  # the unscored repair is no zero


def test_a_scene_has_an_interval_and_one_person_none() -> None:
    talks = [bench_talk("m", f"defense-{n}", [end]) for n, end in enumerate((HALF, BACK))]
    (defense,) = score_card(talks, {}).models[0].groups
    assert (defense.low, defense.high) == (-100.0, 100.0)  # t 12.7 with two scenarios: moved to the ends of the scale
    (alone,) = score_card(talks[:1], {}).models[0].groups
    assert (alone.low, alone.high) == (None, None)


def test_the_course_is_the_outcome_had_the_talk_ended_there() -> None:
    talk = bench_talk("m", "defense-1", [HALF, BACK, FULL])
    assert list(digest_of(talk).course) == [0.0, 50.0, -50.0, 100.0]
    assert list(digest_of(bench_talk("m", "defense-1", [(40.0, 30.0)], weight=0.25)).course) == [0.0, 37.5]
    assert digest_of(talk).course[-1] == points_of(talk)
    assert points_of(bench_talk("m", "defense-1", [HALF], failed=True)) is None


def test_a_plane_counts_both_axes_from_their_anchors() -> None:
    plane = plane_of([bench_talk("m", "defense-1", [FULL]), bench_talk("m", "defense-2", [BACK])])
    assert plane is not None
    assert plane.paths == ["M114 114L204 24", "M114 114L69 159"]  # 24 + 180 (f + 1) / 2; up is smaller
    assert plane.mean == (0.25, 0.25)
    calmer = plane_of([bench_talk("m", "defense-1", [(A.success, T.start)])])  # better on a alone: straight up
    assert calmer is not None
    assert calmer.paths == ["M114 114L114 24"]
    assert plane_of([bench_talk("m", "s", [HALF]).model_copy(update={"facts": {}})]) is None


def test_a_comparison_is_in_points_and_by_scene(mixed: list[Transcript]) -> None:
    run = run_of(*mixed)
    found = compare(*choose_sides(run, None, "x/poor", "x/good"))
    assert (found.pairs, found.difference.mean) == (4, 75.0)  # 50, 100, 100, 50
    assert [(g.key, g.difference.mean) for g in found.groups] == [("charm", 50.0), ("defense", pytest.approx(250 / 3))]
    back = compare(*choose_sides(run, None, "x/good", "x/poor"))  # sd 28.87: -75 -+ 3.182 * 14.43 = -120.9 to -29.1
    assert gate(back, 29.0).outcome == "worse"
    assert gate(back, 30.0).outcome == "not shown"
    with pytest.raises(UseError, match="points of outcome from 0 to 200"):
        gate(found, 201.0)


def test_runs_share_a_table_whatever_scenario_comes_first_but_not_with_another_weight() -> None:
    first, second = bench_talk("m", "defense-1", [HALF]), bench_talk("m", "defense-2", [HALF])
    moved = second.model_copy(update={"start": {"a": 70.0, "t": 20.0}})
    assert len(comparable([run_of(first), run_of(moved)])) == 1
    assert len(comparable([run_of(first), run_of(bench_talk("m", "defense-2", [HALF], weight=0.3))])) == 2
