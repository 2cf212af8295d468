"""verl's FSDP engine on a CPU, without computation for padding and with logits only at policy tokens.

Covers two savings that matter for a small model. Rows of a batch are packed into one and attention goes row by row (`PACKED`):
with padding, most of a batch of dialogues would be padding. Logits over the vocabulary, which cost a small model more than its
layers, are computed at policy tokens only, not for prompts and other roles' messages; there the log-probability is 0, which no
loss uses. Does not cover the loss (verl), nor the critic beyond packing, whose head is one number.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

from heartloop.training.verl_config import PACKED

__all__ = ["CriticCPU", "EngineCPU", "packed_attention", "policy_places"]


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

    Args:
        query: shape (1, heads, tokens, head size); `key` and `value` alike, their number of heads a divisor of it.
        position_ids: shape (1, tokens).
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

    Args:
        offsets: shape (rows + 1,), where each row starts.
        response_mask: nested, over a row's response tokens: 1 for the policy's. Responses end their rows.
    """
    starts = offsets[1:] - response_mask.offsets().diff() - 1
    return torch.cat([start + mask.nonzero()[:, 0] for start, mask in zip(starts, response_mask.unbind(), strict=True)])


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class EngineCPU(FSDPEngineWithLMHead):  # type: ignore[misc]
    """Of the actor and the reference."""

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


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CriticCPU(FSDPEngineWithValueHead):  # type: ignore[misc]
    """Of the critic: verl's own, registered for the CPU."""


AttentionInterface.register(PACKED, packed_attention)
