"""Dialogues of EIBench built value by value, for tests of cards and reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from heartloop.core.dialogue import Failure, Transcript, Turn
from heartloop.environments.eibench.scoring import Anchors, outcome, process_rewards
from tests.report.sage_bench import transcript

__all__ = ["A", "T", "bench_talk"]

A, T = Anchors(60, 20, 100), Anchors(30, 70, 0)
"""Start, success, failure: of a 20 points down are half of the way, of t 20 points up."""


def bench_talk(
    model: str,
    scenario: str,
    path: Sequence[tuple[float, float]],
    *,
    scene: str = "defense",
    failed: bool = False,
    weight: float = 0.5,
    **changed: Any,
) -> Transcript:
    """A dialogue whose states after the start (60, 30) are `path`, the pairs (a, t)."""
    states = [(A.start, T.start), *path]
    turns = [
        Turn(
            index=index,
            reply="r" * 10 * (index + 1),
            state={"a": a, "t": t},
            change={"a": a - states[index][0], "t": t - states[index][1]},
            thoughts={"need": "to be heard", "tone": "cold"},
            message=f"Answer {index}.",
        )
        for index, (a, t) in enumerate(path)
    ]
    fields: dict[str, Any] = {
        "preset": "paper",
        "variant": "think",
        "facts": {
            "scene": scene, "theme": "rules", "keyword": "opening hours", "title": f"Title of {scenario}", "tags": "none",
            "person": "Ana, 40, baker", "anchors": json.dumps({"a": list(A), "t": list(T)}), "relation_weight": f"{weight:g}",
        },
        "prompts": {"policy_think": "aaaa"},
        "opening": None if scene == "charm" else "Open up.",
        "start": {"a": A.start, "t": T.start},
        "turns": tuple(turns),
        "failure": Failure(role="user", kind="AnswerError", detail="no continue") if failed else None,
        "score": outcome(*states[-1], A, T, weight),
        "rewards": tuple(process_rewards(*zip(*states, strict=True))),
    }  # fmt: skip
    return transcript("eibench", model, scenario, **(fields | changed))
