"""Pages that compare: models under several simulators or judges, two models, and a model against the others of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Sampling
from heartloop.report.comparing import COMPARISON, side_by_side
from heartloop.report.page import LEAST_IN_GROUP
from heartloop.report.site import write_site
from tests.report.talks import WriteRun, pages_of_runs, talk

ORDER = {"a/one": 9, "a/two": 6, "a/three": 3, "a/four": 0}


@pytest.fixture
def run(write_run: WriteRun) -> Callable[..., Path]:
    def make(
        simulator: str, changes: Mapping[str, float] = ORDER, people: tuple[str, ...] = ("s1", "s2"), **more: object
    ) -> Path:
        said = [talk(model, who, [change, change], user=simulator) for model, change in changes.items() for who in people]
        name = str(more.pop("name", simulator.replace("/", "-")))
        return write_run(said, name, user=simulator, **more)

    return make


def test_simulators_stand_side_by_side_with_the_numbers_of_their_pages(run: Callable[..., Path]) -> None:
    swapped = {"a/one": 6, "a/two": 9, "a/three": 3, "a/four": 0}
    (table,) = side_by_side(pages_of_runs(run("x/first"), run("x/second", swapped)))
    assert [label for _, label in table["columns"]] == ["x/first", "x/second"]
    one, two = dict(table["rows"])["a/one"]
    assert one is not None
    assert two is not None
    assert (one.rank, one.seen.mean, two.rank, two.seen.mean) == (1, 58.0, 2, 52.0)
    # ranks 1 2 3 4 against 2 1 3 4: 1 - 6 * 2 / (4 * 15) = 0.8
    assert table["agreement"][0][1] == pytest.approx((0.8, 4))


def test_a_model_that_plays_itself_is_marked_and_left_out(run: Callable[..., Path]) -> None:
    liked = {**ORDER, "a/four": 10}  # it likes itself best; without it the two orders are the same
    (table,) = side_by_side(pages_of_runs(run("x/first"), run("other-service/four", liked)))
    assert [place.own for place in dict(table["rows"])["a/four"] if place] == [False, True]
    assert table["agreement"][0][1] == pytest.approx((1.0, 3))
    assert any("a/four" in note for note in table["notes"])


def test_the_mean_over_all_instruments(run: Callable[..., Path]) -> None:
    # a/one: 58 under the first and 52 under the second with both scenarios: only instruments vary; t 12.7
    pages = [run("x/first"), run("x/second", {**ORDER, "a/one": 6}), run("other/four", {**ORDER, "a/one": 6})]
    (table,) = side_by_side(pages_of_runs(*pages[:2]))
    over = table["over"]["a/one"]
    assert over is not None
    assert (over.mean, over.shares["judge"]) == (55.0, 1.0)
    assert over.high - over.mean == pytest.approx(12.7062 * 3.0, rel=1e-4)
    (table,) = side_by_side(pages_of_runs(*pages))
    own = table["over"]["a/four"]
    assert own is not None
    assert own.components.components[1].df == 1  # two judges: without the column that it plays itself


def test_judges_stand_side_by_side_too(run: Callable[..., Path]) -> None:
    again = run("x/first", rejudged={"from": "runs/x"}, roles={"judge": "a/two"}, name="again")
    pages = pages_of_runs(run("x/first"), again)
    (table,) = side_by_side(pages)
    assert [label for _, label in table["columns"]] == ["x/first", "x/first, judged by a/two"]
    assert [place.own for place in dict(table["rows"])["a/two"] if place] == [False, True]
    assert dict(pages[1].facts)["Rejudged by"] == "a/two"


def test_what_does_not_compare_never_stands_side_by_side(run: Callable[..., Path], write_run: WriteRun) -> None:
    changes: dict[str, dict[str, Any]] = {
        "preset": {"preset": "released"},
        "start": {"start": {"emotion": 60.0}},
        "family": {"facts": {"family": "chat"}},
        "scenario": {"fingerprint": "new"},
        "model": {"model": "b/other"},
        "sampling": {"sampling": {"policy": Sampling(temperature=0.1)}},
    }
    others = [
        write_run([talk("a/one", "s1", [5], user=f"x/{name}").model_copy(update=change)], name)
        for name, change in changes.items()
    ]
    assert side_by_side(pages_of_runs(run("x/first"), write_run([], "empty"), *others)) == []


def test_an_agreement_that_is_not_defined_is_a_dash(run: Callable[..., Path], tmp_path: Path) -> None:
    level = dict.fromkeys(ORDER, 5)
    runs = [run("x/first"), run("x/level", level), run("x/alone", {"a/one": 5})]
    (table,) = side_by_side(pages_of_runs(*runs))
    assert table["agreement"][0][1:] == [(None, 4), (None, 1)]
    html = (write_site(runs, tmp_path / "site").parent / "side-by-side.html").read_text(encoding="utf-8")
    assert '– <span class="count">n 1, not defined</span>' in html


def _compare(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_has_the_numbers_of_the_command_and_leads_to_the_dialogues(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run([talk(model, f"s{n}", [rise * n]) for model, rise in (("x/a", 1), ("x/b", 3)) for n in range(4)])
    out = tmp_path / "site"
    text = _compare(run, "--model-a", "x/a", "--model-b", "x/b", "--out", out)
    html = (out / COMPARISON).read_text(encoding="utf-8")
    # B - A is 0, 2, 4, 6
    assert "B - A: +3.0" in text
    assert "B - A: +3.0" in html
    links = re.findall(r'href="(index\.html#pair\?[^"]*)"', html)
    assert len(links) == 3  # the pair without a difference is no extreme
    assert links[0] == "index.html#pair?a=dialogue-x-a-s3&amp;b=dialogue-x-b-s3"


def test_two_versions_of_a_model_are_named_with_their_runs_and_the_page_has_the_gate(write_run: WriteRun, tmp_path: Path) -> None:
    first = write_run([talk("x/a", f"s{n}", [n]) for n in range(3)], "first")
    second = write_run([talk("x/a", f"s{n}", [2 * n], text=f"other {n}") for n in range(3)], "second")
    text = _compare(first, second, "--worse-than", "2", "--out", tmp_path / "site")
    html = (tmp_path / "site" / COMPARISON).read_text(encoding="utf-8")
    assert "</span>x/a (second), A is" in html
    assert len(set(re.findall(r'<span class="swatch (h\d)"', html))) == 2
    assert text.splitlines()[-1].startswith("Gate: not shown")
    assert text.splitlines()[-1] in html
    links = re.findall(r'href="(index\.html#pair\?[^"]*)"', html)
    assert links[0] == "index.html#pair?a=dialogue-x-a-first-s2&amp;b=dialogue-x-a-second-s2"
    assert len(links) == 2


def test_a_model_under_two_user_simulators_is_named_with_its_runs(write_run: WriteRun, tmp_path: Path) -> None:
    runs = [write_run([talk("x/a", f"s{n}", [n], user=user) for n in range(2)], user, user=user) for user in ("u", "v")]
    _compare(*runs, "--out", tmp_path / "site")
    assert f"</span>x/a ({runs[1]}), A is" in (tmp_path / "site" / COMPARISON).read_text(encoding="utf-8")


def test_a_win_is_named_where_the_interval_supports_it(write_run: WriteRun) -> None:
    def change(model: str, group: str, n: int) -> float:
        if group == "advice":
            return 5.0 if n % 2 else -5.0
        return (20.0 if group == "listen" else 9.0) if model == "a" else 0.0

    talks = [
        talk(model, f"{group}{n}", [change(model, group, n)], intention=group)
        for model in ("a", "b", "c")
        for group, count in (("listen", LEAST_IN_GROUP), ("advice", LEAST_IN_GROUP), ("few", LEAST_IN_GROUP - 1))
        for n in range(count)
    ]
    cards = pages_of_runs(write_run(talks))[0].cards
    assert [one.key for one in cards["a"].wins] == ["listen"]  # advice is level, and few has too few scenarios
    assert cards["a"].wins[0].difference[:3] == (20, 20, 20)
    assert (cards["a"].losses, cards["a"].tested, cards["a"].groups) == ([], 2, 3)
    # b against the mean of a (20 points above it) and c (level): 10 points below
    assert [(one.key, one.difference.mean) for one in cards["b"].losses] == [("listen", -10)]
    shown = cards["b"].losses[0].shown_by
    assert (shown.model, shown.mine.points, shown.other.points) == ("a", 40, 60)
    assert cards["a"].worst is None  # it is below the others on no scenario
