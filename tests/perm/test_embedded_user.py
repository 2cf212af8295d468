"""The embedded judges of PERM: what each counts, what it does not, and that the baselines keep to the form."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog, play
from heartloop.environments.perm.embedded_user import EmbeddedUser, beside, expressed, needs, received, resonated
from heartloop.environments.perm.environment import JUDGES, Grade, Perm, View
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.scenario import EMOTIONS, SETS, load_scenarios, problems_of
from heartloop.environments.quotes import stands_in
from heartloop.models.baselines import BASELINES, RANKED, Baseline
from tests.one_turn_scenarios import SAMPLE

GOOD = "You carried his monitor to the window yourself, and clapped. I wonder whether you had wanted it too, and were allowed to."
KIND = "I'm so sorry you're going through this. That must be really hard. I'm here for you."
STERN = "You should be happy for him. You need to be more resilient. You must learn to let go."
SWEET = "Wow, you are such an amazing and strong person! I truly admire you. The world needs more people like you!"
ADVICE = "You could update your CV and look around. And you could ask for a meeting."


def view(response: str = GOOD, analysis: str = "He is hurt.") -> View:
    return View(SAMPLE, analysis, response, 0)


def understood(analysis: str) -> Grade:
    return resonated(view(analysis=analysis))


class TestResonation:
    @pytest.mark.parametrize(
        ("analysis", "level"),
        [
            ("He has a question about his work.", 1),
            ("He is excited.", 1),
            ("He is jealous.", 2),
            ("Rohit, whom he trained, was made team lead, and it was he who carried the monitor.", 2),
            ("He is jealous, because a man he trained became team lead.", 3),
            ("He envies the man he trained and is ashamed of it, most of all since he carried the monitor for him.", 4),
            ("He envies the man he trained, is ashamed of it since he carried the monitor, and was never allowed to want it.", 5),
        ],
    )
    def test_each_level_takes_what_the_rubric_asks(self, analysis: str, level: int) -> None:
        assert understood(analysis).score == level

    def test_a_copy_of_what_was_told_shows_nothing(self) -> None:
        assert understood(f"{SAMPLE.scenario} {SAMPLE.query}").score == 1

    def test_a_feeling_that_is_denied_is_not_named(self) -> None:
        assert understood("He is not excited about it, he is jealous.").score == 2
        assert understood("He is not jealous.").score == 1

    def test_a_guess_at_every_feeling_is_a_label_at_best(self) -> None:
        every = (
            "He is sad, angry, jealous, ashamed, hurt, lonely, proud, afraid, anxious, furious, about the desk and the monitor."
        )
        assert understood(every).score == 2

    def test_the_response_is_no_part_of_it(self) -> None:
        assert resonated(view(GOOD, "He has a question.")) == resonated(view(KIND, "He has a question."))


class TestExpressionAndReception:
    def test_what_is_bound_to_them_is_said_best_and_lands_best(self) -> None:
        assert expressed(view()).evidence["points"] > expressed(view(SWEET)).evidence["points"]
        for other in (KIND, STERN, SWEET, ADVICE, "Ok."):
            assert other == SWEET or expressed(view()).score > expressed(view(other)).score
            assert received(view()).score > received(view(other)).score

    def test_praise_sounds_warmer_than_stock_sympathy_and_orders(self) -> None:
        assert expressed(view(SWEET)).score > expressed(view(KIND)).score > expressed(view(STERN)).score

    def test_and_does_not_land(self) -> None:
        assert received(view(SWEET)).score <= 2

    def test_a_sore_costs(self) -> None:
        with_sore = received(view(GOOD + " But be happy for him."))
        assert with_sore.evidence["points"] < received(view()).evidence["points"]
        assert ["sore", -3.0] in with_sore.evidence["losses"]

    def test_words_of_their_own_are_no_sore(self) -> None:
        sample = SAMPLE.model_copy(update={"query": SAMPLE.query + " Be happy for him, they say."})
        told = received(View(sample, "A.", "They tell you to be happy for him, and you carried the monitor.", 0))
        assert not any(reason == "sore" for reason, _ in told.evidence["losses"])

    def test_a_touch_in_a_sentence_about_them_lifts(self) -> None:
        assert any(reason == "touch" for reason, _ in received(view()).evidence["gains"])


class TestWhatIsOnlyHandedBack:
    """Their own words do good on the surface (level 3); more takes a question, something unsaid, or words of one's own."""

    HANDED = "It sounds as though you even carried his monitor over to the window for him, and nobody saw how much it hurt."

    def test_a_stretch_of_theirs_in_a_frame_is_level_three_at_most(self) -> None:
        found = received(view(self.HANDED))
        assert found.evidence["points"] >= needs()["reception"]["levels"][2]
        assert found.score == 3

    @pytest.mark.parametrize(
        "more",
        [
            "What was it like to hear the speech?",
            "Perhaps it was your turn for once.",
            "You lifted the monitor yourself, and Rohit has no idea what that took.",
        ],
    )
    def test_with_more_than_that_it_is_not_held_down(self, more: str) -> None:
        assert received(view(f"{self.HANDED} {more}")).score > 3

    def test_a_feeling_told_that_they_do_not_have_costs_tone_and_welcome(self) -> None:
        told = "You carried his monitor to the window, and you are lonely."
        guessed = "You carried his monitor to the window, and perhaps you are lonely."
        for judge in (expressed, received):
            assert judge(view(told)).score < judge(view(guessed)).score
        assert ["not_mine", needs()["moves"]["not_mine"]] in received(view(told)).evidence["losses"]

    def test_a_feeling_that_is_theirs_costs_nothing(self) -> None:
        losses = received(view("You carried his monitor to the window, and you are jealous.")).evidence["losses"]
        assert not any(reason == "not_mine" for reason, _ in losses)

    def test_a_guess_at_many_is_telling(self) -> None:
        many = "You sound lonely, glad, proud, calm and grateful about the monitor."
        assert ["not_mine", needs()["moves"]["not_mine"]] in received(view(many)).evidence["losses"]


class TestBystander:
    def test_the_five_add_up(self) -> None:
        for response in (GOOD, KIND, STERN, SWEET, ADVICE, "...", "x" * 5000):
            grade = beside(view(response))
            assert grade.score == sum(grade.evidence.values())
            assert len(grade.evidence) == 5
            assert all(isinstance(mark, int) and 0 <= mark <= 20 for mark in grade.evidence.values())

    def test_flattery_loses_most_of_what_is_said_in_earnest(self) -> None:
        assert beside(view(SWEET)).score < min(beside(view(other)).score for other in (GOOD, KIND, STERN, ADVICE))

    def test_the_same_again_and_length_cost(self) -> None:
        assert beside(view(f"{GOOD} {GOOD} {GOOD}")).evidence["concise"] < beside(view()).evidence["concise"]
        long = GOOD + " I also think about many other things that one could say here." * 30
        assert beside(view(long)).score < beside(view()).score

    def test_warmth_as_such_neither_helps_nor_harms(self) -> None:
        warm = beside(view(GOOD + " I am glad you told me."))
        assert abs(warm.score - beside(view()).score) <= 6


def test_nothing_said_is_the_lowest_everywhere_it_is_heard() -> None:
    assert (expressed(view("...")).score, received(view("...")).score) == (1, 1)
    assert beside(view("...")).score <= 20


async def test_noise_earns_nothing() -> None:
    noise = view("listen feel hear you valid empathy understand support sorry pain care warm heart")
    assert [(await EmbeddedUser().grade(judge, noise, CallLog())).score for judge in JUDGES[1:3]] == [1, 1]


@settings(max_examples=30)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_gets_a_grade_in_range_with_words_that_stand_in_it(analysis: str, response: str) -> None:
    seen = View(SAMPLE, analysis.strip() or "a", response.strip() or "b", 0)
    for judge, grade in (("resonation", resonated(seen)), ("expression", expressed(seen)), ("reception", received(seen))):
        assert 1 <= grade.score <= 5
        assert grade.reason
        part = seen.judged_by(judge)
        assert grade.quote in part or stands_in(grade.quote, [part])
    assert 0 <= beside(seen).score <= 100


class TestBaselines:
    async def played(self, name: str) -> Transcript:
        return await play(Perm([SAMPLE], EmbeddedUser()), SAMPLE.id, Baseline(name), seed=2)

    @pytest.mark.parametrize("name", [name for name in BASELINES if name != "garbage"])
    async def test_they_write_an_analysis_and_a_response(self, name: str) -> None:
        transcript = await self.played(name)
        answer = parse(transcript.turns[0].reply)
        assert (answer.broken, transcript.failure) == ("", None)
        assert "{" not in answer.analysis

    async def test_garbage_keeps_to_no_form(self) -> None:
        assert (await self.played("garbage")).turns[0].evidence["format"]

    async def test_a_label_is_less_than_a_feeling_with_its_matter(self) -> None:
        analyses = {name: parse((await self.played(name)).turns[0].reply).analysis for name in RANKED}
        assert len(analyses["silent"]) < len(analyses["template"]) < len(analyses["reflector"])


def test_a_sample_in_another_language_is_refused() -> None:
    chinese = SAMPLE.model_copy(
        update={"query": "他当着所有人的面感谢我的耐心。" * 8, "scenario": "九年来他一直在处理没人要的案子。" * 9}
    )
    with pytest.raises(InputError, match="English"):
        Perm([chinese], EmbeddedUser())


def test_every_want_has_its_row() -> None:
    wants = {"gladness", "company", "understanding", "thinking", "acknowledgement", "room"}
    table = needs()
    assert table["intentions"].keys() == table["early_advice"].keys() == table["expression"]["voices"].keys() == wants
    assert all(len(row) == 24 for row in table["intentions"].values())


class TestSamples:
    def test_twenty_of_each_emotion_and_no_problem_in_any(self) -> None:
        samples = load_scenarios(SETS[0])
        assert len(samples) == 640
        assert Counter(s.emotion for s in samples) == dict.fromkeys(EMOTIONS, 20)
        assert [(s.id, problem) for s in samples for problem in problems_of(s)] == []
