"""Metrics of a step's dialogues, worked by hand; the run's file over its attempts: a kill loses no line and doubles none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heartloop.core.system import read_steps
from heartloop.training.metrics import MetricsFile, dialogue_metrics
from heartloop.training.recipe import read_recipe
from heartloop.training.verl_config import CHECKPOINT_METRICS, RunPaths


def dialogue(score: float, *reply_tokens: int, group: str = "charm", **counts: int) -> dict[str, Any]:
    said = ["I see."] * len(reply_tokens)
    return {
        "scenario": group, "said": said,
        "group": group, "score": score, "return": score, "stop": "goodbye" if len(reply_tokens) < 2 else "turn_limit",
        "turns": len(reply_tokens), "samples": len(reply_tokens), "reply_tokens": list(reply_tokens), "counts": counts,
        "user_calls": len(reply_tokens),
        "user_prompt_tokens": 100 * len(reply_tokens), "user_completion_tokens": 10 * len(reply_tokens),
    }  # fmt: skip


def test_a_step_in_numbers() -> None:
    dialogues = [
        dialogue(0.5, 10, 20, silences=1),
        dialogue(-0.5, 30, 0, silences=1, overflows=1),  # the second prompt did not fit
        dialogue(0.2, 12, group="repair"),
    ]
    found = dialogue_metrics(dialogues, ["a", "a", "b"], expected=6)
    assert (found["dialogue/scored"], found["dialogue/failed"]) == (3, 3)
    assert found["dialogue/score"] == pytest.approx(0.2 / 3)
    assert found["dialogue/score/charm"] == 0.0
    assert found["dialogue/score/repair"] == pytest.approx(0.2)
    assert found["dialogue/group_std"] == pytest.approx(math.sqrt(0.5))  # of group a alone, sample std
    assert found["dialogue/lone_groups"] == 1
    assert found["dialogue/turns"] == pytest.approx(5 / 3)
    assert found["dialogue/reply_tokens/turn_1"] == pytest.approx(52 / 3)
    assert found["dialogue/reply_tokens/turn_2"] == 10
    assert (found["dialogue/reply_characters"], found["dialogue/reply_characters/turn_2"]) == (6, 6)  # "I see."
    assert (found["dialogue/counts/silences"], found["dialogue/counts/overflows"]) == (2, 1)
    assert found["dialogue/stops/goodbye"] == pytest.approx(1 / 3)
    assert (found["dialogue/said_before"], found["dialogue/said_to_others"]) == (2 / 5, 1.0)
    assert found["dialogue/tokens"] == 10 + 20 + 30 + 0 + 12
    assert (found["user/calls"], found["user/prompt_tokens"], found["user/completion_tokens"]) == (5, 500, 50)


def test_a_step_without_a_scored_dialogue_has_no_means() -> None:
    assert dialogue_metrics([], [], expected=4) == {"dialogue/failed": 4.0, "dialogue/scored": 0.0}


def test_parts_of_the_reward_are_means_over_those_that_have_them() -> None:
    good, poor, broken = ({**dialogue(0.1, 10), "terms": terms} for terms in (
        {"form": 1.0, "reception": 4.0}, {"form": 1.0, "reception": 1.0}, {"form": 0.0},
    ))  # fmt: skip
    found = dialogue_metrics([good, poor, broken, broken], ["a"] * 4, expected=4)
    assert (found["dialogue/parts/form"], found["dialogue/parts/reception"]) == (0.5, 2.5)


def line(step: int, **data: float) -> str:
    return json.dumps({"step": step, "data": data}) + "\n"


def attempt(paths: RunPaths, number: int, text: str) -> Path:
    folder = paths.attempts / f"{number:03}"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def metrics(paths: RunPaths, resumed: int = 0, recipe: str = "ctc_grpo_tiny", **held_out: int) -> MetricsFile:
    paths.run.mkdir(exist_ok=True)
    groups = held_out or {"charm": 3, "repair": 1}
    scenarios = [SimpleNamespace(stratum=name) for name, count in groups.items() for _ in range(count)]
    return MetricsFile(paths, read_recipe(recipe), scenarios, resumed=resumed)


def stands(paths: RunPaths) -> list[tuple[int, str, Any]]:
    return [(line["step"], line["attempt"], line["data"].get("score")) for line in read_steps(paths.metrics)]


def test_lines_are_taken_over_as_they_come_and_a_half_written_one_later(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    news = metrics(paths).follow(paths.attempts / "001")
    assert next(news) == []  # verl has not begun its file
    whole = line(1, score=0.1, **{"val-core/eibench_charm/score/mean@1": 0.4, "val-core/eibench_repair/score/mean@1": 0.0})
    folder = attempt(paths, 1, whole + line(2, score=0.2)[:9])
    (first,) = next(news)
    assert first["data"]["held_out/score"] == (3 * 0.4 + 1 * 0.0) / 4
    assert stands(paths) == [(1, "001", 0.1)]
    (folder / "metrics.jsonl").write_text(whole + line(2, score=0.2))
    assert [line["step"] for line in next(news)] == [2]
    assert next(news) == []


def test_a_run_gone_on_with_keeps_what_its_checkpoint_holds_and_nothing_later(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    attempt(paths, 1, line(0, score=0.0) + line(1, score=0.1) + line(2, score=0.2) + line(3, score=0.3))
    next(metrics(paths).follow(paths.attempts / "001"))
    begun = metrics(paths, resumed=2)
    assert stands(paths) == [(0, "001", 0.0), (1, "001", 0.1), (2, "001", 0.2)]
    attempt(paths, 2, line(2, score=9.0) + line(3, score=0.4))  # verl evaluates again what it begins with
    next(begun.follow(paths.attempts / "002"))
    assert stands(paths)[2:] == [(2, "001", 0.2), (3, "002", 0.4)]
    metrics(paths, resumed=3)
    assert stands(paths)[2:] == [(2, "001", 0.2), (3, "002", 0.4)]


def test_what_verl_logged_after_the_command_was_killed_is_not_lost(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    folder = attempt(paths, 1, line(1, score=0.1))
    next(metrics(paths).follow(folder))
    (folder / "metrics.jsonl").write_text(line(1, score=0.1) + line(2, score=0.2) + '{"step": 3, "da')
    metrics(paths, resumed=2)
    assert stands(paths) == [(1, "001", 0.1), (2, "001", 0.2)]


def test_a_kill_between_checkpoint_and_log_leaves_the_numbers_of_the_step(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    next(metrics(paths).follow(attempt(paths, 1, line(1, score=0.1))))
    for step in (1, 2):
        folder = paths.checkpoints / f"global_step_{step}"
        folder.mkdir(parents=True)
        (folder / CHECKPOINT_METRICS).write_text(line(step, score=step / 5))
    metrics(paths, resumed=2)
    assert stands(paths) == [(1, "001", 0.1), (2, "001", 0.4)]


def test_a_run_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    next(metrics(paths).follow(attempt(paths, 1, line(0, score=0.0) + line(1, score=0.1))))
    next(metrics(paths).follow(attempt(paths, 2, line(0, score=0.0))))
    assert stands(paths) == [(0, "002", 0.0)]


def test_held_out_parts_are_means_over_the_people_who_were_answered_in_the_form(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    file = metrics(paths, recipe="perm_grpo_tiny", room=4, company=2)
    logged = {"room": {"score": 0.2, "form": 0.5, "reception": 4.0}, "company": {"score": -0.1, "form": 1.0, "reception": 1.0}}
    data = {f"val-aux/perm_{want}/{name}/mean@1": value for want, found in logged.items() for name, value in found.items()}
    attempt(paths, 1, line(0, **data, **{"val-core/perm_room/reward/mean@1": 0.2, "val-aux/perm_room/return/mean@1": 0.2}))
    (first,) = next(file.follow(paths.attempts / "001"))
    found = {name: value for name, value in first["data"].items() if name.startswith("held_out/")}
    assert found == {
        "held_out/score": pytest.approx((4 * 0.2 - 2 * 0.1) / 6),
        "held_out/score/room": 0.2,
        "held_out/score/company": -0.1,
        "held_out/parts/form": pytest.approx((4 * 0.5 + 2 * 1.0) / 6),
        "held_out/parts/reception": pytest.approx((2 * 4.0 + 2 * 1.0) / 4),  # two of the four were answered in the form
    }
