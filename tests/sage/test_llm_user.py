"""The user simulator model of SAGE: its prompts, what counts as an answer, and what the policy never sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.tags import split_tag, tagged
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import VARIANTS, Sage
from heartloop.environments.sage.scenario import INTENTIONS, load_scenarios, render_background, render_persona, render_story
from heartloop.environments.sage.users import SageLLMUser
from tests.released_form import feel, speak

SCENARIOS = load_scenarios("support")
BY_INTENTION = {scenario.intention: scenario for scenario in reversed(SCENARIOS)}
ONE = SCENARIOS[0]


async def dialogue(
    answers: Sequence[str | Reply | Exception],
    *,
    preset: str = "corrected",
    variant: str = "vanilla",
    sampling: Sampling | None = None,
    replies: Sequence[str | Reply | Exception] = ("I see.",),
    **how: Any,
) -> tuple[Transcript, ScriptedChat, ScriptedChat]:
    simulator, policy = ScriptedChat(answers, name="sim"), ScriptedChat(replies, cycle=True)
    seed = how.pop("seed", 0)
    user = SageLLMUser(simulator, sampling=sampling)
    transcript = await play(Sage([ONE], user, preset=preset, variant=variant, **how), ONE.id, policy, seed=seed)
    return transcript, simulator, policy


class TestPrompts:
    async def test_two_calls_a_turn_feel_then_speak_and_one_for_the_last_reply(self) -> None:
        transcript, simulator, _ = await dialogue([feel(), speak(), feel(), speak(), feel()], max_turns=3)
        assert [len(messages) for messages in simulator.asked] == [2] * 5
        assert [call.purpose for call in transcript.calls if call.role == "user"] == ["feel", "speak", "feel", "speak", "feel"]
        asked = [list(schema["properties"]) for schema in simulator.schemas if schema]
        assert asked[:2] == [
            ["tag", "meant", "fit", "thoughts", "feeling", "change", "end"],
            ["tag", "attitude", "aim", "tone", "matter", "reply", "end"],
        ]

    @pytest.mark.parametrize("intention", BY_INTENTION)
    async def test_the_person_is_in_both_prompts(self, intention: str) -> None:
        scenario = BY_INTENTION[intention]
        simulator = ScriptedChat([feel(), speak(), feel()])
        await play(Sage([scenario], SageLLMUser(simulator), max_turns=2), scenario.id, ScriptedChat(["I see."], cycle=True))
        rendered = [render(scenario) for render in (render_persona, render_background, render_story)]
        for messages in simulator.asked[:2]:
            assert [x for x in (INTENTIONS[intention].text, scenario.goal, *rendered) if x not in messages[0].content] == []

    @pytest.mark.parametrize("variant", VARIANTS[1:])
    async def test_a_variant_changes_the_manner_in_both_calls_and_nothing_else(self, variant: str) -> None:
        _, vanilla, _ = await dialogue([feel(), speak(), feel()], max_turns=2)
        _, other, _ = await dialogue([feel(), speak(), feel()], max_turns=2, variant=variant)
        before, after = (SageLLMUser.prompts[f"manner_{name}"].text for name in ("vanilla", variant))
        for plain, changed in zip(vanilla.asked, other.asked, strict=True):
            assert plain[0].content.replace(before, after) == changed[0].content != plain[0].content
            assert split_tag(plain[1].content)[0] == split_tag(changed[1].content)[0]

    async def test_feel_gets_the_emotion_before_the_reply_and_speak_the_one_after_it_with_its_band(self) -> None:
        _, simulator, _ = await dialogue([feel(-7), speak(), feel(10), speak(), feel(0)], max_turns=3)
        asked = [messages[1].content for messages in simulator.asked]
        # 40, - 7 = 33, + 10 = 43
        assert [f"before this reply: {mood} of 100." in text for mood, text in zip((40, 33, 43), asked[::2], strict=True)] == [
            True
        ] * 3
        for text, mood, band in ((asked[1], 33, "c"), (asked[3], 43, "b")):
            assert f"Your mood now: {mood} of 100. {SageLLMUser.prompts[f'mood_{band}'].text}" in text

    async def test_the_four_texts_of_feel_are_in_speak(self) -> None:
        transcript, simulator, _ = await dialogue([feel(5), speak(), feel()], max_turns=2)
        for part in ("meant CONTENT", "served FIT", "thought ACTIVITY", "felt FEELING"):
            assert part in simulator.asked[1][1].content
        assert transcript.turns[0].thoughts["activity"] == "thought ACTIVITY"

    async def test_what_never_changes_comes_first_then_the_dialogue_then_the_state(self) -> None:
        answers = [answer for n in range(6) for answer in (feel(), speak(f"And then, {n}."))]
        _, simulator, _ = await dialogue(answers, replies=[f"I see, {n}." for n in range(6)], max_turns=6)
        for step in (0, 1):
            asked = simulator.asked[step::2]
            assert len({messages[0].content for messages in asked}) == 1
            for before, after in pairwise(asked):
                assert after[1].content.startswith(before[1].content.partition("\n\n")[0] + "\nPerson: ")
        talk, _, after_it = simulator.asked[2][1].content.partition("\n\n")
        assert talk.endswith(f"Person: {ONE.first_message}\nNPC: I see, 0.\nPerson: And then, 0.\nNPC: I see, 1.")
        assert "before this reply: 45 of 100." in after_it

    async def test_silence_is_shown_as_silence_and_thinking_is_not_shown(self) -> None:
        _, simulator, _ = await dialogue([feel(), speak(), feel()], replies=["<think>hm", ""], max_turns=2)
        assert "NPC: (silence)\n\nHow" in simulator.asked[0][1].content
        assert simulator.asked[2][1].content.count("NPC: (silence)") == 2
        assert "hm" not in simulator.asked[0][1].content.splitlines()

    async def test_seeds_advance_by_turn_and_step_and_the_settings_are_sent(self) -> None:
        answers, sampling = [feel(), speak(), feel(), speak(), feel()], Sampling(temperature=0.2)
        _, simulator, _ = await dialogue(answers, max_turns=3, seed=100, sampling=sampling)
        assert [(s.seed, s.temperature) for s in simulator.samplings if s] == [(100 + n, 0.2) for n in range(5)]
        _, simulator, _ = await dialogue(answers[:3], max_turns=2, seed=100, sampling=Sampling(seed=7))
        assert [s.seed for s in simulator.samplings if s] == [7, 8, 9]


class TestAnswers:
    async def test_corrected_re_asks_for_a_change_out_of_range_with_the_reason(self) -> None:
        transcript, simulator, _ = await dialogue([feel(15), feel(8)], max_turns=1)
        assert "change is 15, expected a whole number from -10 to 10" in simulator.asked[1][-1].content
        assert simulator.asked[1][-2] == Message(role="assistant", content=tagged(feel(15), simulator.asked[0][-1].content))
        assert (transcript.score, transcript.counts["re-asks"], "clamped changes" in transcript.counts) == (48.0, 1, False)

    async def test_corrected_does_not_score_a_change_that_stays_out_of_range(self) -> None:
        transcript, simulator, _ = await dialogue([feel(15), feel(-11), feel(99)], max_turns=1)
        assert (transcript.stop, transcript.score, len(simulator.asked)) == ("failed", None, 3)

    async def test_released_clamps_a_change_out_of_range_and_counts_it(self) -> None:
        transcript, simulator, _ = await dialogue([feel(15), speak(), feel(-2), speak()], preset="released", max_turns=3)
        assert (transcript.turns[0].state, transcript.counts["clamped changes"]) == ({"emotion": 50.0}, 1)
        assert (transcript.score, len(simulator.asked)) == (48.0, 4)  # 40 + 10 - 2, the third reply unjudged

    async def test_a_change_beyond_any_reading_is_re_asked_under_released_too(self) -> None:
        transcript, _, _ = await dialogue([feel(10**400), feel(10), speak()], preset="released", max_turns=2)
        assert (transcript.score, transcript.counts["re-asks"]) == (50.0, 1)

    @pytest.mark.parametrize("reply", ["The NPC: that is what they call me.", "My partner said: go.", "I asked an AI: nothing."])
    async def test_a_person_may_mention_the_policy(self, reply: str) -> None:
        transcript, _, _ = await dialogue([feel(), speak(reply), feel()], max_turns=2)
        assert transcript.turns[0].message == reply

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (feel(2.5), "change: Input should be a valid integer"),
            (feel("1_0"), "change: Value error, no plain number; expected a whole number"),
            ('{"change": 5}', "meant: Field required"),
            ("no JSON", "it holds no JSON object"),
        ],
    )
    async def test_an_invalid_appraisal_is_re_asked_with_the_error_in_it(self, answer: str, why: str) -> None:
        transcript, simulator, _ = await dialogue([answer, feel(4)], max_turns=1)
        assert why in simulator.asked[1][-1].content
        assert (transcript.score, transcript.counts["re-asks"]) == (44.0, 1)

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            (speak("  \n"), "the reply is blank"),
            ('{"reply": "He left."}', "attitude: Field required"),
            (speak("NPC: I am sorry."), "speaks for the NPC"),
            (speak("He left.\nNPC: That must hurt."), "speaks for the NPC"),
            (speak("**Assistant**: Sure!"), "speaks for the NPC"),
            (speak("  supporter : Right."), "speaks for the NPC"),
            (speak("AI：好"), "speaks for the NPC"),
        ],
    )
    async def test_an_invalid_message_is_re_asked_with_the_error_in_it(self, answer: str, why: str) -> None:
        transcript, simulator, _ = await dialogue([feel(), answer, speak("He left."), feel()], max_turns=2)
        assert why in simulator.asked[2][-1].content
        assert transcript.turns[0].message == "He left."

    async def test_after_two_re_asks_the_dialogue_is_unscored_with_its_cause(self) -> None:
        transcript, simulator, _ = await dialogue([feel(5), "He left.", "He left!", "nothing doing"])
        assert (len(simulator.asked), transcript.stop, transcript.score) == (4, "failed", None)
        assert all(turn.message is None for turn in transcript.turns), "raw text is never passed off as the person's words"
        assert transcript.failure is not None
        assert (transcript.failure.role, transcript.failure.kind) == ("user", "AnswerError")
        assert "sim answered 'nothing doing' after 2 re-asks: it holds no JSON object" in transcript.failure.detail


class TestWhoKnowsWhat:
    @pytest.mark.parametrize("intention", BY_INTENTION)
    async def test_the_policy_never_sees_persona_story_or_intention(self, intention: str) -> None:
        scenario = BY_INTENTION[intention]
        simulator = ScriptedChat([feel(), speak("He left."), feel(), speak(), feel()])
        policy = ScriptedChat(["I see."], cycle=True)
        await play(Sage([scenario], SageLLMUser(simulator), max_turns=3), scenario.id, policy)
        assert [(m.role, m.content) for m in policy.asked[1][1:]] == [
            ("user", scenario.first_message), ("assistant", "I see."), ("user", "He left."),
        ]  # fmt: skip
        seen = "\n".join(message.content for messages in policy.asked for message in messages)
        persona, background = scenario.persona, scenario.background
        secrets = [
            INTENTIONS[intention].text, scenario.goal, scenario.title, persona.name, persona.occupation, persona.habits,
            persona.speaking_style, persona.way_of_speaking, background.event, background.problem, background.now,
            "meant CONTENT", "served FIT", "thought ACTIVITY", "felt FEELING", "of 100",
            *(c.text for c in scenario.concerns), *(b.text for b in scenario.beats), *background.lifts, *background.sinks,
        ]  # fmt: skip
        assert [secret for secret in secrets if secret in seen] == []
