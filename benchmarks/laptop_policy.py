"""What can the laptop policy do? `python -m benchmarks.laptop_policy` (extra `train`)

Makes the warm-started policy (or takes a checkpoint, `--model DIR`), lets it talk with the embedded users of EIBench's test set,
several times with each, and tells: outcome by scene, how far rollouts with one person lie apart (what group methods learn from),
how much better the best of each group is than its mean (what training can gain), how its replies end, and
some of them to read. Does not train.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.learning_replies import ends_with_punctuation
from benchmarks.machine import machine
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.environments.episode import play
from heartloop.environments.registry import stratified
from heartloop.evaluation.settings import dialogue_seed
from heartloop.training.checkpoints import CheckpointModel
from heartloop.training.laptop.corpus import CorpusSettings, WarmStartSettings, environment_for
from heartloop.training.laptop.policy import prepare

RESULTS = Path(__file__).parent / "results" / "laptop_policy.json"
TEST = environment_for(CorpusSettings().held_out[0])
"""EIBench's test set with the embedded user."""


async def talk(model: CheckpointModel, scenarios: Sequence[str], rollouts: int, sampling: Sampling) -> list[list[Transcript]]:
    """`rollouts` dialogues with each scenario, scenario by scenario."""
    jobs = [(scenario, number) for scenario in scenarios for number in range(rollouts)]
    played = await asyncio.gather(
        *(play(TEST, name, model, seed=dialogue_seed(0, name, n), repeat=n, sampling=sampling) for name, n in jobs)
    )
    return [list(played[start : start + rollouts]) for start in range(0, len(played), rollouts)]


def measured(groups: Sequence[Sequence[Transcript]]) -> dict[str, Any]:
    """What the dialogues say about the policy."""
    scores = [[one.score for one in group if one.score is not None] for group in groups]
    by_scene: dict[str, list[float]] = defaultdict(list)
    for group, values in zip(groups, scores, strict=True):
        by_scene[group[0].facts["scene"]] += values
    replies = [turn.reply for group in groups for one in group for turn in one.turns]
    found = {
        "dialogues": sum(map(len, scores)),
        "outcome": round(fmean(value for values in scores for value in values), 3),
        "by_scene": {scene: round(fmean(values), 3) for scene, values in sorted(by_scene.items())},
        "ending_with_punctuation": round(fmean(map(ends_with_punctuation, replies)), 4),
        "different_replies": round(len(set(replies)) / len(replies), 3),
        "words_a_reply": round(fmean(len(reply.split()) for reply in replies), 1),
        "bound": round(fmean(turn.evidence["bound"] for group in groups for one in group for turn in one.turns), 3),
    }
    if min(map(len, scores)) > 1:
        found["deviation_in_a_group"] = round(fmean(stdev(values) for values in scores), 3)
        found["best_less_mean"] = round(fmean(max(values) - fmean(values) for values in scores), 3)
    return found


def main() -> None:
    """Prints and writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a checkpoint; the warm start is made without one")
    parser.add_argument("--folder", type=Path, default=Path("build/laptop"), help="where the warm start is made or found")
    parser.add_argument("--people", type=int, default=28)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.7, help="the laptop recipes draw at 0.7")
    parser.add_argument("--read", type=int, default=20, help="replies to print")
    parser.add_argument("--seed", type=int, default=0, help="of the warm start")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found: dict[str, Any] = {**machine("torch", "transformers")}
    path = arguments.model
    if path is None:
        settings = WarmStartSettings(seed=arguments.seed)
        started = time.perf_counter()
        there = (arguments.folder / settings.hash / "curve.jsonl").is_file()
        path = prepare(arguments.folder, settings, progress=print)
        if not there:
            found["seconds"] = round(time.perf_counter() - started, 1)
        found |= json.loads((path.parent / "curve.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    torch.set_num_threads(1)  # of a model this small two threads are no faster
    scenarios = [scenario.id for scenario in stratified(list(TEST.scenarios.values()), arguments.people)]
    sampling = Sampling(temperature=arguments.temperature, max_tokens=48)
    started = time.perf_counter()
    groups = asyncio.run(talk(CheckpointModel(path), scenarios, arguments.rollouts, sampling))
    found |= {"talking_seconds": round(time.perf_counter() - started, 1), **measured(groups)}
    print(json.dumps(found, indent=1))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    turns = [(one, turn) for group in groups for one in group for turn in one.turns]
    for one, turn in random.Random(0).sample(turns, min(arguments.read, len(turns))):
        heard = one.turns[turn.index - 1].message if turn.index else one.opening
        change = turn.change or {}
        print(f"\n[{one.facts['scene']}] {heard or '(nobody has spoken yet)'}\n  > {turn.reply}   {dict(change)}")


if __name__ == "__main__":
    main()
