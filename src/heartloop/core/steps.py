"""A training run's steps as they lie on disk: `metrics.jsonl`, one JSON object a line.

Covers reading them, for who trains and for who draws, which do not know each other. Does not cover who writes them
(`training.progress`), nor what each metric means (`analysis.training_metrics`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heartloop.core.errors import InputError

__all__ = ["read_steps"]


def read_steps(file: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`: `step`, `attempt`, and `data`, the metrics by name.

    A last line that is half written is left out. A metric without a number stands as `None` or nan, as it was logged.

    Raises:
        InputError: a file that cannot be read, or a line that is no step; names it.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}; expected the steps of a training run") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith("\n"):
            break
        try:
            step = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number} is no JSON: {error}; remove the line") from error
        if not isinstance(step, dict) or type(step.get("step")) is not int or not isinstance(step.get("data"), dict):
            raise InputError(f"{file}, line {number} is no step; expected an object with step and data, or remove the line")
        found.append(step)
    return found
