"""What the laptop policy learns English from: replies of scripted baselines, good and bad, in dialogues or in a form of answers.

Dialogues are played with the embedded user. At every reply one baseline is drawn, so that one dialogue holds good and bad replies
and nothing but the moment decides which: what a reply is worth is left to training. `corpus.yaml` lists the scenarios. Answers
are for environments with a form of answers: for each part another baseline is drawn, so that a poor part may precede a good one.
They answer the scenarios that a recipe trains on, never held-out ones. No baseline repeats what the person said, so nothing
teaches quoting. Nothing is judged.

Deterministic: the same settings give the same examples, word for word, however many processes make them.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import write_whole
from heartloop.environments.episode import YOU_BEGIN, play
from heartloop.environments.records import half_of, yaml_value
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Ready
from heartloop.environments.training import AnswerForm, Training
from heartloop.models.baselines import Baseline
from heartloop.training.verl_config import parted

_IN_DIALOGUES: Mapping[str, float] = {
    "reflector": 2.0,
    "template": 0.3, "lecturer": 0.3, "fixer": 0.3, "flatterer": 0.3,
    "pushover": 0.3, "rigid": 0.3, "excuser": 0.3, "interviewer": 0.3,
}  # fmt: skip
"""How often each baseline replies. `reflector` does no harm; the others are poor in some scene and leave room upwards. Left out:
`counsellor`, as its replies belong to held-out scenarios; `assistant`, as its lists are too long for this policy; `hostile`, as a
policy should not have to unlearn it; `silent` and `garbage`, which are no English."""
_IN_ANSWERS: Mapping[str, float] = {
    "reflector": 1.0, "template": 0.6, "lecturer": 0.6, "fixer": 0.6, "flatterer": 0.6, "interviewer": 0.3,
}  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")

Job: TypeAlias = "tuple[Source | None, str, int]"
"""Source, scenario and seed of an example."""


class Layout(NamedTuple):
    """What the policy reads and writes of a dialogue."""

    headings: tuple[str, ...] = ()
    """Sections of the system prompt that are kept; the others are dropped."""
    message_words: int = 48
    """Words that are kept of a message of the user."""
    breaks: tuple[str, ...] = ()
    """Pieces of a reply that are one token each, line breaks included; without any, a reply is one line."""


class Example(NamedTuple):
    """One dialogue as the policy sees it."""

    scenario: str
    messages: tuple[Message, ...]
    score: float | None


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Settings):
    """Scenarios of one environment, played with the embedded user."""

    environment: str
    scenarios: tuple[str, ...] = Field(min_length=1)
    """Sets or files."""
    half: Literal["tuning", "held-out"] | None = None
    """Only the scenarios of this half; all without it."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Of the environment."""
    count: int | None = Field(default=None, ge=0)
    """Number of scenarios, spread evenly over the list; all by default."""
    repeats: int = Field(default=1, ge=1)
    """Dialogues with each scenario."""

    @property
    def training(self) -> Training | None:
        return load_environment(self.environment).training

    def spread(self) -> list[str]:
        """Ids of `count` scenarios, spread evenly over the list."""
        ids = environment_for(self).scenario_ids
        count = len(ids) if self.count is None else self.count
        return [ids[(place * len(ids)) // count] for place in range(count)]


@cache
def _sources(name: str) -> tuple[Source, ...]:
    text = (resources.files(__package__) / "corpus.yaml").read_text(encoding="utf-8")
    return tuple(Source.model_validate(source) for source in yaml_value(text)[name])


def environment_for(source: Source) -> Ready:
    """The environment over the scenarios of a source, with the embedded user; made once a process."""
    return _environment(source.model_dump_json(exclude={"count", "repeats"}))


@cache
def _environment(source_json: str) -> Ready:
    source = Source.model_validate_json(source_json)
    spec = load_environment(source.environment)
    options = spec.read_options(source.options)
    loaded = [scenario for name in source.scenarios for scenario in spec.load(name, variant=options.variant)]
    scenarios = [scenario for scenario in loaded if source.half in (None, half_of(scenario.id))]
    return spec.make(scenarios, spec.players(), options)


class CorpusSettings(_Settings):
    """Dialogues."""

    seed: int = 0
    learn: tuple[Source, ...] = Field(default_factory=lambda: _sources("learn"), min_length=1)
    """Scenarios to learn from; those of `corpus.yaml` by default."""
    held_out: tuple[Source, ...] = Field(default_factory=lambda: _sources("held_out"))
    """Held-out scenarios, for the held-out perplexity."""
    longest_reply: int = Field(default=36, ge=8)
    """Maximum number of words and punctuation marks; a longer reply loses whole sentences at random."""
    shares: Mapping[str, float] = _IN_DIALOGUES

    @property
    def layout(self) -> Layout:
        headings = [heading for source in self.learn if (one := source.training) is not None for heading in one.prompt_headings]
        return Layout(tuple(dict.fromkeys(headings)))

    def held_out_texts(self) -> list[str]:
        """Texts of all held-out scenarios, sorted: for a tokenizer's words alone.

        A large model's tokenizer knows every word. A tokenizer of whole words would miss every fourteenth word of these
        scenarios, mostly those that matter, so that no policy could quote them.
        """
        texts: set[str] = set()
        for source in self.held_out:
            if (training := source.training) is not None:
                texts |= {text for scenario in environment_for(source).scenarios.values() for text in training.texts(scenario)}
        return sorted(texts)

    def jobs(self) -> tuple[list[Job], list[Job]]:
        """Of the examples to learn from, and of the held-out ones."""
        jobs: tuple[list[Job], list[Job]] = ([], [])
        for made, sources in zip(jobs, (self.learn, self.held_out), strict=True):
            for source in sources:
                seeds = range(self.seed, self.seed + source.repeats)
                made += [(source, scenario, seed) for seed in seeds for scenario in source.spread()]
        return jobs

    def made(self, jobs: Sequence[Job]) -> list[Example]:
        """The examples of some jobs."""
        policy = Mixture(self.shares, longest=self.longest_reply)
        return [asyncio.run(_played(source, scenario, seed, policy)) for source, scenario, seed in jobs if source is not None]


async def _played(source: Source, scenario: str, seed: int, policy: Mixture) -> Example:
    environment = environment_for(source)
    transcript = await play(environment, scenario, policy, seed=seed)
    if transcript.failure is not None:
        raise RuntimeError(f"{scenario}: {transcript.failure.detail}")
    prompt = environment.begin(scenario, seed=seed).policy_prompt
    messages = [Message(role="system", content=prompt)] if prompt else []
    messages.append(Message(role="user", content=YOU_BEGIN if transcript.opening is None else transcript.opening))
    for turn in transcript.turns:
        messages.append(Message(role="assistant", content=turn.reply))
        if turn.message is not None:
            messages.append(Message(role="user", content=turn.message))
    return Example(scenario, tuple(messages), transcript.score)


class Mixture:
    """Scripted baselines, one drawn for each reply: a `ChatModel`.

    Args:
        shares: how often each replies, by name.
        longest: maximum number of words and punctuation marks of a reply.
    """

    name = "mixture"

    def __init__(self, shares: Mapping[str, float] = _IN_DIALOGUES, *, longest: int) -> None:
        self._shares, self._longest = dict(shares), longest
        self._baselines = {name: Baseline(name) for name in shares}

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The reply of one baseline, drawn by the messages and the sampling seed alone."""
        history = "|".join(message.content for message in messages[1:])
        rng = random.Random(f"{sampling.seed if sampling else None}|{history}")
        for name in (*rng.choices(list(self._shares), list(self._shares.values()), k=8), next(iter(self._shares))):
            answer = await self._baselines[name].complete(messages, sampling=sampling)
            if text := whole_sentences(answer.text, self._longest, rng):
                break
        return Reply(text, usage=estimate_usage(messages, text))


class AnswersSettings(_Settings):
    """Answers in an environment's form, as dialogues of one turn without a score."""

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
    shares: Mapping[str, float] = _IN_ANSWERS

    @property
    def layout(self) -> Layout:
        training, form = self._training
        return Layout(training.prompt_headings, form.message_words, tuple(form.headings.values()))

    def held_out_texts(self) -> list[str]:
        return sorted({text for scenario in self._scenarios[1] for text in self._training[0].texts(scenario)})

    def learned_scenarios(self) -> list[str]:
        """Ids of the scenarios that are learned from."""
        return [scenario.id for scenario in self._scenarios[0]]

    def jobs(self) -> tuple[list[Job], list[Job]]:
        train, held_out = self._scenarios
        test = held_out[:: max(1, len(held_out) // max(1, self.test))][: self.test]
        learn: list[Job] = [(None, scenario.id, self.seed + again) for again in range(self.answers) for scenario in train]
        return learn, [(None, scenario.id, self.seed) for scenario in test]

    def made(self, jobs: Sequence[Job]) -> list[Example]:
        baselines = {name: Baseline(name) for name in self.shares}
        return [asyncio.run(self._answer(scenario, seed, baselines)) for _, scenario, seed in jobs]

    @property
    def _training(self) -> tuple[Training, AnswerForm]:
        training = load_environment(self.environment).training
        if training is None or training.answer_form is None:
            raise UseError(f"{self.environment} has no form of answers; remove policy.warm_start.corpus.answers")
        return training, training.answer_form

    @property
    def _scenarios(self) -> tuple[list[Any], list[Any]]:
        return parted(list(_default_set(self.environment).scenarios.values()), self.held_out_share)

    async def _answer(self, scenario: str, seed: int, baselines: Mapping[str, Baseline]) -> Example:
        episode = _default_set(self.environment).begin(scenario, seed=seed)
        opening = await episode.open() or ""
        messages = [Message(role="system", content=episode.policy_prompt), Message(role="user", content=opening)]
        rng = random.Random(f"{scenario}|{seed}")
        _, form = self._training

        async def part(name: str) -> str:
            """Of a baseline drawn at random; another one is drawn if no sentence of it is short enough."""
            for _ in range(100):
                (baseline,) = rng.choices(list(self.shares), list(self.shares.values()))
                answer = await baselines[baseline].complete(messages, sampling=Sampling(seed=rng.randrange(2**31)))
                if text := whole_sentences(form.split(answer.text)[name], self.longest_part, rng):
                    return text
            raise RuntimeError(f"no baseline has a part {name} of at most {self.longest_part} words and marks")

        text = "".join([heading + await part(name) for name, heading in form.headings.items()])
        return Example(scenario, (*messages, Message(role="assistant", content=text)), None)


@cache
def _default_set(environment: str) -> Ready:
    spec = load_environment(environment)
    return spec.make(spec.load(), spec.players())


def words_in(text: str) -> int:
    """Words and punctuation marks.

    >>> words_in("It's late, isn't it?")
    6
    """
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


def examples_of(settings: CorpusSettings | AnswersSettings, *, processes: int = 1) -> tuple[list[Example], list[Example]]:
    """The examples to learn from, and the held-out ones; about 50 ms each on one core. A failed dialogue is raised."""
    learn, held_out = settings.jobs()
    jobs = [*learn, *held_out]
    if processes == 1:
        made = settings.made(jobs)
    else:
        parts = [jobs[start : start + 64] for start in range(0, len(jobs), 64)]
        # spawned, not forked: the caller may have torch's threads running
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            made = [example for examples in pool.map(settings.made, parts) for example in examples]
    return made[: len(learn)], made[len(learn) :]


def read_or_make(path: Path, make: Callable[[], tuple[list[Example], list[Example]]]) -> tuple[list[Example], list[Example]]:
    """Examples to learn from and held-out ones, read from a JSON-lines file if it exists, else made and written to it."""
    if not path.is_file():
        made = make()
        rows = [
            {"apart": apart, "scenario": scenario, "score": score, "messages": [[m.role, m.content] for m in messages]}
            for apart, examples in enumerate(made)
            for scenario, messages, score in examples
        ]
        write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))
        return made
    read: tuple[list[Example], list[Example]] = ([], [])
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            example = Example(row["scenario"], tuple(Message(role=r, content=c) for r, c in row["messages"]), row["score"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}:{number} is no example of a warm start; remove the file, it is made again") from error
        read[bool(row["apart"])].append(example)
    return read
