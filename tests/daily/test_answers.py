"""Answers written by hand: the embedded judges tell good ones from bad ones, instance by instance.

They were written beside the instances, to try their cues; the bounds below are what the committed rules reach, less a little.
"""

from __future__ import annotations

from benchmarks.daily_answers import ANSWERS, measured
from heartloop.environments.daily.scoring import METRICS


def test_good_ones_stand_far_above_bad_ones_on_either_half() -> None:
    found = measured()
    assert sum(row["answers"] for row in found.values()) == len(ANSWERS.read_text(encoding="utf-8").splitlines())
    for half in ("tuning", "held-out"):
        good, bad = found[f"good, {half}"], found[f"bad, {half}"]
        assert good["mean"] > 3.7
        assert bad["mean"] < 2.3
        assert all(good[metric] > bad[metric] for metric in METRICS)
        assert all(good[metric] > bad[metric] + 1.0 for metric in METRICS if metric != "colloquial")
