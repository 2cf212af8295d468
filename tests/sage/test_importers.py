"""Released profiles become a scenario file: nothing is lost, and an invalid record is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.errors import InputError
from heartloop.environments.records import write_records
from heartloop.environments.report import published
from heartloop.environments.sage.importers import read_profiles
from heartloop.environments.sage.scenario import INTENTIONS, SageReleasedScenario, intention_of, load_set
from tests.released_form import TASKS, log, profile, write


def test_nothing_of_a_record_is_lost(tmp_path: Path) -> None:
    records = [profile(0), profile(1, first=None), profile(2, extra={"score": 1.5, "more": [None, "嗯"]})]
    imported = read_profiles(write(tmp_path / "test.jsonl", records))
    write_records(tmp_path / "out" / "imported.jsonl", imported.scenarios, exclude_unset=True)
    assert imported.notes == [
        "1 of them have no first message (record.first_talk); a model as user simulator writes it in each dialogue."
    ]
    written = [json.loads(line) for line in (tmp_path / "out" / "imported.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["record"] for line in written] == records
    assert {line["form"] for line in written} == {"sage-released/1"}
    assert {line["source"] for line in written} == {"test.jsonl"}
    back = load_set(str(tmp_path / "out" / "imported.jsonl"))
    released = [scenario for scenario in back if isinstance(scenario, SageReleasedScenario)]
    assert [scenario.record.model_dump(exclude_unset=True, mode="json") for scenario in released] == records


@pytest.mark.parametrize("slot", ["player", "scene", "task", "first_talk"])
def test_the_fingerprint_changes_with_every_word_a_simulator_is_told(slot: str, tmp_path: Path) -> None:
    one, other = read_profiles(write(tmp_path / "test.jsonl", [profile(0), profile(0) | {"id": "x", slot: "别的"}])).scenarios
    assert one.fingerprint != other.fingerprint


def test_the_eight_meanings_in_chinese_and_as_printed_with_the_published_counts() -> None:
    assert {key: intention_of(task) for key, task in TASKS.items()} == {key: INTENTIONS[key] for key in TASKS}
    printed = {
        intention_of(str(row["topic"])).key: row["test_count"]
        for row in published("heartloop.environments.sage", "sage_table03_topics")
    }
    assert printed == {key: row.cases for key, row in INTENTIONS.items() if row.family == "support"}


@pytest.mark.parametrize("task", ["", "想聊聊爱好", "想要建议，也想反思", "对方赞同就好"])
def test_no_meaning_or_two_give_no_key(task: str) -> None:
    assert intention_of(task).key == task


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({k: v for k, v in profile(1).items() if k != "scene"}, r"line 2, scene: Field required"),
        (profile(1, cha_group="固执"), r"line 2, cha_group: "),
        (profile(1, id=7), r"line 2, id: "),
        (profile(0), r"line 2: id '0000-0000' is already on line 1"),
        (log(1, [40, 45]), r"line 2 is a dialogue, not a profile; use `heartloop import sage-logs"),
        ({"form": "sage-released/1"}, r"line 2 was imported before"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(record: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", [profile(0), record])
    with pytest.raises(InputError, match=said) as refused:
        read_profiles(path)
    assert str(refused.value).startswith(str(path))
