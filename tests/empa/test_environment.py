"""EMPA: the rules of a dialogue, what a transcript keeps, stored dialogues by another preset or judge, training rewards, and the
language-model roles: what each is told, what counts as an answer, what never becomes a level.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import AnswerError, InputError, UseError
from heartloop.environments.empa.environment import (
    MIN_TURNS,
    Act,
    Empa,
    EmpaOptions,
    EmpaView,
    Judgement,
    call_problem,
    judged_dialogue,
)
from heartloop.environments.empa.scenario import EmpaScenario, load_scenarios
from heartloop.environments.empa.scoring import DEFICIT_POINTS, epmq, form_keys, trace
from heartloop.environments.empa.stored import rescored
from heartloop.environments.empa.users import EmpaLLMUser
from heartloop.environments.episode import CallLog, play
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import rejudged
from heartloop.environments.training import Returns

CASES = load_scenarios("cases")
CASE = CASES[0]
LEAST = MIN_TURNS["released"]


def levels(**given: int) -> dict[str, int]:
    """`C=1` is progress, `A=-2` regress."""
    found = dict.fromkeys(form_keys(), 0)
    for axis, level in given.items():
        found[f"{axis}.{'Prog' if level > 0 else 'Neg'}"] = level
    return found


GOOD, BAD, NOTHING = levels(C=2, A=2, P=2), levels(C=-1, A=-1, P=-1), levels()


class Fixed:
    """Roles that do as they are told: forms and acts by list, the last of each for ever."""

    name = "fixed"

    def __init__(self, *forms: Mapping[str, int], acts: tuple[Act, ...] = (Act("wait"),), breaks: str = "") -> None:
        self.forms = forms
        self.acts = acts
        self.breaks = breaks
        self.views: dict[str, list[EmpaView]] = {"speak": [], "adjudicate": [], "direct": []}

    def admit(self, scenario: EmpaScenario) -> None:
        if scenario.title == "unplayable":
            raise InputError("cannot be played")

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"user": "fixed"}}

    def _seen(self, what: str, view: EmpaView) -> int:
        self.views[what].append(view)
        if self.breaks == what:
            raise AnswerError("no JSON")
        return len(self.views[what]) - 1

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        return f"line {self._seen('speak', view)}"

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        form = self.forms[min(self._seen("adjudicate", view), len(self.forms) - 1)]
        given = [key for key, level in form.items() if level]
        return Judgement(form, dict.fromkeys(given, "A word."), dict.fromkeys(given, "because"), {"seen": True})

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        return self.acts[min(self._seen("direct", view), len(self.acts) - 1)]


async def played(user: Fixed, **settings: Any) -> Transcript:
    return await play(Empa([CASE], user, **settings), CASE.id, ScriptedChat(["A word."], cycle=True), seed=3)


class TestStates:
    async def test_they_start_at_the_iedr_form_and_move_by_the_judges_levels(self) -> None:
        transcript = await played(Fixed(levels(C=1, A=2), levels(P=-2)), max_turns=2)
        c, a, p = CASE.start
        assert transcript.start == {"C": c, "A": a, "P": p}
        assert transcript.turns[0].change == {"C": 1, "A": 3, "P": 0}
        assert transcript.turns[1].change == {"C": 0, "A": 0, "P": -5}
        assert transcript.turns[1].state == {"C": c + 1, "A": a + 3, "P": p - 5}

    async def test_levels_quotes_and_reasons_are_kept_and_told(self) -> None:
        turn = (await played(Fixed(levels(C=1, P=-2)), max_turns=1)).turns[0]
        assert turn.evidence["levels"] == levels(C=1, P=-2)
        assert turn.evidence["quotes"] == {"C.Prog": "A word.", "P.Neg": "A word."}
        assert turn.thoughts == {"C": "+1 “A word.” because", "A": "0", "P": "-2 “A word.” because"}


class TestEnds:
    @pytest.mark.parametrize(("form", "stop"), [(GOOD, "success"), (BAD, "failure")], ids=["success", "failure"])
    async def test_in_released_success_and_failure_come_no_earlier_than_turn_12(self, form: Mapping[str, int], stop: str) -> None:
        transcript = await played(Fixed(form))
        assert (transcript.stop, len(transcript.turns)) == (stop, LEAST)
        assert transcript.turns[-1].message == f"line {LEAST - 1}"

    async def test_in_paper_success_comes_when_it_is_reached_and_nothing_is_a_failure(self) -> None:
        """Points of 2 on every axis that still lacks: success once the energy is above |P_0|, as the mean cosine is above 0.5."""
        at, total, forms = list(CASE.start), 0.0, []
        while total <= CASE.distance:
            step = [2 if x < 0 else 0 for x in at]
            total -= sum(v * x for v, x in zip(step, at, strict=True)) / math.hypot(*at)
            at = [x + v for x, v in zip(at, step, strict=True)]
            forms.append(levels(**dict(zip("CAP", step, strict=True))))
        transcript = await played(Fixed(*forms), preset="paper")
        assert (transcript.stop, len(transcript.turns)) == ("success", len(forms))
        early = await played(Fixed(NOTHING, acts=(Act("end"),)), preset="paper")
        assert (early.stop, len(early.turns)) == ("goodbye", 1)
        harm = await played(Fixed(BAD), preset="paper")
        assert (harm.stop, len(harm.turns)) == ("turn_limit", 45)

    async def test_the_directors_end_is_a_goodbye_and_before_turn_12_a_failure_of_the_director(self) -> None:
        user = Fixed(NOTHING, acts=(*[Act("wait")] * (LEAST - 1), Act("end")))
        transcript = await played(user)
        assert (transcript.stop, len(transcript.turns)) == ("goodbye", LEAST)
        assert user.views["speak"][-1].ending == "goodbye"
        early = await played(Fixed(NOTHING, acts=(Act("end"),)))
        assert (early.stop, early.score) == ("failed", None)
        assert early.failure is not None
        assert early.failure.role == "director"

    async def test_45_replies_at_most(self) -> None:
        transcript = await played(Fixed(NOTHING))
        assert (transcript.stop, len(transcript.turns), transcript.turns[-1].message) == ("turn_limit", 45, None)


class TestWindows:
    async def test_replies_inside_a_window_have_no_state(self) -> None:
        user = Fixed(levels(C=1))
        transcript = await played(user, window=3, max_turns=7)
        assert [turn.state is not None for turn in transcript.turns] == [False, False, True, False, False, True, True]
        assert [view.window for view in user.views["adjudicate"]] == [3, 3, 1]
        assert len(transcript.rewards) == 3
        assert judged_dialogue(transcript).forms == [levels(C=1)] * 3
        assert len(trace(judged_dialogue(transcript), preset="released").unjudged) == 0
        assert [view.turn for view in user.views["direct"]] == [2, 5]


class TestDirector:
    async def test_memory_grows_only_as_it_is_released(self) -> None:
        acts = (
            Act("reveal_stage", "stage 1"), Act("wait"), Act("reveal_memory", "childhood", "softly"), Act("adjust_focus", "A"),
        )  # fmt: skip
        user = Fixed(levels(C=1), acts=acts)
        transcript = await played(user, max_turns=6)
        seen = [view.released for view in user.views["speak"]]
        assert seen[:3] == [("opening", "stage 1"), ("opening", "stage 1"), ("opening", "stage 1", "childhood")]
        assert user.views["speak"][2].focus == ""
        assert user.views["speak"][3].focus == "A"
        assert transcript.turns[2].evidence["director"] == {
            "function": "reveal_memory", "argument": "childhood", "note": "softly", "reason": "",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("act", "released", "problem"),
        [
            (Act("sing"), 0, "there is no function 'sing'"),
            (Act("reveal_stage", "stage 2"), 0, "'stage 2' would be told before 'stage 1'"),
            (Act("reveal_stage", "stage 1"), 1, "'stage 1' is released already"),
            (Act("reveal_stage", "epilogue"), 3, "'epilogue' would be told before 'stage 4'"),
            (Act("reveal_memory", "old age"), 0, "reveal_memory takes one of childhood, adolescence, young adulthood"),
            (Act("wait", "stage 1"), 0, "wait takes no argument"),
            (Act("adjust_focus", ""), 0, "adjust_focus takes one of C, A, P"),
            (Act("end"), 0, "nothing ends before 12 replies, and there were 3"),
        ],
    )
    def test_only_the_fixed_set_in_the_order_of_the_story(self, act: Act, released: int, problem: str) -> None:
        stages = ["opening", *(f"stage {n}" for n in (1, 2, 3, 4))]
        assert problem in (call_problem(act, released=stages[: released + 1], turns=3, preset="released") or "")
        assert call_problem(Act("reveal_stage", "epilogue"), released=stages, turns=3, preset="released") is None


class TestWhoseFailure:
    @pytest.mark.parametrize(("what", "role"), [("adjudicate", "judge"), ("direct", "director"), ("speak", "user")])
    async def test_a_role_that_fails_leaves_the_dialogue_unscored_and_is_named(self, what: str, role: str) -> None:
        transcript = await played(Fixed(GOOD, breaks=what))
        assert (transcript.stop, transcript.score, transcript.rewards) == ("failed", None, ())
        assert transcript.failure is not None
        assert transcript.failure.role == role

    async def test_lost_parting_words_are_only_counted(self) -> None:
        class Mute(Fixed):
            async def speak(self, view: EmpaView, log: CallLog) -> str:
                if view.ending:
                    raise AnswerError("no JSON")
                return await super().speak(view, log)

        transcript = await played(Mute(GOOD))
        assert (transcript.stop, transcript.turns[-1].message) == ("success", None)
        assert transcript.counts["lost farewells"] == 1
        assert transcript.score is not None


class TestSettings:
    async def test_a_transcript_without_levels_cannot_be_computed(self) -> None:
        transcript = await played(Fixed(GOOD), max_turns=1)
        bare = transcript.model_copy(update={"turns": (transcript.turns[0].model_copy(update={"evidence": {}}),)})
        with pytest.raises(InputError, match="the transcript lacks 'levels'"):
            judged_dialogue(bare)


EMPA = load_environment("empa")


class TestRescore:
    async def test_what_the_other_preset_computes_live(self) -> None:
        forms = [levels(C=1, A=2), levels(P=-2), levels(C=2)]
        stored = await played(Fixed(*forms), max_turns=5)
        live = await played(Fixed(*forms), max_turns=5, preset="paper")
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=5))
        assert (found.score, found.rewards, found.stop) == (live.score, live.rewards, live.stop)
        assert [turn.state for turn in found.turns] == [turn.state for turn in live.turns]
        assert [turn.evidence["energy"] for turn in found.turns] == [turn.evidence["energy"] for turn in live.turns]
        assert rescored(found, EmpaOptions(preset="released", max_turns=5)) == stored

    async def test_where_it_would_have_gone_on_it_is_cut(self) -> None:
        stored = await played(Fixed(levels(C=2, A=2)))  # enough by 3 a level, not by 2
        assert stored.stop == "success"
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=45))
        assert (found.stop, len(found.turns)) == ("cut", len(stored.turns))
        assert found.score == pytest.approx(epmq([judged_dialogue(stored)], preset="paper").score)

    async def test_where_it_would_have_ended_earlier_the_rest_is_left_out(self) -> None:
        stored = await played(Fixed(GOOD), preset="paper")
        assert len(stored.turns) > 12
        found = rescored(stored, EmpaOptions(preset="released", max_turns=45))
        assert (found.stop, len(found.turns), len(found.rewards)) == ("success", 12, 12)
        assert {call.turn for call in found.calls} == set(range(12))

    async def test_a_failure_stays_one_and_an_unscored_dialogue_unscored(self) -> None:
        failed = await played(Fixed(BAD))
        assert rescored(rescored(failed, EmpaOptions(preset="paper")), EmpaOptions()).stop == failed.stop == "failure"
        stored = await played(Fixed(GOOD, breaks="direct"))
        found = rescored(stored, EmpaOptions(preset="paper", max_turns=45))
        assert (found.score, found.stop, found.failure) == (None, "failed", stored.failure)


class TestRejudge:
    async def test_other_levels_other_path_same_words(self) -> None:
        stored = await played(Fixed(levels(C=1)), max_turns=4)
        found = await rejudged(EMPA, stored, CASE, Fixed(levels(C=2, A=-1)), EmpaOptions(preset="released", max_turns=4))
        assert [turn.message for turn in found.turns] == [turn.message for turn in stored.turns]
        assert trace(judged_dialogue(found), preset="released").increment.tolist() == [[3, -2, 0]] * 4
        assert found.models["judge"] == "fixed"

    async def test_a_dialogue_that_would_go_on_is_cut_where_nothing_more_is_stored(self) -> None:
        stored = await played(Fixed(GOOD))
        found = await rejudged(EMPA, stored, CASE, Fixed(levels(C=1)), EmpaOptions(preset="released", max_turns=45))
        assert (found.stop, len(found.turns)) == ("cut", 12)
        assert found.score is not None

    async def test_the_judges_failure_is_the_judges(self) -> None:
        stored = await played(Fixed(GOOD), max_turns=2)
        found = await rejudged(EMPA, stored, CASE, Fixed(GOOD, breaks="adjudicate"), EmpaOptions(preset="released", max_turns=2))
        assert found.failure is not None
        assert found.failure.role == "judge"


async def embedded_dialogue(max_turns: int = 3, *, window: int = 1, replies: tuple[str, ...] = ("I hear you.",)) -> Transcript:
    cases = EMPA.load()
    environment = EMPA.make(cases, EMPA.players(), {"max_turns": max_turns, "window": window})
    return await play(environment, cases[0].id, ScriptedChat([*replies] * max_turns), seed=7)


def returns(transcript: Transcript, **options: Any) -> Returns:
    assert EMPA.training is not None
    return EMPA.training.returns(transcript, EMPA.read_options(options))


async def test_rewards_are_success_and_the_share_of_the_deficit() -> None:
    case = await embedded_dialogue()
    deficit = math.hypot(*case.start.values())
    found = returns(case)
    assert found.process == pytest.approx([energy / deficit for energy in case.rewards])
    assert (found.outcome, found.worst_outcome) == (0.0, 0.0)
    assert returns(case.model_copy(update={"stop": "success"})).outcome == 1.0
    # 45 windows that go back as far as a form can say
    assert found.worst_turns == pytest.approx(-45 * math.sqrt(4**2 + 5**2 + 5**2) / deficit)


async def test_a_window_with_stagnation_or_regression_is_penalised() -> None:
    """From (-18, -14, -12) five windows of nothing: stagnation at the fifth. Then -2 on C: |P| grows from 25.8 by 1.4 and more,
    which is a spread of 0.6 over five, and the sixth of them is the sixth negative window in eight: regression.
    """
    steps = [NOTHING] * 5 + [levels(C=-1)] * 6
    case = await played(Fixed(*steps), max_turns=len(steps), to_the_end=True)
    plain, penalised = returns(case).process, returns(case, penalty=0.1).process
    taken = [round((a - b) / 0.1) for a, b in zip(plain, penalised, strict=True)]
    assert taken == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert returns(case, penalty=0.1).worst_turns == pytest.approx(returns(case).worst_turns - 45 * 0.2)


async def test_the_energy_of_a_window_is_the_reward_of_the_reply_that_closes_it() -> None:
    case = await embedded_dialogue(5, window=2, replies=("I hear you.", "You waited so long for that call."))
    deficit = math.hypot(*case.start.values())
    first, second, third = case.rewards
    assert returns(case).process == pytest.approx([energy / deficit for energy in (0.0, first, 0.0, second, third)])


REPLY = "You kept the receipt for the lamp."


def form(quote: str = "kept the receipt", **levels: int) -> str:
    """A judge's answer: `C=1` is progress, `A=-2` regress, each with the quote."""
    marks = {axis: {"quote": quote, "reason": "because", "level": level} for axis, level in levels.items()}
    return json.dumps({axis: [marks[axis]] if axis in marks else [] for axis in "CAP"})


def speech(reply: str = "Hm. Yes.") -> str:
    return json.dumps({"inside": "i", "reply": reply})


def call(function: str = "wait", argument: str = "", note: str = "") -> str:
    return json.dumps({"observed": "o", "function": function, "argument": argument, "note": note, "reason": "r"})


def roles(**answers: list[str]) -> ScriptedChat:
    """One model for all three roles, that knows which it is asked for by the system prompt."""
    used: dict[str, int] = {}

    def answer(messages: Any) -> str:
        head = messages[0].content
        heads = {"You are the judge": "judge", "You direct the": "director", "You say what this person lacks": "deficit"}
        role = next((name for words, name in heads.items() if words in head), "person")
        number = used[role] = used.get(role, -1) + 1
        mine = answers.get(role) or [{"judge": form(C=1), "director": call(), "person": speech()}[role]]
        return mine[min(number, len(mine) - 1)]

    return ScriptedChat(answer, name="sim")


async def asked_models(model: ScriptedChat, turns: int = 2, **settings: Any) -> Transcript:
    return await play(
        Empa([CASE], EmpaLLMUser(model, **settings), max_turns=turns), CASE.id, ScriptedChat([REPLY], cycle=True), seed=100
    )


def asked_of(model: ScriptedChat, role: str) -> list[tuple[Message, ...]]:
    heads = {"judge": "You are the judge", "director": "You direct the", "person": "You are this person"}
    return [messages for messages in model.asked if heads[role] in messages[0].content]


class TestWhatTheyAreTold:
    async def test_the_person_is_told_what_has_come_up_and_what_to_keep_back(self) -> None:
        model = roles(director=[call("reveal_stage", "stage 1"), call("reveal_memory", "childhood"), call()])
        await asked_models(model, turns=3)
        first, second = (asked[1].content for asked in asked_of(model, "person"))
        assert "newest last: opening, stage 1\nYou keep back: stage 2, stage 3, stage 4, epilogue\n" in first
        assert "newest last: opening, stage 1, childhood\nYou keep back: stage 2, stage 3, stage 4, epilogue\n" in second

    async def test_all_roles_know_the_whole_case(self) -> None:
        model = roles()
        await asked_models(model)
        for role in ("judge", "director", "person"):
            system = asked_of(model, role)[0][0].content
            assert all(stage.text in system for stage in CASE.story.stages)
            assert all(text in system for text in (CASE.needs.constraints, CASE.past.childhood, CASE.past.arc))

    async def test_the_focus_and_the_directors_note_reach_the_person(self) -> None:
        model = roles(director=[call("adjust_focus", "A", "Let it show."), call()])
        await asked_models(model, turns=5)
        notes = [asked[1].content.split("In front in you now: ")[1] for asked in asked_of(model, "person")]
        assert notes[0].startswith("what you feel. Let it show.")
        assert all(note.startswith("what you feel.") and "Let it show." not in note for note in notes[1:3])
        assert "what you feel" not in notes[3]  # it lapsed
        seen = [asked[1].content.split("Focus now: ")[1].split("\n")[0] for asked in asked_of(model, "director")]
        assert seen == ["none", "A", "A", "none"]

    async def test_the_director_sees_the_state(self) -> None:
        model = roles(judge=[form(C=1, A=-2)])
        await asked_models(model)
        text = asked_of(model, "director")[0][1].content
        c, a, p = CASE.start
        assert f"C {c + 1:+g}, A {a - 5:+g}, P {p:+g}; at the start C {c:+g}" in text
        assert "C.Prog +1, A.Neg -2" in text


class TestTheJudge:
    async def test_levels_quotes_and_reasons(self) -> None:
        transcript = await asked_models(roles(judge=[form(C=2, P=-1)]), turns=1)
        turn = transcript.turns[0]
        assert turn.change == {"C": 3, "A": 0, "P": -2}
        assert turn.evidence["quotes"] == {"C.Prog": "kept the receipt", "P.Neg": "kept the receipt"}

    async def test_a_quote_that_nobody_said_is_asked_again(self) -> None:
        model = roles(judge=[form(quote="I will always be there", A=2), form(A=1)])
        transcript = await asked_models(model, turns=1)
        assert transcript.turns[0].evidence["levels"]["A.Prog"] == 1
        assert transcript.counts["re-asks"] == 1
        assert "A.Prog quotes 'I will always be there'" in asked_of(model, "judge")[1][-1].content

    async def test_a_quote_of_the_person_or_of_an_earlier_window_does_not_count(self) -> None:
        model = roles(judge=[form(quote=CASE.opening[:30], A=2), form(A=1), form(quote="kept the lamp", A=2), form(C=1)])
        replies = ScriptedChat(["You kept the receipt, you kept the lamp.", REPLY])
        transcript = await play(Empa([CASE], EmpaLLMUser(model), max_turns=2), CASE.id, replies, seed=100)
        assert [turn.change for turn in transcript.turns] == [{"C": 0, "A": 1, "P": 0}, {"C": 1, "A": 0, "P": 0}]
        assert transcript.counts["re-asks"] == 2

    async def test_progress_and_regress_on_one_axis_but_no_level_twice(self) -> None:
        marks = [{"quote": "receipt", "reason": "because", "level": level} for level in (2, -1, 1)]
        both, twice = (json.dumps({"C": [], "A": given, "P": []}) for given in (marks[:2], marks[::2]))
        transcript = await asked_models(roles(judge=[twice, both]), turns=1)
        assert transcript.turns[0].evidence["levels"] == levels(A=2) | {"A.Neg": -1}
        assert transcript.counts["re-asks"] == 1

    async def test_it_is_reminded_of_what_it_credited(self) -> None:
        model = roles(judge=[form(C=2, P=-1), form(quote="the lamp", A=1), form()])
        await asked_models(model, turns=3)
        reminders = [asked[1].content.split("earlier windows:\n")[1].split("\n\n")[0] for asked in asked_of(model, "judge")]
        first, second = "- window 1: C +2 “kept the receipt”", "- window 2: A +1 “the lamp”"
        assert reminders == ["- none", first, f"{first}\n{second}"]

    @pytest.mark.parametrize(
        "answer",
        [
            form(quote="I will always be there", A=2), form(quote="", C=1), form(C=1).replace('"because"', '""'),
            form(C=1).replace('"level": 1', '"level": 3'), form(C=1).replace('"level": 1', '"level": true'),
            form(C=1).replace('"level": 1', '"level": 1.5'), "The supporter did well.", "",
        ],
    )  # fmt: skip
    async def test_what_cannot_be_mended_leaves_the_dialogue_unscored(self, answer: str) -> None:
        transcript = await asked_models(roles(judge=[answer]), turns=1)
        assert (transcript.score, transcript.stop) == (None, "failed")
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.kind) == ("judge", "AnswerError")

    async def test_what_is_sent_ties_a_level_to_a_quote_and_a_model_that_heartloop_serves_to_what_was_said(self) -> None:
        model = roles()
        model.name = "local/smollm2"
        await asked_models(model, turns=1)
        sent = next(schema for schema in model.schemas if schema and "A" in schema["properties"])
        mark = sent["properties"]["A"]["items"]["properties"]
        assert list(mark) == ["quote", "reason", "level"]
        assert mark["level"]["enum"] == [-2, -1, 1, 2]
        assert mark["quote"]["enum"] == [REPLY]
        assert mark["reason"]["minLength"] == 1


def deficit_form(quote: str = CASE.topic, **levels: int) -> str:
    """An IEDR form: `C1=2` is level 2 of C.1, with the quote; the rest is 0."""
    given = {name: levels.get(name.replace(".", ""), 0) for name in DEFICIT_POINTS}
    ratings = [{"indicator": x, "quote": quote if level else "", "reason": "r", "level": level} for x, level in given.items()]
    return json.dumps({"ratings": ratings})


class TestTheInitialDeficit:
    async def judged(self, *answers: str, **options: Any) -> Transcript:
        user = EmpaLLMUser(roles(deficit=list(answers)))
        replies = ScriptedChat([REPLY], cycle=True)
        return await play(Empa([CASE], user, deficit="judged", max_turns=2, **options), CASE.id, replies, seed=100)

    async def test_the_judge_fills_the_form_before_the_first_message(self) -> None:
        """C.1 at 2 is 4 points, A.2 at 3 is 12, P.3 at 1 is 3: |P_0| is 13; progress of 1 on C has the energy 4/13."""
        transcript = await self.judged(deficit_form(C1=2, A2=3, P3=1))
        assert transcript.start == {"C": -4, "A": -12, "P": -3}
        assert transcript.turns[0].evidence["energy"] == pytest.approx(4 / 13, abs=1e-4)
        assert [one.role for one in transcript.calls if one.purpose == "iedr"] == ["judge"]
        assert (transcript.facts["deficit"], "iedr" in transcript.prompts) == ("judged", True)

    @pytest.mark.parametrize(
        "wrong", [deficit_form("words that are not there", C1=1), deficit_form(), deficit_form(C1=1).replace('"C.2"', '"C.1"')]
    )
    async def test_a_form_that_is_wrong_is_asked_again_and_then_leaves_the_dialogue_unscored(self, wrong: str) -> None:
        assert (await self.judged(wrong, deficit_form(A2=1))).counts["re-asks"] == 1
        failed = await self.judged(wrong)
        assert (failed.stop, failed.score, failed.failure and failed.failure.role) == ("failed", None, "judge")

    async def test_rescoring_and_another_judge_keep_it(self) -> None:
        transcript = await self.judged(deficit_form(C1=2, A2=3, P3=1))
        options = EMPA.read_options({"preset": "released", "deficit": "judged", "max_turns": 2})
        again = await rejudged(EMPA, transcript, CASE, Fixed(levels(C=2)), options)
        assert again.start == transcript.start
        assert rescored(transcript, EmpaOptions(preset="paper")).turns[0].state == {"C": -3, "A": -12, "P": -3}

    async def test_by_default_nothing_is_asked_and_an_embedded_judge_is_refused(self) -> None:
        model = roles()
        transcript = await asked_models(model)
        assert asked_of(model, "judge")[0] == model.asked[0]
        assert "deficit" not in transcript.facts
        with pytest.raises(UseError, match="the embedded judge fills no IEDR form"):
            EMPA.make([CASE], EMPA.players(), {"deficit": "judged"})


class TestTheDirectorAndThePerson:
    async def test_a_call_that_cannot_be_carried_out_is_asked_again(self) -> None:
        model = roles(director=[call("reveal_stage", "stage 3"), call("reveal_stage", "stage 1")])
        transcript = await asked_models(model)
        assert transcript.turns[0].evidence["director"]["argument"] == "stage 1"
        assert "'stage 3' would be told before 'stage 1'" in asked_of(model, "director")[1][-1].content

    @pytest.mark.parametrize(("good", "stop"), [(True, "turn_limit"), (False, "goodbye")])
    async def test_end_waits_for_the_story_unless_nothing_does_good(self, good: bool, stop: str) -> None:
        calls = [*[call()] * (LEAST - 1), call("end"), call()]
        judge = [form(C=1)] if good else [form()]
        transcript = await asked_models(roles(director=calls, judge=judge), turns=LEAST + 1)
        assert transcript.stop == stop
        assert transcript.counts.get("re-asks", 0) == good

    async def test_an_argument_that_a_function_does_not_take_is_left_out(self) -> None:
        transcript = await asked_models(roles(director=[call("wait", "C")]))
        assert transcript.failure is None
        assert transcript.turns[0].evidence["director"]["argument"] == ""

    @pytest.mark.parametrize("answer", [speech("Supporter: there, there."), speech("  "), "I am fine."])
    async def test_the_person_speaks_for_nobody_else(self, answer: str) -> None:
        transcript = await asked_models(roles(person=[answer]))
        assert transcript.failure is not None
        assert transcript.failure.role == "user"


class TestCalls:
    async def test_judge_and_director_can_be_other_models(self) -> None:
        person, judge, director = roles(), roles(), roles()
        transcript = await asked_models(person, models={"judge": judge, "director": director})
        assert [len(model.asked) for model in (person, judge, director)] == [1, 2, 1]
        assert transcript.models["judge"] == "sim"

    async def test_seeds_differ_by_turn_and_role(self) -> None:
        model = roles()
        await asked_models(model, turns=3, sampling=Sampling(temperature=0.2))
        seeds = [sampling.seed for sampling in model.samplings if sampling is not None]
        assert len(set(seeds)) == len(seeds) == 7
        assert all(sampling is not None and sampling.temperature == 0.2 for sampling in model.samplings)
