"""Released EMPA results: imported whole, computed again, and compared with the released numbers.

The files have the form of the release, with invented dialogues; their numbers are worked out here in plain arithmetic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import read_transcripts
from heartloop.core.errors import InputError
from heartloop.environments.empa.environment import judged_dialogue
from heartloop.environments.empa.importers import Difference, ReleasedResult, by_model, differences, read_results
from heartloop.environments.empa.scoring import epmq, trace

Levels = Mapping[str, int]

UNJUDGED: Levels = {}
"""A turn without a judgement."""

IEDR = {"C.1": 1, "C.2": 1, "C.3": 2, "A.1": 2, "A.2": 2, "A.3": 1, "P.1": 1, "P.2": 1, "P.3": 0}
"""C 2 + 2 + 6 = 10, A 4 + 8 + 3 = 15, P 2 + 4 + 0 = 6."""

START = (-10, -15, -6)
_UP, _DOWN = {0: 0, 1: 1, 2: 3}, {"C": {0: 0, -1: -2, -2: -4}, "A": {0: 0, -1: -2, -2: -5}, "P": {0: 0, -1: -2, -2: -5}}


def result(forms: Sequence[Levels], *, model: str = "model-a", script: str = "script_007", **more: Any) -> dict[str, Any]:
    """One released dialogue: `forms` gives the levels of each turn, as `{"C": 1, "A": -2}`, or `UNJUDGED`."""
    r0 = math.sqrt(sum(x * x for x in START))
    towards = [-x / r0 for x in START]
    position, total = list(map(float, START)), 0.0
    trajectory: list[dict[str, Any]] = [
        {
            "turn": 0, "P_t": list(START), "v_t": [0, 0, 0], "distance": _away(position), "in_zone": False,
            "epm": {"P_norm": round(r0, 2), "E_total": 0.0, "projection": -round(r0, 2), "alignment": 0.0},
        }
    ]  # fmt: skip
    history = [{"role": "actor", "content": "今晚码头停电了。"}]
    for turn, levels in enumerate(forms, start=1):
        step = [_UP[max(levels.get(a, 0), 0)] + _DOWN[a][min(levels.get(a, 0), 0)] for a in "CAP"]
        position = [x + v for x, v in zip(position, step, strict=True)]
        size = math.sqrt(sum(v * v for v in step))
        energy = sum(v * t for v, t in zip(step, towards, strict=True))
        total += energy
        point: dict[str, Any] = {
            "turn": turn, "P_t": [int(x) for x in position], "v_t": step, "distance": _away(position), "in_zone": False,
            "epm": {
                "v_t_norm": round(size, 2), "alignment": round(energy / size, 4) if size else 0.0, "delta_E": round(energy, 2),
                "E_total": round(total, 2), "P_norm": round(math.sqrt(sum(x * x for x in position)), 2),
                "projection": round(-sum(x * -t for x, t in zip(position, towards, strict=True)), 2),
            },
        }  # fmt: skip
        if levels is not UNJUDGED:
            point["mdep_analysis"] = _analysis(levels)
        trajectory.append(point)
        history.append({"role": "test_model", "content": f"第{turn}次回答。", "epj_guidance": "", "director_guidance": ""})
        if turn < len(forms):
            history.append({"role": "actor", "content": f"第{turn}句话。"})
    found: dict[str, Any] = {
        "total_turns": len(forms), "termination_reason": "Reached max turns (4), timeout", "script_id": script,
        "scenario": {"script_id": script, "story_outcome": "灯又亮了。"}, "history": history, "test_model_name": model,
        "actor_model": "a/sim", "judger_model": "a/judge", "director_model": "a/director", "status": "success",
        "epj": {
            "P_0_initial_deficit": list(START), "P_final_position": trajectory[-1]["P_t"], "trajectory": trajectory,
            "K": 1, "epsilon": 1.0, "iedr_details": {"filled_iedr": {**IEDR, "_detailed": {}}},
        },
    }  # fmt: skip
    return {**found, **more}


def write(folder: Path, *results: dict[str, Any]) -> Path:
    """One file a dialogue, as released; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, record in enumerate(results):
        (folder / f"{number}.json").write_text(json.dumps(record, ensure_ascii=False, indent=1), encoding="utf-8")
    return folder


def _away(position: Sequence[float]) -> float:
    return math.sqrt(sum(max(0.0, -1.0 - x) ** 2 for x in position))


def _analysis(levels: Levels) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for axis in "CAP":
        level = levels.get(axis, 0)
        for side, value in (("Prog", max(level, 0)), ("Neg", min(level, 0))):
            name = f"{axis}_{side}"
            found |= {
                f"{name}_level": value,
                f"{name}_evidence": "回答" if value else "0",
                f"{name}_reasoning": "因为" if value else "",
            }
    return found


FORMS = [{"C": 1, "A": 2}, {"A": -1}, {"C": 2, "P": 1}, {"P": -2, "C": -2}]


def disagreeing(record: dict[str, Any]) -> list[Difference]:
    return list(differences(ReleasedResult.model_validate(record), "0.json"))


class TestReading:
    def test_a_dialogue_whole(self, tmp_path: Path) -> None:
        (transcript,) = read_results(write(tmp_path, result(FORMS))).transcripts
        assert (transcript.environment, transcript.preset, transcript.model) == ("empa", "released", "model-a")
        assert transcript.user == "a/sim (imported)"
        assert transcript.models["judge"] == "a/judge"
        assert transcript.opening == "今晚码头停电了。"
        assert [turn.reply for turn in transcript.turns] == [f"第{n}次回答。" for n in (1, 2, 3, 4)]
        assert [turn.message for turn in transcript.turns] == ["第1句话。", "第2句话。", "第3句话。", None]
        assert transcript.start == dict(zip("CAP", map(float, START), strict=True))
        assert (transcript.facts["axis"], transcript.facts["difficulty"]) == ("A", "easy")  # |P_0| is 19
        assert transcript.turns[0].state == {"C": -9, "A": -12, "P": -6}
        assert transcript.turns[3].change == {"C": -4, "A": 0, "P": -5}
        assert transcript.turns[0].evidence["quotes"] == {"C.Prog": "回答", "A.Prog": "回答"}
        assert transcript.score == pytest.approx(epmq([judged_dialogue(transcript)], preset="released").score)

    @pytest.mark.parametrize("field", ["E_total", "alignment", "projection", "delta_E"])
    def test_a_number_that_disagrees_is_named(self, tmp_path: Path, field: str) -> None:
        record = result(FORMS)
        record["epj"]["trajectory"][2]["epm"][field] += 0.02
        (found,) = disagreeing(record)
        assert len(read_results(write(tmp_path, record)).details) == 1
        assert (found.turn, found.field, found.theirs) == (2, field, record["epj"]["trajectory"][2]["epm"][field])

    def test_a_state_a_step_a_start_and_a_success_that_disagree_are_named(self, tmp_path: Path) -> None:
        record = result(FORMS, termination_reason="EPM success: positional")
        record["epj"]["trajectory"][4]["P_t"] = [0, 0, 0]
        record["epj"]["trajectory"][3]["v_t"] = [1, 0, 0]
        record["epj"]["iedr_details"]["filled_iedr"]["C.1"] = 3
        fields = [(d.turn, d.field) for d in disagreeing(record)]
        assert fields == [(0, "P_0_initial_deficit"), (3, "v_t"), (4, "P_t"), (4, "termination_reason")]

    @pytest.mark.parametrize(
        ("reason", "stop"),
        [
            ("EPM v2.0 Success: Geometric Victory", "success"),
            ("EPM failure: collapsed", "failure"),
            ("Reached max turns (45), timeout", "turn_limit"),
            ("the talk has come to its end", "goodbye"),
        ],
    )
    def test_how_a_dialogue_ended_is_its_reason_and_not_its_status(self, tmp_path: Path, reason: str, stop: str) -> None:
        assert read_results(write(tmp_path, result(FORMS, termination_reason=reason))).transcripts[0].stop == stop


class TestUnjudged:
    def test_a_turn_without_a_judgement_is_shown_and_not_zero(self, tmp_path: Path) -> None:
        found = read_results(write(tmp_path, result([*FORMS[:2], UNJUDGED, *FORMS[2:]])))
        (transcript,) = found.transcripts
        assert found.counts["unjudged turns"] == 1
        assert transcript.turns[2].state is None
        assert len(trace(judged_dialogue(transcript), preset="released").unjudged) == 1
        assert len(transcript.rewards) == 4
        assert list(found.details) == []  # as the authors count it, zeros, all their numbers follow

    def test_both_ways_of_counting_are_told(self, tmp_path: Path) -> None:
        held = read_results(write(tmp_path, result([*FORMS[:2], UNJUDGED, *FORMS[2:]])))
        (row,) = by_model(held.transcripts)
        assert row.unjudged == 1
        assert row.ours == epmq(
            [judged_dialogue(read_results(write(tmp_path / "b", result(FORMS))).transcripts[0])], preset="released"
        )
        # four judged windows and the start of five, or of six: energy stays, density is spread over one more
        assert row.theirs.indices.density == pytest.approx(row.ours.indices.density * 4 / 5)
        assert row.theirs.indices.energy == pytest.approx(row.ours.indices.energy)

    def test_a_level_that_is_missing_is_zero_and_the_turn_stays_judged(self, tmp_path: Path) -> None:
        """The authors count a level that the judge left out, or gave another name, as 0."""
        record = result([{"C": 1}, *FORMS[1:]])
        analysis = record["epj"]["trajectory"][1]["mdep_analysis"]
        analysis["A_Prog_level"] = None
        analysis["PNeg_level"] = analysis.pop("P_Neg_level")
        imported = read_results(write(tmp_path, record))
        assert (imported.counts["missing levels"], imported.counts["unjudged turns"]) == (2, 0)
        assert list(imported.details) == []
        (row,) = by_model(imported.transcripts)
        (whole,) = by_model(read_results(write(tmp_path / "whole", result([{"C": 1}, *FORMS[1:]]))).transcripts)
        assert row.theirs == row.ours == whole.theirs

    def test_a_dialogue_without_any_judgement_is_unscored(self, tmp_path: Path) -> None:
        (transcript,) = read_results(write(tmp_path / "none", result([UNJUDGED, UNJUDGED]))).transcripts
        assert (transcript.score, transcript.rewards) == (None, ())


class TestFiles:
    def test_folders_below_are_read_other_files_passed_over_and_repeats_and_missing_replies_counted(self, tmp_path: Path) -> None:
        cut = result(FORMS, model="model-b")
        cut["history"] = cut["history"][:4]
        write(tmp_path / "model-a", result(FORMS), result(FORMS[:1]))
        write(tmp_path / "model-b", cut, {"summary": 1})
        found = read_results(tmp_path)
        assert [(t.model, t.repeat) for t in found.transcripts] == [("model-a", 0), ("model-a", 1), ("model-b", 0)]
        assert (found.counts["passed over"], found.counts["missing replies"]) == (1, 2)
        assert found.transcripts[2].score is not None

    def test_wrong_files_are_refused_with_their_place(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no\.json: .* expected a released EMPA result"):
            read_results(tmp_path / "no.json")
        with pytest.raises(InputError, match="contains no released EMPA result"):
            read_results(write(tmp_path / "other", {"a": 1}))
        record: dict[str, Any] = result(FORMS)
        del record["epj"]["P_0_initial_deficit"]
        with pytest.raises(InputError, match=r"0\.json, epj\.P_0_initial_deficit: Field required"):
            read_results(write(tmp_path / "broken", record))
        with pytest.raises(InputError, match="is not a released EMPA result"):
            read_results(write(tmp_path / "alone", {"a": 1}) / "0.json")


def test_the_command_keeps_a_run_and_prints_what_disagrees(tmp_path: Path) -> None:
    record = result([*FORMS, UNJUDGED])
    record["epj"]["trajectory"][1]["epm"]["E_total"] = 9.9
    source = write(tmp_path / "released", record, result(FORMS, model="model-b"))
    done = CliRunner().invoke(app, ["import", "empa-results", str(source), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "1 x a turn has no judgement" in done.output
    assert "turn 1, E_total: 9.9, from the levels" in done.output
    assert "model-a: " in done.output
    assert len(list(read_transcripts(tmp_path / "run" / "transcripts.jsonl"))) == 2
    assert (tmp_path / "run" / "raw.jsonl").read_bytes().count(b"\n") == 2
