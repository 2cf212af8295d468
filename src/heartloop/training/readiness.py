"""What a recipe needs and this machine lacks, each with a remedy.

Covers the extra, GPUs and memory, the policy's weights, the endpoint of the user simulator, Ray's cluster. Uses no network and
loads no engine, so that it runs anywhere. Does not cover the scenarios (`dataset`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from heartloop.core.chat import EMBEDDED
from heartloop.core.errors import UseError
from heartloop.core.install import install_command
from heartloop.models.local import is_local
from heartloop.models.names import resolve
from heartloop.training.gguf_policy import missing_for
from heartloop.training.recipe import Recipe
from heartloop.training.recipe_sections import LAPTOP
from heartloop.training.verl_config import environment_of

__all__ = ["EXTRA", "Missing", "gigabytes_per_gpu", "missing"]

EXTRA = ("verl", "ray", "torch", "transfer_queue", "transformers", "tensordict")
"""Modules of the extra `train`."""

_YES = ("1", "true", "yes", "on")
_LEAST_MEMORY = 3.0
"""Gigabytes of memory for verl, Ray and a laptop policy (ours; 1.6 measured with a tiny policy)."""
_WITH_GGUF = 15.0
"""The same with the smallest instruct model, a GGUF file of 135M parameters (measured: 15.0 with `grpo_smollm2`)."""


class Missing(NamedTuple):
    """Something that a run needs."""

    what: str
    remedy: str
    stops: bool = True
    """Whether a run cannot start without it."""
    planned: bool = False
    """Whether a dry run is complete without it."""


def missing(recipe: Recipe) -> list[Missing]:
    """What this machine lacks for a recipe; items that stop a run come first."""
    items = [*_software(recipe), *_hardware(recipe), *_weights(recipe), *_user(recipe)]
    return sorted(items, key=lambda item: not item.stops)


def gigabytes_per_gpu(recipe: Recipe) -> float | None:
    """Memory of weights alone, from the size in the policy's name; `None` without one.

    Sixteen bytes a weight for training (weight, gradient, AdamW's two; with LoRA four, as only the adapters have the others),
    spread over all GPUs, and two for drawing replies, spread over `tensor_parallel`. What offloading moves out is left out.
    Activations and the key-value cache come on top.
    """
    size = re.search(r"(\d+(?:\.\d+)?)B\b", recipe.policy.model, re.IGNORECASE)
    if size is None:
        return None
    machine, billions = recipe.machine, float(size[1])
    training = (4 if machine.offload or recipe.policy.lora_rank else 16) * billions * (2 if recipe.algorithm.name == "ppo" else 1)
    return training / (machine.ranks * machine.nodes) + 2 * billions / machine.tensor_parallel


def _software(recipe: Recipe) -> Iterator[Missing]:
    absent = [name for name in EXTRA if find_spec(name) is None]
    if absent:
        python = "" if sys.version_info < (3, 13) else " with Python 3.11 or 3.12"
        yield Missing(
            f"the extra train is not installed ({', '.join(absent)} not found)",
            f"{install_command('train')}{python}",
            planned=True,
        )
    engine = {"vllm": "vllm", "sglang": "sglang"}.get(recipe.machine.engine)
    if engine and find_spec(engine) is None:
        yield Missing(f"the engine {engine} is not installed", f"pip install {engine} as verl's documentation says for your GPU")
    if recipe.machine.flash_attention and find_spec("flash_attn") is None:
        yield Missing("flash-attn is not installed", "install it, or --set machine.flash_attention=false")
    for logger in recipe.watching.loggers:
        if find_spec(logger) is None:
            yield Missing(f"the logger {logger} is not installed", f"pip install {logger}, or leave it out of watching.loggers")


def _hardware(recipe: Recipe) -> Iterator[Missing]:
    machine = recipe.machine
    if machine.nodes > 1 and not os.environ.get("RAY_ADDRESS"):
        yield Missing(
            f"{machine.nodes} nodes need a Ray cluster", "start one with `ray start`, and set RAY_ADDRESS to its address"
        )
    if machine.device == "cpu":
        free, needed = _free_memory(), _WITH_GGUF if is_local(recipe.policy.model) else _LEAST_MEMORY
        if free is not None and free < needed:
            yield Missing(f"{free:.1f} GB of memory are free", f"free some; a run takes about {needed:g} GB", stops=False)
        return
    gpus = _gpus()
    if len(gpus) < machine.ranks:
        yield Missing(
            f"{len(gpus)} GPUs here, {machine.ranks} needed", "run it on a machine with GPUs, or --set machine.ranks=..."
        )
    wanted = gigabytes_per_gpu(recipe)
    if gpus and wanted is not None and min(gpus) < wanted:
        shortage = f"a GPU here has {min(gpus):.0f} GB; the weights alone take about {wanted:.0f} GB on each"
        yield Missing(shortage, "more GPUs (machine.ranks, machine.nodes), or --set machine.offload=true", stops=False)


def _weights(recipe: Recipe) -> Iterator[Missing]:
    model = recipe.policy.model
    if is_local(model):
        yield from (Missing(what, remedy) for what, remedy in missing_for(model))
        return
    if model == LAPTOP or (Path(model) / "config.json").is_file():
        return
    if model.startswith((".", "/", "~")):
        yield Missing(f"{model} holds no checkpoint (config.json)", "give a directory that holds one: --set policy.model=DIR")
        return
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{model.replace('/', '--')}"
    if not cache.is_dir():
        offline = "HF_HUB_OFFLINE" in environment_of(recipe) or os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES
        yield Missing(
            f"{model} is not on this machine",
            "give a directory: --set policy.model=DIR" if offline else "it is downloaded at the start; or --set policy.model=DIR",
            stops=offline,
        )


def _user(recipe: Recipe) -> Iterator[Missing]:
    if recipe.dialogue.user == EMBEDDED:
        return
    try:
        resolve(recipe.dialogue.user)
    except UseError as error:
        yield Missing("the user simulator cannot be called", f"{error}; or choose another: --set dialogue.user=service/model")


def _gpus() -> list[float]:
    """Gigabytes of each GPU, by the driver's own tool; empty where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [float(line) / 1024 for line in output.stdout.split() if line.isdigit()] if output.returncode == 0 else []


def _free_memory() -> float | None:
    """Gigabytes of available memory on Linux; `None` elsewhere."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(match[1]) / 2**20 if match else None
