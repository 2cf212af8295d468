"""The interfaces of validity suites; `EnvironmentSpec.suites` names an environment's own ones.

A `RunSuite` reads the dialogues of runs, asks judges about them if it needs any, and gives a result. A `RejudgingSuite` has the
environment's own judge score stored dialogues under controlled changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from heartloop.core.blocks import Block, Table
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.environments.spec import EnvironmentSpec, Judge

Answers = Mapping[str, Mapping[str, Any]]
"""Answers of one judge, by the key of the question. A question that could not be answered has no entry."""

Variants = Mapping[str, Sequence[Transcript]]
"""Transcripts of one run by variant; the last transcript of a dialogue counts."""


class Judges(Protocol):
    @property
    def judge(self) -> Judge: ...

    @property
    def prompts(self) -> Mapping[str, str]:
        """Hashes, by name, of the prompts and texts that the suite adds to those of `judge`."""

    async def transcript(
        self, played: Transcript, scenario: Any, *, variant: str, preset: str, original: Transcript | None
    ) -> Transcript:
        """A stored dialogue rejudged in a variant; `original` is the same in the suite's first variant, `None` in that one."""


class Slope(NamedTuple):
    name: str
    before: float
    after: float


class SlopePanel(NamedTuple):
    """Paired values as lines from left to right."""

    title: str
    slopes: tuple[Slope, ...]
    mean: Slope
    low: float
    """Ends of the axis; equal in all panels that are compared."""
    high: float
    tie: float
    """A change of at most this size is a tie."""
    note: str = ""


class Slopes(NamedTuple):
    title: str
    panels: tuple[SlopePanel, ...]
    help: str = ""
    kind: str = "slopes"


class Result(NamedTuple):
    record: Mapping[str, Any]
    notes: Sequence[str]
    """The first says what was compared; the others are warnings."""
    summary: Table
    """For the terminal, at most 80 columns wide; a row without cells is a heading for those below."""
    page: Sequence[Block | Slopes]
    verdict: str = ""
    """The answer to the suite's question in one sentence."""


class RejudgingSuite(NamedTuple):
    title: str
    about: str
    """What is changed and what is expected, in one sentence."""
    variants: tuple[str, ...]
    """In the order of judging, each in a separate run directory; the first changes nothing."""
    judges: Callable[[EnvironmentSpec, ChatModel | None, Sampling | None], Judges]
    """`judges(spec, model, sampling)`; `None` as model: embedded."""
    result: Callable[[Sequence[Variants]], Result]
    """The result for one or more runs. Raises `InputError` if nothing can be compared."""


class Question(NamedTuple):
    key: str
    """Unique in the suite, and the same whenever the command runs again."""
    fingerprint: str
    """SHA-256 of everything that the answer depends on besides the judge; an answer to another fingerprint does not count."""
    ask: Callable[[ChatModel | None, Sampling | None], Awaitable[Mapping[str, Any]]]
    """`ask(judge, sampling)` gives the answer as JSON values; `None` as judge: embedded. Raises `HeartloopError` without one."""
    schema: Mapping[str, Any] | None = None


class Material(NamedTuple):
    spec: EnvironmentSpec
    dialogues: tuple[Transcript, ...]
    """The scored dialogues of all runs, in the order of the runs; at most `limit` of each model."""
    scenarios: Mapping[str, Any]
    """By id; without those that are no longer found."""
    judges: tuple[str, ...] = ()
    people: Path | None = None
    labels: Path | None = None
    ratings: Path | None = None
    published: bool = False
    """Whether suites ask as the papers do where our own form differs from it."""
    earlier: Mapping[str, Mapping[str, Answers]] = {}
    """Answers by suite and judge of the suites before this one in the same command."""

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(dialogue.model for dialogue in self.dialogues))

    @property
    def users(self) -> list[str]:
        """User simulators, in the order of the dialogues; of a rejudged dialogue its judge."""
        return list(dict.fromkeys(dialogue.user for dialogue in self.dialogues))

    def points(self, dialogue: Transcript) -> float:
        return self.spec.scale.points * (dialogue.score or 0.0)


class RunSuite(NamedTuple):
    title: str
    about: str
    """What is measured, how, and what is expected, in one or two sentences."""
    source: str
    """Paper and section; empty if it is ours."""
    result: Callable[[Material, Mapping[str, Answers]], Result]
    """From the answers of each judge by name. Raises `InputError` if nothing can be compared."""
    lacks: Callable[[Material], str | None] = lambda material: None
    """What the suite lacks to run on this material, as a clause such as "it needs a judge, pass --judge"; `None`: nothing."""
    questions: Callable[[Material, Answers], Sequence[Question]] = lambda material, answers: ()
    """What to ask a judge, given its answers so far: called again until every question is answered or has failed, so that a
    question may build on earlier answers."""
