"""Dialogues as tokens: a policy that answers by token ids and remembers them, and the samples that a dialogue becomes.

Covers what lies between the one turn loop (`environments.episode.play`) and an engine that learns: `TokenPolicy` is a
`ChatModel`, so training dialogues are played exactly as measured ones; from its record and the transcript come samples, masks
and rewards. Does not cover any engine (`agent_loop`), nor advantages (`scoring.credit`).

Tokens in, tokens out: a reply stays the ids it was drawn as. Where the person hears only what follows the think block, the
history keeps the ids after it. Only words of others are ever encoded.

Whose failure is it? A prompt that no longer fits is answered with silence, as the talk grew by the policy's own words: the
person reacts to it, the turn has no tokens to learn from, and it is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage, visible, writable
from heartloop.core.errors import UseError
from heartloop.environments.episode import SILENCE
from heartloop.environments.spec import Returns
from heartloop.scoring.credit import (
    RewardKind,
    broken_format_return,
    dialogue_rewards,
    keeps_format,
    rewards_to_go,
)
from heartloop.training.generation import TokenServer

__all__ = ["PromptFormat", "Sample", "Span", "Spoken", "TokenPolicy", "Worth", "samples", "token_rewards", "worth_of"]


class PromptFormat(Protocol):
    """How messages become token ids and back."""

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        """The dialogue so far and what opens a reply; `reply_ids` are own replies by their place in `messages`."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What ids say, without markers."""
        ...


class Spoken(NamedTuple):
    """One policy turn in tokens."""

    prompt: list[int]
    tokens: list[int]
    """Empty where the prompt did not fit."""
    logprobs: list[float]
    text: str
    """The whole reply, thinking included."""
    heard: str
    """What the person heard."""
    kept: tuple[int, ...] | None
    """The ids that the history keeps; `None` where no run of them says exactly what was heard."""


class TokenPolicy:
    """A policy behind a token server, for one dialogue. What it said lies in `spoken`.

    Args:
        server: draws the tokens.
        form: messages to ids.
        ends: tokens that end a reply.
        max_prompt: tokens of the longest prompt; a longer one is answered with silence.
        max_tokens: of a reply, with its end token.
        temperature: as `TokenServer.generate` has it, and so `top_p`, `top_k`.
    """

    def __init__(
        self,
        server: TokenServer,
        form: PromptFormat,
        *,
        ends: Collection[int],
        max_prompt: int,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        name: str = "policy",
    ) -> None:
        self._name = name
        self._server = server
        self._form = form
        self._ends = frozenset(ends)
        self._max_prompt = max_prompt
        self._max_tokens = max_tokens
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k
        self.spoken: list[Spoken] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def overflows(self) -> int:
        """Turns whose prompt did not fit."""
        return sum(not said.tokens for said in self.spoken)

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The next reply.

        Raises:
            UseError: the messages hold a reply that this policy did not give.
        """
        sampling = sampling or Sampling()
        prompt = self._form.prompt_ids(messages, self._own(messages))
        if len(prompt) > self._max_prompt:
            self.spoken.append(Spoken(prompt, [], [], "", "", None))
            return Reply("", finish_reason="length", usage=Usage(prompt_tokens=len(prompt)))
        drawn = await self._server.generate(
            prompt,
            max_tokens=min(self._max_tokens, sampling.max_tokens or self._max_tokens),
            temperature=self._temperature if sampling.temperature is None else sampling.temperature,
            top_p=self._top_p if sampling.top_p is None else sampling.top_p,
            top_k=self._top_k,
            seed=sampling.seed,
        )
        body = drawn.tokens[:-1] if drawn.tokens and drawn.tokens[-1] in self._ends else drawn.tokens
        text = self._form.text(body)
        heard = visible(writable(text)).text
        self.spoken.append(Spoken(prompt, drawn.tokens, drawn.logprobs, text, heard, self._kept(body, text, heard)))
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=len(drawn.tokens))
        return Reply(text, finish_reason=drawn.stop, usage=usage)

    def _own(self, messages: Sequence[Message]) -> dict[int, tuple[int, ...]]:
        places = [place for place, message in enumerate(messages) if message.role == "assistant"]
        if [messages[place].content for place in places] != [said.heard or SILENCE for said in self.spoken]:
            raise UseError("the history holds replies that this policy did not give; expected one policy for each dialogue")
        return {place: said.kept for place, said in zip(places, self.spoken, strict=True) if said.kept}

    def _kept(self, body: Sequence[int], text: str, heard: str) -> tuple[int, ...] | None:
        if not heard:
            return None
        if "<" not in text or visible(text).text == text.strip():  # no think block: all of it, as it was drawn
            return tuple(body)
        low, high = 0, len(body)  # the shortest beginning that holds every closing tag; their number grows with its length
        closings = text.lower().count("</think>")
        while low < high:
            middle = (low + high) // 2
            if self._form.text(body[:middle]).lower().count("</think>") < closings:
                low = middle + 1
            else:
                high = middle
        start = low
        while start < len(body) and not self._form.text(body[start : start + 1]).strip():
            start += 1
        rest = body[start:]
        return tuple(rest) if self._form.text(rest).strip() == heard else None


class Span(NamedTuple):
    """Where a policy turn stands among the response tokens of a sample: `response[start:stop]`."""

    turn: int
    start: int
    stop: int


class Sample(NamedTuple):
    """One row to learn from. Only tokens that the policy drew have mask 1."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]
    spans: tuple[Span, ...]


def samples(spoken: Sequence[Spoken], *, per: Literal["turn", "dialogue"], max_response: int) -> list[Sample]:
    """The samples of a dialogue, in order; turns without tokens are in none.

    With `dialogue`, a turn joins the sample before it where its prompt begins with all of that sample, token for token, and the
    whole fits into `max_response`; what lies between has mask 0. So every token stands after the context that it was drawn in.
    """
    found: list[Sample] = []
    for turn, said in enumerate(spoken):
        if not said.tokens:
            continue
        if per == "dialogue" and found:
            last = found[-1]
            before = last.prompt + last.response
            between = said.prompt[len(before) :]
            long = len(last.response) + len(between) + len(said.tokens)
            if said.prompt[: len(before)] == before and long <= max_response:
                start = len(last.response) + len(between)
                found[-1] = Sample(
                    last.prompt,
                    last.response + between + said.tokens,
                    last.mask + [0] * len(between) + [1] * len(said.tokens),
                    last.logprobs + [0.0] * len(between) + said.logprobs,
                    (*last.spans, Span(turn, start, start + len(said.tokens))),
                )
                continue
        size = len(said.tokens)
        found.append(Sample(list(said.prompt), list(said.tokens), [1] * size, list(said.logprobs), (Span(turn, 0, size),)))
    return found


class Worth(NamedTuple):
    """What a scored dialogue is worth."""

    outcome: float
    """Return of the rollout, the sum of `rewards`."""
    rewards: npt.NDArray[np.float64]
    """By policy turn, shape (T,)."""
    process: npt.NDArray[np.float64]
    """The environment's process reward by policy turn, shape (T,); 0 where a turn was not judged or the format was broken."""
    broken: bool
    """Whether a reply broke the think format; an environment's own form is counted by the environment."""


def worth_of(returns: Returns, spoken: Sequence[Spoken], *, kind: RewardKind, think: bool = False, opened: bool = False) -> Worth:
    """The rewards of a dialogue by a kind of reward.

    Args:
        returns: outcome and process rewards, as the environment's `Training.returns` gives them.
        think: a reply that is not a think block followed by text makes the dialogue worth a constant, the lowest there is.
        opened: the prompt already holds the opening tag.
    """
    process = np.array(returns.process, dtype=np.float64)
    if think and not all(keeps_format(said.text, opened=opened) for said in spoken if said.tokens):
        rewards = np.zeros_like(process)
        rewards[-1] = broken_format_return(kind, worst_outcome=returns.worst_outcome, worst_turns=returns.worst_turns)
        return Worth(float(rewards[-1]), rewards, np.zeros_like(process), True)
    rewards = dialogue_rewards(returns.outcome, process, kind)
    return Worth(float(rewards.sum()), rewards, process, False)


def token_rewards(sample: Sample, worth: Worth, *, credit: Literal["group", "to_go"]) -> list[float]:
    """The reward of every response token of a sample.

    `group`: the rollout's return on the last policy token. `to_go`: each turn's reward on its last token, and on the last one of
    the sample what all later turns bring, so that the sum over the sample is the reward to go of its first turn.
    """
    found = [0.0] * len(sample.response)
    if credit == "group":
        found[sample.spans[-1].stop - 1] = worth.outcome
        return found
    to_go = rewards_to_go(worth.rewards)
    for span, following in zip(sample.spans, [*sample.spans[1:], None], strict=True):
        found[span.stop - 1] = float(to_go[span.turn] - (to_go[following.turn] if following is not None else 0.0))
    return found
