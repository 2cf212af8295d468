"""A rollout engine for verl without a GPU: a Ray actor around `generation.BatchedGenerator`.

Covers verl's two parts of a rollout engine: the replica that answers requests, and the adapter in the training worker that sends
it new weights. verl 0.9.1 ships them for vllm, sglang and trtllm; this one is `rollout.name=hf_cpu`. Does not cover sampling
(`generation`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from heartloop.training.generation import BatchedGenerator, end_tokens
from heartloop.training.rollouts import Drawing

__all__ = ["ENGINE", "ReplicaCPU", "ServerCPU", "WeightSenderCPU"]

ENGINE = "hf_cpu"
"""Its name for `actor_rollout_ref.rollout.name`."""

CONCURRENCY = 2000
"""Concurrent requests of a server; further ones wait in Ray's queue, where no batch includes them."""


class ServerCPU:
    """Token ids in, token ids out, with the methods that verl calls on a server."""

    def __init__(self, model_config: Any, rollout_config: Any) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        model = AutoModelForCausalLM.from_pretrained(model_config.path, dtype=torch.float32)
        if torch.cuda.is_available() and os.environ.get("VERL_PLATFORM") != "cpu":
            model = model.to("cuda", torch.bfloat16)  # a GPU without an inference engine; not tested
        ends = end_tokens(model, AutoTokenizer.from_pretrained(model_config.path))
        self._generator = BatchedGenerator(model, eos=ends, pad=min(ends), max_batch=int(rollout_config.max_num_seqs))
        self._response_length = int(rollout_config.response_length)
        self._steps: int | None = None

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any) -> TokenOutput:
        """One reply; `request_id` is not used."""
        drawing = Drawing(
            max_tokens=int(sampling_params.get("max_tokens") or self._response_length),
            temperature=float(sampling_params.get("temperature", 1.0)),
            top_p=float(sampling_params.get("top_p", 1.0)),
            top_k=int(sampling_params.get("top_k", 0)),
            seed=sampling_params.get("seed"),
        )
        drawn = await self._generator.generate(prompt_ids, drawing)
        return TokenOutput(
            token_ids=drawn.tokens, log_probs=drawn.logprobs, stop_reason="completed", extra_fields={"global_steps": self._steps}
        )

    async def load(self, state_dict: Mapping[str, Tensor], global_steps: int | None) -> None:
        """Loads new weights after the current batch."""
        await asyncio.to_thread(self._generator.load, state_dict)
        self._steps = global_steps

    async def ready(self) -> bool:
        return True

    async def wake_up(self, *_: Any, **__: Any) -> None: ...

    async def sleep(self, *_: Any, **__: Any) -> None: ...

    async def clear_kv_cache(self) -> None: ...

    async def release_kv_cache(self) -> None: ...

    async def resume_kv_cache(self) -> None: ...

    async def abort_all_requests(self, **_: Any) -> dict[str, Any]:
        return {"aborted_count": 0, "request_ids": []}

    async def resume_generation(self) -> None: ...

    async def start_profile(self, **_: Any) -> None: ...

    async def stop_profile(self) -> None: ...


class ReplicaCPU(RolloutReplica):  # type: ignore[misc]
    """One server process for each training rank."""

    async def launch_servers(self) -> None:
        name = _server_name(self.replica_rank, self.name_suffix)
        actor = ray.remote(ServerCPU).options(name=name, max_concurrency=CONCURRENCY, num_cpus=0)
        server = actor.remote(self.model_config, self.config)
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class WeightSenderCPU(BaseRollout):  # type: ignore[misc]
    """Sends new weights from a training worker to its rank's server after every step."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        ranks = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        rank = int(os.environ["RANK"])
        self._replica, self._sends = rank // ranks, rank % ranks == 0
        self._server: Any = None

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self, weights: Generator[tuple[str, Tensor], None, None], global_steps: int | None = None, **_: Any
    ) -> None:
        # every rank iterates over the weights, as each weight is gathered from all ranks
        state_dict = {name: weight.detach().to("cpu", torch.float32).clone() for name, weight in weights}
        if self._sends:
            self._server = self._server or ray.get_actor(_server_name(self._replica, ""))
            await self._server.load.remote(state_dict, global_steps)


def _server_name(replica: int, suffix: str) -> str:
    return f"{ENGINE}_server_{replica}{suffix}"


RolloutReplicaRegistry.register(ENGINE, lambda: ReplicaCPU)
_ROLLOUT_REGISTRY[ENGINE, "async"] = f"{__name__}.{WeightSenderCPU.__name__}"
