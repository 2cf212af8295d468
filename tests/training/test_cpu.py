"""The training engine on a CPU computes what verl's own does, at policy tokens only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from heartloop.training.cpu import EngineCPU, policy_places
from heartloop.training.verl_config import PACKED
from tests.training import tiny_policy

ROWS = [([5, 6, 7], [8, 9, 10, 11], [1, 1, 0, 1]), ([40, 41], [42], [1]), ([50, 51, 52, 53, 54], [55, 56, 57], [0, 0, 0])]
"""Prompt, response, mask."""


def packed_model(name: str) -> Any:
    model = tiny_policy.model()
    model.set_attn_implementation(name)
    return model


def jagged(rows: list[list[int]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def batch_of(rows: list[tuple[list[int], list[int], list[int]]]) -> TensorDict:
    found = TensorDict(
        {
            "input_ids": jagged([prompt + response for prompt, response, _ in rows]),
            "loss_mask": jagged([mask for _, _, mask in rows]),
        },
        batch_size=len(rows),
    )
    tu.assign_non_tensor(found, calculate_entropy=True)
    return found


def outputs(model: Any, rows: list[tuple[list[int], list[int], list[int]]], temperature: float) -> Any:
    """What the engine makes of a batch, without verl's set-up of processes."""
    batch = batch_of(rows)
    ids = batch["input_ids"].values()
    places = policy_places(batch["input_ids"].offsets(), batch["loss_mask"])
    positions = torch.cat([torch.arange(len(prompt) + len(response)) for prompt, response, _ in rows])
    output = model(input_ids=ids[None], position_ids=positions[None], logits_to_keep=places, use_cache=False)
    about = {
        "places": places,
        "input_ids_rmpad_rolled": torch.roll(ids, -1),
        "temperature_rmpad": torch.full(ids.shape, temperature),
    }
    return EngineCPU.prepare_model_outputs(object.__new__(EngineCPU), output, about, batch, None)


def test_packed_rows_are_alone() -> None:
    model, plain = packed_model(PACKED), packed_model("sdpa")
    sequences = [torch.tensor(prompt + response) for prompt, response, _ in ROWS]
    positions = torch.cat([torch.arange(len(ids)) for ids in sequences])
    together = model(input_ids=torch.cat(sequences)[None], position_ids=positions[None], use_cache=False).logits[0]
    each = torch.cat([plain(input_ids=ids[None], use_cache=False).logits[0] for ids in sequences])
    assert torch.allclose(together, each, atol=1e-5)
    direction = torch.randn(each.shape, generator=torch.Generator().manual_seed(1))
    (together * direction).sum().backward()
    (each * direction).sum().backward()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_numbers_stand_where_the_policy_spoke(temperature: float) -> None:
    model, plain = packed_model(PACKED), packed_model("sdpa")
    found = outputs(model, ROWS, temperature)
    for row, (prompt, response, mask) in enumerate(ROWS):
        scores = torch.log_softmax(plain(torch.tensor([prompt + response])).logits[0].detach() / temperature, -1)
        for place in range(len(prompt) + len(response)):
            after = place + 1 - len(prompt)  # number of the response token that this place predicts
            is_policy = 0 <= after < len(response) and mask[after] == 1
            wanted = scores[place, response[after]] if is_policy else torch.tensor(0.0)
            assert found["log_probs"][row][place].item() == pytest.approx(float(wanted), abs=1e-5)
            wanted = -(scores[place].exp() * scores[place]).sum() if is_policy else torch.tensor(0.0)
            assert found["entropy"][row][place].item() == pytest.approx(float(wanted), abs=1e-5)


def test_a_batch_of_silence_has_a_gradient_of_zero() -> None:
    model = packed_model(PACKED)
    found = outputs(model, ROWS[2:], 1.0)
    (found["log_probs"].values().sum() + found["entropy"].values().sum()).backward()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())
