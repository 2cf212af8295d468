"""An environment's part of training: rewards of a dialogue, what is logged, and the form of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.options import Options

EMBEDDED_CAUTION = "training finds what it overrates, so a higher score is no evidence of care"
"""Why the embedded user is no reward (benchmarks/results/language-model-training.md)."""


class Returns(NamedTuple):
    """Rewards of a scored dialogue for training, and the lowest that a valid dialogue can have."""

    outcome: float
    process: Sequence[float]
    """Per policy turn."""
    worst_outcome: float
    worst_turns: float
    """Of the sum of `process`."""


class TrainingMetric(NamedTuple):
    """Describes one of `Training.terms`, for the curves of a training run."""

    name: str
    """The key in `terms`."""
    title: str
    about: str
    unit: str = ""
    """Label of the axis; empty for a number without unit."""
    source: str = "ours"


class AnswerForm(NamedTuple):
    """The form of the answer if a dialogue is one answer."""

    headings: Mapping[str, str]
    """The heading before each part, line breaks included, by the name of the part and in order."""
    split: Callable[[str], Mapping[str, str]]
    """The parts of an answer, by name; empty texts if the form is violated."""
    message_words: int
    """Words of the user's message that a small policy reads."""


class Training(NamedTuple):
    returns: Callable[[Transcript, Any], Returns]
    """`returns(transcript, options)` of a scored dialogue; the options are the environment's."""
    calls_per_turn: int
    """Calls per policy reply of a model that plays all roles."""
    tokens_per_call: int
    """Approximate mean."""
    terms: Callable[[Transcript, Any], Mapping[str, float]] = lambda transcript, options: {}
    """Further numbers of a scored dialogue to log, by name; one without the required form has only the term `form`, 0."""
    metrics: tuple[TrainingMetric, ...] = ()
    """Of the terms; a term without one is shown by its name."""
    reward_options: tuple[str, ...] = ()
    """Options that change only the training reward; dialogues are played and scored with their defaults."""
    group: Callable[[Any], str] = lambda scenario: str(scenario.stratum)
    """The group under which a scenario's numbers are logged."""
    prompt_headings: tuple[str, ...] = ()
    """Sections of the policy prompt that a small policy reads; it reads no other section."""
    texts: Callable[[Any], Iterable[str]] = lambda scenario: ()
    """Texts that the policy may read with a scenario, for a small policy's tokenizer, which also knows held-out scenarios."""
    answer_form: AnswerForm | None = None
    """`None` if a small policy learns from dialogues."""

    def said(self, reply: str) -> str:
        """What the person hears: the last part of an answer, or all of it if its form is violated or that part is empty."""
        if self.answer_form is None:
            return reply
        *_, last = self.answer_form.headings
        return self.answer_form.split(reply)[last] or reply

    def played(self, options: Options) -> Options:
        """The options with which dialogues are played and scored: `reward_options` have their defaults."""
        defaults = type(options)()
        return options.model_copy(update={name: getattr(defaults, name) for name in self.reward_options})


def score_of(transcript: Transcript) -> float:
    if transcript.score is None:
        raise UseError(f"the dialogue with {transcript.scenario} is unscored; expected a scored dialogue")
    return transcript.score


def rewards_by_turn(transcript: Transcript) -> list[float]:
    """The rewards of a transcript per policy turn; 0 for a turn that was not judged."""
    judged = [turn.index for turn in transcript.turns if turn.state is not None]
    rewards = dict(zip(judged, transcript.rewards, strict=True))
    return [rewards.get(turn.index, 0.0) for turn in transcript.turns]
