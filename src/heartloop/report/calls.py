"""The model calls of a dialogue: their numbers, and their answers and prompts, which the page loads when a reader asks for them.

A prompt is not stored, since it repeats the dialogue. It is made again by a replay of the dialogue with its stored answers, and
left out where that replay differs from the run. A text is a list of line numbers, as prompts share most of their lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heartloop.core.dialogue import Call, Transcript
from heartloop.core.errors import HeartloopError
from heartloop.core.text import printable
from heartloop.environments.requests import Replayed
from heartloop.evaluation.digests import Digest, InMemory
from heartloop.evaluation.replaying import RunReplay
from heartloop.evaluation.store import StoredRun
from heartloop.models.budget import is_scripted

WITH_TEXTS = 200
"""Dialogues of a page whose prompts and answers are written: about 10 MB of SAGE's."""


def model_calls(transcript: Transcript) -> list[Call]:
    """The calls that reached a model: none of a scripted baseline or an embedded role."""
    return [call for call in transcript.calls if not is_scripted(transcript.models.get(call.role, transcript.model))]


def numbers_of(transcript: Transcript) -> list[list[Any]]:
    """Turn, role, purpose, re-ask, tokens in and out, whether they are estimated, seconds and retries of each call."""
    return [
        [call.turn, call.role, call.purpose, call.reask, *call.usage.counts[:2], call.usage.estimated, call.seconds, call.retries]
        for call in model_calls(transcript)
    ]


class CallTexts:
    """The texts of the calls of some dialogues. Each different line is in `lines` once."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}

    def _text(self, text: str) -> list[int]:
        return [self.lines.setdefault(line, len(self.lines)) for line in printable(text).split("\n")]

    def of(self, played: Transcript, replayed: Replayed | str) -> dict[str, Any]:
        """For each call its answer, reasoning and messages, `None` where they are not known, and `why` they are not."""
        requests, known = [], -1
        if isinstance(replayed, str):
            why = replayed
        elif replayed.changed:
            why = f"The prompts cannot be shown: {', '.join(replayed.changed)} changed since the run."
        else:
            why = f"The prompts after turn {replayed.same} cannot be shown: a replay differs from the run there."
            requests, known = replayed.requests, replayed.same - (replayed.same < len(played.turns))
        calls = []
        asked = {role: iter([one for one in requests if one.role == role]) for role in {call.role for call in played.calls}}
        for call in model_calls(played):  # the roles that reach no model have no request
            request = next(asked[call.role], None) if call.turn <= known else None
            messages = request and [[message.role, self._text(message.content)] for message in request.messages]
            calls.append([self._text(call.text), call.reasoning and self._text(call.reasoning), messages])
        return {"why": printable(why), "calls": calls}


def replays(runs: Sequence[StoredRun], wanted: Sequence[Digest]) -> Iterator[tuple[int, Transcript, Replayed | str]]:
    """Of `wanted` dialogues with model calls the number, the dialogue with its answers, and its requests or why it has none."""
    numbers = {id(digest): number for number, digest in enumerate(wanted)}
    for run in runs:
        replay: RunReplay | None = None
        for line, digest in enumerate(run.digests):
            if id(digest) not in numbers or digest.place is None or isinstance(digest.place, InMemory):
                continue
            played = digest.place.read()
            if model_calls(played):
                try:
                    replay = replay or RunReplay(run.path)
                    yield numbers[id(digest)], played, replay.requests(line, played)
                except (HeartloopError, OSError, ValueError) as error:
                    yield numbers[id(digest)], played, f"The prompts cannot be shown: {error}."
