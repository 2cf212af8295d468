"""The plug-in that verl loads in every process: by the entry point group `verl.plugins` when verl itself is imported.

verl logs a plug-in that fails to load at DEBUG and continues without it. A run with `trainer.v1.trainer_mode=heartloop` then
fails at once, as the trainer is not registered.
"""

from __future__ import annotations

import os

if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    from heartloop.training import platform_cpu  # noqa: F401, I001  # first: what follows asks verl for its platform
    from heartloop.training import engine_cpu  # noqa: F401
from heartloop.training import estimators, replica_cpu, trainer  # noqa: F401

__all__: list[str] = []
