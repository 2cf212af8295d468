"""Answers written beside the scenarios and never fitted on: the embedded judges place the good ones above the bad ones.

Two or three good ones of different kinds for each scenario, and for most a bad one, bad in the way that the scenario warns of.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from heartloop.environments.daily.environment import JUDGES
from heartloop.environments.daily.scenario import SETS, load_scenarios
from heartloop.environments.daily.scoring import average
from heartloop.environments.daily.users import DailyEmbeddedUser
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import JudgedText
from heartloop.environments.records import half_of

ANSWERS = Path(__file__).parents[1] / "data" / "daily_answers.jsonl"


def test_good_ones_stand_above_bad_ones() -> None:
    scenarios, user = {s.id: s for s in load_scenarios(SETS[0])}, DailyEmbeddedUser()
    means: dict[str, list[float]] = defaultdict(list)
    for row in map(json.loads, ANSWERS.read_text(encoding="utf-8").splitlines()):
        if half_of(row["id"]) == "tuning":
            view = JudgedText(scenarios[row["id"]], row["answer"], 0)
            levels = {judge: asyncio.run(user.grade(judge, view, CallLog())).score for judge in JUDGES}
            means[row["kind"]].append(average(levels))
    assert {kind: len(values) for kind, values in means.items()} == {"good": 74, "bad": 22}
    assert fmean(means["good"]) > fmean(means["bad"])
