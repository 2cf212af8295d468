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

__all__ = ["Transcript", "__version__", "load_environment", "play"]

try:
    __version__ = version("heartloop")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_MODULES = {
    "Transcript": "heartloop.core.dialogue",
    "load_environment": "heartloop.environments.registry",
    "play": "heartloop.environments.episode",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return vars(import_module(_MODULES[name]))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
