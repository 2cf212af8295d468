"""What the embedded roles of EMPA must get right, whatever weights the reader has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.dialogue_text import stands_in
from heartloop.environments.empa.embedded import READING, EmpaEmbeddedUser, decide, judge, output_of
from heartloop.environments.empa.environment import FUNCTIONS, MIN_TURNS, Act, Empa, EmpaView, call_problem
from heartloop.environments.empa.perturbations import flipped
from heartloop.environments.empa.scenario import EmpaScenario, load_scenarios
from heartloop.environments.empa.scoring import Case, form_keys, trace
from heartloop.environments.empa.users import MixedRoles, players
from heartloop.environments.episode import play
from heartloop.environments.reading import CORE_FROM, LearnedAppraiser
from heartloop.environments.records import half_of
from heartloop.environments.written import written_lines
from heartloop.reader.reader import Floor
from tests.empa.test_environment import levels
from tests.fixed_appraiser import FixedAppraiser
from tests.written_people import check_own_words

CASES = load_scenarios("cases")
TUNING = [scenario for scenario in CASES if half_of(scenario.id) == "tuning"][:4]
CASE = TUNING[0]

EFFECTS: Mapping[str, tuple[float, float]] = {
    "Good.": (1.2, 0.0), "Slight.": (0.3, 0.0), "Flat.": (0.2, -0.2), "Bad.": (0.0, -0.8), "Cruel.": (0.0, -0.3),
    "Deadly.": (0.0, -2.0), "Best.": (2.0, 0.0),
}  # fmt: skip
"""Progress and setback on every axis, by reply."""


def effects(reply: str) -> Mapping[str, float]:
    up, down = EFFECTS.get(reply, (0.0, -0.6) if not reply else (0.0, 0.0))
    return {output_of(key): up if key.endswith("Prog") else down for key in form_keys()}


def floor(reply: str) -> Floor:
    floors: Mapping[str, Floor] = {"Cruel.": "hostility", "Deadly.": "danger"}
    return floors.get(reply, "")


def fixed(worst: str = "particular") -> EmpaEmbeddedUser:
    return EmpaEmbeddedUser(FixedAppraiser(effects, worst, floor=floor))


def view(scenario: EmpaScenario, *heard: str, forms: Sequence[Mapping[str, int]] = (), **more: Any) -> EmpaView:
    """After `heard`, of which the last is to be judged unless `window` says otherwise."""
    return EmpaView(
        scenario=scenario, said=(scenario.opening, *(f"Line {n}." for n in range(len(heard) - 1))), heard=heard, acts=(),
        path=trace(Case(scenario.start, forms), preset="released"), judgements=(), window=1, turn=len(heard) - 1, seed=0,
        preset="released", max_turns=45,
    )._replace(**more)  # fmt: skip


def dialogue(
    scenario: EmpaScenario, policy: str | Sequence[str], user: EmpaEmbeddedUser | None = None, **options: Any
) -> Transcript:
    """One dialogue with these replies, over and over."""
    replies = [policy] if isinstance(policy, str) else list(policy)
    model = ScriptedChat(lambda messages: replies[sum(message.role == "assistant" for message in messages) % len(replies)])
    return asyncio.run(play(Empa([scenario], user or fixed(), **options), scenario.id, model, seed=3))


def told(scenario: EmpaScenario, message: str | None) -> list[str]:
    """Kinds of the beats that a message tells."""
    return [beat.kind for beat in scenario.beats if message is not None and beat.text in message]


def all_told(scenario: EmpaScenario, transcript: Transcript) -> list[str]:
    return [kind for turn in transcript.turns for kind in told(scenario, turn.message)]


class TestTheJudge:
    @pytest.mark.parametrize(("window", "up", "down"), [
        (["Good."], 1, 0), (["Best."], 2, 0), (["Slight."], 0, 0), (["Flat."], 0, 0), (["Bad."], 0, -1), ([""], 0, -1),
        (["Slight.", "Slight."], 1, 0),  # 0.3 + 0.3
        (["Flat.", "Bad.", "Flat."], 0, -1),  # 0.2 + 0.2; -0.2 - 0.8 - 0.2
        (["Good.", "Good.", "Good."], 2, 0),  # 3.6 is more than there is
        (["Bad.", "Bad."], 0, -2),
        (["Good.", "Bad."], 1, -1),
    ])  # fmt: skip
    def test_a_window_gets_the_nearest_level_of_the_sum(self, window: list[str], up: int, down: int) -> None:
        form = judge(view(CASE, "Good.", *window, window=len(window)), FixedAppraiser(effects)).levels
        assert form == {key: up if key.endswith("Prog") else down for key in form_keys()}

    def test_a_dangerous_reply_gives_the_worst_form_whatever_stands_beside_it(self) -> None:
        judged = judge(view(CASE, "Best.", "Deadly.", "Best.", window=3), FixedAppraiser(effects, floor=floor))
        assert judged.levels == levels(C=-2, A=-2, P=-2)
        assert set(judged.quotes.values()) == {"Deadly."}

    def test_the_quote_is_the_sentence_that_did_most(self) -> None:
        reply = "I hear you. Good. What then?"

        def by_sentence(text: str) -> Mapping[str, float]:
            return {name: sum(effects(part)[name] for part in ("Good.", "Bad.") if part in text) for name in effects("")}

        assert judge(view(CASE, "Before.", reply), FixedAppraiser(by_sentence)).quotes["A.Prog"] == "Good."

    def test_a_reply_is_progress_or_a_setback_on_an_axis(self) -> None:
        """What is predicted on both sides is doubt: 1.4 and -0.8 are 0.6."""
        both = {output_of(key): 1.4 if key.endswith("Prog") else -0.8 for key in form_keys()}
        form = judge(view(CASE, "Any."), FixedAppraiser(lambda text: both)).levels
        assert form == {key: 1 if key.endswith("Prog") else 0 for key in form_keys()}

    @settings(max_examples=25, deadline=None)
    @given(st.text(max_size=200))
    @example("...")
    @example("First one! Then two?\nThree lines.")
    def test_any_reply_gets_a_form_with_a_quote_and_a_reason_for_every_level(self, reply: str) -> None:
        harm = {output_of(key): 0.0 if key.endswith("Prog") else -1.0 for key in form_keys()}
        for appraiser in (LearnedAppraiser(READING), FixedAppraiser(lambda text: harm)):
            judged = judge(view(CASE, "Another reply.", reply), appraiser)
            assert tuple(judged.levels) == form_keys()
            assert all(level in ((0, 1, 2) if key.endswith("Prog") else (0, -1, -2)) for key, level in judged.levels.items())
            given = {key for key, level in judged.levels.items() if level}
            assert given == set(judged.quotes) == set(judged.reasons)
            assert all(stands_in(quote, [reply]) for quote in judged.quotes.values())
            assert all(judged.reasons.values())

    def test_a_stored_form_gives_the_outputs_that_the_reader_is_fitted_to(self) -> None:
        first = dialogue(CASE, "Bad.", max_turns=1).turns[0]
        assert READING.judged(first) == {output_of(key): level for key, level in first.evidence["levels"].items()}

    def test_the_flip_changes_the_kind_of_person(self) -> None:
        for scenario in CASES:
            assert READING.group(scenario) == scenario.axis
            assert READING.group(flipped(scenario)) != scenario.axis


class TestThePerson:
    @pytest.mark.parametrize("scenario", TUNING[:2], ids=lambda s: s.id)
    def test_harm_draws_no_beat_and_a_neutral_reply_facts_only(self, scenario: EmpaScenario) -> None:
        for reply in ("Bad.", "Cruel.", "Deadly.", ""):
            assert all_told(scenario, dialogue(scenario, reply, to_the_end=True, max_turns=20)) == []
        assert set(all_told(scenario, dialogue(scenario, "Flat."))) == {"fact"}

    @pytest.mark.parametrize("scenario", TUNING, ids=lambda s: s.id)
    def test_good_replies_draw_the_story_and_the_core_from_a_sixth(self, scenario: EmpaScenario) -> None:
        transcript = dialogue(scenario, ["Good.", "Flat."], to_the_end=True)
        kinds = all_told(scenario, transcript)
        assert "core" in kinds
        assert len(kinds) >= 15
        for turn in transcript.turns:
            if "core" in told(scenario, turn.message):
                assert turn.evidence["total"] >= CORE_FROM * scenario.distance
                assert turn.evidence["energy"] > 0

    @pytest.mark.parametrize("scenario", TUNING, ids=lambda s: s.id)
    def test_in_a_longer_window_each_reply_is_answered_for_itself(self, scenario: EmpaScenario) -> None:
        transcript = dialogue(scenario, ["Good.", "Bad.", "Good.", "Cruel."], window=3, max_turns=12)
        for turn in transcript.turns:
            if turn.reply != "Good.":
                assert told(scenario, turn.message) == [], turn.index
        assert len(all_told(scenario, transcript)) >= 4

    @pytest.mark.parametrize("reply", ["Good.", "Bad."])
    def test_nothing_is_told_before_it_is_released(self, reply: str) -> None:
        released = {"opening"}
        for turn in dialogue(CASE, [reply, "Good.", "Slight."], to_the_end=True).turns:
            act = turn.evidence.get("director", {})
            if act.get("function", "").startswith("reveal"):
                released.add(act["argument"])
            for beat in CASE.beats:
                if turn.message and beat.text in turn.message:
                    assert beat.source in released, (turn.index, beat.text)

    @pytest.mark.parametrize("policy", [*EFFECTS, "", ["Flat.", "Good.", "Bad."]], ids=str)
    def test_every_word_is_the_persons_own_and_no_line_comes_twice(self, policy: str | list[str]) -> None:
        """Not within 20 turns; in 45 turns they never run out of lines."""
        scenario = TUNING[1]
        for window in (1, 4):
            whole = dialogue(scenario, policy, to_the_end=True, window=window)
            assert whole.score is not None
            assert len(whole.turns) >= MIN_TURNS["released"]
            assert all(turn.message for turn in whole.turns[:-1])
        transcript = dialogue(scenario, policy, to_the_end=True, max_turns=20)
        check_own_words(scenario, transcript)

    @pytest.mark.parametrize(("worst", "group"), [("pressure", "advice"), ("hostility", "cold"), ("warmth", "unfelt")])
    def test_the_line_answers_what_was_missed(self, worst: str, group: str) -> None:
        transcript = dialogue(CASE, "Bad.", fixed(worst), max_turns=2)
        assert transcript.turns[0].message in getattr(CASE.lines, group)

    @pytest.mark.parametrize(("axis", "group"), [("C", "unclear"), ("A", "unfelt"), ("P", "unhelped")])
    def test_where_nothing_stands_out_it_answers_the_axis(self, axis: str, group: str) -> None:
        harm = {output_of(key): -1.0 if key == f"{axis}.Neg" else 0.0 for key in form_keys()}
        transcript = dialogue(CASE, "Bad.", EmpaEmbeddedUser(FixedAppraiser(lambda reply: harm)), max_turns=2)
        assert transcript.turns[0].message in getattr(CASE.lines, group)

    def test_the_end_is_spoken_as_it_came(self) -> None:
        for reply, stop, lines in (("Best.", "success", CASE.lines.settled), ("Bad.", "failure", CASE.lines.left)):
            transcript = dialogue(CASE, reply)
            assert transcript.stop == stop
            assert transcript.turns[-1].message in lines


class TestTheDirector:
    @pytest.mark.parametrize("policy", ["Good.", "Flat.", ["Good.", "Bad.", "Slight."]], ids=str)
    def test_calls_only_what_can_be_carried_out_and_every_call_is_kept(self, policy: str | list[str]) -> None:
        released = ["opening"]
        for turn in dialogue(CASE, policy).turns[:-1]:
            act = Act(**turn.evidence["director"])
            assert act.function in FUNCTIONS
            assert call_problem(act, released=released, turns=turn.index + 1, preset="released") is None
            released += [act.argument] if act.function.startswith("reveal") else []

    def test_a_long_time_without_good_is_let_go(self) -> None:
        nothing = dict.fromkeys(form_keys(), 0)
        assert decide(view(CASE, *["Mm."] * 12, forms=[nothing] * 12, acts=(Act("wait"),) * 11)).function == "end"


class TestRoles:
    def test_a_role_without_a_model_is_embedded(self) -> None:
        model = ScriptedChat(["{}"])
        assert isinstance(players({}, {}), EmpaEmbeddedUser)
        mixed = players({"user": model}, {})
        assert isinstance(mixed, MixedRoles)
        described = mixed.describe()
        assert (described["models"]["judge"], described["models"]["director"]) == ("embedded", "embedded")
        assert described["models"]["user"] == model.name
        assert LearnedAppraiser(READING).hashes.items() <= described["prompts"].items()
        directed = players({"user": model, "judge": model}, {}).describe()
        assert directed["models"]["director"] == "embedded"
        assert not LearnedAppraiser(READING).hashes.items() & directed["prompts"].items(), "no weights in any role"
        assert not isinstance(players(dict.fromkeys(("user", "judge", "director"), model), {}), MixedRoles | EmpaEmbeddedUser)

    async def test_an_embedded_person_answers_the_levels_of_a_judge_that_says_nothing_more(self) -> None:
        class Plain(EmpaEmbeddedUser):
            async def adjudicate(self, view: EmpaView, log: Any) -> Any:
                return (await super().adjudicate(view, log))._replace(evidence={})

        parts = {"user": EmpaEmbeddedUser(), "judge": Plain(FixedAppraiser(effects)), "director": EmpaEmbeddedUser()}
        environment = Empa([CASE], MixedRoles(parts), max_turns=3)
        for reply, group in (("", CASE.lines.silence), ("Bad.", written_lines(CASE.lines))):
            transcript = await play(environment, CASE.id, ScriptedChat([reply], cycle=True), seed=3)
            assert transcript.turns[0].message in group


class TestTheCases:
    def test_thirty_stratified_as_published(self) -> None:
        assert len(CASES) == 30
        assert [sum(s.axis == axis for s in CASES) for axis in "CAP"] == [10, 10, 10]
        assert {sum(s.domain == domain for s in CASES) for domain in {s.domain for s in CASES}} == {5}
        assert {d: sum(s.difficulty == d for s in CASES) for d in ("easy", "medium", "hard", "extreme")} == {
            "easy": 4, "medium": 10, "hard": 11, "extreme": 5,
        }  # fmt: skip
        assert sum(s.threshold == "high" for s in CASES) == 15
