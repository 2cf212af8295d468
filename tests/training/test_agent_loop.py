"""The agent loop without Ray: verl's own class and configuration with a fake token server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.environments.registry import load_environment
from heartloop.environments.training import rewards_by_turn
from heartloop.training import agent_loop
from heartloop.training.agent_loop import DialogueLoop
from heartloop.training.recipe import read_recipe
from heartloop.training.spending import SharedMeter
from heartloop.training.trainer import RolloutRow, ctc_grpo_advantages
from tests.faulty_server import FaultyServer
from tests.training import tiny_policy

WORDS = tiny_policy.tokenizer()
SCENARIOS = [scenario.id for scenario in load_environment("eibench").load("test")][:4]
EIBENCH = ("ctc_grpo_tiny", "environment.options.max_turns=3", "environment.options.variant=think", "dialogue.sample=turn")
SAGE = ("rlver_ppo_tiny", "environment.options.max_turns=3", "dialogue.sample=turn")
SAMPLING = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.0, "logprobs": True}


class FakeClient:
    """verl's client: a reply of random bytes, drawn from the request's seed."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        self.asked.append({"request_id": request_id, "prompt_ids": prompt_ids, **sampling_params})
        draw = torch.Generator().manual_seed(sampling_params["seed"])
        ids = torch.randint(35, 120, (9,), generator=draw).tolist()
        ids = ids if ids[0] % 2 else [*ids[:4], WORDS.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-1.5] * len(ids), stop_reason="completed",
                           extra_fields={"min_global_steps": 3, "max_global_steps": 3})  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.save(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def config(checkpoint: Path) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer",
            overrides=[
                "actor_rollout_ref.rollout.name=hf_cpu", f"actor_rollout_ref.model.path={checkpoint}",
                "data.max_prompt_length=3500", "data.max_response_length=900",
            ],
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh_worker() -> Iterator[None]:
    agent_loop._worker.cache_clear()
    yield
    agent_loop._worker.cache_clear()


def loop_of(
    config: Any, client: FakeClient, recipe: Sequence[str] = EIBENCH, transcripts: Path = Path(), spending: str = ""
) -> DialogueLoop:
    name, *settings = recipe
    usual = [
        "dialogue.reply_tokens=9",
        "dialogue.chat_format=template",
        f"watching.transcripts_every={int(transcripts != Path())}",
    ]
    return DialogueLoop(
        trainer_config=DictConfigWrap(config), server_manager=client, tokenizer=WORDS, processor=None, dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data), hf_model_type="qwen2", tools=None, transcripts=str(transcripts),
        spending=spending, recipe=read_recipe(name, settings=[*usual, *settings]).model_dump_json(),
    )  # fmt: skip


async def roll(
    config: Any, client: FakeClient, *loop: Any, rollouts: int = 4, scenario_ids: list[str] | None = None, step: int = 3,
    split: str = "train",
) -> list[list[Any]]:  # fmt: skip
    return await asyncio.gather(
        *[
            loop_of(config, client, *loop).run(
                dict(SAMPLING), extra_info={"scenario": scenario, "index": i, "seed": 5, "split": split}, uid=f"u{i}",
                session_id=k, global_steps=step, raw_prompt=[], index=i,
            )
            for i, scenario in enumerate(scenario_ids or SCENARIOS[:2])
            for k in range(rollouts)
        ]
    )  # fmt: skip


async def test_one_row_a_turn_tokens_in_are_tokens_out(config: Any) -> None:
    client = FakeClient()
    found = await roll(config, client, rollouts=1, scenario_ids=SCENARIOS[:1])
    rows = [output.as_dict() for output in found[0]]
    assert [row["prompts"].tolist() for row in rows] == [asked["prompt_ids"] for asked in client.asked]
    for before, after in itertools.pairwise(rows):
        sequence = before["prompts"].tolist() + before["responses"].tolist()
        assert after["prompts"].tolist()[: len(sequence)] == sequence
    for row in rows:
        assert row["response_mask"].tolist() == [1] * len(row["responses"])
        assert row["rollout_log_probs"].tolist() == [-1.5] * len(row["responses"])
        assert len(row["rm_scores"]) == len(row["responses"])
        assert float(row["rm_scores"].sum()) == pytest.approx(row["extra_fields"]["credit"]["outcome"])
    assert "token_rewards" not in rows[0]


async def test_sampling_settings_and_seeds_reach_the_server(config: Any) -> None:
    first, again, later = FakeClient(), FakeClient(), FakeClient()
    await roll(config, first)
    await roll(config, again)
    await roll(config, later, step=4)
    asked = first.asked[0]
    assert {name: asked[name] for name in ("temperature", "top_p", "top_k", "max_tokens", "logprobs")} == {
        "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 9, "logprobs": True,
    }  # fmt: skip
    seeds = [{asked["seed"] for asked in client.asked} for client in (first, again, later)]
    assert seeds[0] == seeds[1]
    assert not seeds[0] & seeds[2]
    assert len(seeds[0]) == len(first.asked)  # no two turns share one
    assert len({asked["request_id"] for asked in first.asked}) == 8  # a dialogue stays with its server


async def test_rollouts_of_a_row_meet_the_same_person_and_become_a_group(config: Any, tmp_path: Path) -> None:
    found = await roll(config, FakeClient(), EIBENCH, tmp_path)
    transcripts = _transcripts(tmp_path)
    assert len(transcripts) == 8
    assert len({(t.scenario, t.seed) for t in transcripts}) == 2
    assert len({tuple(turn.reply for turn in t.turns) for t in transcripts}) == 8
    rows = []
    for number, outputs in enumerate(found):
        for output in outputs:
            credit = output.as_dict()["extra_fields"]["credit"]
            rows.append(RolloutRow(f"u{number // 4}", **credit))
    advantages = ctc_grpo_advantages(rows, (len(rows), 9))
    assert advantages.abs().sum() > 0
    about = found[0][0].extra_fields["dialogue"]
    assert about["group"] in {"charm", "defense", "repair", "support"}
    assert about["reply_tokens"] == [len(output.response_ids) for output in found[0]]
    rollout = found[0][0].extra_fields["credit"]["rollout"]
    first = next(t for t in transcripts if (t.scenario, t.repeat) == (about["scenario"], rollout))
    assert about["said"] == [turn.reply for turn in first.turns]
    assert [output.extra_fields["dialogue"] is None for output in found[0]] == [False] + [True] * (len(found[0]) - 1)


async def test_dialogues_of_every_held_out_evaluation_are_written_and_those_of_some_steps(config: Any, tmp_path: Path) -> None:
    recipe = [*EIBENCH, "watching.transcripts_every=20"]
    for split in ("train", "held_out"):
        await roll(config, FakeClient(), recipe, tmp_path, rollouts=1, split=split)
    assert len(_transcripts(tmp_path, "held_out")) == 2  # step 3 is none of those whose training dialogues are written
    assert _transcripts(tmp_path) == []


async def test_with_immediate_credit_the_estimator_gets_each_turns_own_reward(config: Any, tmp_path: Path) -> None:
    grpo = ["algorithm.name=grpo", "algorithm.alpha=0", "dialogue.credit=immediate", "dialogue.reward=mixed_each"]
    found = await roll(config, FakeClient(), [*EIBENCH, *grpo], tmp_path, rollouts=1)
    played = {transcript.scenario: transcript for transcript in _transcripts(tmp_path)}
    for outputs in found:
        transcript = played[outputs[0].extra_fields["dialogue"]["scenario"]]
        assert transcript.score is not None
        own = [(reward + transcript.score) / 2 for reward in rewards_by_turn(transcript)]
        assert len(set(own)) > 1
        assert outputs[0].extra_fields["credit"]["process"] == pytest.approx(own)


def _transcripts(folder: Path, split: str = "train") -> list[Transcript]:
    return [found for path in sorted(folder.glob(f"{split}-000003-*.jsonl")) for found in read_transcripts(path)]


async def test_a_broken_simulator_gives_no_row_and_its_sockets_are_closed(
    config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scenarios = [scenario.id for scenario in load_environment("sage").load("support")][:2]
    sage = (*SAGE, "dialogue.user=faulty/person")
    async with FaultyServer("bad_request@feel:4", delay=0.05) as server:  # without a delay no call would ever overlap another
        monkeypatch.setenv("FAULTY_BASE_URL", server.base_url)
        found = await roll(config, FakeClient(), sage, scenario_ids=scenarios)
        worker = loop_of(config, FakeClient(), sage).worker
        assert server.most_in_flight >= 4  # dialogues wait for each other nowhere; a gate begins with four calls
    rows = [len(outputs) for outputs in found]
    assert sorted(rows) == [0] * 4 + [3] * 4
    assert sum("failed and is left out (user, RefusedByServer)" in record.message for record in caplog.records) == 4
    assert all(output.extra_fields["dialogue"]["user_calls"] >= 5 for outputs in found for output in outputs[:1])
    (model,) = worker._models
    assert model._connections._session is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fault", "max_tokens", "why"),
    [("none", 20_000, "--max-tokens 20000 is reached"), ("no_quota@feel", None, "top up the account")],
)
async def test_a_limit_or_an_empty_account_ends_the_run_for_all_workers(
    config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str, max_tokens: int | None, why: str
) -> None:
    path = tmp_path / "spending.jsonl"
    meter = SharedMeter(path)
    meter.start(max_tokens=max_tokens, max_cost=None, prices={}, model="faulty/person")
    scenarios = [scenario.id for scenario in load_environment("sage").load("support")][:2]
    async with FaultyServer(fault) if fault != "none" else FaultyServer() as server:
        monkeypatch.setenv("FAULTY_BASE_URL", server.base_url)
        loop = ((*SAGE, "dialogue.user=faulty/person"), Path(), str(path))
        found = await roll(config, FakeClient(), *loop, scenario_ids=scenarios)
        asked = len(server.requests)
        assert not any(await roll(config, FakeClient(), *loop, scenario_ids=scenarios))
        assert len(server.requests) == asked
    assert [] in found
    meter.refresh()
    assert why in meter.stopped
    assert meter.spend().tokens <= (max_tokens or 0)


async def test_an_aborted_reply_fails_the_dialogue(config: Any) -> None:
    class Aborting(FakeClient):
        async def generate(self, *args: Any, **kwargs: Any) -> TokenOutput:
            out = await super().generate(*args, **kwargs)
            return out.model_copy(update={"stop_reason": "aborted"})

    assert await roll(config, Aborting(), rollouts=1) == [[], []]
