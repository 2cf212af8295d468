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

from heartloop.core.chat import RECORDED_PREFIX, Reply, Schema, estimate_usage
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


def _files() -> list[Traversable]:
    folder = resources.files("heartloop.models") / "recordings"
    return sorted((file for file in folder.iterdir() if file.name.endswith(".jsonl")), key=lambda file: file.name)


@cache
def recordings() -> tuple[Recording, ...]:
    """The runs of this package, without their answers."""
    found = []
    for path in _files():
        with path.open(encoding="utf-8") as file:
            found.append(Recording(**json.loads(file.readline())))
    return tuple(found)


@cache
def answers(further: str = "") -> Mapping[tuple[str, int], str]:
    """Every recorded answer, by the start of its request's hash and the number of the repetition in the dialogue.

    `further` is a folder with more of them, or empty.
    """
    files = [*_files(), *(Path(further).glob("*.jsonl") if further else ())]
    lines = (json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()[1:])
    return {(one["key"], one.get("nth", 0)): one["text"] for one in lines}


class RecordedChat:
    """A `ChatModel` that looks up each request in the recordings."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        sample = key_of(self.name, "", messages, schema, sampling)
        text = answers(os.environ.get("HEARTLOOP_RECORDINGS", "")).get((sample.request.hex()[:KEY_LETTERS], sample.nth))
        if text is not None:
            return Reply(text, finish_reason="stop", usage=estimate_usage(messages, text), cached=True)
        end = messages[-1].content[-160:] if messages else ""
        raise UseError(
            f"{self.name} has no recorded answer to the request that ends {end!r}; recorded models replay only the runs of "
            "`heartloop demo`, with the scenarios and options that were recorded; use another --user and --model"
        )
