"""Where a number was measured: processor, cores, system, versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["machine", "processor", "versions"]


def machine(*packages: str) -> dict[str, str]:
    """The machine in words, and the versions of Python and of some packages."""
    return {"machine": processor(), **versions(*packages)}


def processor() -> str:
    """Cores and processor in words."""
    return f"{_cores()} cores of {_processor()}"


def versions(*packages: str) -> dict[str, str]:
    """The system, and the versions of Python and of some packages."""
    found = {"system": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """As the system names it; no host name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
