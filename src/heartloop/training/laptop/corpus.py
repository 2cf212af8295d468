"""The dialogues from which the laptop policy learns English: scripted baselines, good and bad, with the embedded user.

At every reply one baseline is drawn, so that one dialogue holds good and bad replies and nothing but the moment decides which:
what a reply is worth is left to training. No baseline repeats what the person said, so the corpus does not teach quoting.
`corpus.yaml` lists the scenarios. Does not cover the tokenizer (`tokenizer`) nor learning (`warm_start`).

Deterministic: the same settings give the same dialogues, word for word, however many processes play them.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.core.system import write_whole
from heartloop.environments.episode import YOU_BEGIN, play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.environments.sources import yaml_value
from heartloop.environments.spec import Ready
from heartloop.models.baselines import Baseline
from heartloop.training.laptop.tokenizer import Layout

__all__ = [
    "SHARES", "CorpusSettings", "Example", "Mixture", "Source", "dialogues_of", "environment_for", "held_out_texts",
    "in_processes", "layout_of", "read_or_make", "whole_sentences", "words_in",
]  # fmt: skip

SHARES: Mapping[str, float] = {
    "reflector": 2.0,
    "template": 0.3, "lecturer": 0.3, "fixer": 0.3, "flatterer": 0.3,
    "pushover": 0.3, "rigid": 0.3, "excuser": 0.3, "interviewer": 0.3,
}  # fmt: skip
"""How often each baseline replies. `reflector` does no harm; the others are poor in some scene and leave room upwards.
`counsellor` is left out because its replies belong to held-out scenarios, `assistant` because its lists are too long for this
policy, `hostile` because a policy should not have to unlearn it, and `silent` and `garbage` because they are no English."""

_MESSAGE_WORDS = 48
"""Words that the policy reads of a message."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


class Source(BaseModel):
    """Scenarios of one environment, played with the embedded user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


@cache
def _shipped() -> Mapping[str, Any]:
    text = (resources.files(__package__) / "corpus.yaml").read_text(encoding="utf-8")
    return dict(yaml_value(text))


def _sources(name: str) -> tuple[Source, ...]:
    return tuple(Source.model_validate(source) for source in _shipped()[name])


class CorpusSettings(BaseModel):
    """What decides the dialogues."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    learn: tuple[Source, ...] = Field(default_factory=lambda: _sources("learn"), min_length=1)
    """Scenarios to learn from; those of `corpus.yaml` by default."""
    held_out: tuple[Source, ...] = Field(default_factory=lambda: _sources("held_out"))
    """Scenarios kept apart, for the held-out perplexity."""
    longest_reply: int = Field(default=36, ge=8)
    """Maximum number of words and punctuation marks; a longer reply loses whole sentences at random."""
    shares: Mapping[str, float] = SHARES


class Example(NamedTuple):
    """One dialogue as the policy sees it."""

    scenario: str
    messages: tuple[Message, ...]
    score: float | None


def words_in(text: str) -> int:
    """Words and punctuation marks.

    >>> words_in("It's late, isn't it?")
    6
    """
    return len(_WORD.findall(text))


def whole_sentences(text: str, longest: int, rng: random.Random) -> str:
    """A text on one line, cut to `longest` words and marks by dropping whole sentences; empty where each is too long.

    >>> whole_sentences("One two three. Four five.\\nSix.", 6, random.Random(0))
    'One two three. Six.'
    """
    sentences = [part for part in re.split(r"(?<=[.!?…])\s+", " ".join(text.split())) if part]
    while sentences and sum(map(words_in, sentences)) > longest:
        sentences.pop(rng.randrange(len(sentences)))
    return " ".join(sentences)


class Mixture:
    """Scripted baselines, one drawn for each reply: a `ChatModel`.

    Args:
        shares: how often each replies, by name.
        longest: maximum number of words and punctuation marks of a reply.
    """

    name = "mixture"

    def __init__(self, shares: Mapping[str, float] = SHARES, *, longest: int) -> None:
        self._shares = dict(shares)
        self._longest = longest
        self._baselines = {name: Baseline(name) for name in shares}

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The reply of one baseline, drawn by the messages and the sampling seed alone."""
        history = "|".join(message.content for message in messages[1:])
        rng = random.Random(f"{sampling.seed if sampling else None}|{history}")
        for name in (*rng.choices(list(self._shares), list(self._shares.values()), k=8), next(iter(self._shares))):
            answer = await self._baselines[name].complete(messages, sampling=sampling)
            text = whole_sentences(answer.text, self._longest, rng)
            if text:
                break
        return Reply(text, usage=estimate_usage(messages, text))


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


def layout_of(settings: CorpusSettings) -> Layout:
    """What of a dialogue stands in a prompt: the sections of the policy prompts that the sources' environments name."""
    trainings = [load_environment(source.environment).training for source in settings.learn]
    headings = [heading for training in trainings if training is not None for heading in training.prompt_headings]
    return Layout(tuple(dict.fromkeys(headings)), _MESSAGE_WORDS)


def held_out_texts(settings: CorpusSettings) -> list[str]:
    """Texts of all scenarios of the held-out sources, sorted: for a tokenizer's words alone.

    A large model's tokenizer knows every word. A tokenizer of whole words would miss every fourteenth word of these scenarios,
    mostly those that matter, so that no policy could quote them.
    """
    texts: set[str] = set()
    for source in settings.held_out:
        training = load_environment(source.environment).training
        if training is not None:
            texts |= {text for scenario in environment_for(source).scenarios.values() for text in training.texts(scenario)}
    return sorted(texts)


class _Job(NamedTuple):
    source: Source
    scenario: str
    seed: int


def _jobs(sources: Sequence[Source], seed: int) -> list[_Job]:
    return [
        _Job(source, scenario, seed + again)
        for source in sources
        for again in range(source.repeats)
        for scenario in _spread(environment_for(source), source.count)
    ]


def dialogues_of(settings: CorpusSettings, *, processes: int = 1) -> tuple[list[Example], list[Example]]:
    """The dialogues to learn from, and the held-out ones.

    About 50 ms each on one core. A failed dialogue is a fault of ours and is raised.
    """
    learn, held_out = _jobs(settings.learn, settings.seed), _jobs(settings.held_out, settings.seed)
    played = in_processes(_played, [*learn, *held_out], settings, processes)
    return played[: len(learn)], played[len(learn) :]


def in_processes(
    work: Callable[[Sequence[Any], Any], list[Example]], jobs: Sequence[Any], settings: Any, processes: int
) -> list[Example]:
    """The examples of all jobs, in order, made by one or several processes; `work(jobs, settings)` makes those of some."""
    if processes == 1:
        return work(jobs, settings)
    parts = [jobs[start : start + 64] for start in range(0, len(jobs), 64)]
    # spawned, not forked: the caller may have torch's threads running
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return [example for examples in pool.map(work, parts, [settings] * len(parts)) for example in examples]


def read_or_make(path: Path, make: Callable[[], tuple[list[Example], list[Example]]]) -> tuple[list[Example], list[Example]]:
    """Dialogues to learn from and held-out ones, read from a JSON-lines file where it exists, else made and written to it.

    Raises:
        InputError: the file holds something else.
    """
    if not path.is_file():
        made = make()
        rows = [json.dumps({"apart": apart, **_record(example)}) for apart, examples in enumerate(made) for example in examples]
        write_whole(path, "\n".join(rows) + "\n")
        return made
    learn: list[Example] = []
    apart: list[Example] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            example = Example(row["scenario"], tuple(Message(role=r, content=c) for r, c in row["messages"]), row["score"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}:{number} is no dialogue of the warm-start corpus; remove the file, it is made again"
            ) from error
        (apart if row["apart"] else learn).append(example)
    return learn, apart


def _record(example: Example) -> dict[str, Any]:
    return {"scenario": example.scenario, "score": example.score, "messages": [[m.role, m.content] for m in example.messages]}


def _spread(environment: Ready, count: int | None) -> Iterator[str]:
    """`count` scenarios, spread evenly over the list; all without a count."""
    ids = environment.scenario_ids
    number = len(ids) if count is None else count
    return (ids[(place * len(ids)) // number] for place in range(number))


def _played(jobs: Sequence[_Job], settings: CorpusSettings) -> list[Example]:
    policy = Mixture(settings.shares, longest=settings.longest_reply)
    return [asyncio.run(_example(job, policy)) for job in jobs]


async def _example(job: _Job, policy: Mixture) -> Example:
    environment = environment_for(job.source)
    transcript = await play(environment, job.scenario, policy, seed=job.seed)
    if transcript.failure is not None:
        raise RuntimeError(f"{job.scenario}: {transcript.failure.detail}")
    prompt = environment.begin(job.scenario, seed=job.seed).policy_prompt
    messages = [Message(role="system", content=prompt)] if prompt else []
    messages.append(Message(role="user", content=YOU_BEGIN if transcript.opening is None else transcript.opening))
    for turn in transcript.turns:
        messages.append(Message(role="assistant", content=turn.reply))
        if turn.message is not None:
            messages.append(Message(role="user", content=turn.message))
    return Example(job.scenario, tuple(messages), transcript.score)
