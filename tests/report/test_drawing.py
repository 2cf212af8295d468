"""Charts in pixels, as a specification."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.blocks import Chart, Point, Series
from heartloop.report.drawing import drawn, radar
from heartloop.report.training import band_of, band_series

CURVES = st.dictionaries(st.integers(0, 300), st.floats(-1e6, 1e6), min_size=1)


def _line(*points: Point) -> Chart:
    return Chart("t", "lines", (Series("a", points),), "x", "y", low=0, high=10)


def test_a_line_worked_by_hand() -> None:
    """Labels of two letters take 25.2 pixels: of 720 x 320 the axes run from 25.2 to 704 and from 296 up to 14."""
    plot = drawn(_line(Point(0, 0), Point(2, 5, 2.5, 10)))
    assert (plot.left, plot.right, plot.top, plot.bottom) == pytest.approx((25.2, 704, 14, 296))
    (series,) = plot.series
    assert series.path == "M25.2 296L704 155"  # 5 of 0 to 10 is half of the way up
    assert series.marks[1][:4] == (704, 155, 225.5, 14)
    assert plot.ticks_y == [(296, "0"), (239.6, "2"), (183.2, "4"), (126.8, "6"), (70.4, "8"), (14, "10")]
    assert plot.ticks_x == [(25.2, "0"), (364.6, "1"), (704, "2")]


def test_a_radar_worked_by_hand() -> None:
    """Of 460 x 280 the centre is (230, 140) and the radius 100: 5 of 1 to 5 is at its end, 3 half way; the first spoke is up."""
    whole, gap = (Point("up", 5), Point("right", 3), Point("down", 1), Point("left", 3)), (Point("up", 3), Point("down", 3))
    plot = radar(Chart("t", "radar", (Series("a", whole), Series("b", gap)), "x", "y", 1.0, 5.0))
    assert plot.series[0].path == "M230 40L280 140L230 140L180 140Z"
    assert (plot.series[1].path, [mark[:2] for mark in plot.series[1].marks]) == ("", [(230, 90), (230, 190)])
    assert plot.rings == [(25, "2"), (50, "3"), (75, "4"), (100, "5")]
    assert [(spoke.name, spoke.end, spoke.anchor) for spoke in plot.spokes] == [
        ("up", (230, 40), "middle"), ("right", (330, 140), "start"), ("down", (230, 240), "middle"), ("left", (130, 140), "end"),
    ]  # fmt: skip


def test_bars_of_two_series_stand_side_by_side() -> None:
    plot = drawn(Chart("t", "bars", tuple(Series(n, (Point("w", 1), Point("v", 2))) for n in "ab"), "x", "y"))
    assert [words for _, words in plot.ticks_x] == ["w", "v"]
    (a, b) = plot.series
    assert [round(right.x - left.x, 1) for left, right in zip(a.marks, b.marks, strict=True)] == [plot.bar] * 2
    assert (a.marks[0].x + b.marks[0].x) / 2 == pytest.approx(plot.ticks_x[0][0], abs=0.1)


def test_the_ends_of_an_axis_may_be_given() -> None:
    plane = drawn(Chart("t", "points", (Series("a", (Point(-0.5, 0.0),)),), "x", "y", -1.0, 1.0, x_low=-1.0, x_high=1.0))
    (mark,) = plane.series[0].marks
    assert mark.x == pytest.approx(plane.left + (plane.right - plane.left) / 4, abs=0.1)
    assert mark.y == (plane.top + plane.bottom) / 2
    assert [words for _, words in plane.ticks_x] == ["-1", "-0.5", "0", "0.5", "1"]
    assert drawn(Chart("t", "points", (), "x", "y")).series == []


@given(st.lists(CURVES, min_size=1, max_size=4))
def test_every_chart_of_a_training_holds_its_lines(curves: list[dict[int, float]]) -> None:
    bands = [band for curve in curves if (band := band_of([curve]))]
    values = [value for band in bands for curve in (band.raw, band.mean) for value in curve.values()]
    series = tuple(band_series("a", band) for band in bands)
    plot = drawn(Chart("t", "lines", series, "", "", min(values), max(values), x_low=0, x_high=300), width=330, height=184)
    points = re.findall(r"[ML]([\d.-]+) ([\d.-]+)", " ".join(one.raw + one.path for one in plot.series))
    assert points
    assert all(plot.left - 0.1 <= float(x) <= plot.right + 0.1 for x, _ in points)
    assert all(plot.top - 0.1 <= float(y) <= plot.bottom + 0.1 for _, y in points)
    assert 1 <= len(plot.ticks_y) <= 7


def test_no_two_lines_look_alike_and_their_numbers_lie_apart() -> None:
    series = tuple(Series(f"m{n}", (Point(0, 1.0), Point(1, 5.0)), n) for n in range(32))
    plot = drawn(Chart("t", "lines", series, "x", "y", numbered=True))
    assert len({(n % 8, line.dashes) for n, line in enumerate(plot.series)}) == 32
    assert len({line.label_y for line in plot.series}) == 32
    assert [line.number for line in plot.series] == list(range(1, 33))


def test_a_model_that_writes_far_more_than_the_others_makes_the_axis_logarithmic() -> None:
    def of(*tokens: float) -> Chart:
        return Chart("t", "points", tuple(Series(str(n), (Point(n, 50),)) for n in tokens), "x", "y", x_low=0.0, log_x=True)

    assert not drawn(of(300, 301, 302)).logarithmic
    plot = drawn(of(0, 100, 120, 150, 10_000))
    assert plot.logarithmic
    assert [words for _, words in plot.ticks_x] == ["1", "10", "100", "1k", "10k"]
    assert plot.series[0].marks[0].x == pytest.approx(plot.left, abs=0.1)  # no token counts as one


def test_the_name_of_the_line_is_on_the_side_without_a_curve() -> None:
    def placed(value: float) -> float:
        series = (Series("a", (Point(0, 40), Point(10, value))),)
        plot = drawn(Chart("t", "lines", series, "x", "y", 0, 100, x_low=0, x_high=10, line=40, line_name="40 is the start"))
        assert plot.line is not None
        return plot.line_name_y - plot.line

    assert (placed(43), placed(37)) == (14, -5), "below the line under a curve, else above it"
