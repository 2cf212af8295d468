"""Released EIBench records as scenarios: what each side is told, and the outcome by the record's anchors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import InputError, UseError
from heartloop.environments.check import check_environment
from heartloop.environments.eibench.composer import load_set
from heartloop.environments.eibench.environment import EIBench
from heartloop.environments.eibench.scenario import EIBenchReleasedScenario
from heartloop.environments.eibench.users import EIBenchLLMUser
from heartloop.environments.episode import play
from heartloop.environments.registry import owner_of
from tests.released_eibench import REACTS, record, released


def person(*scenarios: EIBenchReleasedScenario, variant: str = "think") -> tuple[EIBench, ScriptedChat]:
    simulator = ScriptedChat([REACTS], name="lab/sim", cycle=True)
    return EIBench(scenarios, EIBenchLLMUser(simulator), variant=variant, max_turns=2), simulator


async def test_each_side_is_told_its_own_text() -> None:
    bench, simulator = person(released())
    policy = ScriptedChat(["<think>x</think>不行。"], cycle=True)
    played = await play(bench, "scene_defense_00", policy)
    texts = record()
    model, user = texts["defender_profile"]["system_prompt"], texts["aggressor_profile"]["system_prompt"]
    told, asked = policy.asked[0][0].content, simulator.asked[0][0].content
    assert (model in told, user in told, model in asked, user in asked) == (True, False, False, True)
    assert "the other person: 不行。" in simulator.asked[0][1].content
    assert played.opening == "就差五分钟，你就不能等等吗？"


async def test_the_outcome_is_by_the_records_own_anchors() -> None:
    bench, _ = person(released(initial_anger=62.5, target_anger=60))
    played = await play(bench, "scene_defense_00", ScriptedChat(["好。"], cycle=True))
    assert (played.start, played.turns[-1].state) == ({"a": 62.5, "t": 15}, {"a": 52.5, "t": 21})
    assert played.score == pytest.approx((1 + 6 / 30) / 2)  # a is beyond its success; t 6 of 30
    assert (played.facts["scene"], played.facts["title"], played.facts["tags"]) == ("defense", "渡口的末班船", "")


def test_the_environment_keeps_its_promises_with_them() -> None:
    check_environment(person(released(1), released(2, scene_tag="charm", opening_line=None))[0])


def test_the_fingerprint_is_of_what_is_told() -> None:
    assert released().fingerprint == released(title="another", goal_one_liner="another").fingerprint
    other = (released(system_prompt="x"), released(opening_line="x"), released(target_anger=35), released(scene_tag="support"))
    assert len({released().fingerprint, *(scenario.fingerprint for scenario in other)}) == 5


def test_an_imported_file_is_read_by_path_and_the_authors_own_is_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text(released().model_dump_json(exclude_unset=True) + "\n", encoding="utf-8")
    assert load_set(str(mine)) == [released()]
    assert owner_of(str(mine)).name == "eibench"
    with pytest.raises(UseError, match="--exclude-tag"):
        load_set(str(mine), exclude_tags=["death"])
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text(json.dumps(record()), encoding="utf-8")
    assert owner_of(str(theirs)).name == "eibench"
    with pytest.raises(InputError, match="run `heartloop import eibench-scenarios"):
        load_set(str(theirs))
