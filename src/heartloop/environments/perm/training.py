"""PERM in training: its reward (PERM Eq. 7), whole or with parts left out, the parts for the log, and the form of an answer.

`bystander_weight` and `without` are applied to the grades that the transcript keeps: they change what is learned from, never the
score. Does not cover the dialogue (`environment`), nor the numbers (`scoring`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.perm.environment import Rules, reward_of
from heartloop.environments.perm.format import parse
from heartloop.environments.perm.options import PermOptions
from heartloop.environments.perm.scenario import Scenario
from heartloop.environments.perm.scoring import broken_form
from heartloop.environments.spec import AnswerForm, Returns, Training, TrainingMetric, score_of

__all__ = ["TRAINING"]


def _returns(transcript: Transcript, options: PermOptions) -> Returns:
    """The reward by the options' weight and parts; the preset is the transcript's.

    Raises:
        UseError: the dialogue is unscored.
        InputError: the transcript keeps no grades.
    """
    score_of(transcript)
    rules = Rules(options.bystander_weight, options.without)
    reward = reward_of(transcript, preset=transcript.preset, rules=rules)
    lowest = broken_form(rules.weight)
    outcome = lowest if reward is None else reward.total
    return Returns(outcome, (outcome,), worst_outcome=lowest, worst_turns=lowest)


def _terms(transcript: Transcript, options: PermOptions) -> dict[str, float]:
    """`form`, the judges' scores (1 to 5, the bystander 0 to 100), the terms of the score, and tokens of the response.

    Raises:
        InputError: the transcript keeps no grades.
    """
    kept: Mapping[str, Any] = transcript.turns[0].evidence if transcript.turns else {}
    if "format" not in kept:
        raise InputError(f"{transcript.scenario}: the transcript keeps no grades; expected a dialogue of this environment")
    if kept["format"]:
        return {"form": 0.0}
    terms = {f"{name}_term": float(value) for name, value in kept["reward"].items() if name != "total"}
    scores = {judge: float(score) for judge, score in kept["scores"].items()}
    return {"form": 1.0, **scores, **terms, "response_tokens": float(kept["tokens"])}


def _group(scenario: Any) -> str:
    """What the person wants; of the 32 emotions a step meets hardly one twice."""
    return str(scenario.want if isinstance(scenario, Scenario) else scenario.stratum)


def _texts(scenario: Any) -> Iterable[str]:
    return (scenario.person, scenario.scenario, scenario.query)


def _split(answer: str) -> Mapping[str, str]:
    parts = parse(answer)
    return {"analysis": parts.analysis, "response": parts.response}


def _metric(name: str, title: str, about: str, unit: str = "") -> TrainingMetric:
    return TrainingMetric(name, title, about, unit, "PERM, Eq. 4 to 7")


_METRICS = (
    _metric("resonation", "Resonation", "Whether the analysis understands the person.", "level 1 to 5"),
    _metric("expression", "Expression", "Whether the response is well worded.", "level 1 to 5"),
    _metric("reception", "Reception", "How the person receives the response.", "level 1 to 5"),
    _metric("bystander", "Bystander", "An outside reader’s grade of the response.", "0 to 100"),
    _metric("empathy_term", "Empathy in the reward", "The harmonic mean of the first three, as shares."),
    _metric("bystander_term", "Bystander in the reward", "The bystander’s penalty; 0 at most."),
    _metric("length_term", "Length in the reward", "The penalty for tokens of the response above 768; 0 at most."),
    _metric("response_tokens", "Tokens of a response", "Of the response alone, estimated from its characters.", "tokens"),
    _metric(
        "form", "Answers in the form",
        "An analysis, then a response. Answers of another form have no other terms and the lowest reward.", "share",
    ),
)  # fmt: skip

TRAINING = Training(
    returns=_returns,
    calls_per_turn=4,  # one a judge
    tokens_per_call=1000,  # ours: 865 measured with short scripted answers, and room for longer ones
    terms=_terms,
    metrics=_METRICS,
    reward_options=("bystander_weight", "without"),
    group=_group,
    prompt_headings=("Who they are", "What has happened"),
    texts=_texts,
    answer_form=AnswerForm({"analysis": "# Analysis\n", "response": "\n\n# Response\n"}, _split, message_words=120),
)
