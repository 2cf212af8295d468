"""One meter for all processes of a training run, kept in `spending.jsonl` beside the checkpoints."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Usage
from heartloop.core.errors import BudgetSpent
from heartloop.models.budget import Meter, Price, Reservation, Size, Spend

_WAIT = 0.25  # seconds between two looks at the calls in flight of other processes


class SharedMeter(Meter):
    """A meter whose state is a file of JSON lines: limits, reservations, settled calls, attempts that timed out, and the end.

    Each process reads what the others appended, and decides and appends under a lock of the file, so that the limits hold over
    all of them as a `Meter`'s do in one process. Calls in flight when a process was killed count as estimated. The file must be
    on a disk that all machines of the run see and that supports `flock`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.stopped = ""
        """Why the run ends: the refusal of the first call that did not fit; empty while calls are made."""
        self._path = path
        self._file: FileIO
        self._done = 0  # bytes that are read
        self._open: dict[str, Reservation] = {}
        self.refresh()

    def refresh(self) -> None:
        """Reads what other processes appended."""
        with self._locked():
            pass

    def start(self, *, max_tokens: int | None, max_cost: float | None, prices: Mapping[str, Price], model: str) -> None:
        """Sets the limits of a new attempt, when no process of an earlier one is left."""
        Meter(max_tokens=max_tokens, max_cost=max_cost, prices=prices, models=[model])  # raises where they do not fit
        known = {name: price.given for name, price in prices.items()}
        with self._locked():
            self._append({"max_tokens": max_tokens, "max_cost": max_cost, "prices": known})

    def stop(self, why: str) -> None:
        with self._locked():
            self._append({"stopped": why})

    def too_low_for_another(self, before: Spend) -> str:
        """Why the limits do not allow another step of 1.2 times what was spent after `before`; empty if they do."""
        now = self.spend()
        for flag, limit, then, spent in (
            ("--max-tokens", self._max_tokens, before.tokens, now.tokens),
            ("--max-cost", self._max_cost, before.cost or 0.0, now.cost or 0.0),
        ):
            if limit is not None and spent + 1.2 * (spent - then) > limit:
                return (
                    f"{flag} {limit:.12g} is too low for another step: {spent:.12g} is spent and one takes about "
                    f"{spent - then:.6g}; raise it and rerun the same command to resume"
                )
        return ""

    async def reserve(self, model: str, role: str, size: Size) -> Reservation:
        while True:
            with self._locked():
                if self.stopped:
                    raise BudgetSpent(self.stopped)
                call = self._estimate(model, role, size)._replace(key=uuid.uuid4().hex)
                refusal = self._refusal(call, in_flight=True) if self.limited else None
                if refusal is None:
                    self._append({"call": call})
                    return call
                if not self._open or self._refusal(call, in_flight=False) is not None:
                    self._append({"stopped": refusal})
                    raise BudgetSpent(refusal)
            await asyncio.sleep(_WAIT)

    def settle(self, reservation: Reservation, usage: Usage | None) -> None:
        with self._locked():
            self._append({"settled": reservation.key, "usage": None if usage is None else usage.model_dump()})

    def abandon(self, model: str, role: str, usage: Usage) -> None:
        with self._locked():
            self._append({"abandoned": usage.model_dump(), "model": model, "role": role})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._path.open("ab+", buffering=0) as self._file:  # closing it ends the lock
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._catch_up()
            yield

    def _append(self, fact: Mapping[str, Any]) -> None:
        end = os.fstat(self._file.fileno()).st_size
        torn = b"\n" if end > self._done else b""  # an incomplete line of a killed process
        self._file.write(torn + json.dumps(fact).encode() + b"\n")
        self._catch_up()

    def _catch_up(self) -> None:
        end = os.fstat(self._file.fileno()).st_size
        if end == self._done:
            return
        whole, newline, _ = os.pread(self._file.fileno(), end - self._done, self._done).rpartition(b"\n")
        self._done += len(whole) + len(newline)
        for line in whole.splitlines():
            with suppress(ValueError, KeyError, TypeError):  # an incomplete line
                self._apply(json.loads(line))

    def _apply(self, fact: Mapping[str, Any]) -> None:
        if "call" in fact:
            call = Reservation(*fact["call"])
            self._open[call.key] = call
            self._hold(call)
        elif "settled" in fact:
            self._end(self._open.pop(fact["settled"]), fact["usage"])
        elif "abandoned" in fact:
            super().abandon(fact["model"], fact["role"], Usage.model_validate(fact["abandoned"]))
        elif "stopped" in fact:
            self.stopped = fact["stopped"]
        elif "prices" in fact:
            for call in self._open.values():  # of processes that were killed
                self._end(call, None)
                super().abandon(call.model, call.role, Usage.of_counts((call.prompt, call.completion), estimated=True))
            self._open.clear()
            self._max_tokens, self._max_cost = fact["max_tokens"], fact["max_cost"]
            self._prices = {name: Price(**given) for name, given in fact["prices"].items()}
            self._price_of.clear()
            self._cost = self.spend().cost or 0.0
            self.stopped = ""

    def _end(self, call: Reservation, counted: Mapping[str, Any] | None) -> None:
        usage = None if counted is None else Usage.model_validate(counted)
        self.record(call.model, call.role, usage)
        self._release(call, usage)
