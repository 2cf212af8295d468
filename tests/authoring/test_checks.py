"""What a whole set of scenarios must pass before it ships."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from heartloop.authoring.checks import NEAR_DUPLICATE, problems_of_set, similarity
from heartloop.core.errors import UseError
from heartloop.environments.sage.scenario import SCENARIOS, SageScenario, load_scenarios

ONE, TWO, THREE = load_scenarios("support")[:3]


def plain(scenario: SageScenario) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(scenario.model_dump_json())
    return found


def changed(scenario: SageScenario, **changes: Any) -> SageScenario:
    return SageScenario.model_validate(plain(scenario) | changes)


def test_without_scikit_learn_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UseError, match=r"scikit-learn.*\[authoring\]"):
        problems_of_set(SCENARIOS, [ONE, TWO])


def test_a_scenarios_own_problem_is_named_with_its_id() -> None:
    lines = plain(TWO)["lines"]
    lines["leave"][0] = "I have had enough of this for one evening."
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, lines=lines), THREE])
    assert problem.startswith(f"{TWO.id}: closing line has no goodbye")


def test_the_same_story_under_another_id_is_a_near_duplicate() -> None:
    persona = plain(ONE)["persona"] | {"name": "Adaeze Eze"}
    problems = problems_of_set(SCENARIOS, [ONE, TWO, changed(ONE, id="support-dialectic-99", persona=persona)])
    assert f"{ONE.id} and support-dialectic-99 are near-duplicates (cosine 1.00)" in problems
    assert not any(TWO.id in problem for problem in problems)


def test_namesakes_of_the_same_trade_are_refused_whatever_the_case_of_letters() -> None:
    persona = plain(TWO)["persona"]
    persona |= {"name": ONE.persona.name.upper(), "occupation": ONE.persona.occupation.capitalize()}
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, persona=persona)])
    assert "2 people of the same name and occupation" in problem


@pytest.mark.parametrize("slot", ["name", "occupation"])
def test_sharing_only_the_name_or_only_the_trade_is_allowed(slot: str) -> None:
    persona = plain(TWO)["persona"] | {slot: getattr(ONE.persona, slot)}
    assert problems_of_set(SCENARIOS, [ONE, changed(TWO, persona=persona)]) == []


def test_a_line_two_people_say_is_refused_punctuation_and_case_aside() -> None:
    lines = plain(TWO)["lines"]
    lines["cold"][0] = ONE.lines.cold[1].upper().replace(".", "!")
    (problem,) = problems_of_set(SCENARIOS, [ONE, changed(TWO, lines=lines)])
    assert problem.startswith(f"{TWO.id} and {ONE.id} both say ")


def test_similarity_is_the_cosine_of_character_n_grams() -> None:
    likeness = similarity(["the boat sank on sunday", "the boat sank on sunday", "zyx wvu"])
    assert likeness[0, 1:] == pytest.approx([1.0, 0.0])
    sentence = "My brother {} sold our father's boat without telling me, and I heard of it from the harbour master."
    assert similarity([sentence.format("Anton"), sentence.format("Mehmet")])[0, 1] > NEAR_DUPLICATE
