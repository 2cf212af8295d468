"""Behaviour is as recorded: some items of every kind (benchmarks/unchanged)."""

from __future__ import annotations

from collections import Counter

from benchmarks.unchanged.items import ENVIRONMENTS, QUICK, Recorder
from benchmarks.unchanged.reference import REFERENCE, Items, differences, environment_of, report

KINDS = ("scenario", "catalogue", "seed", "stratified", "play", "cache", "rescored", "rejudged")


async def test_behaviour_is_as_recorded() -> None:
    items = Items(most=QUICK)
    await Recorder(items).everything()
    assert differences(REFERENCE, items, quick=True) == {}
    made = Counter((key.split("/")[0], environment_of(key)) for key in items.hashes)
    assert {(kind, environment) for kind in KINDS for environment in ENVIRONMENTS} <= set(made)
    assert {("prompt", "sage"), ("table", "eibench"), ("recipe", "perm"), ("training", "empa")} <= set(made)


def test_differences_are_named() -> None:
    items = Items()
    items.add("seed/sage/support", {"seeds": [1, 2, 3]})
    with items.making("play/sage/default/policy/somebody/0"):
        raise RuntimeError("a mistake")
    differ = differences(REFERENCE, items, quick=True)
    assert differ == {"play/sage/default/policy/somebody/0": ["is new"], "seed/sage/support": ["seeds"]}
    assert items.raised == ["play/sage/default/policy/somebody/0"]
    assert report(differ)[0].startswith("seed: 1 items (sage 1)")  # causes before what follows from them
    assert "seed/sage/chat" in differences(REFERENCE, items, only="sage")
