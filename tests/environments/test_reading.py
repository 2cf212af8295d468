"""From a worth to what an environment's judge gives, and what the reader knows of a person."""

from __future__ import annotations

from typing import Any

import pytest

from heartloop.environments.reading import SWING, LearnedAppraiser, LearnedReading, reason_of
from heartloop.environments.registry import load_environment
from heartloop.reader.features import Context
from tests.fixed_appraiser import FixedReader, reading


def reading_of(name: str) -> LearnedReading:
    found = load_environment(name).reading
    assert found is not None
    return found


def a_scenario(name: str) -> Any:
    return load_environment(name).load()[0]


class TestChange:
    def test_it_is_interpolated_between_the_levels_of_the_kind_of_person(self) -> None:
        levels = {"open": ((0.0, 8.0), (1.0, 4.0), (5.0, 2.0)), "wary": ((0.0, 9.0), (1.0, 9.0), (2.0, 9.0))}
        mine = LearnedReading("sage", lambda *_: Context(()), ("level", "anger"), (-0.5, 0.0, 1.0), levels, group=str)
        assert mine.change("open", -0.25) == {"level": 0.5, "anger": 6.0}
        assert mine.change("open", 0.25) == {"level": 2.0, "anger": 3.5}
        assert mine.change("wary", 0.25) == {"level": 1.25, "anger": 9.0}
        assert mine.change("open", -0.9) == mine.change("open", -0.5) == {"level": 0.0, "anger": 8.0}

    def test_what_changes_a_state_changes_it_by_up_to_ten_points(self) -> None:
        assert reading_of("sage").change(None, 0.25) == {"emotion": 2.5}
        assert reading_of("eibench").change(None, 0.3) == pytest.approx({"a": -3.0, "t": 3.0})

    def test_in_empa_it_goes_by_the_axis_that_the_person_lacks_most(self) -> None:
        mine = reading_of("empa")
        scenarios = {mine.group(one): one for one in load_environment("empa").load()}
        assert set(scenarios) == {"C", "A", "P"}
        for axis in scenarios:
            changes = {other: mine.change(scenario, 0.4) for other, scenario in scenarios.items()}
            assert max(changes, key=lambda other: changes[other][f"{axis}+"]) == axis
            assert {changes[axis][f"{other}-"] for other in scenarios} == {0.0}

    @pytest.mark.parametrize("name", ["sage", "eibench", "empa", "perm", "daily"])
    def test_levels_belong_to_increasing_worths(self, name: str) -> None:
        mine = reading_of(name)
        assert list(mine.worths) == sorted(set(mine.worths))
        for rows in mine.levels.values():
            assert [len(row) for row in rows] == [len(mine.outputs)] * len(mine.worths)


class TestAppraiser:
    def changes(self, **given: Any) -> list[float]:
        appraiser = LearnedAppraiser(reading_of("sage"), FixedReader(reading(**given)))
        return [appraiser.appraise(a_scenario("sage"), ["Hm."], ["Oh."], seed=seed).change["emotion"] for seed in range(30)]

    def test_the_seed_makes_a_person_feel_somewhat_more_or_less(self) -> None:
        felt = self.changes(worth=0.4)
        assert len(set(felt)) > 20
        assert 4 * (1 - SWING) <= min(felt) < 4 < max(felt) <= 4 * (1 + SWING)
        assert self.changes(worth=0.4) == felt

    def test_danger_is_the_worst_for_everybody(self) -> None:
        assert set(self.changes(floor="danger", worth=-1.0)) == {-10.0}

    @pytest.mark.parametrize("reply", ["...", "Es tut mir leid."])
    def test_silence_and_what_cannot_be_read_cost_the_same(self, reply: str) -> None:
        for name in ("sage", "eibench", "perm"):
            mine = reading_of(name)
            appraiser, scenario = LearnedAppraiser(mine), a_scenario(name)
            silence = appraiser.appraise(scenario, ["Hm."], [""], seed=1)
            found = appraiser.appraise(scenario, ["Hm."], [reply], seed=1)
            assert found.change == silence.change
            assert found.change == pytest.approx(mine.change(scenario, mine.silence), rel=2 * SWING)

    def test_reasons_are_words_for_what_did_most(self) -> None:
        appraiser = LearnedAppraiser(reading_of("sage"))
        found = appraiser.appraise(a_scenario("sage"), ["Hm."], ["Oh."])
        best = found._replace(reasons=(("hostility", 3.0), ("warmth", 2.0), ("pressure", 0.0), ("helpful", -0.05)))
        assert reason_of(best, good=True) == "it was kind"  # the absence of a harm is no reason
        assert reason_of(best, good=False) == ""
        worst = best._replace(reasons=(("warmth", 0.05), ("pressure", -2.0)))
        assert (reason_of(worst, good=True), reason_of(worst, good=False)) == ("", "it pushed me")
        assert reason_of(best._replace(silent=True), good=True) == ""


class TestContexts:
    def test_a_concern_is_unsaid_until_a_beat_about_it_was_said(self) -> None:
        scenario = load_environment("sage").load("support")[0]
        beat = scenario.beats[-1]
        text = next(concern.text for concern in scenario.concerns if concern.key == beat.concern)
        before = reading_of("sage").context(scenario, [scenario.first_message], [])
        after = reading_of("sage").context(scenario, [scenario.first_message, beat.text], ["Go on."])
        assert any(line.startswith(text) for line in before.unsaid)
        assert not any(line.startswith(text) for line in after.unsaid)
        assert after.messages[-1] == beat.text
        assert after.replies == ("Go on.",)
        assert after.sore == tuple(scenario.background.sinks)

    def test_a_scene_gives_its_demand_its_ways_and_its_wrongs(self) -> None:
        scenes = {scenario.scene: scenario for scenario in load_environment("eibench").load("test")}
        contexts = {name: reading_of("eibench").context(scenario, [], []) for name, scenario in scenes.items()}
        assert {name for name, context in contexts.items() if context.demand} == {"defense"}
        assert {name for name, context in contexts.items() if context.wrongs} == {"repair"}
        assert contexts["charm"].known == tuple(scenes["charm"].model.knows)

    def test_a_note_that_bears_on_today_is_known_and_the_others_hurt(self) -> None:
        scenarios = load_environment("daily").load()
        scenario = next(s for s in scenarios if {m.bearing for m in s.dialogue_memory} >= {"bears", "overtaken"})
        context = reading_of("daily").context(scenario, [scenario.query], [])
        for note in scenario.dialogue_memory:
            assert (note.text in context.known) == (note.bearing == "bears") != (note.text in context.sore)
