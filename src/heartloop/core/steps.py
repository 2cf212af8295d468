"""The steps of a training run on disk: `metrics.jsonl`, one JSON object per line.

Covers reading them, for training and for its report, which do not import each other. Does not cover writing them
(`training.metrics`), nor the meaning of each metric (`report.training_metrics`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heartloop.core.errors import InputError

__all__ = ["read_steps"]


def read_steps(file: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`: `step`, `attempt`, and `data`, the metrics by name.

    A half-written last line is skipped. A metric without a value is `None` or nan, as it was logged.

    Raises:
        InputError: the file cannot be read, or a line is not a step; names the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {file}: {error}; expected the steps of a training run") from error
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
