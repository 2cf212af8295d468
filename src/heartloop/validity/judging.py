"""What `heartloop validate` has judges do: answer the questions of run suites (`answers.jsonl`), or judge a run in variants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Sampling, Transcript, cut_torn_tail
from heartloop.core.errors import BudgetSpent, HeartloopError, InputError
from heartloop.core.system import reported
from heartloop.environments.dialogue_text import chance
from heartloop.environments.spec import Scenario
from heartloop.environments.suites import Judges, Material, Question, RejudgingSuite, RunSuite, Variants
from heartloop.evaluation.digests import Place
from heartloop.evaluation.rescoring import RejudgeSettings, Rejudging
from heartloop.evaluation.settings import Job
from heartloop.evaluation.store import stored_dialogues, stored_transcripts
from heartloop.models.cache import dialogue_scope

_Source = tuple[Transcript, Scenario, Transcript | None]


class Answered(NamedTuple):
    """A suite's questions to one judge."""

    answers: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, str]
    asked: int
    """Questions asked by this call."""
    open: int
    """Known questions that are not asked yet."""
    stopped: str | None = None


class AnswerFile:
    """`answers.jsonl` of a validation: a line per answer or failure; of several to one question the last counts.

    Answers of the embedded judge cost nothing and depend on its weights, so they are not written, only remembered.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None  # opened for the first answer
        self._found: dict[tuple[str, str, str], dict[str, Any]] = {}
        line = ""
        try:
            if path.is_file():
                cut_torn_tail(path)
                for line in path.read_text(encoding="utf-8").splitlines():
                    row = json.loads(line)
                    if row["judge"] != EMBEDDED:
                        self._found[row["suite"], row["judge"], row["key"]] = row
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; choose another --out") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {line[:60]!r}: {error}; expected an answer of heartloop validate, remove the line"
            ) from error

    def find(self, suite: str, judge: str, question: Question) -> dict[str, Any] | None:
        """The stored line of a question, if it was asked with the same fingerprint."""
        row = self._found.get((suite, judge, question.key))
        return row if row is not None and row["fingerprint"] == question.fingerprint else None

    def append(self, suite: str, judge: str, question: Question, **outcome: Any) -> None:
        """Keeps an answer (`answer=`) or a failure (`failure=`)."""
        row = {"suite": suite, "judge": judge, "key": question.key, "fingerprint": question.fingerprint, **outcome}
        self._found[suite, judge, question.key] = row
        if judge == EMBEDDED:
            return
        with reported(f"write {self._path}"):
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a", encoding="utf-8")
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()  # a killed process loses no answer

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def answer_all(
    name: str,
    suite: RunSuite,
    material: Material,
    judge: str,
    model: ChatModel | None,
    file: AnswerFile,
    *,
    sampling: Sampling | None = None,
    max_connections: int = 32,
    retry_failed: bool = False,
    at_most: int | None = None,
    report: Callable[[int, int], None] = lambda done, planned: None,
) -> Answered:
    """Asks a judge every open question of a suite, at most `at_most`; without a model, the embedded judge."""
    tried: set[str] = set()
    stopped: str | None = None
    done = planned = 0

    async def work(ahead: Iterator[Question]) -> None:
        nonlocal done, stopped
        for one in ahead:  # shared by the workers, each takes the next question
            if stopped is not None:
                return
            tried.add(one.key)
            try:
                with dialogue_scope():
                    answer = await one.ask(model, sampling)
            except BudgetSpent as error:
                stopped = str(error)
                return
            except HeartloopError as error:
                file.append(name, judge, one, failure=f"{type(error).__name__}: {error}")
            else:
                file.append(name, judge, one, answer=answer)
            done += 1
            report(done, planned)

    while True:
        answers, failed, waiting = _sorted(name, suite, material, judge, file)
        if retry_failed:
            waiting += [one for one in suite.questions(material, answers) if one.key in failed and one.key not in tried]
        ahead = [one for one in waiting if one.key not in tried]
        chosen = ahead if at_most is None else ahead[: at_most - len(tried)]
        if stopped is not None or not chosen:
            return Answered(answers, failed, len(tried), len(ahead), stopped)
        done = len(answers) + len(failed)
        planned = done + len(waiting)
        report(done, planned)
        queue = iter(chosen)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(max_connections, len(chosen))):
                group.create_task(work(queue))


def _sorted(
    name: str, suite: RunSuite, material: Material, judge: str, file: AnswerFile
) -> tuple[dict[str, Mapping[str, Any]], dict[str, str], list[Question]]:
    """Answers, failures, and open questions; asks the suite again until its answers bring no further question."""
    answers: dict[str, Mapping[str, Any]] = {}
    while True:
        failed: dict[str, str] = {}
        waiting: list[Question] = []
        before = len(answers)
        for one in suite.questions(material, answers):
            row = file.find(name, judge, one)
            if row is None:
                waiting.append(one)
            elif "answer" in row:
                answers[one.key] = row["answer"]
            else:
                failed[one.key] = row["failure"]
        if len(answers) == before:
            return answers, failed, waiting


class JudgedVariants:
    """A run and the judges that read it in every variant of a suite; `how` are further arguments of `Rejudging`.

    With a limit, scored dialogues are sampled by scenario and repeat, so that those of all models come together; a larger limit
    includes those of a smaller one.
    """

    def __init__(
        self, run: Path, name: str, suite: RejudgingSuite, judges: Judges, *, limit: int | None = None, **how: Any
    ) -> None:
        self._source = Rejudging(run, judges.judge, **how)
        self._name = name
        self._suite = suite
        self._judges = judges
        self._limit = limit

    def settings(self, variant: str) -> RejudgeSettings:
        base = self._source.settings
        return base.model_copy(
            update={
                "prompts": {**base.prompts, **self._judges.prompts},
                "rejudged": {**base.rejudged, "suite": self._name, "variant": variant},
            }
        )

    @property
    def jobs(self) -> list[Job]:
        order = sorted(self._source.jobs, key=lambda job: (chance("validate", job.scenario, job.repeat), job.model))
        chosen = {job.key for job in [job for job in order if self._source.is_scored(job)][: self._limit]}
        return [job for job in self._source.jobs if self._limit is None or job.key in chosen]

    def source(self, variant: str, originals: Path) -> Callable[[Job], _Source]:
        """What gives a job's dialogue, scenario, and judged original from the finished run of the suite's first variant."""
        places: dict[tuple[str, str, int], Place] = {}
        if variant != self._suite.variants[0]:
            places = {transcript.key: place for place, transcript in stored_dialogues(originals)}

        def source(job: Job) -> _Source:
            original = places.get(job.key)
            return (*self._source.source(job), original.read() if original else None)

        return source

    def play(self, variant: str) -> Callable[[Job, _Source], Awaitable[Transcript]]:
        """Judges a job's dialogue in a variant, given its `source`."""
        return partial(_play, self._judges, variant, str(self._source.settings.options["preset"]))


async def _play(judges: Judges, variant: str, preset: str, job: Job, source: _Source) -> Transcript:
    played, scenario, original = source
    return await judges.transcript(played, scenario, variant=variant, preset=preset, original=original)


def directories(out: Path, runs: Sequence[Path], variants: Sequence[str]) -> list[dict[str, Path]]:
    """For each run the run directory of every variant, in a folder named after the run; further runs of one name are numbered.

    >>> [paths["original"].as_posix() for paths in directories(Path("v"), [Path("a/run"), Path("b/run")], ["original"])]
    ['v/run/original', 'v/run-2/original']
    """
    names = [(run if run.name not in ("", "..") else run.resolve()).name for run in runs]
    earlier = [names[:place].count(name) for place, name in enumerate(names)]
    folders = [f"{name}-{number + 1}" if number else name for name, number in zip(names, earlier, strict=True)]
    return [{variant: out / folder / variant for variant in variants} for folder in folders]


def judged_variants(paths: Sequence[Mapping[str, Path]], suite: RejudgingSuite) -> list[Variants]:
    return [
        {variant: list(stored_transcripts(path)) for variant, path in run.items() if path.is_dir()}
        for run in paths
        if run[suite.variants[0]].is_dir()
    ]
