"""A recipe as verl 0.9.1 reads it: rows of scenarios, settings, environment variables. verl itself is not imported."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import EMBEDDED, ScriptedChat
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import replacing
from heartloop.environments.registry import owner_of, parted, stratified
from heartloop.models.client import RETRIES, TIMEOUT
from heartloop.training.recipe import Recipe

AGENT = "heartloop"
"""Name of the agent loop, in the column `agent_name` of the data."""
TRAINER = "heartloop"
"""Name for `trainer.v1.trainer_mode`."""
PLUGIN = "heartloop.training.plugin"
"""The module that verl loads in every process."""
CHECKPOINT_METRICS = "metrics.jsonl"
"""In a checkpoint's folder: the numbers of its step, which verl logs only after it."""
PACKED = "heartloop_packed"
"""Name of `cpu.packed_attention` for `attn_implementation`."""
_LOOP = "heartloop.training.agent_loop.DialogueLoop"
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}


class RunPaths:
    def __init__(self, run: Path) -> None:
        self.run = run
        self.settings = run / "settings.json"
        self.train = run / "data" / "train.parquet"
        self.held_out = run / "data" / "held_out.parquet"
        self.agent_loops = run / "agent_loops.yaml"
        self.policies = run.parent / "policies"
        """Policies made before training, by the hash of what they are made from; outside the run, so that runs share them."""
        self.checkpoints = run / "checkpoints"
        self.transcripts = run / "transcripts"
        self.metrics = run / "metrics.jsonl"
        self.spending = run / "spending.jsonl"
        self.attempts = run / "attempts"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"global_step_{step}"


class Split(NamedTuple):
    train: Sequence[Any]
    held_out: Sequence[Any]


def split_of(recipe: Recipe) -> Split:
    sets = recipe.scenarios
    train, held_out = _load(sets.train, recipe), _load(sets.held_out, recipe)
    if sets.held_out_share is not None:
        train, held_out = parted(train, sets.held_out_share)
    train, held_out = stratified(train, sets.train_limit), stratified(held_out, sets.held_out_limit)
    if both := {scenario.id for scenario in train} & {scenario.id for scenario in held_out}:
        raise InputError(f"{len(both)} scenarios are both trained on and held out, such as {min(both)}; expected none")
    if len(train) < recipe.batch.scenarios:
        raise UseError(
            f"{len(train)} training scenarios are fewer than the {recipe.batch.scenarios} of a step; lower batch.scenarios"
        )
    spec = recipe.environment.spec
    model = None if recipe.dialogue.user == EMBEDDED else ScriptedChat([])  # never called
    player = spec.players(dict.fromkeys(spec.role_names, model))
    for scenario in (*train, *held_out):
        player.admit(scenario)
    return Split(train, held_out)


def _load(source: str, recipe: Recipe) -> Sequence[Any]:
    spec, owner = recipe.environment.spec, owner_of(source)
    if owner.name != spec.name:
        raise UseError(f"{source} holds scenarios of {owner.name}; the recipe's environment is {spec.name}")
    return spec.load(source, variant=recipe.environment.chosen.variant, exclude_tags=list(recipe.scenarios.exclude_tags))


def rows(scenarios: Sequence[Any], recipe: Recipe, *, split: str) -> list[dict[str, Any]]:
    """Rows in verl's form, without prompts, which come from the episode. verl logs held-out means by `data_source`."""
    environment, group = recipe.environment.name, recipe.environment.training.group
    return [
        {
            "data_source": f"{environment}_{group(scenario)}",
            "prompt": [{"role": "user", "content": scenario.id}],  # verl wants one; the dialogue brings its own
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {
                "environment": environment,
                "scenario": scenario.id,
                "fingerprint": scenario.fingerprint,
                "split": split,
                "index": index,
                "seed": recipe.seed,
            },
            "agent_name": AGENT,
        }
        for index, scenario in enumerate(scenarios)
    ]


class UserCalls(NamedTuple):
    """How the user simulator's model is called, and what its calls may take over all attempts of a run."""

    timeout: float = TIMEOUT
    retries: int = RETRIES
    max_cost: float | None = None
    max_tokens: int | None = None
    prices: Path | None = None


def write_data(recipe: Recipe, split: Split, paths: RunPaths, calls: UserCalls = UserCalls()) -> None:  # noqa: B008
    import pyarrow
    import pyarrow.parquet

    paths.train.parent.mkdir(parents=True, exist_ok=True)
    for name, file in (("train", paths.train), ("held_out", paths.held_out)):
        with replacing(file) as part:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows(getattr(split, name), recipe, split=name)), part)
    settings = recipe.model_dump(mode="json")
    # a set by its name, a file by its whole path: verl's processes have another working directory
    for name in ("train", "held_out"):
        file = Path(settings["scenarios"][name])
        settings["scenarios"][name] = str(file.resolve()) if file.is_file() else str(file)
    entry = {
        "name": AGENT, "_target_": _LOOP, "recipe": json.dumps(settings), "transcripts": str(paths.transcripts),
        "spending": str(paths.spending), "timeout": calls.timeout, "retries": calls.retries,
    }  # fmt: skip
    paths.agent_loops.write_text(json.dumps([entry], indent=2) + "\n", encoding="utf-8")


def verl_settings(recipe: Recipe, paths: RunPaths, *, model: str, train_rows: int) -> dict[str, Any]:
    """verl's settings by dotted name; a name that begins with `+` is not in verl's configuration."""
    config = {
        **_data(recipe, paths),
        **_model("actor_rollout_ref.model", recipe, model),
        **_adapters(recipe),
        **_actor(recipe),
        **_rollout(recipe, paths),
        **_trainer(recipe, paths, train_rows),
        **_machine(recipe),
    }
    if recipe.algorithm.name == "ppo":
        config |= {
            **_model("critic.model", recipe, model),
            "critic.strategy": "fsdp2",
            "critic.optim.lr": recipe.algorithm.critic_learning_rate,
            "critic.ppo_max_token_len_per_gpu": recipe.batch.tokens_per_device,
            "critic.data_loader_seed": recipe.seed,
        }
    return config | dict(recipe.verl)


def overrides(recipe: Recipe, paths: RunPaths, *, model: str, train_rows: int) -> list[str]:
    settings = verl_settings(recipe, paths, model=model, train_rows=train_rows)
    return [f"{'+' if key.startswith('+') else ''}{key.lstrip('+')}={_hydra(value)}" for key, value in settings.items()]


def environment_of(recipe: Recipe) -> dict[str, str]:
    config = {
        "HYDRA_FULL_ERROR": "1",
        "VERL_USE_EXTERNAL_MODULES": PLUGIN,  # unlike an entry point, a module that does not load ends the run with its error
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",  # no usage statistics
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }
    if recipe.machine.device == "cpu":
        config |= {
            "VERL_PLATFORM": "cpu",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: Ray's address is 127.0.0.1, and it listens there only
            "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(recipe.machine.threads)),
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),  # waiting threads leave the cores to others
        }
    return config


def _data(recipe: Recipe, paths: RunPaths) -> dict[str, Any]:
    return {
        "data.train_files": str(paths.train),
        "data.val_files": str(paths.held_out),
        "data.train_batch_size": recipe.batch.scenarios,
        "data.max_prompt_length": recipe.policy.max_prompt,
        "data.max_response_length": recipe.policy.max_response,
        "data.filter_overlong_prompts": False,  # a row holds an id, no prompt
        "data.dataloader_num_workers": 0,
        "data.shuffle": True,
        "data.seed": recipe.seed,
        **{f"+data.apply_chat_template_kwargs.{name}": value for name, value in recipe.policy.template.items()},
    }


def _model(where: str, recipe: Recipe, model: str) -> dict[str, Any]:
    machine = recipe.machine
    config: dict[str, Any] = {
        f"{where}.path": model,
        f"{where}.external_lib": PLUGIN,
        f"{where}.use_remove_padding": machine.flash_attention or machine.device == "cpu",
        f"{where}.enable_gradient_checkpointing": machine.device == "gpu",
    }
    if not machine.flash_attention:
        config[f"+{where}.override_config.attn_implementation"] = PACKED if machine.device == "cpu" else "sdpa"
    return config


def _adapters(recipe: Recipe) -> dict[str, Any]:
    policy, where = recipe.policy, "actor_rollout_ref.model"
    if policy.lora_rank is None:
        return {}
    config = {
        f"{where}.lora_rank": policy.lora_rank,
        f"{where}.lora_alpha": policy.lora_alpha,
        f"{where}.target_modules": policy.lora_targets or "all-linear",
    }
    if recipe.machine.device == "cpu":
        config[f"{where}.lora.merge"] = True  # our own rollout engine has no adapters
    return config


def _actor(recipe: Recipe) -> dict[str, Any]:
    algorithm, optimiser, batch = recipe.algorithm, recipe.optimiser, recipe.batch
    actor = "actor_rollout_ref.actor"
    config: dict[str, Any] = {
        "algorithm.adv_estimator": "gae" if algorithm.name == "ppo" else "ctc_grpo",  # GRPO is CTC-GRPO without turn credit
        "critic.enable": algorithm.name == "ppo",
        f"{actor}.strategy": "fsdp2",
        f"{actor}.ppo_mini_batch_size": batch.mini_batch,
        f"{actor}.ppo_epochs": batch.passes,
        f"{actor}.use_dynamic_bsz": True,  # the only way to a mini-batch above the batch
        f"{actor}.ppo_max_token_len_per_gpu": batch.tokens_per_device,
        f"{actor}.clip_ratio": algorithm.clip,
        f"{actor}.clip_ratio_low": algorithm.clip,
        f"{actor}.clip_ratio_high": algorithm.clip,
        f"{actor}.entropy_coeff": algorithm.entropy,
        f"{actor}.calculate_entropy": True,  # logged even where its weight is 0
        f"{actor}.use_kl_loss": algorithm.kl > 0,
        f"{actor}.kl_loss_coef": algorithm.kl,
        f"{actor}.data_loader_seed": recipe.seed,
        f"{actor}.grad_clip": optimiser.max_norm,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{actor}.optim.lr": optimiser.learning_rate,
        f"{actor}.optim.lr_scheduler_type": optimiser.schedule,
        f"{actor}.optim.lr_warmup_steps_ratio": optimiser.warmup_ratio,
        f"{actor}.optim.lr_warmup_steps": -1 if optimiser.warmup_steps is None else optimiser.warmup_steps,
        f"{actor}.optim.min_lr_ratio": optimiser.min_ratio,
        f"{actor}.optim.zero_indexed_step": False,  # else the first step has a learning rate of 0
        f"{actor}.optim.weight_decay": optimiser.weight_decay,
        f"{actor}.optim.clip_grad": optimiser.max_norm,
    }
    if algorithm.name == "ppo":
        config |= {"algorithm.gamma": algorithm.gamma, "algorithm.lam": algorithm.lam}
        config["trainer.critic_warmup"] = algorithm.critic_warmup
    else:
        config |= {f"+algorithm.ctc.{name}": getattr(algorithm, name) for name in ("alpha", "centre", "sigma_min", "ddof")}
    return config


def _rollout(recipe: Recipe, paths: RunPaths) -> dict[str, Any]:
    policy, machine = recipe.policy, recipe.machine
    rollout = "actor_rollout_ref.rollout"
    top_k = policy.top_k or -1  # all tokens, in vllm and verl
    return {
        f"{rollout}.name": machine.engine,
        f"{rollout}.n": recipe.batch.rollouts,
        f"{rollout}.temperature": policy.temperature,
        f"{rollout}.top_p": policy.top_p,
        f"{rollout}.top_k": top_k,
        f"{rollout}.seed": recipe.seed,
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": policy.temperature,
        f"{rollout}.val_kwargs.top_p": policy.top_p,
        f"{rollout}.val_kwargs.top_k": top_k,
        f"{rollout}.val_kwargs.n": 1,
        f"{rollout}.tensor_model_parallel_size": machine.tensor_parallel,
        f"{rollout}.gpu_memory_utilization": machine.engine_memory,
        f"{rollout}.agent.num_workers": machine.workers,
        f"{rollout}.agent.agent_loop_config_path": str(paths.agent_loops),
        f"{rollout}.agent.default_agent_loop": AGENT,
    }


def _trainer(recipe: Recipe, paths: RunPaths, train_rows: int) -> dict[str, Any]:
    batch, watching = recipe.batch, recipe.watching
    steps_per_epoch = max(1, train_rows // batch.scenarios)
    return {
        "trainer.v1.trainer_mode": TRAINER,
        "trainer.total_training_steps": batch.steps,
        "trainer.total_epochs": math.ceil(batch.steps / steps_per_epoch) + 1,
        "+trainer.v1.heartloop.shuffled": recipe.algorithm.shuffled,
        "trainer.project_name": "heartloop",
        "trainer.experiment_name": f"{recipe.name}-{recipe.hash}",
        "trainer.logger": ["file", *watching.loggers],
        "trainer.default_local_dir": str(paths.checkpoints),
        "trainer.resume_mode": "auto",
        "trainer.val_before_train": watching.validate_every > 0 and watching.validate_first,
        "trainer.test_freq": watching.validate_every or -1,
        "trainer.save_freq": watching.save_every or batch.steps,
        "trainer.max_actor_ckpt_to_keep": watching.keep,
        "trainer.max_critic_ckpt_to_keep": watching.keep,
    }


def _machine(recipe: Recipe) -> dict[str, Any]:
    machine, actor = recipe.machine, "actor_rollout_ref.actor.fsdp_config"
    config: dict[str, Any] = {
        "trainer.n_gpus_per_node": machine.ranks,
        "trainer.nnodes": machine.nodes,
        "reward.num_workers": 1,  # rewards come with the dialogues
        "+ray_kwargs.ray_init.include_dashboard": False,
        f"{actor}.seed": recipe.seed,
        f"{actor}.param_offload": machine.offload,
        f"{actor}.optimizer_offload": machine.offload,
    }
    if machine.nodes == 1:
        config["+ray_kwargs.ray_init._node_ip_address"] = "127.0.0.1"
    if machine.cpus is not None:
        config["ray_kwargs.ray_init.num_cpus"] = machine.cpus
    if machine.device == "gpu":
        return config | {"trainer.device": "cuda"}
    plain = {"use_torch_compile": False, "dtype": "float32"}
    trained = (actor, "actor_rollout_ref.ref.fsdp_config", "critic.fsdp")
    precision = {"param_dtype": _PRECISIONS[machine.precision], "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return {
        **config,
        "trainer.device": "cpu",
        "+ray_kwargs.ray_init.num_gpus": machine.ranks,  # logical GPUs, by which verl counts ranks
        "+ray_kwargs.ray_init.object_store_memory": 1_000_000_000,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "actor_rollout_ref.actor.use_torch_compile": False,
        **{f"{where}.{name}": value for where in trained for name, value in plain.items()},
        # verl's own is bfloat16, on most CPUs slower and unlike the log-probabilities of the replies
        **{f"+{where}.mixed_precision": precision for where in trained},
        "actor_rollout_ref.rollout.dtype": "float32",
        # replies are sampled from the same weights in the same precision: their log-probabilities are not recomputed
        "algorithm.rollout_correction.bypass_mode": True,
        "actor_rollout_ref.rollout.free_cache_engine": False,
    }


def _hydra(value: Any) -> str:
    """A value in the syntax of hydra's command line: JSON with bare keys.

    >>> _hydra(["file"]), _hydra(None), _hydra(1e-6), _hydra({"a": True})
    ('["file"]', 'null', '1e-06', '{a:true}')
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_hydra(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
