"""The report as an instrument: colours of models, views with an address, and cards that claim what intervals support.

1. A model has one colour on every page of a report; at most eight are coloured, the rest are grey.
2. Colours stay apart for readers with a colour vision deficiency.
3. A win or a loss is named only for a group with enough scenarios whose interval excludes 0.
4. The first page of several measurements opens with a matrix whose cells lead to the model on its page.
5. What is chosen stands in the address, and an address opens the same view again.
"""

from __future__ import annotations

import itertools
import math
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.cards import LEAST_IN_GROUP, ModelCard
from heartloop.report.drawing import PALETTE
from heartloop.report.page import Page as ReportPage
from heartloop.report.site import assign_colours
from tests.report.sage_bench import WriteRun, talk

if TYPE_CHECKING:
    pass


# Linear RGB of a reader without one kind of cone (Machado, Oliveira and Fernandes, 2009, severity 1).
_VISION = {
    "all": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _linear(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """CIE L*a*b* under D65."""
    white = _XYZ @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(white > 0.008856, np.cbrt(white), 7.787 * white + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_at_most_eight_models_are_coloured_and_no_two_share_a_colour() -> None:
    found = assign_colours([f"m{n}" for n in range(12)])
    assert sorted(found.values()) == [*range(PALETTE), *[PALETTE] * 4]
    assert assign_colours([f"m{n}" for n in range(6)]).items() <= found.items()


def test_the_palettes_keep_apart_in_every_colour_vision_and_stand_out_from_the_ground() -> None:
    css = (resources.files("heartloop.report") / "static" / "report.css").read_text(encoding="utf-8")
    palettes = [dict(re.findall(r"--m(\d): (#[0-9a-f]{6})", line)) for line in css.splitlines() if "--m0: #" in line]
    grounds = re.findall(r"--paper: (#[0-9a-f]{6})", css)
    assert [len(palette) for palette in palettes] == [PALETTE + 1] * 2
    for palette, ground in zip(palettes, grounds, strict=True):
        light = [float(_XYZ[1] @ _linear(colour)) + 0.05 for colour in (*palette.values(), ground)]
        assert min(max(one, light[-1]) / min(one, light[-1]) for one in light[:-1]) >= 3  # WCAG 2.2, 1.4.11
        for name, matrix in _VISION.items():
            labs = [_lab(matrix @ _linear(colour)) for colour in palette.values()]
            assert min(math.dist(a, b) for a, b in itertools.combinations(labs, 2)) > 20, name


def _cards(path: Path) -> dict[str, ModelCard]:
    (measurement,) = comparable([read_run(path)])
    return ReportPage(measurement, score_card(measurement.transcripts, measurement.settings), 1).cards


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
    cards = _cards(write_run(talks))
    assert [one.key for one in cards["a"].wins] == ["listen"]  # advice is level, and few has too few scenarios
    assert cards["a"].wins[0].difference[:3] == (20, 20, 20)
    assert (cards["a"].losses, cards["a"].tested, cards["a"].groups) == ([], 2, 3)
    # b against the mean of a (20 points above it) and c (level): 10 points below
    assert [(one.key, one.difference.mean) for one in cards["b"].losses] == [("listen", -10)]
    shown = cards["b"].losses[0].shown_by
    assert (shown.model, shown.mine.points, shown.other.points) == ("a", 40, 60)
    assert cards["a"].worst is None  # it is below the others on no scenario


def test_one_ranked_model_has_nothing_to_win_against(write_run: WriteRun) -> None:
    card = _cards(write_run([talk("a", f"s{n}", [5]) for n in range(3)]))["a"]
    assert card.overall is None
    assert (card.wins, card.losses, card.best) == ([], [], None)
