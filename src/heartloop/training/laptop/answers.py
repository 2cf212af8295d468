"""The answers from which the laptop policy learns PERM's form: scripted supporters, good and bad, each part by another.

At every answer one supporter is drawn for the analysis and one for the response, so that a poor analysis stands before a fine
response and the other way round: which parts are worth what is left to be found by training. People are the samples that a
recipe trains on; those it holds out are never answered to learn from. Nobody judges these answers. Does not cover talks of
several turns (`corpus`), the tokenizer (`tokenizer`), nor how it is learned (`warm_start`).

Deterministic: the same settings give the same answers, word by word.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.catalogue import Ready, entry_of
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.scenario import Scenario
from heartloop.models.baselines import Baseline
from heartloop.training.dataset import parted
from heartloop.training.laptop.corpus import Talk, whole_sentences

__all__ = ["PARTS_BY", "AnswersSettings", "answers_of", "people_learned", "words_of_held_out"]

PARTS_BY: Mapping[str, float] = {
    "listener": 1.0, "coach": 1.0, "template": 0.6, "lecturer": 0.6, "fixer": 0.6, "flatterer": 0.6, "interviewer": 0.3,
}  # fmt: skip
"""How often each supporter writes a part."""


class AnswersSettings(BaseModel):
    """What decides the answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answers: int = Field(ge=1)
    """To each sample."""
    seed: int = 0
    held_out_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Of the shipped samples; as the recipe's `people.held_out_share`."""
    test: int = Field(default=24, ge=0)
    """Held-out samples that are answered for the held-out perplexity alone."""
    longest_analysis: int = Field(default=40, ge=8)
    """Words and punctuation marks; a longer one loses whole sentences, by lot. So the response."""
    longest_response: int = Field(default=40, ge=8)
    shares: Mapping[str, float] = PARTS_BY


def people_learned(settings: AnswersSettings) -> list[str]:
    """Ids of the samples that are learned from."""
    return [sample.id for sample in _people(settings.held_out_share)[0]]


def words_of_held_out(settings: AnswersSettings) -> list[str]:
    """What the held-out people say and what is told of them, sorted, as `corpus.words_of_strangers`: for a tokenizer alone."""
    told = ((sample.person, sample.scenario, sample.query) for sample in _people(settings.held_out_share)[1])
    return sorted({text for texts in told for text in texts})


def answers_of(settings: AnswersSettings, *, processes: int = 1) -> tuple[list[Talk], list[Talk]]:
    """Answers to learn from, and those kept apart, to held-out samples; as talks of one turn without a score.

    About 40 ms each on one core.
    """
    train, held_out = _people(settings.held_out_share)
    apart = held_out[:: max(1, len(held_out) // max(1, settings.test))][: settings.test]
    jobs = [(sample.id, settings.seed + again) for again in range(settings.answers) for sample in train]
    jobs += [(sample.id, settings.seed) for sample in apart]
    if processes == 1:
        talks = _answered(jobs, settings)
    else:
        parts = [jobs[start : start + 64] for start in range(0, len(jobs), 64)]
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:  # as in `corpus`
            talks = [talk for found in pool.map(_answered, parts, [settings] * len(parts)) for talk in found]
    return talks[: len(jobs) - len(apart)], talks[len(jobs) - len(apart) :]


@cache
def _stage() -> Ready:
    entry = entry_of("perm")
    return entry.build(entry.load("samples"), entry.person(None))


def _people(share: float) -> tuple[list[Scenario], list[Scenario]]:
    return parted(list(_stage().scenarios.values()), share)


def _answered(jobs: Sequence[tuple[str, int]], settings: AnswersSettings) -> list[Talk]:
    supporters = {name: Baseline(name, verbatim=True) for name in settings.shares}
    return [asyncio.run(_answer(sample, seed, supporters, settings)) for sample, seed in jobs]


async def _answer(sample: str, seed: int, supporters: Mapping[str, Baseline], settings: AnswersSettings) -> Talk:
    episode = _stage().begin(sample, seed=seed)
    messages = [
        Message(role="system", content=episode.policy_prompt),
        Message(role="user", content=await episode.open() or ""),
    ]
    rng = random.Random(f"{sample}|{seed}")
    analysis = await _part("analysis", messages, settings.longest_analysis, supporters, settings.shares, rng)
    response = await _part("response", messages, settings.longest_response, supporters, settings.shares, rng)
    answer = Message(role="assistant", content=f"# Analysis\n{analysis}\n\n# Response\n{response}")
    return Talk(sample, (*messages, answer), None)


async def _part(
    which: str,
    messages: Sequence[Message],
    longest: int,
    supporters: Mapping[str, Baseline],
    shares: Mapping[str, float],
    rng: random.Random,
) -> str:
    """A supporter's part by lot; another one's where nothing of it is short enough."""
    for _ in range(100):
        (name,) = rng.choices(list(shares), list(shares.values()))
        answer = parse((await supporters[name].complete(messages, sampling=Sampling(seed=rng.randrange(2**31)))).text)
        text = whole_sentences(getattr(answer, which), longest, rng)
        if text:
            return text
    raise RuntimeError(f"no supporter has an {which} of at most {longest} words and marks")
