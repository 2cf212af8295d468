"""One dialogue whose replies somebody types: the human is a `ChatModel`, the turn loop is that of every dialogue.

Covers taking replies back and ending a dialogue before its end. A reply is taken back by playing the dialogue again with the
replies before it and the same seed: deterministic users answer the same, and the answers of a language model come from its cache.
Does not cover what the terminal shows (`heartloop.cli.talk`), nor the run that the transcript is written to (`playing`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heartloop.core.chat import HUMAN, Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.environments.episode import Environment, play
from heartloop.models.cache import dialogue_scope

__all__ = ["EndOfDialogue", "Human", "TakenBack", "converse"]


class TakenBack(Exception):
    """The last reply is taken back."""


class EndOfDialogue(Exception):
    """The human ends the dialogue; what was said counts."""


class Human:
    """Somebody who types, as a `ChatModel`.

    Args:
        ask: returns the next reply, or raises `TakenBack` or `EndOfDialogue`.
    """

    name = HUMAN

    def __init__(self, ask: Callable[[], str]) -> None:
        self.ask = ask
        self.replies: list[str] = []
        """The replies that stand, in order."""

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """A reply that was given before, or else the answer of `ask`."""
        index = sum(message.role == "assistant" for message in messages)
        if index == len(self.replies):
            self.replies.append(self.ask())
        text = self.replies[index]
        return Reply(text, usage=estimate_usage(messages, text))


async def converse(
    environment: Environment, scenario_id: str, human: Human, *, show: Callable[[Transcript], None], seed: int = 0
) -> Transcript:
    """Plays a dialogue until it ends, or the human or Ctrl-C ends it.

    Args:
        show: called with the dialogue so far after the opening, after every new turn, and after a reply was taken back.

    Returns:
        The dialogue; its `stop` is `cut` where it was ended from outside. A reply that was not answered is not part of it.
    """
    latest: list[Transcript] = []

    def watch(transcript: Transcript) -> None:
        latest[:] = [transcript]
        if len(transcript.turns) == len(human.replies):
            show(transcript)

    while True:
        try:
            with dialogue_scope():
                return await play(environment, scenario_id, human, seed=seed, watch=watch)
        except TakenBack:
            human.replies[:] = human.replies[:-1]
        except (EndOfDialogue, asyncio.CancelledError):
            if not latest:
                raise
            return latest[0]
