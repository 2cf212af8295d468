"""A person's sessions in order, with the model's own notes of earlier ones: what it reads, and what it remembers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.daily import report
from heartloop.environments.daily.environment import JUDGES, SPEC, Daily, DailyOptions, prompt_values
from heartloop.environments.daily.remembering import MEASURES, Remembered, shares
from heartloop.environments.daily.scenario import (
    OWN_NOTES,
    SCENARIOS,
    DailyBrief,
    DailyScenario,
    in_series,
    load_scenarios,
    problems_of,
)
from heartloop.environments.daily.users import DailyEmbeddedUser, DailyLLMUser, notebook
from heartloop.environments.episode import CallLog, play
from heartloop.environments.replay import rejudged
from tests.report.talks import panel_input
from tests.report.test_panels import means

FILE = Path(__file__).parent.parent / "data" / "daily_series.jsonl"
RUNA = load_scenarios(FILE)[0]
OWN: dict[str, Any] = {"variant": OWN_NOTES}
NOTES = ("Cat: Sture, 15. Thyroid, vet.", "Bought something for the window. Line three by day.")
ANSWERS = ("Poor cat.", "Sture must like that. Is line eleven missed?", "It was his thyroid. On the bed, I bet.")
REPLIES = (ANSWERS[0], NOTES[0], ANSWERS[1], NOTES[1], ANSWERS[2])


async def played(policy: Any = None, **options: Any) -> Transcript:
    environment = SPEC.make([RUNA], SPEC.players(), {**OWN, **options})
    return await play(environment, RUNA.id, policy or ScriptedChat(REPLIES, name="x/one"), seed=3)


def changed(number: int, **fields: Any) -> DailyBrief:
    sessions = [DailyScenario.model_validate_json(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    sessions[number - 1] = sessions[number - 1].model_copy(update=fields)
    return in_series(sessions)


class TestASeries:
    def test_its_sessions_are_scenarios_of_their_own_and_the_first_leads_through_them(self) -> None:
        loaded = load_scenarios(FILE)
        assert [(one.id, len(one.sessions), one.is_series) for one in loaded] == [
            ("daily-901", 3, True), ("daily-902", 1, False), ("daily-903", 1, False),
        ]  # fmt: skip
        assert [one.id for one in SPEC.load(str(FILE), variant=OWN_NOTES)] == ["daily-901"]
        assert [one.text.split(" must")[0] for one in RUNA.sessions[1].earlier] == ["Said: My cat Sture"]
        assert loaded[1].earlier == ()

    def test_one_session_with_an_excluded_tag_leaves_no_series_and_the_other_scenarios(self, tmp_path: Path) -> None:
        lines = FILE.read_text(encoding="utf-8").splitlines()
        tagged = tmp_path / "tagged.jsonl"
        tagged.write_text("\n".join([*lines[:2], lines[2].replace('["none"]', '["death"]')]), encoding="utf-8")
        left = load_scenarios(tagged, exclude_tags=["death"])
        assert [(one.id, one.is_series) for one in left] == [("daily-901", False), ("daily-902", False)]
        assert left[0].fingerprint == load_scenarios(tagged)[0].fingerprint != RUNA.fingerprint

    def test_a_scenario_of_its_own_is_written_as_before(self) -> None:
        alone = next(one for one in load_scenarios() if one.series is None)
        assert not {"series", "session"} & alone.model_dump().keys()
        assert not any("said_in" in memory for memory in alone.model_dump()["dialogue_memory"])
        assert RUNA.sessions[1].model_dump()["dialogue_memory"][0]["said_in"] == 1

    def test_ten_people_are_shipped_with_enough_to_remember_and_to_correct(self) -> None:
        """Five sessions each; at least four facts that bear, two that are overtaken, and two from further back than last time."""
        series = [one for one in load_scenarios() if one.is_series]
        assert len({one.persona.name for one in series}) == len(series) == 10
        for first in series:
            said = [(number, memory) for number, one in enumerate(first.sessions, 1) for memory in one.memories if memory.said_in]
            bearings = [memory.bearing for _, memory in said]
            assert len(first.sessions) == 5
            assert bearings.count("bears") >= 4
            assert bearings.count("overtaken") >= 2
            assert sum(number - (memory.said_in or number) >= 2 for number, memory in said) >= 2
            assert any(one.kind == "remembering" for one in first.sessions)

    @pytest.mark.parametrize(
        ("number", "fields", "problem"),
        [
            (2, {"session": 3}, "[1, 3, 3]; expected [1, 2, 3]"),
            (2, {"about": "Somebody else altogether."}, "persona or about differ"),
            (3, {"today": RUNA.sessions[1].today}, "today does not increase"),
            (1, {"session": None}, "series and session go together"),
        ],
    )
    def test_sessions_that_do_not_follow_each_other_are_named_and_not_played(
        self, number: int, fields: dict[str, Any], problem: str
    ) -> None:
        broken = changed(number, **fields)
        assert any(problem in one for one in problems_of(broken))
        with pytest.raises(InputError, match="does not begin a series"):
            Daily([broken], DailyEmbeddedUser(), **OWN)

    def test_a_fact_was_said_in_an_earlier_session(self) -> None:
        assert not any("was said" in one for session in RUNA.sessions for one in problems_of(session))
        early = RUNA.sessions[1].model_copy(update={"session": 1})
        assert any("note 1 was said in session 1; expected one before session 1" in one for one in problems_of(early))

    def test_what_was_said_is_in_the_query_that_says_it(self) -> None:
        note = RUNA.sessions[2].dialogue_memory[1]
        unsaid = changed(3, dialogue_memory=(note.model_copy(update={"cues": ("settee", "couch", "bench")}),))
        assert any(
            "no cue of 'Bought an armchair, a red one.' is in the query of session 2" in one for one in problems_of(unsaid)
        )
        assert problems_of(RUNA) == []

    def test_sessions_are_one_person_and_two_series_of_one_name_are_two(self) -> None:
        identities = {SCENARIOS.identity(one) for one in load_scenarios(FILE)}
        assert len(identities) == 3
        assert SCENARIOS.identity(RUNA)[0] == RUNA.persona.name


class TestWhatTheModelReads:
    async def test_the_first_session_is_the_dialogue_with_given_memory(self) -> None:
        policy, plain = ScriptedChat(REPLIES), ScriptedChat([ANSWERS[0]])
        await played(policy)
        await play(SPEC.make([RUNA], SPEC.players()), RUNA.id, plain, seed=3)
        assert policy.asked[0] == plain.asked[0]

    async def test_a_later_session_shows_its_own_notes_and_nothing_else_of_what_was_before(self) -> None:
        policy = ScriptedChat(REPLIES)
        await played(policy)
        first, asked, second = policy.asked[:3]
        assert [message.content for message in asked[:3]] == [first[0].content, RUNA.query, ANSWERS[0]]
        assert "At most 600 characters" in asked[3].content
        system, user = second
        session = RUNA.sessions[1]
        assert user.content == session.query
        assert all(text in system.content for text in (NOTES[0], session.person, session.about, "Friday 2025-03-14"))
        assert not any(memory.text in system.content for one in RUNA.sessions for memory in one.memories)
        assert NOTES[0] not in policy.asked[4][0].content
        assert NOTES[1] in policy.asked[4][0].content

    async def test_notes_are_cut_at_the_limit_and_may_be_none(self) -> None:
        policy = ScriptedChat([ANSWERS[0], "y" * 101, ANSWERS[1], "", ANSWERS[2]])
        transcript = await played(policy, notes_limit=100)
        assert transcript.turns[1].evidence == {"notes": "y" * 100}
        assert (transcript.counts["notes cut"], transcript.facts["notes_limit"]) == (1, "100")
        assert "(none)" in policy.asked[4][0].content

    async def test_a_bot_that_keeps_dialogues_gets_a_new_one_per_session(self) -> None:
        from heartloop.core.chat import dialogue_id

        ids: list[str] = []

        def says(messages: Sequence[Message]) -> str:
            ids.append(dialogue_id.get())
            return REPLIES[len(ids) - 1]

        await played(ScriptedChat(says))
        assert [ids.index(one) for one in ids] == [0, 0, 2, 2, 4]


class TestTheScore:
    async def test_it_is_the_mean_of_the_sessions_and_notes_are_not_graded(self) -> None:
        transcript = await played()
        levels = [turn.evidence["scores"].values() for turn in transcript.turns[::2]]
        assert transcript.rewards == pytest.approx([sum(one) / 6 for one in levels])
        assert transcript.score == pytest.approx(sum(transcript.rewards) / 3)
        assert [turn.state is None for turn in transcript.turns] == [False, True, False, True, False]
        assert transcript.stop == "turn_limit"

    async def test_rescored_and_judged_again_from_what_is_stored(self) -> None:
        stored = await played(notes_limit=100)
        options = DailyOptions.read({**OWN, "notes_limit": 100}, environment="daily")
        assert SPEC.stored.rescored(stored.model_copy(update={"score": 1.0, "rewards": (1.0,)}), options) == stored
        again = await rejudged(SPEC, stored, RUNA, SPEC.judge(), options)
        assert (again.score, again.turns) == (stored.score, stored.turns)

    def test_the_number_of_replies_follows_from_the_variant(self) -> None:
        assert DailyOptions.read(OWN, environment="daily").max_turns == 9
        for given in ({"max_turns": 2}, {**OWN, "max_turns": 5}):
            with pytest.raises(UseError, match=r"max_turns is .; expected . with this variant"):
                DailyOptions.read(given, environment="daily")


def fact(bearing: str, notes: str, answer: str) -> dict[str, str]:
    return {"bearing": bearing, "notes": notes, "answer": answer}


class TestWhatIsRemembered:
    def test_worked_by_hand(self) -> None:
        """Four facts bear: one used, one used without notes, one only noted, one lost."""
        four = [fact("bears", "a", "a"), fact("bears", "", "b"), fact("bears", "c", ""), fact("bears", "", "")]
        wrong = {"facts": [*four, fact("overtaken", "d", "d"), fact("overtaken", "", "")], "contradiction": None}
        assert shares(wrong) == {"recalled": 0.5, "forgotten": 0.25, "contradicted": 1.0}
        right = {"facts": [fact("overtaken", "d", "")], "contradiction": None}
        assert shares(right) == {"recalled": None, "forgotten": None, "contradicted": 0.0}
        assert shares({"facts": four, "contradiction": None})["contradicted"] is None
        assert shares({"facts": four, "contradiction": ""})["contradicted"] == 0.0
        assert shares({"facts": four, "contradiction": "as you never said"})["contradicted"] == 1.0

    async def test_the_embedded_judge_finds_facts_by_their_cues(self) -> None:
        second, third = (turn.evidence["memory"] for turn in (await played()).turns[2::2])
        # session 2: the cat is named, and line eleven is taken as still true
        assert [(one["notes"], one["answer"]) for one in second["facts"]] == [("sture", "sture"), ("", "line eleven")]
        assert shares(second) == {"recalled": 1.0, "forgotten": 0.0, "contradicted": 1.0}
        # session 3: the notes lost the armchair; line three is in the notes, and the answer is silent on it
        assert [(one["notes"], one["answer"]) for one in third["facts"]] == [("", "thyroid"), ("", ""), ("line three", "")]
        assert shares(third) == {"recalled": 0.5, "forgotten": 0.5, "contradicted": 0.0}

    async def test_the_report_shows_them_by_session_and_model(self) -> None:
        page = panel_input([await played()])
        *_, memory = report.build(page).blocks
        rows = means(memory)
        assert [rows[f"{title}, session 2"] for title in MEASURES] == [100.0, 0.0, 100.0]
        assert [rows[f"{title}, session 3"] for title in MEASURES] == [50.0, 50.0, 0.0]
        assert [rows[f"{title}, all sessions"] for title in MEASURES] == [75.0, 25.0, 50.0]
        last = page.dialogues[0].turns[4]
        assert [row[1] for row in report.PANEL.turn(page.dialogues[0], last).details[1].rows] == [
            "bears, in answer", "bears, in neither", "overtaken, in notes",
        ]  # fmt: skip
        kinds = means(report.build(page).blocks[1])
        assert kinds == {
            kind: pytest.approx(reward)
            for kind, reward in zip(("worry", "chat", "remembering"), page.dialogues[0].rewards, strict=True)
        }

    def test_the_notebook_keeps_the_newest_words_that_fit(self) -> None:
        def reads(notes: str, said: str, limit: int) -> list[Message]:
            system = f"# You\n{notes}\n## How"
            words = (said, Daily.notes.fill(limit=str(limit)))
            first, second = (Message(role="user", content=text) for text in words)
            return [Message(role="system", content=system), first, Message(role="assistant", content="x"), second]

        messages = reads("- one\n- two", "three\nfour", 20)
        assert notebook(messages[:2], 0) == "I remember:\n- one\n- two"
        assert notebook(messages, 0) == "- two\n- three four"


class TestTheModelAsJudge:
    TRACED = Remembered(RUNA.sessions[2], "Sture, 15.\nA red chair", "His thyroid. Is line three late?", 3, 4)

    async def traced(self, *answers: dict[str, Any]) -> tuple[dict[str, Any], ScriptedChat, CallLog]:
        model, log = ScriptedChat([json.dumps({"reason": "so", **answer}) for answer in answers]), CallLog()
        return await DailyLLMUser(model).trace(self.TRACED, log), model, log

    GOOD: ClassVar[dict[str, Any]] = {
        "facts": [
            {"number": 1, "notes": "", "answer": "His thyroid"},
            {"number": 2, "notes": "red chair", "answer": ""},
            {"number": 3, "notes": "", "answer": "line three late"},
        ],
        "contradiction": "",
    }  # fmt: skip

    async def test_it_reads_what_was_said_the_facts_the_notes_and_the_answer(self) -> None:
        traces, model, log = await self.traced(self.GOOD)
        system, question = (message.content for message in model.asked[0][:2])
        assert all(one.query in system for one in RUNA.sessions)
        assert "1. (holds) Her cat Sture" in system
        assert "3. (no longer holds) Drives line three by day." in system
        assert "| Sture, 15.\n    | A red chair" in question
        assert "| His thyroid." in question
        assert [(one["notes"], one["answer"]) for one in traces["facts"]] == [
            ("", "His thyroid"),
            ("red chair", ""),
            ("", "line three late"),
        ]
        assert (traces["contradiction"], [(call.purpose, call.turn) for call in log.calls]) == ("", [("memory", 4)])

    @pytest.mark.parametrize(
        "wrong",
        [
            {"facts": GOOD["facts"][:2]},
            {"facts": [{**GOOD["facts"][0], "answer": "his heart"}, *GOOD["facts"][1:]]},
            {"facts": [{**GOOD["facts"][0], "notes": "His thyroid"}, *GOOD["facts"][1:]]},
            {"contradiction": "she is a nurse"},
        ],
        ids=["a fact missing", "no words of the answer", "words of the answer as of the notes", "no such contradiction"],
    )
    async def test_an_answer_without_its_evidence_is_asked_again(self, wrong: dict[str, Any]) -> None:
        traces, model, log = await self.traced({**self.GOOD, **wrong}, self.GOOD)
        assert (len(model.asked), log.counts["re-asks"], traces["facts"][0]["answer"]) == (2, 1, "His thyroid")

    async def test_the_judges_of_a_later_session_also_read_what_was_said_before(self) -> None:
        assert RUNA.query in prompt_values(RUNA.sessions[1])["notes"]
        alone = load_scenarios(FILE)[1]
        assert RUNA.query not in prompt_values(alone)["notes"]

    async def test_calls_are_logged_at_their_turn(self) -> None:
        def says(messages: Sequence[Message]) -> str:
            if "## The facts" in messages[0].content:
                number = 2 if "2. (no longer" in messages[0].content else 3
                facts = [{"number": one, "notes": "", "answer": ""} for one in range(1, number + 1)]
                return json.dumps({"reason": "so", "facts": facts, "contradiction": ""})
            return json.dumps({"reason": "so", "quote": "Well", "score": 3})

        user = DailyLLMUser(ScriptedChat(says))
        transcript = await play(Daily([RUNA], user, **OWN), RUNA.id, ScriptedChat(["Well."] * 5), seed=3)
        assert transcript.scored
        asked = [(call.turn, call.purpose) for call in transcript.calls if call.role == "judge"]
        assert asked == [(turn, judge) for turn in (0, 2, 4) for judge in (*JUDGES, *(["memory"] if turn else []))]
        assert {"memory", "memory_turn", "notes"} <= transcript.prompts.keys()
        plain = Daily([RUNA], user).describe(RUNA.id)["prompts"]
        assert not {"memory", "memory_turn", "notes"} & plain.keys()
