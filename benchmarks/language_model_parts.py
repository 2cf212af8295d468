"""What `language_model_training` makes: training runs, evaluations, and the names of its parts.

Covers names, order and what each part needs. Does not cover how they are made, nor the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "AGAIN",
    "EVALUATIONS",
    "FORMED",
    "NEEDS",
    "READER",
    "SEEDS",
    "START",
    "TRAININGS",
    "WIDELY",
    "Evaluation",
    "Training",
    "homes",
    "places_of",
]

SEEDS = (0, 1, 2)
READER = "embedded"
"""The user that was trained with, and that evaluates."""
START = "start"
"""The model before training."""
FORMED = "formed"
"""The model that has learned the form of PERM's answers, before training."""
WIDELY = "headline-0"
"""The trained model that is played in every environment."""
AGAIN = "again-0"
"""The headline's first seed once more: with processors and threads a seed does not fix a run."""


class Training(NamedTuple):
    """A training run."""

    recipe: str
    variant: str | None
    seed: int
    home: str
    """The evaluation whose environment it is trained in."""
    start: str = START
    """What it is compared with."""


class Evaluation(NamedTuple):
    """Held-out scenarios of an environment, and how they are played."""

    title: str
    environment: str
    scenarios: str
    """A set, or `held-out:RECIPE`."""
    limit: int | None
    repeats: int
    options: Mapping[str, Any]
    max_tokens: int


TRAININGS: Mapping[str, Training] = {
    **{
        f"{what}-{seed}": Training("grpo_smollm2", variant, seed, "sage")
        for seed in SEEDS
        for what, variant in (("headline", None), ("shuffled", "shuffled"))
    },
    AGAIN: Training("grpo_smollm2", None, 0, "sage"),
    "eibench-0": Training("ctc_grpo_smollm2", None, 0, "eibench"),
    "perm-0": Training("perm_grpo_smollm2", None, 0, "perm", FORMED),
}
EVALUATIONS: Mapping[str, Evaluation] = {
    "sage": Evaluation("SAGE, held out", "sage", "held-out:grpo_smollm2", None, 2, {"max_turns": 4}, 40),
    "sage-chat": Evaluation("SAGE, small talk", "sage", "chat", 12, 1, {"max_turns": 4}, 40),
    "eibench": Evaluation("EIBench, test set", "eibench", "test", 24, 1, {"variant": "direct", "max_turns": 4}, 40),
    "empa": Evaluation("EMPA", "empa", "cases", 8, 1, {"max_turns": 6}, 40),
    "perm": Evaluation("PERM, held out", "perm", "held-out:perm_grpo_smollm2", 24, 1, {}, 128),
    "daily": Evaluation("Daily", "daily", "instances", 20, 1, {}, 96),
}


def homes() -> list[str]:
    """The evaluations in whose environments something is trained."""
    return list(dict.fromkeys(training.home for training in TRAININGS.values()))


def places_of(policy: str) -> list[str]:
    """The evaluations that a policy plays: all, or those of its own environment."""
    if policy in (START, WIDELY):
        return list(EVALUATIONS)
    return ["perm"] if policy == FORMED else [TRAININGS[policy].home]


def _of(policy: str, places: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for where in places:
        yield f"play/{policy}/{where}/{READER}", (f"train/{policy}",) if policy in TRAININGS else ()
        if where in homes() and (policy not in TRAININGS or where == TRAININGS[policy].home):
            yield f"replies/{policy}/{where}", (f"play/{policy}/{where}/embedded",)


def _needs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """A policy is played as soon as it is trained, so that a session that ends in the middle leaves whole comparisons."""
    before: set[str] = set()
    for policy, training in TRAININGS.items():
        start = f"{training.start}/{training.home}"
        if start not in before:
            before.add(start)
            yield from _of(training.start, [training.home])
        yield f"train/{policy}", ()
        yield from _of(policy, [training.home])
    yield "pairs", (f"play/{START}/sage/embedded",)  # and the dialogues of at least one trained model, all that are there
    for where in EVALUATIONS:
        for policy in (START, WIDELY):
            yield from _of(policy, [where])


NEEDS: Mapping[str, tuple[str, ...]] = dict(_needs())
"""Every part by its name, in the order in which they are made, and the parts that it needs."""
