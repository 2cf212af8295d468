"""The two files of a writing run: finished scenarios (`NAME.jsonl`), and every step that led to them (`NAME.steps.jsonl`).

The steps begin with the settings. A model's raw answer is stored under the digest of its question, so that a killed run continues
without paying for it again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from heartloop.core.chat import ChatModel, Reply
from heartloop.core.dialogue import Message, Sampling, Usage, cut_torn_tail, writable
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.core.system import reported


class _Step(BaseModel):
    model_config = ConfigDict(strict=True)
    scenario: int | None = None
    step: str


class _Answer(_Step):
    question: str
    model: str
    role: str
    text: str
    finish_reason: str | None
    usage: Usage


class _Embedded(_Step):
    digest: str
    model: str
    vector: str
    usage: Usage | None

    @field_validator("vector")
    @classmethod
    def _holds_numbers(cls, vector: str) -> str:
        data = base64.b64decode(vector, validate=True)
        if not data or len(data) % 4:
            raise ValueError("no vector of 32-bit numbers")
        return vector


class _Verdict(_Step):
    verdict: Literal["kept", "refused", "passed"]
    id: str
    reason: str = ""


class _Audited(_Step):
    changed: list[dict[str, Any]]


_STEPS: Mapping[str, type[_Step]] = {"answer": _Answer, "embedded": _Embedded, "verdict": _Verdict, "audited": _Audited}


def steps_path(out: Path) -> Path:
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.steps.jsonl")


class Steps:
    """The steps of one scenario, or of the run as a whole (`number` is `None`)."""

    def __init__(self, number: int | None, files: WrittenFiles) -> None:
        self.number, self._files = number, files
        self._lines: set[str] = set()
        self._kept: list[dict[str, Any]] = []

    def note(self, step: str, **facts: Any) -> None:
        """Appends a step, unless a killed process stored it before."""
        line = writable(json.dumps({"scenario": self.number, "step": step, **facts}, ensure_ascii=False))
        if line not in self._lines:
            self._files.append(line, steps=True)
            self.found(line, {"step": step, **facts})

    def found(self, line: str, facts: dict[str, Any]) -> None:
        self._lines.add(line)
        self._kept.append(facts)

    def of(self, step: str) -> Iterator[dict[str, Any]]:
        return (facts for facts in self._kept if facts["step"] == step)


class WrittenFiles:
    """Context manager of both files, locked by this process; `settings` is what decides the texts."""

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        self.out, self.path = out, steps_path(out)
        self.settings = json.loads(json.dumps(settings))
        self._lock = FileLock(out.with_name(f".{out.name}.lock"))
        self._steps: dict[int | None, Steps] = {}
        self._opened: dict[Path, BinaryIO] = {}

    def __enter__(self) -> Self:
        try:
            if self.out.exists() and not self.path.exists():
                raise UseError(f"{self.out} exists without the steps of a writing run next to it; choose another --out")
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                stack.enter_context(self._lock.acquire(timeout=0))
                for path in (self.path, self.out):
                    if path.exists():
                        cut_torn_tail(path)
                    self._opened[path] = stack.enter_context(path.open("ab"))
                self._read_steps()
                self._stack = stack.pop_all()
        except Timeout as error:
            raise UseError(f"another process is writing to {self.out}; wait for it, or choose another --out") from error
        except OSError as error:
            raise UseError(f"cannot write to {self.out}: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def steps(self, number: int | None = None) -> Steps:
        return self._steps.setdefault(number, Steps(number, self))

    @property
    def spent(self) -> list[tuple[str, str, Usage]]:
        """Model, role and tokens of every stored call."""
        return [
            (facts["model"], facts.get("role", "embedder"), Usage.model_validate(facts["usage"]))
            for steps in self._steps.values()
            for facts in (*steps.of("answer"), *steps.of("embedded"))
            if facts["usage"] is not None
        ]

    def append(self, line: str, *, steps: bool = False) -> None:
        path = self.path if steps else self.out
        with reported(f"write to {path}", "free some space, then rerun the same command"):
            self._opened[path].write(writable(line).encode() + b"\n")
            self._opened[path].flush()

    def _read_steps(self) -> None:
        lines = [line for line in self.path.read_bytes().split(b"\n") if line.strip()]
        if not lines:
            self.append(json.dumps({"settings": self.settings}, ensure_ascii=False), steps=True)
            return
        first = self._read(1, lines[0]).get("settings")
        if not isinstance(first, dict):
            raise UseError(f"{self.path} holds no steps of a writing run; choose another --out")
        names = self.settings.keys() | first.keys()
        if changed := sorted(name for name in names if self.settings.get(name) != first.get(name)):
            raise SettingsMismatch(
                f"{self.out} was made with other settings: {', '.join(changed)} differ; "
                "rerun the first command to continue it, or choose another --out"
            )
        for number, raw in enumerate(lines[1:], start=2):
            facts = self._read(number, raw)
            try:
                step = _STEPS.get(str(facts.get("step")), _Step).model_validate(facts)
            except ValidationError as error:
                raise self._broken(number, "not a whole step") from error
            facts.pop("scenario", None)
            self.steps(step.scenario).found(raw.decode(), facts)

    def _read(self, number: int, raw: bytes) -> dict[str, Any]:
        try:
            facts = json.loads(raw.decode())
        except (ValueError, RecursionError) as error:
            raise self._broken(number, str(error)) from error
        if not isinstance(facts, dict):
            raise self._broken(number, "no JSON object")
        return facts

    def _broken(self, number: int, problem: str) -> InputError:
        return InputError(f"{self.path}, line {number}: {problem}; remove that line, then rerun the same command")


class StoredAnswers:
    """A `ChatModel` that answers a repeated question from the stored steps, and stores new answers."""

    def __init__(self, model: ChatModel, steps: Steps, *, role: str, of: str, prompt: str) -> None:
        self._model, self.name, self._steps = model, model.name, steps
        self._facts = {"of": of, "role": role, "prompt": prompt}
        self._given: dict[str, int] = {}

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        asked = [self.name, *((m.role, m.content) for m in messages), sampling.model_dump() if sampling else None]
        question = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:24]
        nth = self._given[question] = self._given.get(question, 0) + 1
        kept = (facts for facts in self._steps.of("answer") if facts["question"] == question)
        if facts := next(islice(kept, nth - 1, None), None):
            return Reply(facts["text"], finish_reason=facts["finish_reason"], usage=Usage.model_validate(facts["usage"]))
        reply = await self._model.complete(messages, schema=schema, sampling=sampling)
        self._steps.note(
            "answer", **self._facts, model=self.name, question=question, nth=nth, text=writable(reply.text),
            finish_reason=reply.finish_reason, usage=reply.usage.model_dump(),
        )  # fmt: skip
        return reply
