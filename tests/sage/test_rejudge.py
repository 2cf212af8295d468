"""A stored SAGE dialogue judged again: the words stay, the judge's own emotion decides where it ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Failure, Transcript
from heartloop.core.errors import AnswerError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.environments.sage.environment import Sage, SageOptions, Speech
from heartloop.evaluation.runner import paid_usage
from tests.sage.test_environment import FIRST, ScriptedUser, emotions

WORDS = [f"word {n}" for n in range(9)]


async def talk(
    *changes: float, turns: int = 4, preset: str = "corrected", speeches: Sequence[str | Speech] = WORDS
) -> Transcript:
    sage = Sage([FIRST], ScriptedUser(changes, speeches), preset=preset, max_turns=turns)
    return await play(sage, FIRST.id, ScriptedChat(lambda m: f"<think>x</think>reply {len(m) // 2}", name="lab/a"), seed=5)


async def read(
    played: Transcript, *changes: float | Exception, preset: str = "corrected", turns: int = 4
) -> tuple[Transcript, ScriptedUser]:
    judge = ScriptedUser(changes, ["my own words"])
    options = SageOptions(preset=preset, max_turns=turns)
    return await rejudged(load_environment("sage"), played, FIRST, judge, options), judge


def words(transcript: Transcript) -> Sequence[tuple[str, str | None]]:
    return [(turn.reply, turn.message) for turn in transcript.turns]


async def test_other_changes_on_the_same_words() -> None:
    played = await talk(1, 2, 3, 4)
    result, judge = await read(played, 5, -5, 10, 0)
    assert words(result) == words(played)
    assert emotions(result) == [45.0, 40.0, 50.0, 50.0]
    assert (result.score, result.stop, result.user) == (50.0, "turn_limit", judge.name)
    assert [view.emotion for view in judge.felt] == [40.0, 45.0, 40.0, 50.0], "it sees its own running emotion"
    assert {view.seed for view in judge.felt} == {5}
    assert result.usage["policy"] == played.usage["policy"], "what the replies took stays true"
    assert not paid_usage(result), "the stored replies are free"
    assert [call.text for call in result.calls] == [call.text for call in played.calls], "thinking and all"


@pytest.mark.parametrize(
    ("changes", "judged", "stop", "score", "last"),
    [
        ((1, 1, 1, 1, 1), (-10, -10, -10, -1), "failure", 9.0, None),
        ((-10, -10, -10, -10), (5, 5, 5, 5), "cut", 60.0, "word 3"),
        ((-10, -10, -10, -10), (-9, -9, -9, -9), "failure", 4.0, "word 3"),
    ],
    ids=["the judge ends it earlier", "the judge would go on", "both end it with the same reply"],
)
async def test_the_dialogue_ends_by_the_judges_emotion(
    changes: tuple[float, ...], judged: tuple[float, ...], stop: str, score: float, last: str | None
) -> None:
    result, _ = await read(await talk(*changes, turns=9), *judged, turns=9)
    assert (result.stop, result.score, len(result.turns), result.turns[-1].message) == (stop, score, 4, last)


async def test_a_goodbye_ends_it_under_released_and_else_the_stored_dialogue_is_cut_there() -> None:
    played = await talk(1, 1, 1, preset="released", speeches=["word", "Bye."])
    for preset, stop in (("released", "goodbye"), ("corrected", "cut")):
        result, _ = await read(played, 9, 9, 9, preset=preset)
        assert (result.stop, result.score, len(result.turns)) == (stop, 58.0, 2)


async def test_a_last_reply_that_was_not_judged_is_judged_under_corrected() -> None:
    played = await talk(1, 2, 3, turns=3, preset="released")
    assert (emotions(played)[-1], played.score) == (None, 43.0)
    result, _ = await read(played, 1, 2, 3, turns=3)
    assert (emotions(result)[-1], result.score, result.stop, result.preset) == (46.0, 46.0, "turn_limit", "corrected")
    back, _ = await read(await talk(1, 2, 3, turns=3), 1, 2, 3, turns=3, preset="released")
    assert (emotions(back)[-1], back.score, back.stop) == (None, 43.0, "turn_limit")


async def test_a_judge_who_fails_leaves_it_unscored() -> None:
    result, _ = await read(await talk(1, 1, 1, 1), 5, 5, AnswerError("no more"))
    assert (result.stop, result.score) == ("failed", None)
    assert result.failure == Failure(role="judge", kind="AnswerError", detail="no more")


async def test_an_imported_dialogue_has_words_and_no_tokens() -> None:
    played = (await talk(1, 2, turns=2)).model_copy(update={"calls": (), "usage": {}})
    result, _ = await read(played, 5, 5, turns=2)
    assert (words(result), result.usage, result.calls, result.score) == (words(played), {}, (), 50.0)
