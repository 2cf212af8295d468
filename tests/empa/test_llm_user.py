"""The LLM roles of EMPA: what each is told, what counts as an answer, what never becomes a level."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.environments.empa.environment import Empa
from heartloop.environments.empa.scenario import load_scenarios
from heartloop.environments.empa.users import EmpaLLMUser
from heartloop.environments.episode import play

CASE = load_scenarios("cases")[0]
REPLY = "You kept the receipt for the lamp."


def form(quote: str = "kept the receipt", **levels: int) -> str:
    """A judge's answer: `C=1` is progress, `A=-2` regress, each with the quote."""
    body: dict[str, Any] = {}
    for axis in "CAP":
        level = levels.get(axis, 0)
        sides = {"progress": max(level, 0), "regress": min(level, 0)}
        body[axis] = {
            side: {"level": value, "quote": quote if value else "", "reason": "because" if value else ""}
            for side, value in sides.items()
        }
    return json.dumps(body)


def speech(reply: str = "Hm. Yes.") -> str:
    return json.dumps({"inside": "i", "reply": reply})


def call(function: str = "wait", argument: str = "", note: str = "") -> str:
    return json.dumps({"observed": "o", "function": function, "argument": argument, "note": note, "reason": "r"})


def roles(**answers: list[str]) -> ScriptedChat:
    """One model for all three roles, that knows which it is asked for by the system prompt."""
    used: dict[str, int] = {}

    def answer(messages: Any) -> str:
        head = messages[0].content
        role = "judge" if "You are the judge" in head else "director" if "You direct" in head else "person"
        number = used[role] = used.get(role, -1) + 1
        mine = answers.get(role, [{"judge": form(C=1), "director": call(), "person": speech()}[role]])
        return mine[min(number, len(mine) - 1)]

    return ScriptedChat(answer, name="sim")


async def played(model: ScriptedChat, turns: int = 2, **settings: Any) -> Transcript:
    return await play(
        Empa([CASE], EmpaLLMUser(model, **settings), max_turns=turns), CASE.id, ScriptedChat([REPLY], cycle=True), seed=100
    )


def asked_of(model: ScriptedChat, role: str) -> list[tuple[Message, ...]]:
    heads = {"judge": "You are the judge", "director": "You direct", "person": "You are one person"}
    return [messages for messages in model.asked if messages[0].content.startswith(heads[role])]


class TestWhatTheyAreTold:
    async def test_the_person_knows_only_what_was_released(self) -> None:
        model = roles(director=[call("reveal_stage", "stage 1"), call()])
        await played(model, turns=3)
        first, second = (asked[1].content for asked in asked_of(model, "person"))
        system = asked_of(model, "person")[0][0].content
        stages = [stage.text for stage in CASE.story.stages]
        assert stages[0] in first
        assert stages[0] in second
        assert not any(text in system + first + second for text in (*stages[1:], CASE.story.epilogue, CASE.past.childhood))

    async def test_judge_and_director_know_the_whole_case(self) -> None:
        model = roles()
        await played(model)
        for role in ("judge", "director"):
            system = asked_of(model, role)[0][0].content
            assert all(stage.text in system for stage in CASE.story.stages)
            assert CASE.needs.constraints in system

    async def test_the_focus_and_the_directors_note_reach_the_person(self) -> None:
        model = roles(director=[call("adjust_focus", "A", "Let it show."), call()])
        await played(model, turns=3)
        first, second = (asked[1].content for asked in asked_of(model, "person"))
        assert "What you feel is in front. Let it show." in first
        assert "What you feel is in front." in second
        assert "Let it show." not in second

    async def test_the_director_sees_the_state(self) -> None:
        model = roles(judge=[form(C=1, A=-2)])
        await played(model)
        text = asked_of(model, "director")[0][1].content
        c, a, p = CASE.start
        assert f"C {c + 1:+g}, A {a - 5:+g}, P {p:+g}; at the start C {c:+g}" in text
        assert "C.Prog +1, A.Neg -2" in text


class TestTheJudge:
    async def test_levels_quotes_and_reasons(self) -> None:
        transcript = await played(roles(judge=[form(C=2, P=-1)]), turns=1)
        turn = transcript.turns[0]
        assert turn.change == {"C": 3, "A": 0, "P": -2}
        assert turn.evidence["quotes"] == {"C.Prog": "kept the receipt", "P.Neg": "kept the receipt"}

    async def test_a_quote_that_nobody_said_is_asked_again(self) -> None:
        model = roles(judge=[form(quote="I will always be there", A=2), form(A=1)])
        transcript = await played(model, turns=1)
        assert transcript.turns[0].evidence["levels"]["A.Prog"] == 1
        assert transcript.counts["re-asks"] == 1
        assert "does not stand in the dialogue" in asked_of(model, "judge")[1][-1].content

    @pytest.mark.parametrize(
        "answer",
        [
            form(quote="I will always be there", A=2), form(quote="", C=1), form(C=1).replace('"because"', '""'),
            form(C=1).replace('"level": 1', '"level": 3'), form(C=1).replace('"level": 1', '"level": true'),
            form(C=1).replace('"level": 1', '"level": 1.5'), "The supporter did well.", "",
        ],
    )  # fmt: skip
    async def test_what_cannot_be_mended_leaves_the_dialogue_unscored(self, answer: str) -> None:
        transcript = await played(roles(judge=[answer]), turns=1)
        assert (transcript.score, transcript.stop) == (None, "failed")
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.kind) == ("judge", "AnswerError")

    async def test_what_is_sent_ties_a_level_to_a_quote_and_a_model_that_heartloop_serves_to_what_was_said(self) -> None:
        model = roles()
        model.name = "local/smollm2"
        await played(model, turns=1)
        sent = next(schema for schema in model.schemas if schema and "A" in schema["properties"])
        zero, other = sent["properties"]["A"]["properties"]["regress"]["anyOf"]
        assert zero["properties"]["level"]["enum"] == [0]
        assert zero["properties"]["quote"]["enum"] == [""]
        assert other["properties"]["level"]["enum"] == [-1, -2]
        assert REPLY in other["properties"]["quote"]["enum"]
        assert other["properties"]["reason"]["minLength"] == 1


class TestTheDirectorAndThePerson:
    async def test_a_call_that_cannot_be_carried_out_is_asked_again(self) -> None:
        model = roles(director=[call("reveal_stage", "stage 3"), call("reveal_stage", "stage 1")])
        transcript = await played(model)
        assert transcript.turns[0].evidence["director"]["argument"] == "stage 1"
        assert "'stage 3' would be told before 'stage 1'" in asked_of(model, "director")[1][-1].content

    async def test_an_argument_that_a_function_does_not_take_is_left_out(self) -> None:
        transcript = await played(roles(director=[call("wait", "C")]))
        assert transcript.failure is None
        assert transcript.turns[0].evidence["director"]["argument"] == ""

    @pytest.mark.parametrize("answer", [speech("Supporter: there, there."), speech("  "), "I am fine."])
    async def test_the_person_speaks_for_nobody_else(self, answer: str) -> None:
        transcript = await played(roles(person=[answer]))
        assert transcript.failure is not None
        assert transcript.failure.role == "user"


class TestCalls:
    async def test_judge_and_director_can_be_other_models(self) -> None:
        person, judge, director = roles(), roles(), roles()
        transcript = await played(person, models={"judge": judge, "director": director})
        assert [len(model.asked) for model in (person, judge, director)] == [1, 2, 1]
        assert transcript.models["judge"] == "sim"

    async def test_seeds_differ_by_turn_and_role(self) -> None:
        model = roles()
        await played(model, turns=3, sampling=Sampling(temperature=0.2))
        seeds = [sampling.seed for sampling in model.samplings if sampling is not None]
        assert len(set(seeds)) == len(seeds) == 7
        assert all(sampling is not None and sampling.temperature == 0.2 for sampling in model.samplings)
