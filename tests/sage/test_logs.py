"""Released SAGE dialogues become transcripts: emotions, thoughts, stop reasons, raw lines and refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Transcript, Usage, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import Imported
from heartloop.environments.sage.importers import read_logs
from heartloop.environments.sage.scenario import ReleasedProfile, SageReleasedScenario
from heartloop.environments.sage.scoring import summarise
from heartloop.evaluation.store import RAW, RunDirectory, imported_settings, write_imported
from tests.released_form import TASKS, course, log, profile, write


def imported(tmp_path: Path, *logs: dict[str, Any], **how: Any) -> Imported:
    return read_logs(write(tmp_path / "gpt-x.jsonl", logs), **how)


def one(tmp_path: Path, *logs: dict[str, Any]) -> Transcript:
    (transcript,) = imported(tmp_path, *logs).transcripts
    return transcript


def test_a_hundred_dialogues_come_out_as_counted_by_hand(tmp_path: Path) -> None:
    # 35 at 100 are 3500, 13 at 5 are 65, 31 at 65 are 2015, 20 at 60 are 1200, one at 40 is 40: 6820 / 100 = 68.2,
    # with 35 successes and 13 failures: the row of GPT-4.1 in SAGE Table 2.
    finals = [100] * 35 + [5] * 13 + [65] * 31 + [60] * 20 + [40]
    logs = [log(number, course(final), unjudged=10 <= final < 100) for number, final in enumerate(finals)]
    result = imported(tmp_path, *logs)
    summary = summarise([t.score for t in result.transcripts if t.score is not None])
    assert (summary.n, round(summary.mean, 1), summary.success, summary.failure) == (100, 68.2, 35, 13)
    stops = [t.stop for t in result.transcripts]
    assert (stops.count("success"), stops.count("failure"), stops.count("turn_limit")) == (35, 13, 52)
    assert result.counts["unjudged replies"] == 52
    assert result.counts["unclear ends"] == result.counts["final emotion disagrees"] == 0
    # One label a judged turn. To 100 it takes 6 turns, to 5 it takes 4 (three of 10 and one of 5), and 9 to the others.
    assert result.counts["labels taken off"] == 35 * 6 + 13 * 4 + 52 * 9


def test_a_turn_has_what_was_felt_and_thought(tmp_path: Path) -> None:
    transcript = one(tmp_path, log(0, [40, 45, 35], unjudged=True))
    first, second, last = transcript.turns
    assert (transcript.opening, transcript.start) == ("今天的船又没有来。", {"emotion": 40.0})
    assert (first.reply, first.message) == ("第0次回答。", "第0句话。")
    assert (first.state, first.change) == ({"emotion": 45.0}, {"emotion": 5.0})
    assert first.thoughts == {"content": "说了什么0", "fit": "合不合0", "activity": "心里想0", "feeling": "感觉如何0"}
    assert first.evidence == {"thinking": "思路0"}
    assert (second.state, second.change) == ({"emotion": 35.0}, {"emotion": -10.0})
    assert (last.reply, last.state, last.change, last.message) == ("还没有被评的回答。", None, None, None)
    assert transcript.rewards == (0.5, -1.0)
    # "第0次回答。" is 5 wide characters of 0.6 tokens and a digit: 3 + 1; the last reply has 9 wide ones, 5.4: 6; twice 4, and 6
    assert transcript.usage == {"policy": Usage(completion_tokens=14, estimated=True)}
    assert transcript.counts == {"labels taken off": 2, "unjudged replies": 1, "silences": 0}


@pytest.mark.parametrize("text", ["心里[很]难受", "[叹气]\n难受", "难受", "他" + "很" * 24 + "累]", ""])
def test_a_thought_without_a_leaked_label_stays_as_it_is(text: str, tmp_path: Path) -> None:
    record = log(0, [40, 45])
    record["history"][2]["planning"]["activity"] = text
    transcript = one(tmp_path, record)
    assert transcript.turns[0].thoughts.get("activity", "") == text
    assert "labels taken off" not in transcript.counts


def test_an_empty_reply_was_silence_and_half_an_emoji_survives_the_file(tmp_path: Path) -> None:
    record = log(0, [40, 35, 30])
    record["history"][1]["content"] = record["history"][2]["thinking"] = "嗯\ud83d"
    record["history"][3]["content"] = ""
    path = tmp_path / "gpt-x.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="ascii")
    (transcript,) = read_logs(path).transcripts
    assert Transcript.model_validate_json(write_line(transcript)) == transcript
    assert [turn.silent for turn in transcript.turns] == [False, True]
    assert transcript.turns[0].reply == "嗯\ufffd"


def test_what_a_dialogue_is_about(tmp_path: Path) -> None:
    transcript = one(tmp_path, log(7, [40, 45], task=TASKS["advice"]))
    assert (transcript.environment, transcript.preset, transcript.user) == ("sage", "released", "unknown (imported)")
    assert (transcript.model, transcript.scenario, transcript.repeat) == ("gpt-x", "0000-0007", 0)
    facts = transcript.facts
    assert (facts["family"], facts["intention"], facts["task"]) == ("support", "advice", "想要有用的建议")
    assert facts["intention_text"].startswith("wants advice")
    assert (facts["theme"], facts["title"]) == ("工作-渡船停了怎么办", "渡船停了怎么办")
    assert (facts["person"], facts["source"]) == ("林小舟7, 31岁, 摆渡人", "gpt-x.jsonl, line 1")
    record = ReleasedProfile.model_validate(profile(7, task=TASKS["advice"]))
    assert transcript.fingerprint == SageReleasedScenario(form="sage-released/1", source="x", record=record).fingerprint


def test_an_unknown_intention_has_its_own_words(tmp_path: Path) -> None:
    result = imported(tmp_path, log(0, [40, 45], task="想聊聊天气"))
    assert result.transcripts[0].facts["intention"] == "想聊聊天气"
    assert result.transcripts[0].facts["intention_text"] == "wants this: “想聊聊天气”"
    assert result.counts["unknown intentions"] == 1


def test_the_final_emotion_is_the_logs_own_and_a_last_turn_that_disagrees_is_counted(tmp_path: Path) -> None:
    transcript = one(tmp_path, log(0, [40, 45, 50], emo_point=100))
    assert (transcript.score, transcript.stop, transcript.turns[-1].state) == (100.0, "success", {"emotion": 50.0})
    assert transcript.counts["final emotion disagrees"] == 1


def test_emotions_outside_the_range_are_clipped_and_counted(tmp_path: Path) -> None:
    transcript = one(tmp_path, log(0, [95, 105]))  # both the last turn and emo_point say 105
    (turn,) = transcript.turns
    assert (transcript.score, turn.state, turn.change) == (100.0, {"emotion": 100.0}, {"emotion": 5.0})
    assert transcript.counts["clamped emotions"] == 2
    assert transcript.counts["changes that do not add up"] == 1  # it names 10, the emotions made 5
    assert turn.evidence["change named"] == 10.0


@pytest.mark.parametrize(
    ("emotions", "unjudged", "last", "stop", "unclear"),
    [
        ([90, 100], False, None, "success", 0),
        ([15, 9], False, "再见。", "failure", 0),
        ([15, 10], False, None, "turn_limit", 1),
        ([40, 45], False, "那就这样吧，再见。", "goodbye", 0),
        ([40, 45], False, "Goodbye then.", "goodbye", 0),
        ([40, 45], True, "再见。", "turn_limit", 0),
        ([40] * 11, False, None, "turn_limit", 0),
        ([40, 45], False, None, "turn_limit", 1),
    ],
    ids=["100", "below 10", "exactly 10 is no failure", "goodbye", "English", "went on after it", "tenth reply", "unclear"],
)
def test_the_stop_reason(emotions: list[int], unjudged: bool, last: str | None, stop: str, unclear: int, tmp_path: Path) -> None:
    record = log(0, emotions, unjudged=unjudged)
    if last is not None:
        record["history"][-2 if unjudged else -1]["content"] = last
    transcript = one(tmp_path, record)
    assert transcript.stop == stop
    assert transcript.counts.get("unclear ends", 0) == unclear


def test_a_run_has_the_released_lines_byte_for_byte_and_knows_its_settings(tmp_path: Path) -> None:
    source = write(tmp_path / "gpt-x.jsonl", [log(0, [40, 45], unknown_slot={"a": [1]}), log(1, [40, 35])])
    result = read_logs(source)
    write_imported(tmp_path / "run", result, scenario_set="x")
    assert (tmp_path / "run" / RAW).read_bytes() == source.read_bytes()
    settings = imported_settings(result.transcripts, scenario_set="x")
    assert (settings.models, settings.roles) == (("gpt-x",), {"user": "unknown (imported)"})
    assert (settings.options["preset"], settings.options["max_turns"], settings.repeats) == ("released", 10, 1)
    with RunDirectory(tmp_path / "run", settings) as directory:  # the same settings open it again
        assert set(directory.finished.values()) == {True}
    with pytest.raises(UseError, match="is not empty; choose another --out"):
        write_imported(tmp_path / "run", result, scenario_set="x")


def test_the_same_person_again_in_one_file_is_a_repeat(tmp_path: Path) -> None:
    result = imported(tmp_path, log(0, [40, 45]), log(0, [40, 35]), model="openai/gpt-4.1")
    assert [(t.model, t.repeat) for t in result.transcripts] == [("openai/gpt-4.1", 0), ("openai/gpt-4.1", 1)]
    assert result.counts["repeats"] == 1


def test_a_folder_is_a_model_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no log; expected"):
        read_logs(tmp_path)
    for name in ("b-model", "a-model.v2"):
        write(tmp_path / f"{name}.jsonl", [log(0, [40, 45])])
    (tmp_path / "notes.txt").write_text("not a log")
    result = read_logs(tmp_path, user="DeepSeek-V3")
    assert [t.model for t in result.transcripts] == ["a-model.v2", "b-model"]
    assert {t.user for t in result.transcripts} == {"DeepSeek-V3 (imported)"}
    with pytest.raises(UseError, match="holds 2 logs"):
        read_logs(tmp_path, model="x")


def broken(**changes: Any) -> dict[str, Any]:
    """A log with fields changed, or left out where the change is `None`; `NAME__N` changes a message of the history."""
    record = log(0, [40, 45, 50])
    for name, value in changes.items():
        field, _, index = name.partition("__")
        holder: Any = record["history"][int(index)] if index else record
        field = field.replace("_point", "-point") if index else field
        if value is None:
            del holder[field]
        else:
            holder[field] = value
    return record


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (broken(emo_point=None), r"line 2, emo_point: Field required; expected the released form, correct or remove that line"),
        (broken(emo_point="50"), r"line 2, emo_point: "),
        (broken(emo_point=True), r"line 2, emo_point: "),
        (broken(history=[]), r"line 2, history: "),
        (broken(role__1="system"), r"line 2, history.1.role: "),
        (broken(role__1="user"), r"line 2, history.1: role is 'user'; expected 'assistant'"),
        (broken(emotion_point__2=None), r"line 2, history.2: emotion-point is missing; expected a number"),
        (broken(planning__2={"change": "much"}), r"line 2, history.2.planning.change: "),
        (profile(), r"line 2 is a profile, not a dialogue; use `heartloop import sage-profiles"),
        ([1], r"line 2: is a list"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(record: Any, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "gpt-x.jsonl", [log(0, [40, 45]), record])
    with pytest.raises(InputError, match=said) as refused:
        read_logs(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"emo_point": NaN}', r"line 1: not JSON \(NaN is no JSON number\)"),
        (b"[" * 100_000, r"line 1: not JSON \(nested too deeply\)"),
        (b"\n \n", r"no record"),
    ],
)
def test_broken_lines_are_refused_with_their_place(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "gpt-x.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=said):
        read_logs(tmp_path / "gpt-x.jsonl")


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "gpt-x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(log(0, [40, 45])).encode() + b"\r\n")
    assert len(read_logs(path).transcripts) == 1


@pytest.mark.skipif("HEARTLOOP_SAGE_LOGS" not in os.environ, reason="HEARTLOOP_SAGE_LOGS names no released log")
def test_released_logs_keep_their_final_emotions() -> None:
    found = read_logs(Path(os.environ["HEARTLOOP_SAGE_LOGS"]))
    assert [t.score for t in found.transcripts] == [json.loads(line)["emo_point"] for line in found.raw]
    assert found.counts["unknown intentions"] == found.counts["final emotion disagrees"] == found.counts["clamped emotions"] == 0
    for transcript, line in zip(found.transcripts, found.raw, strict=True):
        said = [message["content"] for message in json.loads(line)["history"]]
        told = [transcript.opening, *(text for turn in transcript.turns for text in (turn.reply, turn.message))]
        assert [text for text in told if text is not None] == said
