"""What a PERM dialogue teaches: its reward, whole or with terms left out, and the parts of it for the log.

Rules of the reward (`environments.perm.environment.Rules`) are applied to the grades that the transcript keeps: they change what
is learned from, never the score that is measured by. Does not cover the dialogue (`environments.perm`), nor what other
environments are worth (`rollouts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.perm.environment import Rules, reward_of
from heartloop.environments.perm.scoring import broken_form

__all__ = ["Term", "perm_log", "perm_return"]

Term = Literal["resonation", "expression", "reception", "bystander", "length"]


def perm_return(transcript: Transcript, rules: Rules) -> float:
    """The reward of a scored dialogue by other rules than it was played by, or the same; its preset stays.

    Raises:
        UseError: the dialogue is unscored.
        InputError: the transcript keeps no grades.
    """
    if transcript.score is None:
        raise UseError(f"the dialogue with {transcript.scenario} is unscored; expected such ones to be left out")
    reward = reward_of(transcript, preset=transcript.preset, rules=rules)
    return broken_form(rules.weight) if reward is None else reward.total


def perm_log(transcript: Transcript) -> dict[str, float]:
    """Numbers of a scored dialogue by name: `form` 1 where the form was kept, and then what the judges gave (1 to 5, the
    bystander 0 to 100), the terms of the environment's reward, and tokens of the response.

    Raises:
        UseError: the transcript keeps no grades.
    """
    seen = _seen(transcript)
    if seen["format"]:
        return {"form": 0.0}
    terms = {f"{name}_term": float(value) for name, value in seen["reward"].items() if name != "total"}
    scores = {judge: float(score) for judge, score in seen["scores"].items()}
    return {"form": 1.0, **scores, **terms, "response_tokens": float(seen["tokens"])}


def _seen(transcript: Transcript) -> Mapping[str, Any]:
    seen = transcript.turns[0].evidence if transcript.turns else {}
    if "format" not in seen:
        raise UseError(f"the transcript of {transcript.scenario} keeps no grades; expected a dialogue of perm")
    return seen
