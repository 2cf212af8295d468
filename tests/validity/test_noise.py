"""Noise of the reward: the same reply judged again (RLVER, Appendix E.3)."""

from __future__ import annotations

import json
import math
from itertools import cycle
from pathlib import Path

import pytest

from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.validity.noise import INFERENCES, NOISE, TEMPERATURE, noise_of
from heartloop.validity.suites import dialogue_key, material_of
from tests.validity.judges import Judge, ask, play


@pytest.fixture
def two(counsellor: Material) -> Material:
    return counsellor._replace(dialogues=counsellor.dialogues[:2])


def wavering() -> Judge:
    """Feels 4 points better nine times, then 4 points worse."""

    changes = cycle([4] * (INFERENCES - 1) + [-4])
    return Judge(lambda *_: {"content": "c", "fit": "f", "activity": "a", "feeling": "b", "change": next(changes)})


async def test_one_reply_is_judged_ten_times_and_a_training_plan_states_the_noise(two: Material, tmp_path: Path) -> None:
    judge, contexts = wavering(), sum(len(one.turns) for one in two.dialogues)
    answers = (await ask(NOISE, two, judge, tmp_path / "answers.jsonl")).answers
    assert len(judge.prompts) == len(answers) == contexts * INFERENCES, "a call each: earlier replies keep their judgement"
    assert {one.temperature for one in judge.samplings} == {TEMPERATURE}
    assert len({one.seed for one in judge.samplings[:INFERENCES]}) == INFERENCES
    record = NOISE.result(two, {judge.name: answers}).record
    result = record[judge.name]
    assert result["contexts"] == contexts
    assert result["same_sign_as_majority"]["mean"] == pytest.approx(90.0)
    assert result["same_sign_in_pairs"]["mean"] == pytest.approx(80.0), "36 of 45 pairs"
    # nine times 4 and once -4: sample variance 6.4
    assert result["sd_of_change"]["mean"] == pytest.approx(math.sqrt(6.4))
    turns = contexts / len(two.dialogues)
    assert result["sd_of_dialogue"]["mean"] == pytest.approx(math.sqrt(turns * 6.4))
    file = tmp_path / "validity.json"
    file.write_text(json.dumps({"noise": record}))
    assert f"SD {math.sqrt(turns * 6.4):.2g}" in noise_of(file, judge.name)
    with pytest.raises(InputError, match=r"noise of lab/judge; expected openai/gpt"):
        noise_of(file, "openai/gpt")
    file.write_text('{"noise": {"lab/judge": {}}}')
    with pytest.raises(InputError, match="heartloop validate"):
        noise_of(file, "lab/judge")
    with pytest.raises(InputError, match="cannot read"):
        noise_of(tmp_path / "none.json", "lab/judge")


@pytest.mark.parametrize("environment", ["sage", "eibench"])
async def test_the_embedded_judge_repeats_the_stored_change(environment: str, two: Material, tmp_path: Path) -> None:
    if environment == "eibench":  # with two axes the change is that of the outcome
        play(tmp_path, "counsellor", limit=1, turns=2, environment=environment)
        two = material_of(load_environment(environment), [tmp_path / "run"], judges=["embedded"])
    done = await ask(NOISE, two, None, tmp_path / "answers.jsonl")
    assert not done.failed
    assert not (tmp_path / "answers.jsonl").exists(), "its answers depend on weights and cost nothing"
    for dialogue in two.dialogues:
        course = two.spec.scale.course(dialogue)
        for turn in dialogue.turns:
            change = done.answers[f"{dialogue_key(dialogue)}|{turn.index}|3"]["change"]
            assert change == pytest.approx(course[turn.index + 1] - course[turn.index], abs=1e-5)
    record = NOISE.result(two, {"embedded": done.answers}).record["embedded"]
    assert record["same_sign_as_majority"]["mean"] == 100.0
    assert record["sd_of_dialogue"]["mean"] == pytest.approx(0.0, abs=1e-12)


def test_a_judgement_counts_only_for_the_judges_prompts(two: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [one.fingerprint for one in NOISE.questions(two, {})]
    monkeypatch.setattr("heartloop.validity.noise.judged_prompts", lambda *of: {"feel": "another hash"})
    after = [one.fingerprint for one in NOISE.questions(two, {})]
    assert len(before) == len(after) > 0
    assert not set(before) & set(after)


def test_what_the_suite_lacks(material: Material) -> None:
    assert NOISE.lacks(material) is None
    assert "--judge" in str(NOISE.lacks(material._replace(judges=())))
    assert "--scenarios" in str(NOISE.lacks(material._replace(scenarios={})))
    assert "one stored reply" in str(NOISE.lacks(material._replace(spec=load_environment("stances"))))
