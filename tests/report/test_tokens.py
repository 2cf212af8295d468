"""Score against tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from heartloop.core.dialogue import Transcript, Usage
from heartloop.report.site import write_site
from heartloop.report.tokens import Point, scatter

Talk = Callable[..., Transcript]
WriteRun = Callable[..., Path]


def _point(number: int, tokens: float, mean: float, name: str = "x/model") -> Point:
    return Point(number, name, tokens, mean, mean - 5, mean + 5, 0)


def test_points_lie_where_their_numbers_say() -> None:
    plot = scatter([_point(1, 200, 0), _point(2, 400, 100)], start=40.0)
    first, second = plot.marks
    assert (plot.ticks_x[0][1], plot.ticks_x[-1][1]) == ("0", "400")
    assert (first.x - plot.left) * 2 == second.x - plot.left
    assert (first.y, second.y) == (plot.bottom, plot.top)
    assert plot.start == plot.top + 0.6 * (plot.bottom - plot.top)


def test_a_model_that_writes_far_more_than_the_others_makes_the_axis_logarithmic() -> None:
    assert not scatter([_point(n, 300 + n, 50) for n in range(5)], start=40.0).logarithmic
    plot = scatter([_point(n, tokens, 50) for n, tokens in enumerate((0, 100, 120, 150, 10_000))], start=40.0)
    assert plot.logarithmic
    assert [words for _, words in plot.ticks_x] == ["1", "10", "100", "1 000", "10 000"]
    assert plot.marks[0].x == plot.left  # no token counts as one


def test_names_never_cover_each_other_or_a_point() -> None:
    plot = scatter([_point(n, 300 + 9 * (n % 5), 40 + 2 * n, f"x/model-{n}") for n in range(20)], start=40.0)
    boxes = []
    for mark in plot.marks:
        if mark.label:
            wide = 6.3 * len(mark.label)
            left = {"start": mark.label_x, "end": mark.label_x - wide, "middle": mark.label_x - wide / 2}[mark.anchor]
            boxes.append((left, mark.label_y - 11, left + wide, mark.label_y + 2))
    assert boxes
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for mark in plot.marks:
            assert not (a[0] < mark.x < a[2] and a[1] < mark.y < a[3])


def test_names_that_would_look_alike_are_left_to_the_numbers() -> None:
    names = [f"x/the-same-long-beginning-{n}-and-the-same-long-ending" for n in range(2)]
    plot = scatter([_point(n, 100 + 200 * n, 50, name) for n, name in enumerate(names)], start=40.0)
    assert [mark.label for mark in plot.marks] == ["", ""]


def test_the_page_counts_all_completion_tokens_and_says_what_is_an_estimate(
    talk: Talk, write_run: WriteRun, tmp_path: Path
) -> None:
    def used(model: str, tokens: int, *, estimated: bool) -> Transcript:
        usage = Usage(prompt_tokens=1, completion_tokens=tokens, estimated=estimated)
        return talk(model, "s1", [5, 5]).model_copy(update={"usage": {"policy": usage}})

    run = write_run([used("x/thinks", 5000, estimated=False), used("x/guessed", 100, estimated=True)])
    html = write_site([run], tmp_path / "site").read_text(encoding="utf-8")
    section = html[html.index('id="tokens"') : html.index('id="dialogues"')]
    assert '<td class="num">5 000</td><td class="num">2.0</td><td class="num">2 500</td>' in section
    assert '<td class="num">≈ 100</td><td class="num">2.0</td><td class="num">≈ 50</td>' in section
    assert "marks estimates, where the endpoint did not count" in section
    assert len(re.findall(r'class="which"[^>]*>\d+<', section)) == 4  # two models in the wide and in the narrow picture
    board = html[: html.index('id="trajectories"')]
    assert 'data-label="tokens">≈ 100</td>' in board
    assert 'data-label="tokens">5 000</td>' in board
