"""What a run spends: tokens and cost by model and role, with hard stops."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ipaddress
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from heartloop.core.chat import HUMAN, LOCAL_PREFIX, RECORDED_PREFIX, ChatModel, Reply, Schema, estimate_tokens, is_embedded
from heartloop.core.dialogue import Message, Sampling, Tokens, Usage, total_usage
from heartloop.core.errors import BudgetSpent, InputError, ModelError, UseError
from heartloop.models.client import base_url_of

DEAREST = 1e12
"""Prices per million tokens from this value on are refused as mistakes."""
_FIRST_GUESS = 512  # expected completion tokens of a role's first call


class Price(NamedTuple):
    """Prices per million tokens, in the currency of the price file. `None`: as `input`, for reasoning as `output`."""

    input: float
    output: float
    cached_input: float | None = None
    """Of prompt tokens that the provider read from its own cache."""
    cache_write: float | None = None
    """Of prompt tokens that the provider wrote to its cache."""
    reasoning: float | None = None

    def of(self, usage: Usage | Tokens) -> float:
        read, written, reasoning = usage.cached_input_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        fresh, visible = max(0, usage.prompt_tokens - read - written), max(0, usage.completion_tokens - reasoning)
        total = self.input * fresh + self.output * visible
        total += (self.input if self.cached_input is None else self.cached_input) * read
        total += (self.input if self.cache_write is None else self.cache_write) * written
        return (total + (self.output if self.reasoning is None else self.reasoning) * reasoning) / 1e6

    def at_most(self, prompt_tokens: float, completion_tokens: float) -> float:
        """For the dearest kind of prompt and completion tokens: what a call may cost before it is known."""
        prompt, completion = max(self.input, self.cache_write or 0.0), max(self.output, self.reasoning or 0.0)
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    @property
    def given(self) -> dict[str, float]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    @classmethod
    def read(cls, table: object) -> Price | None:
        """From a table that holds at least `input` and `output`; `None` where it is no price."""
        if isinstance(table, cls):
            return table
        given = {name: value for name, value in table.items() if value is not None} if isinstance(table, Mapping) else {}
        if not {"input", "output"} <= given.keys() <= set(cls._fields):
            return None
        if not all(type(value) in (int, float) and 0 <= value < DEAREST for value in given.values()):
            return None
        return cls(**{name: float(value) for name, value in given.items()})


def load_prices(path: Path | None) -> dict[str, Price]:
    """The prices of a TOML file: a table per model, `["service/model"]`, with `input` and `output` per million tokens.

    Optional: `cached_input`, `cache_write`, `reasoning`; and `checked`, a date that is a note to the reader.
    """
    if path is None:
        return {}
    form = (
        '["service/model"] with input = 2.0 and output = 8.0 on separate lines (prices per million tokens), '
        "optionally cached_input, cache_write, reasoning, and checked = 2026-11-27"
    )
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected a price file") from error
    except ValueError as error:  # broken TOML and broken UTF-8
        raise InputError(f"{path}: {error}; expected tables such as {form}") from error
    prices: dict[str, Price] = {}
    for name, table in tables.items():
        given = dict(table) if isinstance(table, dict) else {}
        price = Price.read(given) if isinstance(given.pop("checked", date.min), date) else None
        if price is None:
            raise InputError(f"{path}, table {name!r}: {table!r}; expected {form}")
        prices[name] = price
    return prices


def is_paid(name: str, prices: Mapping[str, Price] | None = None) -> bool:
    """Whether calls of a model cost money: by its price if it has one, else unless it needs no server or the server is one's own.

    The address is that of `<SERVICE>_BASE_URL`, or the service's default.

    >>> is_paid("openai/gpt-6-luna"), is_paid("vllm/qwen"), is_paid("heartloop/reflector")
    (True, False, False)
    """
    if price := (prices or {}).get(name):
        return any(price.given.values())
    if is_scripted(name) or name.startswith(("python:", "http:", "checkpoint:", LOCAL_PREFIX, RECORDED_PREFIX)):
        return False
    return not is_own(base_url_of(name.partition("/")[0].lower()) or "")


_OWN_NAMES = ("localhost", "local", "internal", "home.arpa")  # RFC 6761, RFC 6762, ICANN 2024, RFC 8375: never public


@lru_cache(maxsize=256)
def is_own(address: str) -> bool:
    """Whether a base URL is of this machine or a private network: its IP, or a name that is reserved or has no dot.

    >>> is_own("http://10.0.0.7:8000/v1"), is_own("http://gpu-2:8000/v1"), is_own("https://10.example.com/v1")
    (True, True, False)
    """
    try:
        host = (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host != "" and ("." not in host or host.endswith(tuple(f".{name}" for name in _OWN_NAMES)))


class Spend(NamedTuple):
    """Calls, tokens and cost so far; an immutable copy."""

    calls: int = 0
    """Finished calls, including failed ones."""
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    """In the currency of the price file; `None` where a model that was called has no price."""
    estimated: bool = False
    """Whether some of the tokens are estimates, because an endpoint does not count."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class _Tally:
    def __init__(self) -> None:
        self.calls = self.failed = 0
        self.usage = Usage()
        self.answered = 0  # completion tokens, without those of attempts that timed out
        self.predicted = self.actual = 0  # prompt tokens of finished calls


class Size(NamedTuple):
    """What is known of a call before it is made."""

    prompt: int
    """Estimated tokens."""
    most: int | None = None
    """Completion tokens that it may take, if that is limited."""

    @classmethod
    def of(cls, texts: Iterable[str], most: int | None) -> Size:
        return cls(sum(map(estimate_tokens, texts)), most)


class Reservation(NamedTuple):
    """What a call is expected to take."""

    model: str
    role: str
    estimate: int
    """Prompt tokens, before the correction by earlier calls."""
    prompt: int
    completion: int
    cost: float
    key: str = ""
    """Of the call, where several processes share a meter."""

    @property
    def tokens(self) -> int:
        """Those that count against a limit."""
        return 0 if is_scripted(self.model) else self.prompt + self.completion


class Meter:
    """Counts the spending of a run's models and enforces its limits.

    A call in flight reserves an estimate of what it will take: its prompt tokens, corrected by the ratio of earlier estimates,
    and the mean completion tokens of its role. When the rest of the budget is reserved, further calls wait for calls in flight;
    a call that does not fit even without them is refused. So spending exceeds a limit at most by the calls in flight taking more
    than estimated. Failed calls count no tokens, since endpoints report none. Attempts that timed out count as estimated, since
    the server may finish and bill them.

    Tokens of baselines (`heartloop/...`) are counted, but not against `max_tokens`. `prices` apply to models that are otherwise
    free, too. For one event loop; not thread-safe.
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
        self._price_of: dict[str, Price | None] = {}  # decided once, by the environment of the first call
        self.charged: Callable[[str, str, Usage], None] | None = None
        """Called with model, role and tokens of attempts that timed out as soon as they are counted."""
        self._tallies: dict[tuple[str, str], _Tally] = defaultdict(_Tally)
        self._in_flight = self._reserved_tokens = self._limited_tokens = 0
        self._dialogues = 0
        self._finished: dict[tuple[str, str], Usage] = defaultdict(Usage)
        self._lost_for_good: dict[tuple[str, str], Usage] = defaultdict(Usage)
        self._reserved_cost = self._cost = 0.0
        self._settled = asyncio.Event()
        for model in models:
            self.admit(model)

    def admit(self, model: str) -> None:
        """Refuses a model without a price where there is a `max_cost`."""
        if self._max_cost is not None and self._price(model) is None:
            raise UseError(
                f'--max-cost needs a price for {model}; add ["{model}"] with input and output (prices per million tokens) '
                "to the price file, or set --max-tokens instead"
            )

    def is_paid(self, model: str) -> bool:
        return is_paid(model, self._prices)

    def spend(self, model: str | None = None) -> Spend:
        tallies = [(self._price(name), tally) for (name, _), tally in self._tallies.items() if model in (None, name)]
        usage = total_usage(tally.usage for _, tally in tallies)
        costs = [price.of(tally.usage) for price, tally in tallies if price is not None]
        return Spend(
            sum(tally.calls for _, tally in tallies), sum(tally.failed for _, tally in tallies), usage.prompt_tokens,
            usage.completion_tokens, sum(costs) if len(costs) == len(tallies) else None, usage.estimated,
        )  # fmt: skip

    def summary(self) -> str:
        """Tokens, and cost where prices are given, in words; empty before the first call."""
        spent = self.spend()
        if not spent.calls:
            return ""
        tokens = f"{'about ' if spent.estimated else ''}{spent.tokens:,} tokens"
        return f"{tokens}, cost {spent.cost:.2f}" if self._prices and spent.cost is not None else tokens

    def record(self, model: str, role: str, usage: Usage | None) -> None:
        """Counts one finished call; `usage` is `None` where it failed. Also counts calls of an earlier process of the run."""
        tally = self._tallies[model, role]
        tally.calls += 1
        if usage is None:
            tally.failed += 1
            return
        tally.answered += usage.completion_tokens
        self._add(model, tally, usage)

    def _add(self, model: str, tally: _Tally, usage: Usage) -> None:
        tally.usage += usage
        self._limited_tokens += 0 if is_scripted(model) else usage.total
        if price := self._price(model):
            self._cost += price.of(usage)

    def charge(self, model: str, role: str, size: Size, *, attempts: int = 1) -> None:
        """Counts attempts that timed out, each as long as the prompt and an expected answer."""
        if attempts < 1:
            return
        expected = self._estimate(model, role, size)
        usage = Usage.of_counts((attempts * expected.prompt, attempts * expected.completion), estimated=True)
        self.abandon(model, role, usage)

    def abandon(self, model: str, role: str, usage: Usage) -> None:
        self._add(model, self._tallies[model, role], usage)
        self._lost_for_good[model, role] += usage
        if self.charged is not None:
            self.charged(model, role, usage)

    async def reserve(self, model: str, role: str, size: Size) -> Reservation:
        """Reserves what a call may take; waits for calls in flight where the rest of the budget is reserved."""
        if not self.limited:
            return Reservation(model, role, 0, 0, 0, 0.0)
        while True:
            reservation = self._estimate(model, role, size)
            refusal = self._refusal(reservation, in_flight=True)
            if refusal is None:
                self._hold(reservation)
                return reservation
            if not self._in_flight or self._refusal(reservation, in_flight=False) is not None:
                raise BudgetSpent(refusal)
            await self._settled.wait()

    def finish(self, paid: Iterable[tuple[str, str, Usage]]) -> None:
        """Counts a dialogue, with model, role and tokens of its calls."""
        self._dialogues += 1
        for model, role, usage in paid:
            self._finished[model, role] += usage

    def lose(self, model: str, role: str, usage: Usage) -> None:
        """Counts spending of an earlier process on unfinished dialogues."""
        self.record(model, role, usage)
        self._lost_for_good[model, role] += usage

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Within it, calls are counted as before and forgotten at its end: scripted models that play a dialogue on trial."""
        before, spent = copy.deepcopy(self._tallies), (self._limited_tokens, self._cost)
        try:
            yield
        finally:
            self._tallies, (self._limited_tokens, self._cost) = before, spent

    @property
    def lost(self) -> dict[tuple[str, str], Usage]:
        """Spending in no finished dialogue: those cut off, interrupted or in flight, and attempts that timed out."""
        lost: dict[tuple[str, str], Usage] = {}
        for key, tally in self._tallies.items():
            unfinished = tally.usage - self._finished.get(key, Usage())
            if unfinished.total:
                lost[key] = unfinished
        return lost

    def affords(self, in_flight: int) -> str | None:
        """Whether the limits allow one more dialogue beside those in flight: `None`, or the reason why not.

        A dialogue is expected to take 1.2 times the mean of the finished ones. Until one is finished, two may run at a time.
        """
        if not self.limited or (not self._dialogues and in_flight < 2):
            return None
        if not self._dialogues:
            return "no dialogue is finished yet, so the cost of one is unknown"
        lost = self.lost if in_flight == 0 else self._lost_for_good  # dialogues in flight count as `needed`
        limits = (
            ("--max-tokens", self._max_tokens, lambda key, usage: 0.0 if is_scripted(key[0]) else float(usage.total)),
            ("--max-cost", self._max_cost, self._cost_of),
        )
        for flag, limit, amount in limits:
            if limit is None:
                continue
            finished = sum(amount(key, usage) for key, usage in self._finished.items())
            unfinished = sum(amount(key, usage) for key, usage in lost.items())
            needed = 1.2 * finished / self._dialogues * (in_flight + 1)
            if finished + unfinished + needed > limit:
                return (
                    f"{flag} {limit:.12g} is too low for another dialogue: {finished + unfinished:.7g} is spent and one takes about "
                    f"{finished / self._dialogues:.7g}; raise it and rerun the same command to resume"
                )
        return None

    def _cost_of(self, key: tuple[str, str], usage: Usage) -> float:
        return (self._price(key[0]) or Price(0.0, 0.0)).of(usage)

    def settle(self, reservation: Reservation, usage: Usage | None) -> None:
        """Replaces a reservation by what the call took; `usage` is `None` where it failed."""
        self.record(reservation.model, reservation.role, usage)
        if self.limited:  # otherwise nothing was reserved, and no call waits
            self._release(reservation, usage)

    def _hold(self, reservation: Reservation) -> None:
        self._in_flight += 1
        self._reserved_tokens += reservation.tokens
        self._reserved_cost += reservation.cost

    def _release(self, reservation: Reservation, usage: Usage | None) -> None:
        self._in_flight -= 1
        self._reserved_tokens -= reservation.tokens
        self._reserved_cost = self._reserved_cost - reservation.cost if self._in_flight else 0.0  # avoids rounding drift
        if usage is not None and reservation.estimate:
            tally = self._tallies[reservation.model, reservation.role]
            tally.predicted += reservation.estimate
            tally.actual += usage.prompt_tokens
        self._settled.set()
        self._settled = asyncio.Event()

    @property
    def limited(self) -> bool:
        return self._max_tokens is not None or self._max_cost is not None

    @property
    def prices(self) -> dict[str, dict[str, float]]:
        return {name: price.given for name, price in self._prices.items()}

    def _price(self, model: str) -> Price | None:
        if model not in self._price_of:
            self._price_of[model] = self._prices.get(model) or (None if is_paid(model) else Price(0.0, 0.0))
        return self._price_of[model]

    def _estimate(self, model: str, role: str, size: Size) -> Reservation:
        estimate, most = size
        tally = self._tallies.get((model, role)) or _Tally()
        # chat templates and languages other than English have more tokens than estimated
        prompt = estimate * (tally.actual / tally.predicted if tally.predicted else 1.0)
        answered = tally.calls - tally.failed
        completion = tally.answered / answered if answered else _FIRST_GUESS
        if most is not None:
            completion = min(completion, most)
        price = self._price(model) or Price(0.0, 0.0)
        return Reservation(model, role, estimate, round(prompt), round(completion), price.at_most(prompt, completion))

    def _refusal(self, call: Reservation, *, in_flight: bool) -> str | None:
        """Why a call does not fit the limits, with or without the calls in flight; `None` if it fits."""
        limits: tuple[tuple[str, float | None, float, float, float, str], ...] = (
            ("--max-tokens", self._max_tokens, self._limited_tokens, self._reserved_tokens, call.tokens, "{:.0f} tokens"),
            ("--max-cost", self._max_cost, self._cost, self._reserved_cost, call.cost, "{:.4f}"),
        )
        for flag, limit, spent, reserved, needed, form in limits:
            if limit is not None and needed and spent + in_flight * reserved + needed > limit:
                return (
                    f"{flag} {limit:.12g} is reached: {form.format(spent)} spent, and the next call of {call.model} needs about "
                    f"{form.format(needed)}; raise it and rerun the same command to resume"
                )
        return None


def is_scripted(model: str) -> bool:
    """Whether no model is called: the baselines, the embedded user, students of a judge, and a human.

    >>> is_scripted("heartloop/reflector"), is_scripted("student:my.student"), is_scripted("python:my_agent:reply")
    (True, True, False)
    """
    return model == HUMAN or is_embedded(model) or model.startswith("student:") or is_baseline(model)


def is_baseline(model: str) -> bool:
    """Whether a model is a scripted policy, which only replies."""
    return model.startswith("heartloop/")


class Metered:
    """A `ChatModel` whose calls go through a meter; spending and estimates are separate by role."""

    def __init__(self, model: ChatModel, meter: Meter, role: str) -> None:
        meter.admit(model.name)
        self.model = model
        self.name = model.name
        self.meter = meter
        self.role = role

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        size = Size.of((message.content for message in messages), None if sampling is None else sampling.max_tokens)
        reservation = await self.meter.reserve(self.name, self.role, size)
        usage: Usage | None = None
        try:
            reply = await self.model.complete(messages, schema=schema, sampling=sampling)
            usage = reply.usage
            self.meter.charge(self.name, self.role, size, attempts=reply.abandoned)
            return reply
        except (ModelError, asyncio.CancelledError) as error:
            self.meter.charge(self.name, self.role, size, attempts=getattr(error, "abandoned", 0))
            raise
        finally:
            self.meter.settle(reservation, usage)
