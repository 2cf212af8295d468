"""What the auditor of written scenarios may do: correct, and nothing else.

1. A correction changes one value that is there, to one of the same kind; texts keep half of their words. It is told.
2. More than that (another id, a new field, a rewritten text, another person) is refused with the field's name.
3. The auditor is told and asked again; what still overreaches is an error, never half applied. All rules hold afterwards.
4. Verdicts on duplicates name the scenarios that were shown, or are asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.authoring.writing import Correction, audit, corrected, repeated
from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import AnswerError
from heartloop.environments.eibench.scenario import load_scenarios
from heartloop.environments.eibench.writing import EIBenchWriting

WRITING = EIBenchWriting()
SCENARIO = load_scenarios("test")[0].model_dump(mode="json")
BLANKS = {"looked_for": "- nothing", "field": "tags", "value": "[]", "tags": "none"}
SAID = "That was wrong there."


def one(field: str, value: Any) -> Correction:
    return Correction(field=field, value=value, reason=SAID)


# 1. corrections


def test_a_number_a_text_and_the_tags_are_corrected_and_the_rest_stays() -> None:
    rule = SCENARIO["user"]["rules"][1]
    after, problem = corrected(
        SCENARIO, [one("anchors.a.success", 15), one("user.rules.1", rule + " Always."), one("tags", ["death"])], WRITING.fixed
    )
    assert problem == ""
    assert after is not None
    assert after.scenario["anchors"]["a"]["success"] == 15
    assert after.scenario["user"]["rules"][1] == rule + " Always."
    assert [change["field"] for change in after.changed] == ["anchors.a.success", "user.rules.1", "tags"]
    assert after.changed[0] == {"field": "anchors.a.success", "from": 10, "to": 15, "reason": SAID}
    restored = json.loads(json.dumps(after.scenario))
    restored["anchors"]["a"]["success"], restored["user"]["rules"][1], restored["tags"] = 10, rule, SCENARIO["tags"]
    assert restored == SCENARIO


def test_a_correction_to_what_stands_there_is_no_change() -> None:
    after, _ = corrected(SCENARIO, [one("anchors.a.success", 10)], WRITING.fixed)
    assert after is not None
    assert after.changed == []


# 2. more than corrections


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("id", "charm-flatmate-02", "id is not the auditor's to change"),
        ("scene", "defense", "scene is not the auditor's"),
        ("seed.intensity", "faint", "seed.intensity is not the auditor's"),
        ("user.name", "Defne Aksu", "user.name is not the auditor's"),
        ("user.age", 28, "user.age is not the auditor's"),
        ("concerns.0.key", "glass", "concerns.0.key is not the auditor's"),
        ("beats.2.kind", "core", "beats.2.kind is not the auditor's"),
        ("user.secret", "She sold the flat.", "there is no field 'user.secret'"),
        ("user.rules.4", "Shouts.", "there is no field 'user.rules.4'"),
        ("user.rules.-1", "Shouts.", "there is no field"),
        ("user", "somebody else", "no single value"),
        ("user.rules", ["a", "b", "c"], "no single value"),
        ("opening", "Hello.", "no single value"),
        ("anchors.a.start", "45", "anchors.a.start is int, and the correction is str"),
        ("title", 7, "title is str, and the correction is int"),
        ("title", "Something else altogether happened here", "title is written anew"),
        ("user.background", "A new fact replaces all that was told of her life so far.", "is written anew"),
        ("tags", "death", "expected the whole list"),
    ],
)
def test_more_than_a_correction_is_refused_with_its_field(field: str, value: Any, said: str) -> None:
    after, problem = corrected(SCENARIO, [one("anchors.a.success", 15), one(field, value)], WRITING.fixed)
    assert after is None
    assert said in problem


def test_half_of_the_words_have_to_stay() -> None:
    """Four words against three: two stay, 2 * 2 / 7 = 0.57; one stays, 2 * 1 / 7 = 0.29."""
    assert corrected({"text": "ab cd ef gh"}, [one("text", "ab cd xy")], [])[0] is not None
    assert corrected({"text": "ab cd ef gh"}, [one("text", "ab xy zz")], [])[1] == (
        "text is written anew (29% of the words stay, expected 50%)"
    )


@given(
    st.text(max_size=30) | st.lists(st.sampled_from(["user", "rules", "anchors", "a", "start", "0", "99", ""])).map(".".join),
    st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3),
)
def test_whatever_is_asked_for_what_is_fixed_stays_and_no_field_comes_or_goes(field: str, value: Any) -> None:
    if len(field) < 2:
        field = "id"
    after, problem = corrected(SCENARIO, [one(field, value)], WRITING.fixed)
    assert (after is None) == bool(problem)
    if after is not None:
        assert {name: after.scenario[name] for name in ("id", "scene", "seed", "place")} == {
            name: SCENARIO[name] for name in ("id", "scene", "seed", "place")
        }
        assert shape(after.scenario | {"tags": []}) == shape(SCENARIO | {"tags": []})


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value)


# 3. asking


def problem_of(scenario: Mapping[str, Any]) -> str:
    start = scenario["anchors"]["a"]["start"]
    return f"start is {start}" if start % 5 else ""


def said(*corrections: tuple[str, Any]) -> str:
    return json.dumps({"corrections": [{"field": field, "value": value, "reason": SAID} for field, value in corrections]})


async def audited(*answers: str) -> tuple[Any, ScriptedChat, list[str]]:
    chat, problems = ScriptedChat(answers, name="auditor"), list[str]()
    found = await audit(
        SCENARIO, lambda of, prompt: chat, blanks=BLANKS, fixed=WRITING.fixed, problem_of=problem_of,
        on_refusal=lambda problem, nth: problems.append(problem),
    )  # fmt: skip
    return found, chat, problems


async def test_nothing_wrong_changes_nothing() -> None:
    found, chat, _ = await audited(said())
    assert found.scenario == SCENARIO
    assert found.changed == []
    assert "you may correct what is wrong, and nothing else" in chat.asked[0][0].content


async def test_an_auditor_that_does_more_is_told_and_may_mend_it() -> None:
    found, chat, problems = await audited(
        said(("title", "A whole new title"), ("anchors.a.start", 50)), said(("anchors.a.start", 50))
    )
    assert found.scenario["title"] == SCENARIO["title"]
    assert found.scenario["anchors"]["a"]["start"] == 50
    assert len(problems) == 1
    assert "you may only correct" in problems[0]
    assert problems[0] in chat.asked[1][-1].content


async def test_a_correction_that_breaks_a_rule_is_refused() -> None:
    found, _, problems = await audited(said(("anchors.a.start", 47)), said())
    assert found.changed == []
    assert problems == ["the corrected scenario breaks a rule: start is 47"]


async def test_an_auditor_that_insists_is_an_error() -> None:
    with pytest.raises(AnswerError, match="not the auditor's to change"):
        await audited(*[said(("id", "charm-mine-01"))] * 3)


# 4. duplicates


async def verdict(*answers: dict[str, Any]) -> tuple[list[str], str]:
    chat = ScriptedChat([json.dumps(answer) for answer in answers], name="auditor")
    return await repeated(SCENARIO, {"charm-a-01": "one", "charm-b-01": "two"}, lambda of, prompt: chat)


async def test_a_verdict_names_scenarios_that_were_shown() -> None:
    assert await verdict({"shared": "a bench", "repeats": []}) == ([], "a bench")
    bad, good = {"shared": "a bench", "repeats": ["charm-z-01"]}, {"shared": "a bench", "repeats": ["charm-b-01"]}
    assert await verdict(bad, good) == (["charm-b-01"], "a bench")
    with pytest.raises(AnswerError, match=r"repeats names 'charm-z-01', expected ids out of charm-a-01, charm-b-01"):
        await verdict(bad, bad, bad)
