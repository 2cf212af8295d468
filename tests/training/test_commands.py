"""Commands of the training room where the extra is installed: wrong input is one sentence, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.errors import InputError
from heartloop.training import launch
from heartloop.training.plan import missing
from heartloop.training.recipe import read_recipe


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("policy.warm_start.stepz=3", "policy.warm_start.stepz is 3"),
        ("policy.warm_start.steps=0", "policy.warm_start.steps is 0: .*greater than or equal to 1"),
        ("policy.warm_start.corpus.people=3", "policy.warm_start.corpus.people is 3"),
    ],
)
def test_a_warm_start_with_wrong_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, said: str) -> None:
    monkeypatch.setattr(launch, "missing", lambda recipe: [])
    with pytest.raises(InputError, match=said):
        launch.train(read_recipe("ctc_grpo_tiny", settings=[setting]), tmp_path / "run", progress=print)
    assert not (tmp_path / "run").exists()


def test_nothing_that_stops_a_laptop_run_is_missing_where_the_extra_is() -> None:
    assert [item for item in missing(read_recipe("ctc_grpo_tiny")) if item.stops] == []
    done = CliRunner().invoke(app, ["train", "rlver_grpo_tiny", "--dry-run"])
    assert done.exit_code == 0, done.output
