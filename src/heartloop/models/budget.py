"""What a run spends: tokens and money by model and role, with hard stops.

Covers prices, counting, and holding back what calls in flight may take. Does not cover estimating a whole run
beforehand (`evaluation`), nor the calls themselves (`endpoint`).
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import ChatModel, Reply, estimate_tokens
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import BudgetSpent, InputError, UseError
from heartloop.models.endpoint import LOCAL

__all__ = ["DEAREST", "Meter", "Metered", "Price", "Spend", "is_paid", "is_scripted", "load_prices"]

DEAREST = 1e12
"""What no million tokens cost, in any currency; a price from there on is none."""
_FIRST_GUESS = 512  # completion tokens a call is taken to need before its role has been heard


class Price(NamedTuple):
    """Money per million tokens, in the currency of the price file."""

    input: float
    output: float

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """What so many tokens cost.

        >>> Price(2.0, 8.0).of(1_000_000, 500_000)
        6.0
        """
        return (self.input * prompt_tokens + self.output * completion_tokens) / 1e6


def load_prices(path: Path | None) -> dict[str, Price]:
    """The user's price file: a table a model, `["openai/gpt-4.1"]`, with `input` and `output`, prices per million tokens.

    Without a file nothing has a price.

    Raises:
        InputError: says which table does not fit, and how it should look.
    """
    if path is None:
        return {}
    form = '["openai/gpt-4.1"] with input = 2.0 and output = 8.0 on lines of their own, prices per million tokens'
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected a price file") from error
    except ValueError as error:  # broken TOML and broken UTF-8
        raise InputError(f"{path}: {error}; expected tables such as {form}") from error
    prices: dict[str, Price] = {}
    for name, table in tables.items():
        fits = isinstance(table, dict) and set(table) == {"input", "output"}
        if not fits or not all(type(value) in (int, float) and 0 <= value < DEAREST for value in table.values()):
            raise InputError(f"{path}, table {name!r}: {table!r}; expected {form}")
        prices[name] = Price(float(table["input"]), float(table["output"]))
    return prices


def is_paid(name: str) -> bool:
    """Whether calls of a model cost money; scripted, embedded and Python models, checkpoints and servers of one's own do not.

    >>> is_paid("openai/gpt-4.1"), is_paid("vllm/qwen"), is_paid("heartloop/listener")
    (True, False, False)
    """
    return not (is_scripted(name) or name.startswith(("python:", "checkpoint:")) or name.partition("/")[0].lower() in LOCAL)


class Spend(NamedTuple):
    """What was spent so far. Plain numbers, safe to show while calls are in flight."""

    calls: int = 0
    """Calls that ended, failed ones included."""
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    """Money, in the currency of the price file; `None` where a model that was called has no price."""
    estimated: bool = False
    """Whether some endpoint left the counting to us."""

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


class _Tally:
    """What one model spent in one role."""

    def __init__(self) -> None:
        self.calls = self.failed = self.prompt_tokens = self.completion_tokens = 0
        self.estimated = False
        self.guessed = self.took = 0  # prompt tokens of metered calls, before and after

    @property
    def usual(self) -> float:
        """Completion tokens a call usually takes."""
        answered = self.calls - self.failed
        return self.completion_tokens / answered if answered else _FIRST_GUESS

    @property
    def ratio(self) -> float:
        """How many tokens the endpoint counts for one of our estimate: chat templates, languages other than English."""
        return self.took / self.guessed if self.guessed else 1.0


class _Held(NamedTuple):
    """What a call in flight may cost."""

    model: str
    role: str
    guess: int
    """Our estimate of the prompt, before it is corrected by what earlier calls took."""
    tokens: int
    cost: float


class Meter:
    """Counts what the models of a run spend, and stops before a limit is passed.

    A call in flight holds back an estimate of what it will take: its prompt, corrected by how earlier estimates came out,
    and as many completion tokens as its role took so far on average. When the rest of the budget is held back, further
    calls wait until those in flight have shown what they took; a call that does not fit even then is refused. So the
    limit is passed by no more than the calls already sent took over their estimates. Failed calls count as no tokens:
    endpoints report none.

    Tokens of `heartloop/` supporters are counted, but are no part of `max_tokens`. For one event loop; not for threads.

    Args:
        max_tokens: prompt and completion tokens together.
        max_cost: money, in the currency of the prices.
        prices: by model name; a price given here counts for models that are otherwise free, too.
        models: names that the run will call.

    Raises:
        UseError: a limit that is not positive, or a `max_cost` with a paid model that has no price.
    """

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, Price] | None = None,
        models: Iterable[str] = (),
    ) -> None:
        for what, limit in (("--max-tokens", max_tokens), ("--max-cost", max_cost)):
            if limit is not None and not limit > 0:
                raise UseError(f"{what} is {limit}; expected more than 0, or leave it out")
        self._max_tokens = max_tokens
        self._max_cost = max_cost
        self._prices = dict(prices or {})
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._in_flight = self._held_tokens = 0
        self._dialogues = 0
        self._kept: dict[tuple[str, str], Usage] = {}
        self._lost_before: dict[tuple[str, str], Usage] = {}
        self._held_cost = 0.0
        self._settled = asyncio.Event()
        for model in models:
            self.admit(model)

    def admit(self, model: str) -> None:
        """Checks that what the model spends can be held to the limits.

        Raises:
            UseError: there is a `max_cost` and the model has no price.
        """
        if self._max_cost is not None and self._price(model) is None:
            raise UseError(
                f'--max-cost needs a price for {model}; add ["{model}"] with input and output (prices per million tokens) '
                "to the price file, or use --max-tokens"
            )

    def spend(self, model: str | None = None, role: str | None = None) -> Spend:
        """What was spent so far: in all, by one model, in one role."""
        total = Spend()
        for (name, part), tally in self._tallies.items():
            if (model is not None and name != model) or (role is not None and part != role):
                continue
            price = self._price(name)
            cost = None if price is None else price.of(tally.prompt_tokens, tally.completion_tokens)
            total = Spend(
                total.calls + tally.calls,
                total.failed + tally.failed,
                total.prompt_tokens + tally.prompt_tokens,
                total.completion_tokens + tally.completion_tokens,
                None if total.cost is None or cost is None else total.cost + cost,
                total.estimated or tally.estimated,
            )
        return total

    @property
    def models(self) -> tuple[str, ...]:
        """The models that were called, in the order of their first call."""
        return tuple(dict.fromkeys(model for model, _ in self._tallies))

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens so far."""
        return self.spend().tokens

    @property
    def cost(self) -> float | None:
        """Money so far; `None` where a model that was called has no price."""
        return self.spend().cost

    def summary(self) -> str:
        """Tokens, and cost where there are prices, in a few words; empty before the first call."""
        spent = self.spend()
        if not spent.calls:
            return ""
        tokens = f"{'about ' if spent.estimated else ''}{spent.tokens:,} tokens"
        return f"{tokens}, cost {spent.cost:.2f}" if self._prices and spent.cost is not None else tokens

    def record(self, model: str, role: str, usage: Usage | None) -> None:
        """Counts one call that ended; `None` for one that failed. Also for what an earlier part of a run spent."""
        tally = self._tallies.setdefault((model, role), _Tally())
        tally.calls += 1
        if usage is None:
            tally.failed += 1
            return
        tally.prompt_tokens += usage.prompt_tokens
        tally.completion_tokens += usage.completion_tokens
        tally.estimated = tally.estimated or usage.estimated

    async def hold(self, model: str, role: str, messages: Sequence[Message], sampling: Sampling | None) -> _Held:
        """Holds back what a call may take; waits for calls in flight where the budget might not bear it.

        Raises:
            BudgetSpent: the budget does not bear it.
        """
        if not self.limited:
            return _Held(model, role, 0, 0, 0.0)
        while True:
            held = self._estimate(model, role, messages, sampling)
            refused = self._refusal(held, in_flight=True)
            if refused is None:
                self._in_flight += 1
                self._held_tokens += held.tokens
                self._held_cost += held.cost
                return held
            if not self._in_flight or self._refusal(held, in_flight=False) is not None:
                raise BudgetSpent(refused)
            await self._settled.wait()

    def finish(self, usage: Mapping[tuple[str, str], Usage]) -> None:
        """Counts one dialogue as finished and kept, with what each (model, role) took in it."""
        self._dialogues += 1
        for key, part in usage.items():
            self._kept[key] = self._kept.get(key, Usage()) + part

    def lose(self, model: str, role: str, usage: Usage) -> None:
        """Counts what an earlier process spent on dialogues that it did not finish."""
        self.record(model, role, usage)
        self._lost_before[model, role] = self._lost_before.get((model, role), Usage()) + usage

    def refund(self, model: str, role: str, calls: int, usage: Usage) -> None:
        """Takes back what `record` counted of answers that nobody was asked for."""
        tally = self._tallies.setdefault((model, role), _Tally())
        tally.calls = max(0, tally.calls - calls)
        tally.prompt_tokens = max(0, tally.prompt_tokens - usage.prompt_tokens)
        tally.completion_tokens = max(0, tally.completion_tokens - usage.completion_tokens)

    @property
    def lost(self) -> dict[tuple[str, str], Usage]:
        """What was spent on dialogues that were not finished: cut off, interrupted, or still in flight."""
        found: dict[tuple[str, str], Usage] = {}
        for key, tally in self._tallies.items():
            kept = self._kept.get(key, Usage())
            prompt, completion = tally.prompt_tokens - kept.prompt_tokens, tally.completion_tokens - kept.completion_tokens
            if prompt > 0 or completion > 0:
                found[key] = Usage(prompt_tokens=max(0, prompt), completion_tokens=max(0, completion))
        return found

    def affords(self, in_flight: int) -> str | None:
        """Whether the limits bear one more dialogue beside those in flight: `None`, or a sentence that says no.

        A dialogue is taken to need a fifth more than those finished did on average. Until one is finished, two at a
        time are let through.
        """
        if not self.limited or (not self._dialogues and in_flight < 2):
            return None
        if not self._dialogues:
            return "no dialogue is finished yet, so what one takes is not known"
        lost = self.lost if in_flight == 0 else self._lost_before  # the rest of what is in flight will be kept
        limits = (
            ("--max-tokens", self._max_tokens, lambda key, usage: 0.0 if is_scripted(key[0]) else float(usage.total)),
            ("--max-cost", self._max_cost, self._cost_of),
        )
        for flag, limit, worth in limits:
            if limit is None:
                continue
            kept = sum(worth(key, usage) for key, usage in self._kept.items())
            gone = sum(worth(key, usage) for key, usage in lost.items())
            needed = 1.2 * kept / self._dialogues * (in_flight + 1)
            if kept + gone + needed > limit:
                return (
                    f"{flag} {limit:g} does not bear another dialogue: {kept + gone:g} is spent and one takes about "
                    f"{kept / self._dialogues:g}; raise it and run the same command again to go on"
                )
        return None

    def _cost_of(self, key: tuple[str, str], usage: Usage) -> float:
        price = self._price(key[0]) or Price(0.0, 0.0)
        return price.of(usage.prompt_tokens, usage.completion_tokens)

    def settle(self, held: _Held, usage: Usage | None) -> None:
        """Replaces what was held back by what the call took; `None` for one that failed."""
        if self.limited:
            self._in_flight -= 1
            self._held_tokens -= held.tokens
            self._held_cost = self._held_cost - held.cost if self._in_flight else 0.0  # no drift of sums
        self.record(held.model, held.role, usage)
        if usage is not None:
            tally = self._tallies[held.model, held.role]
            tally.guessed += held.guess
            tally.took += usage.prompt_tokens if held.guess else 0
        if self.limited:  # nobody waits where there is no limit
            self._settled.set()
            self._settled = asyncio.Event()

    @property
    def limited(self) -> bool:
        """Whether it stops at some number of tokens or some cost."""
        return self._max_tokens is not None or self._max_cost is not None

    @property
    def prices(self) -> dict[str, dict[str, float]]:
        """The prices that were given, as a run's settings keep them; empty where none were."""
        return {name: price._asdict() for name, price in self._prices.items()}

    def _price(self, model: str) -> Price | None:
        return self._prices.get(model) or (None if is_paid(model) else Price(0.0, 0.0))

    def _estimate(self, model: str, role: str, messages: Sequence[Message], sampling: Sampling | None) -> _Held:
        guess = sum(estimate_tokens(message.content) for message in messages)
        tally = self._tallies.get((model, role)) or _Tally()
        prompt, completion = guess * tally.ratio, tally.usual
        if sampling is not None and sampling.max_tokens is not None:
            completion = min(completion, sampling.max_tokens)
        price = self._price(model) or Price(0.0, 0.0)
        tokens = 0 if is_scripted(model) else round(prompt + completion)
        return _Held(model, role, guess, tokens, price.of(prompt, completion))

    def _refusal(self, held: _Held, *, in_flight: bool) -> str | None:
        """Why a call cannot be borne by what is left, with or without what is held back; `None` if it can."""
        if self._max_tokens is not None and held.tokens:
            spent = sum(t.prompt_tokens + t.completion_tokens for (m, _), t in self._tallies.items() if not is_scripted(m))
            if spent + in_flight * self._held_tokens + held.tokens > self._max_tokens:
                return (
                    f"--max-tokens {self._max_tokens} is reached: {spent} tokens are spent and the next call of {held.model} "
                    f"needs about {held.tokens}; raise it and run the same command again to go on"
                )
        if self._max_cost is not None and held.cost:
            cost = self.spend().cost or 0.0
            if cost + in_flight * self._held_cost + held.cost > self._max_cost:
                return (
                    f"--max-cost {self._max_cost:g} is reached: {cost:.4f} is spent and the next call of {held.model} "
                    f"needs about {held.cost:.4f}; raise it and run the same command again to go on"
                )
        return None


def is_scripted(model: str) -> bool:
    """Whether a model's words are rules of ours: the scripted supporters and the embedded user.

    >>> is_scripted("heartloop/listener"), is_scripted("embedded"), is_scripted("python:my_agent:reply")
    (True, True, False)
    """
    return model == "embedded" or model.startswith("heartloop/")


class Metered:
    """A `ChatModel` whose calls go through a meter.

    Args:
        role: `policy`, `simulator`, `judge`, ...; estimates are kept apart by it.

    Raises:
        UseError: the meter has a `max_cost` and the model no price.
    """

    def __init__(self, model: ChatModel, meter: Meter, role: str) -> None:
        meter.admit(model.name)
        self.model = model
        self.meter = meter
        self.role = role

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One completion, counted.

        Raises:
            BudgetSpent: before the call, when the budget does not bear it.
            ModelError: the call failed for good.
        """
        held = await self.meter.hold(self.name, self.role, messages, sampling)
        usage: Usage | None = None
        try:
            reply = await self.model.complete(messages, schema=schema, sampling=sampling)
            usage = reply.usage
            return reply
        finally:
            self.meter.settle(held, usage)
