"""Labels of a run's replies for its report: computed once, on all cores, and kept in `labels.jsonl` beside the transcripts.

Covers which dialogues lack labels, finding their scenarios, sharing the work and the file. Does not cover what a label says
(`EnvironmentSpec.labels`). Labels are no part of a transcript and change no score. Every line of the file has a hash of what it
was made from; a line of another reply, scenario or rule is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple

from heartloop.appraisal.names import is_embedded
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.spec import EnvironmentSpec, ReplyLabels
from heartloop.evaluation.store import StoredRun

__all__ = ["LABELS", "labelled", "talk_of"]

LABELS = "labels.jsonl"
"""One line a dialogue: `key`, a hash of the rules, the scenario and the dialogue, and `turns`, a label for each judged reply."""

_WORKERS_FROM = 2_000  # replies; below, starting further processes takes longer than it saves
_PROGRESS_EVERY = 10.0  # seconds
_SOON = 5_000  # replies that are labelled within seconds
_COMMAND = ["-m", "heartloop.report.labels"]  # of Python: the worker

Labels = Sequence[Mapping[str, Any]]


class _Task(NamedTuple):
    """A dialogue to be labelled."""

    key: str
    scenario: Any
    messages: list[str]
    replies: list[str]


class _Rules(NamedTuple):
    """An environment's labels, and the scenario set of the dialogues."""

    spec: EnvironmentSpec
    labels: ReplyLabels
    scenario_set: str

    def apply(self, task: _Task) -> Labels:
        return self.labels.label(task.scenario, task.messages, task.replies)


def labelled(run: StoredRun, *, tell: Callable[[str], None] = lambda _: None) -> StoredRun:
    """The run with `Turn.evidence` where a model played the user and the environment labels replies; other runs unchanged.

    What is in `labels.jsonl` already is taken from there. Scenarios are found by the run's scenario set and the fingerprint in
    the transcript; a dialogue whose scenario is not there any more, or was written by the authors, stays without labels.

    Args:
        tell: called with a sentence when the work takes long, every ten seconds while it does, and when scenarios are missing.
    """
    rules = _rules_of(run)
    keys = {id(d): _key(d, rules.labels) for d in run.transcripts if _lacks(d, rules)} if rules else {}
    if rules is None or not keys:
        return run
    file = run.path / LABELS
    kept = _read(file)
    known = {key: kept[key] for key in keys.values() if key in kept}
    lacking = {keys[id(d)]: d for d in run.transcripts if id(d) in keys and keys[id(d)] not in known}
    if lacking:
        todo = _tasks(lacking, run, rules, tell)
        if todo and known.keys() != kept.keys():  # lines of replies or rules that are no more
            _rewrite(file, known)
        known |= _work(todo, rules, file, tell) if todo else {}
    labels = [known.get(keys[id(d)]) if id(d) in keys else None for d in run.transcripts]
    return run._replace(
        transcripts=tuple(_with(d, found) if found else d for d, found in zip(run.transcripts, labels, strict=True))
    )


def _rules_of(run: StoredRun) -> _Rules | None:
    """`None` where its environment is not installed or labels no replies."""
    name = run.transcripts[0].environment if run.transcripts else ""
    if name not in environment_names():
        return None
    spec = load_environment(name)
    return _Rules(spec, spec.labels, str(run.settings.get("scenario_set", ""))) if spec.labels else None


def _lacks(dialogue: Transcript, rules: _Rules) -> bool:
    """Whether the rules can read it and have not."""
    if dialogue.environment != rules.spec.name or is_embedded(dialogue.user) or not rules.labels.applies(dialogue):
        return False
    return any(turn.state is not None and not turn.evidence for turn in dialogue.turns)


def _key(dialogue: Transcript, labels: ReplyLabels) -> str:
    """A hash of all that decides its labels."""
    body = json.dumps([labels.rules_hash(), dialogue.fingerprint, *talk_of(dialogue)])
    return hashlib.sha256(body.encode()).hexdigest()[:24]


def talk_of(transcript: Transcript) -> tuple[list[str], list[str]]:
    """The user's messages and the policy's replies, as far as replies were judged, as `ReplyLabels.label` takes them.

    Empty where the user did not open, or a message is missing in between.
    """
    messages, replies = [transcript.opening], []
    for turn in transcript.turns:
        if turn.state is None:
            break
        replies.append(turn.reply)
        messages.append(turn.message)
    known = [message for message in messages[: len(replies)] if message is not None]
    return (known, replies) if len(known) == len(replies) else ([], [])


def _tasks(lacking: Mapping[str, Transcript], run: StoredRun, rules: _Rules, tell: Callable[[str], None]) -> list[_Task]:
    """The dialogues with their scenarios, as far as those are in our own form and unchanged."""
    scenarios: Sequence[Any] = ()
    with contextlib.suppress(InputError, UseError):
        scenarios = rules.spec.scenarios.load(rules.scenario_set)
    written = {(one.id, one.fingerprint): one for one in scenarios if rules.spec.scenarios.written(one)}
    tasks = [
        _Task(key, written[d.scenario, d.fingerprint], *talk_of(d))
        for key, d in lacking.items()
        if (d.scenario, d.fingerprint) in written
    ]
    if len(tasks) < len(lacking) and len(written) == len(scenarios):
        tell(
            f"{len(lacking) - len(tasks)} dialogues of {run.path} have no labels in the report: "
            f"their scenarios are not in {rules.scenario_set or 'any scenario set it names'}, or have changed."
        )
    return tasks


def _with(dialogue: Transcript, labels: Labels) -> Transcript:
    """The dialogue with the labels of those turns that have no evidence of their own."""
    first = tuple(
        turn.model_copy(update={"evidence": dict(found)}) if found and not turn.evidence else turn
        for turn, found in zip(dialogue.turns, labels, strict=False)
    )
    return dialogue.model_copy(update={"turns": first + dialogue.turns[len(first) :]})


def _read(file: Path) -> dict[str, Labels]:
    """What the file holds; a line that cannot be read is skipped, its labels are made again."""
    found: dict[str, Labels] = {}
    with contextlib.suppress(OSError), file.open("rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                entry = json.loads(line)
                if isinstance(entry["turns"], list) and all(isinstance(turn, dict) for turn in entry["turns"]):
                    found[str(entry["key"])] = entry["turns"]
    return found


def _line(key: str, labels: Labels) -> bytes:
    return (json.dumps({"key": key, "turns": labels}) + "\n").encode()


def _rewrite(file: Path, known: Mapping[str, Labels]) -> None:
    """Keeps these lines alone. The file only saves time: where it cannot be written the report is made without it."""
    with contextlib.suppress(OSError):
        part = file.with_suffix(".part")
        part.write_bytes(b"".join(_line(key, labels) for key, labels in known.items()))
        part.replace(file)


def _work(todo: Sequence[_Task], rules: _Rules, file: Path, tell: Callable[[str], None]) -> dict[str, Labels]:
    """Labels all of them and appends each dialogue to the file when it is done, so that an interruption loses little."""
    replies = sum(len(task.replies) for task in todo)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(cores, len(todo)) if replies >= _WORKERS_FROM else 1
    found: dict[str, Labels] = {}
    lock = Lock()
    done, started = 0, time.monotonic()
    reported = started
    if replies > _SOON:
        tell(f"Labelling {replies:,} replies for the report on {workers} cores, once; this takes {_guess(replies / workers)}.")

    def keep(task: _Task, labels: Labels) -> None:
        nonlocal done, reported
        with lock:
            found[task.key] = labels
            with contextlib.suppress(OSError):
                kept.write(_line(task.key, labels))
                kept.flush()
            done += len(task.replies)
            now = time.monotonic()
            if now - reported > _PROGRESS_EVERY:
                reported = now
                tell(f"{done:,} of {replies:,} replies labelled, about {(now - started) / done * (replies - done):.0f} s to go.")

    queue = deque(todo)

    def worker(_: int) -> None:
        with _process(rules) as ask:
            while queue:
                try:
                    task = queue.popleft()
                except IndexError:  # another worker took the last one
                    return
                keep(task, ask(task))

    with contextlib.ExitStack() as open_files:
        try:
            kept: BinaryIO = open_files.enter_context(file.open("ab"))
        except OSError:
            kept = BytesIO()
        if workers == 1:
            for task in todo:
                keep(task, rules.apply(task))
        else:
            with ThreadPoolExecutor(workers) as threads:
                try:
                    list(threads.map(worker, range(workers)))
                except BaseException:  # Ctrl-C: tasks that are not begun are dropped
                    queue.clear()
                    raise
    return found


def _guess(replies: float) -> str:
    """How long a core needs, in words; about 1 ms a reply (benchmarks/embedded_speed.py)."""
    seconds = 0.001 * replies
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"


@contextlib.contextmanager
def _process(rules: _Rules) -> Iterator[Callable[[_Task], Labels]]:
    """A worker process and what asks it. Not `multiprocessing`: that would run a caller's script again in every worker."""
    command = [sys.executable, *_COMMAND, rules.spec.name, rules.scenario_set]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # each worker has a core
    environment = {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    ) as process:

        def ask(task: _Task) -> Labels:
            """Asks the worker, or does it here should the worker be gone."""
            body = [task.scenario.id, task.messages, task.replies]
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(body) + "\n")
                process.stdin.flush()
                answer: Labels = json.loads(process.stdout.readline())
            except (OSError, ValueError):
                return rules.apply(task)
            return answer

        try:
            yield ask
        finally:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()


def _serve(environment: str, scenario_set: str) -> None:
    """The worker: answers every line (scenario, messages, replies) with the labels of its dialogue. ASCII in, ASCII out."""
    spec = load_environment(environment)
    assert spec.labels is not None
    scenarios = {scenario.id: scenario for scenario in spec.scenarios.load(scenario_set)}
    for line in sys.stdin:
        scenario, messages, replies = json.loads(line)
        print(json.dumps(spec.labels.label(scenarios[scenario], messages, replies)), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
