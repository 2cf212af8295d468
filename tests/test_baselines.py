"""The baselines: models under test that need no key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.scenario import SageScenario, load_scenarios
from heartloop.models.baselines import BASELINES, GENERAL, Baseline, baseline_group
from heartloop.models.baselines.scripted import MANAGING, _scenarios, phrases, read_context, written_for, written_scenarios
from heartloop.models.names import resolve

PEOPLE = load_scenarios("support")[::4]
VARIED = ("reflector", "assistant", "fixer", "hostile")
"""Baselines whose wording depends on the seed."""
TWO_PARTS = "# Analysis\n<what happens in them>\n# Response\n<what you say>"


async def dialogue(name: str, messages: Sequence[str], *, seed: int = 0, prompt: str = "Be kind.") -> list[str]:
    """A baseline's replies to successive messages, seeded as in the turn loop."""
    baseline, sent, replies = Baseline(name), [Message(role="system", content=prompt)], []
    for turn, message in enumerate(messages):
        sent.append(Message(role="user", content=message))
        reply = await baseline.complete(sent, sampling=Sampling(seed=seed + turn))
        sent.append(Message(role="assistant", content=reply.text))
        replies.append(reply.text)
    return replies


def messages_of(person: SageScenario, turns: int = 10) -> list[str]:
    return [person.first_message, *(beat.text for beat in person.beats)][:turns]


def runs_of(text: str, length: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z']+", text.lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


class TestNames:
    async def test_each_is_a_chat_model_of_its_name_that_counts_its_tokens(self) -> None:
        for name in BASELINES:
            baseline = resolve(f"heartloop/{name}")
            assert isinstance(baseline, ChatModel)
            assert baseline.name == f"heartloop/{name}"
            reply = await baseline.complete([Message(role="user", content="My cat died on Sunday.")])
            assert (reply.finish_reason, reply.usage.prompt_tokens, reply.usage.estimated) == ("stop", 6, True)

    def test_groups_by_name(self) -> None:
        assert baseline_group("general") == tuple(GENERAL)
        assert baseline_group("all") == tuple(BASELINES)
        with pytest.raises(UseError, match=r"'good'.*managing"):
            baseline_group("good")


class TestWords:
    async def test_the_same_messages_and_seed_give_the_same_replies(self) -> None:
        messages = messages_of(PEOPLE[0])
        for name in BASELINES:
            assert await dialogue(name, messages, seed=3) == await dialogue(name, messages, seed=3)

    @pytest.mark.parametrize("name", VARIED)
    async def test_all_turns_of_a_dialogue_share_its_seed(self, name: str) -> None:
        sent: list[Message] = []
        for turn, reply in enumerate(await dialogue(name, messages_of(PEOPLE[0]), seed=5)):
            sent.append(Message(role="user", content=messages_of(PEOPLE[0])[turn]))
            assert (await Baseline(name, seed=5).complete(sent)).text == reply
            sent.append(Message(role="assistant", content=reply))

    @pytest.mark.parametrize("name", VARIED)
    async def test_another_seed_changes_words(self, name: str) -> None:
        messages = messages_of(PEOPLE[0])
        assert len({tuple(await dialogue(name, messages, seed=seed)) for seed in range(5)}) > 1

    @pytest.mark.parametrize("seed", range(4))
    async def test_no_seed_changes_the_style(self, seed: int) -> None:
        messages = messages_of(PEOPLE[seed])
        reflector, assistant, fixer, hostile = [await dialogue(name, messages, seed=seed) for name in VARIED]
        assert all(reply.endswith("?") and "you could" not in reply.lower() for reply in reflector)
        assert all(reply.count("\n- ") == 3 for reply in assistant)
        assert all(reply.lower().count("you could") == 2 and "?" not in reply for reply in fixer)
        assert not any("?" in reply or "!" in reply for reply in hostile)

    async def test_no_five_words_of_the_person_are_copied(self) -> None:
        for name, person in product(("counsellor", *VARIED), PEOPLE):
            messages = messages_of(person)
            for turn, reply in enumerate(await dialogue(name, messages)):
                assert not runs_of(reply, 5) & runs_of(" ".join(messages[: turn + 1]), 5), (name, person.id, reply)

    async def test_no_five_words_of_the_own_role_are_copied(self) -> None:
        """Facts in the prompt are in the third person: "She leads the altos" does not become "I leads the altos"."""
        spec = load_environment("eibench")
        options = spec.read_options({})
        for scenario in spec.load()[::8]:
            assert spec.briefing is not None
            prompt = spec.briefing(scenario, options)
            for name in (*VARIED, *MANAGING):
                for reply in await dialogue(name, ["Hello.", "And now?"], prompt=prompt):
                    assert not runs_of(reply, 5) & runs_of(prompt, 5), (name, scenario.id, reply)

    @pytest.mark.parametrize("name", ["reflector", "template", "lecturer", "flatterer", "garbage", "hostile"])
    async def test_ten_turns_repeat_no_sentence(self, name: str) -> None:
        for person, seed in product(PEOPLE[:6], (0, 1)):
            replies = await dialogue(name, messages_of(person), seed=seed)
            sentences = [part for reply in replies for part in re.split(r"(?<=[.!?])\s+|\n", reply) if len(part) > 8]
            assert len(sentences) == len(set(sentences))

    async def test_the_reflector_opens_where_nobody_has_spoken(self) -> None:
        openers = phrases()["reflector"]["opens"]
        assert (await Baseline("reflector").complete([])).text in openers
        cue = Message(role="user", content="(Nobody has spoken yet. You begin.)")
        assert (await Baseline("reflector").complete([cue])).text in openers

    async def test_every_blank_of_a_phrase_is_filled(self) -> None:
        for name, person in product(BASELINES, PEOPLE[:8]):
            for reply in await dialogue(name, messages_of(person)):
                assert not re.search(r"\{\w\}", reply)


class TestCounsellor:
    OPENING, BEAT = list(_scenarios()["support-reflection-03"])[:2]

    async def test_a_known_line_gets_its_reply(self) -> None:
        first, second = await dialogue("counsellor", [self.OPENING, self.BEAT])
        assert first.startswith("Voted out while you were still getting sand out of your ears.")
        assert second.startswith("Poor kettle.")

    async def test_an_unknown_line_gets_a_reply_of_the_reflector(self) -> None:
        table = phrases()["reflector"]
        [_, reply] = await dialogue("counsellor", [self.OPENING, "The bus is late."])
        [elsewhere] = await dialogue("counsellor", [self.BEAT])
        for text in (reply, elsewhere):
            assert any(text.startswith(heard) for heard in table["heard"])
            assert any(text.endswith(asks) for asks in table["asks"])

    async def test_no_reply_comes_twice(self) -> None:
        first, second = await dialogue("counsellor", [self.OPENING, self.OPENING])
        assert first != second

    def test_every_written_line_is_found_after_its_opening(self) -> None:
        for lines in _scenarios().values():
            opening, *rest = lines
            system = Message(role="system", content=f"{opening}\n\n## Your situation\nYou wait.")
            speaks_first = opening.startswith("You are ")
            start = [system] if speaks_first else [Message(role="user", content=opening)]
            assert written_for(read_context(start)) == lines[opening]
            for line in rest:
                sent = [*start, Message(role="assistant", content="x"), Message(role="user", content=f"Well. {line}")]
                assert written_for(read_context(sent)) == lines[line]

    def test_every_opening_is_that_of_a_shipped_scenario(self) -> None:
        for name in ("sage", "eibench", "empa", "perm", "daily"):
            spec = load_environment(name)
            known = [scenario for scenario_set in spec.scenarios.sets for scenario in spec.load(scenario_set)]
            assert len({scenario.id for scenario in known} & written_scenarios()) == (12 if name == "empa" else 24)

    async def test_the_analysis_that_was_written_stands_before_the_reply(self) -> None:
        lines = next(lines for lines in _scenarios().values() if any(written.analysis for written in lines.values()))
        [(query, written)] = lines.items()
        [answer] = await dialogue("counsellor", [query], prompt=TWO_PARTS)
        assert answer == f"# Analysis\n{written.analysis}\n\n# Response\n{written.reply}"


class TestForms:
    @pytest.mark.parametrize("name", [name for name in BASELINES if name != "garbage"])
    async def test_an_analysis_and_a_response(self, name: str) -> None:
        [answer] = await dialogue(name, ["My cat died on Sunday."], prompt=TWO_PARTS)
        assert re.fullmatch(r"# Analysis\n.+\n\n# Response\n.+", answer, re.DOTALL)

    @pytest.mark.parametrize("name", [name for name in BASELINES if name != "garbage"])
    async def test_sections_of_the_last_message(self, name: str) -> None:
        form = "He laughs.\n--\n# I feel\n\n<in ten words>\n\n# They feel\n\n<in ten words>\n\n# I say\n<a line>"
        [answer] = await dialogue(name, [form])
        assert re.findall(r"^# (.+)$", answer, re.MULTILINE) == ["I feel", "They feel", "I say"]

    async def test_where_there_are_notes_fixed_lines_vary_with_the_message(self) -> None:
        prompt = "## Notes of earlier talks\n- 3 May: She sold the boat.\n"
        replies = {(await dialogue("template", [person.first_message], prompt=prompt))[0] for person in PEOPLE}
        assert len(replies) > 3


class TestAnyText:
    @pytest.mark.parametrize("name", BASELINES)
    @settings(max_examples=30)
    @given(messages=st.lists(st.text(max_size=120), min_size=1, max_size=4))
    async def test_odd_characters_and_nothing_at_all(self, name: str, messages: list[str]) -> None:
        assert len(await dialogue(name, messages)) == len(messages)

    @pytest.mark.parametrize(
        "text",
        ["My brother sold the boat and I said nothing to him. " * 400, "a" * 50_000, "\n" * 20_000, "?!" * 10_000],
        ids=["speech", "one word", "line breaks", "marks"],
    )
    async def test_a_very_long_message(self, text: str) -> None:
        for name in BASELINES:
            await dialogue(name, [text, text])

    async def test_no_message_and_a_dialogue_longer_than_the_phrases(self) -> None:
        for name in BASELINES:
            await Baseline(name).complete([])
            replies = await dialogue(name, ["I lost my keys again."] * 45)
            assert len(replies) == 45
            assert name in ("silent", *MANAGING) or all(one != other for one, other in pairwise(replies))
