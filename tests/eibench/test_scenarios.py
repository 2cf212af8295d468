"""The shipped EIBench sets: counts, split, anchors, distinct scenarios; and the rules of composing."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from heartloop.authoring.checks import NEAR_DUPLICATE, similarity
from heartloop.core.errors import InputError
from heartloop.environments.eibench.composer import (
    SCENARIOS,
    SIZES,
    compose,
    fill_slots,
    load_cores,
    load_set,
    training,
)
from heartloop.environments.eibench.scenario import SCENES, EIBenchScenario, load_scenarios, pools, problems_of
from heartloop.environments.registry import stratified
from heartloop.environments.report import published

TEST = load_scenarios("test")


def combination(scenario: EIBenchScenario) -> tuple[str, str, str, str, str]:
    seed = scenario.seed
    return (scenario.scene, seed.keyword, seed.relationship, seed.intensity, seed.personality)


def test_the_pools_have_the_published_sizes() -> None:  # EIBench Table 9
    themes = list(pools().scenes.values())
    sizes = {
        "Scene type": [len(SCENES)],
        "Theme direction": [len(of_scene) for of_scene in themes],
        "Scenario keyword": [len(words) for of_scene in themes for words in of_scene.values()],
        "Relationship": [len(pools().relationship)],
        "Emotional intensity": [len(pools().intensity)],
        "Personality influence": [len(pools().personality)],
    }
    printed: Any = {row["seed_pool"]: row for row in published("heartloop.environments.eibench", "eibench_table09_seed_pools")}
    assert sizes.keys() == printed.keys()
    for pool, found in sizes.items():
        assert all(printed[pool]["size_min"] <= size <= printed[pool]["size_max"] for size in found), pool
    assert {one for of_scene in themes for words in of_scene.values() for fit in words.values() for one in fit} <= set(
        pools().relationship
    )


def test_the_scenes_are_the_published_four_on_two_axes() -> None:  # EIBench Table 2
    page = (Path(__file__).parents[2] / "docs" / "eibench.md").read_text(encoding="utf-8")
    axes = {}
    for row in published("heartloop.environments.eibench", "eibench_table02_scene_types"):
        scene = str(row["scene"]).lower()
        whose = "its own" if str(row["regulation_target"]).startswith("model ") else "the other's"
        axes[scene] = f"{whose}, {str(row['situation_source']).split('-')[0].split()[0]} side"
        assert f"| `{scene}` | {axes[scene]} |" in page
    assert axes.keys() == set(SCENES)
    assert len(set(axes.values())) == 4


class TestTestSet:
    def test_size_and_split_are_the_published_ones(self) -> None:
        assert Counter(scenario.scene for scenario in TEST) == {"charm": 46, "defense": 64, "repair": 52, "support": 51}
        assert len({scenario.id for scenario in TEST}) == 213

    def test_each_obeys_the_rules(self) -> None:
        assert [(scenario.id, problem) for scenario in TEST for problem in problems_of(scenario)] == []

    def test_every_keyword_is_there_and_no_combination_comes_twice(self) -> None:
        words = {(scene, word) for scene, themes in pools().scenes.items() for t in themes.values() for word in t}
        assert {(s.scene, s.seed.keyword) for s in TEST} == words
        assert max(Counter(map(combination, TEST)).values()) == 1

    def test_anchor_means_stay_within_five_of_the_published(self) -> None:
        tables = "heartloop.environments.eibench"
        rows = {str(row["scene"]).lower(): row for row in published(tables, "eibench_table03_anchor_statistics")}
        for scene in SCENES:
            for axis in ("a", "t"):
                for name in ("start", "success", "fail"):
                    own = fmean(getattr(getattr(s.anchors, axis), name) for s in TEST if s.scene == scene)
                    assert abs(own - float(str(rows[scene][f"{name}_{axis}_mean"]))) <= 5, (scene, axis, name)

    def test_no_two_tell_one_story_or_say_the_same(self) -> None:
        likeness = similarity([SCENARIOS.story(scenario) for scenario in TEST])
        np.fill_diagonal(likeness, 0.0)
        assert likeness.max() < NEAR_DUPLICATE
        spoken = Counter(line for scenario in TEST for line in SCENARIOS.lines(scenario) if len(line.split()) > 2)
        assert [line for line, n in spoken.items() if n > 1] == []


class TestTrainSet:
    def test_size_and_split_are_the_published_ones(self) -> None:
        assert Counter(scenario.scene for scenario in training()) == SIZES
        assert SIZES == {"charm": 504, "defense": 496, "repair": 503, "support": 506}
        assert len({scenario.id for scenario in training()}) == 2009
        assert [s.scene for s in stratified(load_set("train"), 4)] == ["charm", "defense", "repair", "support"]
        assert 0 < len(load_set("train", exclude_tags=["death"])) < 2009

    def test_each_obeys_the_rules(self) -> None:
        some = training()[::5]
        assert {scenario.id.rsplit("-", 1)[0] for scenario in some} == {core.id for core in load_cores()}
        assert [(scenario.id, problem) for scenario in some for problem in problems_of(scenario)] == []

    def test_no_combination_of_the_test_set_and_none_twice(self) -> None:
        composed = Counter(map(combination, training()))
        assert max(composed.values()) == 1
        assert not set(composed) & set(map(combination, TEST))

    def test_it_is_the_same_every_time(self) -> None:
        cores = {core.id: core for core in load_cores()}
        for scenario in training()[::100]:
            core, _, number = scenario.id.rpartition("-")
            assert compose(cores[core], scenario.seed, int(number)).fingerprint == scenario.fingerprint

    def test_no_core_tells_the_story_of_a_test_scenario(self) -> None:
        first = {scenario.id.rsplit("-", 1)[0]: scenario for scenario in reversed(training())}
        likeness = similarity([SCENARIOS.story(scenario) for scenario in (*TEST, *first.values())])
        assert len(first) == 112
        assert likeness[len(TEST) :, : len(TEST)].max() < NEAR_DUPLICATE

    def test_no_slot_is_left_open(self) -> None:
        assert [s.id for s in training() if re.search(r"\{\w+\}", s.model_dump_json())] == []


def test_a_slot_at_the_start_of_a_sentence_gets_a_capital_and_one_without_a_value_is_named() -> None:
    assert fill_slots("{they} left. {they} came.", {"they": "she"}) == "She left. She came."
    with pytest.raises(InputError, match=r"\{them\}"):
        fill_slots("for {them}", {"they": "she"})


def test_a_person_is_one_gender_throughout() -> None:
    core = load_cores()[0]
    seed = next(s.seed for s in training() if s.id.startswith(core.id))
    person = compose(core, seed, 1).user
    assert {"woman": " he ", "man": " she "}[person.gender] not in " ".join(person.rules)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"opening": "Hello there, stranger."}, "in charm the model speaks first"),
        ({"ways": [{"text": "A way of some kind.", "cues": ["one", "two", "three"]}] * 2}, "none in charm"),
        ({"id": "Charm 1"}, "id"),
        ({"extra": 1}, "extra"),
        ({"seed": {**TEST[0].seed.model_dump(), "keyword": "space travel"}}, "is not in the pool"),
        (
            {"anchors": {"a": {"start": 30, "success": 40, "fail": 75}, "t": {"start": 15, "success": 55, "fail": 0}}},
            "success < start < fail",
        ),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EIBenchScenario.model_validate(json.loads(TEST[0].model_dump_json()) | fields)
