"""Every packaged recipe against the packaged settings tables, field by field; what differs is named here, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from heartloop.environments.report import published
from heartloop.training.recipe import Recipe, read_recipe, recipe_names

EIBENCH = {
    "learning_rate": "optimiser.learning_rate",
    "training_batch_size": "batch.scenarios",
    "global_steps": "batch.steps",
    "lr_warmup_ratio": "optimiser.warmup_ratio",
    "ppo_mini_batch_size": "batch.mini_batch",
    "rollouts_per_prompt": "batch.rollouts",
    "min_lr_ratio": "optimiser.min_ratio",
    "max_prompt_length": "policy.max_prompt",
    "rollout_temperature": "policy.temperature",
    "clip_ratio": "algorithm.clip",
    "max_response_length": "policy.max_response",
    "rollout_top_p": "policy.top_p",
    "kl_loss_coefficient": "algorithm.kl",
    "entropy_coefficient": "algorithm.entropy",
    "rollout_top_k": "policy.top_k",
    "turn_credit_weight_alpha": "algorithm.alpha",
    "grpo_sigma_min": "algorithm.sigma_min",
    "max_dialogue_turns": "environment.options.max_turns",
}
FIELDS: Mapping[str, Mapping[str, str]] = {
    "eibench_table10_qwen3_8b_settings": EIBENCH,
    "eibench_table11_qwen3_32b_settings": EIBENCH,
    "eibench_script_settings": EIBENCH
    | {
        "per_turn_length": "dialogue.reply_tokens",
        "think_missing_penalty": "dialogue.think_penalty",
        "parse_error_penalty": "dialogue.format_penalty",
        "stratified_batch": "batch.stratified",
        "lr_schedule": "optimiser.schedule",
        "tensor_model_parallel_size": "machine.tensor_parallel",
        "n_gpus_per_node": "machine.ranks",
        "nnodes": "machine.nodes",
        "save_freq": "watching.save_every",
        "test_freq": "watching.validate_every",
    },
    "rlver_settings": {
        "base_model": "policy.model",
        "batch_size": "batch.scenarios",
        "learning_rate": "optimiser.learning_rate",
        "warmup_steps": "optimiser.warmup_steps",
        "dialogue_turns": "environment.options.max_turns",
        "policy_sampling_temperature": "policy.temperature",
        "ppo_rollouts_per_prompt": "batch.rollouts",
        "grpo_rollouts_per_prompt": "batch.rollouts",
        "early_stop_emotion_at_most": "environment.options.leaves_at",
        "user_simulator_base_model": "dialogue.user",
    },
    "rlver_script_settings": {
        "train_batch_size": "batch.scenarios",
        "max_prompt_length": "policy.max_prompt",
        "max_response_length": "policy.max_response",
        "per_turn_length": "dialogue.reply_tokens",
        "max_turns": "environment.options.max_turns",
        "adv_estimator": "algorithm.name",
        "kl_coef": "algorithm.kl",
        "actor_learning_rate": "optimiser.learning_rate",
        "actor_lr_warmup_steps_ratio": "optimiser.warmup_ratio",
        "ppo_mini_batch_size": "batch.mini_batch",
        "ppo_max_token_len_per_gpu": "batch.tokens_per_device",
        "temperature": "policy.temperature",
        "top_p": "policy.top_p",
        "rollouts": "batch.rollouts",
        "tensor_model_parallel_size": "machine.tensor_parallel",
        "gpu_memory_utilization": "machine.engine_memory",
        "critic_learning_rate": "algorithm.critic_learning_rate",
        "critic_lr_warmup_steps_ratio": "algorithm.critic_warmup_ratio",
        "n_gpus_per_node": "machine.ranks",
        "nnodes": "machine.nodes",
        "save_freq": "watching.save_every",
        "test_freq": "watching.validate_every",
        "total_training_steps": "batch.steps",
        "clip_ratio": "algorithm.clip",
        "entropy_coeff": "algorithm.entropy",
        "gamma": "algorithm.gamma",
        "lam": "algorithm.lam",
        "ppo_epochs": "batch.passes",
        "grad_clip": "optimiser.max_norm",
        "warmup_style": "optimiser.schedule",
        "top_k": "policy.top_k",
        "critic_warmup": "algorithm.critic_warmup",
    },
    "perm_settings": {
        "base_model": "policy.model",
        "training_samples": "scenarios.train_limit",
        "reward_judge_model": "dialogue.user",
        "rl_algorithm": "algorithm.name",
        "lambda_bys": "environment.options.bystander_weight",
        "training_gpus": "machine.ranks",
    },
    "perm_script_settings": {
        "num_train_samples": "scenarios.train_limit",
        "learning_rate": "optimiser.learning_rate",
        "beta": "algorithm.kl",
        "epochs": "batch.passes",
        "peft_r": "policy.lora_rank",
        "peft_alpha": "policy.lora_alpha",
        "gpus": "machine.ranks",
        "warmup_ratio": "optimiser.warmup_ratio",
        "save_steps": "watching.save_every",
        "save_total_limit": "watching.keep",
        "max_completion_length": "dialogue.reply_tokens",
        "standby_reward_coef": "environment.options.bystander_weight",
        "num_generations": "batch.rollouts",
        "max_prompt_length": "policy.max_prompt",
        "seed": "seed",
        "target_modules": "policy.lora_targets",
        "lr_scheduler_type": "optimiser.schedule",
        "judge_temperature": "dialogue.user_sampling.temperature",
        "judge_max_completion_tokens": "dialogue.user_sampling.max_tokens",
    },
}
COMPUTED = {
    "eibench_script_settings": {},
    "perm_script_settings": {
        "per_device_train_batch_size": "a step's prompts, tested below",
        "gradient_accumulation_steps": "a step's prompts, tested below",
        "peft_dropout": "the script's code passes it to no adapter",
        "use_lora": "the variant all_weights, tested below",
        "length_penalty_limit": "scoring of perm",
        "length_penalty_coef": "scoring of perm",
        "calculate_score_mode": "scoring of perm",
    },
    "rlver_settings": {
        "second_base_model": "the variant llama",
        "challenging_user_simulator_base_model": "the variant challenging",
        **dict.fromkeys(("training_scenarios", "test_scenarios", "topics"), "the authors' people, which are not shipped"),
        **dict.fromkeys(("outcome_reward_divisor", "turn_reward_divisor"), "scoring.credit"),
        **dict.fromkeys(("turn_plus_outcome_reward_divisor", "format_violation_reward"), "scoring.credit"),
        **dict.fromkeys(("emotion_score_min", "emotion_score_max"), "scoring of sage"),
        **dict.fromkeys(("success_final_emotion_clipped_at", "failure_final_emotion_below"), "scoring of sage"),
        "training_code": "verl, too",
        **dict.fromkeys([f"{name}_version" for name in ("pytorch", "ray", "vllm", "transformers")], "newer ones here"),
    },
    "perm_settings": {
        **dict.fromkeys(("source_dialogues_selected", "source_emotions"), "the authors' samples"),
        "persona_and_scenario_augmentation_model": "the authors' samples",
        "lambda_bys_sweep": "the variants bystander_0.1 and bystander_1.0",
        **dict.fromkeys(("lambda_len", "length_penalty_threshold_tokens", "judge_score_min"), "scoring of perm"),
        **dict.fromkeys(("judge_score_max", "reward_normalised_min", "reward_normalised_max"), "scoring of perm"),
        **dict.fromkeys(("empathy_reward_components", "empathy_reward_aggregation"), "scoring of perm"),
        **dict.fromkeys(("bystander_penalty_offset", "bystander_dimensions"), "scoring of perm"),
        **dict.fromkeys(("bystander_dimension_max", "bystander_total_max"), "scoring of perm"),
        "best_of_n": "a way to evaluate",
        **dict.fromkeys(("training_hours_at_most", "training_api_cost_usd_below"), "what a run took"),
        "training_framework": "verl instead of TRL and DeepSpeed",
    },
}  # fmt: skip
"""Settings that are no field of a recipe, by table, and where they are."""
MEASURED = (
    "capability_", "human_evaluation_", "stability_test_", "math500", "livecodebench", "ifeval", "learning_curve",
    "eqbench3_", "daily_conversation_", "user_study_",
)  # fmt: skip
"""Beginnings of settings of evaluations."""

SMALL = "a small policy on two cores: fewer, shorter dialogues, higher rates, the embedded user"
ONE_MODEL = "the script is that of Qwen3-32B; Table 10 and one GPU a copy for 8B"
BY_TURN = "a dialogue of 5,000 + 10,000 tokens is one sample in the script; here a turn is one, and all of a step make one update"
VERL = "verl 0.9.1 has no linear decay; the cosine has the same peak, end and mean"
RATIO = "the script's 0.02 of 1,000 steps; the variant warmup_50 has the paper's 50"
USER = "DeepSeek-V3 of December 2024 is served no more under a name of its own"
OTHER = "the other algorithm's"
SAME = "the same, otherwise written"
NO_TESTS = "the script never evaluates"

EIBENCH_SMALL = (
    "learning_rate training_batch_size global_steps ppo_mini_batch_size max_prompt_length max_response_length "
    "rollout_temperature rollout_top_p rollout_top_k max_dialogue_turns"
)
RLVER_SMALL = "base_model learning_rate warmup_steps policy_sampling_temperature user_simulator_base_model"
PERM_SMALL = "base_model training_samples reward_judge_model training_gpus"
SCRIPT = {
    "max_prompt_length max_response_length ppo_mini_batch_size": BY_TURN,
    "top_k": SAME,
    "test_freq": NO_TESTS,
}
TABLE_10, TABLE_11, OF_SCRIPT = (f"eibench_{name}_settings" for name in ("table10_qwen3_8b", "table11_qwen3_32b", "script"))

DIFFERENT: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("ctc_grpo_qwen3_8b", TABLE_10): {},
    ("ctc_grpo_qwen3_8b+released", OF_SCRIPT): {
        "global_steps max_prompt_length max_response_length tensor_model_parallel_size": ONE_MODEL
    },
    ("ctc_grpo_qwen3_32b", TABLE_11): {},
    ("ctc_grpo_qwen3_32b+released", OF_SCRIPT): {},
    ("ctc_grpo_qwen3_32b+released", TABLE_11): {
        "learning_rate training_batch_size min_lr_ratio kl_loss_coefficient": "the script contradicts the paper"
    },
    ("ctc_grpo_tiny", TABLE_10): {EIBENCH_SMALL: SMALL},
    ("ctc_grpo_smollm2", TABLE_10): {
        EIBENCH_SMALL: SMALL,
        "rollouts_per_prompt lr_warmup_ratio min_lr_ratio kl_loss_coefficient entropy_coefficient": SMALL,
    },
    ("rlver_ppo_qwen2.5_7b", "rlver_settings"): {
        "warmup_steps": RATIO, "user_simulator_base_model": USER, "grpo_rollouts_per_prompt": OTHER
    },
    ("rlver_ppo_qwen2.5_7b", "rlver_script_settings"): {**SCRIPT, "adv_estimator": SAME},
    ("rlver_ppo_qwen2.5_7b+warmup_50", "rlver_settings"): {
        "user_simulator_base_model": USER, "grpo_rollouts_per_prompt": OTHER
    },
    ("rlver_grpo_qwen2.5_7b", "rlver_settings"): {
        "warmup_steps": RATIO, "user_simulator_base_model": USER, "ppo_rollouts_per_prompt": OTHER
    },
    ("rlver_grpo_qwen2.5_7b", "rlver_script_settings"): {
        **SCRIPT, "adv_estimator rollouts critic_learning_rate critic_lr_warmup_steps_ratio": "the script is that of PPO"
    },
    ("rlver_ppo_tiny", "rlver_settings"): {RLVER_SMALL: SMALL, "grpo_rollouts_per_prompt": OTHER},
    ("rlver_grpo_tiny", "rlver_settings"): {RLVER_SMALL: SMALL, "batch_size": SMALL, "ppo_rollouts_per_prompt": OTHER},
    ("grpo_smollm2", "rlver_settings"): {
        RLVER_SMALL: SMALL,
        "batch_size dialogue_turns grpo_rollouts_per_prompt": SMALL,
        "early_stop_emotion_at_most": "SAGE's own end, as in evaluation",
        "ppo_rollouts_per_prompt": OTHER,
    },
    ("perm_grpo_qwen2.5_7b", "perm_settings"): {},
    ("perm_grpo_qwen2.5_7b+released", "perm_settings"): {},
    ("perm_grpo_qwen2.5_7b+released", "perm_script_settings"): {"target_modules": SAME, "lr_scheduler_type": VERL},
    ("perm_grpo_tiny", "perm_settings"): {PERM_SMALL: SMALL},
    ("perm_grpo_smollm2", "perm_settings"): {PERM_SMALL: SMALL},
}  # fmt: skip
"""Settings in which a recipe, with a variant after `+`, differs from a table, and why; all others have the published value."""
NO_TABLE = {"empa_ctc_grpo_tiny", "empa_ctc_grpo_qwen3_8b"}
"""No paper trained in EMPA."""


def settings_of(table: str) -> dict[str, object]:
    """Setting and value, as the paper or the script of a table has them."""
    environment = {"rlver": "sage"}.get(paper := table.split("_")[0], paper)
    return {str(row["setting"]): row["value"] for row in published(f"heartloop.environments.{environment}", table)}


def valued(recipe: Recipe, name: str) -> object:
    found: object = recipe
    for part in name.split("."):
        found = found[part] if isinstance(found, Mapping) else getattr(found, part)
    return found


def is_same(mine: object, theirs: object) -> bool:
    if isinstance(mine, bool) or mine is None:
        return str(mine) == str(theirs)
    if isinstance(mine, int | float):
        return mine == float(str(theirs))
    return str(mine).rpartition("/")[2].lower() == str(theirs).lower()


@pytest.mark.parametrize(("recipe", "table"), DIFFERENT)
def test_a_recipe_has_the_published_values_but_for_the_named_differences(recipe: str, table: str) -> None:
    name, _, variant = recipe.partition("+")
    chosen, printed = read_recipe(name, variants=[variant] if variant else []), settings_of(table)
    different = {setting for setting, field in FIELDS[table].items() if not is_same(valued(chosen, field), printed[setting])}
    assert different == {setting for settings in DIFFERENT[recipe, table] for setting in settings.split()}


def test_every_recipe_is_compared() -> None:
    assert {recipe.partition("+")[0] for recipe, _ in DIFFERENT} | NO_TABLE == set(recipe_names())


@pytest.mark.parametrize("table", FIELDS)
def test_every_row_of_a_table_is_compared_or_has_another_place(table: str) -> None:
    others = {setting for setting in settings_of(table) if not setting.startswith(MEASURED)}
    assert others == {*FIELDS[table], *COMPUTED.get(table, {})}


def test_perms_script_has_eight_prompts_an_update_and_would_train_all_weights() -> None:
    script = {name: float(str(settings_of("perm_script_settings")[name])) for name in (
        "gpus", "per_device_train_batch_size", "gradient_accumulation_steps", "num_generations", "num_train_samples"
    )}  # fmt: skip
    completions = script["gpus"] * script["per_device_train_batch_size"] * script["gradient_accumulation_steps"]
    released = read_recipe("perm_grpo_qwen2.5_7b", variants=["released"])
    assert released.batch.scenarios == released.batch.mini_batch == completions / script["num_generations"] == 8
    assert released.batch.steps == script["num_train_samples"] / 8 == 375
    assert settings_of("perm_script_settings")["use_lora"] == "False"
    assert read_recipe("perm_grpo_qwen2.5_7b", variants=["released", "all_weights"]).policy.lora_rank is None
