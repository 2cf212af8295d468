"""What a recipe will do and what this machine lacks for it. It loads no engine and calls no model, so it runs anywhere."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from heartloop.core.chat import EMBEDDED
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import install_command
from heartloop.core.text import amount
from heartloop.environments.training import EMBEDDED_CAUTION
from heartloop.evaluation.plan import option_flags, request_flags
from heartloop.models.client import EndpointChat
from heartloop.models.local import is_local
from heartloop.models.names import resolve, settings_taken_by
from heartloop.training.local_policy import missing_for
from heartloop.training.recipe import LAPTOP, Recipe, ScenarioSets
from heartloop.training.verl_config import Split, environment_of, rendered, split_of


class Counts(NamedTuple):
    """Upper bounds of a step, in all steps without held-out evaluations, and of one evaluation; calls are those of the user."""

    dialogues: int
    samples: int
    updates: int
    calls: int
    all_calls: int
    all_tokens: int
    evaluations: int
    held_out_calls: int


def counts_of(recipe: Recipe, held_out: int) -> Counts:
    """Counts of a run with `held_out` scenarios held out.

    >>> from heartloop.training.recipe import read_recipe
    >>> counts = counts_of(read_recipe("ctc_grpo_qwen3_8b"), held_out=213)
    >>> counts.calls, counts.all_calls  # EIBench Table 12: 1,024; 256 thousand
    (1024, 256000)
    """
    batch, dialogue, watching = recipe.batch, recipe.dialogue, recipe.watching
    training, max_turns = recipe.environment.training, recipe.environment.chosen.max_turns
    per_turn = 0 if dialogue.user == EMBEDDED else training.calls_per_turn
    samples = batch.dialogues * (max_turns if dialogue.sample == "turn" else 1)
    calls = batch.dialogues * max_turns * per_turn
    every = watching.validate_every
    evaluations = math.ceil(batch.steps / every) + watching.validate_first if every else 0
    return Counts(
        dialogues=batch.dialogues,
        samples=samples,
        updates=math.ceil(samples / batch.samples_per_update) * batch.passes,
        calls=calls,
        all_calls=calls * batch.steps,
        all_tokens=calls * batch.steps * training.tokens_per_call,
        evaluations=evaluations,
        held_out_calls=held_out * max_turns * per_turn,
    )


def plan_text(recipe: Recipe, split: Split | None, noise: str | None = None) -> str:
    """The recipe in lines; `split` is `None` if the scenarios could not be read, `noise` is that of the reward, if measured."""
    groups = Counter(map(recipe.environment.training.group, split.train if split else ()))
    return rendered(
        "plan.jinja",
        recipe,
        recipe=recipe,
        split=split,
        groups=", ".join(f"{name} {n}" for name, n in groups.items()),
        counts=counts_of(recipe, len(split.held_out) if split else 0),
        local=is_local(recipe.policy.model),
        noise=noise or _noise(recipe),
        gigabytes=gigabytes_per_gpu(recipe) if recipe.machine.device == "gpu" else None,
        settings=_settings,
        amount=amount,
        thousands="{:,}".format,
    ).rstrip()


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_words(value)}" for name, value in settings.items() if value not in (None, False, (), {})
    )


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_settings(value)})"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _noise(recipe: Recipe) -> str:
    if recipe.dialogue.user == EMBEDDED:
        return "none, the embedded user judges a reply the same way every time"
    if recipe.environment.spec.stored.one_reply is None:
        return "unknown"
    command = f"`heartloop validate RUN --suite noise --judge {recipe.dialogue.user}`"
    return f"not measured; {command} on a run of this user, then --noise"


def evaluation_command(recipe: Recipe, checkpoint: str) -> str:
    """`heartloop eval` of a checkpoint with its options and sampling in training; of a set that was split, the whole set."""
    environment, dialogue, policy = recipe.environment, recipe.dialogue, recipe.policy
    words = ["heartloop", "eval", environment.name, "--model", f"checkpoint:{checkpoint}", "--user", dialogue.user]
    if recipe.scenarios.held_out != environment.spec.set_of(None):
        words += ["--scenarios", recipe.scenarios.held_out]
    for tag in recipe.scenarios.exclude_tags:
        words += ["--exclude-tag", tag]
    defaults = environment.spec.options().model_dump(mode="json")
    words += option_flags(environment.played.model_dump(mode="json"), defaults)
    trained = {
        "temperature": policy.temperature,
        "top_p": policy.top_p,  # also where it is 1: a checkpoint's own default may be lower
        "top_k": policy.top_k or None,
        "max_tokens": dialogue.reply_tokens,
        "request": {"chat_template_kwargs": dict(policy.template)} if policy.template else {},
    }
    samplings: dict[str, Mapping[str, Any]] = {"policy": trained}
    if "temperature" in settings_taken_by(dialogue.user):
        samplings |= dict.fromkeys(environment.spec.role_names, dialogue.user_sampling.model_dump(mode="json"))
    return shlex.join([*words, *request_flags(samplings)])


def command_text(python: str, arguments: list[str]) -> str:
    return " \\\n    ".join([f"{python} -m verl.trainer.main_ppo", *(f"'{argument}'" for argument in arguments)])


_EXTRA = ("verl", "ray", "torch", "transfer_queue", "transformers", "tensordict")
_LEAST_MEMORY = 3.0  # gigabytes for verl, Ray and a laptop policy (ours; 1.6 measured with a tiny policy)
_PATIENCE = 3.0  # seconds for a connection to the user simulator's address
_WITH_GGUF = 15.0  # with the smallest instruct model, a GGUF file of 135M parameters (measured with `grpo_smollm2`)


class Missing(NamedTuple):
    what: str
    remedy: str
    stops: bool = True
    planned: bool = False
    """A dry run is complete without it."""


def problems_text(absent: Sequence[Missing], width: int) -> str:
    """The items in lines of at most `width` characters, where words allow it."""
    stops = sum(item.stops for item in absent)
    head = f"{amount(stops, 'problem')} to solve before it can start here:" if stops else "Nothing prevents the start here."
    texts = [f"- {item.what}: {item.remedy}{'' if item.stops else ' (it can start without)'}" for item in absent]
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join([head, *map(wrapper.fill, texts)])


def checked_split(recipe: Recipe) -> Split:
    """`split_of`, whose error names the variant with scenarios that ship and suffice, where the recipe has one."""
    spec, sets = recipe.environment.spec, recipe.scenarios
    try:
        for name, source in (("train", sets.train), ("held_out", sets.held_out)):
            if source not in spec.scenarios.sets and not Path(source).exists():
                known = " or ".join(spec.scenarios.sets) or "none ships"
                raise UseError(f"scenarios.{name} is {source!r}: no file here and no set of {spec.name} ({known})")
        return split_of(recipe)
    except (UseError, InputError) as error:
        ships = "".join(f"--variant {name} trains on scenarios that ship, or " for name in _variants_that_ship(recipe))
        raise type(error)(f"{error}; {ships}give a set or a file: --set scenarios.train=...") from error


def _variants_that_ship(recipe: Recipe) -> Iterator[str]:
    for name, changes in recipe.variants.items():
        if "scenarios.train" in changes and all(key.startswith("scenarios.") for key in changes):
            chosen = recipe.scenarios.model_dump() | {key.removeprefix("scenarios."): value for key, value in changes.items()}
            with suppress(UseError, InputError):
                split_of(recipe.model_copy(update={"scenarios": ScenarioSets.model_validate(chosen)}))
                yield name


def missing(recipe: Recipe, *, allow_embedded: bool = False) -> list[Missing]:
    """Items that stop a run come first; the embedded user as the reward is one of them unless it is allowed."""
    items = [*_software(recipe), *_hardware(recipe), *_weights(recipe)]
    if recipe.dialogue.user == EMBEDDED:
        if not allow_embedded:
            choices = "choose a model with --set dialogue.user=service/model, or pass --allow-embedded to test a training"
            items.insert(0, Missing("the reward is the embedded user", f"{EMBEDDED_CAUTION}; {choices}"))
    else:
        try:
            _connect(resolve(recipe.dialogue.user))
        except UseError as error:
            remedy = f"{error}; or choose another: --set dialogue.user=service/model"
            items.append(Missing("the user simulator cannot be called", remedy))
    return sorted(items, key=lambda item: not item.stops)


def _connect(user: object) -> None:
    """Raises `UseError` where nothing listens at the address of an endpoint. It is not tried through a proxy."""
    url = urlsplit(user.address) if isinstance(user, EndpointChat) else None
    if url is None or url.hostname is None or (url.scheme in getproxies() and not proxy_bypass(url.hostname)):
        return
    try:
        socket.create_connection((url.hostname, url.port or (443 if url.scheme == "https" else 80)), _PATIENCE).close()
    except OSError as error:
        raise UseError(
            f"{url.scheme}://{url.netloc} does not answer ({error}); start its server, or check the address"
        ) from error


def gigabytes_per_gpu(recipe: Recipe) -> float | None:
    """Memory of weights alone, from the size in the policy's name; `None` without one.

    Sixteen bytes a weight for training (weight, gradient, AdamW's two; four with LoRA or offloading), spread over all GPUs, and
    two for sampling replies, spread over `tensor_parallel`.
    """
    if (size := re.search(r"(\d+(?:\.\d+)?)B\b", recipe.policy.model, re.IGNORECASE)) is None:
        return None
    machine, billions = recipe.machine, float(size[1])
    training = (4 if machine.offload or recipe.policy.lora_rank else 16) * billions * (2 if recipe.algorithm.name == "ppo" else 1)
    return training / (machine.ranks * machine.nodes) + 2 * billions / machine.tensor_parallel


def _software(recipe: Recipe) -> Iterator[Missing]:
    if absent := [name for name in _EXTRA if find_spec(name) is None]:
        remedy = install_command("train") + ("" if sys.version_info < (3, 13) else " with Python 3.11 or 3.12")
        remedy += "; the repository's constraints-train.txt has tested versions"
        yield Missing(f"the extra train is not installed ({', '.join(absent)} not found)", remedy, planned=True)
    engine = recipe.machine.engine
    if engine != "hf_cpu" and find_spec(engine) is None:
        yield Missing(f"the engine {engine} is not installed", "docs/training.md (Packages) has the commands")
    if recipe.machine.flash_attention and find_spec("flash_attn") is None:
        yield Missing("flash-attn is not installed", "install it, or --set machine.flash_attention=false")
    for logger in recipe.watching.loggers:
        if find_spec(logger) is None:
            yield Missing(f"the logger {logger} is not installed", f"pip install {logger}, or remove it from watching.loggers")


def _hardware(recipe: Recipe) -> Iterator[Missing]:
    machine = recipe.machine
    if machine.nodes > 1 and not os.environ.get("RAY_ADDRESS"):
        remedy = "start one with `ray start`, and set RAY_ADDRESS to its address"
        yield Missing(f"{machine.nodes} nodes need a Ray cluster", remedy)
    if machine.device == "cpu":
        free, needed = _free_memory(), _WITH_GGUF if is_local(recipe.policy.model) else _LEAST_MEMORY
        if free is not None and free < needed:
            yield Missing(f"{free:.1f} GB of memory are free", f"free some; a run takes about {needed:g} GB", stops=False)
        return
    gpus = _gpus()
    if len(gpus) < machine.ranks:
        remedy = "run it on a machine with GPUs, or --set machine.ranks=..."
        yield Missing(f"{len(gpus)} GPUs here, {machine.ranks} needed", remedy)
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
        forbidden = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
        offline = forbidden or "HF_HUB_OFFLINE" in environment_of(recipe)
        remedy = "give a directory" if offline else "it is downloaded at the start; or give a directory"
        yield Missing(f"{model} is not on this machine", f"{remedy}: --set policy.model=DIR", stops=offline)


def _gpus() -> list[float]:
    """Gigabytes of each GPU that this process may use, by the driver's own tool."""
    if (tool := shutil.which("nvidia-smi")) is None:
        return []
    command = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    memories = [float(line) / 1024 for line in output.split() if line.isdigit()]
    if (chosen := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return memories
    return [memories[int(one)] for one in chosen.split(",") if one.strip().isdigit() and int(one) < len(memories)]


def _free_memory() -> float | None:
    """Gigabytes of available memory on Linux; `None` elsewhere."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    return int(match[1]) / 2**20 if (match := re.search(r"MemAvailable:\s+(\d+) kB", text)) else None
