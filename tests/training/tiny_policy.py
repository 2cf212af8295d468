"""A policy of a few thousand random weights with a byte tokenizer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The shape of Qwen's."""


@cache
def tokenizer() -> Any:
    """Bytes and a few merges, so that a text has several ways to be written in ids."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["system user assistant", "I hear you. That was unkind of me."] * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


def model(*, seed: int = 0, hidden: int = 16) -> Any:
    """Two layers, tied embeddings."""
    torch.manual_seed(seed)
    words = tokenizer()
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.3,  # far from uniform, so that likely and unlikely tokens differ
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config).eval()


def save(folder: Path) -> Path:
    """The policy as a checkpoint."""
    model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
