"""What the shipped EIBench sets are: counts, split, anchors, people written for themselves; and what composing keeps apart."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest
from pydantic import ValidationError

from heartloop.authoring.checks import NEAR_DUPLICATE, similarity
from heartloop.core.errors import InputError, UseError
from heartloop.environments.eibench.composer import SIZES, compose, fill_slots, load_cores, train_set
from heartloop.environments.eibench.scenario import SCENES, EIBenchScenario, load_scenarios, pools, problems_of
from heartloop.environments.report import published

TABLES = "heartloop.environments.eibench"
TEST = load_scenarios("test")
PUBLISHED = {"charm": 46, "defense": 64, "repair": 52, "support": 51}


@functools.cache
def train() -> Sequence[EIBenchScenario]:
    return train_set([scenario.seed for scenario in TEST])


def combination(scenario: EIBenchScenario) -> tuple[str, str, str, str, str]:
    seed = scenario.seed
    return (scenario.scene, seed.keyword, seed.relationship, seed.intensity, seed.personality)


def story(scenario: EIBenchScenario) -> str:
    return " ".join([scenario.opening or "", scenario.user.background, *(beat.text for beat in scenario.beats)])


class TestPools:
    """Sizes of EIBench Table 9."""

    def test_four_themes_a_scene_and_six_to_eight_keywords_a_theme(self) -> None:
        assert {scene: len(themes) for scene, themes in pools().scenes.items()} == dict.fromkeys(SCENES, 4)
        assert all(6 <= len(words) <= 8 for themes in pools().scenes.values() for words in themes.values())

    def test_the_modifiers(self) -> None:
        assert (len(pools().relationship), len(pools().intensity), len(pools().personality)) == (7, 8, 10)
        known = set(pools().relationship)
        assert all(set(fit) <= known for t in pools().scenes.values() for words in t.values() for fit in words.values())


class TestTestSet:
    def test_size_and_split_are_the_published_ones(self) -> None:
        assert Counter(scenario.scene for scenario in TEST) == PUBLISHED
        assert len({scenario.id for scenario in TEST}) == 213

    @pytest.mark.parametrize("scenario", TEST, ids=lambda scenario: scenario.id)
    def test_each_obeys_the_rules(self, scenario: EIBenchScenario) -> None:
        assert problems_of(scenario) == []

    def test_every_keyword_is_there_and_no_combination_comes_twice(self) -> None:
        words = {(scene, word) for scene, themes in pools().scenes.items() for t in themes.values() for word in t}
        assert {(s.scene, s.seed.keyword) for s in TEST} == words
        assert max(Counter(map(combination, TEST)).values()) == 1

    def test_anchor_means_stay_within_five_of_the_published(self) -> None:
        rows = {str(row["scene"]).lower(): row for row in published(TABLES, "eibench_table03_anchor_statistics")}
        for scene in SCENES:
            for axis in ("a", "t"):
                for name in ("start", "success", "fail"):
                    own = fmean(getattr(getattr(s.anchors, axis), name) for s in TEST if s.scene == scene)
                    assert abs(own - float(str(rows[scene][f"{name}_{axis}_mean"]))) <= 5, (scene, axis, name)

    def test_no_two_tell_one_story(self) -> None:
        likeness = similarity([story(scenario) for scenario in TEST])
        np.fill_diagonal(likeness, 0.0)
        assert likeness.max() < NEAR_DUPLICATE

    def test_people_are_many(self) -> None:
        assert len({scenario.user.name for scenario in TEST}) > 190
        assert len({scenario.place for scenario in TEST}) > 60
        ages = [scenario.user.age for scenario in TEST]
        assert min(ages) < 16
        assert max(ages) > 80

    def test_nobody_says_what_another_says(self) -> None:
        spoken = Counter(line for s in TEST for group in s.lines.model_dump().values() for line in group if len(line.split()) > 2)
        assert [line for line, n in spoken.items() if n > 1] == []

    def test_heavy_matters_are_tagged_and_can_be_left_out(self) -> None:
        kept = load_scenarios("test", exclude_tags=["suicide", "abuse"])
        assert 0 < len(kept) < len(TEST)
        assert not any({"suicide", "abuse"} & set(scenario.tags) for scenario in kept)


class TestTrainSet:
    def test_size_and_split_are_the_published_ones(self) -> None:
        assert (
            Counter(scenario.scene for scenario in train())
            == SIZES
            == {"charm": 504, "defense": 496, "repair": 503, "support": 506}
        )
        assert len({scenario.id for scenario in train()}) == 2009

    def test_each_obeys_the_rules(self) -> None:
        assert [(scenario.id, problem) for scenario in train() for problem in problems_of(scenario)] == []

    def test_no_combination_of_the_test_set_and_none_twice(self) -> None:
        found = Counter(map(combination, train()))
        assert max(found.values()) == 1
        assert not set(found) & set(map(combination, TEST))

    def test_it_is_the_same_every_time(self) -> None:
        again = train_set([scenario.seed for scenario in TEST])
        assert [scenario.fingerprint for scenario in again] == [scenario.fingerprint for scenario in train()]

    def test_no_core_tells_the_story_of_a_test_scenario(self) -> None:
        first: dict[str, EIBenchScenario] = {}
        for scenario in train():
            first.setdefault(scenario.id.rsplit("-", 1)[0], scenario)
        likeness = similarity([story(s) for s in TEST] + [story(s) for s in first.values()])
        assert len(first) == 112
        assert likeness[len(TEST) :, : len(TEST)].max() < NEAR_DUPLICATE

    def test_no_slot_is_left_open(self) -> None:
        assert [s.id for s in train() if re.search(r"\{\w+\}", s.model_dump_json())] == []

    def test_too_few_combinations_are_said(self) -> None:
        with pytest.raises(InputError, match="1 cores of charm leave"):
            train_set([], cores=load_cores()[:1], sizes={"charm": 10_000, "defense": 0, "repair": 0, "support": 0})


class TestSlots:
    def test_a_slot_at_the_start_of_a_sentence_gets_a_capital(self) -> None:
        assert fill_slots("{they} left. {they} came.", {"they": "she"}) == "She left. She came."

    def test_a_slot_without_a_value_is_named(self) -> None:
        with pytest.raises(InputError, match=r"\{them\}"):
            fill_slots("for {them}", {"they": "she"})

    def test_a_person_is_one_gender_throughout(self) -> None:
        core = load_cores()[0]
        seed = next(s.seed for s in train() if s.id.startswith(core.id))
        person = compose(core, seed, 1).user
        wrong = {"woman": " he ", "man": " she "}[person.gender]
        assert wrong not in " ".join(person.rules)


class TestSchema:
    def changed(self, **fields: object) -> dict[str, object]:
        record = json.loads(TEST[0].model_dump_json())
        record.update(fields)
        return dict(record)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"opening": "Hello there, stranger."}, "in charm the model speaks first"),
            ({"ways": [{"text": "A way of some kind.", "cues": ["one", "two", "three"]}] * 2}, "none in charm"),
            ({"id": "Charm 1"}, "id"),
            ({"extra": 1}, "extra"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, fields: dict[str, object], said: str) -> None:
        with pytest.raises(ValidationError, match=said):
            EIBenchScenario.model_validate(self.changed(**fields))

    def test_anchors_out_of_order_are_refused(self) -> None:
        anchors = {"a": {"start": 30, "success": 40, "fail": 75}, "t": {"start": 15, "success": 55, "fail": 0}}
        with pytest.raises(ValidationError, match="success < start < fail"):
            EIBenchScenario.model_validate(self.changed(anchors=anchors))

    def test_an_unknown_keyword_is_refused(self) -> None:
        seed = {**json.loads(TEST[0].seed.model_dump_json()), "keyword": "space travel"}
        with pytest.raises(ValidationError, match="is not in the pool"):
            EIBenchScenario.model_validate(self.changed(seed=seed))

    def test_an_unknown_set_is_named(self) -> None:
        with pytest.raises(UseError, match="unknown scenario set 'support'"):
            load_scenarios("support")
