"""verl's FSDP engine on processors: nothing is computed for padding, and scores of words only where the policy spoke.

Covers two savings that a small model lives by. Rows of a batch are packed into one and attention goes row by row (`PACKED`): with
padding, most of a batch of dialogues would be padding. Scores over the vocabulary, which cost a small model more than its layers,
are worked out at the policy's own tokens alone, not for prompts and what others said; there the log-probability stays 0, which no
loss looks at. Does not cover the loss (verl), nor the critic beyond packing, whose head is one number.
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

__all__ = ["CriticCPU", "EngineCPU", "packed_attention", "spoken_places"]


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
    """Causal attention within each of the rows that one is packed of; a new one begins wherever the position is 0.

    Args:
        query: shape (1, heads, tokens, head size); so `key` and `value`, with as many heads or a divisor.
        position_ids: shape (1, tokens).
    """
    starts = (position_ids[0] == 0).nonzero()[:, 0]
    sizes = torch.diff(starts, append=starts.new_tensor([position_ids.shape[1]])).tolist()
    grouped = key.shape[1] != query.shape[1]
    found = [
        scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=grouped)
        for q, k, v in zip(query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True)
    ]
    return torch.cat(found, 2).transpose(1, 2).contiguous(), None


def spoken_places(offsets: Tensor, response_mask: Tensor) -> Tensor:
    """Where, among the tokens of a packed batch, the next one is the policy's own.

    Args:
        offsets: shape (rows + 1,), where each row begins.
        response_mask: nested, a row's response tokens: 1 for the policy's own. Responses end their rows.
    """
    starts = offsets[1:] - response_mask.offsets().diff() - 1
    return torch.cat([start + mask.nonzero()[:, 0] for start, mask in zip(starts, response_mask.unbind(), strict=True)])


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class EngineCPU(FSDPEngineWithLMHead):  # type: ignore[misc]
    """The actor's and the reference's."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, about = super().prepare_model_inputs(micro_batch)
        inputs["logits_to_keep"] = spoken_places(micro_batch["input_ids"].offsets(), micro_batch["loss_mask"])
        return inputs, about | {"places": inputs["logits_to_keep"]}

    def prepare_model_outputs(self, output: Any, output_args: Any, micro_batch: TensorDict, logits_processor_func: Any) -> Any:
        places, offsets = output_args["places"], micro_batch["input_ids"].offsets()
        scores = torch.log_softmax(output.logits.squeeze(0) / output_args["temperature_rmpad"][places, None], -1)
        found = {"log_probs": scores.gather(-1, output_args["input_ids_rmpad_rolled"][places, None])[:, 0]}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            found["entropy"] = -(scores.exp() * scores).sum(-1)
        nothing = scores.new_zeros(int(offsets[-1]))
        return {
            name: torch.nested.nested_tensor_from_jagged(nothing.index_put((places,), values), offsets)
            for name, values in found.items()
        }


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CriticCPU(FSDPEngineWithValueHead):  # type: ignore[misc]
    """The critic's: verl's own, by which it is found on processors."""


AttentionInterface.register(PACKED, packed_attention)
