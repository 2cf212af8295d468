"""Files and processes of this machine: hashes, writing a file whole or not at all, a process that ends with its parent."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from pathlib import Path

__all__ = ["end_with_parent", "sha256_of", "write_whole"]

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Writes a text file so that a process killed in between leaves the old file, or none."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def end_with_parent(number: int) -> None:
    """Asks Linux to send this process a signal when the thread that started it ends, `kill -9` included; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)
