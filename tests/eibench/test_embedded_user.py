"""The embedded user of EIBench: what each scene makes of a reply; order and conformance on dialogues."""

from __future__ import annotations

import pytest

from heartloop.environments.eibench.embedded_user import EmbeddedUser, Felt, feel
from heartloop.environments.eibench.environment import EIBench, View
from heartloop.environments.eibench.scenario import SCENES, load_scenarios
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.models.baselines import Baseline

TEST = {scenario.id: scenario for scenario in load_scenarios("test")}
DEFENSE, REPAIR, CHARM = "defense-visiting-hours-01", "repair-wrong-name-01", "charm-allotment-01"


def felt(scenario: str, *replies: str, said: tuple[str, ...] = ()) -> Felt:
    """How the last reply lands, after the others."""
    person = TEST[scenario]
    opening = () if person.opening is None else (person.opening,)
    states = ((float(person.anchors.a.start), float(person.anchors.t.start)),) * len(replies)
    return feel(View(person, (*opening, *said), replies, states, len(replies) - 1, 0, "paper", 8))[0]


def good(found: Felt) -> int:
    """Up in the relation and down in the negative emotion."""
    return found.t - found.a


def reasons(found: Felt) -> set[str]:
    return {reason for reason, _, _ in (*found.weighed.gains, *found.weighed.losses)}


WAY = (
    "Eleven hours behind that lorry, and then a closed door. "
    "I can't let you in, but I can raise the blind so that you see her from here."
)
CAVING = "All right, I'll let you in, just this once, go ahead."
RULE = "I understand, but visiting hours ended at seven. The rules are the same for everybody."


class TestDefense:
    def test_a_boundary_with_a_way_beats_caving_in_and_repeating_the_rule(self) -> None:
        assert good(felt(DEFENSE, WAY)) > 0 > max(good(felt(DEFENSE, CAVING)), good(felt(DEFENSE, RULE)))

    def test_what_the_scene_saw_is_named(self) -> None:
        assert {"way", "held"} <= reasons(felt(DEFENSE, WAY))
        assert "yielded" in reasons(felt(DEFENSE, CAVING))
        assert "ruled" in reasons(felt(DEFENSE, RULE))

    def test_giving_in_costs_the_relation_more_than_it_calms(self) -> None:
        found = felt(DEFENSE, CAVING)
        assert found.t < 0
        assert found.a > found.t

    def test_the_same_rule_again_is_worse(self) -> None:
        assert good(felt(DEFENSE, RULE, "As I said, the rules are the rules. It is not possible.")) < good(felt(DEFENSE, RULE))

    def test_a_refusal_in_the_demands_own_words_is_no_giving_in(self) -> None:
        assert "yielded" not in reasons(felt(DEFENSE, "I can't let you in tonight, and I won't open the door behind her back."))

    def test_a_wish_gives_nothing(self) -> None:
        assert "yielded" not in reasons(felt(DEFENSE, "If I could, I would let you in."))


OWNED = "I read a note without checking it and said the wrong name. You had two years of Saturdays in it, and you had to clap."
HOLLOW = "I am so sorry. I really apologise."
EXCUSE = "I'm sorry, but it was only a mix-up, and I was very busy that day."


class TestRepair:
    def test_naming_the_deed_beats_a_generic_apology_and_an_excuse(self) -> None:
        assert good(felt(REPAIR, OWNED)) > 0 > good(felt(REPAIR, HOLLOW)) >= good(felt(REPAIR, EXCUSE))

    def test_what_the_scene_saw_is_named(self) -> None:
        assert {"owned", "cost"} <= reasons(felt(REPAIR, OWNED))
        assert "hollow" in reasons(felt(REPAIR, HOLLOW))
        assert "excused" in reasons(felt(REPAIR, EXCUSE))

    def test_the_same_apology_again_is_worse(self) -> None:
        assert good(felt(REPAIR, HOLLOW, "Sorry, truly sorry.")) < good(felt(REPAIR, HOLLOW))

    def test_owning_it_again_is_worth_less(self) -> None:
        first = next(points for reason, points, _ in felt(REPAIR, OWNED).weighed.gains if reason == "owned")
        again = next(points for reason, points, _ in felt(REPAIR, OWNED, OWNED).weighed.gains if reason == "owned")
        assert again < first


class TestCharm:
    def test_taking_up_what_is_there_lightly_beats_interviewing_and_flattering(self) -> None:
        light = felt(CHARM, "Your rain barrels run on crane hose, and mine is a basil that I nearly drowned.")
        interview = felt(CHARM, "Hi! What's your name? Where are you from? What do you do?")
        flattery = felt(CHARM, "Wow, what a lovely garden, you are such an amazing person!")
        assert good(light) > 0 > max(good(interview), good(flattery))

    def test_asking_for_closeness_too_early_presses(self) -> None:
        assert "pressed" in reasons(felt(CHARM, "Shall we have a coffee together, and can I have your number?"))


class TestAnyScene:
    @pytest.mark.parametrize("scene", SCENES)
    def test_silence_noise_and_stock_phrases_do_no_good(self, scene: str) -> None:
        for person in [s.id for s in TEST.values() if s.scene == scene][:6]:
            for reply in ("", "...", "asdkjh qwe zxmnb lkj poiu", "I hear you. Your feelings are valid. I'm here for you."):
                assert good(felt(person, reply)) < 0, (person, reply)

    @pytest.mark.parametrize("scene", SCENES)
    async def test_the_environment_keeps_its_promises(self, scene: str) -> None:
        people = [s for s in TEST.values() if s.scene == scene][:2]
        states = [
            turn.state
            for person in people
            for turn in (await play(EIBench(people, EmbeddedUser()), person.id, Baseline("reflector"), seed=1)).turns
        ]
        assert all(state is not None and 0 <= state["a"] <= 100 and 0 <= state["t"] <= 100 for state in states)

    async def test_no_line_is_said_twice_in_a_dialogue(self) -> None:
        people = [s for s in TEST.values() if half_of(s.id) == "tuning"][::12]
        bench = EIBench(people, EmbeddedUser())
        for person in people:
            for name in ("reflector", "template", "rigid"):
                said = [turn.message for turn in (await play(bench, person.id, Baseline(name), seed=2)).turns]
                assert len(said) == len(set(said)), (person.id, name)


class TestOrder:
    """A sample of docs/decisions/0005 on held-out people; `benchmarks/eibench_order.py` plays them all."""

    @pytest.mark.parametrize(
        ("scene", "first", "last"),
        [
            ("defense", "counsellor", "rigid"),
            ("repair", "counsellor", "excuser"),
            ("charm", "light", "interviewer"),
            ("support", "reflector", "template"),
        ],
    )
    async def test_the_first_ends_above_the_last(self, scene: str, first: str, last: str) -> None:
        people = [s for s in TEST.values() if s.scene == scene and half_of(s.id) == "held-out"][:6]
        bench = EIBench(people, EmbeddedUser())

        async def mean(name: str) -> float:
            return sum([(await play(bench, p.id, Baseline(name), seed=3)).score or 0.0 for p in people]) / len(people)

        assert await mean(first) > await mean(last) + 0.3
