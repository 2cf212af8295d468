"""The embedded roles of EMPA: what each axis rewards, what each flaw costs, what may be told, when the director acts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.check import check_environment
from heartloop.environments.empa.acts import FUNCTIONS, MIN_TURNS, Act, call_problem
from heartloop.environments.empa.director import decide
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import Empa, View, judged_dialogue
from heartloop.environments.empa.rubric import judge
from heartloop.environments.empa.scenario import Scenario, load_scenarios
from heartloop.environments.empa.scoring import Case, form_keys, trace
from heartloop.environments.episode import play
from heartloop.environments.quotes import stands_in
from heartloop.environments.records import half_of
from heartloop.models.baselines import Baseline

CASES = load_scenarios("cases")
CASE = next(s for s in CASES if s.axis == "C" and s.threshold == "high")


def view(scenario: Scenario, *heard: str, said: Sequence[str] = (), acts: Sequence[Act] = ()) -> View:
    return View(
        scenario=scenario, said=(scenario.opening, *said), heard=heard, acts=tuple(acts),
        path=trace(Case(scenario.start, ()), preset="released"), judgements=(), window=1, turn=len(heard) - 1, seed=0,
        preset="released", max_turns=45,
    )  # fmt: skip


_PLAYED: dict[tuple[str, str, int, int], Transcript] = {}


async def talk(scenario: Scenario, name: str, seed: int = 3, max_turns: int = 45) -> Transcript:
    """A dialogue with a scripted supporter, played once."""
    key = (scenario.id, name, seed, max_turns)
    if key not in _PLAYED:
        _PLAYED[key] = await play(Empa([scenario], EmbeddedUser(), max_turns=max_turns), scenario.id, Baseline(name), seed=seed)
    return _PLAYED[key]


class TestTheJudge:
    @pytest.mark.parametrize("scenario", CASES[::6], ids=lambda s: s.id)
    def test_silence_leads_away_on_c_and_a(self, scenario: Scenario) -> None:
        found = judge(view(scenario, "")).levels
        assert found["C.Neg"] < 0
        assert found["A.Neg"] < 0
        assert not any(found[f"{axis}.Prog"] for axis in "CAP")

    @pytest.mark.parametrize("scenario", CASES[::6], ids=lambda s: s.id)
    def test_stock_sympathy_regresses_on_the_affective_axis(self, scenario: Scenario) -> None:
        found = judge(view(scenario, "I'm so sorry you're going through this. That must be really hard. I'm here for you."))
        assert found.levels["A.Neg"] < 0
        assert found.levels["A.Prog"] == 0 or scenario.threshold == "low"  # who takes what is kindly meant

    @pytest.mark.parametrize("scenario", CASES[::6], ids=lambda s: s.id)
    def test_flattery_regresses(self, scenario: Scenario) -> None:
        found = judge(
            view(scenario, "Wow, you are such an amazing and strong person! The world needs more people like you!")
        ).levels
        assert found["C.Neg"] + found["A.Neg"] < 0
        assert found["C.Prog"] == found["A.Prog"] == 0

    def test_what_hurts_this_person_in_particular_costs(self) -> None:
        sore = CASE.sores[0].cues[0]
        plain = "I see that. What happened on that day, as you tell it?"
        hurt = judge(view(CASE, f"{plain} It sounds like {sore}."))
        assert sum(hurt.levels[key] for key in form_keys()) < sum(judge(view(CASE, plain)).levels[key] for key in form_keys())

    def test_the_threshold_decides_how_specific_a_reply_must_be(self) -> None:
        generic = "I would like to understand that better, and I am glad that you tell it. What is it like for you?"
        points = {}
        for threshold in ("low", "high"):
            case = CASE.model_copy(update={"threshold": threshold})
            points[threshold] = sum(up for up, _ in judge(view(case, generic)).evidence["points"].values())
        assert points["low"] > points["high"]

    def test_priorities_decide_what_an_axis_is_worth(self) -> None:
        reply = "You looked at it once more and did not give way, and I can hear what that took."
        turned = CASE.model_copy(
            update={
                "priorities": CASE.priorities.model_copy(
                    update={"cognitive": CASE.priorities.motivational, "motivational": CASE.priorities.cognitive}
                )
            }
        )
        assert CASE.priorities.cognitive.level != turned.priorities.cognitive.level
        before, after = (judge(view(case, reply)).evidence["points"]["C"][0] for case in (CASE, turned))
        assert before > after

    async def test_every_level_has_a_quote_that_stands_in_the_dialogue_and_a_reason(self) -> None:
        for name in ("listener", "fixer", "template", "silent", "garbage"):
            transcript = await talk(CASE, name, max_turns=8)
            for turn in transcript.turns:
                given = [key for key, level in turn.evidence["levels"].items() if level]
                assert set(given) == set(turn.evidence["quotes"]) == set(turn.evidence["reasons"])
                assert all(stands_in(quote, [turn.reply]) for quote in turn.evidence["quotes"].values()), turn.evidence["quotes"]
                assert all(turn.evidence["reasons"].values())

    def test_in_a_window_the_best_and_the_worst_of_its_replies_count(self) -> None:
        good, bad = "I am with you in this, take your time. What went through you then?", ""
        both = judge(view(CASE, good, bad, said=["It is so."])._replace(window=2)).levels
        last = judge(view(CASE, good, bad, said=["It is so."])).levels
        assert all(both[key] >= last[key] for key in form_keys() if key.endswith("Prog"))
        assert both["A.Neg"] == last["A.Neg"]

    @settings(max_examples=25)
    @given(st.text(max_size=200))
    def test_any_reply_gets_levels_in_range(self, reply: str) -> None:
        found = judge(view(CASE, reply)).levels
        assert tuple(found) == form_keys()
        assert all(level in ((0, 1, 2) if key.endswith("Prog") else (0, -1, -2)) for key, level in found.items())


class TestThePerson:
    @pytest.mark.parametrize("name", ["listener", "template"])
    async def test_nothing_is_told_before_it_is_released(self, name: str) -> None:
        transcript = await talk(CASE, name)
        released = {"opening"}
        for turn in transcript.turns:
            act = turn.evidence.get("director", {})
            if act.get("function", "").startswith("reveal"):
                released.add(act["argument"])
            for beat in CASE.beats:
                if turn.message and beat.text in turn.message:
                    assert beat.source in released, (turn.index, beat.text)

    @pytest.mark.parametrize("name", ["listener", "template", "silent"])
    async def test_no_line_is_said_twice_in_a_talk_of_ordinary_length(self, name: str) -> None:
        said = [turn.message for turn in (await talk(CASE, name)).turns if turn.message]
        assert len(set(said)) == len(said)

    async def test_every_word_is_a_written_line(self) -> None:
        lines = {line for group in CASE.lines.model_dump().values() for line in group} | {beat.text for beat in CASE.beats}
        for turn in (await talk(CASE, "listener")).turns:
            rest = turn.message or ""
            for line in sorted(lines, key=len, reverse=True):
                rest = rest.replace(line, "")
            assert rest.strip() == "", rest

    async def test_the_end_is_spoken_as_it_came(self) -> None:
        transcript = await talk(CASE, "template")
        assert transcript.stop in ("failure", "goodbye")
        assert transcript.turns[-1].message in CASE.lines.left


class TestTheDirector:
    async def test_calls_only_what_can_be_carried_out_and_every_call_is_kept(self) -> None:
        for scenario in (CASE, CASES[-1]):
            transcript = await talk(scenario, "listener")
            released = ["opening"]
            for turn in transcript.turns[:-1]:
                act = Act(**turn.evidence["director"])
                assert act.function in FUNCTIONS
                assert call_problem(act, released=released, turns=turn.index + 1) is None
                released += [act.argument] if act.function.startswith("reveal") else []

    async def test_story_comes_with_good_replies_and_not_without(self) -> None:
        good, bad = await talk(CASE, "listener"), await talk(CASE, "template")
        stages = [
            sum(turn.evidence.get("director", {}).get("function") == "reveal_stage" for turn in t.turns) for t in (good, bad)
        ]
        assert stages[0] >= 3
        assert stages[1] == 0

    async def test_nobody_is_let_go_before_turn_12(self) -> None:
        for name in ("silent", "template", "fixer", "garbage"):
            assert len((await talk(CASE, name)).turns) >= MIN_TURNS

    def test_a_long_time_without_good_is_let_go(self) -> None:
        nothing = dict.fromkeys(form_keys(), 0)
        quiet = view(CASE, *["Mm."] * 12, said=["Well."] * 11)._replace(
            path=trace(Case(CASE.start, [nothing] * 12), preset="released"), acts=(Act("wait"),) * 11
        )
        assert decide(quiet).function == "end"


class TestTheOrder:
    """On one case only; the claims of docs/decisions/0009 over a half are measured by `benchmarks.empa_order`."""

    async def test_who_listens_comes_before_who_performs_and_who_is_silent(self) -> None:
        scores = {name: (await talk(CASE, name)).score or 0.0 for name in ("listener", "template", "silent")}
        assert scores["listener"] > 2 * max(scores["template"], scores["silent"])

    async def test_stock_sympathy_does_much_and_leads_away(self) -> None:
        paths = {
            name: trace(judged_dialogue(await talk(CASE, name)), preset="released") for name in ("listener", "template", "silent")
        }
        size = {name: float(np.linalg.norm(path.increment, axis=1).mean()) for name, path in paths.items()}
        assert size["template"] > size["silent"]
        assert size["template"] > size["listener"]
        assert paths["template"].alignment.mean() < 0 < paths["listener"].alignment.mean()


class TestConformance:
    def test_with_longer_windows(self) -> None:
        check_environment(Empa(CASES[:1], EmbeddedUser(), max_turns=14, window=3, preset="paper"), scenarios=1)

    async def test_a_seed_is_another_day_and_not_another_person(self) -> None:
        first, second = await talk(CASE, "listener", 1, 14), await talk(CASE, "listener", 2, 14)
        assert first.start == second.start
        assert first.turns != second.turns

    def test_a_case_in_another_language_is_refused(self) -> None:
        beats = tuple(
            beat.model_copy(update={"text": "我不知道该怎么办，真的不知道该怎么办才好，谁能告诉我。"}) for beat in CASE.beats
        )
        with pytest.raises(InputError, match="is not in English"):
            EmbeddedUser().admit(CASE.model_copy(update={"opening": "我昨天晚上没有睡着，一直在想那件事情。", "beats": beats}))


class TestTheCases:
    def test_thirty_stratified_as_published(self) -> None:
        assert len(CASES) == 30
        assert [sum(s.axis == axis for s in CASES) for axis in "CAP"] == [10, 10, 10]
        assert {sum(s.domain == domain for s in CASES) for domain in {s.domain for s in CASES}} == {5}
        assert {d: sum(s.difficulty == d for s in CASES) for d in ("easy", "medium", "hard", "extreme")} == {
            "easy": 4, "medium": 10, "hard": 11, "extreme": 5,
        }  # fmt: skip
        assert sum(s.threshold == "high" for s in CASES) == 15

    def test_both_halves_hold_every_axis(self) -> None:
        assert {(half_of(s.id), s.axis) for s in CASES} == {(half, axis) for half in ("tuning", "held-out") for axis in "CAP"}
