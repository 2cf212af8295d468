"""What the auditor of written scenarios may do: correct, and nothing else. How it is asked: `test_writing`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.authoring.writing import Correction, corrected
from heartloop.core.errors import InputError
from heartloop.environments.eibench.scenario import load_scenarios
from heartloop.environments.eibench.writing import EIBenchWriting

FIXED = EIBenchWriting.fixed
SCENARIO = load_scenarios("test")[0].model_dump(mode="json")
SAID = "That was wrong there."


def one(field: str, value: Any) -> Correction:
    return Correction(field=field, value=value, reason=SAID)


def test_a_number_a_text_and_the_tags_are_corrected_and_the_rest_stays() -> None:
    rule = SCENARIO["user"]["rules"][1]
    after = corrected(
        SCENARIO, [one("anchors.a.success", 15), one("user.rules.1", rule + " Always."), one("tags", ["death"])], FIXED
    )
    assert after.scenario["anchors"]["a"]["success"] == 15
    assert after.scenario["user"]["rules"][1] == rule + " Always."
    assert [change["field"] for change in after.changed] == ["anchors.a.success", "user.rules.1", "tags"]
    assert after.changed[0] == {"field": "anchors.a.success", "from": 10, "to": 15, "reason": SAID}
    restored = json.loads(json.dumps(after.scenario))
    restored["anchors"]["a"]["success"], restored["user"]["rules"][1], restored["tags"] = 10, rule, SCENARIO["tags"]
    assert restored == SCENARIO


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("id", "charm-flatmate-02", "id is not the auditor's to change"),
        ("seed.intensity", "faint", "seed.intensity is not the auditor's"),
        ("user.name", "Defne Aksu", "user.name is not the auditor's"),
        ("concerns.0.key", "glass", "concerns.0.key is not the auditor's"),
        ("user.secret", "She sold the flat.", "there is no field 'user.secret'"),
        ("user.rules.-1", "Shouts.", "there is no field"),
        ("user", "somebody else", "no single value"),
        ("user.rules", ["a", "b", "c"], "no single value"),
        ("anchors.a.start", "45", "anchors.a.start is int, and the correction is str"),
        ("title", 7, "title is str, and the correction is int"),
        ("title", "Something else altogether happened here", "title is written anew"),
        ("tags", "death", "expected the whole list"),
    ],
)
def test_more_than_a_correction_is_refused_with_its_field(field: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        corrected(SCENARIO, [one("anchors.a.success", 15), one(field, value)], FIXED)


def test_half_of_the_words_have_to_stay() -> None:
    """Four words against three: two stay, 2 * 2 / 7 = 0.57; one stays, 2 * 1 / 7 = 0.29."""
    assert corrected({"text": "ab cd ef gh"}, [one("text", "ab cd xy")], []).changed
    with pytest.raises(InputError, match=r"29% of the words stay, expected 50%"):
        corrected({"text": "ab cd ef gh"}, [one("text", "ab xy zz")], [])


@given(
    st.text(max_size=30) | st.lists(st.sampled_from(["user", "rules", "anchors", "a", "start", "0", "99", ""])).map(".".join),
    st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3),
)
def test_whatever_is_asked_for_what_is_fixed_stays_and_no_field_comes_or_goes(field: str, value: Any) -> None:
    try:
        after = corrected(SCENARIO, [one(field if len(field) > 1 else "id", value)], FIXED).scenario
    except InputError:
        return
    assert [after[name] for name in ("id", "scene", "seed", "place")] == [
        SCENARIO[name] for name in ("id", "scene", "seed", "place")
    ]
    assert shape(after | {"tags": []}) == shape(SCENARIO | {"tags": []})


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value)
