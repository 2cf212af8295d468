"""Several runs merged into one: shards, models, repeats, and what does not belong together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Failure, Transcript, read_transcripts
from heartloop.core.errors import InputError, UseError
from heartloop.evaluation.merging import merge_runs
from heartloop.evaluation.settings import EvaluationSettings, Shard, dialogue_seed
from heartloop.evaluation.store import RunDirectory

OPTIONS = {"preset": "corrected", "variant": "vanilla", "max_turns": 3}
PEOPLE = {name: f"text-{name}" for name in "abcde"}


def settings(**changes: Any) -> EvaluationSettings:
    fields: dict[str, Any] = {
        "environment": "tiny", "models": ("m",), "roles": {"user": "embedded"}, "options": OPTIONS, "scenario_set": "tiny",
        "scenarios": PEOPLE, "prompts": {"feel": "1", "speak": "2"},
    }  # fmt: skip
    return EvaluationSettings(**(fields | changes))


def shard(index: int, count: int = 2, **changes: Any) -> EvaluationSettings:
    mine = dict(list(PEOPLE.items())[index - 1 :: count])
    return settings(shard=Shard(index=index, count=count), scenarios=mine, **changes)


def play(path: Path, how: EvaluationSettings, *, score: float | None = 1.0, only: Sequence[str] | None = None) -> Path:
    """A run whose every dialogue has one score; `None` fails it."""
    broken = Failure(role="user", kind="TransportError", detail="gone")
    with RunDirectory(path, how) as run:
        for job in how.jobs:
            if only is None or job.scenario in only:
                run.append(
                    Transcript(
                        environment="tiny", scenario=job.scenario, fingerprint=how.scenarios[job.scenario], model=job.model,
                        repeat=job.repeat, seed=job.seed, preset=how.options["preset"], user="embedded", opening="Hi",
                        start={"sum": 0.0}, turns=(), stop="goodbye" if score is not None else "failed", score=score,
                        failure=None if score is not None else broken,
                    )
                )  # fmt: skip
        run.note(started=f"2025-11-2{len(path.name) % 10}T08:00:00+00:00")
    return path


def read(path: Path) -> list[Transcript]:
    return list(read_transcripts(path / "transcripts.jsonl"))


def files(*paths: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for path in paths for file in path.iterdir() if file.name != ".lock"}


def test_all_shards_are_the_run_that_one_process_would_have_made(tmp_path: Path) -> None:
    two, one = play(tmp_path / "two", shard(2)), play(tmp_path / "one", shard(1))
    whole = play(tmp_path / "whole", settings())
    before = files(one, two)
    assert merge_runs([two, one], tmp_path / "out") == "5 dialogues of 2 runs."  # in any order
    for name in ("settings.json", "transcripts.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()
    assert files(one, two) == before


def test_missing_shards_are_told_and_nothing_pretends_to_be_whole(tmp_path: Path) -> None:
    done = merge_runs([play(tmp_path / "1", shard(1, 3)), play(tmp_path / "3", shard(3, 3))], tmp_path / "out")
    assert "Shards 2/3 are missing." in done
    saved = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert (list(saved["scenarios"]), saved["shard"]) == (["a", "c", "d"], None)


def test_further_models_come_together_in_playing_order(tmp_path: Path) -> None:
    m, n = play(tmp_path / "m", settings()), play(tmp_path / "n", settings(models=("n", "o")))
    merge_runs([m, n], tmp_path / "out")
    whole = settings(models=("m", "n", "o"))
    assert [d.key for d in read(tmp_path / "out")] == [job.key for job in whole.jobs]
    with RunDirectory(tmp_path / "out", whole) as run:  # the command with all models goes on with it
        assert len(run.finished) == 15


def test_more_repeats_of_one_seed_are_laid_over_each_other(tmp_path: Path) -> None:
    once, thrice = play(tmp_path / "once", settings(), score=1.0), play(tmp_path / "thrice", settings(repeats=3), score=2.0)
    done = merge_runs([thrice, once], tmp_path / "out")
    assert done.startswith("15 dialogues of 2 runs. 5 duplicate dialogues were left out")
    assert [d.score for d in read(tmp_path / "out")] == [1.0] * 5 + [2.0] * 10  # the last run named wins


def test_an_unscored_dialogue_never_takes_the_place_of_a_scored_one(tmp_path: Path) -> None:
    good, bad = play(tmp_path / "good", settings()), play(tmp_path / "bad", settings(), score=None)
    for name, runs in (("one", [good, bad]), ("two", [bad, good])):
        merge_runs(runs, tmp_path / name)
        assert all(d.scored for d in read(tmp_path / name))


def test_another_seed_is_further_repeats_with_its_own_chance(tmp_path: Path) -> None:
    first, second = play(tmp_path / "first", settings(repeats=2)), play(tmp_path / "second", settings(seed=7))
    assert "Seeds 0, 7 are numbered as further repeats" in merge_runs([first, second], tmp_path / "out")
    third = [d for d in read(tmp_path / "out") if d.repeat == 2]
    assert [d.seed for d in third] == [dialogue_seed(7, name, 0) for name in PEOPLE]


def test_prices_come_along_where_the_runs_agree(tmp_path: Path) -> None:
    one, two, other = {"input": 1.0, "output": 2.0}, {"input": 3.0, "output": 4.0}, {"input": 9.0, "output": 9.0}
    m = play(tmp_path / "m", settings(prices={"m": one, "both": two}))
    n = play(tmp_path / "n", settings(models=("n",), prices={"n": two, "both": other}))
    merge_runs([m, n], tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert saved["prices"] == {"m": one, "n": two}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"options": OPTIONS | {"preset": "released"}}, 'options.preset ("corrected" and "released")'),
        ({"prompts": {"feel": "1", "speak": "3"}}, "prompts (speak)"),
        ({"limit": 3}, "limit (null and 3)"),
    ],
)
def test_other_settings_by_name_and_value(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    runs = [play(tmp_path / "m", settings()), play(tmp_path / "n", settings(**change))]
    with pytest.raises(UseError, match=re.escape(said)):
        merge_runs(runs, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        (settings(), settings(scenarios=PEOPLE | {"c": "new"}), "differ in scenarios or their texts: c;"),
        (shard(1), shard(2, 3), "shards with different n"),
        (shard(1), settings(), "shards with different n"),
        (shard(1), shard(2, seed=1), "seeds 0 and 1 have different scenarios"),
        (shard(1), shard(1, seed=1, models=("n",)), "seeds 0 and 1 have different models"),
    ],
)
def test_other_scenarios_shards_or_seeds(tmp_path: Path, one: EvaluationSettings, other: EvaluationSettings, named: str) -> None:
    with pytest.raises(UseError, match=named):
        merge_runs([play(tmp_path / "m", one), play(tmp_path / "n", other)], tmp_path / "out")


def test_runs_that_are_none_or_the_same(tmp_path: Path) -> None:
    run = play(tmp_path / "m", settings())
    rescored = json.loads((run / "settings.json").read_text()) | {"rescored": {"from": "m"}}
    for name, content in (("odd", {"environment": "tiny"}), ("again", rescored)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.json").write_text(json.dumps(content))
    for other, kind, match in (
        (tmp_path / "odd" / ".." / "m", UseError, "at least two different run directories"),
        (tmp_path / "none", InputError, "none is no run directory"),
        (tmp_path / "odd", InputError, r"settings\.json, models: Field required"),
        (tmp_path / "again", UseError, "is a rescored run"),
    ):
        with pytest.raises(kind, match=match):
            merge_runs([run, other], tmp_path / "out")
    for out in (run, run / "settings.json"):
        with pytest.raises(UseError, match="exists and is not empty"):
            merge_runs([run, play(tmp_path / "n", settings(models=("n",)))], out)
