"""From a reading to a change, worked by hand, and the floors that no weight can buy back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.fitting.embedded import readings
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.reader import UNSURE, Effect, Output, Reading, effect_of, read_effect

OUTPUTS = (Output("mood", -10.0, 10.0), Output("anger", -10.0, 10.0, better=-1), Output("level", 1.0, 5.0, neutral=2.0))


def marked(marks: Mapping[str, float], spread: float = 0.0, floor: str = "", silent: bool = False) -> Reading:
    """A reading with these marks; the others are 0."""
    return Reading(np.array([marks.get(name, 0.0) for name in ASPECTS], np.float32), spread, {}, floor, silent, 5, 0.0)


def reading(spread: float = 0.0, floor: str = "", *, silent: bool = False, **marks: float) -> Reading:
    return marked(marks, spread, floor, silent)


@pytest.fixture
def effect() -> Effect:
    """A point of understanding is worth 2 of mood, -1 of anger and 1 level; `wary` people give half as much."""

    def group(share: float) -> dict[str, Any]:
        worth = {"mood": 2.0 * share, "anger": -1.0 * share, "level": share}
        return {
            "weights": {name: {a: value if a == "understanding" else 0.0 for a in ASPECTS} for name, value in worth.items()},
            "offset": {"mood": -2.0, "anger": 1.0, "level": 1.0},
        }

    return read_effect({
        "outputs": [output._asdict() for output in OUTPUTS],
        "typical": dict.fromkeys(ASPECTS, 1.0),
        "deviation": {"mood": 3.0, "anger": 2.0, "level": 1.0},
        "silence": {"mood": -1.5, "anger": 0.5, "level": 1.0},
        "repetition": {"mood": -3.0, "anger": 0.5, "level": 1.5},
        "groups": {"open": group(1.0), "wary": group(0.5)},
    })  # fmt: skip


def test_a_change_is_a_sum_over_the_aspects_by_kind_of_person(effect: Effect) -> None:
    # mood 2 * 4 - 2 = 6; anger -1 * 4 + 1 = -3; level 4 + 1 = 5
    assert effect.of(reading(understanding=4.0), "open") == {"mood": 6.0, "anger": -3.0, "level": 5.0}
    # half the weights: 4 - 2 = 2; -2 + 1 = -1; 2 + 1 = 3
    assert effect.of(reading(understanding=4.0), "wary") == {"mood": 2.0, "anger": -1.0, "level": 3.0}


def test_a_gain_is_lowered_by_what_the_reader_is_unsure_of_and_a_loss_is_not(effect: Effect) -> None:
    sure, unsure = (effect.of(reading(spread, understanding=4.0), "open") for spread in (0.0, 0.5))
    assert unsure["mood"] == pytest.approx(sure["mood"] - UNSURE * 0.5 * 3.0)
    assert unsure["anger"] == pytest.approx(sure["anger"] + UNSURE * 0.5 * 2.0)
    assert effect.of(reading(9.0, understanding=4.0), "open") == {"mood": 0.0, "anger": 0.0, "level": 2.0}
    assert effect.of(reading(0.5), "open") == effect.of(reading(0.0), "open")


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (reading(silent=True), (-1.5, 0.5, 1.0)),  # as judges gave it
        (reading(floor="danger", understanding=4.0), (-10.0, 10.0, 1.0)),  # the worst there is
        (reading(floor="hostility", understanding=4.0), (0.0, 0.0, 2.0)),  # lifts nothing
        (reading(floor="hostility"), (-2.0, 1.0, 1.0)),  # and still harms
        # whatever it says, no better than the mean judged change of replies that repeat
        (reading(floor="repetition", understanding=4.0), (-3.0, 0.5, 1.5)),
        # worse by its words: mood -2 is better than -3, so -3; anger 1 is worse than 0.5; level 1 is worse than 1.5
        (reading(floor="repetition"), (-3.0, 1.0, 1.0)),
    ],
)
def test_silence_and_floors(effect: Effect, read: Reading, change: tuple[float, ...]) -> None:
    assert tuple(effect.of(read, "open").values()) == change


def test_what_was_copied_or_said_before_earns_nothing_and_harms_in_full(effect: Effect) -> None:
    half = effect.of(reading(understanding=4.0)._replace(fresh=0.5), "open")
    assert half == {"mood": 3.0, "anger": -1.5, "level": 3.5}
    assert effect.of(reading()._replace(fresh=0.0), "open") == effect.of(reading(), "open")


def test_reasons_are_what_differs_from_a_typical_reply(effect: Effect) -> None:
    # (2/3 + 1/2 + 1/1) / 3 a point, three points above the typical 1
    aspect, worth = effect.reasons(reading(understanding=4.0), "open")[0]
    assert aspect == "understanding"
    assert worth == pytest.approx(3 * (2 / 3 + 1 / 2 + 1) / 3)


_MARKS = st.fixed_dictionaries({name: st.floats(0.0, 4.0) for name in ASPECTS})


@pytest.mark.parametrize("name", sorted(readings()))
@given(marks=_MARKS, more=st.floats(0.0, 4.0), spread=st.floats(0.0, 2.0))
def test_in_the_shipped_weights_more_hostility_or_danger_never_betters_anything(
    name: str, marks: dict[str, float], more: float, spread: float
) -> None:
    shipped = effect_of(readings()[name].package)
    for group in shipped.groups:
        before = shipped.of(marked(marks, spread), group)
        for aspect in ("hostility", "danger"):
            after = shipped.of(marked({**marks, aspect: min(4.0, marks[aspect] + more)}, spread), group)
            for output in shipped.outputs:
                assert output.low <= after[output.name] <= output.high
                assert output.better * after[output.name] <= output.better * before[output.name] + 1e-6
