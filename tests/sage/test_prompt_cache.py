"""From the third turn on at least 80 % of every prompt, in bytes, is in the previous one; with long replies, on average."""

from __future__ import annotations

from statistics import fmean

import pytest

from benchmarks.prompt_cache import FROM_TURN, Asked, calls_of, shares
from heartloop.core.dialogue import Message
from heartloop.environments.sage.scenario import load_scenarios

PEOPLE = [("support", person.id) for person in load_scenarios("support")[::20]]
PEOPLE += [("chat", person.id) for person in load_scenarios("chat")[::20]]


def test_the_share_is_what_the_previous_prompt_and_its_answer_begin_with() -> None:
    def asked(*contents: str, answer: str = "") -> Asked:
        return Asked("reply", tuple(Message(role="user", content=content) for content in contents), answer)

    # "<user>\nabcd\n" is 12 bytes, "<assistant>\nx\n" is 14; the second prompt begins with both, the third with 7 + 2 bytes
    second = Asked("reply", (*asked("abcd").messages, Message(role="assistant", content="x"), *asked("é").messages), "")
    found = shares([asked("abcd", answer="x"), second, asked("abXX")])
    assert found == {"reply": [0.0, pytest.approx((12 + 14 + 0) / (12 + 14 + 10)), pytest.approx(9 / 12)]}


@pytest.mark.parametrize("variant", ["vanilla", "challenging"])
@pytest.mark.parametrize(("scenario_set", "person"), PEOPLE)
async def test_four_fifths_of_every_prompt_were_read_before(scenario_set: str, person: str, variant: str) -> None:
    found = shares(await calls_of(person, variant=variant, scenario_set=scenario_set))
    assert set(found) == {"reply", "feel", "speak"}
    for purpose, of_turn in found.items():
        assert min(of_turn[FROM_TURN:], default=1.0) >= 0.8, purpose


@pytest.mark.parametrize(("scenario_set", "person"), PEOPLE)
async def test_so_they_are_on_average_where_replies_are_long(scenario_set: str, person: str) -> None:
    for purpose, of_turn in shares(await calls_of(person, longer=4, scenario_set=scenario_set)).items():
        assert fmean(of_turn[FROM_TURN:] or [1.0]) >= 0.8, purpose
