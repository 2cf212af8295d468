"""Rollouts: tokens in, tokens out, and the samples and rewards of a dialogue."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import UseError
from heartloop.environments.episode import SILENCE, play
from heartloop.environments.registry import load_environment
from heartloop.environments.training import Returns
from heartloop.training.rollouts import (
    Drawing,
    Generated,
    PolicyTurn,
    RolloutRewards,
    Sample,
    Span,
    TemplateFormat,
    TokenPolicy,
    rollout_rewards,
    samples,
    token_rewards,
)
from tests.training import tiny_policy

END = tiny_policy.tokenizer().eos_token_id


class FakeServer:
    """Answers with given replies, each a text or ids, and remembers what it was asked."""

    def __init__(self, *replies: str | list[int], ended: bool = True) -> None:
        self._replies = itertools.cycle(replies)
        self._ended = ended
        self.asked: list[dict[str, Any]] = []

    async def generate(self, prompt: Sequence[int], drawing: Drawing) -> Generated:
        self.asked.append({"prompt": list(prompt), **drawing._asdict()})
        reply = next(self._replies)
        ids = tiny_policy.tokenizer().encode(reply) if isinstance(reply, str) else reply
        ids = [*ids, END] if self._ended else ids[: drawing.max_tokens]
        return Generated(ids, [-0.5 - 0.01 * i for i in range(len(ids))], "stop" if ids[-1] == END else "length")


def policy_of(server: FakeServer, *, max_prompt: int = 4000, max_tokens: int = 200, **settings: Any) -> TokenPolicy:
    form = TemplateFormat(tiny_policy.tokenizer())
    return TokenPolicy(server, form, ends=[END], max_prompt=max_prompt, drawing=Drawing(max_tokens, **settings))


async def dialogue(policy: TokenPolicy, *, environment: str = "sage", turns: int = 3, which: int = 0) -> Transcript:
    spec = load_environment(environment)
    scenarios = spec.load()
    return await play(spec.make(scenarios, spec.players(), {"max_turns": turns}), scenarios[which].id, policy, seed=7)


def byte_by_byte(text: str) -> list[int]:
    """Ids that say the text but are not what the tokenizer would write."""
    words = tiny_policy.tokenizer()
    return [words.encode(character)[0] for character in text]


async def test_the_one_turn_loop_plays_and_every_id_is_kept() -> None:
    server = FakeServer("I hear you.", "That was unkind of me.")
    policy = policy_of(server, temperature=0.6, top_p=0.95, top_k=20, max_tokens=64)
    transcript = await dialogue(policy)
    assert [turn.reply for turn in transcript.turns] == ["I hear you.", "That was unkind of me.", "I hear you."]
    assert [turn.prompt for turn in policy.turns] == [asked["prompt"] for asked in server.asked]
    first = server.asked[0]
    assert (first["temperature"], first["top_p"], first["top_k"], first["max_tokens"]) == (0.6, 0.95, 20, 64)
    assert [asked["seed"] for asked in server.asked] == [7, 8, 9]  # the dialogue's, advanced by the turn
    assert transcript.usage["policy"].completion_tokens == sum(len(turn.tokens) for turn in policy.turns)
    assert not transcript.usage["policy"].estimated


async def test_no_reply_is_tokenised_again() -> None:
    """The ids of a reply are not those that its text would be encoded as; the history must hold the drawn ones."""
    drawn = byte_by_byte("That was unkind of me.")
    assert drawn != tiny_policy.tokenizer().encode("That was unkind of me.")
    policy = policy_of(FakeServer(drawn))
    await dialogue(policy)
    for before, after in itertools.pairwise(policy.turns):
        sequence = before.prompt + before.tokens
        assert after.prompt[: len(sequence)] == sequence
        opener = tiny_policy.tokenizer().decode(after.prompt[len(sequence) :])
        assert opener.startswith("\n<|im_start|>user\n")
        assert opener.endswith("<|im_end|>\n<|im_start|>assistant\n")


async def test_think_blocks_leave_the_history_as_a_beginning_of_ids() -> None:
    said = byte_by_byte("That was unkind of me.")
    policy = policy_of(FakeServer(tiny_policy.tokenizer().encode("<think>she is hurt</think>\n\n") + said))
    transcript = await dialogue(policy)
    assert {turn.reply for turn in transcript.turns} == {"That was unkind of me."}
    assert policy.turns[0].history == tuple(said)
    second = policy.turns[1].prompt
    start = len(policy.turns[0].prompt)
    assert second[: start + len(said) + 1] == [*policy.turns[0].prompt, *said, END]
    assert "think" not in tiny_policy.tokenizer().decode(second)


@pytest.mark.parametrize(
    "text", ["I hear you. <think>and now", "<think>a</think>I hear you.<think>b</think>It was me.", "Hm </think>x"]
)
async def test_the_history_holds_what_the_user_sees_whatever_the_think_blocks(text: str) -> None:
    policy = policy_of(FakeServer(text))
    transcript = await dialogue(policy, turns=2)
    shown = transcript.turns[0].reply
    history = policy.turns[0].history
    assert history is None or tiny_policy.tokenizer().decode(history).strip() == shown
    assert f"<|im_start|>assistant\n{shown}<|im_end|>" in tiny_policy.tokenizer().decode(policy.turns[1].prompt)


@pytest.mark.parametrize("reply", [[], "<think>nothing comes</think>", "  "])
async def test_a_reply_of_nothing_is_silence(reply: str | list[int]) -> None:
    policy = policy_of(FakeServer(reply))
    transcript = await dialogue(policy, turns=2)
    assert all(turn.silent for turn in transcript.turns)
    assert f"<|im_start|>assistant\n{SILENCE}<|im_end|>" in tiny_policy.tokenizer().decode(policy.turns[1].prompt)
    row = samples(policy.turns, per="turn", max_response=300)[0]
    assert row.response[-1] == END  # ending at once is a choice of the policy's, and learned from
    assert row.mask == [1] * len(row.response)


async def test_a_prompt_that_does_not_fit_is_answered_with_silence() -> None:
    fits = len((await _first_prompt()).prompt)
    server = FakeServer("I hear you. " * 4)
    policy = policy_of(server, max_prompt=fits)
    transcript = await dialogue(policy)
    assert [turn.silent for turn in transcript.turns] == [False] + [True] * (len(transcript.turns) - 1)
    assert policy.overflows == len(transcript.turns) - 1
    assert len(server.asked) == 1
    assert transcript.score is not None  # the talk grew by the policy's own words: that is scored
    assert [row.spans for row in samples(policy.turns, per="turn", max_response=300)] == [
        (Span(0, 0, len(policy.turns[0].tokens)),)
    ]


async def _first_prompt() -> PolicyTurn:
    policy = policy_of(FakeServer("x"))
    await dialogue(policy, turns=1)
    return policy.turns[0]


async def test_a_reply_without_end_is_cut_and_its_end_is_not_learned() -> None:
    policy = policy_of(FakeServer("That was unkind of me.", ended=False), max_tokens=4)
    transcript = await dialogue(policy, turns=2)
    assert transcript.counts["truncated"] == 2
    row = samples(policy.turns, per="dialogue", max_response=500)[0]
    end = len(policy.turns[0].tokens)
    assert row.mask[:end] == [1] * end
    assert (row.response[end], row.mask[end]) == (END, 0)  # the template closed it, the policy did not


async def test_samples_of_a_dialogue_hold_every_token_after_the_context_it_was_drawn_in() -> None:
    policy = policy_of(FakeServer("I hear you.", "That was unkind of me."))
    await dialogue(policy)
    whole = samples(policy.turns, per="dialogue", max_response=4000)
    assert len(whole) == 1
    _check(whole, policy.turns)
    assert [span.turn for span in whole[0].spans] == [0, 1, 2]
    cut = samples(policy.turns, per="dialogue", max_response=len(whole[0].response) - 1)
    assert [[span.turn for span in row.spans] for row in cut] == [[0, 1], [2]]
    _check(cut, policy.turns)
    each = samples(policy.turns, per="turn", max_response=4000)
    assert [row.prompt for row in each] == [turn.prompt for turn in policy.turns]
    assert [row.response for row in each] == [turn.tokens for turn in policy.turns]


def _check(rows: Sequence[Sample], turns: Sequence[PolicyTurn]) -> None:
    for row in rows:
        assert len(row.response) == len(row.mask) == len(row.logprobs)
        drawn = [False] * len(row.response)
        for turn, start, stop in row.spans:
            assert row.response[start:stop] == turns[turn].tokens
            assert row.logprobs[start:stop] == turns[turn].logprobs
            assert row.prompt + row.response[:start] == turns[turn].prompt
            drawn[start:stop] = [True] * (stop - start)
        assert row.mask == [int(one) for one in drawn]
        assert all(score == 0.0 for score, one in zip(row.logprobs, drawn, strict=True) if not one)


async def test_somebody_elses_reply_in_the_history_is_refused() -> None:
    policy = policy_of(FakeServer("I hear you."))
    messages = [
        Message(role="user", content="Hello."),
        Message(role="assistant", content="Not mine."),
        Message(role="user", content="?"),
    ]
    with pytest.raises(UseError, match="did not give"):
        await policy.complete(messages, sampling=Sampling())


RETURNS = Returns(outcome=0.35, process=[0.5, -1.0], worst_outcome=0.0, worst_turns=-4.0)


async def test_a_broken_format_is_worth_the_lowest_there_is() -> None:
    policy = policy_of(FakeServer("<think>she is hurt</think>I hear you.", "I hear you."))
    await dialogue(policy)
    assert not rollout_rewards(RETURNS, policy.turns[::2], kind="outcome", think=True).broken
    for kind, lowest in (("outcome", 0.0), ("turn", -4.0), ("mixed", -2.0), ("mixed_each", -2.0)):
        broken = rollout_rewards(RETURNS, policy.turns, kind=kind, think=True)  # type: ignore[arg-type]
        assert broken.broken
        assert broken.outcome == lowest
        assert not broken.process.any()
        assert list(broken.credited("immediate")) == [lowest, lowest]


async def test_eibenchs_penalties_are_taken_from_the_outcome_and_leave_at_least_the_lowest() -> None:
    policy = policy_of(FakeServer("<think>she is hurt</think>I hear you.", "I hear you."))
    await dialogue(policy, turns=2)
    found = rollout_rewards(RETURNS, policy.turns, kind="outcome", think_penalty=0.2, format_penalty=0.05)
    assert found.outcome == pytest.approx(0.35 - 0.2 / 2 - 0.05)
    assert found.process.tolist() == [0.5, -1.0]
    assert rollout_rewards(RETURNS, policy.turns, kind="outcome", think_penalty=2.0).outcome == 0.0


def test_rewards_by_token_under_gae() -> None:
    """Emotions of 40, 45, 35 in one sample of two turns; what verl's GAE returns to each token of a turn without a critic."""
    turns = [PolicyTurn([1], [10, 11], [0.0] * 2, "x", "x", None), PolicyTurn([1, 10, 11, 2], [12], [0.0], "x", "x", None)]
    (row,) = samples(turns, per="dialogue", max_response=9)
    returns = Returns(0.35, [0.5, -1.0], worst_outcome=0.0, worst_turns=-4.0)
    expected = {
        ("outcome", "to_go"): [0.35, 0.35],
        ("turn", "to_go"): [-0.5, -1.0],  # 3.5 less the emotion before over 10
        ("mixed", "to_go"): [-0.075, -0.325],
        ("mixed_each", "to_go"): [0.1, -0.325],
        ("outcome", "immediate"): [0.0, 0.35],
        ("turn", "immediate"): [0.5, -1.0],
        ("mixed_each", "immediate"): [0.425, -0.325],
    }
    mask = torch.tensor([row.mask], dtype=torch.float32)
    for (kind, credit), (first, second) in expected.items():
        rewards = rollout_rewards(returns, turns, kind=kind, think=False)  # type: ignore[arg-type]
        by_token = torch.tensor([token_rewards(row, rewards, credit=credit)])  # type: ignore[arg-type]
        _, gained = compute_gae_advantage_return(by_token, torch.zeros_like(by_token), mask, gamma=1.0, lam=1.0)
        assert gained[0][mask[0] == 1].tolist() == pytest.approx([first, first, second])


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.floats(-1, 1)), min_size=1, max_size=6), st.integers(4, 40))
def test_rewards_to_go_sum_to_what_follows_each_turn(given: list[tuple[int, int, float]], room: int) -> None:
    """Whatever way a dialogue is cut into samples, and whichever turns have no tokens."""
    turns, prompt = [], [1]
    for number, (size, gap, _) in enumerate(given):
        tokens = [] if number and size == 4 else [10 + number] * size
        turns.append(PolicyTurn(list(prompt), tokens, [-1.0] * len(tokens), "x", "x", None))
        prompt = [*prompt, *tokens, *[2] * gap]
    rewards = np.array([reward for _, _, reward in given])
    worth = RolloutRewards(float(rewards.sum()), rewards, rewards, False)
    for row in samples(turns, per="dialogue", max_response=room):
        found = token_rewards(row, worth, credit="to_go")
        for span in row.spans:  # the return of GAE with gamma = lambda = 1 at the turn's tokens
            assert sum(found[span.start :]) == pytest.approx(rewards[span.turn :].sum(), abs=1e-9)
        assert all(mask or not reward for mask, reward in zip(row.mask, found, strict=True))
        group = token_rewards(row, worth, credit="group")
        assert group[row.spans[-1].stop - 1] == worth.outcome
        assert sum(group) == worth.outcome


class _Bare:
    """A tokenizer as `TemplateFormat` sees it."""

    def __init__(self, template: str | None, special: Sequence[str] = ()) -> None:
        self.chat_template = template
        self.all_special_tokens = list(special)

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **_: Any) -> str:
        return "".join(message["content"] for message in messages[-1:])


def test_templates_that_lose_replies_are_refused() -> None:
    with pytest.raises(UseError, match="no chat template"):
        TemplateFormat(_Bare(None))
    with pytest.raises(UseError, match="hides think tags"):
        TemplateFormat(_Bare("x", ["<think>"]))
    messages = [Message(role="assistant", content="a"), Message(role="user", content="b")]
    with pytest.raises(UseError, match="shows 0 of 1 earlier replies"):
        TemplateFormat(_Bare("x")).prompt_ids(messages, {0: [5]})
