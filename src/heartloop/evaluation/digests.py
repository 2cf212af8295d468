"""What scores, comparisons and the numbers of a report need of a dialogue: a `Digest`, about 1 kB where a transcript has 40.

Values that dialogues share, such as a scenario's facts, are in memory once.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json, to_json

import heartloop
from heartloop.core.chat import CONTENT_FILTER
from heartloop.core.dialogue import Call, Failure, Sampling, StopReason, Tokens, Transcript, failed_replies
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scale
from heartloop.scoring.repeats import normalised


class Place(Protocol):
    """Where a transcript is stored."""

    def read(self) -> Transcript: ...


@dataclass(frozen=True, slots=True)
class Digest:
    """One finished dialogue without its texts. Fields that `Transcript` has, too, are the same as there."""

    environment: str
    scenario: str
    fingerprint: str
    model: str
    repeat: int
    seed: int
    preset: str
    variant: str
    user: str
    facts: Mapping[str, str]
    models: Mapping[str, str]
    sampling: Mapping[str, Sampling]
    prompts: Mapping[str, str]
    start: Mapping[str, float]
    stop: StopReason
    failure: Failure | None
    score: float | None
    points: float | None
    course: array[float]
    """Points at the start and after every judged reply."""
    lengths: array[int]
    """Characters of each reply."""
    replies: array[int]
    """A hash of each reply."""
    said: array[int]
    """A hash of the words that the person reads of each reply; 0 for none."""
    silences: int
    failed_replies: int
    error: str | None
    """Of the first failed reply."""
    truncated: int
    used_up: int
    """Silent replies that were truncated."""
    filtered: int
    """Replies stopped by an endpoint's content filter."""
    repaired: int
    """Questions answered validly only after a re-ask, without those whose re-ask failed too."""
    counts: Mapping[str, int]
    calls_by_role: Mapping[str, int]
    roles: tuple[str, ...]
    """Roles with a usage."""
    tokens: array[int]
    """By role of `roles` its `Tokens`, one after another."""
    place: Place | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.model, self.scenario, self.repeat)

    @property
    def scored(self) -> bool:
        return self.score is not None

    @property
    def usage(self) -> dict[str, Tokens]:
        width = len(Tokens._fields)
        return {role: Tokens(*self.tokens[width * n : width * (n + 1)]) for n, role in enumerate(self.roles)}

    def renamed(self, model: str) -> Digest:
        return replace(self, model=model, models=shared({"policy": self.model, **self.models}))

    def read(self) -> Transcript:
        """The dialogue with its texts, under the model's name here."""
        if self.place is None:
            raise LookupError(f"the place of {self.key} is not known")
        transcript = self.place.read()
        named = {"model": self.model, "models": dict(self.models)}
        return transcript if transcript.model == self.model else transcript.model_copy(update=named)


Dialogue = Transcript | Digest


class InMemory(NamedTuple):
    """The place of a transcript that is in no file."""

    transcript: Transcript

    def read(self) -> Transcript:
        return self.transcript


@lru_cache
def scale_of(environment: str) -> Scale:
    return load_environment(environment).scale


def heard(transcript: Transcript) -> list[str]:
    """What the person reads of each reply: of an answer in parts, such as PERM's, the last part."""
    training = load_environment(transcript.environment).training
    return [turn.reply if training is None else training.said(turn.reply) for turn in transcript.turns]


def digested(dialogues: Iterable[Dialogue]) -> list[Digest]:
    return [digest_of(one) if isinstance(one, Transcript) else one for one in dialogues]


def digest_of(transcript: Transcript, place: Place | None = None) -> Digest:
    scale, turns = scale_of(transcript.environment), transcript.turns
    values: dict[str, Any] = {name: getattr(transcript, name) for name in ("repeat", "seed", "stop", "failure", "score")}
    values |= {name: intern(getattr(transcript, name)) for name in _INTERNED}
    values |= {name: shared(getattr(transcript, name)) for name in _SHARED_FIELDS if name != "calls_by_role"}
    return Digest(
        **values,
        sampling=_sampling(tuple((role, one.model_dump_json()) for role, one in transcript.sampling.items())),
        points=None if transcript.score is None else scale.points * transcript.score,
        course=array("d", scale.course(transcript)),
        lengths=array("L", [len(turn.reply) for turn in turns]),
        replies=array("Q", [_hash(turn.reply) for turn in turns]),
        said=array("Q", [_hash(words) if (words := normalised(reply)) else 0 for reply in heard(transcript)]),
        silences=sum(turn.silent for turn in turns),
        failed_replies=failed_replies(turns),
        error=next((turn.error for turn in turns if turn.error is not None), None),
        truncated=sum(turn.truncated for turn in turns),
        used_up=sum(turn.silent and turn.truncated for turn in turns),
        filtered=sum(call.role == "policy" and call.finish_reason == CONTENT_FILTER for call in transcript.calls),
        repaired=_repaired(transcript),
        calls_by_role=shared(Counter(call.role for call in transcript.calls)),
        roles=_roles(tuple(transcript.usage)),
        tokens=array("q", [number for one in transcript.usage.values() for number in (*one.counts, one.estimated)]),
        place=place,
    )


_SHARED = 1 << 14
"""Mappings of each kind that are kept to be shared."""


def shared(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """An equal mapping, the same one for equal values of the same types."""
    return _mapping(tuple(values.items()), tuple(map(type, values.values())))


@lru_cache(_SHARED)
def _mapping(items: tuple[tuple[str, Any], ...], types: tuple[type, ...]) -> Mapping[str, Any]:
    return {intern(name): value for name, value in items}


@lru_cache(_SHARED)
def _roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    return roles


@lru_cache(_SHARED)
def _sampling(settings: tuple[tuple[str, str], ...]) -> Mapping[str, Sampling]:
    return {role: Sampling.model_validate_json(one) for role, one in settings}


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _repaired(dialogue: Transcript) -> int:
    if not dialogue.calls:
        return 0 if dialogue.failure else dialogue.counts.get("re-asks", 0)

    def question(call: Call) -> tuple[str, str, int]:
        return (call.role, call.purpose, call.turn)

    asked_again = {question(call) for call in dialogue.calls if call.reask}
    instruments = [call for call in dialogue.calls if call.role != "policy"]
    in_vain = dialogue.counts.get("lost farewells", 0) or (dialogue.failure and dialogue.failure.role != "policy")
    return len(asked_again - ({question(instruments[-1])} if in_vain and instruments else set()))


_NAMES = [field.name for field in fields(Digest) if field.name != "place"]
_SHARED_FIELDS = ("facts", "models", "prompts", "start", "counts", "calls_by_role")
_INTERNED = ("environment", "scenario", "fingerprint", "model", "preset", "variant", "user")
_ARRAYS = {"course": "d", "lengths": "L", "replies": "Q", "said": "Q", "tokens": "q"}
DIGEST_VERSION = " ".join(["1", heartloop.__version__, *_NAMES])
"""Of packed digests: the number changes with what a field means, and a release may score otherwise."""


def packed(digest: Digest) -> bytes:
    """The digest as JSON, without its place."""
    values = {name: getattr(digest, name) for name in _NAMES}
    values |= {name: values[name].tolist() for name in _ARRAYS}
    values["sampling"] = {role: one.model_dump_json() for role, one in digest.sampling.items()}
    return to_json(values)


def unpacked(content: bytes, place: Place) -> Digest:
    values = from_json(content)
    values |= {name: intern(values[name]) for name in _INTERNED}
    values |= {name: shared(values[name]) for name in _SHARED_FIELDS}
    values |= {name: array(code, values[name]) for name, code in _ARRAYS.items()}
    values["sampling"] = _sampling(tuple(values["sampling"].items()))
    values["failure"] = values["failure"] and Failure.model_validate(values["failure"])
    values["roles"] = _roles(tuple(values["roles"]))
    return Digest(**values, place=place)
