"""Noise of the reward: the same reply judged again (RLVER, Appendix E.3).

1. Majority and pairs of a context, by hand.
2. Only the reply of the context is judged anew, with the stored judgements before it, ten times with different seeds.
3. The embedded judge gives the stored change every time, in every environment that judges one reply; nothing of it is stored.
4. The noise of a dialogue grows with the root of its judged replies.
5. A judgement counts only for the judge's prompts.
6. A training plan states the noise that was measured, and refuses that of another judge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.validity.answering import AnswerFile, answer_all
from heartloop.validity.noise import INFERENCES, NOISE, TEMPERATURE, majority_share, noise_of, pair_share
from heartloop.validity.suites import dialogue_key, material_of
from tests.commands import heartloop


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("noise")
    words = ("eval", "sage", "--user", "embedded", "--limit", "2", "-E", "max_turns=3", "--out", "run")
    assert heartloop(*words, "--model", "heartloop/counsellor", cwd=folder).code == 0
    return material_of(load_environment("sage"), [folder / "run"], judges=["lab/judge"])


class Judge:
    """Feels 4 points better or worse, by turns of the seed."""

    name = "lab/judge"

    def __init__(self) -> None:
        self.seen: list[Sampling | None] = []
        self.given: list[str] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.seen.append(sampling)
        self.given.append(messages[-1].content)
        change = -4 if len(self.seen) % INFERENCES == 0 else 4
        return Reply(json.dumps({"content": "c", "fit": "f", "activity": "a", "feeling": "b", "change": change}))


async def answers_of(model: Judge | None, material: Material, path: Path) -> Mapping[str, Mapping[str, Any]]:
    with AnswerFile(path) as file:
        done = await answer_all("noise", NOISE, material, "judge", model, file, max_connections=1)
    assert not done.failed
    return done.answers


def test_shares_of_one_context_by_hand() -> None:
    assert majority_share([1, 2, -1, 0, 3]) == pytest.approx(3 / 5)
    assert pair_share([1, 2, -1, 0, 3]) == pytest.approx(3 / 10), "of ten pairs, the three of positive ones"
    assert (majority_share([0.0, 0.0]), pair_share([0.0, 0.0])) == (1.0, 1.0)


async def test_one_reply_is_judged_ten_times_and_no_other(material: Material, tmp_path: Path) -> None:
    judge, contexts = Judge(), sum(len(one.turns) for one in material.dialogues)
    answers = await answers_of(judge, material, tmp_path / "answers.jsonl")
    assert len(judge.seen) == len(answers) == contexts * INFERENCES, "a call each: earlier replies keep their judgement"
    assert {one.temperature for one in judge.seen if one} == {TEMPERATURE}
    assert len({one.seed for one in judge.seen[:INFERENCES] if one}) == INFERENCES
    assert len(set(judge.given)) == contexts, "the emotion before the reply is the stored one"
    result = NOISE.result(material, {"judge": answers}).record["judge"]
    assert result["contexts"] == contexts
    assert result["same_sign_as_majority"]["mean"] == pytest.approx(90.0)
    assert result["same_sign_in_pairs"]["mean"] == pytest.approx(80.0), "36 of 45 pairs"
    # nine times 4 and once -4: sample variance 6.4
    assert result["sd_of_change"]["mean"] == pytest.approx(math.sqrt(6.4))
    turns = contexts / len(material.dialogues)
    assert result["sd_of_dialogue"]["mean"] == pytest.approx(math.sqrt(turns * 6.4))


async def test_the_embedded_judge_repeats_the_stored_change(material: Material, tmp_path: Path) -> None:
    answers = await answers_of(None, material, tmp_path / "answers.jsonl")
    for dialogue in material.dialogues:
        for turn in dialogue.turns:
            key = f"{dialogue_key(dialogue)}|{turn.index}|3"
            assert turn.change is not None
            assert answers[key]["change"] == pytest.approx(turn.change["emotion"])
    record = NOISE.result(material, {"embedded": answers}).record["embedded"]
    assert record["same_sign_as_majority"]["mean"] == 100.0
    assert record["sd_of_dialogue"]["mean"] == pytest.approx(0.0, abs=1e-12)


async def test_in_an_environment_with_two_axes_the_change_is_that_of_the_outcome(tmp_path: Path) -> None:
    words = ("eval", "eibench", "--user", "embedded", "--limit", "2", "-E", "max_turns=3", "--out", "run")
    assert heartloop(*words, "--model", "heartloop/counsellor", cwd=tmp_path).code == 0
    material = material_of(load_environment("eibench"), [tmp_path / "run"], judges=["embedded"])
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        done = await answer_all("noise", NOISE, material, "embedded", None, file)
    assert not done.failed
    assert not (tmp_path / "answers.jsonl").exists(), "its answers depend on weights and cost nothing"
    for dialogue in material.dialogues:
        course = material.spec.scale.course(dialogue)
        for turn in dialogue.turns:
            key = f"{dialogue_key(dialogue)}|{turn.index}|0"
            assert done.answers[key]["change"] == pytest.approx(course[turn.index + 1] - course[turn.index], abs=1e-5)


def test_a_judgement_counts_only_for_the_judges_prompts(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [one.fingerprint for one in NOISE.questions(material, {})]
    monkeypatch.setattr("heartloop.validity.noise.judged_prompts", lambda *of: {"feel": "another hash"})
    after = [one.fingerprint for one in NOISE.questions(material, {})]
    assert len(before) == len(after) > 0
    assert not set(before) & set(after)


async def test_a_training_plan_states_the_noise(material: Material, tmp_path: Path) -> None:
    answers = await answers_of(Judge(), material, tmp_path / "answers.jsonl")
    file = tmp_path / "validity.json"
    file.write_text(json.dumps({"noise": NOISE.result(material, {"lab/judge": answers}).record}))
    said = noise_of(file, "lab/judge")
    turns = sum(len(one.turns) for one in material.dialogues) / len(material.dialogues)
    assert f"SD {math.sqrt(turns * 6.4):.2g}" in said
    assert "90.0 %" in said
    with pytest.raises(InputError, match=r"noise of lab/judge; expected openai/gpt"):
        noise_of(file, "openai/gpt")
    file.write_text('{"noise": {"lab/judge": {}}}')
    with pytest.raises(InputError, match="heartloop validate"):
        noise_of(file, "lab/judge")
    with pytest.raises(InputError, match="cannot read"):
        noise_of(tmp_path / "none.json", "lab/judge")


def test_what_the_suite_lacks(material: Material) -> None:
    assert NOISE.lacks(material) is None
    assert "--judge" in str(NOISE.lacks(material._replace(judges=())))
    assert "--scenarios" in str(NOISE.lacks(material._replace(scenarios={})))
    assert "one stored reply" in str(NOISE.lacks(material._replace(spec=load_environment("stances"))))
