"""What the laptop policy learns English from: replies of scripted baselines, good and bad, in dialogues or in a form of answers.

One baseline is drawn for each reply in a dialogue, and for each part in a form of answers. No held-out scenario is used, and
nothing is judged. The same settings give the same examples, however many processes make them.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import resources
from multiprocessing import get_context
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.episode import play
from heartloop.environments.records import half_of, yaml_value
from heartloop.environments.registry import load_environment, parted
from heartloop.environments.spec import Ready
from heartloop.environments.training import AnswerForm, Training
from heartloop.evaluation.tables import messages_of
from heartloop.models.baselines import Baseline

LONGEST_REPLY, LONGEST_PART = 36, 40
"""Maximum number of words and punctuation marks; a longer reply or part of an answer loses whole sentences at random."""
_TESTED = 24  # held-out scenarios that are answered, for the held-out perplexity alone
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")

Example: TypeAlias = tuple[Message, ...]


class Layout(NamedTuple):
    """What the policy reads and writes of a dialogue."""

    headings: tuple[str, ...] = ()
    """Sections of the system prompt that are kept; the others are dropped."""
    message_words: int = 48
    """Words that are kept of a message of the user."""
    breaks: tuple[str, ...] = ()
    """Pieces of a reply that are one token each, line breaks included; without any, a reply is one line."""


class Source(BaseModel):
    """Scenarios of one environment with the embedded user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    scenarios: tuple[str, ...] = Field(min_length=1)
    variant: str | None = None
    half: Literal["tuning", "held-out"] | None = None
    """Only the scenarios of this half; all without it."""
    share: float | None = None
    """Share of the scenarios that is held out, as a recipe's `scenarios.held_out_share`: the others are taken."""
    held_out: bool = False
    """Takes the held-out share instead."""
    count: int | None = Field(default=None, ge=0)
    """Number of scenarios, spread evenly over the list; all by default."""
    repeats: int = Field(default=1, ge=1)
    """Dialogues with each scenario to learn from."""

    @property
    def training(self) -> Training | None:
        return load_environment(self.environment).training

    @property
    def answer_form(self) -> AnswerForm | None:
        return self.training.answer_form if self.training else None

    def spread(self, leave_out: Collection[str] = ()) -> list[str]:
        """Ids of `count` scenarios, spread evenly over the list."""
        ids = [name for name in environment_for(self).scenario_ids if name not in leave_out]
        count = len(ids) if self.count is None else min(self.count, len(ids))
        return [ids[(place * len(ids)) // count] for place in range(count)]


@cache
def environment_for(source: Source) -> Ready:
    spec = load_environment(source.environment)
    options = spec.read_options({} if source.variant is None else {"variant": source.variant})
    loaded = [scenario for name in source.scenarios for scenario in spec.load(name, variant=options.variant)]
    scenarios = [scenario for scenario in loaded if source.half in (None, half_of(scenario.id))]
    if source.share is not None:
        scenarios = parted(scenarios, source.share)[source.held_out]
    return spec.make(scenarios, spec.players(), options)


Job: TypeAlias = tuple[Source, str, int]


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml_value((resources.files(__package__) / "corpus.yaml").read_text(encoding="utf-8"))
    return table


def _sources(name: str) -> tuple[Source, ...]:
    return tuple(Source.model_validate(source) for source in _table()[name])


class CorpusSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    answers: int | None = Field(default=None, ge=1)
    """To each scenario; dialogues without it."""
    learn: tuple[Source, ...] = Field(default_factory=lambda: _sources("learn"), min_length=1)
    held_out: tuple[Source, ...] = Field(default_factory=lambda: _sources("held_out"))
    """For the held-out perplexity."""

    @property
    def layout(self) -> Layout:
        headings = [heading for source in self.learn if source.training for heading in source.training.prompt_headings]
        kept = tuple(dict.fromkeys(headings))
        form = self.learn[0].answer_form
        return Layout(kept) if form is None else Layout(kept, form.message_words, tuple(form.headings.values()))

    def held_out_texts(self) -> list[str]:
        """Texts of all held-out scenarios, sorted: without them a tokenizer would miss every fourteenth of their words."""
        texts: set[str] = set()
        for source in self.held_out:
            if source.training is not None:
                for scenario in environment_for(source).scenarios.values():
                    texts.update(source.training.texts(scenario))
        return sorted(texts)

    def jobs(self) -> tuple[list[Job], list[Job]]:
        """Of the examples to learn from, and of the held-out ones."""
        apart = {name for source in self.held_out for name in environment_for(source).scenario_ids}
        learn: list[Job] = []
        for source in self.learn:
            names = source.spread(leave_out=apart)
            seeds = range(self.seed, self.seed + (self.answers or source.repeats))
            learn += [(source, name, seed) for seed in seeds for name in names]
        return learn, [(source, name, self.seed) for source in self.held_out for name in source.spread()]


class WarmStartSettings(BaseModel):
    """What determines the warm-started policy, weight by weight on one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: CorpusSettings = Field(default_factory=CorpusSettings)
    seed: int = 0
    """Random seed of initial weights, order of rows and exchanged words."""
    least_count: int = Field(default=2, ge=1)
    """Minimum number of different texts of the corpus with a word, for it to be known."""
    width: int = Field(default=128, ge=64, multiple_of=16)
    layers: int = Field(default=3, ge=2)
    steps: int = Field(default=600, ge=1)
    rows: int = Field(default=4, ge=1)
    learning_rate: float = Field(default=4e-3, gt=0.0)
    exchanged: float = Field(default=0.75, ge=0.0, le=1.0)
    """Share of rows with exchanged content words."""

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the settings, and of the scenarios that are answered, which may be a file's."""
        answered = [environment_for(source).scenarios.values() for source in self.corpus.learn if self.corpus.answers]
        fingerprints = [scenario.fingerprint for scenarios in answered for scenario in scenarios]
        return hashlib.sha256("".join([self.model_dump_json(), *fingerprints]).encode()).hexdigest()[:12]


def warm_start_of(
    given: Mapping[str, Any], environment: str, train: str, held_out: str, share: float | None
) -> WarmStartSettings:
    """A recipe's warm start. Answers are to its training scenarios, whatever their limit, never to a held-out one."""
    settings = dict(given)
    learn = Source(environment=environment, scenarios=(train,), share=share)
    if learn.answer_form is not None:
        apart = learn.model_copy(update={"scenarios": (held_out,), "held_out": True, "count": _TESTED})
        settings["corpus"] = {"learn": (learn,), "held_out": (apart,), **settings["corpus"]}
    return WarmStartSettings.model_validate(settings)


def examples_of(jobs: Sequence[Job], *, processes: int = 1) -> list[Example]:
    """The examples of some jobs; about 50 ms each on one core. A failed dialogue is raised."""
    if processes == 1:
        return [asyncio.run(_answer(*job) if job[0].answer_form else _dialogue(*job)) for job in jobs]
    parts = [jobs[start : start + 64] for start in range(0, len(jobs), 64)]
    # spawned, not forked: the caller may have torch's threads running
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return [example for examples in pool.map(examples_of, parts) for example in examples]


async def _dialogue(source: Source, scenario: str, seed: int) -> Example:
    environment = environment_for(source)
    transcript = await play(environment, scenario, Mixture(), seed=seed)
    if transcript.failure is not None:
        raise RuntimeError(f"{scenario}: {transcript.failure.detail}")
    prompt = environment.begin(scenario, seed=seed).policy_prompt
    return tuple(map(Message.model_validate, messages_of(transcript, prompt)))


class Mixture:
    """Scripted baselines, one drawn for each reply by the messages and the sampling seed alone: a `ChatModel`."""

    name = "mixture"

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        history = "|".join(message.content for message in messages[1:])
        rng = random.Random(f"{sampling.seed if sampling else None}|{history}")
        shares = _table()["in_dialogues"]
        for name in (*rng.choices(list(shares), list(shares.values()), k=8), next(iter(shares))):
            answer = await Baseline(name).complete(messages, sampling=sampling)
            if text := whole_sentences(answer.text, LONGEST_REPLY, rng):
                break
        return Reply(text, usage=estimate_usage(messages, text))


async def _answer(source: Source, scenario: str, seed: int) -> Example:
    form = source.answer_form
    assert form is not None
    episode = environment_for(source).begin(scenario, seed=seed)
    opening = await episode.open() or ""
    messages = [Message(role="system", content=episode.policy_prompt), Message(role="user", content=opening)]
    rng, shares = random.Random(f"{scenario}|{seed}"), _table()["in_answers"]

    async def part(name: str) -> str:
        """Of a baseline drawn at random; another one is drawn if no sentence of it is short enough."""
        for _ in range(100):
            (baseline,) = rng.choices(list(shares), list(shares.values()))
            answer = await Baseline(baseline).complete(messages, sampling=Sampling(seed=rng.randrange(2**31)))
            if text := whole_sentences(form.split(answer.text)[name], LONGEST_PART, rng):
                return text
        raise RuntimeError(f"no baseline has a part {name} of at most {LONGEST_PART} words and marks")

    text = "".join([heading + await part(name) for name, heading in form.headings.items()])
    return (*messages, Message(role="assistant", content=text))


def words_in(text: str) -> int:
    return len(_WORD.findall(text))


def whole_sentences(text: str, longest: int, rng: random.Random) -> str:
    """A text on one line, cut to `longest` words and marks by dropping whole sentences; empty if each is too long.

    >>> whole_sentences("One two three. Four five.\\nSix.", 6, random.Random(0))
    'One two three. Six.'
    """
    sentences = [part for part in re.split(r"(?<=[.!?…])\s+", " ".join(text.split())) if part]
    while sentences and sum(map(words_in, sentences)) > longest:
        sentences.pop(rng.randrange(len(sentences)))
    return " ".join(sentences)
