"""heartloop: how well a dialogue model takes care of a person over a whole conversation.

The names below are loaded on first use, so that `import heartloop` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heartloop.core.dialogue import Transcript
    from heartloop.environments.episode import play
    from heartloop.environments.registry import load_environment
    from heartloop.evaluation.api import Run, evaluate, load_run

__all__ = ["Run", "Transcript", "__version__", "evaluate", "load_environment", "load_run", "play"]

try:
    __version__ = version("heartloop")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_MODULES = {
    "Run": "heartloop.evaluation.api",
    "Transcript": "heartloop.core.dialogue",
    "evaluate": "heartloop.evaluation.api",
    "load_environment": "heartloop.environments.registry",
    "load_run": "heartloop.evaluation.api",
    "play": "heartloop.environments.episode",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return vars(import_module(_MODULES[name]))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
