"""A LoRA checkpoint of verl's becomes a model like any other: the same scores as the adapted model, no adapter left in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from heartloop.training.checkpoints import weights_in
from heartloop.training.trainer import keep_model, merge_adapters
from tests.training import tiny_policy

RANK, ALPHA = 4, 10


@pytest.fixture
def adapted() -> Any:
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(tiny_policy.model(), config)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if ".lora_B." in name:  # zeros at first: an adapter that has learned nothing
                weights.normal_(std=0.3)
    return model.eval()


def written(model: Any, folder: Path) -> Path:
    """As verl 0.9.1 writes it: a plain model's folder with the adapted model's state."""
    plain = tiny_policy.model()
    state = {name: weights.clone() for name, weights in model.state_dict().items() if "lm_head" not in name}  # tied
    plain.save_pretrained(folder, state_dict=state)
    return folder


def test_merged_weights_give_the_adapted_models_scores(adapted: Any, tmp_path: Path) -> None:
    folder = written(adapted, tmp_path / "huggingface")
    tokens = torch.randint(35, 120, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = adapted(tokens).logits
        assert merge_adapters(folder, rank=RANK, alpha=ALPHA)
        found = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(tokens).logits
        plain = tiny_policy.model()(tokens).logits
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found, plain, atol=1e-2)
    assert [file.name for file in folder.glob("*.safetensors")] == ["model.safetensors"]
    assert not any("lora" in name or "base_" in name for name in load_file(folder / "model.safetensors"))


def test_a_kept_model_outlasts_what_verl_deletes(tmp_path: Path) -> None:
    """verl removes the folder `actor` of a checkpoint too many."""
    plain = tiny_policy.save(tmp_path / "actor" / "huggingface")
    weights = (plain / "model.safetensors").read_bytes()
    for _ in range(2):  # a step that is made again after a resume is kept again
        keep_model(tmp_path)
    shutil.rmtree(tmp_path / "actor")
    assert weights_in(tmp_path) == tmp_path / "model"
    assert (weights_in(tmp_path) / "model.safetensors").read_bytes() == weights


def test_a_checkpoint_without_adapters_is_left_as_it_is(tmp_path: Path) -> None:
    tiny_policy.save(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    assert not merge_adapters(tmp_path, rank=RANK, alpha=ALPHA)
    assert (tmp_path / "model.safetensors").read_bytes() == before
