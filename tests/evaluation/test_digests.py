"""Digests: what they keep of a dialogue, what they cost in memory, and that every score is the same from them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import CONTENT_FILTER
from heartloop.core.dialogue import Call, Failure, Transcript, Usage
from heartloop.evaluation.compare import agreement
from heartloop.evaluation.digests import InMemory, digest_of, shared
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run, stored_digests
from tests.report.talks import bench_talk, perm_talk, sage_talks, talk, write_run_into


def asked(role: str, turn: int, **more: Any) -> Call:
    return Call(role=role, purpose="feel", turn=turn, text="x" * 500, usage=Usage(prompt_tokens=7), **more)


def test_a_digest_keeps_all_of_a_dialogue_that_numbers_need() -> None:
    calls = (asked("policy", 0, finish_reason=CONTENT_FILTER), asked("user", 0), asked("user", 0, reask=1))
    dialogue = talk("m", "s1", [10, None, -5], silent=1, calls=calls, usage={"user": Usage(prompt_tokens=7, reasoning_tokens=2)})
    bot = dialogue.turns[1].model_copy(update={"silent": True, "truncated": True, "error": "it broke"})
    dialogue = dialogue.model_copy(update={"turns": (dialogue.turns[0], bot, dialogue.turns[2])})
    digest = digest_of(dialogue)
    for name in ("environment", "key", "fingerprint", "seed", "facts", "models", "sampling", "prompts", "start", "stop", "score"):
        assert getattr(digest, name) == getattr(dialogue, name), name
    assert list(digest.course) == [40, 50, 45]
    assert list(digest.lengths) == [len(turn.reply) for turn in dialogue.turns]
    assert [bool(words) for words in digest.said] == [False, True, True]
    assert (digest.silences, digest.failed_replies, digest.error) == (2, 1, "it broke")
    assert (digest.truncated, digest.used_up, digest.filtered, digest.repaired) == (1, 1, 1, 1)
    assert digest.calls_by_role == {"policy": 1, "user": 2}
    assert digest.usage["user"]._asdict() == {
        **dict.fromkeys(digest.usage["user"]._fields, 0),
        "prompt_tokens": 7,
        "reasoning_tokens": 2,
    }


def test_equal_values_of_another_type_are_not_shared() -> None:
    one = shared({"x": 1})
    assert shared({"x": 1}) is one
    assert isinstance(shared({"x": 1.0})["x"], float)


def test_the_person_reads_only_the_last_part_of_an_answer_in_parts() -> None:
    one, other = (digest_of(perm_talk(model, "s1", (5, 5, 5, 5))) for model in ("x", "y"))
    assert one.replies != other.replies, "the analyses differ"
    assert one.said != other.said
    same = digest_of(perm_talk("x", "s2", (5, 5, 5, 5)).model_copy(update={"turns": perm_talk("x", "s1", (1, 1, 1, 1)).turns}))
    assert same.said == one.said


@pytest.mark.parametrize(
    "dialogues",
    [
        sage_talks(),
        [bench_talk(model, scenario, [(50, 40), (30, 60 + n)]) for n, model in enumerate("ab") for scenario in ("s1", "s2")],
    ],
)
def test_scores_and_texts_are_the_same_from_a_file_as_from_the_dialogues(tmp_path: Path, dialogues: list[Transcript]) -> None:
    run = write_run_into(tmp_path / "run", dialogues, environment=dialogues[0].environment)
    digests = list(stored_digests(run))
    assert [digest.read() for digest in digests] == dialogues
    assert score_card(iter(digests), {}) == score_card(dialogues, {})
    assert str(agreement(digests, digests)) == str(agreement(dialogues, dialogues))


def test_a_model_that_a_report_renames_has_its_name_there_in_its_texts_too(tmp_path: Path) -> None:
    runs = [write_run_into(tmp_path / name, [talk("bot", "s1", [gain])]) for name, gain in (("old", 3), ("new", 9))]
    (measurement,) = comparable([read_run(run) for run in runs])
    assert [digest.read().model for digest in measurement.digests] == ["bot (old)", "bot (new)"]
    assert {digest.read().models["policy"] for digest in measurement.digests} == {"bot"}


def test_a_run_takes_memory_for_its_digests_alone(tmp_path: Path) -> None:
    played = [
        talk(f"lab/{n % 5}", f"s{n % 40}", [1] * 8, text=f"{n} " * 200, seed=n, calls=tuple(asked("user", t) for t in range(8)))
        for n in range(160)
    ]
    path = write_run_into(tmp_path / "run", played)
    read_run(path)  # what all runs share is in memory
    tracemalloc.start()
    try:
        run = read_run(path)
        kept, _ = tracemalloc.get_traced_memory()
        score_card(run.digests, run.settings)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = (path / "transcripts.jsonl").stat().st_size
    assert kept < 2_000 * len(played) < size / 4
    assert peak < 4_000 * len(played)


def test_a_dialogue_in_memory_is_read_from_there() -> None:
    dialogue = talk("m", "s1", [1], stop="failed", score=None, failure=Failure(role="user", kind="AnswerError", detail="x"))
    assert digest_of(dialogue, InMemory(dialogue)).read() is dialogue
    with pytest.raises(LookupError, match="s1"):
        digest_of(dialogue).read()
