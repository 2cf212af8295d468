"""Labels of a run's replies for its report: worked out once, over all cores, and kept in `labels.jsonl` beside the transcripts.

Covers which dialogues lack them, finding their people, sharing the work out and the file. Does not cover what a label says
(`heartloop.environments.sage.labels`). Labels are no part of a transcript: they change no score, and every line of the file
names what it was made from, so that another reply, another story or another rule makes it worthless, not wrong.
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

from heartloop.appraisal import lacks_english
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.sage import ReleasedScenario, Scenario, load_people
from heartloop.environments.sage.labels import label, rules_hash, talk_of
from heartloop.evaluation.runs import Run

__all__ = ["LABELS", "labelled"]

LABELS = "labels.jsonl"
"""One line a dialogue: `key`, a hash of the rules, the person and the talk, and `turns`, a label for each judged reply."""

_WORKERS_FROM = 400  # replies; below, starting further processes takes longer than it saves
_TELL_EVERY = 10.0  # seconds
_SOON = 1000  # replies that are done before anybody asks
_COMMAND = ["-m", "heartloop.environments.sage.labels"]  # of Python: the worker

Labels = list[Mapping[str, Any]]


class _Task(NamedTuple):
    """A dialogue to be labelled."""

    key: str
    scenario: Scenario
    said: list[str]
    heard: list[str]


def labelled(run: Run, *, tell: Callable[[str], None] = lambda _: None) -> Run:
    """The run with `Turn.evidence` where a simulator model played the person; other runs are given back as they are.

    What is in `labels.jsonl` already is taken from there. People are found by the run's scenario set and the fingerprint in
    the transcript; a dialogue whose person is not there any more, or is one of the authors' people, stays without labels.

    Args:
        tell: called with a sentence when the work will take long, every ten seconds while it does, and when people are missing.
    """
    keys = {id(d): _key(d) for d in run.transcripts if _lacks(d)}
    if not keys:
        return run
    file = run.path / LABELS
    kept = _read(file)
    known = {key: kept[key] for key in keys.values() if key in kept}
    lacking = {keys[id(d)]: d for d in run.transcripts if id(d) in keys and keys[id(d)] not in known}
    if lacking:
        todo = _tasks(lacking, run, tell)
        if todo and known.keys() != kept.keys():  # lines of replies or rules that are no more
            _rewrite(file, known)
        known |= _work(todo, file, tell) if todo else {}
    labels = [known.get(keys[id(d)]) if id(d) in keys else None for d in run.transcripts]
    return run._replace(
        transcripts=tuple(_with(d, found) if found else d for d, found in zip(run.transcripts, labels, strict=True))
    )


def _lacks(dialogue: Transcript) -> bool:
    """Whether the rules could read it and have not."""
    if dialogue.environment != "sage" or dialogue.simulator == "embedded" or lacks_english(dialogue.opening or ""):
        return False
    return any(turn.state is not None and not turn.evidence for turn in dialogue.turns)


def _key(dialogue: Transcript) -> str:
    """A hash of all that decides its labels."""
    body = json.dumps([rules_hash(), dialogue.fingerprint, *talk_of(dialogue)])
    return hashlib.sha256(body.encode()).hexdigest()[:24]


def _tasks(lacking: Mapping[str, Transcript], run: Run, tell: Callable[[str], None]) -> list[_Task]:
    """The dialogues with their people, as far as those have written lines and are there as they were."""
    name = str(run.settings.get("scenario_set", ""))
    try:
        found = load_people(name)
    except (InputError, UseError):
        found = []
    people = {(one.id, one.fingerprint): one for one in found if not isinstance(one, ReleasedScenario)}
    tasks = [
        _Task(key, people[d.scenario, d.fingerprint], *talk_of(d))
        for key, d in lacking.items()
        if (d.scenario, d.fingerprint) in people
    ]
    if len(tasks) < len(lacking) and not any(isinstance(one, ReleasedScenario) for one in found):
        tell(
            f"{len(lacking) - len(tasks)} dialogues of {run.path} carry no labels in the report: "
            f"their people are not in {name or 'any scenario set it names'} as they were."
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
    """What is kept; a line that cannot be read is passed over, its labels are made again."""
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
    """The file with these lines alone. It is there to save time: where it cannot be written the report is made without."""
    with contextlib.suppress(OSError):
        part = file.with_suffix(".part")
        part.write_bytes(b"".join(_line(key, labels) for key, labels in known.items()))
        part.replace(file)


def _work(todo: Sequence[_Task], file: Path, tell: Callable[[str], None]) -> dict[str, Labels]:
    """Labels all of them and appends each dialogue to the file when it is done, so that an interruption loses little."""
    replies = sum(len(task.heard) for task in todo)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(cores, len(todo)) if replies >= _WORKERS_FROM else 1
    found: dict[str, Labels] = {}
    lock = Lock()
    done, started = 0, time.monotonic()
    said = started
    if replies > _SOON:
        tell(f"Labelling {replies:,} replies for the report on {workers} cores, once; this takes {_guess(replies / workers)}.")

    def keep(task: _Task, labels: Labels) -> None:
        nonlocal done, said
        with lock:
            found[task.key] = labels
            with contextlib.suppress(OSError):
                kept.write(_line(task.key, labels))
                kept.flush()
            done += len(task.heard)
            now = time.monotonic()
            if now - said > _TELL_EVERY:
                said = now
                tell(f"{done:,} of {replies:,} replies labelled, about {(now - started) / done * (replies - done):.0f} s to go.")

    queue = deque(todo)

    def worker(_: int) -> None:
        with _process() as ask:
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
                keep(task, label(task.scenario, task.said, task.heard))
        else:
            with ThreadPoolExecutor(workers) as threads:
                try:
                    list(threads.map(worker, range(workers)))
                except BaseException:  # Ctrl-C: what is not begun is left
                    queue.clear()
                    raise
    return found


def _guess(replies: float) -> str:
    """How long a core needs, in words; 3 to 5 ms a reply (benchmarks/embedded_speed.py)."""
    seconds = 0.004 * replies
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"


@contextlib.contextmanager
def _process() -> Iterator[Callable[[_Task], Labels]]:
    """A worker process and what asks it. Not `multiprocessing`: that would run a caller's script again in every worker."""
    command = [sys.executable, *_COMMAND]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    ) as process:

        def ask(task: _Task) -> Labels:
            """Asks the worker, or does it here should the worker be gone."""
            body = {"scenario": task.scenario.model_dump(mode="json"), "said": task.said, "heard": task.heard}
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(body) + "\n")
                process.stdin.flush()
                answer: Labels = json.loads(process.stdout.readline())
            except (OSError, ValueError):
                return label(task.scenario, task.said, task.heard)
            return answer

        try:
            yield ask
        finally:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
