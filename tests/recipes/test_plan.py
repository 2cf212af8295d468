"""What a plan counts, the scenarios of a run, and what this machine lacks for it."""

from __future__ import annotations

import json
import shutil
import socket
from collections import Counter
from pathlib import Path

import pytest

from heartloop.core.errors import InputError, UseError
from heartloop.core.system import install_command
from heartloop.environments.perm.scenario import DrawnScenario
from heartloop.environments.records import write_records
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.environments.sage.importers import read_profiles
from heartloop.training import plan
from heartloop.training.plan import counts_of, gigabytes_per_gpu, missing, plan_text
from heartloop.training.recipe import Recipe, read_recipe
from heartloop.training.verl_config import (
    RunPaths,
    Split,
    environment_of,
    overrides,
    split_of,
    write_data,
)
from tests.released_form import profile, write


class TestCounts:
    @pytest.mark.parametrize("size", ["8b", "32b"])
    def test_eibench_table_12(self, size: str) -> None:
        printed = {
            row["setting"]: row["value"] for row in published("heartloop.environments.eibench", "eibench_table12_cost_settings")
        }
        counts = counts_of(read_recipe(f"ctc_grpo_qwen3_{size}"), held_out=213)
        assert counts.calls == printed[f"simulator_calls_per_step_{size}"]
        assert round(counts.all_calls / 1000) == printed[f"total_simulator_calls_thousands_approx_{size}"]
        paper = counts.all_calls * 1_200  # the paper's tokens of a call; our prompts are longer
        assert round(paper / 1e6) == printed[f"estimated_qwen3_max_tokens_millions_approx_{size}"]

    def test_worked_by_hand(self) -> None:
        # 16 x 8 = 128 dialogues of up to 8 turns: 1,024 samples; 32 x 8 = 256 an update: 4
        counts = counts_of(read_recipe("ctc_grpo_qwen3_8b"), held_out=213)
        assert (counts.dialogues, counts.samples, counts.updates) == (128, 1024, 4)
        assert counts.evaluations == 26  # before step 1, and 250 / 10
        assert counts.held_out_calls == 213 * 8
        # SAGE asks twice a turn, how it feels and what is said: 32 x 8 x 2
        assert counts_of(read_recipe("rlver_ppo_qwen2.5_7b"), held_out=100).calls == 512

    def test_perm_asks_four_judges_about_every_answer(self) -> None:
        # 32 x 8 answers x 4; the published cost of the judge, below 30 USD, fits 95 million tokens of GPT-4o-mini
        recipe = read_recipe("perm_grpo_qwen2.5_7b")
        counts = counts_of(recipe, held_out=96)
        assert (counts.calls, counts.all_calls, counts.held_out_calls) == (1024, 95_232, 384)
        assert (counts.samples, counts.updates) == (256, 1)
        assert "without reception" in plan_text(read_recipe("perm_grpo_tiny", variants=["no_reception"]), None)


def groups_of(split: Split, environment: str) -> dict[str, int]:
    training = load_environment(environment).training
    assert training is not None
    return dict(Counter(map(training.group, split.held_out)))


class TestScenarios:
    def test_one_set_is_parted(self) -> None:
        split = split_of(read_recipe("rlver_ppo_tiny"))
        assert (len(split.train), len(split.held_out)) == (80, 20)
        assert not {person.id for person in split.train} & {person.id for person in split.held_out}
        assert set(groups_of(split, "sage").values()) == {2, 3}  # 20 over eight intentions

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            (
                ["scenarios.train=support", "scenarios.held_out=test"],
                "support holds scenarios of sage; the recipe's environment is eibench",
            ),
            (
                ["algorithm.alpha={charm: 10, defence: 20}"],
                "alpha is for charm, defence; expected a number, or one for each of charm, defense, repair, support",
            ),
            (["scenarios.train=nobody.jsonl"], "unknown scenario set 'nobody.jsonl'"),
            (
                ["scenarios.train=test", "scenarios.held_out_share=0.25", "scenarios.train_limit=4"],
                "4 training scenarios are fewer than the 8",
            ),
        ],
    )
    def test_people_that_cannot_be(self, settings: list[str], said: str) -> None:
        with pytest.raises(UseError, match=said):
            split_of(read_recipe("ctc_grpo_tiny", settings=settings))

    def test_scenarios_that_the_user_cannot_play_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "drawn.jsonl"
        drawn = DrawnScenario(
            form="perm-drawn/1", id="perm-jealous-0123abcd", emotion="jealous", source="a study",
            scenario="A colleague was chosen instead of me.", query="He was chosen.",
        )  # fmt: skip
        file.write_text(drawn.model_dump_json() + "\n", encoding="utf-8")
        settings = [f"scenarios.train={file}", "scenarios.held_out_share=null", "batch.scenarios=1"]
        with pytest.raises(InputError, match="perm-jealous-0123abcd"):
            split_of(read_recipe("perm_grpo_tiny", settings=settings))
        assert len(split_of(read_recipe("perm_grpo_tiny", settings=[*settings, "dialogue.user=heartloop/reflector"])).train) == 1

    def test_rlver_trains_on_imported_profiles_without_first_messages(self, tmp_path: Path) -> None:
        """RLVER's training profiles have none; the user simulator writes them (docs/released-data.md)."""
        profiles = write(tmp_path / "train.jsonl", [profile(number, first=None) for number in range(32)])
        write_records(tmp_path / "rlver_train.jsonl", read_profiles(profiles).scenarios, exclude_unset=True)
        recipe = read_recipe("rlver_ppo_qwen2.5_7b", settings=[f"scenarios.train={tmp_path / 'rlver_train.jsonl'}"])
        split = split_of(recipe)
        assert (len(split.train), len(split.held_out)) == (32, 100)

    def test_a_file_that_holds_held_out_people(self, tmp_path: Path) -> None:
        file = tmp_path / "scenarios.jsonl"
        people = load_environment("sage").load("support")[:40]
        file.write_text("".join(person.model_dump_json() + "\n" for person in people), encoding="utf-8")
        settings = [f"scenarios.train={file}", "scenarios.held_out_share=null"]
        with pytest.raises(InputError, match="40 scenarios are both trained on and held out"):
            split_of(read_recipe("rlver_ppo_tiny", settings=settings))

    def test_stratified_batches_have_as_many_of_each_scene(self, tmp_path: Path) -> None:
        """EIBench's released training; here with 100 steps of 8, from the 142 of its test set that are not held out."""
        import pyarrow.parquet

        settings = ["batch.stratified=true", "scenarios.train=test", "scenarios.held_out_share=0.3333", "batch.steps=100"]
        recipe, paths = read_recipe("ctc_grpo_tiny", settings=settings), RunPaths(tmp_path / "run")
        split = split_of(recipe)
        write_data(recipe, split, paths)
        rows = pyarrow.parquet.read_table(paths.train).to_pylist()
        assert [row["extra_info"]["index"] for row in rows] == list(range(800))
        for step in range(100):
            assert set(Counter(row["data_source"] for row in rows[8 * step : 8 * step + 8]).values()) == {2}
        for scene, scenarios in Counter(f"eibench_{scenario.stratum}" for scenario in split.train).items():
            dealt = [row["extra_info"]["scenario"] for row in rows if row["data_source"] == scene]
            first, second = dealt[:scenarios], dealt[scenarios : 2 * scenarios]
            assert len(set(first)) == scenarios  # none again before all of its scene were played
            assert sorted(first) == sorted(second)
            assert first != second

    def test_rows_name_people_and_hold_no_prompt(self, tmp_path: Path) -> None:
        import pyarrow.parquet

        recipe = read_recipe("rlver_ppo_tiny", seed=3)
        split = split_of(recipe)
        paths = RunPaths(tmp_path / "run")
        write_data(recipe, split, paths)
        found = pyarrow.parquet.read_table(paths.held_out).to_pylist()
        (loop,) = json.loads(paths.agent_loops.read_text())
        assert (loop["name"], loop["transcripts"]) == ("heartloop", str(paths.transcripts))
        assert Recipe.model_validate_json(loop["recipe"]) == recipe
        assert [row["extra_info"]["scenario"] for row in found] == [person.id for person in split.held_out]
        first = found[0]
        assert first["data_source"] == f"sage_{split.held_out[0].stratum}"
        assert (first["extra_info"]["split"], first["extra_info"]["seed"], first["agent_name"]) == ("held_out", 3, "heartloop")


CONNECT = plan._connect
"""The connection itself, which a machine with everything on it does not try."""


class TestMissing:
    @pytest.fixture
    def bare(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A machine with nothing on it."""
        monkeypatch.setattr(plan, "find_spec", lambda name: None)
        monkeypatch.setattr(shutil, "which", lambda name: None)
        monkeypatch.setattr(plan, "_free_memory", lambda: 1.5)
        for name in ("OPENROUTER_API_KEY", "RAY_ADDRESS", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_HOME", str(tmp_path))

    @pytest.fixture
    def full(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A machine with everything on it."""
        monkeypatch.setattr(plan, "find_spec", lambda name: object())
        monkeypatch.setattr(plan, "_connect", lambda user: None)
        monkeypatch.setattr(plan, "_gpus", lambda: [80.0] * 8)
        monkeypatch.setattr(plan, "_free_memory", lambda: 64.0)
        monkeypatch.setenv("OPENROUTER_API_KEY", "something")
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        for model in ("Qwen--Qwen3-8B", "Qwen--Qwen3-32B", "Qwen--Qwen2.5-7B-Instruct"):
            (tmp_path / "hub" / f"models--{model}").mkdir(parents=True)

    @pytest.mark.usefixtures("bare")
    def test_a_bare_machine_lacks_all_of_it(self) -> None:
        found = missing(read_recipe("ctc_grpo_qwen3_32b"))
        said = " ".join(f"{item.what} {item.remedy}" for item in found)
        for what in ("the extra train", "vllm", "flash-attn", "need a Ray cluster", "0 GPUs here", "OPENROUTER_API_KEY"):
            assert what in said
        assert [item.stops for item in found] == sorted((item.stops for item in found), reverse=True)

    @pytest.mark.usefixtures("bare")
    def test_a_laptop_recipe_wants_the_extra_and_some_memory(self) -> None:
        extra, memory = missing(read_recipe("ctc_grpo_tiny"), allow_embedded=True)
        assert (extra.remedy.startswith(install_command("train")), extra.stops) == (True, True)
        assert ("1.5 GB of memory are free" in memory.what, memory.stops) == (True, False)

    @pytest.mark.usefixtures("full")
    @pytest.mark.parametrize("name", ["ctc_grpo_qwen3_8b", "ctc_grpo_qwen3_32b", "rlver_ppo_qwen2.5_7b", "rlver_grpo_tiny"])
    def test_a_full_machine_lacks_nothing(self, name: str) -> None:
        assert missing(read_recipe(name), allow_embedded=True) == []

    @pytest.mark.usefixtures("full")
    @pytest.mark.parametrize(
        ("user", "refused"), [("embedded", True), ("openrouter/openai/gpt-6-luna", False), ("student:judge.npz", False)]
    )
    def test_only_the_embedded_user_is_no_reward(self, monkeypatch: pytest.MonkeyPatch, user: str, refused: bool) -> None:
        monkeypatch.setattr(plan, "resolve", lambda name: None)  # the student has no file here
        found = missing(read_recipe("rlver_grpo_tiny", settings=[f"dialogue.user={user}"]))
        assert [item.stops for item in found] == [True] * refused

    @pytest.mark.usefixtures("full")
    def test_a_policy_that_is_not_here_stops_only_who_may_not_ask_the_hub(self, monkeypatch: pytest.MonkeyPatch) -> None:
        recipe = read_recipe("ctc_grpo_qwen3_8b", settings=["policy.model=some/other-8B"])
        (found,) = missing(recipe)
        assert ("some/other-8B is not on this machine" in found.what, found.stops) == (True, False)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        (found,) = missing(recipe)
        assert found.stops
        monkeypatch.delenv("HF_HUB_OFFLINE")
        laptop = read_recipe("ctc_grpo_tiny", settings=["policy.model=some/other-8B"])
        (found,) = missing(laptop, allow_embedded=True)
        assert (found.remedy, found.stops) == ("give a directory: --set policy.model=DIR", True)  # a laptop run asks no network

    @pytest.mark.usefixtures("full")
    @pytest.mark.parametrize(
        ("setting", "said"),
        [
            ("watching.loggers=wandb", "the logger wandb is not installed"),
            ("dialogue.user=nobody/x", "unknown service 'nobody'"),
            ("dialogue.user=gpt-4", "expected service/model"),
            ("policy.model=/", "holds no checkpoint"),
        ],
    )
    def test_what_a_full_machine_lacks_stops_the_run(self, monkeypatch: pytest.MonkeyPatch, setting: str, said: str) -> None:
        monkeypatch.setattr(plan, "find_spec", lambda name: None if name == "wandb" else object())
        (found,) = missing(read_recipe("rlver_grpo_tiny", settings=[setting]), allow_embedded=True)
        assert said in f"{found.what} {found.remedy}"
        assert found.stops

    @pytest.mark.usefixtures("full")
    def test_a_user_simulator_whose_address_is_silent_stops_the_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plan, "_connect", CONNECT)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            monkeypatch.setenv("VLLM_BASE_URL", f"http://127.0.0.1:{port}/v1")
            recipe = read_recipe("rlver_grpo_tiny", settings=["dialogue.user=vllm/qwen"])
            assert missing(recipe) == []
        (found,) = missing(recipe)
        assert f"http://127.0.0.1:{port} does not answer" in found.remedy
        assert found.stops

    @pytest.mark.usefixtures("full")
    def test_what_a_full_machine_has(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}", encoding="utf-8")
        settings = [f"policy.model={tmp_path}", "dialogue.user=heartloop/reflector", "watching.loggers=wandb"]
        assert missing(read_recipe("rlver_grpo_tiny", settings=settings)) == []

    def test_memory_of_weights(self) -> None:
        # 8 billion x 16 bytes over 8 GPUs, and 2 bytes on each: 16 + 16
        assert gigabytes_per_gpu(read_recipe("ctc_grpo_qwen3_8b")) == pytest.approx(32.0)
        # a critic is as large as the actor: 2 x 7 x 16 / (4 x 8) + 14
        assert gigabytes_per_gpu(read_recipe("rlver_ppo_qwen2.5_7b")) == pytest.approx(21.0)
        assert gigabytes_per_gpu(read_recipe("ctc_grpo_tiny")) is None


class TestVerlsWords:
    def test_every_text_is_quoted(self) -> None:
        recipe = read_recipe("ctc_grpo_tiny")
        found = overrides(recipe, RunPaths(Path("/a b/it's")), model='m"x', train_rows=100)
        assert 'data.train_files="/a b/it\'s/data/train.parquet"' in found
        assert 'actor_rollout_ref.model.path="m\\"x"' in found
        assert len({text.partition("=")[0] for text in found}) == len(found)

    def test_a_laptop_run_touches_no_gpu_and_no_network(self) -> None:
        settings = environment_of(read_recipe("ctc_grpo_tiny"))
        assert (settings["VERL_PLATFORM"], settings["HF_HUB_OFFLINE"], settings["RAY_USAGE_STATS_ENABLED"]) == ("cpu", "1", "0")
        found = json.dumps(overrides(read_recipe("ctc_grpo_tiny"), RunPaths(Path("/r")), model="m", train_rows=9))
        assert "127.0.0.1" in found
        assert "VERL_PLATFORM" not in environment_of(read_recipe("ctc_grpo_qwen3_8b"))
