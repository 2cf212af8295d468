"""Plays the dialogues of a run on a Ray cluster (`--ray`).

The driver, which is the process of the command, keeps the loop over the dialogues, the budget, the gates and the answer cache.
Workers, one a CPU, play whole dialogues. Each gets the plan of the run once; in it the meter, the connections and the cache are
replaced by objects that ask the driver's. Driver and worker exchange batches of messages: tuples of a name and its values.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import importlib.util
import io
import itertools
import logging
import os
import pickle
import signal
import socket
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import heartloop
from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Transcript, Usage, read_transcripts, write_line
from heartloop.core.errors import BudgetSpent, HeartloopError, UseError
from heartloop.core.system import install_command, reported
from heartloop.evaluation.remote import is_copy
from heartloop.evaluation.runner import Play, RunPlan, paid_usage, with_cached
from heartloop.evaluation.settings import Job
from heartloop.evaluation.store import RunDirectory
from heartloop.models.budget import Meter, Reservation, Size, is_scripted
from heartloop.models.cache import AnswerCache, Key, current_scope, dialogue_scope
from heartloop.models.client import Connections, EndpointChat
from heartloop.models.formats import Habits
from heartloop.models.functions import PythonChat
from heartloop.models.gate import Allowance, Gate, place_in_line
from heartloop.models.names import endpoint_habits

HERE = "local"
"""The address that starts a cluster on this machine."""

PLACING = 60.0
"""Seconds without any worker after which a run ends."""
_MARKER = ".playing"
"""File of a run directory that shows a worker that it sees the same directory as the driver."""
_CONNECT = 5.0  # seconds
_SOON, _LATER = 0.005, 0.1  # seconds in which messages are collected, and finished dialogues: an exchange takes about 1 ms of CPU
_LOSSES = 3  # workers in a row that end before they are ready, or that end while they play the same dialogue; then the run ends
_SAME = "install the same packages on all nodes"
_FORMS = "expected auto, or HOST:PORT of a running cluster of which this machine is a node, or --ray alone for this machine"


class RayPool:
    """The workers of a cluster as a `runner.Pool`; connects at once, for the rest of the process."""

    def __init__(self, address: str) -> None:
        if importlib.util.find_spec("ray") is None:
            raise UseError(f"--ray needs ray; install it with: {install_command('ray')}")
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # read when ray is imported
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        where: dict[str, Any] = {"address": address}
        if address == HERE:
            where |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            _check_reachable(address)
        if ray.is_initialized():
            return
        terminated = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(**where, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise UseError(f"--ray {address}: {' '.join(str(error).split())}; {_FORMS}") from error
        with suppress(ValueError):  # not the main thread, where ray leaves it too
            signal.signal(signal.SIGTERM, terminated)

    @asynccontextmanager
    async def playing(self, plan: RunPlan, directory: RunDirectory, most: int) -> AsyncIterator[Play]:
        driver = _Driver(plan, directory, most)
        try:
            yield driver.play
        finally:
            await driver.close()


def _check_reachable(address: str) -> None:
    """Raises where nothing listens at an address, for which ray waits long."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UseError(f"--ray {address}: {error}; {_FORMS}") from error


class _Dialogue(NamedTuple):
    place: int
    number: int
    job: Job
    arguments: tuple[Any, ...]
    attempt: int
    result: asyncio.Future[Transcript]


class _Member:
    """What the driver knows of a worker. Calls, permits and claims are those that are open, by the worker's numbers."""

    def __init__(self, file: Path, actor: Any) -> None:
        self.file, self.actor = file, actor
        self.ready = False
        self.playing: dict[int, _Dialogue] = {}
        self.outbox = _Outbox()
        self.asked: dict[int, asyncio.Task[None]] = {}
        self.calls: dict[int, tuple[Reservation, Size]] = {}
        self.permits: dict[int, tuple[Gate, float, int]] = {}  # the gate, when it let the call through, and the call
        self.claims: dict[int, AbstractContextManager[None]] = {}  # requests that no other worker sends meanwhile


class _Outbox:
    def __init__(self) -> None:
        self._messages: list[tuple[Any, ...]] = []
        self._some = asyncio.Event()

    def put(self, *message: Any, within: float = _SOON) -> None:
        """Has a message sent after the earlier ones, within so many seconds, together with others."""
        self._messages.append(message)
        asyncio.get_running_loop().call_later(within, self._some.set)

    async def all(self) -> list[tuple[Any, ...]]:
        """All messages, as soon as one is due."""
        while not (self._some.is_set() and self._messages):
            self._some.clear()
            await self._some.wait()
        self._some.clear()
        messages, self._messages = self._messages, []
        return messages


class _Driver:
    """The workers of one run and their dialogues; `on_...` are the messages of a worker, `answer_...` its questions."""

    def __init__(self, plan: RunPlan, directory: RunDirectory, most: int) -> None:
        import ray

        self._plan, self._directory = plan, directory
        self._models = plan.models
        self._packed = ray.put(_packed(plan))
        self._marker, self._token = directory.path.resolve() / _MARKER, uuid4().hex
        if not is_copy(directory.path):  # in a copy of a URL files stay short, which those of workers do not
            self._marker.write_text(self._token, encoding="ascii")
        self._actor = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Worker)
        workers = max(1, min(most, int(ray.cluster_resources().get("CPU", 1))))
        self._each = -(-most // workers)  # dialogues of a worker at once
        self._members: list[_Member] = []
        self._waiting: list[_Dialogue] = []  # a heap
        self._numbers, self._names = itertools.count(), itertools.count(1)
        self._error: BaseException | None = None
        self._failed_starts, self._losses = 0, Counter[int]()  # by the number of a dialogue
        self._serving = [self._run(self._serve()) for _ in range(workers)]

    async def play(self, job: Job) -> Transcript:
        if self._error is not None:
            raise self._error
        result: asyncio.Future[Transcript] = asyncio.get_running_loop().create_future()
        arguments = self._plan.arguments(job)
        dialogue = _Dialogue(place_in_line.get(), next(self._numbers), job, arguments, current_scope().attempt, result)
        heapq.heappush(self._waiting, dialogue)
        self._assign()
        return await result

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._marker.unlink(missing_ok=True)

    def _assign(self) -> None:
        while self._waiting:
            free = [one for one in self._members if one.ready and len(one.playing) < self._each]
            if not free:
                return
            member = min(free, key=lambda one: len(one.playing))
            dialogue = heapq.heappop(self._waiting)
            if not dialogue.result.done():
                member.playing[dialogue.number] = dialogue
                member.outbox.put(
                    "play", dialogue.number, dialogue.arguments, dialogue.place, dialogue.job.repeat, dialogue.attempt
                )

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose error stops the run."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._stop(error)

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        return task

    def _stop(self, error: BaseException) -> None:
        self._error = error
        for dialogue in [*self._waiting, *(one for member in self._members for one in member.playing.values())]:
            if not dialogue.result.done():
                dialogue.result.set_exception(error)

    async def _serve(self) -> None:
        """Has one worker after the other, each until it is lost."""
        import ray

        while self._error is None:
            member = _Member(self._directory.worker_file(next(self._names)).resolve(), self._actor.remote())
            self._members.append(member)
            sending = self._run(self._send(member))
            try:
                await self._begin(member)
                while True:
                    for name, *values in await member.actor.take.remote():
                        getattr(self, f"on_{name}")(member, *values)
            except ray.exceptions.RayActorError as error:
                self._failed_starts += not member.ready
                if self._failed_starts >= _LOSSES:
                    self._stop(UseError(f"the workers of --ray end at their start: {_line(error, -1)}; {_SAME}"))
            finally:
                sending.cancel()
                ray.kill(member.actor)
                self._lose(member)

    async def _begin(self, member: _Member) -> None:
        import ray

        paths = map(str, (Path.cwd(), self._marker, member.file))
        placed = asyncio.ensure_future(member.actor.begin.remote(self._packed, *paths, self._token, heartloop.__version__))
        while not (await asyncio.wait([placed], timeout=PLACING))[0]:
            if not any(one.ready for one in self._members):
                self._stop(BudgetSpent(f"the cluster gave no worker within {PLACING:g} s; rerun the same command to resume"))
        try:
            await placed
        except ray.exceptions.RayTaskError as error:
            raise UseError(f"a worker of --ray cannot load the run: {_line(error.cause or error)}; {_SAME}") from error
        self._failed_starts = 0
        member.ready = True
        self._assign()

    async def _send(self, member: _Member) -> None:
        import ray

        with suppress(ray.exceptions.RayActorError):  # `_serve` meets it too
            while True:
                await member.actor.give.remote(await member.outbox.all())

    def _lose(self, member: _Member) -> None:
        """Counts the calls that were sent, gives back what the worker held, and has its dialogues played by others."""
        self._members.remove(member)
        while member.asked:
            member.asked.popitem()[1].cancel()
        for _, _, call in member.permits.values():
            if call in member.calls:
                reservation, size = member.calls[call]
                self._models.meter.charge(reservation.model, reservation.role, size)
        for number in [*member.permits, *member.claims, *member.calls]:
            self._give_back(member, number)
        written = {one.key: one for one in read_transcripts(member.file)} if member.file.is_file() else {}
        for dialogue in member.playing.values():
            if dialogue.job.key in written:
                self._finish(dialogue, written[dialogue.job.key], written=True)
            elif not dialogue.result.done():
                heapq.heappush(self._waiting, dialogue)
                self._losses[dialogue.number] += 1
                if self._losses[dialogue.number] == _LOSSES:
                    played = f"{dialogue.job.scenario} with {dialogue.job.model}; remove the cause (a lack of memory?)"
                    self._stop(BudgetSpent(f"{_LOSSES} workers of --ray ended while they played {played}, then rerun to resume"))
        self._assign()

    def _give_back(self, member: _Member, number: int) -> None:
        if number in member.permits:
            gate, sent, _ = member.permits.pop(number)
            gate.abandoned(sent, slow=False)
        elif number in member.claims:
            member.claims.pop(number).__exit__(None, None, None)
        elif number in member.calls:
            self._models.meter.settle(member.calls.pop(number)[0], None)

    def on_finished(self, member: _Member, number: int, line: str, written: bool, cached: Sequence[int], habits: _Habits) -> None:
        dialogue = member.playing.pop(number)
        transcript = Transcript.model_validate_json(line)
        if cached:
            transcript = with_cached(transcript, cached)
        for name, (retried, dropped) in habits.items():
            model_here = self._models.opened[name]
            assert isinstance(model_here, EndpointChat)
            model_here.retried.update(retried)
            model_here.dropped.update(dropped)
        self._finish(dialogue, transcript, written=written)
        self._assign()

    def _finish(self, dialogue: _Dialogue, transcript: Transcript, *, written: bool) -> None:
        for model, role, usage in paid_usage(transcript):
            if is_scripted(model):  # of the others the worker tells each call
                self._models.meter.record(model, role, usage)
        if written:
            self._directory.written.add(transcript.key)
        elif self._models.cache is not None:
            self._models.cache.write()  # before the transcript, so that every finished dialogue can be replayed
        if not dialogue.result.done():
            dialogue.result.set_result(transcript)
        elif written:  # interrupted: the next process reads it from the file, so nothing of it is lost
            self._models.meter.finish(paid_usage(transcript))

    def on_failed(self, member: _Member, number: int, error: Exception) -> None:
        dialogue = member.playing.pop(number)
        if not dialogue.result.done():
            dialogue.result.set_exception(error)
        self._assign()

    def on_asked(self, member: _Member, number: int, name: str, *values: Any) -> None:
        member.asked[number] = self._run(self._answer(member, number, name, *values))

    async def _answer(self, member: _Member, number: int, name: str, *values: Any) -> None:
        try:
            answer = await getattr(self, f"answer_{name}")(member, number, *values)
        except HeartloopError as error:
            answer = error
        if member.asked.pop(number, None) is None:  # dropped, and `wait_for` may swallow the cancellation
            self._give_back(member, number)
        else:
            member.outbox.put("answered", number, answer)

    def on_dropped(self, member: _Member, number: int) -> None:
        """Nobody waits for the answer any more, or has a use for what came with it."""
        if (task := member.asked.pop(number, None)) is not None:
            task.cancel()
        self._give_back(member, number)

    async def answer_reserve(self, member: _Member, number: int, model: str, role: str, size: Size) -> None:
        member.calls[number] = await self._models.meter.reserve(model, role, size), size

    def on_call(self, member: _Member, number: int, model: str, role: str, size: Size) -> None:
        """A call where no limit applies."""
        member.calls[number] = Reservation(model, role, 0, 0, 0, 0.0), size

    def on_settled(self, member: _Member, number: int, usage: Usage | None) -> None:
        self._models.meter.settle(member.calls.pop(number)[0], usage)

    def on_charge(self, member: _Member, model: str, role: str, size: Size, attempts: int) -> None:
        self._models.meter.charge(model, role, size, attempts=attempts)

    async def answer_acquire(
        self, member: _Member, number: int, address: str, model: str, place: int, call: int
    ) -> tuple[bool, str]:
        place_in_line.set(place)
        gate = self._models.connections.gate(address, model)
        sent = await gate.acquire()
        if sent is not None:
            member.permits[number] = gate, sent, call
        return sent is not None, gate.reason

    async def answer_refused(self, member: _Member, number: int, *values: Any) -> tuple[bool, str]:
        gate, sent, _ = member.permits.pop(number)
        return await gate.refused(sent, *values), gate.reason

    def on_through(self, member: _Member, number: int, end: str, values: Mapping[str, Any]) -> None:
        """A call that a gate let through has ended."""
        gate, sent, _ = member.permits.pop(number)
        getattr(gate, end)(sent, **values)

    async def answer_lookup(self, member: _Member, number: int, key: Key) -> Reply | None:
        cache = self._models.cache
        assert cache is not None
        reply = await cache.lookup(key)
        if reply is None:
            claim = cache.in_flight(key)
            claim.__enter__()
            member.claims[number] = claim
        return reply

    async def answer_flush(self, member: _Member, number: int) -> None:
        assert self._models.cache is not None
        self._models.cache.write()

    def on_put(self, member: _Member, key: Key, model: str, role: str, reply: Reply) -> None:
        assert self._models.cache is not None
        self._models.cache.put(key, model, role, reply)


_Habits = Mapping[str, tuple[Counter[str], Counter[str]]]
"""By model the calls sent again and the settings dropped since the message before."""


def _line(error: BaseException, which: int = 0) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[which].strip()


def _packed(plan: RunPlan) -> bytes:
    """`plan.play` and the models, for `_Worker.begin`. Modules of Python functions travel with it, if they can."""
    from ray import cloudpickle

    models = plan.models
    shared = {
        id(models.meter): ("meter", models.meter.limited),
        id(models.connections): ("connections", models.connections.limit, models.connections.known),
        id(models.cache): ("cache",),
    }

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, thing: Any) -> tuple[Any, ...] | None:
            return None if thing is None else shared.get(id(thing))

    def pickled(thing: Any) -> bytes:
        file = io.BytesIO()
        Pickler(file, protocol=5).dump(thing)
        return file.getvalue()

    names = {name.split(":")[1] for name, model in models.opened.items() if isinstance(model, PythonChat)}
    modules = [sys.modules[name] for name in names if name in sys.modules and name != "__main__"]
    try:
        with suppress(Exception), ExitStack() as stack:
            for module in modules:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
            return pickled((plan.play, models.opened))
        return pickled((plan.play, models.opened))
    except Exception as error:
        for name, model in models.opened.items():
            try:
                pickled(model)
            except Exception as problem:
                raise UseError(f"{name} cannot be sent to the workers of --ray: {_line(problem)}") from problem
        raise UseError(f"the run cannot be sent to the workers of --ray: {_line(error)}") from error


class _Worker:
    """The actor that plays dialogues; `on_...` are the messages of the driver."""

    def __init__(self) -> None:
        self._outbox = _Outbox()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self.number = itertools.count(1).__next__
        self.tell = self._outbox.put
        self._tasks: set[asyncio.Task[None]] = set()
        self._play: Callable[..., Awaitable[Transcript]]
        self._opened: Mapping[str, ChatModel]
        self._file: Path | None = None

    def begin(self, packed: bytes, folder: str, marker: str, transcripts: str, token: str, version: str) -> None:
        if version != heartloop.__version__:
            raise UseError(f"it has heartloop {heartloop.__version__}, the command {version}")
        gc.set_threshold(50_000, *gc.get_threshold()[1:])  # as in a run of one process
        with suppress(OSError):
            os.chdir(folder)
            sys.path.insert(0, folder)
        with suppress(OSError):
            if Path(marker).read_text(encoding="ascii") == token and os.access(Path(transcripts).parent, os.W_OK):
                self._file = Path(transcripts)
        made: dict[str, Any] = {}

        def proxy(name: str, *values: Any) -> Any:
            if name not in made:
                made[name] = {"meter": _Meter, "connections": _Connections, "cache": _Cache}[name](self, *values)
            return made[name]

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, pid: tuple[Any, ...]) -> Any:
                return proxy(*pid)

        self._play, self._opened = Unpickler(io.BytesIO(packed)).load()
        self._habits = endpoint_habits(self._opened.values())
        self._cached = "cache" in made

    async def take(self) -> list[tuple[Any, ...]]:
        return await self._outbox.all()

    async def give(self, messages: Sequence[tuple[Any, ...]]) -> None:
        for name, *values in messages:
            getattr(self, f"on_{name}")(*values)

    def on_play(self, *values: Any) -> None:
        task = asyncio.create_task(self._played(*values))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_answered(self, number: int, answer: Any) -> None:
        if (asked := self._asked.get(number)) is not None and not asked.done():
            if isinstance(answer, HeartloopError):
                asked.set_exception(answer)
            else:
                asked.set_result(answer)

    async def _played(self, number: int, arguments: tuple[Any, ...], place: int, repeat: int, attempt: int) -> None:
        place_in_line.set(place)
        try:
            with dialogue_scope(repeat, attempt):
                transcript = await self._play(*arguments)
            cached = [n for n, call in enumerate(transcript.calls) if call.cached]
            line = write_line(transcript)
            if self._file is not None:
                if self._cached:  # before the transcript, so that every finished dialogue can be replayed
                    await self.ask(self.number(), "flush")
                with (
                    reported(f"write to {self._file}", "free some space, then rerun the same command"),
                    self._file.open("ab") as file,
                ):
                    file.write(line.encode())  # and closed, so that NFS shows it to others
            within = _LATER if len(self._tasks) > 1 else _SOON  # meanwhile it plays the others
            self._outbox.put("finished", number, line, self._file is not None, cached, self._new_habits(), within=within)
        except HeartloopError as error:
            self.tell("failed", number, error)
        except BaseException as error:  # which may be of a class that the driver cannot load
            self.tell("failed", number, RuntimeError("".join(traceback.format_exception(error))))

    def _new_habits(self) -> _Habits:
        before, self._habits = self._habits, endpoint_habits(self._opened.values())
        return {
            name: (Counter(now["retried"]) - Counter(then["retried"]), Counter(now["dropped"]) - Counter(then["dropped"]))
            for name, now in self._habits.items()
            if now != (then := before[name])
        }

    async def ask(self, number: int, *question: Any) -> Any:
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.tell("asked", number, *question)
        try:
            return await answer
        except asyncio.CancelledError:
            self.tell("dropped", number)
            raise
        finally:
            del self._asked[number]


_call: ContextVar[int] = ContextVar("call", default=0)
"""The number of the call that this task makes, by which the driver knows what a permit of the gate is for."""


class _Meter(Meter):
    """In a worker, the driver's meter. Calls of scripted models are not told one by one: they are in the transcript."""

    def __init__(self, worker: _Worker, limited: bool) -> None:
        super().__init__()
        self._worker, self._has_limit = worker, limited

    async def reserve(self, model: str, role: str, size: Size) -> Reservation:
        number = 0
        if not is_scripted(model):
            number = self._worker.number()
            _call.set(number)
            if self._has_limit:
                await self._worker.ask(number, "reserve", model, role, size)
            else:
                self._worker.tell("call", number, model, role, size)
        return Reservation(model, role, 0, 0, 0, 0.0, str(number))

    def settle(self, reservation: Reservation, usage: Usage | None) -> None:
        if number := int(reservation.key):
            self._worker.tell("settled", number, usage)

    def charge(self, model: str, role: str, size: Size, *, attempts: int = 1) -> None:
        if attempts > 0:
            self._worker.tell("charge", model, role, size, attempts)


class _Connections(Connections):
    """In a worker, connections of its own whose gates are the driver's."""

    def __init__(self, worker: _Worker, limit: int, known: Mapping[tuple[str, str], Habits]) -> None:
        super().__init__(limit)
        self._worker = worker
        self.known.update(known)

    def gate(self, address: str, model: str) -> Gate:
        return _Gate(self._worker, address, model)


class _Gate(Gate):
    """In a worker, a gate of the driver. The time at which a call is sent is the driver's, so here a number stands for it."""

    def __init__(self, worker: _Worker, address: str, model: str) -> None:
        self._worker, self._of = worker, (address, model)
        self.reason = ""

    async def acquire(self) -> float | None:
        number = self._worker.number()
        sent, self.reason = await self._worker.ask(number, "acquire", *self._of, place_in_line.get(), _call.get())
        return number if sent else None

    def done(self, sent: float, allowance: Allowance | None = None) -> None:
        self._worker.tell("through", sent, "done", {"allowance": allowance})

    async def refused(self, sent: float, reason: str, wait: float | None = None, allowance: Allowance | None = None) -> bool:
        again, self.reason = await self._worker.ask(int(sent), "refused", reason, wait, allowance)
        return bool(again)

    def abandoned(self, sent: float, *, slow: bool = True) -> None:
        self._worker.tell("through", sent, "abandoned", {"slow": slow})


class _Cache(AnswerCache):
    """In a worker, the driver's cache. A lookup without an answer keeps the others from sending the same request meanwhile."""

    def __init__(self, worker: _Worker) -> None:
        super().__init__(Path())
        self._worker = worker
        self._claims: dict[Key, int] = {}

    async def lookup(self, key: Key) -> Reply | None:
        number = self._worker.number()
        reply: Reply | None = await self._worker.ask(number, "lookup", key)
        if reply is None:
            self._claims[key] = number
        return reply

    @contextmanager
    def in_flight(self, key: Key) -> Iterator[None]:
        try:
            yield
        finally:
            self._worker.tell("dropped", self._claims.pop(key))

    def put(self, key: Key, model: str, role: str, reply: Reply) -> None:
        self._worker.tell("put", key, model, role, reply)
