"""Folders of made-up training runs, with the names of metrics that verl 0.9.1 and `heartloop.training` log."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript, write_line
from heartloop.training.metrics import dialogue_metrics
from heartloop.training.recipe import read_recipe

__all__ = ["training_run", "write_held_out"]

PACE = ("batch.steps=60", "watching.save_every=20")
"""Of every run, unless it has settings of its own."""

_VERL = {
    "actor/entropy": 1.8, "actor/entropy_loss": 1.8, "actor/grad_norm": 0.9, "actor/loss": -0.01, "actor/pg_clipfrac": 0.01,
    "actor/pg_loss": -0.01, "actor/ppo_kl": 0.0004, "critic/advantages/max": 1.1, "critic/advantages/mean": 0.0,
    "critic/score/mean": 0.1, "global_seqlen/mean": 8157.0, "perf/throughput": 3006.0, "response_length/mean": 21.0,
    "rollout_corr/kl": 1e-7, "timing_s/gen": 12.0, "timing_s/old_log_prob": 1.5, "timing_s/step": 20.0,
    "timing_s/update_actor": 4.0, "timing_s/update_weights": 0.1, "training/global_step": 1, "training/skipped_updates": 0.0,
}  # fmt: skip


def training_run(
    folder: Path,
    *settings: str,
    recipe: str = "ctc_grpo_tiny",
    variants: tuple[str, ...] = (),
    seed: int = 0,
    made: int | None = None,
    gain: float = 0.4,
    data: dict[str, Any] | None = None,
    **more: Any,
) -> Path:
    """A run whose score rises by `gain` (of -1 to 1) towards the last planned step, of which `made` are made.

    `settings` are those of the recipe, `data` replaces metrics of every step, and `more` is of `settings.json`.
    """
    chosen = read_recipe(recipe, settings=(*PACE, *settings), variants=variants, seed=seed)
    folder.mkdir(parents=True)
    scenarios = {"train": {"a": "1", "b": "2"}, "held_out": {"c": "3"}}
    body = {"recipe": chosen.model_dump(mode="json"), "scenarios": scenarios, "hash": chosen.hash, "heartloop": "0.1.0", **more}
    (folder / "settings.json").write_text(json.dumps(body), encoding="utf-8")
    if made == 0:
        return folder
    chance = random.Random(f"{recipe}{variants}{seed}")
    points = 100.0 if chosen.environment.name == "sage" else 1.0
    groups = ("listen", "advice") if chosen.environment.name == "sage" else ("charm", "defense", "repair", "support")
    steps = chosen.batch.steps
    lines = []
    for step in range(steps + 1 if made is None else made + 1):
        level = -0.3 + gain * (1 - math.exp(-3 * step / steps))
        found: dict[str, Any] = {}
        if step % 20 == 0:
            held_out = {f"held_out/score/{name}": (level + chance.gauss(0, 0.03)) * points for name in groups}
            found |= held_out | {"held_out/score": sum(held_out.values()) / len(groups)}
        if step:
            talks = [_talk(chance, level * points, groups, 20 * (1 + 0.5 * step / steps)) for _ in range(16)]
            found |= dialogue_metrics(talks, [str(n // 8) for n in range(16)], expected=16)
            found |= {name: value * chance.uniform(0.8, 1.2) for name, value in _VERL.items()}
            found |= {"actor/lr": 3e-4 * min(1, step / 3), "training/skipped_updates": 0.0, **(data or {})}
        lines.append(json.dumps({"step": step, "attempt": "001", "data": found}) + "\n")
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def write_held_out(run: Path, evaluations: Mapping[int, Iterable[Transcript]], process: int = 1) -> None:
    """The dialogues of held-out evaluations by step, as a process of a training writes them: with seeds of the step's own."""
    (run / "transcripts").mkdir(exist_ok=True)
    for step, dialogues in evaluations.items():
        named = {"model": f"policy-{step}", "seed": 1000 + step}
        lines = "".join(write_line(dialogue.model_copy(update=named)) for dialogue in dialogues)
        (run / "transcripts" / f"held_out-{step:06d}-{process}.jsonl").write_text(lines, encoding="utf-8")


def _talk(chance: random.Random, level: float, groups: tuple[str, ...], tokens: float) -> dict[str, Any]:
    score = level + chance.gauss(0, abs(level) / 2 + 0.1)
    turns = chance.randint(5, 8)
    return {
        "scenario": str(chance.random()),
        "group": chance.choice(groups),
        "said": [],
        "score": score,
        "return": score,
        "stop": chance.choice(("goodbye", "turn_limit")),
        "turns": turns,
        "samples": turns,
        "reply_tokens": [max(1, round(tokens + 6 * math.sin(turn / 8 * math.pi) + chance.gauss(0, 4))) for turn in range(turns)],
        "counts": {"silences": 0, "truncated": chance.randint(0, 1), "clamped changes": chance.randint(0, 1), "overflows": 0},
        "user_calls": turns,
        "user_prompt_tokens": 1000 * turns,
        "user_completion_tokens": 100 * turns,
    }
