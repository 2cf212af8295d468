"""Training and rollouts on a CPU: what verl 0.9.1 lacks there.

Its FSDP engine, with two savings that matter for a small model: rows are packed without flash attention, and logits are computed
at policy tokens only. `rollout.name=hf_cpu` is a rollout server, as vLLM's for GPUs, around `generation.BatchedGenerator`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from typing import Any

import ray
import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from heartloop.training.generation import BatchedGenerator, end_tokens
from heartloop.training.rollouts import Drawing
from heartloop.training.verl_config import PACKED

ENGINE = "hf_cpu"
"""Name for `actor_rollout_ref.rollout.name`."""


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    position_ids: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each packed row; a new row starts wherever the position is 0.

    Shape (1, heads, tokens, head size); the number of heads of `key` and `value` is a divisor of that of `query`.
    """
    starts = (position_ids[0] == 0).nonzero()[:, 0]
    sizes = torch.diff(starts, append=starts.new_tensor([position_ids.shape[1]])).tolist()
    grouped = key.shape[1] != query.shape[1]
    outputs = [
        scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=grouped)
        for q, k, v in zip(query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True)
    ]
    return torch.cat(outputs, 2).transpose(1, 2).contiguous(), None


def policy_places(offsets: Tensor, response_mask: Tensor) -> Tensor:
    """The places in a packed batch whose next token is the policy's.

    `offsets`, shape (rows + 1,), are the starts of the rows. `response_mask` is nested, over the response tokens that end a row.
    """
    starts = offsets[1:] - response_mask.offsets().diff() - 1
    return torch.cat([start + mask.nonzero()[:, 0] for start, mask in zip(starts, response_mask.unbind(), strict=True)])


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class EngineCPU(FSDPEngineWithLMHead):  # type: ignore[misc]
    """Actor and reference. Elsewhere than at policy tokens the log-probability is 0, which no loss uses."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, about = super().prepare_model_inputs(micro_batch)
        inputs["logits_to_keep"] = policy_places(micro_batch["input_ids"].offsets(), micro_batch["loss_mask"])
        return inputs, about | {"places": inputs["logits_to_keep"]}

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: TensorDict, logits_processor_func: Any) -> Any:
        places, offsets = output_args["places"], micro_batch["input_ids"].offsets()
        scores = torch.log_softmax(output.logits.squeeze(0).float() / output_args["temperature_rmpad"][places, None], -1)
        by_name = {"log_probs": scores.gather(-1, output_args["input_ids_rmpad_rolled"][places, None])[:, 0]}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            by_name["entropy"] = -(scores.exp() * scores).sum(-1)
        nothing = scores.new_zeros(int(offsets[-1]))
        return {
            name: torch.nested.nested_tensor_from_jagged(nothing.index_put((places,), values), offsets)
            for name, values in by_name.items()
        }


class ServerCPU:
    """Token ids in, token ids out, with the methods that verl calls on a server."""

    def __init__(self, model_config: Any, rollout_config: Any) -> None:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        model = AutoModelForCausalLM.from_pretrained(model_config.path, dtype=torch.float32)
        ends = end_tokens(model.generation_config, AutoTokenizer.from_pretrained(model_config.path))
        self._generator = BatchedGenerator(model, eos=ends, pad=min(ends), max_batch=int(rollout_config.max_num_seqs))
        self._steps: int | None = None

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any) -> TokenOutput:
        """One reply to the agent loop, which gives all of `Drawing`; `request_id` is not used."""
        drawing = Drawing(**{name: value for name, value in sampling_params.items() if name in Drawing._fields})
        drawn = await self._generator.generate(prompt_ids, drawing)
        return TokenOutput(
            token_ids=drawn.tokens, log_probs=drawn.logprobs, stop_reason="completed", extra_fields={"global_steps": self._steps}
        )

    async def load(self, state_dict: Mapping[str, Tensor], global_steps: int | None) -> None:
        await asyncio.to_thread(self._generator.load, state_dict)
        self._steps = global_steps

    async def ready(self) -> bool:
        return True

    async def _nothing(self, *_: Any, **__: Any) -> None: ...

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = _nothing


class ReplicaCPU(RolloutReplica):  # type: ignore[misc]
    async def launch_servers(self) -> None:
        name = _server_name(self.replica_rank, self.name_suffix)
        # further requests would wait in Ray's queue, where no batch includes them
        actor = ray.remote(ServerCPU).options(name=name, max_concurrency=2000, num_cpus=0)
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


EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")(FSDPEngineWithValueHead)
RolloutReplicaRegistry.register(ENGINE, lambda: ReplicaCPU)
_ROLLOUT_REGISTRY[ENGINE, "async"] = f"{__name__}.{WeightSenderCPU.__name__}"
AttentionInterface.register(PACKED, packed_attention)
