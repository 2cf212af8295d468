"""A transcript as Inspect shows it: messages with the state after each reply, the notes of each turn, a score.

The live task and the export use the same functions, so that their logs look the same. Does not cover calls (`models`) or whole
logs (`export`).
"""

from __future__ import annotations

from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import AnswerError, HeartloopError, ModelError
from heartloop.core.wording import amount
from heartloop.evaluation.scores import points_of

__all__ = ["KEY", "effect_of", "facts_of", "messages_of", "score_of", "stored_of", "unscored_error"]

KEY = "heartloop:transcript"
"""Where a sample's store keeps the transcript."""


def effect_of(turn: Turn) -> dict[str, Any]:
    """The effect of a reply: state after it, change, thoughts; no numbers where it is unjudged."""
    numbers = {**(turn.state or {}), **{f"{name} change": value for name, value in (turn.change or {}).items()}}
    return {"turn": turn.index, **numbers, "thoughts": turn.thoughts}


def messages_of(transcript: Transcript, policy_prompt: str = "") -> list[ChatMessage]:
    """The visible dialogue. The metadata of a reply holds its effect; silence is an empty reply."""
    messages: list[ChatMessage] = [ChatMessageSystem(content=policy_prompt)] if policy_prompt else []
    if transcript.opening is not None:
        messages.append(ChatMessageUser(content=transcript.opening))
    for turn in transcript.turns:
        messages.append(ChatMessageAssistant(content=turn.reply, model=transcript.model, metadata=effect_of(turn)))
        if turn.message is not None:
            messages.append(ChatMessageUser(content=turn.message))
    return messages


def facts_of(transcript: Transcript) -> dict[str, Any]:
    """The sample's metadata: what reports group by, and the rules the dialogue was played by."""
    return {**transcript.facts, "fingerprint": transcript.fingerprint, "preset": transcript.preset, "variant": transcript.variant}


def stored_of(transcript: Transcript) -> dict[str, Any]:
    """The transcript for the sample's store, without the calls: those are the sample's own events."""
    return transcript.model_dump(mode="json", exclude={"calls"})


def score_of(transcript: Transcript) -> Score:
    """The score in points; unscored, never 0, where an instrument failed."""
    names = list(transcript.start)
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    known = {
        "stop": transcript.stop,
        "turns": len(transcript.turns),
        "seed": transcript.seed,
        **{name: [state[name] for state in states] for name in names},
        "rewards": list(transcript.rewards),
        "counts": transcript.counts,
    }
    points = points_of(transcript)
    if transcript.failure is not None or points is None:
        failure = transcript.failure
        role, why = (failure.role, f"{failure.kind}: {failure.detail}") if failure else ("user", "no outcome")
        return Score.unscored(reason=f"{role}_failed", explanation=f"The {role} failed: {why}", metadata=known)
    path = ", ".join(f"{name} {' → '.join(f'{state[name]:g}' for state in states)}" for name in names)
    ended = f"ended by {transcript.stop.replace('_', ' ')} after {amount(len(transcript.turns), 'reply', 'replies')}"
    return Score(value=points, answer=transcript.stop, explanation=f"{path}; {ended}", metadata=known)


def unscored_error(transcript: Transcript) -> HeartloopError | None:
    """The error that a sample ends with where an instrument failed, so that `inspect eval-retry` plays it again."""
    failure = transcript.failure
    if failure is None:
        return None
    kind = AnswerError if failure.kind == AnswerError.__name__ else ModelError
    return kind(f"unscored, the {failure.role} failed ({failure.kind}): {failure.detail}")
