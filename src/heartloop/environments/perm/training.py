"""PERM in training: the reward (PERM Eq. 7), its terms for the log, and the form of an answer.

`bystander_weight` and `without` are applied to the stored grades: they change the reward for training, not the score.
"""

from __future__ import annotations

from collections.abc import Mapping

from heartloop.core.dialogue import Transcript
from heartloop.core.system import packaged_table
from heartloop.environments.perm.environment import PermOptions, reward_of
from heartloop.environments.perm.scenario import PLACEHOLDERS, PermScenario, parse
from heartloop.environments.perm.scoring import broken_form
from heartloop.environments.replay import reading_transcript
from heartloop.environments.training import AnswerForm, Returns, Training, TrainingMetric, score_of


def _returns(transcript: Transcript, options: PermOptions) -> Returns:
    score_of(transcript)  # raises if the dialogue is unscored
    reward = reward_of(transcript, preset=transcript.preset, rules=options.rules)
    lowest = broken_form(options.rules.weight)
    outcome = lowest if reward is None else reward.total
    return Returns(outcome, (outcome,), worst_outcome=lowest, worst_turns=lowest)


def _terms(transcript: Transcript, options: PermOptions) -> dict[str, float]:
    """`form`, the judges' grades (1 to 5; bystander 0 to 100), the terms of the reward, and tokens of the response."""
    with reading_transcript(transcript, "the grades of its judges"):
        evidence = transcript.turns[0].evidence
        if evidence["format"]:
            return {"form": 0.0}
        terms = {f"{name}_term": float(value) for name, value in evidence["reward"].items() if name != "total"}
        scores = {judge: float(score) for judge, score in evidence["scores"].items()}
        return {"form": 1.0, **scores, **terms, "response_tokens": float(evidence["tokens"])}


def _split(answer: str) -> Mapping[str, str]:
    """The parts worth learning: one that contains its placeholder of the prompt is empty."""
    parts = parse(answer)
    named = {"analysis": parts.analysis, "response": parts.response}
    return {name: "" if any(words in part for words in PLACEHOLDERS) else part for name, part in named.items()}


_METRICS = packaged_table(__package__, "training.toml")["metrics"]

TRAINING = Training(
    returns=_returns,
    calls_per_turn=4,  # one per judge
    tokens_per_call=1150,  # ours: about 1000 with short scripted answers, plus a margin
    terms=_terms,
    metrics=tuple(TrainingMetric(**metric, source="PERM, Eq. 4 to 7") for metric in _METRICS),
    reward_options=("bystander_weight", "without", "length_of"),
    # a step seldom has two scenarios of the same of 32 emotions
    group=lambda scenario: str(scenario.want if isinstance(scenario, PermScenario) else scenario.stratum),
    prompt_headings=("Who they are", "What has happened"),
    texts=lambda scenario: (scenario.person, scenario.scenario, scenario.query),
    answer_form=AnswerForm({"analysis": "# Analysis\n", "response": "\n\n# Response\n"}, _split, message_words=120),
)
