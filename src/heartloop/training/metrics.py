"""A training step's dialogues in numbers, for the trainer's log.

Covers means over the dialogues of a step: score, by group of scenarios, turns, reply length by turn, repeated replies, the
environment's terms (over the dialogues that have them), counts, and calls and tokens of the user (all roles beside the policy).
Does not cover what the optimiser logs (verl's `actor/` and `critic/`), nor curves (`heartloop.report`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heartloop.scoring.repeats import repeats_of

__all__ = ["dialogue_metrics"]


def dialogue_metrics(dialogues: Sequence[Mapping[str, Any]], groups: Sequence[str], *, expected: int) -> dict[str, float]:
    """Metrics of one step, by the name they are logged under.

    Args:
        dialogues: each as the agent loop describes it (`agent_loop`), scored ones only.
        groups: the group of rollouts that each belongs to.
        expected: dialogues that were started; those that are missing failed.
    """
    metrics: dict[str, float] = {"dialogue/failed": float(expected - len(dialogues)), "dialogue/scored": float(len(dialogues))}
    if not dialogues:
        return metrics
    by_scenarios: dict[str, list[float]] = defaultdict(list)
    by_group: dict[str, list[float]] = defaultdict(list)
    by_turn: dict[int, list[int]] = defaultdict(list)
    by_term: dict[str, list[float]] = defaultdict(list)
    counts: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    for dialogue, group in zip(dialogues, groups, strict=True):
        by_scenarios[dialogue["group"]].append(dialogue["score"])
        by_group[group].append(dialogue["return"])
        for turn, tokens in enumerate(dialogue["reply_tokens"], start=1):
            by_turn[turn].append(tokens)
        for name, value in dialogue.get("terms", {}).items():
            by_term[name].append(value)
        counts.update(dialogue["counts"])
        stops[dialogue["stop"]] += 1
    repeats = repeats_of((dialogue["scenario"], dialogue["said"]) for dialogue in dialogues)
    returns = [dialogue["return"] for dialogue in dialogues]
    metrics |= {
        "dialogue/score": _mean(dialogue["score"] for dialogue in dialogues),
        "dialogue/return": float(np.mean(returns)),
        "dialogue/return_std": float(np.std(returns)),
        "dialogue/turns": _mean(dialogue["turns"] for dialogue in dialogues),
        "dialogue/samples": _mean(dialogue["samples"] for dialogue in dialogues),
        "dialogue/tokens": float(sum(tokens for turn in by_turn.values() for tokens in turn)),
        "dialogue/reply_tokens": _mean(tokens for turn in by_turn.values() for tokens in turn),
        "dialogue/said_before": repeats.said_before,
        "dialogue/said_to_others": repeats.said_to_others,
        "dialogue/group_std": _mean(np.std(values, ddof=1) for values in by_group.values() if len(values) > 1),
        "dialogue/lone_groups": float(sum(len(values) < 2 for values in by_group.values())),
        "user/calls": float(sum(dialogue["user_calls"] for dialogue in dialogues)),
        "user/prompt_tokens": float(sum(dialogue["user_prompt_tokens"] for dialogue in dialogues)),
        "user/completion_tokens": float(sum(dialogue["user_completion_tokens"] for dialogue in dialogues)),
    }
    metrics |= {f"dialogue/score/{name}": float(np.mean(values)) for name, values in sorted(by_scenarios.items())}
    metrics |= {f"dialogue/reply_tokens/turn_{turn}": float(np.mean(tokens)) for turn, tokens in sorted(by_turn.items())}
    metrics |= {f"dialogue/parts/{name}": float(np.mean(values)) for name, values in by_term.items()}
    metrics |= {f"dialogue/counts/{name.replace(' ', '_')}": float(count) for name, count in sorted(counts.items())}
    metrics |= {f"dialogue/stops/{stop}": count / len(dialogues) for stop, count in sorted(stops.items())}
    return metrics


def _mean(values: Any) -> float:
    numbers = [float(value) for value in values]
    return float(np.mean(numbers)) if numbers else 0.0
