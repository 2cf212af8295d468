"""Batched generation: replies do not depend on the batch, and log-probabilities are those of the model."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from heartloop.core.errors import UseError
from heartloop.training.generation import BatchedGenerator, Read, ReadTokens, end_tokens
from heartloop.training.rollouts import Drawing, Generated
from tests.training import tiny_policy

NEVER = 10**6
"""An end token that no reply draws."""
PROMPTS = [[5, 6, 7], [9], [40, 41, 42, 43, 44, 45, 46, 47], [5, 6, 7, 8]]


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_policy.model()


@pytest.fixture
def generator(model: Any) -> Iterator[BatchedGenerator]:
    made = BatchedGenerator(model, eos=[NEVER], pad=0)
    yield made
    made.close()


def logits_of(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([ids])).logits[0].float()
    return logits


async def test_the_likeliest_reply_is_the_models_own_whatever_is_answered_beside_it(
    model: Any, generator: BatchedGenerator
) -> None:
    answers = await asyncio.gather(*[generator.generate(prompt, Drawing(max_tokens=6, temperature=0.0)) for prompt in PROMPTS])
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        ids = list(prompt)
        for _ in range(6):  # without cache, batch or padding
            ids.append(int(logits_of(model, ids)[-1].argmax()))
        assert answer.tokens == ids[len(prompt) :]
        assert answer.stop == "length"


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_p": 0.9, "top_k": 20}, {"temperature": 0.0}])
async def test_log_probabilities_are_those_that_the_loss_will_compare_with(
    model: Any, generator: BatchedGenerator, settings: dict[str, Any]
) -> None:
    answers = await asyncio.gather(
        *[generator.generate(p, Drawing(max_tokens=8, seed=i, **settings)) for i, p in enumerate(PROMPTS)]
    )
    temperature = settings.get("temperature", 1.0) or 1.0
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        logprobs = torch.log_softmax(logits_of(model, prompt + answer.tokens) / temperature, -1)
        expected = [float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(answer.tokens)]
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


async def test_equal_seeds_draw_equal_replies_alone_and_in_company(generator: BatchedGenerator) -> None:
    alone = await generator.generate([5, 6, 7], Drawing(max_tokens=12, seed=3))
    beside = await asyncio.gather(*[generator.generate([5, 6, 7, 8, 9], Drawing(max_tokens=5, seed=i)) for i in range(7)],
                                  generator.generate([5, 6, 7], Drawing(max_tokens=12, seed=3)))  # fmt: skip
    assert beside[-1].tokens == alone.tokens
    assert len({tuple(answer.tokens) for answer in beside[:-1]}) > 1


async def test_top_k_and_top_p_keep_what_they_say(model: Any, generator: BatchedGenerator) -> None:
    chances = torch.softmax(logits_of(model, [5, 6, 7])[-1], -1)
    ranked = chances.argsort(descending=True).tolist()

    async def drawn(**settings: Any) -> Counter[int]:
        answers = await asyncio.gather(
            *[generator.generate([5, 6, 7], Drawing(max_tokens=1, seed=i, **settings)) for i in range(400)]
        )
        return Counter(answer.tokens[0] for answer in answers)

    two = await drawn(top_k=2)
    assert set(two) == set(ranked[:2])
    share = float(chances[ranked[0]] / (chances[ranked[0]] + chances[ranked[1]]))
    assert two[ranked[0]] / 400 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 400))
    nucleus = float(chances[ranked[:3]].sum()) - 1e-4  # the third is the one that passes it
    assert set(await drawn(top_p=nucleus)) == set(ranked[:3])
    assert set(await drawn(top_k=1)) == set(await drawn(top_p=1e-6)) == {ranked[0]}


async def test_a_reply_ends_with_its_end_token_or_is_cut(model: Any) -> None:
    first = int(logits_of(model, [9])[-1].argmax())
    generator = BatchedGenerator(model, eos={first, NEVER}, pad=0)
    ended, cut = await asyncio.gather(
        generator.generate([9], Drawing(max_tokens=5, temperature=0.0)), generator.generate([9], Drawing(max_tokens=3, seed=1))
    )
    assert (ended.tokens, ended.stop) == ([first], "stop")
    assert cut.stop == ("stop" if cut.tokens[-1] == first else "length")
    generator.close()


async def test_requests_that_wait_are_answered_together(model: Any) -> None:
    generator = BatchedGenerator(model, eos=[NEVER], pad=0, max_batch=16)
    answers = await asyncio.gather(*[generator.generate([5, i], Drawing(max_tokens=i % 3 + 1)) for i in range(40)])
    assert [len(answer.tokens) for answer in answers] == [i % 3 + 1 for i in range(40)]
    assert generator.batches == 3
    generator.close()


async def test_new_weights_are_used_from_the_next_batch_on() -> None:
    generator = BatchedGenerator(tiny_policy.model(seed=0), eos=[NEVER], pad=0)
    other = tiny_policy.model(seed=1)
    before = await generator.generate([5, 6], Drawing(max_tokens=8, temperature=0.0))
    weights = {name: weight for name, weight in other.state_dict().items() if name != "lm_head.weight"}  # it is tied
    generator.load(weights)
    after = await generator.generate([5, 6], Drawing(max_tokens=8, temperature=0.0))
    expected = BatchedGenerator(other, eos=[NEVER], pad=0)
    assert after.tokens == (await expected.generate([5, 6], Drawing(max_tokens=8, temperature=0.0))).tokens != before.tokens
    with pytest.raises(UseError, match=r"model\.norm\.weight.* missing"):
        generator.load({name: weight for name, weight in weights.items() if name != "model.norm.weight"})
    with pytest.raises(UseError, match="no weights other"):
        generator.load({**weights, "other": torch.zeros(1)})
    generator.close()
    expected.close()


async def test_a_request_that_cannot_be_answered_fails_and_the_next_is_answered(model: Any, generator: BatchedGenerator) -> None:
    with pytest.raises(UseError, match="prompt of 0 tokens"):
        await generator.generate([], Drawing(max_tokens=3))
    with pytest.raises(UseError, match=r"top_p 1\.5"):
        await generator.generate([5], Drawing(max_tokens=3, top_p=1.5))
    with pytest.raises(IndexError):
        await generator.generate([5, 99_999], Drawing(max_tokens=3))  # no such token
    gone = asyncio.ensure_future(generator.generate([5], Drawing(max_tokens=500)))
    await asyncio.sleep(0.05)
    gone.cancel()
    assert len((await generator.generate([5], Drawing(max_tokens=3))).tokens) == 3
    generator.close()
    with pytest.raises(UseError, match="was closed"):
        await generator.generate([5], Drawing(max_tokens=3))


def test_end_tokens_come_from_the_generation_settings_and_the_tokenizer(model: Any) -> None:
    words = tiny_policy.tokenizer()
    assert end_tokens(model.generation_config, words) == {words.eos_token_id}
    model.generation_config.eos_token_id = [words.eos_token_id, words.pad_token_id]
    assert end_tokens(model.generation_config, words) == {words.eos_token_id, words.pad_token_id}


@contextmanager
def shapes_read(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the ids of each forward pass."""
    read: list[tuple[int, ...]] = []
    inner = model.forward

    def noted(*args: Any, **kwargs: Any) -> Any:
        read.append(tuple(kwargs["input_ids"].shape))
        return inner(*args, **kwargs)

    model.forward = noted
    yield read
    del model.forward


def assert_same(answers: Sequence[Generated], expected: Sequence[Generated]) -> None:
    assert [answer.tokens for answer in answers] == [answer.tokens for answer in expected]
    for answer, other in zip(answers, expected, strict=True):
        assert answer.logprobs == pytest.approx(other.logprobs, abs=1e-4)


async def test_a_next_turn_reads_only_what_is_new_and_says_the_same(model: Any) -> None:
    fresh, kept = BatchedGenerator(model, eos=[NEVER], pad=0), BatchedGenerator(model, eos=[NEVER], pad=0)
    first = await asyncio.gather(*[kept.generate(p, Drawing(max_tokens=i + 3, seed=i)) for i, p in enumerate(PROMPTS)])
    later = [prompt + said.tokens + [11, 12] for prompt, said in zip(PROMPTS, first, strict=True)]
    later.append([21, 22, 23])  # somebody new among them
    expected = await asyncio.gather(*[fresh.generate(p, Drawing(max_tokens=6, seed=9)) for p in later])
    with shapes_read(model) as read:
        answers = await asyncio.gather(*[kept.generate(p, Drawing(max_tokens=6, seed=9)) for p in later])
    assert_same(answers, expected)
    assert read[0] == (5, 3), "the last token of the reply, and two new ones"
    assert len(read) == 6
    fresh.close()
    kept.close()


async def test_a_prompt_that_several_requests_share_is_read_once_and_says_the_same(model: Any) -> None:
    generator, alone = BatchedGenerator(model, eos=[NEVER], pad=0), BatchedGenerator(model, eos=[NEVER], pad=0)
    asked = [(PROMPTS[0], 1), (PROMPTS[0], 2), (PROMPTS[2], 3), (PROMPTS[2], 4), (PROMPTS[3], 5), ([9], 6), ([9], 7)]
    expected = [await alone.generate(prompt, Drawing(max_tokens=5, seed=seed)) for prompt, seed in asked]
    with shapes_read(model) as read:
        answers = await asyncio.gather(*[generator.generate(p, Drawing(max_tokens=5, seed=seed)) for p, seed in asked])
    assert_same(answers, expected)
    assert read[:2] == [(2, 7), (7, 4)], "two prompts without their last tokens; then these, and what nobody shares"
    generator.close()
    alone.close()


def test_what_was_read_is_found_by_its_longest_beginning_once_and_the_oldest_goes() -> None:
    def read(tokens: int) -> Read:
        return ((torch.zeros(1, tokens, 2), torch.zeros(1, tokens, 2)),)  # 16 bytes a token

    store = ReadTokens(limit=16 * 9)
    store.put([1, 2], read(2))
    store.put([1, 2, 3], read(3))
    assert [length for length, _ in store.take([[1, 2, 3, 4]] * 3)] == [3, 2, 0], "each is given out once"
    store.put([7, 8], read(2))
    assert store.take([[7, 8]]) == [(0, None)], "the last token is always read anew"
    store.put([4] * 8, read(8))
    assert store.take([[7, 8, 9]]) == [(0, None)], "the oldest made room"
