"""Rescoring: the scores of a run computed again with other options, without a model call."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import StopReason, Transcript, Turn, read_transcripts
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.environments.sage.environment import SageOptions
from heartloop.evaluation.rescoring import rescore_run
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.evaluation.store import RunDirectory


def settings(preset: str) -> EvaluationSettings:
    return EvaluationSettings(
        environment="sage", models=("m",), roles={"user": "embedded"},
        options=SageOptions(preset=preset, max_turns=2).model_dump(),
        scenario_set="support", scenarios={"a": "1", "b": "2", "c": "3"},
    )  # fmt: skip


def talk(scenario: str, preset: str, changes: tuple[float | None, ...], stop: StopReason, last: str | None) -> Transcript:
    emotion, turns = 40.0, []
    for index, change in enumerate(changes):
        emotion += change or 0.0
        felt = None if change is None else {"emotion": emotion}
        turns.append(Turn(index=index, reply="I see.", state=felt, change=felt and {"emotion": change or 0.0}, message="Hm."))
    turns[-1] = turns[-1].model_copy(update={"message": last})
    return Transcript(
        environment="sage", scenario=scenario, fingerprint="1", model="m", preset=preset, user="embedded", opening="Hi",
        start={"emotion": 40.0}, turns=tuple(turns), stop=stop, score=emotion,
    )  # fmt: skip


@pytest.fixture
def corrected(tmp_path: Path) -> Path:
    with RunDirectory(tmp_path / "run", settings("corrected")) as run:
        run.append(talk("a", "corrected", (9, 9), "turn_limit", None))  # released: 49
        run.append(talk("b", "corrected", (-8,), "goodbye", "Enough."))  # released: not played on
        for scenario in ("c", *map(str, range(17))):  # so that one of 20 is lost
            run.append(talk(scenario, "corrected", (7,), "goodbye", "Bye."))  # released: the same
        run.note(started="2025-11-20T08:00:00+00:00")
    return tmp_path / "run"


def read(path: Path) -> list[Transcript]:
    return list(read_transcripts(path / "transcripts.jsonl"))


def saved(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "settings.json").read_text(encoding="utf-8"))
    return found


def test_to_released_worked_by_hand(corrected: Path) -> None:
    before = {file: file.read_bytes() for file in corrected.iterdir()}
    done = rescore_run(corrected, options={"preset": "released"})
    assert done.path == corrected.with_name("run-released")
    assert [(d.score, d.stop, d.preset) for d in read(done.path)[:3]] == [
        (49.0, "turn_limit", "released"),
        (None, "failed", "released"),
        (47.0, "goodbye", "released"),
    ]
    assert (done.dialogues, done.changed, done.unscored, done.gained) == (20, 1, {"not played on": 1}, 0)
    assert {file: file.read_bytes() for file in corrected.iterdir()} == before
    found = saved(done.path)
    digest = hashlib.sha256((corrected / "transcripts.jsonl").read_bytes()).hexdigest()
    options = SageOptions(max_turns=2).model_dump()
    assert found["rescored"] == {"from": str(corrected), "preset": "corrected", "transcripts": digest, "options": options}
    assert found["options"] == options | {"preset": "released"}
    assert (done.path / "log.jsonl").read_bytes() == (corrected / "log.jsonl").read_bytes()
    with pytest.raises(SettingsMismatch, match="rescored differ"), RunDirectory(done.path, settings("released")):
        pass
    with pytest.raises(UseError, match="was itself rescored"):
        rescore_run(done.path, options={"preset": "corrected"})


def test_a_run_is_not_rescored_if_too_many_dialogues_would_be_lost_and_rejudge_is_named(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "run", settings("released")) as run:
        run.append(talk("a", "released", (9, None), "turn_limit", None))
        run.append(talk("b", "released", (9, None), "turn_limit", None))
    with pytest.raises(UseError, match=r"2 of 2 .*last reply was not judged.*rejudge .*-E preset=corrected"):
        rescore_run(tmp_path / "run", tmp_path / "out", options={"preset": "corrected"})
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_other_bounds_change_no_transcript(corrected: Path) -> None:
    done = rescore_run(corrected, options={"success_at": 55, "failure_below": 33})
    assert done.path == corrected.with_name("run-success_at-55-failure_below-33")
    assert (done.path / "transcripts.jsonl").read_bytes() == (corrected / "transcripts.jsonl").read_bytes()
    assert saved(done.path)["options"] == SageOptions(max_turns=2, success_at=55, failure_below=33).model_dump()
    assert (done.changed, done.copied) == (0, False)
    assert rescore_run(corrected, options={"preset": "corrected"}).copied


def test_what_makes_no_sense_is_refused(corrected: Path, tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "-E"), ({"preset": "best"}, "preset"), ({"success_at": 5}, "failure_below"), ({"max_turns": 1}, "max_turns"),
        ({"relation_weight": 0.5}, "'relation_weight'"),
    ]  # fmt: skip
    for options, named in wrong:
        with pytest.raises(UseError, match=named):
            rescore_run(corrected, options=options)
    with pytest.raises(UseError, match="exists and is not empty"):
        rescore_run(corrected, corrected, options={"preset": "released"})
    with pytest.raises(InputError, match="none is no run directory"):
        rescore_run(tmp_path / "none", options={"preset": "released"})
    odd = saved(corrected)
    del odd["options"]["max_turns"]
    (corrected / "settings.json").write_text(json.dumps(odd))
    with pytest.raises(InputError, match="max_turns"):
        rescore_run(corrected, options={"preset": "released"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
