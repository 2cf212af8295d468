"""What a PERM dialogue teaches: its reward, whole or with terms left out, and the parts of it for the log.

Covers the switches of the ablations (PERM Tables 2 and 6). The formula is `scoring.perspectives`', applied to the grades that the
transcript keeps: switches change what is learned from, never the score that is measured by. Does not cover the dialogue
(`environments.perm`), nor what other environments are worth (`rollouts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from heartloop.dialogue import Transcript
from heartloop.errors import UseError
from heartloop.scoring.perspectives import BROKEN_FORMAT, BYSTANDER_WEIGHT, LENGTH_WEIGHT, PARTS, perm_reward

__all__ = ["PermTerms", "Term", "perm_log", "perm_return", "worst_return"]

Term = Literal["resonation", "expression", "reception", "bystander", "length"]


class PermTerms(NamedTuple):
    """What the reward that is learned from is made of."""

    without: tuple[Term, ...] = ()
    """Terms that are left out."""
    bystander_weight: float | None = None
    """lambda_bys; `None` is the environment's."""


def perm_return(transcript: Transcript, terms: PermTerms) -> float:
    """The reward of a scored dialogue: the environment's total where nothing is switched.

    Raises:
        UseError: the three parts are all left out, or the transcript keeps no grades.
    """
    if transcript.score is None:
        raise UseError(f"the dialogue with {transcript.scenario} is unscored; expected such ones to be left out")
    if terms == PermTerms():
        return transcript.score
    parts = [part for part in PARTS if part not in terms.without]
    if not parts:
        raise UseError(
            f"without {', '.join(terms.without)} no part of the empathy reward is left; leave one of {', '.join(PARTS)}"
        )
    seen = _seen(transcript)
    if seen["format"]:
        return worst_return(terms)
    return perm_reward(
        **seen["scores"],
        tokens=int(seen["tokens"]),
        preset=transcript.preset,
        parts=parts,
        bystander_weight=_weight(terms),
        length_weight=0.0 if "length" in terms.without else LENGTH_WEIGHT,
    ).total


def worst_return(terms: PermTerms) -> float:
    """What a broken form is worth: the environment's constant, or what the worst answer can get before its length where a larger
    weight of the bystander puts that lower (ours), so that breaking the form never pays.

    >>> worst_return(PermTerms()), worst_return(PermTerms(bystander_weight=1.0)), worst_return(PermTerms(without=("bystander",)))
    (-0.5, -1.0, -0.5)
    """
    return min(BROKEN_FORMAT, -_weight(terms))


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


def _weight(terms: PermTerms) -> float:
    if "bystander" in terms.without:
        return 0.0
    return BYSTANDER_WEIGHT if terms.bystander_weight is None else terms.bystander_weight


def _seen(transcript: Transcript) -> Mapping[str, Any]:
    seen = transcript.turns[0].evidence if transcript.turns else {}
    if "format" not in seen:
        raise UseError(f"the transcript of {transcript.scenario} keeps no grades; expected a dialogue of perm")
    return seen
