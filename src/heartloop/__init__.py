"""heartloop: a dialogue model, a simulated person, and what that person felt after every turn."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("heartloop")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
