"""Suite `perm`: the judges of one answer on every reply of other environments' dialogues (PERM, section 2 and Limitations)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import correlation
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Call, Message, Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.core.tags import tagged
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material, RunSuite
from heartloop.evaluation.store import stored_transcripts
from heartloop.scoring.statistics import pearson_interval
from heartloop.validity.suites import material_of, run_suites, suite_of
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer
from tests.validity.judges import ask, play

MARKS = dict.fromkeys(("relevant", "clear", "concise", "sober", "accurate"), 14)


class FourJudges:
    """Resonation 3, expression 4, the given reception, bystander 70; remembers what each was asked."""

    name = "lab/judge"

    def __init__(self, *reception: int) -> None:
        self.reception = list(reception)
        self.asked: list[tuple[str, str, str]] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        return Reply(tagged(self.answer(messages[0].content, messages[1].content), messages[-1].content))

    def answer(self, system: str, question: str) -> str:
        text = next(line for line in question.splitlines() if line.startswith("    | ")).removeprefix("    | ")
        answer: dict[str, Any] = {"reason": "so", "quote": text.split("\\n")[0]}
        asks = {
            "resonation": "understood one",
            "expression": "how a supporter",
            "reception": "You are the",
            "bystander": "stand by",
        }
        judge = next(name for name, words in asks.items() if words in system[:150])
        self.asked.append((judge, system, text))
        if judge == "bystander":
            answer |= {f"{name}_why": "so" for name in MARKS} | MARKS | {"overall": 70}
        else:
            answer["score"] = {"resonation": 3, "expression": 4, "reception": 0}[judge] or self.reception.pop(0)
        return json.dumps(answer)


def perm() -> RunSuite:
    suite = suite_of(load_environment("sage"), "perm")
    assert isinstance(suite, RunSuite)
    return suite


@pytest.fixture
def dialogue(counsellor: Material) -> Transcript:
    """Three replies; before the second the model thought something."""
    played = counsellor.dialogues[0]
    assert len(played.turns) == 3
    thought = Call(role="policy", purpose="reply", turn=1, text=f"<think>She is proud.</think>{played.turns[1].reply}")
    return played.model_copy(update={"calls": (thought,)})


async def test_every_reply_is_graded_with_resonation_only_where_the_model_thought(
    counsellor: Material, dialogue: Transcript, tmp_path: Path
) -> None:
    material, judge = counsellor._replace(dialogues=(dialogue,)), FourJudges(2, 2, 5)
    done = await ask(perm(), material, judge, tmp_path / "answers.jsonl")  # type: ignore[arg-type]
    assert (len(done.answers), done.failed, len(judge.asked)) == (3, {}, 10)
    record = perm().result(material, {judge.name: done.answers}).record[judge.name]
    # shares 4/5 and 2/5: 2 / (1.25 + 2.5) = 0.533; with 3/5: 3 / (3.75 + 1.667) = 0.554; 4/5 and 1: 0.889; less 0.5 * 0.3
    rewards = [100 * (2 / 3.75 - 0.15), 100 * (3 / (3.75 + 5 / 3) - 0.15), 100 * (2 / 2.25 - 0.15)]
    assert record["reward_by_turn"]["heartloop/counsellor"] == pytest.approx(rewards)
    means = {name: cell["mean"] for name, cell in record["models"]["heartloop/counsellor"].items()}
    assert means == pytest.approx({"reward": sum(rewards) / 3, "resonation": 3, "expression": 4, "reception": 3, "bystander": 70})
    assert (record["replies"], record["with_thoughts"]) == (3, 1)
    changes = [after - before for before, after in pairwise(material.spec.scale.course(dialogue))]
    assert record["pearson_change"]["reward"]["mean"] == pytest.approx(correlation(rewards, changes))
    assert record["pearson_change"]["expression"] is None, "it does not vary"


async def test_a_judge_reads_the_dialogue_before_and_the_thoughts_only_for_resonation(
    counsellor: Material, dialogue: Transcript, tmp_path: Path
) -> None:
    judge = FourJudges(2, 2, 2)
    await ask(perm(), counsellor._replace(dialogues=(dialogue,)), judge, tmp_path / "answers.jsonl")  # type: ignore[arg-type]
    first, second = judge.asked[0], judge.asked[3]
    assert (first[0], second[0]) == ("expression", "resonation")
    assert "The dialogue before" not in first[1]
    assert first[1].endswith((dialogue.opening or "?").strip())
    assert f"PERSON: {dialogue.opening}\nSUPPORTER: {dialogue.turns[0].reply}" in second[1]
    assert second[1].endswith((dialogue.turns[0].message or "").strip())
    assert [name for name, _, text in judge.asked if "She is proud." in text] == ["resonation"]
    assert not any("She is proud." in system for _, system, _ in judge.asked)
    scenario = counsellor.scenarios[dialogue.scenario]
    assert counsellor.spec.scenarios.text(scenario) in first[1]


async def test_the_reward_of_a_turn_is_correlated_with_what_the_person_felt_in_it(material: Material, tmp_path: Path) -> None:
    replies = sum(len(dialogue.turns) for dialogue in material.dialogues)
    judge = FourJudges(*(1 + place % 5 for place in range(replies)))
    done = await ask(perm(), material, judge, tmp_path / "answers.jsonl")  # type: ignore[arg-type]
    record = perm().result(material, {judge.name: done.answers}).record[judge.name]
    courses = [material.spec.scale.course(dialogue) for dialogue in material.dialogues]
    changes = [after - before for course in courses for before, after in pairwise(course)]
    receptions = [float(1 + place % 5) for place in range(replies)]
    assert record["pearson_change"]["reception"] == pytest.approx(pearson_interval(receptions, changes)._asdict())
    assert record["pearson_change"]["resonation"] is None
    assert set(record["models"]) == set(material.models)


async def test_where_the_model_speaks_first_its_first_reply_answers_nothing(tmp_path: Path) -> None:
    play(tmp_path, "reflector", limit=1, turns=2, environment="eibench")
    material = material_of(load_environment("eibench"), [tmp_path / "run"], judges=["lab/judge"])
    assert material.dialogues[0].opening is None
    judge = FourJudges(2, 2)
    await ask(perm(), material, judge, tmp_path / "answers.jsonl")  # type: ignore[arg-type]
    assert judge.asked[0][1].endswith("(Nothing yet: the supporter speaks first.)")
    assert "The dialogue before:\nSUPPORTER: " in judge.asked[3][1]


async def test_the_command_asks_three_calls_a_reply_and_prints_the_grades(place: Path) -> None:
    words = ("validate", "run", "--suite", "perm", "--judge", "lab/judge", "--limit", "1", "--yes", "--out", "graded")
    played = [one for one in stored_transcripts(place / "run") if one.scenario == "support-dialectic-01"]
    replies = sum(len(dialogue.turns) for dialogue in played)
    judge = FourJudges(*[2] * replies)
    async with FaultyServer(answer=lambda body: judge.answer(*(str(one["content"]) for one in body["messages"]))) as server:
        done = await over_http(server, *words, cwd=place)
        assert done.code == 0, done
        assert len(server.requests) == 3 * replies
        again = await over_http(server, *words, cwd=place)
        assert (again.code, len(server.requests)) == (0, 3 * replies), "rerunning asks nothing twice"
    assert all(heading in done.out for heading in ("Reward", "Resonation", "Expression", "Reception", "Bystander")), done
    assert json.loads((place / "graded" / "validity.json").read_text())["perm"]["lab/judge"]["replies"] == replies


def test_it_runs_by_name_only_and_not_on_its_own_answers(place: Path) -> None:
    assert "perm" not in run_suites(load_environment("sage"))
    lacking = heartloop("validate", "run", "--suite", "perm", cwd=place)
    assert (lacking.code, "it asks a judge" in lacking.err) == (2, True), lacking
    own = suite_of(load_environment("perm"), "perm")
    assert isinstance(own, RunSuite)
    material = Material(load_environment("perm"), (), {}, ("lab/judge",))
    assert "its own answers" in str(own.lacks(material))
    with pytest.raises(UseError, match="nearest is 'perm'"):
        suite_of(load_environment("sage"), "perms")
