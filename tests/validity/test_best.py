"""Suite `best`: the best of N dialogues with each person, and the best of N runs (PERM, Table 1, Best-of-N)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.environments.suites import Material
from heartloop.validity.best import BEST
from tests.commands import heartloop


def scored(dialogue: Transcript, scores: Mapping[str, Sequence[Sequence[float | None]]]) -> Material:
    """Dialogues of one model by user: a list a scenario with a score a repeat."""
    dialogues = tuple(
        dialogue.model_copy(update={"user": user, "scenario": f"s{place}", "repeat": repeat, "score": score})
        for user, scenarios in scores.items()
        for place, repeats in enumerate(scenarios)
        for repeat, score in enumerate(repeats)
        if score is not None
    )
    return Material(load_environment("sage"), dialogues, {})


@pytest.fixture
def dialogue(counsellor: Material) -> Transcript:
    return counsellor.dialogues[0]


def means(material: Material, chooser: str, scorer: str) -> dict[str, float]:
    found = BEST.result(material, {}).record[f"{chooser} | {scorer}"]["heartloop/counsellor"]
    return {name.lower(): cell if name == "n" else cell["mean"] for name, cell in found.items()}


def test_the_judge_that_chooses_takes_the_best_of_each_scenario_and_the_best_run(dialogue: Transcript) -> None:
    # means of the runs: 45, 50, 40; of each scenario's best: (60 + 70) / 2
    material = scored(dialogue, {"lab/a": [[60.0, 30.0, 50.0], [30.0, 70.0, 30.0]]})
    assert means(material, "lab/a", "lab/a") == {"n": 3, "mean": 45, "best run": 50, "best of n": 65, "gain": 20}


def test_what_one_judge_chose_is_scored_by_another(dialogue: Transcript) -> None:
    scores = {"lab/a": [[60.0, 30.0], [30.0, 70.0]], "lab/b": [[40.0, 44.0], [10.0, 30.0]]}
    material = scored(dialogue, scores)  # of b's scores: chosen 40 and 30; its mean 31; a's best run is the second, 37
    assert means(material, "lab/a", "lab/b") == {"n": 2, "mean": 31, "best run": 37, "best of n": 35, "gain": 4}
    assert means(material, "lab/b", "lab/b")["best of n"] == 37
    assert means(material, "lab/b", "lab/a")["best of n"] == 50, "b chose 44 and 30, which a scored 30 and 70"


def test_a_scenario_that_lacks_a_repeat_by_one_judge_does_not_count(dialogue: Transcript) -> None:
    scores: dict[str, list[list[float | None]]] = {"lab/a": [[60.0, 30.0], [90.0, 70.0]], "lab/b": [[40.0, 44.0], [10.0, None]]}
    assert means(scored(dialogue, scores), "lab/a", "lab/a") == {"n": 2, "mean": 45, "best run": 60, "best of n": 60, "gain": 15}


def test_without_repeats_it_says_what_to_run(place: Path) -> None:
    lacking = heartloop("validate", "run", "--suite", "best", cwd=place)
    assert (lacking.code, "--repeats 8" in lacking.err) == (2, True), lacking


def test_the_published_best_of_8_gains_a_point_and_a_half() -> None:
    rows = {row["model"]: row for row in published("heartloop.environments.eqbench", "perm_table01_eqbench3")}
    base, best = rows["Qwen2.5-7B-Instruct"], rows["Best-of-N"]
    gains = {name: float(str(best[name])) - float(str(base[name])) for name in base if isinstance(base[name], float)}
    assert gains["overall"] == pytest.approx(1.5)
    assert min(gains.values()) == 0
