"""The importer of EIBench's released files: each record whole, or refused with its reason."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.eibench.composer import load_set
from heartloop.environments.eibench.importers import read_released
from heartloop.environments.eibench.scoring import outcome
from heartloop.environments.importing import Imported
from heartloop.environments.records import write_records
from tests.released_eibench import record


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return path


def imported(tmp_path: Path, *values: Any, name: str = "data.json") -> Imported:
    return read_released(put(tmp_path / name, json.dumps(list(values), ensure_ascii=False)))


def only_reason(found: Imported) -> str:
    assert found.scenarios == []
    [refused] = found.refused
    return f"{refused.place}: {refused.reason}"


TWO = [record(0), record(1, scene_tag="support")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TWO),
        json.dumps(TWO, indent=2, ensure_ascii=False),
        "".join(json.dumps(one) + "\n" for one in TWO),
        "\n\n".join(json.dumps(one, ensure_ascii=False) for one in TWO),
        "\ufeff" + json.dumps(TWO),
    ],
    ids=["list", "list on many lines", "lines", "lines with gaps, no end", "byte order mark"],
)
def test_lists_and_lines(text: str, tmp_path: Path) -> None:
    result = read_released(put(tmp_path / "data.json", text))
    assert [(s.id, s.scene) for s in result.scenarios] == [("scene_defense_00", "defense"), ("scene_defense_01", "support")]
    assert result.refused == []


def test_a_folder_with_files_of_one_object(tmp_path: Path) -> None:
    put(tmp_path / "notes.txt", "no record")
    with pytest.raises(InputError, match="no released file"):
        read_released(tmp_path)
    put(tmp_path / "b.jsonl", json.dumps(record(2)))
    put(tmp_path / "a.json", json.dumps(record(1), indent=2))
    assert [s.source for s in read_released(tmp_path).scenarios] == ["a.json, record 1", "b.jsonl, record 1"]


def test_nothing_of_a_record_is_lost(tmp_path: Path) -> None:
    odd = record(3, title=None, initial_anger=62.5, success_criteria={"a": [1, None]}, extra={"tief": [True, 1e-9, "x"]})
    result = imported(tmp_path, odd, record(4))
    write_records(tmp_path / "out.jsonl", result.scenarios, exclude_unset=True)
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["record"] for line in lines] == [odd, record(4)]
    assert load_set(str(tmp_path / "out.jsonl")) == result.scenarios


class TestRefused:
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"id": 5}, "id: is a number; expected text"),
            ({"id": " "}, "id: is ' '; expected a text that is not blank"),
            ({"system_prompt": ""}, "aggressor_profile.system_prompt: is ''; expected a text that is not blank"),
            ({"initial_anger": "75"}, "initial_calibration.initial_anger: is '75'; expected a number from 0 to 100"),
            ({"target_trust": True}, "rub_goals.target_trust: is True; expected a number from 0 to 100"),
            ({"worst_anger_min": 101}, "worst_case.worst_anger_min: is 101; expected a number from 0 to 100"),
            ({"worst_case": {"worst_anger_min": 95}}, "worst_case.worst_trust_min: is missing"),
            ({"scene_tag": "war"}, "scene_tag: is 'war'; expected one of charm, defense, repair, support"),
            ({"opening_line": None}, "aggressor_profile.opening_line is missing; expected"),
            ({"rub_goals": 7}, "rub_goals: is a number; expected"),
            ({"form": "eibench-released/1"}, "the record was imported before"),
        ],
    )
    def test_with_field_value_and_what_was_expected(self, more: dict[str, Any], said: str, tmp_path: Path) -> None:
        assert f"data.json, record 1: {said}" in only_reason(imported(tmp_path, record(0, **more)))

    @pytest.mark.parametrize(
        ("more", "axis"),
        [
            ({"target_anger": 75}, "a are start 75 (initial_calibration), success 75 (rub_goals)"),
            ({"worst_anger_min": 75}, "a are start 75"),
            ({"target_anger": 80}, "a are start 75"),  # success and failure both above the start
            ({"worst_trust_min": 20}, "t are start 15"),
        ],
    )
    def test_anchors_that_leave_a_score_undefined(self, more: dict[str, Any], axis: str, tmp_path: Path) -> None:
        said = only_reason(imported(tmp_path, record(0, **more)))
        assert f"anchors of {axis}" in said
        assert "expected success and fail on two sides of the start, or the score is undefined" in said

    def test_a_record_that_is_refused_stops_no_other(self, tmp_path: Path) -> None:
        found = imported(tmp_path, 7, record(1), [], record(2, scene_tag=""), record(3), record(1))
        assert [s.id for s in found.scenarios] == ["scene_defense_01", "scene_defense_03"]
        assert [refused.place for refused in found.refused] == [f"data.json, record {n}" for n in (1, 3, 4, 6)]
        assert "id: 'scene_defense_01' is already in data.json, record 2" in found.refused[-1].reason

    def test_broken_lines(self, tmp_path: Path) -> None:
        good = json.dumps(record(1)).encode()
        found = read_released(put(tmp_path / "data.jsonl", b"\n".join([b"{", good, b'{"id": "\xff"}', b"NaN"])))
        assert [s.source for s in found.scenarios] == ["data.jsonl, line 2"]
        places, reasons = zip(*found.refused, strict=True)
        assert places == ("data.jsonl, line 1", "data.jsonl, line 3", "data.jsonl, line 4")
        assert "not JSON" in reasons[0]
        assert "not UTF-8" in reasons[1]
        assert "not JSON" in reasons[2]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (json.dumps([record(1)], indent=1)[:-30], "data.json: not JSON"),
            (b"[" * 100_000, "not JSON"),
            (b"", "not JSON"),
            ('[{"id": 1' + "0" * 5000 + "}]", "not JSON"),
            ('[{"id": 1e999}]', "record.id: inf; expected a finite number"),
        ],
        ids=["cut", "deep", "empty", "long number", "infinite"],
    )
    def test_a_broken_file_is_one_refusal(self, text: str | bytes, said: str, tmp_path: Path) -> None:
        assert said in only_reason(read_released(put(tmp_path / "data.json", text)))

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"cannot read .*none.json"):
            read_released(tmp_path / "none.json")


def test_odd_anchors_are_kept_and_counted(tmp_path: Path) -> None:
    odd = [
        record(0, target_anger=72),
        record(1, initial_trust=14.5),
        record(2, initial_anger=40, target_anger=60, worst_anger_min=5),
    ]
    found = imported(tmp_path, record(3), *odd)
    assert [s.odd_anchors for s in found.scenarios] == [False, True, True, True]
    assert found.counts["odd anchors"] == 3
    assert found.scenarios[1].axes[0] == (75, 72, 95)


def test_who_begins(tmp_path: Path) -> None:
    found = imported(
        tmp_path, record(0, scene_tag="charm", opening_line=""), record(1, scene_tag="Charm", opening_line="又来了？"), record(2)
    )
    assert [s.opening for s in found.scenarios] == [None, "又来了？", "就差五分钟，你就不能等等吗？"]
    assert found.counts["charm openings"] == 1


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-200, 200)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["charm", "defense"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_SLOTS = [
    "id", "system_prompt", "opening_line", "initial_anger", "target_trust", "worst_case", "rub_goals", "scene_tag", "new",
    "title",
]  # fmt: skip
_RECORDS = st.dictionaries(st.sampled_from(_SLOTS), _JSON, max_size=3).map(lambda more: record(0, **more)) | _JSON


@given(values=st.lists(_RECORDS, max_size=3), lines=st.booleans(), cut=st.integers(0, 60))
def test_whatever_it_holds_a_record_is_taken_or_refused(
    values: list[Any], lines: bool, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    whole = "".join(json.dumps(one) + "\n" for one in values) if lines else json.dumps(values)
    found = read_released(put(folder / "any.json", whole[: len(whole) - cut] if cut > 40 else whole))
    json_objects = [
        one for one in values if isinstance(one, dict) and not {"Infinity", "NaN"} & set(re.findall(r"\w+", json.dumps(one)))
    ]
    if cut <= 40 and (not lines or (len(values) > 1 and json_objects)):  # without one, it is no file of JSON lines
        assert len(found.scenarios) + len(found.refused) == len(values)
    assert all(len(reason) > 10 for _, reason in found.refused)
    if found.scenarios:
        write_records(folder / "out.jsonl", found.scenarios, exclude_unset=True)
        assert load_set(str(folder / "out.jsonl")) == found.scenarios
    for scenario in found.scenarios:
        for a, t in ((0.0, 100.0), (100.0, 0.0), (50.0, 50.0)):
            assert math.isfinite(outcome(a, t, *scenario.axes))
