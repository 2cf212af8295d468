"""PERM's reward in TRL's GRPOTrainer, with LoRA: `python examples/perm_trl.py MODEL --judge service/model` (extra `trl`).

Settings are those of the authors' script, which runs on four GPUs (`accelerate launch --num_processes 4`), 8 prompts an update.
Left out: DeepSpeed, and the dropout of 0.1 that the script passes to no adapter.
"""

from __future__ import annotations

import argparse

from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

from heartloop.core.dialogue import Sampling
from heartloop.integrations.trl import dataset_rows, reward_function

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="a Hugging Face name, or a directory")
parser.add_argument("--judge", required=True, help="model of the four judges, e.g. openrouter/openai/gpt-6-luna")
parser.add_argument("--allow-embedded", action="store_true", help="accept --judge embedded, to test a training")
parser.add_argument("--steps", type=int, default=-1, help="optimiser steps; default: one epoch")
parser.add_argument("--tokens", type=int, default=1024, help="maximum number of tokens of an answer")
parser.add_argument("--out", default="runs/perm_trl")
parser.add_argument("--cpu", action="store_true")
given = parser.parse_args()

trainer = GRPOTrainer(
    model=given.model,
    reward_funcs=reward_function(
        "perm",
        user=given.judge,
        allow_embedded=given.allow_embedded,
        options={"length_of": "answer"},
        sampling=Sampling(temperature=0.3, max_tokens=1024),
    ),
    args=GRPOConfig(
        output_dir=given.out,
        learning_rate=1e-6,
        lr_scheduler_type="linear",
        warmup_steps=0.1,  # a share of all steps
        beta=0.01,
        seed=42,
        num_generations=8,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        max_completion_length=given.tokens,
        max_steps=given.steps,
        num_train_epochs=1,
        logging_steps=1,
        report_to="none",
        use_cpu=given.cpu,
        bf16=not given.cpu,
    ),
    train_dataset=Dataset.from_list(dataset_rows("perm")),
    # the script has these numbers and not the switch that would use them; PERM App. A.2 says LoRA
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model()
