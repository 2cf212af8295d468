"""Files, processes and the installation: hashes, atomic writes, the command that installs an extra, a training run's steps."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from heartloop.core.errors import InputError, UseError


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path for a file or folder that replaces `path` at the end of the block; a killed process leaves `NAME.part`."""
    part = path.with_name(path.name + ".part")
    if part.is_dir():
        shutil.rmtree(part)
    yield part
    part.replace(path)


@contextmanager
def reported(attempt: str, remedy: str = "choose another --out") -> Iterator[None]:
    """An `OSError` becomes a `UseError`: cannot `attempt`, why, and what to do."""
    try:
        yield
    except OSError as error:
        raise UseError(f"cannot {attempt}: {error.strerror}; {remedy}") from error


@contextmanager
def readable(path: Path, expected: str) -> Iterator[None]:
    """An error of reading a file becomes an `InputError` that says what the file should be."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 ({error.reason} at byte {error.start + 1})"
        raise InputError(f"cannot read {path}: {reason}; expected {expected}") from error


@cache
def packaged_table(package: str, file: str) -> Mapping[str, Any]:
    """A TOML file of a package."""
    return tomllib.loads((resources.files(package) / file).read_text(encoding="utf-8"))


def write_whole(path: Path, content: str | bytes) -> None:
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def end_with_parent(number: int) -> None:
    """Asks Linux to send this process a signal when the thread that started it ends, `kill -9` included; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


@cache
def install_command(extra: str) -> str:
    try:
        origin = metadata.distribution("heartloop").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        origin = None
    return install_command_from(origin, extra)


def install_command_from(origin: str | None, extra: str) -> str:
    """The command for an origin: the content of `direct_url.json`, `None` for an installation from an index.

    >>> install_command_from(None, "train")
    "pip install 'heartloop[train]'"
    >>> install_command_from('{"url": "file:///home/me/heartloop", "dir_info": {"editable": true}}', "train")
    "pip install -e '/home/me/heartloop[train]'"
    >>> install_command_from('{"url": "https://host/heartloop.git", "vcs_info": {"vcs": "git", "commit_id": "1f0e"}}', "train")
    "pip install 'heartloop[train] @ git+https://host/heartloop.git@1f0e'"
    """
    record = json.loads(origin) if origin else {}
    url = str(record.get("url", ""))
    if "dir_info" in record:
        editable = "-e " if record["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    if "vcs_info" in record:
        at = record["vcs_info"]
        return f"pip install 'heartloop[{extra}] @ {at.get('vcs')}+{url}@{at.get('commit_id')}'"
    return f"pip install 'heartloop[{extra}]{f' @ {url}' if url else ''}'"


def read_steps(file: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`: `step`, `attempt`, and `data` by name; a half-written last line is skipped."""
    with readable(file, "the steps of a training run"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    steps = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            break
        try:
            step = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number} is not JSON: {error}; remove the line") from error
        if not isinstance(step, dict) or type(step.get("step")) is not int or not isinstance(step.get("data"), dict):
            raise InputError(f"{file}, line {number} is not a step; expected an object with step and data; remove the line")
        steps.append(step)
    return steps
