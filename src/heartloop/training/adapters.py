"""Merges LoRA's adapters into the weights of a checkpoint that verl wrote, so that the checkpoint is a model like any other.

verl 0.9.1 writes base weights and adapters under peft's names into a directory whose configuration is a plain model's; loading it
would give random weights. Covers that directory (W + alpha/rank B A, Hu et al. 2022). Does not cover verl's own files beside it,
from which training resumes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from heartloop.core.system import replacing

__all__ = ["merge_adapters", "merged"]

_PREFIX = "base_model.model."
_INDEX = "model.safetensors.index.json"


def merge_adapters(folder: Path, *, rank: int, alpha: int) -> bool:
    """Merges in place, into one file; returns whether there were adapters.

    Args:
        folder: a Hugging Face checkpoint with safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    state = {name: weights for file in files for name, weights in load_file(file).items()}
    if not any(".lora_A." in name for name in state):
        return False
    with replacing(folder / "model.safetensors") as part:
        save_file(merged(state, scale=alpha / rank), part, metadata={"format": "pt"})
        (folder / _INDEX).unlink(missing_ok=True)
        for file in files:
            file.unlink()
    return True


def merged(state: dict[str, Any], *, scale: float) -> dict[str, Any]:
    """An adapted model's weights by the plain model's names; summed in 32 bits, returned in the weights' own precision."""
    plain_state = {}
    for name, weights in state.items():
        plain = name.removeprefix(_PREFIX)
        if ".lora_" in plain:
            continue
        if plain.endswith(".base_layer.weight"):
            layer = plain.removesuffix(".base_layer.weight")
            a, b = (_adapter(state, f"{_PREFIX}{layer}.lora_{which}.") for which in "AB")
            weights = (weights.float() + scale * b.float() @ a.float()).to(weights.dtype)
        plain_state[plain.replace(".base_layer.", ".")] = weights.contiguous()
    return plain_state


def _adapter(state: dict[str, Any], before: str) -> torch.Tensor:
    (name,) = (name for name in state if name.startswith(before))  # the name has the adapter's name in it
    adapter: torch.Tensor = state[name]
    return adapter
