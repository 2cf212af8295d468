"""Typed answers: read wherever they are in a reply, re-asked with the error, and never a default."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import AnswerError, ModelError, TransportError
from heartloop.core.judging import REASKS, ask
from heartloop.core.schemas import QUOTED, schema_of
from heartloop.core.tags import asking_for, tag_of, tagged, tagged_schema

QUESTION = [Message(role="system", content="Judge."), Message(role="user", content="How warm was that?")]
GOOD = '{"note": "plain", "warmth": 4}'
TAG = tag_of(QUESTION)
ASKED = asking_for(TAG, QUESTION)


class Verdict(BaseModel):
    note: str = Field(min_length=1)
    warmth: int = Field(ge=1, le=5)


async def answer(*texts: str | Reply | Exception, **how: Any) -> tuple[Verdict, ScriptedChat]:
    model = ScriptedChat(texts, name="judge")
    return await ask(model, QUESTION, Verdict, **how), model


# 1. reading


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n\n {GOOD} \n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nI hope this helps.",
        f"Here is my verdict: {GOOD} Let me know if you need more.",
        f"Using the form {{note, warmth}}: {GOOD}",
        f"<think>Is it {{warm}}? {{'note': 1}}</think>{GOOD}",
        f'<think>{{"note": "a first idea", "warmth": 1}}</think>\n{GOOD}',
        '{\n  "note": "plain",\n  "warmth": 4,\n  "further": {"a": [1, 2]}\n}',
        '{"note": "plain", "warmth": "4"}',
    ],
)
async def test_a_valid_answer_is_read_wherever_it_stands(text: str) -> None:
    verdict, model = await answer(text)
    assert verdict == Verdict(note="plain", warmth=4)
    assert len(model.asked) == 1


async def test_half_an_emoji_is_read_as_in_any_text() -> None:
    verdict, _ = await answer('{"note": "so \\ud83d", "warmth": 3}')
    assert verdict.note == "so \ufffd"


async def test_the_schema_and_the_sampling_settings_go_to_the_model_and_raw_line_breaks_and_tabs_are_read() -> None:
    verdict, model = await answer('{"note": "first\nsecond\tthird", "warmth": 2}', sampling=Sampling(temperature=0.0))
    assert verdict.note == "first\nsecond\tthird"
    assert model.schemas == [tagged_schema(schema_of(Verdict), None)]
    assert model.samplings == [Sampling(temperature=0.0)]


class Quoting(Verdict):
    quote: Annotated[str, QUOTED]


@pytest.mark.parametrize(("name", "passages"), [("local/smollm2", ("I left.",)), ("openai/gpt-4.1", ())])
async def test_only_a_model_that_heartloop_serves_is_sent_a_schema_of_its_own_for_each_call(
    name: str, passages: tuple[str, ...]
) -> None:
    model = ScriptedChat(['{"note": "plain", "warmth": 4, "quote": "I left."}'], name=name)
    await ask(model, QUESTION, Quoting, passages=["I left."])
    assert model.schemas == [tagged_schema(schema_of(Quoting, passages), TAG if passages else None)]


def test_the_tag_follows_from_the_messages_and_occurs_in_none_of_them() -> None:
    assert tag_of(list(QUESTION)) == TAG
    planted = [*QUESTION, Message(role="user", content="")]
    tags = {TAG}
    for _ in range(3):
        tags.add(tag_of(planted))
        planted[-1] = Message(role="user", content=" ".join(tags))
        assert tag_of(planted) not in tags
    assert len(tags) == 4


class Tagged(Verdict):
    end: str


async def test_a_class_with_a_field_of_the_tag_is_refused() -> None:
    with pytest.raises(TypeError, match="'end'"):
        await ask(ScriptedChat([GOOD]), QUESTION, Tagged)


# 2. re-asks


NONE = f'it holds no JSON object that begins with "tag": "{TAG}"'
BROKEN = f'the JSON object with "tag": "{TAG}" is not valid, has a field twice, or does not end with "end": "{TAG}"'


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("Quite warm, I would say.", NONE),
        ("", "it is empty"),
        ("<think>hm</think>", "it is empty"),
        ("<think>still thinking", "it is empty"),
        ("[1, 2]", NONE),
        ('{"note": "plain", "warmth": 4', NONE),
        (
            '{"note": "plain", "warmth": "rather"}',
            "warmth: Input should be a valid integer, unable to parse string as an integer",
        ),
        ('{"note": "plain", "warmth": 9}', "warmth: Input should be less than or equal to 5"),
        ('{"note": "plain"}', "warmth: Field required"),
        ('{"warmth": ' + "1" * 5000 + "}", NONE),
        (f'{{"tag": "{TAG}", "note": "plain", "warmth": 4}}', BROKEN),
        (f'{{"tag": "{TAG}", "note": "plain", "warmth": 4, "end": "{TAG}x"}}', BROKEN),
        (f'{{"tag": "{TAG}", "note": "plain", "warmth": 2, "warmth": 4, "end": "{TAG}"}}', BROKEN),
        (f'{{"note": "plain", "warmth": 4, "tag": "{TAG}", "end": "{TAG}"}}', NONE),
        (Reply(GOOD, finish_reason="length"), "it was cut by the token limit"),
        (f"{GOOD}, or rather {GOOD.replace('4', '2')}", "it holds several answers that differ"),
    ],
)
async def test_the_re_ask_says_what_was_wrong(bad: str | Reply, problem: str) -> None:
    verdict, model = await answer(bad, GOOD)
    assert verdict.warmth == 4
    first, second = model.asked
    assert list(first) == list(second[:2]) == ASKED
    text = bad if isinstance(bad, str) else bad.text
    refused = f"That answer cannot be used: {problem}. Answer again with one JSON object of the form asked for, and nothing else."
    assert list(second[2:]) == [
        Message(role="assistant", content=tagged(text, ASKED[-1].content) or "(empty)"),
        *asking_for(TAG, [Message(role="user", content=refused)]),
    ]


async def test_only_the_last_answer_is_shown_again_and_every_raw_reply_is_reported_with_its_number() -> None:
    replies: list[tuple[str, int]] = []
    _, model = await answer("bad one", "bad two", GOOD, on_reply=lambda reply, reask: replies.append((reply.text, reask)))
    assert [len(asked) for asked in model.asked] == [2, 4, 4]
    assert model.asked[2][2].content == "bad two"
    assert replies == [("bad one", 0), ("bad two", 1), (tagged(GOOD, ASKED[-1].content), 2)]


async def test_a_check_can_refuse() -> None:
    verdict, model = await answer(
        '{"note": "x", "warmth": 5}', GOOD, check=lambda v: "nobody is that warm" if v.warmth == 5 else None
    )
    assert verdict.warmth == 4
    assert "nobody is that warm" in model.asked[1][-1].content


# 3. no default


async def test_after_the_last_re_ask_an_answer_error_quotes_the_last_reply() -> None:
    with pytest.raises(AnswerError) as caught:
        await answer("one", "two", '{"note": "three, and nothing else"}', GOOD)
    for part in ("judge", "three, and nothing else", "2 re-asks", "warmth: Field required", "JSON with note, warmth"):
        assert part in str(caught.value)
    assert REASKS == 2
    with pytest.raises(AnswerError, match=r"xxx\.\.\.' .*0 re-asks"):
        await answer("x" * 500, GOOD, reasks=0)


async def test_a_failed_call_is_a_model_error_and_is_not_asked_again() -> None:
    model = ScriptedChat([TransportError("down"), GOOD])
    with pytest.raises(ModelError, match="down"):
        await ask(model, QUESTION, Verdict)
    assert len(model.asked) == 1


# 4. any text

PIECES = st.sampled_from(
    ['{"note": "a", "warmth": 3}', '{"note":', '"warmth": 9}', "{", "}", "[", "]", '"', "\\", "```json\n", "<think>", "</think>"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["note", "warmth", "x"]), inner, max_size=3),
)
TEXTS = st.one_of(
    st.text(),
    st.lists(PIECES | st.text(max_size=5)).map("".join),
    VALUES.map(json.dumps),
    st.fixed_dictionaries({"note": VALUES, "warmth": VALUES}).map(json.dumps),
)


@given(st.lists(TEXTS, min_size=3, max_size=3))
def test_for_any_text_the_result_fits_its_schema(texts: list[str]) -> None:
    try:
        verdict = asyncio.run(ask(ScriptedChat(texts), QUESTION, Verdict))
    except AnswerError:
        return
    assert type(verdict) is Verdict
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("text", ["{" * 20_000, '{"note":' * 3_000, "[" * 100_000, "\ud83d{"])
async def test_hostile_texts_end_in_an_answer_error(text: str) -> None:
    with pytest.raises(AnswerError):
        await answer(text, text, text)
