"""Recipes: published settings, sources, variants, checks, and the hash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.environments.perm.scoring import PARTS
from heartloop.environments.report import published
from heartloop.scoring import credit
from heartloop.training.recipe import read_recipe, recipe_names
from tests.recipes.test_published_settings import settings_of, valued

NAMES = recipe_names()
FOLDER = resources.files("heartloop.training") / "recipes"


def printed(table: str, setting: str) -> str:
    return str(settings_of(table)[setting])


def options_of(name: str, *variants: str) -> Mapping[str, Any]:
    return read_recipe(name, variants=variants).environment.options


class TestPublished:
    def test_perms_sweep_and_backbones(self) -> None:
        backbones = {str(row["backbone"]) for row in published("heartloop.environments.perm", "perm_table07_backbones")}
        assert {
            read_recipe("perm_grpo_qwen2.5_7b", variants=[name]).policy.model.rpartition("/")[2] for name in ("llama", "qwen3_4b")
        } == backbones
        for name in ("perm_grpo_qwen2.5_7b", "perm_grpo_tiny"):
            variants = read_recipe(name).variants
            sweep = {options_of(name, variant)["bystander_weight"] for variant in variants} | {
                options_of(name)["bystander_weight"]
            }
            assert sorted(sweep) == [0.1, 0.5, 1.0]

    def test_rlvers_models(self) -> None:
        llama = read_recipe("rlver_ppo_qwen2.5_7b", variants=["llama"])
        assert llama.policy.model.rpartition("/")[2] == printed("rlver_settings", "second_base_model")
        assert read_recipe("rlver_ppo_qwen2.5_7b").dialogue.user == "openrouter/deepseek/deepseek-chat"  # DeepSeek-V3
        challenging = read_recipe("rlver_ppo_qwen2.5_7b", variants=["challenging"]).dialogue.user
        assert challenging[-4:] == printed("rlver_settings", "challenging_user_simulator_base_model")[-4:] == "0324"

    def test_rlvers_rewards(self) -> None:
        def divisor(name: str) -> float:
            return float(printed("rlver_settings", f"{name}_divisor"))

        assert credit.outcome_reward(80.0) == 80.0 / divisor("outcome_reward")
        (turn,) = credit.turn_rewards([30.0, 35.0])
        assert turn == 5.0 / divisor("turn_reward")
        mixed = credit.dialogue_rewards(0.8, [0.5, -0.2], "mixed_each")
        assert mixed == pytest.approx([(0.8 + 0.5) / divisor("turn_plus_outcome_reward"), (0.8 - 0.2) / 2])
        broken = credit.broken_format_return("outcome", worst_outcome=0.0, worst_turns=-3.0)
        assert broken == float(printed("rlver_settings", "format_violation_reward"))

    def test_the_schedule_and_the_reply_length(self) -> None:
        for name in ("ctc_grpo_qwen3_8b", "ctc_grpo_qwen3_32b"):
            recipe = read_recipe(name)
            assert recipe.optimiser.schedule == printed("eibench_text_settings", "lr_schedule")
            assert recipe.dialogue.reply_tokens == recipe.policy.max_response  # one sample a turn

    def test_the_alpha_sweep(self) -> None:
        recipe = read_recipe("ctc_grpo_qwen3_8b")
        tried = [read_recipe("ctc_grpo_qwen3_8b", variants=[name]).algorithm.alpha for name in recipe.variants]
        sweep = printed("eibench_text_settings", "turn_credit_weight_alpha_sweep").split()
        assert {*tried, recipe.algorithm.alpha} == set(map(float, sweep))

    @pytest.mark.parametrize(
        ("recipe", "variants", "name", "value"),
        [
            ("ctc_grpo", "no_process", "algorithm.alpha", 0),  # EIBench Table 7
            ("ctc_grpo", "no_centring", "algorithm.centre", False),
            ("ctc_grpo", "no_floor", "algorithm.sigma_min", 1e-6),
            *(("perm_grpo", f"no_{part}", "environment.options.without", [part]) for part in (*PARTS, "bystander")),  # Table 2
            ("perm_grpo", "unit", "environment.options.preset", "unit"),
            ("rlver_ppo_qwen2.5_7b", "turn", "dialogue.reward", "turn"),
            ("rlver_ppo_qwen2.5_7b", "mixed", "dialogue.reward", "mixed_each"),
            *((f"rlver_{name}", kind, "dialogue.credit", "immediate") for name in ("ppo", "grpo") for kind in ("turn", "mixed")),
            ("rlver_ppo_qwen2.5_7b", "direct", "dialogue.think", False),
            ("rlver_ppo_qwen2.5_7b", "direct challenging", "environment.options.form", "direct"),
            ("rlver_ppo_qwen2.5_7b", "direct challenging", "environment.options.variant", "challenging"),
        ],
    )
    def test_published_ablations_are_variants(self, recipe: str, variants: str, name: str, value: object) -> None:
        chosen = variants.split()
        named = [each for each in NAMES if each.startswith(recipe) and set(chosen) <= read_recipe(each).variants.keys()]
        assert {each.removeprefix(recipe) for each in named} >= ({""} if recipe in NAMES else {"_tiny"})
        for each in named:
            assert valued(read_recipe(each, variants=chosen), name) == value != valued(read_recipe(each), name)


SOURCE = re.compile(r"#.*(\bours\b|EIBench|RLVER|EMPA|PERM|GRPO has no turn credit)")


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_says_where_it_comes_from(name: str) -> None:
    """Only the section of the machine needs no source: it decides no result."""
    section = ""
    for line in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            section = line.partition(":")[0]
        setting = re.match(r"\s*[\w.]+:\s*[^#\s]", line)
        if setting and section not in ("name", "about", "machine"):
            assert SOURCE.search(line), line


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_recipe_and_variant_is_valid(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    different = [variant for variant in recipe.variants if (name, variant) != ("perm_grpo_tiny", "bystander_0.5")]  # the default
    hashes = {read_recipe(name, variants=[variant]).hash for variant in different}
    assert len({recipe.hash, *hashes}) == 1 + len(different)


class TestSettings:
    def test_variants_first_then_settings_then_the_seed(self) -> None:
        found = read_recipe("ctc_grpo_tiny", variants=["no_process"], settings=["algorithm.alpha=3", "batch.steps=2"], seed=7)
        assert (found.algorithm.alpha, found.batch.steps, found.seed) == (3, 2, 7)

    @pytest.mark.parametrize(
        ("setting", "name", "value"),
        [
            ("scenarios.exclude_tags=[death]", "scenarios.exclude_tags", ("death",)),
            ("watching.loggers=tensorboard", "watching.loggers", ("tensorboard",)),  # one name is a list of one
            ("watching.keep=null", "watching.keep", None),
            ("algorithm.kl=5e-4", "algorithm.kl", 5e-4),
            ("policy.template.enable_thinking=false", "policy.template", {"enable_thinking": False}),
            ("verl.trainer.nnodes=2", "verl", {"trainer.nnodes": 2}),
        ],
    )
    def test_values_are_read_as_yaml(self, setting: str, name: str, value: object) -> None:
        assert valued(read_recipe("ctc_grpo_tiny", settings=[setting]), name) == value

    def test_the_users_requests_take_any_setting_and_field(self) -> None:
        settings = ["user_sampling.top_k=20", "user_sampling.stop=END", "user_sampling.request.chat_template_kwargs.x=false"]
        recipe = read_recipe("ctc_grpo_tiny", settings=[f"dialogue.{setting}" for setting in settings])
        assert recipe.dialogue.user_sampling == Sampling(top_k=20, stop=("END",), request={"chat_template_kwargs": {"x": False}})
        with pytest.raises(InputError, match=r"user_sampling.request.*messages"):
            read_recipe("ctc_grpo_tiny", settings=["dialogue.user_sampling.request.messages=1"])

    @pytest.mark.parametrize(
        ("setting", "said"),
        [
            ("batch.step=3", r"no setting 'batch.step'; the nearest is 'batch.steps'"),
            ("algoritm.alpha=1", r"nearest is 'algorithm.alpha'"),
            ("lr=1", "no setting 'lr'"),
            ("batch.steps", "expected key=value"),
            ("batch.steps=[", "no YAML value"),
            ("batch.steps.more=1", "batch.steps.more"),
        ],
    )
    def test_what_is_no_setting_is_refused_with_the_nearest(self, setting: str, said: str) -> None:
        with pytest.raises(UseError, match=said):
            read_recipe("ctc_grpo_tiny", settings=[setting])

    @pytest.mark.parametrize(
        ("setting", "said"),
        [
            ("batch.steps=0", "batch.steps is 0: .*greater than or equal to 1"),
            ("batch.steps=many", "batch.steps is 'many'"),
            ("seed=-1", "seed is -1"),
            ("watching.loggers=[wandbb]", "'wandbb': it should be 'tensorboard', 'trackio' or 'wandb'"),
            ("watching.prices.input=1", "watching.prices.output is missing"),
            ("algorithm.kl=.nan", "algorithm.kl is nan"),
            ("batch.rollouts=1", "compares at least 2"),
            ("batch.tokens_per_device=500", "one sample can have 1088"),
            ("dialogue.reply_tokens=600", "less than dialogue.reply_tokens"),
            ("dialogue.credit=to_go", "ctc_grpo needs 'group'"),
            ("dialogue.credit=immediate", "ctc_grpo needs 'group'"),  # it has a credit by turn of its own
            ("watching.keep_steps=[20, 30]", "keep_steps has 30; expected multiples of save_every, which is 20"),
            ("machine.engine=vllm", "hf_cpu goes with cpu"),
            ("algorithm.critic_learning_rate=1", "only ppo has a critic"),
            ("scenarios.train=test", "held_out_share"),
            ("verl.trainer.use_v1=false", "drops the rewards by turn"),
            ("policy.lora_rank=8", "lora_rank is 8, lora_alpha None"),
            ("policy.warm_start.stepz=3", "policy.warm_start.stepz is 3"),
            ("policy.warm_start.steps=0", "policy.warm_start.steps is 0: .*greater than or equal to 1"),
            ("policy.warm_start.corpus.people=3", "policy.warm_start.corpus.people is 3"),
        ],
    )
    def test_values_that_cannot_be(self, setting: str, said: str) -> None:
        with pytest.raises(InputError, match=said):
            read_recipe("ctc_grpo_tiny", settings=[setting])

    def test_perms_laptop_policy_learns_from_answers(self) -> None:
        with pytest.raises(InputError, match=r"policy.warm_start.corpus is {}; a laptop policy learns from answers"):
            read_recipe("perm_grpo_tiny", settings=["policy.warm_start={}"])

    @pytest.mark.parametrize(
        ("recipe", "setting", "parts"),
        [
            ("perm_grpo_tiny", "max_turns=2", ("max_turns", "perm", "2", "at most 1")),
            ("perm_grpo_tiny", "without=[resonation, expression, reception]", ("without", "perm")),
            ("ctc_grpo_tiny", "relation_wait=0.1", ("eibench", "relation_wait", "relation_weight")),
        ],
    )
    def test_options_are_the_environments(self, recipe: str, setting: str, parts: tuple[str, ...]) -> None:
        with pytest.raises(UseError) as error:
            read_recipe(recipe, settings=[f"environment.options.{setting}"])
        assert all(part in str(error.value) for part in parts)

    def test_options_that_are_not_given_have_the_environments_defaults(self) -> None:
        found = read_recipe("perm_grpo_tiny", settings=["environment.options.without=reception"]).environment
        assert found.options == {
            "preset": "released", "variant": "plain", "max_turns": 1, "bystander_weight": 0.5, "without": ["reception"],
            "length_of": "response",
        }  # fmt: skip

    def test_what_changes_the_reward_alone_is_not_played(self) -> None:
        found = read_recipe("perm_grpo_tiny", variants=["no_reception", "bystander_0.1", "unit"]).environment
        assert found.chosen.model_dump() | {"without": (), "bystander_weight": 0.5} == found.played.model_dump()
        assert found.played.preset == "unit"
        rlver = read_recipe("rlver_grpo_tiny").environment
        assert rlver.played == rlver.chosen

    def test_an_unknown_recipe_or_variant(self) -> None:
        with pytest.raises(UseError, match=r"unknown recipe 'ctc_grpo_tny'; the nearest is 'ctc_grpo_tiny'"):
            read_recipe("ctc_grpo_tny")
        with pytest.raises(UseError, match=r"no variant 'no_floors'; the nearest is 'no_floor'"):
            read_recipe("ctc_grpo_tiny", variants=["no_floors"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "expected a recipe"),
        ("a: [", "is no YAML"),
        ("name: x", "about is missing"),
        ("TINY\nbatsh: {}", r"no setting 'batsh'; the nearest is 'batch'"),
        ("TINY\nseed: 1", "found duplicate key"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, said: str) -> None:
    tiny = (FOLDER / "ctc_grpo_tiny.yaml").read_text(encoding="utf-8")
    (tmp_path / "r.yaml").write_text(text.replace("TINY", tiny), encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read_recipe(str(tmp_path / "r.yaml"))
    with pytest.raises(InputError, match="cannot read"):
        read_recipe(str(tmp_path / "absent.yaml"))


@pytest.mark.parametrize(
    ("setting", "decisive"),
    [
        ("batch.steps=5", True), ("seed=3", True), ("scenarios.held_out_limit=8", True),
        ("verl.actor_rollout_ref.actor.shuffle=true", True), ("watching.save_every=5", False), ("machine.workers=3", False),
    ],
)  # fmt: skip
def test_what_decides_the_result_is_in_the_hash(setting: str, decisive: bool) -> None:
    assert (read_recipe("ctc_grpo_tiny", settings=[setting]).hash != read_recipe("ctc_grpo_tiny").hash) == decisive


def test_an_environment_without_rewards_for_training_is_refused() -> None:
    with pytest.raises(UseError, match=r"daily has no rewards for training"):
        read_recipe("ctc_grpo_tiny", settings=["environment.name=daily"])
    with pytest.raises(UseError, match=r"unknown environment 'sagge'.*nearest is 'sage'"):
        read_recipe("ctc_grpo_tiny", settings=["environment.name=sagge"])
