"""Dialogues as tokens: prompt formats, a policy that replies in token ids and records them, the samples that a dialogue becomes.

A reply stays the ids it was sampled as, without its think block in the history. A prompt that does not fit is answered with
silence, as the dialogue grew by the policy's own replies; the turn is counted and has no tokens to learn from.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage, is_thinking_tag, thinking_ends, visible, writable
from heartloop.core.errors import UseError
from heartloop.environments.episode import SILENCE
from heartloop.environments.training import Returns
from heartloop.scoring.credit import RewardKind, broken_format_return, dialogue_rewards, keeps_format, rewards_to_go
from heartloop.scoring.credit import format_penalty as penalty_of

Credit = Literal["group", "to_go", "immediate"]

_MARK = re.compile("\ue000([0-9]+)\ue001")  # private-use characters, which no template trims


class Generated(NamedTuple):
    """One reply as token ids, a closing end-of-text token included."""

    tokens: list[int]
    logprobs: list[float]
    """Of each token under the model at the sampling temperature, before top-p and top-k cut: what the loss compares with."""
    stop: Literal["stop", "length"]


class Drawing(NamedTuple):
    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token; its log-probabilities are those at temperature 1."""
    top_p: float = 1.0
    top_k: int = 0
    """0 or less keeps all."""
    seed: int | None = None

    def changed(self, sampling: Sampling) -> Drawing:
        """With the settings of a call, which may lower `max_tokens` and not raise it."""
        given = {name: value for name in ("temperature", "top_p", "top_k") if (value := getattr(sampling, name)) is not None}
        most = min(self.max_tokens, sampling.max_tokens or self.max_tokens)
        return self._replace(**given, max_tokens=most, seed=sampling.seed)


class TokenServer(Protocol):
    """Token ids in, token ids out: a `BatchedGenerator` in this process, or an inference engine on a cluster."""

    async def generate(self, prompt: Sequence[int], drawing: Drawing) -> Generated: ...


class PromptFormat(Protocol):
    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]: ...

    def text(self, ids: Sequence[int]) -> str: ...


class TemplateFormat:
    """Prompts by a model's own chat template over the whole dialogue, without tokenising a generated reply again.

    Each reply of the policy is rendered as a mark that no text contains, the text around the marks is encoded piece by piece, and
    the ids replace the marks: the pieces meet at special tokens, where no tokenizer merges.
    """

    def __init__(self, tokenizer: Any, *, options: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self._options = dict(options or {})
        if not tokenizer.chat_template:
            raise UseError("the tokenizer has no chat template; expected one in its tokenizer_config.json or chat_template.jinja")
        if any(map(is_thinking_tag, tokenizer.all_special_tokens)):
            raise UseError("the tokenizer hides think tags as special tokens, so that the user would see the thinking")
        self._encoded = lru_cache(maxsize=20_000)(self._encode)  # every later turn has the same pieces

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        """`reply_ids` are the policy's replies by their index in `messages`, without their end tokens."""
        own = reply_ids or {}
        marked = [
            {"role": message.role, "content": f"\ue000{place}\ue001" if place in own else message.content}
            for place, message in enumerate(messages)
        ]
        text = self.tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True, **self._options)
        pieces = _MARK.split(text)
        if [int(place) for place in pieces[1::2]] != sorted(own):
            shown = f"the chat template shows {len(pieces) // 2} of {len(own)} earlier replies"
            raise UseError(f"{shown}; expected each once, in order")
        ids: list[int] = []
        for number, piece in enumerate(pieces):
            ids += own[int(piece)] if number % 2 else self._encoded(piece)
        return ids

    def _encode(self, piece: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(piece, add_special_tokens=False))

    def text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


class ChatFormat(TemplateFormat):
    """The same for the laptop policy, whose template renders each message as if alone; words unknown to it are dropped.

    Of a prompt of more than `longest` tokens the oldest messages after the system prompt are dropped, but not in training.
    """

    def __init__(self, tokenizer: Any, *, longest: int | None = 960) -> None:
        super().__init__(tokenizer)
        self.longest = longest

    def message_ids(self, message: Message) -> tuple[int, ...]:
        """One message with its markers, one token before it and one after."""
        return self._encoded(self.tokenizer.apply_chat_template([message.model_dump()], tokenize=False))

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        ids = super().prompt_ids(messages, reply_ids)
        first = int(bool(messages) and messages[0].role == "system")
        if self.longest is None or len(ids) <= self.longest or len(messages) <= first + 1:
            return ids
        return self.prompt_ids([*messages[:first], *messages[first + 1 :]])

    def _encode(self, piece: str) -> tuple[int, ...]:
        return tuple(token for token in super()._encode(piece) if token != self.tokenizer.unk_token_id)


class PolicyTurn(NamedTuple):
    prompt: list[int]
    tokens: list[int]
    """Empty where the prompt did not fit."""
    logprobs: list[float]
    text: str
    """The whole reply, thinking included."""
    visible: str
    """The text that the user sees."""
    history: tuple[int, ...] | None
    """The ids of the visible text; `None` where no run of the sampled ids is exactly that text."""


class TokenPolicy:
    """A policy behind a token server as a `ChatModel`, for one dialogue; `turns` records its replies."""

    def __init__(
        self, server: TokenServer, prompt_format: PromptFormat, *, ends: Collection[int], max_prompt: int, drawing: Drawing,
        name: str = "policy",
    ) -> None:  # fmt: skip
        self.name = name
        self.turns: list[PolicyTurn] = []
        self._server, self._format, self._ends = server, prompt_format, frozenset(ends)
        self._max_prompt, self._drawing = max_prompt, drawing

    @property
    def overflows(self) -> int:
        """Turns whose prompt did not fit."""
        return sum(not turn.tokens for turn in self.turns)

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        prompt = self._format.prompt_ids(messages, self._own_replies(messages))
        if len(prompt) > self._max_prompt:
            self.turns.append(PolicyTurn(prompt, [], [], "", "", None))
            return Reply("", finish_reason="length", usage=Usage(prompt_tokens=len(prompt)))
        generated = await self._server.generate(prompt, self._drawing.changed(sampling or Sampling()))
        tokens = generated.tokens
        body = tokens[:-1] if tokens and tokens[-1] in self._ends else tokens
        text = self._format.text(body)
        shown = visible(writable(text))
        self.turns.append(PolicyTurn(prompt, tokens, generated.logprobs, text, shown, self._history(body, text, shown)))
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=len(tokens))
        return Reply(text, finish_reason=generated.stop, usage=usage)

    def _own_replies(self, messages: Sequence[Message]) -> dict[int, tuple[int, ...]]:
        """Ids of the policy's replies by their index in `messages`, if known."""
        indices = [index for index, message in enumerate(messages) if message.role == "assistant"]
        if [messages[index].content for index in indices] != [turn.visible or SILENCE for turn in self.turns]:
            raise UseError("the history holds replies that this policy did not give; expected one policy for each dialogue")
        return {index: turn.history for index, turn in zip(indices, self.turns, strict=True) if turn.history}

    def _history(self, body: Sequence[int], text: str, shown: str) -> tuple[int, ...] | None:
        if not shown:
            return None
        if shown == text.strip():  # no thinking: the whole reply, as it was sampled
            return tuple(body)
        start = bisect_left(range(len(body) + 1), thinking_ends(text), key=lambda n: len(self._format.text(body[:n])))
        while start < len(body) and not self._format.text(body[start : start + 1]).strip():
            start += 1
        rest = body[start:]
        return tuple(rest) if self._format.text(rest).strip() == shown else None


class Span(NamedTuple):
    """A policy turn within a sample: `response[start:stop]`."""

    turn: int
    start: int
    stop: int


class Sample(NamedTuple):
    """One row to learn from; only tokens that the policy sampled have mask 1."""

    prompt: list[int]
    response: list[int]
    mask: list[int]
    logprobs: list[float]
    spans: tuple[Span, ...]


def samples(turns: Sequence[PolicyTurn], *, per: Literal["turn", "dialogue"], max_response: int) -> list[Sample]:
    """The samples of a dialogue, in order; turns without tokens are in none.

    With `dialogue`, a turn joins the sample before it where its prompt begins with all of that sample, token for token, and the
    whole fits into `max_response`; the tokens in between have mask 0. So every token follows the context it was sampled in.
    """
    rows: list[Sample] = []
    for index, turn in enumerate(turns):
        if not turn.tokens:
            continue
        if per == "dialogue" and rows:
            longer = _joined(rows[-1], index, turn)
            known = rows[-1].prompt + rows[-1].response
            if turn.prompt[: len(known)] == known and len(longer.response) <= max_response:
                rows[-1] = longer
                continue
        rows.append(_joined(Sample(turn.prompt, [], [], [], ()), index, turn))
    return rows


def _joined(sample: Sample, index: int, turn: PolicyTurn) -> Sample:
    between = turn.prompt[len(sample.prompt) + len(sample.response) :]
    start = len(sample.response) + len(between)
    return Sample(
        sample.prompt,
        sample.response + between + turn.tokens,
        sample.mask + [0] * len(between) + [1] * len(turn.tokens),
        sample.logprobs + [0.0] * len(between) + turn.logprobs,
        (*sample.spans, Span(index, start, start + len(turn.tokens))),
    )


class RolloutRewards(NamedTuple):
    outcome: float
    """Return of the rollout, the sum of its rewards."""
    rewards: npt.NDArray[np.float64]
    """By policy turn, shape (T,)."""
    process: npt.NDArray[np.float64]
    """The environment's process reward by policy turn, shape (T,); 0 where a turn was not judged or the format was broken."""
    broken: bool
    """Whether a reply broke the think format; an environment's own form is counted by the environment."""

    def credited(self, credit: Credit) -> npt.NDArray[np.float64]:
        """What each turn is credited with: shape (T,). With immediate credit a broken dialogue's return counts on every turn."""
        if credit == "immediate" and not self.broken:
            return self.rewards
        return rewards_to_go(self.rewards) if credit == "to_go" else np.full_like(self.rewards, self.outcome)


def rollout_rewards(
    returns: Returns, turns: Sequence[PolicyTurn], *, kind: RewardKind, think: bool = False, opened: bool = False,
    think_penalty: float = 0.0, format_penalty: float = 0.0,
) -> RolloutRewards:  # fmt: skip
    """The rewards of a dialogue by a kind of reward; the lowest there is if `think` and a reply is no think block and a text.

    The penalties are those of `credit.format_penalty`, and leave at least the lowest outcome. `opened`: the prompt already holds
    the opening tag.
    """
    process = np.array(returns.process, dtype=np.float64)
    replies = [turn.text for turn in turns if turn.tokens]
    worst = returns.worst_outcome
    if think and not all(keeps_format(reply, opened=opened) for reply in replies):
        rewards = np.zeros_like(process)
        rewards[-1] = broken_format_return(kind, worst_outcome=worst, worst_turns=returns.worst_turns, turns=len(process))
        return RolloutRewards(float(rewards[-1]), rewards, np.zeros_like(process), True)
    penalty = penalty_of(replies, think=think_penalty, form=format_penalty, opened=opened)
    rewards = dialogue_rewards(max(worst, returns.outcome - penalty), process, kind)
    return RolloutRewards(float(rewards.sum()), rewards, process, False)


def token_rewards(sample: Sample, rewards: RolloutRewards, *, credit: Credit) -> list[float]:
    """The reward of every response token of a sample.

    `group`: the rollout's return on the last policy token. `to_go`: each turn's reward on its last token, and on the last token
    of the sample also the rewards of all later turns, so that the sum over the sample is the reward to go of its first turn.
    `immediate`: a turn's reward less that of the next turn of the sample, so that the sum from any token on is the reward of its
    turn alone.
    """
    by_token = [0.0] * len(sample.response)
    if credit == "group":
        by_token[sample.spans[-1].stop - 1] = rewards.outcome
        return by_token
    credited = rewards.credited(credit)
    for span, following in zip(sample.spans, [*sample.spans[1:], None], strict=True):
        by_token[span.stop - 1] = float(credited[span.turn] - (credited[following.turn] if following is not None else 0.0))
    return by_token
