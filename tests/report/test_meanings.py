"""What a reader needs who sees no colour, has no mouse, or does not know a word.

1. Every heading of every table leads to an entry that explains it, on the page of meanings; every entry says what it is.
2. Headings follow in order, ids are unique, tables have scopes, links within the report lead somewhere.
3. Text stands out from its ground by at least 4.5 to 1, lines and marks by 3 to 1, in light and in dark, as the style's own
   variables have it.
"""

from __future__ import annotations

import re
from importlib import resources

import pytest

STYLE = (resources.files("heartloop.report") / "static" / "report.css").read_text(encoding="utf-8")


Colour = tuple[float, float, float]


def _variables(dark: bool) -> dict[str, str]:
    light, night = STYLE.split("@media screen and (prefers-color-scheme: dark)", 1)
    found = dict(re.findall(r"--([\w-]+):\s*([^;]+);", light))
    return {**found, **dict(re.findall(r"--([\w-]+):\s*([^;]+);", night.partition("\n}\n")[0]))} if dark else found


def _colour(value: str) -> Colour:
    if value.startswith("#"):
        return (int(value[1:3], 16), int(value[3:5], 16), int(value[5:7], 16))
    red, green, blue = (float(part) for part in value.split())
    return (red, green, blue)


def _over(top: Colour, ground: Colour, share: float) -> Colour:
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(top, ground, strict=True))
    return (red, green, blue)


def _contrast(first: Colour, second: Colour) -> float:
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05) of relative luminance."""

    def luminance(colour: Colour) -> float:
        parts = [c / 255 for c in colour]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_worked_out_as_the_standard_has_it() -> None:
    assert _contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert _contrast(_colour("#777777"), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


TEXT = [
    ("ink", "paper"), ("ink", "card"), ("ink", "sunk"), ("ink", "accent-soft"), ("ink", "down-soft"),
    ("soft", "paper"), ("soft", "card"), ("soft", "sunk"),
    ("accent", "paper"), ("accent", "card"), ("accent", "accent-soft"), ("accent", "sunk"), ("accent", "down-soft"),
    ("down", "paper"), ("down", "card"), ("up", "card"), ("down", "down-soft"), ("up", "paper"), ("up", "accent-soft"),
    ("paper", "accent"), ("paper", "down"),
    *((f"m{n}", "paper") for n in range(8)), *(("paper", f"m{n}") for n in range(8)),
]  # fmt: skip
"""Every pair of text and ground that the style sets."""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
class TestContrast:
    def test_text_stands_out_from_its_ground(self, dark: bool) -> None:
        colours = {name: _colour(value) for name, value in _variables(dark).items() if re.fullmatch(r"#\w{6}|\d+ \d+ \d+", value)}
        faint = {pair: ratio for pair in TEXT if (ratio := _contrast(colours[pair[0]], colours[pair[1]])) < 4.5}
        assert faint == {}

    @pytest.mark.parametrize("tint", [0.0, 0.5, 1.0])
    def test_numbers_stand_out_from_shaded_cells(self, tint: float, dark: bool) -> None:
        colours = _variables(dark)
        shade = re.search(r"rgb\(var\(--zone\) / calc\(([\d.]+) \+ ([\d.]+) \* var\(--tint, 0\)\)\)", STYLE)
        assert shade is not None
        ground = _over(_colour(colours["zone"]), _colour(colours["paper"]), float(shade[1]) + float(shade[2]) * tint)
        assert _contrast(_colour(colours["ink"]), ground) >= 4.5

    def test_axis_words_stand_out_from_the_bands(self, dark: bool) -> None:
        colours = _variables(dark)
        for zone, share in (("zone", 0.13), ("zone-low", 0.15)):
            assert _contrast(_colour(colours["soft"]), _over(_colour(colours[zone]), _colour(colours["paper"]), share)) >= 3.0


def test_the_style_knows_paper_and_still_eyes() -> None:
    assert "@media print" in STYLE
    assert "prefers-reduced-motion: reduce" in STYLE
    assert re.search(r":focus-visible \{ outline: 2px solid", STYLE)
