"""The talks from which the laptop policy learns English: scripted supporters, good and bad, with simulated people.

At every reply one supporter is drawn and speaks, so that within one talk good and bad stand side by side and nothing but the
moment decides which: what a reply is worth is left to be found by training. They quote what others said and what they know word
by word, for to copy is easier learned than to turn "I" into "you". People are those of EIBench's composed training set
and the tuning half of SAGE's, played by the embedded users. The test set of EIBench is never part of it. Does not cover the
tokenizer (`tokenizer`) nor how it is learned (`warm_start`).

Deterministic: the same settings give the same talks, word by word, however many processes play them.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import InputError
from heartloop.environments import sage
from heartloop.environments.catalogue import Ready, entry_of
from heartloop.environments.eibench.scenario_sets import load_people
from heartloop.environments.episode import YOU_BEGIN, play
from heartloop.environments.records import half_of
from heartloop.models.baselines import Baseline

__all__ = [
    "SHARES",
    "CorpusSettings",
    "Mixture",
    "Talk",
    "kept_talks",
    "people_of",
    "talks_of",
    "whole_sentences",
    "words_in",
    "words_of_strangers",
]

SHARES: Mapping[str, float] = {
    "listener": 1.0, "diplomat": 1.0, "owner": 1.0, "light": 1.0,
    "template": 0.3, "lecturer": 0.3, "fixer": 0.3, "flatterer": 0.3,
    "pushover": 0.3, "rigid": 0.3, "excuser": 0.3, "interviewer": 0.3,
}  # fmt: skip
"""How often each supporter speaks. Four are worth hearing in some scene; with these shares the mixture ends below zero in
EIBench, and every scene has room upwards. `silent` and `garbage` are no English; `coach` is as good as `listener`, and longer."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


class CorpusSettings(BaseModel):
    """What decides the talks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    eibench: int = Field(default=2009, ge=0, le=2009)
    """People of the composed training set, spread evenly over it."""
    sage: int = Field(default=2, ge=0)
    """Talks with each person of SAGE's tuning half."""
    test: int = Field(default=24, ge=0, le=213)
    """People of EIBench's test set whose talks are kept apart, for the held-out perplexity."""
    longest_reply: int = Field(default=36, ge=8)
    """Words and punctuation marks; a longer reply loses whole sentences, by lot."""
    shares: Mapping[str, float] = SHARES


class Talk(NamedTuple):
    """One talk as the policy sees it."""

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
    """A text on one line, cut to `longest` words and marks by leaving out whole sentences; empty where every one is too long.

    >>> whole_sentences("One two three. Four five.\\nSix.", 6, random.Random(0))
    'One two three. Six.'
    """
    kept = [part for part in re.split(r"(?<=[.!?…])\s+", " ".join(text.split())) if part]
    while kept and sum(map(words_in, kept)) > longest:
        kept.pop(rng.randrange(len(kept)))
    return " ".join(kept)


class Mixture:
    """Scripted supporters in turn, by lot: a `ChatModel`.

    Args:
        shares: how often each speaks, by name.
        longest: words and marks in a reply.
    """

    name = "mixture"

    def __init__(self, shares: Mapping[str, float] = SHARES, *, longest: int) -> None:
        self._shares = dict(shares)
        self._longest = longest
        self._supporters = {name: Baseline(name, verbatim=True) for name in shares}

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One supporter's reply, by a lot that depends on the messages and the sampling seed alone."""
        said = "|".join(message.content for message in messages[1:])
        rng = random.Random(f"{sampling.seed if sampling else None}|{said}")
        for name in (*rng.choices(list(self._shares), list(self._shares.values()), k=8), next(iter(self._shares))):
            answer = await self._supporters[name].complete(messages, sampling=sampling)
            text = whole_sentences(answer.text, self._longest, rng)
            if text:
                break
        return Reply(text, usage=estimate_usage(messages, text))


@cache
def people_of(environment: str, part: str) -> Ready:
    """The people of a part with the embedded user: `train` or `test` of EIBench, `tuning` or `held-out` of SAGE.

    EIBench's policy prompt is of the form without thinking: the policy is too small to gain by it.
    """
    entry = entry_of(environment)
    people: list[Any]
    if environment == "eibench":
        return entry.build(load_people(part), entry.person(None), variant="direct")
    people = [person for name in sage.SETS for person in sage.load_scenarios(name) if half_of(person.id) == part]
    return entry.build(people, entry.person(None))


def words_of_strangers() -> list[str]:
    """What the people of EIBench's test set say and what the model is told of them, sorted: for a tokenizer's words alone.

    A large model's tokenizer leaves no word out. One of whole words would drop every fourteenth of these people's, mostly those
    that matter, and nobody could say them back.
    """
    found: set[str] = set()
    for person in people_of("eibench", "test").scenarios.values():
        lines = [line for kind in person.lines.model_dump().values() for line in kind]
        found |= {person.opening or "", *(beat.text for beat in person.beats), *lines}
        found |= {person.model.goal, person.model.background, *person.model.knows}
    return sorted(found)


class _Job(NamedTuple):
    environment: str
    part: str
    scenario: str
    seed: int


def talks_of(settings: CorpusSettings, *, processes: int = 1) -> tuple[list[Talk], list[Talk]]:
    """The talks to learn from, and those kept apart (of EIBench's test people).

    About 50 ms each on one core; a talk that failed would be a fault of ours and is raised.
    """
    learn = [_Job("eibench", "train", name, settings.seed) for name in _spread(people_of("eibench", "train"), settings.eibench)]
    for again in range(settings.sage):
        learn += [_Job("sage", "tuning", name, settings.seed + again) for name in people_of("sage", "tuning").scenario_ids]
    apart = [_Job("eibench", "test", name, settings.seed) for name in _spread(people_of("eibench", "test"), settings.test)]
    jobs = [*learn, *apart]
    if processes == 1:
        talks = _played(jobs, settings)
    else:
        parts = [jobs[start : start + 64] for start in range(0, len(jobs), 64)]
        # spawned, not forked: whoever calls may have torch's threads running
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            talks = [talk for found in pool.map(_played, parts, [settings] * len(parts)) for talk in found]
    return talks[: len(learn)], talks[len(learn) :]


def kept_talks(path: Path, make: Callable[[], tuple[list[Talk], list[Talk]]]) -> tuple[list[Talk], list[Talk]]:
    """Talks to learn from and those kept apart, read from a JSON-lines file if it is there, else made and written to it.

    Raises:
        InputError: the file holds something else.
    """
    if not path.is_file():
        found = make()
        rows = [json.dumps({"apart": apart, **_record(talk)}) for apart, talks in enumerate(found) for talk in talks]
        part = path.with_suffix(".part")
        part.write_text("\n".join(rows) + "\n", encoding="utf-8")
        part.replace(path)
        return found
    learn: list[Talk] = []
    apart: list[Talk] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            talk = Talk(row["scenario"], tuple(Message(role=r, content=c) for r, c in row["messages"]), row["score"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}:{number} is no talk of the warm-up corpus; remove the file, it is made anew") from error
        (apart if row["apart"] else learn).append(talk)
    return learn, apart


def _record(talk: Talk) -> dict[str, Any]:
    return {"scenario": talk.scenario, "score": talk.score, "messages": [[m.role, m.content] for m in talk.messages]}


def _spread(environment: Ready, count: int) -> Iterator[str]:
    """So many scenarios, evenly over the list."""
    ids = environment.scenario_ids
    return (ids[(number * len(ids)) // count] for number in range(count))


def _played(jobs: Sequence[_Job], settings: CorpusSettings) -> list[Talk]:
    policy = Mixture(settings.shares, longest=settings.longest_reply)
    return [asyncio.run(_talk(job, policy)) for job in jobs]


async def _talk(job: _Job, policy: Mixture) -> Talk:
    environment = people_of(job.environment, job.part)
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
    return Talk(job.scenario, tuple(messages), transcript.score)
