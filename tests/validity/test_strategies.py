"""Support strategies of replies, by the embedded reader and by judges (SAGE, Table 4 and Appendix G)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

from heartloop.core.prompts import load_prompt
from heartloop.environments.suites import Material
from heartloop.reader.aspects import STRATEGIES
from heartloop.validity.strategies import READER, STRATEGIES_SUITE, f1, labels_by_judge, labels_by_reader, shares
from heartloop.validity.suites import dialogue_key, items_of
from tests.validity.judges import Judge, ask


def passage(*strategies: str) -> dict[str, Any]:
    return {"begins": "So", "says": "it asks", "how": "as a question", "groups": "A: it asks", "strategies": list(strategies)}


ALIKE = {"passages": [passage("A-1", "A-4"), passage("A-1", "F-5")]}


async def test_a_judge_reads_each_reply_and_every_strategy(material: Material, tmp_path: Path) -> None:
    judge = Judge(lambda *_: ALIKE)
    answers = (await ask(STRATEGIES_SUITE, material, judge, tmp_path / "answers.jsonl")).answers
    spoken = sum(bool(turn.reply.strip()) for one in material.dialogues for turn in one.turns)
    assert len(judge.prompts) == len(answers) == spoken
    assert re.findall(r"^([A-G]-\d): ", judge.prompts[0], re.MULTILINE) == list(STRATEGIES)
    labels = labels_by_judge(material.dialogues, answers)
    assert set(labels.values()) == {frozenset({"A", "F", "A-1", "A-4", "F-5"})}
    used = shares(material.dialogues, labels)
    assert {name for name, one in used.items() if one and one.mean == 100.0} == {"A", "F", "A-1", "A-4", "F-5"}
    assert {one.mean for one in used.values() if one} == {0.0, 100.0}


async def test_a_deeper_empathy_excludes_a_shallower_one_in_its_passage(counsellor: Material, tmp_path: Path) -> None:
    """SAGE, Appendix G: B-2 excludes B-1, and B-3 both; another passage may still have them."""
    given = {"passages": [passage("B-1", "B-2", "D-1"), passage("B-3", "B-2")]}
    judge = Judge(lambda *_: given)
    answers = (await ask(STRATEGIES_SUITE, counsellor, judge, tmp_path / "answers.jsonl")).answers
    assert set(labels_by_judge(counsellor.dialogues, answers).values()) == {frozenset({"B", "B-2", "B-3", "D", "D-1"})}


def test_every_strategy_has_an_example_and_the_worked_one_keeps_the_rules() -> None:
    described = items_of("strategies")
    assert list(described) == list(STRATEGIES)
    assert all(re.search("“[^”]{15,}”$", text) for text in described.values())
    worked = re.search(
        r'^\{"passages".*?\]\}\]\}$', load_prompt("heartloop.validity", "strategies").text, re.MULTILINE | re.DOTALL
    )
    assert worked is not None
    assert [one["strategies"] for one in json.loads(worked[0])["passages"]] == [["B-2"], ["F-4"], ["A-1"]]


async def test_an_unknown_strategy_is_no_answer(counsellor: Material, tmp_path: Path) -> None:
    judge = Judge(lambda *_: {"passages": [passage("H-1")]})
    answers = (await ask(STRATEGIES_SUITE, counsellor, judge, tmp_path / "answers.jsonl")).answers
    result = STRATEGIES_SUITE.result(counsellor, {judge.name: answers})
    assert answers == {}
    assert list(result.record["shares"]) == [READER]
    assert any("labelled no reply" in note for note in result.notes)


def test_agreement_is_over_the_replies_that_both_labelled(material: Material) -> None:
    reader = labels_by_reader(material.dialogues)
    copied = {key: {"passages": [passage(one) for one in names & set(STRATEGIES)]} for key, names in reader.items()}
    answers = {"lab/same": copied, "lab/alike": dict.fromkeys(reader, ALIKE)}
    record = STRATEGIES_SUITE.result(material, answers).record["agreement"]
    same, other = record[f"{READER} and lab/same"], record[f"{READER} and lab/alike"]
    assert (same["all"]["f1"], same["all"]["alpha"]) == (1.0, 1.0)
    assert other["replies"] == other["A-1"]["second"] == len(reader)
    assert other["A-1"]["alpha"] <= 0, "a judge that labels all replies alike agrees by chance at best"
    assert f1([False], [False]) is None


def test_without_a_judge_the_reader_labels_alone(material: Material) -> None:
    shown = STRATEGIES_SUITE.result(material, {}).record["shares"]
    assert list(shown) == [READER]
    labels = labels_by_reader(material.dialogues)

    def supports(model: str) -> float:
        keys = [f"{dialogue_key(one)}|{turn.index}" for one in material.dialogues if one.model == model for turn in one.turns]
        return fmean(bool(labels[key]) for key in keys)

    assert supports("heartloop/hostile") < 0.3 < supports("heartloop/counsellor")


def test_a_language_that_the_reader_does_not_read_needs_a_judge(material: Material) -> None:
    german = "Das tut mir wirklich leid, erzähl mir bitte mehr davon."
    dialogues = tuple(
        one.model_copy(update={"turns": tuple(turn.model_copy(update={"reply": german}) for turn in one.turns)})
        for one in material.dialogues
    )
    assert labels_by_reader(dialogues) == {}
    assert "--judge" in (STRATEGIES_SUITE.lacks(material._replace(dialogues=dialogues, judges=())) or "")
    assert STRATEGIES_SUITE.lacks(material._replace(dialogues=dialogues)) is None
