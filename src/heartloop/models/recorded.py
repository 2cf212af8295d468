"""`recorded/NAME`: a model whose answers were recorded and are replayed, without a key or an address.

The answers are in `recordings/*.jsonl` of this package, and in the folder of `HEARTLOOP_RECORDINGS` if it is set: first a header,
then one answer a line, under the key of its request in the answer cache. A message that changes by a letter has no answer.
With `RECORDED_BASE_URL` set, the names call that server instead, which is how runs are recorded (`benchmarks/recorded`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import RECORDED_PREFIX, Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import UseError
from heartloop.models.cache import key_of

KEY_LETTERS = 24
READER = f"{RECORDED_PREFIX}reader"
"""The language model in the roles of the environments."""


class Recording(NamedTuple):
    """One environment's recorded runs, as the header of their file has them."""

    environment: str
    scenarios: Sequence[str]
    policies: Sequence[str]
    options: Mapping[str, Any]
    caption: str
    """Who played and judged, and when."""
    answers: Mapping[tuple[str, int], str]
    """By the start of a request's hash and the number of its repetition in the dialogue."""


@cache
def recordings() -> tuple[Recording, ...]:
    return _read(resources.files("heartloop.models") / "recordings")


def _read(folder: Traversable) -> tuple[Recording, ...]:
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".jsonl"):
            header, *answers = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            found.append(Recording(**header, answers={(one["key"], one.get("nth", 0)): one["text"] for one in answers}))
    return tuple(found)


@cache
def _further(folder: str) -> tuple[Recording, ...]:
    return _read(Path(folder)) if folder else ()


class RecordedChat:
    """A `ChatModel` that looks up each request in the recordings."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        sample = key_of(self.name, "", messages, schema, sampling)
        key = (sample.request.hex()[:KEY_LETTERS], sample.nth)
        for recording in (*recordings(), *_further(os.environ.get("HEARTLOOP_RECORDINGS", ""))):
            if (text := recording.answers.get(key)) is not None:
                return Reply(text, finish_reason="stop", usage=estimate_usage(messages, text), cached=True)
        end = messages[-1].content[-160:] if messages else ""
        raise UseError(
            f"{self.name} has no recorded answer to the request that ends {end!r}; recorded models replay only the runs of "
            "`heartloop demo`, with the scenarios and options that were recorded; use another --user and --model"
        )
