"""A stored dialogue read by another judge.

1. The words stay: the same replies, the same answers of the person.
2. The judge's own emotion runs on: the talk ends where its rules end it, and is cut where nothing more is stored.
3. The person's own goodbye still ends the talk; a last reply that was never judged is judged.
4. A judge who fails leaves the dialogue unscored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Failure, Transcript
from heartloop.core.errors import AnswerError
from heartloop.environments.episode import CallLog, play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.environments.sage.environment import Feeling, Sage, SageOptions, SageView, Speech
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.evaluation.runner import paid_usage

SAGE = load_environment("sage")
SCENARIO = load_scenarios("support")[0]


class Feels:
    """Feels changes from a list, or fails at the end of it; as a person it answers by number, and leaves when told."""

    name = "lab/judge"

    def __init__(self, *changes: float, leaves_at: int | None = None) -> None:
        self._changes = changes
        self._leaves_at = leaves_at
        self.views: list[SageView] = []

    def describe(self, variant: str = "vanilla") -> Mapping[str, Any]:
        return {"models": {"user": self.name}, "prompts": {"feel": "1", "speak": "1"}}

    def admit(self, scenario: object) -> None:
        pass

    async def feel(self, view: SageView, log: CallLog) -> Feeling:
        self.views.append(view)
        if view.turn >= len(self._changes):
            raise AnswerError("no more feelings")
        return Feeling(self._changes[view.turn], {name: name for name in ("content", "fit", "activity", "feeling")})

    async def speak(self, view: SageView, feeling: Feeling, log: CallLog) -> Speech:
        return Speech(f"word {view.turn}", leaves=view.turn == self._leaves_at)


async def talk(*changes: float, turns: int = 4, preset: str = "corrected", leaves_at: int | None = None) -> Transcript:
    sage = Sage([SCENARIO], Feels(*changes, leaves_at=leaves_at), preset=preset, max_turns=turns)
    return await play(sage, SCENARIO.id, ScriptedChat(lambda m: f"<think>x</think>reply {len(m) // 2}", name="lab/a"), seed=5)


async def read(played: Transcript, judge: Any, *, preset: str = "corrected", turns: int = 4) -> Transcript:
    return await rejudged(SAGE, played, SCENARIO, judge, SageOptions(preset=preset, max_turns=turns))


def words(transcript: Transcript) -> Sequence[tuple[str, str | None]]:
    return [(turn.reply, turn.message) for turn in transcript.turns]


async def test_other_feelings_on_the_same_words() -> None:
    played = await talk(1, 2, 3, 4)
    judge = Feels(5, -5, 10, 0)
    found = await read(played, judge)
    assert words(found) == words(played)
    assert [turn.state for turn in found.turns] == [{"emotion": e} for e in (45.0, 40.0, 50.0, 50.0)]
    assert (found.score, found.stop, found.user) == (50.0, "turn_limit", "lab/judge")
    assert [view.emotion for view in judge.views] == [40.0, 45.0, 40.0, 50.0], "it sees its own running emotion"
    assert {view.seed for view in judge.views} == {5}
    assert found.usage["policy"] == played.usage["policy"], "what the replies took stays true"
    assert not paid_usage(found), "the stored replies are free"
    assert [call.text for call in found.calls] == [call.text for call in played.calls], "thinking and all"


async def test_the_talk_ends_where_the_judge_has_had_enough() -> None:
    played = await talk(1, 1, 1, 1, 1, turns=5)
    found = await read(played, Feels(-10, -10, -10, -1), turns=5)
    assert (found.stop, found.score, len(found.turns)) == ("failure", 9.0, 4)
    assert found.turns[-1].message is None, "the stored answer belongs to a talk that went on"


async def test_the_talk_is_cut_where_the_judge_would_have_gone_on() -> None:
    played = await talk(-10, -10, -10, -10, turns=9)
    assert (played.stop, len(played.turns)) == ("failure", 4)
    found = await read(played, Feels(5, 5, 5, 5), turns=9)
    assert (found.stop, found.score, len(found.turns)) == ("cut", 60.0, 4)
    assert words(found) == words(played), "the farewell stays as it was said"


async def test_both_judges_may_end_it_with_the_same_reply() -> None:
    found = await read(await talk(-10, -10, -10, -10, turns=9), Feels(-9, -9, -9, -9), turns=9)
    assert (found.stop, found.score, found.turns[-1].message) == ("failure", 4.0, "word 3")


async def test_the_persons_own_goodbye_still_ends_the_talk() -> None:
    played = await talk(1, 1, 1, leaves_at=1)
    found = await read(played, Feels(9, 9, 9))
    assert (found.stop, found.score, len(found.turns)) == ("goodbye", 58.0, 2)


async def test_a_last_reply_that_was_never_judged_is_judged_under_corrected() -> None:
    played = await talk(1, 2, 3, turns=3, preset="released")
    assert (played.turns[-1].state, played.score) == (None, 43.0)
    found = await read(played, Feels(1, 2, 3), turns=3)
    assert (found.turns[-1].state, found.score, found.stop, found.preset) == ({"emotion": 46.0}, 46.0, "turn_limit", "corrected")
    back = await read(await talk(1, 2, 3, turns=3), Feels(1, 2, 3), turns=3, preset="released")
    assert (back.turns[-1].state, back.score, back.stop) == (None, 43.0, "turn_limit")


async def test_a_judge_who_fails_leaves_it_unscored() -> None:
    found = await read(await talk(1, 1, 1, 1), Feels(5, 5))
    assert (found.stop, found.score) == ("failed", None)
    assert found.failure == Failure(role="judge", kind="AnswerError", detail="no more feelings")


async def test_an_imported_dialogue_has_words_and_no_tokens() -> None:
    played = (await talk(1, 2, turns=2)).model_copy(
        update={"calls": (), "usage": {}, "stop": "turn_limit", "failure": None, "score": 43.0}
    )
    found = await read(played, Feels(5, 5), turns=2)
    assert (words(found), found.usage, found.calls) == (words(played), {}, ())
    assert found.score == 50.0
