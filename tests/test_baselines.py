"""The baselines: models under test that need no key.

1. The same messages, name and seed give the same reply; the seed changes the wording, not the style.
2. No baseline repeats a sentence while it has another one left.
3. A reflection is a clause of the last message, turned to "you".
4. It answers any text.
5. `garbage` is a failure case and part of no ranking.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.environments.sage.scenario import Scenario, load_scenarios
from heartloop.models.baselines import BASELINES, GENERAL, MANAGING, RANKED, Baseline, baseline_group, second_person
from heartloop.models.names import resolve

PEOPLE = load_scenarios("support")[::4]
PHRASES = tomllib.loads((resources.files("heartloop.models.baselines") / "phrases.toml").read_text(encoding="utf-8"))
UNSPECIFIC: dict[str, list[str]] = {
    "listener": PHRASES["feelings"][-1]["guesses"],
    "coach": [step for step in PHRASES["steps"][-1]["fitted"] if "{" not in step],
    "fixer": [step.rstrip(".").removeprefix("you ") for step in PHRASES["steps"][-1]["plain"]],
}
"""Phrases that fit any message, of the three baselines that choose their words."""


async def dialogue(name: str, said: Sequence[str], *, seed: int = 0) -> list[str]:
    """A baseline's replies to successive messages, seeded as in the turn loop."""
    baseline, messages, replies = Baseline(name), [Message(role="system", content="Be kind.")], []
    for turn, message in enumerate(said):
        messages.append(Message(role="user", content=message))
        reply = await baseline.complete(messages, sampling=Sampling(seed=seed + turn))
        messages.append(Message(role="assistant", content=reply.text))
        replies.append(reply.text)
    return replies


def messages_of(person: Scenario, turns: int = 10) -> list[str]:
    """What a person may say: the first message, then the beats."""
    return [person.first_message, *(beat.text for beat in person.beats)][:turns]


def sentences(replies: Sequence[str]) -> list[str]:
    found = [s.strip().lower() for reply in replies for s in re.split(r"(?<=[.!?…])\s+|\n", reply)]
    return [s for s in found if re.search(r"\w", s)]


FRAGMENTS = ["I", "my", "mother", "was", "I'm", "{r}", "\\1", "Ana", "said", "the boat", ",", ".", "?", ";", "’", "ß", "ǆ", "\n"]


class TestNames:
    """Names, ranks, protocol."""

    def test_there_are_seven_and_a_failure_case(self) -> None:
        assert list(RANKED) == ["listener", "coach", "fixer", "template", "lecturer", "flatterer", "silent"]
        assert set(GENERAL) - set(RANKED) == {"garbage"}
        assert set(BASELINES) == {*GENERAL, *MANAGING}

    async def test_each_is_a_chat_model_of_its_name_that_counts_its_tokens(self) -> None:
        for name in BASELINES:
            baseline = resolve(f"heartloop/{name}")
            assert isinstance(baseline, ChatModel)
            assert baseline.name == f"heartloop/{name}"
            reply = await baseline.complete([Message(role="user", content="My cat died on Sunday.")])
            assert (reply.finish_reason, reply.usage.prompt_tokens, reply.usage.estimated) == ("stop", 6, True)

    def test_groups_by_name(self) -> None:
        assert baseline_group("general") == tuple(GENERAL)
        assert set(baseline_group("in_scenes")) < set(baseline_group("all")) == set(BASELINES)
        with pytest.raises(UseError, match=r"'good'.*in_scenes"):
            baseline_group("good")

    def test_an_unknown_name_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(UseError, match=r"heartloop/nobody.*listener, coach"):
            Baseline("nobody")


class TestWords:
    """Deterministic, seeded, unrepeating."""

    async def test_the_same_messages_and_seed_give_the_same_replies(self) -> None:
        said = messages_of(PEOPLE[0])
        for name in BASELINES:
            assert await dialogue(name, said, seed=3) == await dialogue(name, said, seed=3)

    @pytest.mark.parametrize("name", ["listener", "coach", "fixer"])
    async def test_all_turns_of_a_dialogue_share_its_seed(self, name: str) -> None:
        messages: list[Message] = []
        for turn, reply in enumerate(await dialogue(name, messages_of(PEOPLE[0]), seed=5)):
            messages.append(Message(role="user", content=messages_of(PEOPLE[0])[turn]))
            assert (await Baseline(name, seed=5).complete(messages)).text == reply
            messages.append(Message(role="assistant", content=reply))

    @pytest.mark.parametrize("name", ["listener", "coach", "fixer"])
    async def test_another_seed_changes_words(self, name: str) -> None:
        said = messages_of(PEOPLE[0])
        assert len({tuple(await dialogue(name, said, seed=seed)) for seed in range(5)}) > 1

    @pytest.mark.parametrize("seed", range(4))
    async def test_no_seed_changes_the_style(self, seed: int) -> None:
        said = messages_of(PEOPLE[seed])
        listener, coach, fixer = [await dialogue(name, said, seed=seed) for name in ("listener", "coach", "fixer")]
        assert not any("you could" in reply.lower() for reply in listener)  # a listener never advises
        assert all(reply.rstrip().endswith("?") for reply in coach)  # a coach asks, or asks back
        assert not any("you could" in reply for reply in coach[:3])  # at first it only asks
        assert all("you could" in reply for reply in coach[3:])  # and then it advises
        assert all(reply.lower().count("you could") == 2 for reply in fixer)  # a fixer advises at once, twice
        assert not any("?" in reply for reply in fixer)  # and never asks

    @pytest.mark.parametrize("name", ["template", "lecturer", "flatterer", "silent"])
    async def test_the_others_ignore_the_message(self, name: str) -> None:
        assert await dialogue(name, messages_of(PEOPLE[0])) == await dialogue(name, messages_of(PEOPLE[1]), seed=9)

    async def test_silent_is_near_empty(self) -> None:
        assert all(len(reply) <= 6 for reply in await dialogue("silent", messages_of(PEOPLE[0])))

    @pytest.mark.parametrize("name", ["template", "lecturer", "flatterer", "garbage"])
    async def test_ten_turns_repeat_no_sentence(self, name: str) -> None:
        said = sentences(await dialogue(name, messages_of(PEOPLE[0])))
        assert [s for s in said if said.count(s) > 1] == []

    @pytest.mark.parametrize(("name", "general"), UNSPECIFIC.items())
    async def test_a_sentence_is_repeated_only_after_all_unspecific_phrases_were_used(
        self, name: str, general: list[str]
    ) -> None:
        for person in PEOPLE:
            for seed in (0, 1):
                replies = await dialogue(name, messages_of(person), seed=seed)
                for turn, reply in enumerate(replies):
                    again = set(sentences([reply])) & set(sentences(replies[:turn])) - {"that should sort it."}  # a frame
                    left = [phrase for phrase in general if phrase not in " ".join(replies[: turn + 1])]
                    assert not (again and left), f"{person.id}, turn {turn}: {again} again, with {left} left"

    @pytest.mark.parametrize("name", ["listener", "coach"])
    async def test_no_whole_reply_comes_twice_in_ten_turns(self, name: str) -> None:
        for person in PEOPLE:
            replies = await dialogue(name, messages_of(person))
            assert len(set(replies)) == len(replies)


class TestReflection:
    """What listener and coach reflect."""

    @pytest.mark.parametrize(
        ("clause", "turned"),
        [
            ("I was sure my sister had told me everything", "you were sure your sister had told you everything"),
            ("I were late", "you were late"),
            ("I wasn't asked", "you weren't asked"),
            ("I never was asked", "you never were asked"),
            ("I am tired of my own voice", "you are tired of your own voice"),
            ("I'm tired and I've had enough", "you're tired and you've had enough"),
            ("I’d go if I’ll be asked", "you'd go if you'll be asked"),
            ("we were alone in our kitchen", "you were alone in your kitchen"),
            ("She was right and I was not", "she was right and you were not"),
            ("My brother was late", "your brother was late"),
            ("the mistake was mine, and I did it myself", "the mistake was yours, and you did it yourself"),
            ("They took us for fools", "they took you for fools"),
            ("Rubén says I'm strong", "Rubén says you're strong"),
            ("Ifeanyi left me the shop", "Ifeanyi left you the shop"),
            ("Inés was my friend", "Inés was your friend"),  # begins like "I", is a name
            ("", ""),
        ],
    )
    def test_a_clause_is_turned_to_you_and_names_stay(self, clause: str, turned: str) -> None:
        assert second_person(clause) == turned

    @given(st.text(max_size=200))
    def test_no_bare_i_survives_whatever_the_clause(self, clause: str) -> None:
        assert not re.search(r"(?<![\w'’-])(I|I'm|I've)(?![\w'’-])", second_person(clause))

    @pytest.mark.parametrize("name", ["listener", "coach"])
    async def test_a_clause_of_the_last_message_is_reflected(self, name: str) -> None:
        replies = await dialogue(name, ["I lost my keys. My mother called me a coward in front of the whole choir."])
        assert "your mother called you a coward in front of the whole choir" in replies[0].lower()

    async def test_the_listener_reflects_the_last_message_only(self) -> None:
        replies = await dialogue("listener", ["My mother called me a coward.", "I sold the piano on Monday."])
        assert "you sold the piano on monday" in replies[1].lower()
        assert "coward" not in replies[1]

    async def test_over_the_shipped_people_most_replies_hold_words_of_the_last_message(self) -> None:
        bound = total = 0
        for person in PEOPLE:
            said = messages_of(person, 6)
            for message, reply in zip(said, await dialogue("listener", said), strict=True):
                heard = set(re.findall(r"[a-z]{5,}", message.lower()))
                bound += bool(heard & set(re.findall(r"[a-z]{5,}", reply.lower())))
                total += 1
        assert bound / total > 0.75

    async def test_every_blank_of_a_phrase_is_filled(self) -> None:
        for name, person in product(BASELINES, PEOPLE[:8]):
            for reply in await dialogue(name, messages_of(person)):
                assert not re.search(r"\{\w+\}", reply)


class TestAnyText:
    """A baseline answers any text."""

    @pytest.mark.parametrize("name", BASELINES)
    @settings(max_examples=30)
    @given(said=st.lists(st.text(max_size=120), min_size=1, max_size=4))
    async def test_odd_characters_and_nothing_at_all(self, name: str, said: list[str]) -> None:
        assert len(await dialogue(name, said)) == len(said)

    @pytest.mark.parametrize("name", ["listener", "coach", "fixer"])
    @settings(max_examples=40)
    @given(said=st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(" ".join))
    async def test_fragments_of_speech_and_braces(self, name: str, said: str) -> None:
        await dialogue(name, [said, said[::-1], said])

    @pytest.mark.parametrize(
        "text",
        [
            "My brother sold the boat and I said nothing to him. " * 400,
            "a" * 50_000,
            "I " * 20_000,
            "My mother, " * 5_000,
            "and but so " * 5_000,
            "\n" * 20_000,
            "?!" * 10_000,
        ],
        ids=["speech", "one word", "I", "commas", "leads", "line breaks", "marks"],
    )
    async def test_a_very_long_message(self, text: str) -> None:
        for name in BASELINES:
            await dialogue(name, [text, text])

    async def test_no_message_and_a_dialogue_longer_than_the_phrases(self) -> None:
        for name in BASELINES:
            await Baseline(name).complete([])
            assert len(await dialogue(name, ["I lost my keys again."] * 40)) == 40


async def test_verbatim_quotes_the_other_person_but_not_its_own_role() -> None:
    role = "You are Ada: clerk.\n\n## What you know\n- A place can be moved to any later term.\n"
    messages = [Message(role="system", content=role), Message(role="user", content="I put the chairs down for the others.")]
    said = (await Baseline("diplomat", verbatim=True).complete(messages)).text
    assert '"I put the chairs down for the others"' in said
    assert "a place can be moved to any later term" in said
    plain = (await Baseline("diplomat").complete(messages)).text
    assert "you put the chairs down for the others" in plain
    assert '"' not in plain
