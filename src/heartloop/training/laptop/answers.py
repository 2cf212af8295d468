"""The answers from which the laptop policy learns an environment's form: scripted baselines, good and bad, part by part.

For each part of an answer another baseline is drawn, so that a poor part stands before a good one and the other way round: which
parts are worth what is left to training. Answers are to the scenarios that a recipe trains on, never to held-out ones. They are
not judged. Does not cover dialogues of several turns (`corpus`), the tokenizer (`tokenizer`), nor learning (`warm_start`).

Deterministic: the same settings give the same answers, word for word.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import AnswerForm, Ready, Training
from heartloop.models.baselines import Baseline
from heartloop.training.dataset import parted
from heartloop.training.laptop.corpus import Example, in_processes, whole_sentences
from heartloop.training.laptop.tokenizer import Layout

__all__ = ["SHARES", "AnswersSettings", "answers_of", "held_out_texts", "layout_of", "learned_scenarios"]

SHARES: Mapping[str, float] = {
    "reflector": 1.0, "template": 0.6, "lecturer": 0.6, "fixer": 0.6, "flatterer": 0.6, "interviewer": 0.3,
}  # fmt: skip
"""How often each baseline writes a part; why the others write none: `corpus.SHARES`."""


class AnswersSettings(BaseModel):
    """What decides the answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    """An environment with a form of answers; scenarios are those of its default set."""
    answers: int = Field(ge=1)
    """To each scenario."""
    seed: int = 0
    held_out_share: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Of the scenarios; as the recipe's `scenarios.held_out_share`."""
    test: int = Field(default=24, ge=0)
    """Number of held-out scenarios that are answered, for the held-out perplexity alone."""
    longest_part: int = Field(default=40, ge=8)
    """Maximum number of words and punctuation marks of a part; a longer part loses whole sentences at random."""
    shares: Mapping[str, float] = SHARES


def learned_scenarios(settings: AnswersSettings) -> list[str]:
    """Ids of the scenarios that are learned from."""
    return [scenario.id for scenario in _scenarios(settings)[0]]


def held_out_texts(settings: AnswersSettings) -> list[str]:
    """Texts of the held-out scenarios, sorted, as `corpus.held_out_texts`: for a tokenizer's words alone."""
    texts = _training(settings.environment)[0].texts
    return sorted({text for scenario in _scenarios(settings)[1] for text in texts(scenario)})


def layout_of(settings: AnswersSettings) -> Layout:
    """What of a dialogue stands in a prompt, and the headings of an answer."""
    training, form = _training(settings.environment)
    return Layout(training.prompt_headings, form.message_words, tuple(form.headings.values()))


def answers_of(settings: AnswersSettings, *, processes: int = 1) -> tuple[list[Example], list[Example]]:
    """Answers to learn from, and answers to held-out scenarios; as dialogues of one turn without a score.

    About 40 ms each on one core.
    """
    train, held_out = _scenarios(settings)
    test = held_out[:: max(1, len(held_out) // max(1, settings.test))][: settings.test]
    learn = [(scenario.id, settings.seed + again) for again in range(settings.answers) for scenario in train]
    jobs = [*learn, *((scenario.id, settings.seed) for scenario in test)]
    answers = in_processes(_answered, jobs, settings, processes)
    return answers[: len(learn)], answers[len(learn) :]


def _training(environment: str) -> tuple[Training, AnswerForm]:
    training = load_environment(environment).training
    if training is None or training.answer_form is None:
        raise UseError(f"{environment} has no form of answers; leave policy.warm_start.corpus.answers out")
    return training, training.answer_form


@cache
def _ready(environment: str) -> Ready:
    spec = load_environment(environment)
    return spec.make(spec.load(), spec.players())


def _scenarios(settings: AnswersSettings) -> tuple[list[Any], list[Any]]:
    return parted(list(_ready(settings.environment).scenarios.values()), settings.held_out_share)


def _answered(jobs: Sequence[tuple[str, int]], settings: AnswersSettings) -> list[Example]:
    baselines = {name: Baseline(name) for name in settings.shares}
    return [asyncio.run(_answer(scenario, seed, baselines, settings)) for scenario, seed in jobs]


async def _answer(scenario: str, seed: int, baselines: Mapping[str, Baseline], settings: AnswersSettings) -> Example:
    episode = _ready(settings.environment).begin(scenario, seed=seed)
    messages = [Message(role="system", content=episode.policy_prompt), Message(role="user", content=await episode.open() or "")]
    rng = random.Random(f"{scenario}|{seed}")
    _, form = _training(settings.environment)
    text = "".join(
        [heading + await _part(name, form, messages, baselines, settings, rng) for name, heading in form.headings.items()]
    )
    return Example(scenario, (*messages, Message(role="assistant", content=text)), None)


async def _part(
    name: str,
    form: AnswerForm,
    messages: Sequence[Message],
    baselines: Mapping[str, Baseline],
    settings: AnswersSettings,
    rng: random.Random,
) -> str:
    """The part of a baseline drawn at random; another one is drawn where no sentence of it is short enough."""
    for _ in range(100):
        (baseline,) = rng.choices(list(settings.shares), list(settings.shares.values()))
        answer = await baselines[baseline].complete(messages, sampling=Sampling(seed=rng.randrange(2**31)))
        text = whole_sentences(form.split(answer.text)[name], settings.longest_part, rng)
        if text:
            return text
    raise RuntimeError(f"no baseline has a part {name} of at most {settings.longest_part} words and marks")
