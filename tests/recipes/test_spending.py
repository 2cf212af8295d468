"""The meter that the processes of a training run share: limits over all of them, over kills and resumes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import BudgetSpent, TransportError, UseError
from heartloop.models.budget import Metered, Price, Spend
from heartloop.training.spending import SharedMeter

HELLO = [Message(role="user", content="My dog died on Sunday.")]  # 6 tokens by estimate
CALL = Usage(prompt_tokens=60, completion_tokens=40)
WORKER = '''
"""Makes calls of 100 tokens until the limit, 4 at a time; prints how many were made."""
import asyncio, sys
from pathlib import Path
from heartloop.core.errors import BudgetSpent
from heartloop.models.budget import Metered
from heartloop.training.spending import SharedMeter
from tests.recipes.test_spending import HELLO, Model

async def go():
    model = Metered(Model(0.01), SharedMeter(Path(sys.argv[1])), "user")
    made = 0
    async def calls():
        nonlocal made
        try:
            while True:
                await model.complete(HELLO)
                made += 1
        except BudgetSpent:
            pass
    await asyncio.gather(*(calls() for _ in range(4)))
    print(made)

asyncio.run(go())
'''


class Model:
    name = "openai/user"

    def __init__(self, seconds: float = 0.0, usage: Usage = CALL, error: Exception | None = None) -> None:
        self.seconds, self.usage, self.error = seconds, usage, error

    async def complete(
        self, messages: Any, *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return Reply("ok", usage=self.usage)


def start(path: Path, **limits: Any) -> SharedMeter:
    meter = SharedMeter(path)
    meter.start(**{"max_tokens": None, "max_cost": None, "prices": {}, "model": "openai/user", **limits})
    return meter


def _wait_for(path: Path, *, lines: int) -> None:
    while len(path.read_text().splitlines()) < lines:
        time.sleep(0.01)


def worker(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(path)], stdout=subprocess.PIPE, text=True)


def test_processes_together_stay_within_the_limit_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    """40 calls of 100 tokens fit into 4,000. Until the first answers, 518 tokens are expected of a call."""
    path = tmp_path / "spending.jsonl"
    meter = start(path, max_tokens=4_000)
    made = [int(one.communicate(timeout=60)[0]) for one in [worker(path) for _ in range(3)]]
    assert sum(made) == 40
    meter.refresh()
    assert meter.spend().tokens == 4_000
    assert "--max-tokens 4000 is reached: 4000 tokens spent" in meter.stopped
    again = start(path, max_tokens=5_000)
    assert (again.stopped, again.spend().tokens) == ("", 4_000)
    assert int(worker(path).communicate(timeout=60)[0]) == 10


async def test_calls_that_a_kill_cut_off_count_as_estimated(tmp_path: Path) -> None:
    path = tmp_path / "spending.jsonl"
    await Metered(Model(), start(path), "user").complete(HELLO)
    process = worker(path)
    _wait_for(path, lines=20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with path.open("a") as file:
        file.write('{"settled": "tor')  # as a kill in the middle of a line leaves it
    lines = [json.loads(line) for line in path.read_text().splitlines()[:-1]]
    settled = sum("settled" in line for line in lines)
    open_calls = sum("call" in line for line in lines) - settled
    assert 0 < open_calls <= 4
    meter = start(path, max_tokens=10**6)
    # the prompt is ten times its estimate, as counted before; of completion 40 were expected
    spend = meter.spend()
    assert spend[2:4] == (60 * (settled + open_calls), 40 * (settled + open_calls))
    assert (spend.failed, spend.estimated) == (open_calls, True)
    assert SharedMeter(path).spend() == spend
    await Metered(Model(), meter, "user").complete(HELLO)
    assert SharedMeter(path).spend().calls == spend.calls + 1  # the incomplete line swallowed none


async def test_cost_failures_and_attempts_that_timed_out_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "spending.jsonl"
    start(path, max_cost=0.01, prices={"openai/user": Price(10.0, 100.0, cached_input=1.0)})
    one, other = SharedMeter(path), SharedMeter(path)
    cached = Usage(prompt_tokens=60, completion_tokens=40, cached_input_tokens=50)
    await Metered(Model(usage=cached), one, "user").complete(HELLO, sampling=Sampling(max_tokens=40))
    late = TransportError("no response")
    late.abandoned = 2
    with pytest.raises(TransportError):
        await Metered(Model(error=late), one, "user").complete(HELLO)
    other.refresh()
    assert other.spend() == one.spend()
    # 10 x 10 + 50 x 1 + 40 x 100 for the call; twice 60 x 10 (as ten times the estimate was counted before) + 40 x 100
    assert other.spend().cost == pytest.approx((4_150 + 2 * 4_600) / 1e6)
    with pytest.raises(BudgetSpent, match=r"--max-cost 0.01 is reached"):
        await Metered(Model(), other, "user").complete(HELLO)
    with pytest.raises(BudgetSpent, match=r"--max-cost 0.01 is reached"):  # one refusal ends the run for all
        await Metered(Model(), one, "judge").complete(HELLO, sampling=Sampling(max_tokens=1))


def test_limits_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "spending.jsonl"
    with pytest.raises(UseError, match="--max-cost needs a price for openai/user"):
        start(path, max_cost=1.0)
    with pytest.raises(UseError, match="--max-tokens is 0"):
        start(path, max_tokens=0)
    assert path.read_bytes() == b""


def test_another_step_must_fit(tmp_path: Path) -> None:
    meter = start(tmp_path / "spending.jsonl", max_tokens=1_000)
    meter.record("openai/user", "user", Usage(prompt_tokens=400))
    assert not meter.too_low_for_another(Spend())  # 400 + 1.2 x 400 = 880
    before = meter.spend()
    meter.record("openai/user", "user", Usage(prompt_tokens=280))
    assert "one takes about 280" in meter.too_low_for_another(before)  # 680 + 336
