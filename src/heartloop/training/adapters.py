"""LoRA's adapters in a checkpoint that verl wrote: merged into the weights, so that the checkpoint is a model like any other.

verl 0.9.1 writes the state of the adapted model as it stands, base weights and adapters under peft's names, into a folder that
says it is a plain model; whoever loads it would get random weights. Covers that folder (W + alpha/rank B A, Hu et al. 2022).
Does not cover verl's own files beside it, from which training goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

__all__ = ["merge_adapters", "merged"]

_PREFIX = "base_model.model."
_INDEX = "model.safetensors.index.json"


def merge_adapters(folder: Path, *, rank: int, alpha: int) -> bool:
    """Merges in place, into one file; says whether there was anything to merge.

    Args:
        folder: a Hugging Face checkpoint with safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    state = {name: weights for file in files for name, weights in load_file(file).items()}
    if not any(".lora_A." in name for name in state):
        return False
    part = folder / "merged.part"
    save_file(merged(state, scale=alpha / rank), part, metadata={"format": "pt"})
    (folder / _INDEX).unlink(missing_ok=True)
    for file in files:
        file.unlink()
    part.replace(folder / "model.safetensors")
    return True


def merged(state: dict[str, Any], *, scale: float) -> dict[str, Any]:
    """An adapted model's weights by the plain model's names; sums in 32 bits, kept in the weights' own precision."""
    found = {}
    for name, weights in state.items():
        plain = name.removeprefix(_PREFIX)
        if ".lora_" in plain:
            continue
        if plain.endswith(".base_layer.weight"):
            layer = plain.removesuffix(".base_layer.weight")
            a, b = (_adapter(state, f"{_PREFIX}{layer}.lora_{which}.") for which in "AB")
            weights = (weights.float() + scale * b.float() @ a.float()).to(weights.dtype)
        found[plain.replace(".base_layer.", ".")] = weights.contiguous()
    return found


def _adapter(state: dict[str, Any], before: str) -> torch.Tensor:
    (name,) = (name for name in state if name.startswith(before))  # peft puts the adapter's name in between
    adapter: torch.Tensor = state[name]
    return adapter
