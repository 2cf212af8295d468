"""Writing a run directory: `settings.json`, `transcripts.jsonl`, `log.jsonl`.

Covers creating and reopening it, the lock against a second process, appending transcripts, and which dialogues are finished. Does
not cover scores (`scores`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from filelock import FileLock, Timeout
from pydantic import ValidationError
from pydantic_core import from_json

from heartloop.core.dialogue import Transcript, cut_torn_tail, read_transcripts, write_line
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.core.system import write_whole
from heartloop.evaluation.settings import EvaluationSettings

__all__ = ["RunDirectory", "check_new", "played_settings", "runs_in", "saved_settings"]


class RunDirectory:
    """A run directory locked by this process; a context manager.

    Entering it reads the finished dialogues and removes an incomplete last line of a killed process.

    Args:
        found: called with every stored transcript on entering, for example to add up its tokens.

    Raises:
        UseError: the directory cannot be written, has other content, or is locked by another process.
        SettingsMismatch: it was made with other settings; names them.
        InputError: a stored transcript cannot be read.
    """

    def __init__(self, path: Path, settings: EvaluationSettings, *, found: Callable[[Transcript], None] | None = None) -> None:
        self.path = path
        self.settings = settings
        self._found = found
        self.finished: dict[tuple[str, str, int], bool] = {}
        """Whether a finished dialogue was scored, by key."""
        self.failures: dict[tuple[str, str, int], list[str]] = {}
        """Kinds of failure (`Failure.kind`) of each failed dialogue, one per attempt."""
        self._lock = FileLock(path / ".lock")
        self._file: BinaryIO | None = None

    @property
    def transcripts(self) -> Path:
        """Path of `transcripts.jsonl`."""
        return self.path / "transcripts.jsonl"

    def is_new(self) -> bool:
        """Whether entering creates the run. Writes nothing.

        Raises:
            UseError: the path is a file, or a directory with other content.
        """
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UseError(f"{self.path} is a file; expected a run directory, choose another --out")
            ours = {".lock", "settings.json.part"}  # left by a run that was killed before it wrote its settings
            if self._fresh and self.path.is_dir() and any(p.name not in ours for p in self.path.iterdir()):
                raise UseError(f"{self.path} is not empty and holds no settings.json; choose an empty directory for --out")
            return self._fresh
        except OSError as error:
            raise UseError(f"cannot read {self.path}: {error.strerror}; choose another --out") from error

    def __enter__(self) -> Self:
        self.is_new()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise UseError(f"another process is writing to {self.path}; wait for it, or choose another --out") from error
        except OSError as error:
            raise UseError(f"cannot write to {self.path}: {error.strerror}; choose another --out") from error
        try:
            self._open(self._fresh)  # checked again: another process may have been first
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._file is not None:
                with contextlib.suppress(OSError):  # a full disk was reported on writing
                    self._file.close()
        finally:
            self._lock.release()

    def note(self, **facts: object) -> None:
        """Appends a line to `log.jsonl`, for example with the retried calls of a process."""
        line = json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError), (self.path / "log.jsonl").open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = end > 0 and file.read(1) != b"\n"  # an incomplete line of a killed process
            file.write(b"\n" + line if torn else line)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The entries of earlier processes; unreadable lines are skipped."""
        entries: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):
            for line in (self.path / "log.jsonl").read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError, RecursionError):  # ValueError: no JSON, no UTF-8
                    facts = json.loads(line)
                    if isinstance(facts, dict):
                        entries.append(facts)
        return entries

    def append(self, transcript: Transcript) -> None:
        """Writes a transcript as one line and flushes it.

        Raises:
            UseError: the file cannot be written.
        """
        if self._file is None:
            raise RuntimeError("the run directory is not open")
        try:
            self._file.write(write_line(transcript).encode())
            self._file.flush()
        except OSError as error:
            raise UseError(
                f"cannot write to {self.transcripts}: {error.strerror}; free some space, then rerun the same command"
            ) from error
        self._count(transcript)

    def _count(self, transcript: Transcript) -> None:
        self.finished[transcript.key] = transcript.scored
        if transcript.failure is not None:
            self.failures.setdefault(transcript.key, []).append(transcript.failure.kind)

    @property
    def _fresh(self) -> bool:
        return not (self.path / "settings.json").exists()

    def _open(self, fresh: bool) -> None:
        if fresh:
            body = json.dumps(self.settings.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
            write_whole(self.path / "settings.json", body)
        else:
            saved = saved_settings(self.path)
            changed = self.settings.differences(saved)
            if changed:
                raise SettingsMismatch(
                    f"{self.path} was made with other settings: {', '.join(changed)} differ; "
                    "rerun the original command to resume it, or choose another --out"
                )
        if self.transcripts.exists():
            cut_torn_tail(self.transcripts)
            for transcript in read_transcripts(self.transcripts):
                self._count(transcript)
                if self._found is not None:
                    self._found(transcript)
        self._file = self.transcripts.open("ab")


def runs_in(folder: Path) -> list[Path]:
    """The folder itself, or where it is no run directory and holds some, as that of `heartloop demo`, these by name."""
    if (folder / "settings.json").is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/settings.json")) or [folder]


def saved_settings(run: Path) -> dict[str, Any]:
    """The content of `settings.json`, unchanged.

    Raises:
        InputError: it is missing, unreadable, or no JSON object.
    """
    path = run / "settings.json"
    if not path.is_file():
        raise InputError(f"{run} is no run directory; expected settings.json in it")
    try:
        saved = from_json(path.read_bytes(), allow_inf_nan=False)  # rejects lone surrogates too
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path}: {error}; expected the JSON that a run writes; "
            "remove the file and rerun the command that made the run"
        ) from error
    if not isinstance(saved, dict):
        raise InputError(f"{path} holds {type(saved).__name__}; expected a JSON object")
    return saved


def played_settings(run: Path) -> EvaluationSettings:
    """The settings of a run that was played or imported.

    Raises:
        UseError: the run was rescored or rejudged.
        InputError: it is no run directory, or its settings are invalid.
    """
    saved = saved_settings(run)
    for kind in ("rescored", "rejudged"):
        if kind in saved:
            raise UseError(f"{run} is a {kind} run; use its source, which its settings.json names")
    try:
        return EvaluationSettings.model_validate(saved)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{run / 'settings.json'}, {where}: {first['msg']}; expected the settings that a run writes") from error


def check_new(out: Path) -> None:
    """Checks that a path is free for a new run.

    Raises:
        UseError: it is a file, a directory that is not empty, or unreadable.
    """
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UseError(f"{out} exists and is not empty; choose another --out, or remove it")
    except OSError as error:
        raise UseError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
