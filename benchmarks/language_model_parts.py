"""What `language_model_training` makes: training runs, evaluations, and the names of its parts.

Covers names, order and what each part needs. Does not cover how they are made, nor the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "EVALUATIONS",
    "FORMED",
    "NEEDS",
    "READERS",
    "SEEDS",
    "START",
    "TRAININGS",
    "Evaluation",
    "Training",
    "homes",
    "places_of",
]

SEEDS = (0, 1, 2)
READERS = ("embedded", "embedded-lm")
"""The user that was trained with, and the second reader."""
START = "start"
"""The model before training."""
FORMED = "formed"
"""The model that has learned the form of PERM's answers, before training."""


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
    **{f"headline-{seed}": Training("grpo_smollm2", None, seed, "sage") for seed in SEEDS},
    **{f"shuffled-{seed}": Training("grpo_smollm2", "shuffled", seed, "sage") for seed in SEEDS},
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
    if policy == START or policy.startswith("headline"):
        return list(EVALUATIONS)
    return ["perm"] if policy == FORMED else [TRAININGS[policy].home]


def _needs() -> Iterator[tuple[str, tuple[str, ...]]]:
    for policy in TRAININGS:
        yield f"train/{policy}", ()
    for policy in (START, FORMED, *TRAININGS):
        for where in places_of(policy):
            for reader in READERS:
                yield f"play/{policy}/{where}/{reader}", (f"train/{policy}",) if policy in TRAININGS else ()
    for policy in (START, FORMED, *TRAININGS):
        for home in homes():
            if home in places_of(policy) and (policy not in TRAININGS or home == TRAININGS[policy].home):
                yield f"replies/{policy}/{home}", (f"play/{policy}/{home}/embedded",)
    yield "pairs", (f"play/{START}/sage/embedded", *(f"play/headline-{seed}/sage/embedded" for seed in SEEDS))


NEEDS: Mapping[str, tuple[str, ...]] = dict(_needs())
"""Every part by its name, in the order in which they are made, and the parts that it needs."""
