"""The visible part of a reply, and transcripts as JSON lines; what they keep changes only by a decision (docs/decisions)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from heartloop.core.dialogue import (
    Call,
    Failure,
    Transcript,
    Turn,
    Usage,
    parsed,
    read_transcripts,
    transcript_lines,
    visible,
    writable,
    write_line,
)
from heartloop.core.errors import InputError

# Every code point UTF-8 can hold, with those over-represented that some readers take for a line's end.
SPOKEN = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r\x0b\x0c\x1c\x85\u2028\u2029\x00"\\{}🧨'))


def transcript(**changes: object) -> Transcript:
    fields: dict[str, object] = {
        "environment": "tiny",
        "scenario": "tiny-01",
        "fingerprint": "0" * 16,
        "model": "scripted",
        "preset": "corrected",
        "user": "embedded",
        "opening": "Hello.",
        "start": {"emotion": 40.0},
        "turns": (Turn(index=0, reply="Hello yourself.", state={"emotion": 45.0}, change={"emotion": 5.0}),),
        "stop": "turn_limit",
        "score": 45.0,
    }
    return Transcript.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        ("Tell me more.", "Tell me more."),
        ("  Tell me more.\n", "Tell me more."),
        ("<think>She is hurt.</think>\n\nTell me more.", "Tell me more."),
        ("She is hurt.</think>Tell me more.", "Tell me more."),  # the opening tag stood in the chat template
        ("<think>a</think><think>b</think> Tell me more.", "Tell me more."),
        ("<think>a</think> Tell me <think>b</think> more.", "more."),  # what precedes the last block may be a draft
        ("<THINK>a</Think>Tell me more.", "Tell me more."),
        ("Sure. <think>plan: flatter her", "Sure."),
        *((silence, "") for silence in ("<think>She is hurt", " \n<Think>\n", "<think>a</think>\n<think>b", "a</think><think>b")),
        *((silence, "") for silence in ("", "  \n ", "<think>She is hurt.</think>", "<think></think> \n", "</think>")),
    ],
)
def test_only_what_follows_the_last_closing_tag_and_no_open_block_is_seen(reply: str, seen: str) -> None:
    assert visible(reply) == seen


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>"), ("<reasoning>", "</reasoning>"),
        ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"),
        ("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"), ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"), ("<|channel>thought\n", "<channel|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("analysis", "assistantfinal"), ("Here is my thought process: ", "Here is my response: "),
    ],
)  # fmt: skip
def test_every_known_form_of_thinking_is_kept_apart_and_only_at_its_place(before: str, after: str) -> None:
    hidden, answer = "She is hurt, [think] of it.", "I [think] so, it is 2 < 3."
    assert visible(f" {before}{hidden}{after}\n\n{answer}") == answer
    call = Call(role="policy", purpose="reply", turn=0, text=f"{before}{hidden}{after}{answer}")
    assert hidden in call.thinking
    assert answer not in call.thinking
    if before != "analysis":  # an ordinary word
        assert visible(f"{before}{hidden}") == "", "a block that never closes hides all of it"
    if before[0] in "<[◁" and before not in ("<thinking>", "<reasoning>"):
        assert visible(f"{hidden}{after}{answer}") == answer, "the chat template has opened the block"


@pytest.mark.parametrize(
    "reply",
    [
        "Write `<think>` before and `</think>` after it, as in:\n```\n<think>hm</think>\n```\nThen the reply.",
        "I [think] so, and [/think] too.", "My analysis: it hurts. Here is my response: stay.", "Analysis paralysis, I know it.",
        "In my form, <reasoning> and </reasoning> are fields, and so is <thinking>.", "Here is my thought: stay.",
    ],
)  # fmt: skip
def test_whoever_writes_about_thinking_loses_no_text(reply: str) -> None:
    assert visible(reply) == reply


def test_code_in_an_answer_or_broken_off_within_thinking_hides_and_shows_nothing_more() -> None:
    assert visible("<think>hm</think>Write `<think>` and `</think>`.") == "Write `<think>` and `</think>`."
    assert visible("<think>so ```python\n1</think>Well:\n```\nhm\n```") == "Well:\n```\nhm\n```"


@given(st.lists(st.sampled_from(["<think>", "</think>", "secret", "open", " "]), max_size=12))
def test_however_the_tags_are_strewn_no_closing_tag_and_nothing_before_it_gets_through(pieces: list[str]) -> None:
    reply = "".join(pieces)
    seen = visible(reply)
    assert "</think>" not in seen
    assert seen in reply.rpartition("</think>")[2]


@pytest.mark.parametrize(
    ("text", "reasoning", "thought"),
    [
        ("Tell me more.", None, ""),
        ("<think>She is hurt.</think>Tell me more.", None, "She is hurt."),
        ("She is hurt.</THINK>Tell me more.", None, "She is hurt."),
        ("Tell me more.", " She is hurt.\n", "She is hurt."),
        ("<think>Go on.</think>Tell me more.", "She is hurt.", "She is hurt.\n\nGo on."),
        ("<think>She is hurt.</think>Tell me more.", "She is hurt.", "She is hurt."),  # returned twice
        ("<think>a</think>draft<think>b</think>Tell me more.<think>c", None, "a\ndraftb\n\nc"),
        ("<think></think>Tell me more.", "", ""),
    ],
    ids=["none", "block", "tag in template", "apart", "both", "twice", "several", "empty"],
)
def test_all_that_is_not_visible_is_thinking_without_its_tags(text: str, reasoning: str | None, thought: str) -> None:
    assert Call(role="policy", purpose="reply", turn=0, text=text, reasoning=reasoning).thinking == thought


@given(said=SPOKEN, thought=SPOKEN, quote=SPOKEN)
def test_a_transcript_survives_its_line_whatever_was_said(said: str, thought: str, quote: str) -> None:
    before = transcript(
        opening=said,
        turns=(Turn(index=0, reply=said, thoughts={"activity": thought}, evidence={"quotes": [quote], "n": 1}, message=said),),
        calls=(Call(role="policy", purpose="reply", turn=0, text=thought, reasoning=quote),),
        failure=Failure(role="user", kind="AnswerError", detail=quote),
        facts={"title": quote},
        usage={"policy": Usage(prompt_tokens=3, completion_tokens=2, estimated=True)},
    )
    line = write_line(before)
    assert line.encode().count(b"\n") == 1
    assert line.endswith("\n")
    assert Transcript.model_validate_json(line) == before


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_half_an_emoji_at_the_cut_of_a_reply_does_not_cost_the_line(said: str) -> None:
    assert writable("so \ud83e\udde8!") == "so 🧨!"
    kept = writable(said)
    kept.encode()
    assert writable(kept) == kept
    turn = Turn(index=0, reply=said, message=said)
    call = Call(role="policy", purpose="reply", turn=0, text=said, reasoning=said)
    assert Transcript.model_validate_json(write_line(transcript(turns=(turn,), calls=(call,)))).turns[0].reply == kept


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_evidence_with_a_number_that_json_lacks_is_refused(number: float) -> None:
    with pytest.raises(ValidationError, match="expected finite ones"):
        Turn(index=0, reply="Yes", evidence={"steps": [{"deep": (1.0, number)}]})


def test_a_last_line_without_a_line_break_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "transcripts.jsonl"
    path.write_text(write_line(transcript()) + write_line(transcript(repeat=1))[:70])
    assert [t.repeat for t in read_transcripts(path)] == [0]


@pytest.mark.parametrize(
    ("broken", "where"),
    [
        (b"{oops}\n", "record"),
        (b"\xff\xfe\n", "record"),
        (b"[1, 2]\n", "record"),
        (write_line(transcript()).replace('"score":45.0', '"score":"high"').encode(), "score"),
        (write_line(transcript()).replace('"index":0', '"index":"first"').encode(), r"turns\.0\.index"),
        (write_line(transcript()).replace('"environment"', '"surroundings"').encode(), "environment"),
    ],
    ids=["no JSON", "no UTF-8", "no object", "wrong type", "wrong type deep inside", "unknown field"],
)
def test_a_broken_line_is_named_with_file_number_and_field(tmp_path: Path, broken: bytes, where: str) -> None:
    path = tmp_path / "transcripts.jsonl"
    path.write_bytes(write_line(transcript()).encode() + b"\n" + broken + write_line(transcript()).encode())
    with pytest.raises(InputError, match=rf"transcripts\.jsonl, line 3, {where}: "):
        list(read_transcripts(path))


def test_one_transcript_is_in_memory_at_a_time_however_long_the_file(tmp_path: Path) -> None:
    path = tmp_path / "transcripts.jsonl"
    call = Call(role="policy", purpose="reply", turn=0, text="x" * 200_000)
    path.write_text("".join(write_line(transcript(repeat=n, calls=(call,))) for n in range(100)), encoding="utf-8")
    tracemalloc.start()
    assert sum(1 for _ in read_transcripts(path)) == 100
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000  # of 20 million


def test_a_place_gives_its_transcript_again(tmp_path: Path) -> None:
    path = tmp_path / "transcripts.jsonl"
    written = [transcript(repeat=n, opening="é\u2028b\x85c\rd" * n) for n in range(3)]
    path.write_bytes(b"\n".join(write_line(t).encode() for t in written) + b'{"torn')
    found = list(transcript_lines(path))
    assert [place.read() for place, _ in reversed(found)] == written[::-1]
    assert [parsed(line, place) for place, line in found] == written
    assert [place for place, _ in transcript_lines(path, covered=found[1][0].start)] == [place for place, _ in found[1:]]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl"):
        list(read_transcripts(tmp_path / "nowhere.jsonl"))


def test_prompts_and_completions_add_up_apart_and_one_estimate_makes_the_sum_an_estimate() -> None:
    # 3 + 10 prompt, 4 + 20 completion: 13 + 24 = 37
    both = Usage(prompt_tokens=3, completion_tokens=4) + Usage(prompt_tokens=10, completion_tokens=20, estimated=True)
    assert both == Usage(prompt_tokens=13, completion_tokens=24, estimated=True)
    assert both.total == 37
    assert not (Usage() + Usage()).estimated


@pytest.mark.parametrize("score", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_score_that_is_no_number_is_no_transcript(score: str, tmp_path: Path) -> None:
    line = write_line(transcript()).replace(f'"score":{transcript().score}', f'"score":{score}')
    assert score in line
    (tmp_path / "t.jsonl").write_text(line)
    with pytest.raises(InputError, match="line 1, score"):
        list(read_transcripts(tmp_path / "t.jsonl"))
