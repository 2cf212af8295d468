"""Dialogues out of the files as they are. Every sample is written here; none is taken from the data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import FORMS, REPAIRS, RawDialogues, RawTurn, read_dialogues

HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags"
SCORES = "5|5|5_4|4|4"


def empathetic(tmp_path: Path, *lines: str, name: str = "train.csv", header: str = HEADER) -> RawDialogues:
    (tmp_path / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return read_dialogues(tmp_path / name, "empathetic")


def line(n: int, said: str, *, conv: str = "hit:4_conv:8", who: int | None = None, more: str = "") -> str:
    return f"{conv},{n},ashamed,I broke the lamp_comma_ again.,{70 + n % 2 if who is None else who},{said},{SCORES},{more}"


def test_commas_are_commas_and_whoever_begins_is_the_person(tmp_path: Path) -> None:
    read = empathetic(tmp_path, line(1, "It fell_comma_ and I ran."), line(2, "Ran where?"), line(3, "Out."))
    (dialogue,) = read.dialogues
    assert dialogue.metadata == {"situation": "I broke the lamp, again.", "emotion": "ashamed"}
    assert dialogue.turns == (
        RawTurn("person", "It fell, and I ran."),
        RawTurn("supporter", "Ran where?"),
        RawTurn("person", "Out."),
    )
    assert dialogue.place == "train.csv, hit:4_conv:8"
    assert (read.refused, dict(read.repaired)) == ([], {})


def test_a_ninth_column_is_not_read_and_quotes_mean_nothing(tmp_path: Path) -> None:
    read = empathetic(tmp_path, line(1, 'He said "no.', more=",Sure|No_pipe_way"), line(2, '"Why" though?', more=",Sure"))
    assert [turn.text for turn in read.dialogues[0].turns] == ['He said "no.', '"Why" though?']
    assert read.repaired == {"quotes": 1}


def test_lines_out_of_order_and_turns_in_a_row_make_one_dialogue(tmp_path: Path) -> None:
    read = empathetic(tmp_path, line(2, "First."), line(1, "I begin.", who=71), line(3, "Second.", who=70), line(4, " ", who=71))
    assert read.dialogues[0].turns == (RawTurn("person", "I begin."), RawTurn("supporter", "First.\nSecond."))
    assert read.repaired == {"joined": 1, "empty": 1}


@pytest.mark.parametrize(
    ("broken", "said", "how"),
    [
        (
            f'"hit:4_conv:8","1","ashamed","The lamp, again.","71","It fell, and I ran.","{SCORES}",""',
            "It fell, and I ran.",
            "requoted",
        ),
        (line(1, "It fell, and I ran."), "It fell, and I ran.", "commas"),
        (line(1, "It fell, and, well, I ran.", more=",Sure"), "It fell, and, well, I ran.", "commas"),
        (line(1, "It fell _comma_ and").split(f",{SCORES}")[0] + f"\nI ran.,{SCORES},", "It fell , and I ran.", "rejoined"),
        (line(1, "It fell.") + "\r", "It fell.", None),
    ],
    ids=["requoted", "one comma", "several commas", "broken in two", "windows"],
)
def test_what_is_sure_is_mended_and_counted(tmp_path: Path, broken: str, said: str, how: str | None) -> None:
    read = empathetic(tmp_path, broken, line(2, "And then?"))
    assert read.dialogues[0].turns[0] == RawTurn("person", said)
    assert read.repaired == ({how: 1} if how else {})
    assert set(read.repaired) <= set(REPAIRS)


@pytest.mark.parametrize(
    ("broken", "place", "reason"),
    [
        ("hit:9_conv:9,1,sad,Nothing,5,Well.", "line 2", "6 fields"),
        (line(1, "Well.", conv="hit:9_conv:9").replace(",1,", ",first,"), "line 2", "utterance_idx"),
        (line(2, "Well.", conv="hit:9_conv:9"), "hit:9_conv:9", "its first utterance is missing"),
        (line(1, "A.", conv="hit:9_conv:9") + "\n" + line(1, "B.", conv="hit:9_conv:9"), "hit:9_conv:9", "utterance_idx repeats"),
        (line(1, "Alone.", conv="hit:9_conv:9"), "hit:9_conv:9", "one speaker"),
    ],
    ids=["fields", "number", "first", "repeats", "alone"],
)
def test_what_is_not_sure_is_refused_with_its_place_and_the_rest_goes_on(
    tmp_path: Path, broken: str, place: str, reason: str
) -> None:
    read = empathetic(tmp_path, broken, line(1, "It fell."), line(2, "And then?"))
    assert len(read.dialogues) == 1
    (refused,) = read.refused
    assert place in refused.place
    assert reason in refused.reason


def test_a_line_that_is_no_text_is_refused_alone(tmp_path: Path) -> None:
    data = "\n".join([HEADER, line(1, "It fell."), line(2, "X"), line(2, "And then?")]).encode().replace(b",X,", b",\xff\xfe,")
    (tmp_path / "valid.csv").write_bytes(data)
    read = read_dialogues(tmp_path, "empathetic")
    assert [(one.place, one.reason.split(" (")[0]) for one in read.refused] == [("valid.csv, line 3", "not UTF-8")]
    assert len(read.dialogues) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_whatever_stands_below_the_header_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, rows: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("any") / "test.csv"
    path.write_bytes(b"\n".join([HEADER.encode(), *rows, line(1, "A.").encode(), line(2, "B.").encode()]))
    assert any(dialogue.turns[0].text == "A." for dialogue in read_dialogues(path, "empathetic").dialogues)


def esconv(*said: tuple[str, str], **more: Any) -> dict[str, Any]:
    dialog = [{"speaker": who, "annotation": {"feedback": "4"}, "content": text + "\n"} for who, text in said]
    return {
        "experience_type": "Current Experience", "emotion_type": "shame", "problem_type": "job crisis",
        "situation": "The plant shuts.", "survey_score": {"seeker": {"initial_emotion_intensity": "5"}, "supporter": {}},
        "dialog": dialog,
    } | more  # fmt: skip


TALK = (("seeker", "Hi"), ("seeker", "They shut the plant."), ("supporter", "When?"), ("seeker", "Friday."))


def test_numbers_are_strings_and_turns_of_one_speaker_are_joined(tmp_path: Path) -> None:
    (tmp_path / "ESConv.json").write_text(json.dumps([esconv(*TALK)]))
    read = read_dialogues(tmp_path, "esconv")
    (dialogue,) = read.dialogues
    assert dialogue.metadata == {
        "situation": "The plant shuts.", "emotion": "shame", "problem": "job crisis", "intensity": "5 of 5",
    }  # fmt: skip
    assert dialogue.turns == (
        RawTurn("person", "Hi\nThey shut the plant."),
        RawTurn("supporter", "When?"),
        RawTurn("person", "Friday."),
    )
    assert read.repaired == {"joined": 1}


def test_the_failed_ones_spell_the_speakers_otherwise(tmp_path: Path) -> None:
    spelt = {"seeker": "speaker", "supporter": "listener"}
    (tmp_path / "FailedESConv.json").write_text(json.dumps([esconv(*((spelt[who], text) for who, text in TALK))]))
    (tmp_path / "ESConv.json").write_text(json.dumps([esconv(*TALK)]))
    read = read_dialogues(tmp_path, "esconv")
    assert [dialogue.place for dialogue in read.dialogues] == ["ESConv.json, dialogue 1", "FailedESConv.json, dialogue 1"]
    assert read.dialogues[0].turns == read.dialogues[1].turns


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        ("no", "is a str"),
        ({"dialog": "no"}, "has no list 'dialog'"),
        (esconv(("Quillon", "Hi")), "turn 1: 'speaker'"),
        ({"dialog": [{"speaker": "seeker"}]}, "turn 1 has no text"),
        ({"dialog": [7]}, "turn 1 is a int"),
    ],
)
def test_a_broken_dialogue_is_refused_alone_and_not_repeated(tmp_path: Path, one: Any, reason: str) -> None:
    (tmp_path / "ESConv.json").write_text(json.dumps([one, esconv(*TALK)]))
    read = read_dialogues(tmp_path, "esconv")
    assert [refused.place for refused in read.refused] == ["ESConv.json, dialogue 1"]
    assert reason in read.refused[0].reason
    assert "Quillon" not in read.refused[0].reason
    assert len(read.dialogues) == 1


@pytest.mark.parametrize("score", ["many", "", None, 9, {"x": 1}])
def test_a_score_that_is_none_is_left_out(tmp_path: Path, score: Any) -> None:
    odd = esconv(*TALK, survey_score={"seeker": {"initial_emotion_intensity": score}}, situation=None)
    (tmp_path / "ESConv.json").write_text(json.dumps([odd]))
    assert read_dialogues(tmp_path, "esconv").dialogues[0].metadata == {"emotion": "shame", "problem": "job crisis"}


ROLES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well?"}]


def said_in(hi: Any, well: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": hi}, {"role": "assistant", "content": well}]


VARIANTS: dict[str, Any] = {
    "messages": {"messages": ROLES},
    "bare list": ROLES,
    "system": {"messages": [{"role": "system", "content": "Be kind."}, *ROLES]},
    "from, value": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Well?"}]},
    "speaker, text": {"dialogue": [{"speaker": "Client", "text": "Hi"}, {"speaker": "Therapist", "text": "Well?"}]},
    "parts": {"messages": said_in([{"type": "text", "text": "Hi"}, {"type": "image"}], [{"type": "text", "text": "Well?"}])},
    "author": {"turns": [{"author": {"role": one["role"]}, "content": {"parts": [one["content"]]}} for one in ROLES]},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_common_variants_are_read(tmp_path: Path, variant: str) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps(VARIANTS[variant]) + "\n")
    read = read_dialogues(tmp_path / "log.jsonl", "messages")
    assert read.dialogues[0].turns == (RawTurn("person", "Hi"), RawTurn("supporter", "Well?"))


def test_each_line_that_cannot_be_read_has_one_sentence_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = json.dumps(VARIANTS["messages"])
    lines = [good, "{", "[1]", '"Anna"', '{"messages": [{"role": "Anna", "content": "Hi"}]}', "", "\ufeff" + good, good]
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    read = read_dialogues(tmp_path / "log.jsonl", "messages")
    assert [one.place for one in read.dialogues] == ["log.jsonl, line 1", "log.jsonl, line 8"]
    assert [one.place for one in read.refused] == [f"log.jsonl, line {n}" for n in (2, 3, 4, 5, 7)]
    assert not any("Anna" in one.reason or one.place in one.reason for one in read.refused)


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_without_such_files_and_a_file_without_a_dialogue_are_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(UseError, match=r"holds no .*; name the file, or another --form"):
        read_dialogues(tmp_path, form)
    with pytest.raises(InputError, match="cannot read"):
        read_dialogues(tmp_path / "no.csv", form)
    with pytest.raises(UseError, match="--form is 'csv'; expected esconv, empathetic, messages"):
        read_dialogues(tmp_path, "csv")


def test_a_source_of_which_nothing_can_be_read_says_the_first_problem(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("{\n")
    with pytest.raises(InputError, match=r"no dialogue of form messages; the first problem: log.jsonl, line 1: not JSON"):
        read_dialogues(tmp_path, "messages")
    with pytest.raises(InputError, match="begins with another header; expected conv_id"):
        empathetic(tmp_path, "1,2", header="id,text")
    (tmp_path / "ESConv.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="holds a dict; expected a list"):
        read_dialogues(tmp_path, "esconv")
