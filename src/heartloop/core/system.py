"""Files and processes of this machine: the hash of a file, writing a file atomically, a process that ends with its parent."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["end_with_parent", "replacing", "sha256_of", "write_whole"]

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path for a new file or folder that takes the place of `path` when the block ends without an error.

    A process that is killed leaves `path` as it was, and `NAME.part`, which the next attempt overwrites.
    """
    part = path.with_name(path.name + ".part")
    if part.is_dir():
        shutil.rmtree(part)
    yield part
    part.replace(path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file atomically; text as UTF-8."""
    with replacing(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def end_with_parent(number: int) -> None:
    """Asks Linux to send this process a signal when the thread that started it ends, `kill -9` included; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)
