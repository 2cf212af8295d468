"""Other tasks' Inspect logs, written by Inspect itself, as `heartloop guard` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from heartloop.core.errors import InputError
from heartloop.integrations.harness import read_results
from heartloop.validity.guard import changes
from tests.integrations import test_inspect

pytestmark, quiet = test_inspect.pytestmark, test_inspect.quiet


async def inspect_log(folder: Path, values: Mapping[tuple[int, int], Any], scorer_name: str, task: str) -> None:
    """A log of Inspect's own with these values by sample and epoch."""

    @scorer(metrics=[mean()] if not isinstance(next(iter(values.values())), dict) else {"*": [mean()]}, name=scorer_name)
    def given_values() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value=values[int(state.sample_id), state.epoch])

        return score

    samples = [Sample(id=number, input="?", target="7") for number in sorted({number for number, _ in values})]
    made = Task(samples, name=task, scorer=given_values())
    [log] = await eval_async(
        made, model="heartloop/silent", epochs=max(e for _, e in values), log_dir=str(folder), temperature=0.6
    )
    assert log.status == "success", log.error


async def test_an_inspect_log_is_read_by_sample_and_epoch(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    await inspect_log(before, {(1, 1): "C", (1, 2): "C", (2, 1): "I", (2, 2): "I"}, "aime_scorer", "aime2025")
    await inspect_log(after, {(1, 1): "C", (1, 2): "C", (2, 1): "C", (2, 2): "I"}, "aime_scorer", "aime2025")
    (result,) = read_results(before)
    assert (result.harness, result.task, result.metric) == ("inspect", "aime2025", "aime_scorer")
    assert result.settings["temperature"] == 0.6
    ((one,), _) = changes([result], read_results(after))
    assert one.items == 2
    assert [one.before, one.after] == pytest.approx([50.0, 75.0])
    log = next(before.glob("*.eval"))
    log.write_bytes(log.read_bytes()[:200])
    with pytest.raises(InputError, match=log.name):
        read_results(before)


async def test_inspects_instructions_are_counted_by_prompt(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for place, followed in ((before, (1, 2)), (after, (3, 2))):
        values = {
            (number, 1): {"inst_level_strict": count, "num_instructions": total, "prompt_level_strict": int(count == total)}
            for number, count, total in ((1, followed[0], 3), (2, followed[1], 2))
        }
        await inspect_log(place, values, "instruction_following", "ifeval")
    found, _ = changes(read_results(before), read_results(after))
    by_name = {one.benchmark.name: [one.before, one.after] for one in found}
    assert by_name["IFEval, instructions"] == pytest.approx([60.0, 100.0])
    assert by_name["IFEval, prompts"] == pytest.approx([50.0, 100.0])
