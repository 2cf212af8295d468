"""The report of EIBench runs: what stands on its pages, beside SAGE and under several simulators."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.report.site import write_site
from tests.report.bench import bench_talk
from tests.report.sage_bench import WriteRun

BENCH = {"environment": "eibench", "preset": "paper", "variant": "think", "max_turns": 8}


def bench_runs(write_run: WriteRun) -> list[Path]:
    """The same three models under two simulators, of which one is a model under test."""
    ends = {"x/one": (20.0, 70.0), "x/two": (40.0, 50.0), "x/sim": (80.0, 15.0)}
    talks = [
        bench_talk(model, f"{scene}-{n}", [(50.0, 40.0), end], scene=scene)
        for model, end in ends.items()
        for scene in ("charm", "defense")
        for n in range(2)
    ]
    other = [talk.model_copy(update={"user": "x/sim", "models": {**talk.models, "user": "x/sim"}}) for talk in talks]
    return [write_run(talks, "bench", **BENCH), write_run(other, "other", **BENCH, user="x/sim")]


@pytest.fixture
def site(dialogues: list[Transcript], write_run: WriteRun, tmp_path: Path) -> Path:
    """SAGE first, then EIBench under two simulators."""
    return write_site([write_run(dialogues), *bench_runs(write_run)], tmp_path / "site").parent


def data(site: Path, number: int, name: str) -> Any:
    text = (site / "data" / str(number) / name).read_text(encoding="ascii")
    return json.loads(text[text.index(",") + 1 : text.rindex(")")])


def test_a_bar_of_signed_points_grows_from_the_start(site: Path) -> None:
    bench = (site / "measurement-2.html").read_text(encoding="utf-8")
    assert "left:50.00%;width:50.00%" in bench  # 0 to 100
    assert "left:25.00%;width:25.00%" in bench  # 0 back to -50


def test_the_browser_gets_points_course_anchors_and_path(site: Path) -> None:
    listing, chunk = data(site, 2, "list.js"), data(site, 2, "dialogues-0.js")
    assert (listing["scale"]["low"], listing["scale"]["high"]) == (-100, 100)
    row, said = listing["rows"][0], chunk["dialogues"][0]
    assert (row[5], row[6]) == (100, [0, 25, 100])
    assert said["panel"]["anchors"] == {"a": [60, 20, 100], "t": [30, 70, 0]}
    assert said["panel"]["path"] == [[60, 30], [50, 40], [20, 70]]
    assert said["turns"][0]["change"] == {"a": -10, "t": 10}
    assert (said["panel"]["axes"], said["panel"]["weight"]) == ([[0, 0], [0.25, 0.25], [1, 1]], 0.5)
    assert listing["scenarios"][0]["group"] == "charm"
    sage = data(site, 1, "dialogues-0.js")["dialogues"][0]
    assert sage["panel"] == {}
    assert sage["turns"][0]["state"] == {"emotion": 50}


def test_two_simulators_stand_side_by_side_with_a_scatter(site: Path) -> None:
    html = (site / "side-by-side.html").read_text(encoding="utf-8")
    assert "EIBench · paper · think" in html
    section = html[html.index('class="panel against"') :]
    dots = re.findall(r'data-name="(\S+)">\s*<(circle|rect) class="point" c?x="([\d.]+)" c?y="([\d.]+)"', section)
    assert [(model, mark) for model, mark, *_ in dots] == [("x/one", "circle"), ("x/two", "circle"), ("x/sim", "rect")]  # itself
    (_, _, x1, y1), (_, _, x2, y2), _ = dots
    assert float(x1) - float(x2) == pytest.approx(float(y2) - float(y1), rel=0.1), "equal means lie along the diagonal"
