"""How quickly does training go on a GPU? `python -m benchmarks.gpu_training --size 0.5b --out FILE.json` (extra `train`)

A randomly initialised Llama of Qwen2.5's sizes, EIBench with the embedded user, CTC-GRPO through `heartloop train`'s own launch
(vLLM or SGLang where one is installed, otherwise our transformers server), against the same dialogues and the same tokens with
nothing but transformers: `generate`, one reply at a time, and one forward and backward pass a dialogue. Tells tokens a second
of rollout and update, peak memory, and where a step's time goes. A random policy hardly ever ends a reply: all are `--reply`
long, so that the work is the same everywhere. The tokenizer is our laptop one, filled up to the real size with words that
nobody says; its prompts are shorter than those of a large tokenizer (long messages are cut). Says nothing of learning. No model
hub is asked.

`--size tiny` is a smoke test on processors. No numbers of a GPU are published yet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import string
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.machine import machine
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.training.laptop.corpus import CorpusSettings
from heartloop.training.laptop.policy import MARKERS, build_tokenizer
from heartloop.training.launch import train
from heartloop.training.metrics import read_metrics
from heartloop.training.recipe import Recipe, read_recipe
from heartloop.training.rollouts import ChatFormat, Drawing, Generated, Sample, TokenPolicy, samples


class Size(NamedTuple):
    """Of a transformer."""

    width: int
    layers: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int


SIZES = {
    "tiny": Size(64, 2, 4, 2, 128, 4096),
    "0.5b": Size(896, 24, 14, 2, 4864, 151_936),
    "1.5b": Size(1536, 28, 12, 2, 8960, 151_936),
    "3b": Size(2048, 36, 16, 2, 11_008, 151_936),
}
"""Qwen2.5's, as its checkpoints' config.json have them; `tiny` is ours."""

LONGEST = 1024


def policy(size: Size, folder: Path) -> Path:
    """A checkpoint of random weights with a tokenizer of as many words."""
    scenarios = load_environment("eibench").load("test")
    texts = [text for scenario in scenarios for text in scenario.model_dump_json().split('"')]
    tokenizer = _filled(build_tokenizer(texts, layout=CorpusSettings().layout), size.vocabulary)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=max(size.vocabulary, len(tokenizer)),
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _filled(tokenizer: PreTrainedTokenizerFast, words: int) -> PreTrainedTokenizerFast:
    """The same with made-up words, so that whatever a random policy draws is something said."""
    whole = json.loads(tokenizer.backend_tokenizer.to_str())
    known = whole["model"]["vocab"]
    letters = product(string.ascii_lowercase, repeat=4)
    known |= {f"▁q{''.join(four)}": number for number, four in zip(range(len(known), words), letters, strict=False)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(whole)), chat_template=tokenizer.chat_template,
        pad_token=tokenizer.pad_token, unk_token=tokenizer.unk_token, eos_token=tokenizer.eos_token,
        additional_special_tokens=list(MARKERS[3:]),
    )  # fmt: skip


def recipe_of(model: Path, arguments: argparse.Namespace) -> Recipe:
    """The laptop's recipe with this policy, on a GPU where there is one."""
    engine = next((name for name in ("vllm", "sglang") if find_spec(name)), None)
    settings = [
        f"policy.model={model}", "dialogue.sample=dialogue", f"dialogue.reply_tokens={arguments.reply}", "scenarios.train=test",
        "scenarios.held_out=test", "scenarios.held_out_share=0.02", "scenarios.held_out_limit=null",
        f"environment.options.max_turns={arguments.turns}",
        f"policy.max_prompt={LONGEST}", f"policy.max_response={LONGEST}", f"batch.scenarios={arguments.scenarios}",
        f"batch.rollouts={arguments.rollouts}", f"batch.mini_batch={arguments.scenarios}", f"batch.steps={arguments.steps}",
        "watching.validate_every=0", "watching.save_every=0", "batch.tokens_per_device=8192", "machine.workers=1",
    ]  # fmt: skip
    if torch.cuda.is_available():
        flash = str(find_spec("flash_attn") is not None).lower()
        settings += ["machine.device=gpu", f"machine.engine={engine or 'vllm'}", f"machine.flash_attention={flash}"]
        settings += [] if engine else ["verl.actor_rollout_ref.rollout.name=hf_cpu"]
    return read_recipe("ctc_grpo_tiny", settings=settings)


def under_verl(recipe: Recipe, run: Path) -> dict[str, Any]:
    """Medians over the steps after the first, which warms up."""
    with watched_memory() as memory:
        ended = train(recipe, run, progress=print)
    if ended.code:
        raise SystemExit(f"verl ended with {ended.code}: {ended.why} ({ended.log})")
    lines = [line["data"] for line in read_metrics(run)][1:]

    def seconds(name: str) -> float:
        return float(median(line.get(f"timing_s/{name}", 0.0) for line in lines))

    drawn = median(line["dialogue/reply_tokens"] * line["dialogue/turns"] * line["dialogue/scored"] for line in lines)
    read = median(line["perf/total_num_tokens"] for line in lines)
    learning = seconds("old_log_prob") + seconds("update_actor")
    parts = ("gen", "old_log_prob", "adv", "update_actor", "update_weights", "step")
    return {
        "engine": recipe.verl.get("actor_rollout_ref.rollout.name", recipe.machine.engine),
        "rollout_tokens_per_s": round(drawn / seconds("gen"), 1),
        "update_tokens_per_s": round(read / learning, 1),
        "seconds": {name: round(seconds(name), 3) for name in parts},
        "trainer_peak_gb": round(max(line.get("actor/perf/max_memory_allocated_gb", 0.0) for line in lines), 2),
        "device_peak_gb": memory[0],
    }


class PlainServer:
    """transformers' own `generate`, one reply at a time."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._one = asyncio.Lock()

    async def generate(self, prompt: Sequence[int], drawing: Drawing) -> Generated:
        def draw() -> list[int]:
            ids = torch.tensor([list(prompt)], device=self._model.device)
            mask = torch.ones_like(ids)
            with torch.inference_mode():
                out = self._model.generate(
                    ids, attention_mask=mask, do_sample=True, temperature=drawing.temperature, top_p=drawing.top_p,
                    top_k=drawing.top_k, max_new_tokens=drawing.max_tokens,
                )  # fmt: skip
            found: list[int] = out[0, len(prompt) :].tolist()
            return found

        async with self._one:
            tokens = await asyncio.to_thread(draw)
        return Generated(tokens, [0.0] * len(tokens), "stop" if tokens[-1] == self._model.config.eos_token_id else "length")


def plainly(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same dialogues, fewer of them, without an engine."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    precision = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(path, dtype=precision).to(device)
    words = AutoTokenizer.from_pretrained(path)
    spec = load_environment("eibench")
    scenarios = spec.load("test")[: arguments.plain]
    environment = spec.make(scenarios, spec.players(), {"max_turns": arguments.turns})
    server, form = PlainServer(model), ChatFormat(words, longest=LONGEST)
    policies = [
        TokenPolicy(server, form, ends=[words.eos_token_id], max_prompt=LONGEST, drawing=Drawing(arguments.reply))
        for _ in scenarios
    ]

    async def all_of_them() -> None:
        await asyncio.gather(*(play(environment, scenario.id, one) for scenario, one in zip(scenarios, policies, strict=True)))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    rolled = time.perf_counter() - started
    drawn = sum(len(turn.tokens) for one in policies for turn in one.turns)
    found = [sample for one in policies for sample in samples(one.turns, per="dialogue", max_response=LONGEST)]
    learned, read = _learned(model, found, device)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    return {
        "dialogues": len(scenarios),
        "rollout_tokens_per_s": round(drawn / rolled, 1),
        "update_tokens_per_s": round(read / learned, 1),
        "peak_gb": round(peak, 2),
    }


def _learned(model: Any, found: Sequence[Sample], device: str) -> tuple[float, int]:
    """Seconds and tokens of an update over the samples."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.0)
    started = time.perf_counter()
    for sample in found:
        ids = torch.tensor([sample.prompt + sample.response], device=device)
        mask = torch.tensor([0] * len(sample.prompt) + sample.mask, device=device).bool()[1:]
        scores = torch.log_softmax(model(ids).logits[0, :-1].float(), -1)
        torch.autograd.backward(-scores.gather(-1, ids[0, 1:, None])[mask].mean())
    optimiser.step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, sum(len(one.prompt) + len(one.response) for one in found)


@contextmanager
def watched_memory() -> Iterator[list[float | None]]:
    """Most memory in use on the first GPU, in GiB, as the driver tells it twice a second; `None` without one."""
    peak: list[float | None] = [None]
    done = threading.Event()
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]

    def look() -> None:
        while not done.wait(0.5):
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
            if said.isdigit():
                peak[0] = max(peak[0] or 0.0, round(int(said) / 1024, 2))

    watcher = threading.Thread(target=look, daemon=True)
    if shutil.which(command[0]):
        watcher.start()
    try:
        yield peak
    finally:
        done.set()


def main() -> None:
    """Prints and writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="0.5b")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scenarios", type=int, default=8, help="scenarios a step")
    parser.add_argument("--rollouts", type=int, default=8, help="dialogues with each")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--reply", type=int, default=96, help="tokens of a reply")
    parser.add_argument("--steps", type=int, default=4, help="the first is not counted")
    parser.add_argument("--plain", type=int, default=4, help="dialogues without an engine; they are slow")
    arguments = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    found: dict[str, Any] = {
        **machine("torch", "transformers", "verl", "vllm", "sglang"),
        "device": device,
        "size": arguments.size,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = policy(SIZES[arguments.size], Path(folder) / "policy")
        found["words"] = len(AutoTokenizer.from_pretrained(path)) - len(MARKERS)
        found["plain"] = plainly(path, arguments)
        found["verl"] = under_verl(recipe_of(path, arguments), Path(folder) / "run")
    print(json.dumps(found, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
