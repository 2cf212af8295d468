"""Many dialogues at once: none repeated, none lost, never more at a time than allowed, over kill -9 as well.

Run as a program (`python test_runner.py DIRECTORY`), this file is the run that gets killed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Call, Message, Sampling, StopReason, Transcript, Usage, read_transcripts
from heartloop.core.errors import BotError, BudgetSpent, EndpointStopped, TransportError
from heartloop.environments.episode import Episode, Outcome, UserTurn
from heartloop.evaluation.progress import Progress
from heartloop.evaluation.runner import PARKED_AFTER, PILOT, Estimate, RunResult, player, work_through
from heartloop.evaluation.settings import EvaluationSettings
from heartloop.evaluation.store import RunDirectory


class Listed:
    """An environment of three-turn dialogues whose person says a number that depends on seed and turn."""

    name = "listed"

    def __init__(self, ids: Sequence[str]) -> None:
        self.scenario_ids = tuple(ids)

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        return _Person(seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        return {"fingerprint": scenario_id, "preset": "p", "user": "embedded"}


class _Person:
    policy_prompt = "Count."
    calls: Sequence[Call] = ()
    counts: Mapping[str, int] = {}

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states = [0.0]

    async def open(self) -> str | None:
        return f"{self._seed}"

    async def step(self, reply: str) -> UserTurn:
        self._states.append(self._states[-1] + len(reply))
        turn = len(self._states) - 1
        stop: StopReason | None = "turn_limit" if turn == 3 else None
        return UserTurn(f"{self._seed + turn}", {"n": self._states[-1]}, {"n": float(len(reply))}, {}, {}, stop)

    def outcome(self) -> Outcome:
        rewards = tuple(b - a for a, b in zip(self._states, self._states[1:], strict=False))
        return Outcome(self._states[-1], rewards, tuple({"n": s} for s in self._states))


class Echo:
    """A policy that repeats the last message after a moment, and counts how many dialogues wait at once."""

    def __init__(self, name: str = "echo", *, wait: float = 0.0, fails: Callable[[int], Exception | None] | None = None) -> None:
        self.name = name
        self.wait = wait
        self.fails = fails
        self.calls = 0
        self.in_flight = 0
        self.most = 0
        self.started: Counter[str] = Counter()
        """Dialogues by their first message."""

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.calls += 1
        number = self.calls
        self.started[messages[1].content] += len(messages) == 2
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.wait)
        finally:
            self.in_flight -= 1
        error = self.fails(number) if self.fails is not None else None
        if error is not None:
            raise error
        return Reply(messages[-1].content, usage=Usage(prompt_tokens=10, completion_tokens=2))


def settings(people: int = 6, models: Sequence[str] = ("echo",), repeats: int = 1) -> EvaluationSettings:
    return EvaluationSettings(
        environment="listed", models=tuple(models), roles={"user": "embedded"}, scenario_set="listed", repeats=repeats,
        options={"preset": "p", "variant": "vanilla", "max_turns": 3}, scenarios={f"s-{n:02}": f"{n}" for n in range(people)},
    )  # fmt: skip


async def run(path: Path, policies: Sequence[Echo], chosen: EvaluationSettings | None = None, **how: Any) -> RunResult:
    """One evaluation in a directory, from opening to closing it."""
    chosen = chosen or settings(models=[policy.name for policy in policies])
    with RunDirectory(path, chosen) as directory:
        return await work_through(
            directory, player(Listed(list(chosen.scenarios)), {p.name: p for p in policies}, chosen.sampling.get("policy")), **how
        )


def kept(path: Path) -> list[Transcript]:
    return list(read_transcripts(path / "transcripts.jsonl"))


def timeless(transcripts: Iterable[Transcript]) -> list[Transcript]:
    """Sorted by key, the seconds left out: what two runs of the same settings must share."""
    return sorted((t.model_copy(update={"seconds": 0.0}) for t in transcripts), key=lambda t: t.key)


def fail_at(*calls: int) -> Callable[[int], Exception | None]:
    return lambda call: TransportError("gone") if call in calls else None


async def test_every_dialogue_of_the_settings_is_played_once_and_kept(tmp_path: Path) -> None:
    chosen = settings(5, ["echo", "other"], repeats=2)
    ended = await run(tmp_path, [Echo(), Echo("other")], chosen)
    assert ended[:6] == (20, 20, 0, 0, 0, None)
    assert sorted(t.key for t in kept(tmp_path)) == sorted(job.key for job in chosen.jobs)
    assert {t.key: t.seed for t in kept(tmp_path)} == {job.key: job.seed for job in chosen.jobs}


@pytest.mark.parametrize("connections", [1, 5])
async def test_as_many_are_in_flight_as_allowed_which_changes_no_transcript(tmp_path: Path, connections: int) -> None:
    policy = Echo(wait=0.001)
    await run(tmp_path / "a", [policy], settings(12), max_connections=connections)
    await run(tmp_path / "b", [Echo()], settings(12), max_connections=3)
    assert policy.most == connections
    assert timeless(kept(tmp_path / "a")) == timeless(kept(tmp_path / "b"))


async def test_a_slow_dialogue_keeps_nobody_waiting(tmp_path: Path) -> None:
    class OneSlow(Echo):
        async def complete(self, messages: Sequence[Message], **how: Any) -> Reply:
            if messages[1].content == slow and len(messages) == 2:
                await asyncio.wait_for(others_done.wait(), 10)
            return await super().complete(messages, **how)

    chosen = settings(6)
    slow, others_done = str(chosen.jobs[0].seed), asyncio.Event()

    def report(progress: Progress) -> None:
        if progress.done == 5:
            others_done.set()

    ended = await run(tmp_path, [OneSlow()], chosen, max_connections=2, report=report)
    assert ended.played == 6


async def test_finished_dialogues_are_not_repeated(tmp_path: Path) -> None:
    await run(tmp_path, [Echo()])
    before = (tmp_path / "transcripts.jsonl").read_bytes()
    policy = Echo()
    ended = await run(tmp_path, [policy])
    assert ended[:6] == (6, 0, 6, 0, 0, None)
    assert policy.calls == 0
    assert (tmp_path / "transcripts.jsonl").read_bytes() == before


async def test_failed_dialogues_are_retried_when_asked_and_only_those(tmp_path: Path) -> None:
    await run(tmp_path, [Echo(fails=fail_at(1, 9))], max_connections=1)
    policy = Echo()
    ended = await run(tmp_path, [policy], retry_failed=True)
    assert (ended.planned, ended.played, ended.resumed, ended.failed) == (6, 2, 4, 0)
    assert policy.started.total() == 2
    await run(tmp_path / "undisturbed", [Echo()])
    mended = {t.key: t for t in kept(tmp_path)}  # the last line of a key counts
    assert timeless(mended.values()) == timeless(kept(tmp_path / "undisturbed"))


async def test_a_retry_that_fails_again_is_one_failure_and_not_two(tmp_path: Path) -> None:
    await run(tmp_path, [Echo(fails=fail_at(1))], max_connections=1)
    ended = await run(tmp_path, [Echo(fails=fail_at(1))], max_connections=1, retry_failed=True)
    assert (ended.played, ended.failed, ended.missing) == (1, 1, 0)


async def test_a_spent_budget_stops_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    def spent(call: int) -> Exception | None:
        return BudgetSpent("1000 tokens were allowed") if call > 7 else None

    ended = await run(tmp_path, [Echo(fails=spent)], max_connections=1)
    # three calls a dialogue: two are finished, the third is lost in its second call
    assert (ended.played, ended.missing, ended.failed) == (2, 4, 0)
    assert ended.stopped == "1000 tokens were allowed"
    assert len(kept(tmp_path)) == 2
    assert (await run(tmp_path, [Echo()])).played == 4


async def test_no_after_the_pilot_ends_the_run_with_two_dialogues_and_yes_plays_the_rest(tmp_path: Path) -> None:
    asked: list[Estimate] = []

    def answer(guess: Estimate) -> bool:
        asked.append(guess)
        return len(asked) > 1

    ended = await run(tmp_path, [Echo()], pilot=answer)
    assert (ended.played, ended.missing, ended.stopped) == (PILOT, 4, "stopped after the estimate")
    assert len(kept(tmp_path)) == PILOT == 2
    # three calls of 12 tokens a dialogue, four dialogues to come
    assert [guess[:4] for guess in asked] == [(4, 12, 144, None)]
    policy = Echo()
    ended = await run(tmp_path / "yes", [policy], pilot=answer)
    assert ended[:6] == (6, 6, 0, 0, 0, None)
    assert max(policy.started.values()) == 1, "the pilot counts"


async def test_agreed_beforehand_all_dialogues_are_played_at_once_and_the_first_ones_give_the_estimate(tmp_path: Path) -> None:
    estimates: list[Estimate] = []

    def record(estimate: Estimate) -> bool:
        estimates.append(estimate)
        return True

    policies = [Echo(wait=0.001), Echo("other", wait=0.02)]
    ended = await run(tmp_path, policies, pilot=record, pilot_models=["echo", "other"], agreed=True)
    assert ended[:6] == (12, 12, 0, 0, 0, None)
    assert [policy.most for policy in policies] == [6, 6]
    # the first dialogue of the slower model is waited for: by then all 6 of the faster one are finished
    assert [(e.dialogues, e.calls, e.tokens, e.earlier) for e in estimates] == [(5, 15, 180, 7)]


@pytest.mark.parametrize(
    ("failing", "played", "stops"),
    [
        (range(1, 99), 8, True),
        (range(1, 8), 20, False),  # the eighth is scored
        (range(4, 99), 20, False),  # the first one is scored
    ],
)
async def test_a_run_without_a_pilot_stops_if_its_first_eight_dialogues_fail_in_the_same_way(
    failing: range, played: int, stops: bool, tmp_path: Path
) -> None:
    first_calls = Echo(fails=lambda call: TransportError("gone") if call in failing else None)
    ended = await run(tmp_path, [first_calls], settings(20), pilot=lambda _: True, agreed=True, max_connections=1)
    assert (ended.played, "gone" in (ended.stopped or "")) == (played, stops)


@pytest.mark.parametrize(("failing", "played", "stops"), [(range(1, 99), 2, True), (range(2, 99), 6, False)])
async def test_a_run_stops_after_its_pilot_if_the_bot_failed_at_every_reply(
    failing: range, played: int, stops: bool, tmp_path: Path
) -> None:
    bot = Echo(fails=lambda call: BotError("it raised") if call in failing else None)
    ended = await run(tmp_path, [bot], pilot=lambda _: True, max_connections=1)
    assert (ended.played, ended.failed, "it raised" in (ended.stopped or "")) == (played, 0, stops)


@pytest.mark.parametrize("failed_before", [0, 3])
async def test_a_model_that_fails_again_and_again_is_left_out_and_the_others_go_on(tmp_path: Path, failed_before: int) -> None:
    """A dialogue that succeeds, or fails in another way, begins the row again."""
    broken = Echo("broken", fails=lambda call: None if failed_before < call <= failed_before + 3 else TransportError("no answer"))
    chosen = settings(people=12, models=("sound", "broken"))
    ended = await run(tmp_path / "run", [Echo("sound"), broken], chosen, max_connections=1)
    failed = PARKED_AFTER + failed_before
    played = Counter((t.model, t.scored) for t in read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert played == {("sound", True): 12, ("broken", False): failed} | ({("broken", True): 1})
    assert ended.missing == 12 - failed - 1
    assert "broken" in str(ended.stopped)
    assert "no answer" in str(ended.stopped)
    again = await run(tmp_path / "run", [Echo("sound"), Echo("broken")], chosen)
    assert (again.missing, again.stopped) == (0, None)


async def test_an_account_that_ends_stops_its_model_and_not_the_others(tmp_path: Path) -> None:
    poor = Echo("poor", fails=lambda call: EndpointStopped("poor: top up the account", "poor") if call > 3 else None)
    chosen = settings(models=("rich", "poor"))
    ended = await run(tmp_path / "run", [Echo("rich"), poor], chosen, max_connections=1)
    assert ended.stopped == "poor: top up the account"
    played = Counter(t.model for t in read_transcripts(tmp_path / "run" / "transcripts.jsonl"))
    assert played == {"rich": 6, "poor": 1}
    needed = chosen.model_copy(update={"roles": {"user": "poor"}})
    ended = await run(tmp_path / "needed", [Echo("rich"), Echo("poor", fails=poor.fails)], needed, max_connections=1)
    assert ended.missing > 6, "without its user simulator no dialogue is played"


async def test_no_pilot_is_asked_for_where_two_dialogues_are_all_there_is(tmp_path: Path) -> None:
    def never(guess: Estimate) -> bool:
        raise AssertionError("nothing was left to ask about")

    assert (await run(tmp_path, [Echo()], settings(2), pilot=never)).played == 2
    assert (await run(tmp_path, [Echo()], settings(2), pilot=never)).resumed == 2


KILLED = settings(30, repeats=2)


def _wait_for_lines(path: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    """Until the file holds so many lines, whole or not."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.002)
    raise AssertionError(f"the run ended or hung before it had {lines} lines")


def test_killed_again_and_again_and_resumed_a_run_loses_and_repeats_nothing(tmp_path: Path) -> None:
    broken, path = tmp_path / "killed", tmp_path / "killed" / "transcripts.jsonl"
    finished: list[bytes] = []
    for lines in (5, 25, 45):  # three deaths, each somewhere in the middle
        with subprocess.Popen([sys.executable, __file__, str(broken)]) as process:
            try:
                _wait_for_lines(path, lines, process)
            finally:
                process.kill()
        before, finished = finished, [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        assert finished[: len(before)] == before  # no line was rewritten
    assert 45 <= len(finished) < 60
    policy = Echo()
    ended = asyncio.run(run(broken, [policy], KILLED))
    assert (ended.resumed, ended.played) == (len(finished), 60 - len(finished))
    assert policy.started.total() == 60 - len(finished)
    transcripts = kept(broken)
    assert len({t.key for t in transcripts}) == len(transcripts) == 60
    asyncio.run(run(tmp_path / "undisturbed", [Echo()], KILLED))
    assert timeless(transcripts) == timeless(kept(tmp_path / "undisturbed"))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), [Echo(wait=0.01)], KILLED, max_connections=2))
