"""Colours of the report: text, lines and marks stand out from their ground, and models from each other in every colour vision."""

from __future__ import annotations

import itertools
import math
import re
from importlib import resources

import numpy as np
import pytest

from heartloop.report.drawing import PALETTE
from heartloop.report.site import assign_colours

Array = np.ndarray[tuple[int], np.dtype[np.float64]]
STYLE = (resources.files("heartloop.report") / "static" / "report.css").read_text(encoding="utf-8")

# Linear RGB of a reader without one kind of cone (Machado, Oliveira and Fernandes, 2009, severity 1).
_VISION = {
    "all": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def variables(dark: bool) -> dict[str, str]:
    light, night = STYLE.split("@media screen and (prefers-color-scheme: dark)", 1)
    pattern = r"--([\w-]+):\s*([^;]+);"
    found = dict(re.findall(pattern, light))
    return {**found, **dict(re.findall(pattern, night.partition("\n}\n")[0]))} if dark else found


def linear(colour: str | Array) -> Array:
    """Linear RGB of `#rrggbb`, of three numbers as text, or of numbers."""
    if isinstance(colour, str):
        numbers = [int(colour[i : i + 2], 16) for i in (1, 3, 5)] if colour.startswith("#") else map(float, colour.split())
        colour = np.array(list(numbers))
    part = colour / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(first: str | Array, second: str | Array) -> float:
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05) of relative luminance."""
    dark, light = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) for colour in (first, second))
    return (light + 0.05) / (dark + 0.05)


def over(top: str, ground: str, share: float) -> Array:
    """The colour of a ground of three numbers as text under a translucent one."""
    values = [[int(one[i : i + 2], 16) for i in (1, 3, 5)] if one.startswith("#") else one.split() for one in (top, ground)]
    first, second = np.array(values, dtype=np.float64)
    return np.asarray(share * first + (1 - share) * second)


def lab(values: Array) -> Array:
    """CIE L*a*b* of linear RGB under D65."""
    white = _XYZ @ np.clip(values, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(white > 0.008856, np.cbrt(white), 7.787 * white + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_is_computed_as_the_standard_has_it() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
class TestContrast:
    def test_of_axis_words_with_bands(self, dark: bool) -> None:
        colours = variables(dark)
        for zone, share in (("zone", 0.13), ("zone-low", 0.15)):
            assert contrast(colours["soft"], over(colours[zone], colours["paper"], share)) >= 3.0

    def test_of_models_with_the_ground_and_with_each_other(self, dark: bool) -> None:
        colours = variables(dark)
        palette = [colours[f"m{n}"] for n in range(PALETTE + 1)]
        assert min(contrast(colour, colours["paper"]) for colour in palette) >= 3  # WCAG 2.2, 1.4.11
        for name, matrix in _VISION.items():
            labs = [lab(matrix @ linear(colour)) for colour in palette]
            assert min(math.dist(a, b) for a, b in itertools.combinations(labs, 2)) > 20, name


def test_at_most_eight_models_are_coloured_and_no_two_share_a_colour() -> None:
    found = assign_colours([f"m{n}" for n in range(12)])
    assert sorted(found.values()) == [*range(PALETTE), *[PALETTE] * 4]
    assert assign_colours([f"m{n}" for n in range(6)]).items() <= found.items()
