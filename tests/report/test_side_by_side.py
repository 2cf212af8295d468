"""The same models under several simulators or judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heartloop.core.dialogue import Sampling
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.comparing import side_by_side
from heartloop.report.page import Page
from heartloop.report.site import write_site
from tests.report.sage_bench import WriteRun, talk

ORDER = {"a/one": 9, "a/two": 6, "a/three": 3, "a/four": 0}


def _pages(*paths: Path) -> list[Page]:
    found = comparable([read_run(path) for path in paths])
    return [Page(m, score_card(m.transcripts, m.settings), n) for n, m in enumerate(found, start=1)]


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
    (table,) = side_by_side(_pages(run("x/first"), run("x/second", swapped)))
    assert [(label, page.file) for page, label in table.columns] == [
        ("x/first", "index.html"),
        ("x/second", "measurement-2.html"),
    ]
    places = dict(table.rows)
    one, two = places["a/one"]
    assert one is not None
    assert two is not None
    assert (one.rank, one.seen.mean, two.rank, two.seen.mean) == (1, 58.0, 2, 52.0)
    # ranks 1 2 3 4 against 2 1 3 4: 1 - 6 * 2 / (4 * 15) = 0.8
    assert table.agreement[0][1].rho == pytest.approx(0.8)
    assert table.agreement[0][1].n == 4


def test_a_model_that_plays_itself_is_marked_and_left_out(run: Callable[..., Path]) -> None:
    liked = {**ORDER, "a/four": 10}  # it likes itself best; without it the two orders are the same
    (table,) = side_by_side(_pages(run("x/first"), run("other-service/four", liked)))
    assert [place.own for place in dict(table.rows)["a/four"] if place] == [False, True]
    assert table.agreement[0][1].rho == pytest.approx(1.0)
    assert table.agreement[0][1].n == 3
    assert any("left out of the agreement there: a/four" in note for note in table.notes)


def test_the_mean_over_all_instruments(run: Callable[..., Path], tmp_path: Path) -> None:
    # a/one: 58 under the first and 52 under the second with both scenarios: only instruments vary; t 12.7
    pages = [run("x/first"), run("x/second", {**ORDER, "a/one": 6}), run("other/four", {**ORDER, "a/one": 6})]
    (table,) = side_by_side(_pages(*pages[:2]))
    over = table.over["a/one"]
    assert over is not None
    assert (over.mean, over.shares["judge"]) == (55.0, 1.0)
    assert over.high - over.mean == pytest.approx(12.7062 * 3.0, rel=1e-4)
    (table,) = side_by_side(_pages(*pages))
    own = table.over["a/four"]
    assert own is not None
    assert own.components.components[1].df == 1  # two judges: without the column that it plays itself
    html = write_site(pages, tmp_path / "site").parent
    assert any('data-label="over all"' in page.read_text(encoding="utf-8") for page in html.glob("*.html"))


def test_judges_stand_side_by_side_too(run: Callable[..., Path]) -> None:
    again = run("x/first", rejudged={"from": "runs/x"}, roles={"judge": "a/two"}, name="again")
    pages = _pages(run("x/first"), again)
    (table,) = side_by_side(pages)
    assert [label for _, label in table.columns] == ["x/first", "x/first, judged by a/two"]
    assert [place.own for place in dict(table.rows)["a/two"] if place] == [False, True]
    assert dict(pages[1].facts)["Rejudged by"] == "a/two"


def test_what_does_not_compare_never_stands_side_by_side(run: Callable[..., Path], write_run: WriteRun, tmp_path: Path) -> None:
    others = [
        write_run([talk("a/one", "s1", [5], user="x/o").model_copy(update={"preset": "released"})], "preset"),
        write_run([talk("a/one", "s1", [5], user="x/p").model_copy(update={"start": {"emotion": 60.0}})], "start"),
        write_run([talk("a/one", "s1", [5], user="x/q", facts={"family": "chat"})], "family"),
        write_run([talk("a/one", "s1", [5], user="x/r", fingerprint="new")], "people"),
        write_run([talk("b/other", "s1", [5], user="x/s")], "models"),
        write_run([], "empty"),
        write_run(
            [talk("a/one", "s1", [5], user="x/t").model_copy(update={"sampling": {"policy": Sampling(temperature=0.1)}})],
            "sampling",
        ),
    ]
    assert side_by_side(_pages(run("x/first"), *others)) == []
    site = write_site([run("x/again"), *others], tmp_path / "site")
    assert not (site.parent / "side-by-side.html").exists()


def test_an_agreement_that_is_not_defined_is_a_dash(run: Callable[..., Path], tmp_path: Path) -> None:
    level = dict.fromkeys(ORDER, 5)
    runs = [run("x/first"), run("x/level", level), run("x/alone", {"a/one": 5})]
    (table,) = side_by_side(_pages(*runs))
    assert (table.agreement[0][1].rho, table.agreement[0][2].rho) == (None, None)
    assert (table.agreement[0][1].n, table.agreement[0][2].n) == (4, 1)
    site = write_site(runs, tmp_path / "site")
    html = (site.parent / "side-by-side.html").read_text(encoding="utf-8")
    assert '– <span class="count">n 1, not defined</span>' in html
    assert "side-by-side.html" in site.read_text(encoding="utf-8")
    write_site(runs[:1], tmp_path / "site")
    assert not (site.parent / "side-by-side.html").exists()
