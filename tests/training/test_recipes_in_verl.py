"""Every recipe is one that verl accepts: composed from verl's own configuration and checked by it."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.workers.rollout.replica import get_rollout_replica_class

from heartloop.training.cpu import ENGINE
from heartloop.training.plugin import __name__ as plugin_name
from heartloop.training.recipe import read_recipe, recipe_names
from heartloop.training.trainer import ESTIMATOR
from heartloop.training.verl_config import AGENT, PLUGIN, TRAINER, RunPaths, overrides, verl_settings
from tests.training import tiny_policy

NAMES = recipe_names()
PATHS = RunPaths(Path("/run"))
OPTIONAL = {"lora_rank", "lora_alpha", "target_modules", "_node_ip_address"}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint on disk: verl looks into it when it makes a critic's settings."""
    return str(tiny_policy.save(tmp_path_factory.mktemp("policy")))


@cache
def verls_own() -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer")


@cache
def composed(name: str, *settings: str, model: str = "some/model") -> Any:
    given = overrides(read_recipe(name, settings=settings), PATHS, model=model, train_rows=2009)
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=given)


@pytest.mark.parametrize("name", NAMES)
def test_verl_takes_every_recipe(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed(name, model=policy)
    ranks = SimpleNamespace(get_vllm_max_lora_rank=lambda rank: (8, 16, 32, 64, 128, 256, 320, 512).index(rank))
    for module in ("verl.workers.rollout.vllm_rollout", "verl.workers.rollout.vllm_rollout.utils"):  # vLLM is not here
        monkeypatch.setitem(sys.modules, module, ranks)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert actor.strategy == "fsdp2"
    omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    omega_conf_to_dataclass({name: value for name, value in config.algorithm.items() if name != "ctc"}, AlgoConfig)
    if need_critic(config):
        assert omega_conf_to_dataclass(config.critic).strategy == "fsdp2"
    assert config.trainer.use_v1


@pytest.mark.parametrize("name", NAMES)
def test_a_plus_stands_before_what_verl_has_not_and_nothing_else(name: str) -> None:
    """Before a key that verl knows it would hide, one day, that the key was renamed."""
    for key in verl_settings(read_recipe(name), PATHS, model="m", train_rows=9):
        parent, _, last = key.lstrip("+").rpartition(".")
        node = OmegaConf.select(verls_own(), parent)
        assert (node is None or last not in list(node)) == key.startswith("+"), key


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_sets_the_same_keys_to_other_values(name: str) -> None:
    """But for those of adapters, which a variant may do without, and the address of a single node."""
    usual = verl_settings(read_recipe(name), PATHS, model="m", train_rows=9)
    for variant in read_recipe(name).variants:
        keys = verl_settings(read_recipe(name, variants=[variant]), PATHS, model="m", train_rows=9).keys()
        assert {key.rpartition(".")[2] for key in keys ^ usual.keys()} <= OPTIONAL


class TestWhatArrives:
    def test_eibench_table_10(self) -> None:
        config = composed("ctc_grpo_qwen3_8b")
        actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
        assert (config.data.train_batch_size, actor.ppo_mini_batch_size, rollout.n) == (16, 32, 8)
        assert (config.data.max_prompt_length, config.data.max_response_length) == (8192, 1536)
        assert (rollout.temperature, rollout.top_p, rollout.top_k) == (0.6, 0.95, 20)
        assert (actor.optim.lr, actor.optim.lr_warmup_steps_ratio, actor.optim.min_lr_ratio) == (1e-6, 0.03, 0.1)
        assert (actor.optim.lr_scheduler_type, config.trainer.total_training_steps) == ("cosine", 250)
        assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.entropy_coeff, actor.use_kl_loss) == (0.2, 0.2, 0.001, False)
        assert config.algorithm.ctc == {"alpha": 15, "centre": True, "sigma_min": 0.1, "ddof": 1, "immediate": False}
        assert config.trainer.v1.heartloop.keep_steps == [30, 90, 180]
        assert (config.data.shuffle, composed("ctc_grpo_qwen3_8b", "batch.stratified=true").data.shuffle) == (True, False)
        assert not need_critic(config)
        assert not need_reference_policy(config)
        assert config.data.apply_chat_template_kwargs == {"enable_thinking": True}

    def test_alpha_by_scene(self) -> None:
        config = composed("ctc_grpo_qwen3_8b", "algorithm.alpha={charm: 15, defense: 20, repair: 15, support: 7.5}")
        assert config.algorithm.ctc.alpha == {"charm": 15.0, "defense": 20.0, "repair": 15.0, "support": 7.5}

    def test_rlver_has_a_critic_and_gae(self) -> None:
        config = composed("rlver_ppo_qwen2.5_7b")
        assert (config.algorithm.adv_estimator, config.algorithm.gamma, config.algorithm.lam) == ("gae", 1.0, 1.0)
        assert (config.critic.optim.lr, config.actor_rollout_ref.actor.optim.lr) == (5e-6, 1e-6)
        # of 1,000 steps 20 and 50, by ratios: -1 leaves the number to them
        warmups = [(optim.lr_warmup_steps, optim.lr_warmup_steps_ratio) for optim in (
            config.actor_rollout_ref.actor.optim, config.critic.optim
        )]  # fmt: skip
        assert warmups == [(-1, 0.02), (-1, 0.05)]
        assert need_critic(config)

    def test_perm_has_adapters_and_no_reference(self) -> None:
        config = composed("perm_grpo_qwen2.5_7b")
        model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
        assert (model.lora_rank, model.lora_alpha, model.target_modules) == (16, 32, "all-linear")
        assert (config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size, rollout.n) == (32, 32, 8)
        assert config.algorithm.ctc == {"alpha": 0, "centre": True, "sigma_min": 1e-4, "ddof": 1, "immediate": False}
        assert not need_reference_policy(config)
        assert config.trainer.n_gpus_per_node == 4
        assert composed("perm_grpo_tiny").actor_rollout_ref.model.lora_rank == verls_own().actor_rollout_ref.model.lora_rank == 0

    def test_a_control_and_a_precision_of_the_small_language_model(self) -> None:
        usual, control = composed("grpo_smollm2"), composed("grpo_smollm2", "algorithm.shuffled=true")
        assert [config.trainer.v1.heartloop.shuffled for config in (usual, control)] == [False, True]
        precisions = [config.actor_rollout_ref.actor.fsdp_config.mixed_precision for config in (usual, composed("ctc_grpo_tiny"))]
        assert [precision.param_dtype for precision in precisions] == ["bf16", "fp32"]
        assert need_reference_policy(usual)

    def test_all_steps_fit_into_the_epochs(self) -> None:
        for name in NAMES:
            settings = verl_settings(read_recipe(name), PATHS, model="m", train_rows=2009)
            epochs, batch = settings["trainer.total_epochs"], settings["data.train_batch_size"]
            assert epochs * (2009 // batch) >= settings["trainer.total_training_steps"]


class TestMiniBatch:
    """How the published batch and mini-batch map to verl."""

    @pytest.mark.parametrize(
        ("name", "samples"), [("ctc_grpo_qwen3_8b", 256), ("ctc_grpo_qwen3_32b", 256), ("rlver_ppo_tiny", 8)]
    )
    def test_verl_takes_it_times_the_rollouts(self, name: str, samples: int) -> None:
        """Samples of one update, as verl's trainer works it out: a batch is padded up to a multiple of it."""
        config = composed(name)
        trainer = SimpleNamespace(config=config, use_critic=need_critic(config), global_steps=10)
        assert PPOTrainer._get_required_batch_multiple(trainer, dp_size=1) == samples
        assert read_recipe(name).batch.samples_per_update == samples


def test_the_names_are_the_registered_ones() -> None:
    config = composed("ctc_grpo_tiny")
    assert PLUGIN == plugin_name == config.actor_rollout_ref.model.external_lib
    assert config.trainer.v1.trainer_mode == TRAINER
    assert get_trainer_cls(config.trainer.v1.trainer_mode).__module__ == "heartloop.training.trainer"
    assert config.algorithm.adv_estimator == ESTIMATOR
    assert config.actor_rollout_ref.rollout.name == ENGINE
    assert get_rollout_replica_class(ENGINE).__module__ == "heartloop.training.cpu"
    assert config.actor_rollout_ref.rollout.agent.default_agent_loop == AGENT
