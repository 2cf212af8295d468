"""A training run in its directory, with a short stand-in for verl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import heartloop
from heartloop.cli.main import app
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.core.system import read_steps
from heartloop.training import launch
from heartloop.training.metrics import step_line
from heartloop.training.plan import Missing, missing
from heartloop.training.recipe import Recipe, read_recipe, recipe_names
from heartloop.training.verl_config import RunPaths

VERL = '''
"""Makes as many steps as it is printed, from its last checkpoint; dies after step DIE_AFTER, sleeps in step SLEEP_IN."""
import json, os, pathlib, sys, time

given = dict(text.lstrip("+").split("=", 1) for text in sys.argv[1:])
folder = pathlib.Path(json.loads(given["trainer.default_local_dir"]))
latest = folder / "latest_checkpointed_iteration.txt"
done = int(latest.read_text()) if latest.exists() else 0
metrics = open(os.environ["VERL_FILE_LOGGER_PATH"], "w")

def log(step, **data):
    metrics.write(json.dumps({"step": step, "data": data}) + "\\n")
    metrics.flush()

print("verl was here", os.environ.get("VERL_PLATFORM"), flush=True)
if given["trainer.val_before_train"] == "true":
    log(done, **{"val-aux/sage_listen/score/mean@1": 40.0, "val-aux/sage_advice/score/mean@1": 10.0})
for step in range(done + 1, int(given["trainer.total_training_steps"]) + 1):
    if str(step) == os.environ.get("SLEEP_IN"):
        time.sleep(600)
    failed = int(os.environ.get("FAILED", "0"))
    log(step, **{"dialogue/score": step / 10, "dialogue/failed": failed, "dialogue/scored": 10 - failed, "timing_s/step": 2.0,
                 "timing_s/gen": 0.5, "dialogue/tokens": 300, "user/calls": 8, "user/prompt_tokens": 9000,
                 "user/completion_tokens": 1000, "pid": os.getpid()})
    if step % int(given["trainer.save_freq"]) == 0:
        folder.mkdir(exist_ok=True)
        latest.write_text(str(step))
    if str(step) == os.environ.get("DIE_AFTER"):
        raise ValueError("the learning rate fell over")
'''


train = partial(launch.train, allow_embedded=True)


def refusals(recipe: Recipe, *, allow_embedded: bool) -> list[Missing]:
    """What a machine that lacks nothing refuses."""
    return [item for item in missing(recipe, allow_embedded=allow_embedded) if "the embedded user" in item.what]


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verl of a few lines, a machine that lacks nothing, a policy on disk."""
    package = tmp_path / "elsewhere" / "verl" / "trainer"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "main_ppo.py").write_text(VERL, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(launch, "missing", refusals)
    monkeypatch.setattr(launch, "_LOOK_EVERY", 0.02)
    (tmp_path / "policy").mkdir()
    monkeypatch.chdir(tmp_path)


def recipe_of(*settings: str) -> Recipe:
    return read_recipe(
        "rlver_ppo_tiny",
        settings=["policy.model=policy", "batch.steps=4", "watching.save_every=2", "watching.validate_every=2", *settings],
    )


class Printed(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)

    @property
    def steps(self) -> list[str]:
        return [text for text in self if text.startswith("step ")]


class TestARun:
    def test_it_trains_to_its_end(self, tmp_path: Path) -> None:
        printed = Printed()
        ended = train(recipe_of(), tmp_path / "run", progress=printed)
        assert (ended.step, ended.code, ended.why, ended.failures) == (4, 0, "", (0, 40))
        assert [text.split()[1] for text in printed.steps] == ["0/4", "1/4", "2/4", "3/4", "4/4"]
        assert "score +0.100  2.0 s a step  0:06 left" in printed.steps[1]
        assert "verl was here cpu" in ended.log.read_text()

    def test_speed_and_cost_follow_from_what_verl_logs(self, tmp_path: Path) -> None:
        train(recipe_of("watching.prices={input: 2, output: 8}"), tmp_path / "run", progress=Printed())
        data = read_steps(tmp_path / "run" / "metrics.jsonl")[-1]["data"]
        assert data["perf/reply_tokens_per_second"] == 600  # 300 tokens in half a second
        assert data["user/cost"] == pytest.approx(0.026)  # 9,000 tokens at 2 a million, 1,000 at 8
        train(recipe_of(), tmp_path / "unpriced", progress=Printed())
        assert "user/cost" not in read_steps(tmp_path / "unpriced" / "metrics.jsonl")[-1]["data"]

    def test_its_folder_holds_what_decided_it(self, tmp_path: Path) -> None:
        recipe = recipe_of()
        train(recipe, tmp_path / "run", progress=Printed())
        paths = RunPaths(tmp_path / "run")
        settings = json.loads(paths.settings.read_text())
        assert (settings["hash"], settings["heartloop"]) == (recipe.hash, heartloop.__version__)
        assert (len(settings["scenarios"]["train"]), len(settings["scenarios"]["held_out"])) == (80, 20)
        command = json.loads((paths.attempts / "001" / "command.json").read_text())
        assert f'actor_rollout_ref.model.path="{tmp_path}/policy"' in command

    def test_processes_of_a_cluster_get_what_the_command_would_hand_down(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
        monkeypatch.setenv("OPENROUTER_API_KEY", "secret")
        train(recipe_of(), tmp_path / "run", progress=Printed())
        attempt = RunPaths(tmp_path / "run").attempts / "001"
        command = json.loads((attempt / "command.json").read_text())
        handed = dict(word.rpartition("env_vars.")[2].split("=", 1) for word in command if "runtime_env.env_vars." in word)
        assert json.loads(handed["VERL_FILE_LOGGER_PATH"]) == str(attempt / "metrics.jsonl")
        assert {"VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES", "PYTHONPATH"} <= handed.keys()
        assert "secret" not in " ".join(command)  # keys are not written down

    def test_a_note_of_the_last_checkpoint_that_a_kill_left_empty_is_mended(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        train(recipe_of(), run, progress=Printed())
        tracker = RunPaths(run).checkpoints / "latest_checkpointed_iteration.txt"
        tracker.write_text("")
        whole = RunPaths(run).checkpoints / "global_step_2"
        whole.mkdir()
        (whole / "data.pt").touch()  # what verl writes last before the note
        (RunPaths(run).checkpoints / "global_step_4").mkdir()
        printed = Printed()
        assert train(recipe_of(), run, progress=printed).step == 4
        assert [text.split()[1] for text in printed.steps] == ["3/4", "4/4"]
        tracker.write_text("")
        (whole / "data.pt").unlink()
        assert train(recipe_of(), run, progress=printed).step == 4  # none is whole: from the start

    def test_what_is_missing_stops_it_before_it_begins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        items = [Missing("no GPU", "buy one"), Missing("little memory", "", stops=False)]
        monkeypatch.setattr(launch, "missing", lambda recipe, *, allow_embedded: items)
        with pytest.raises(UseError, match=r"cannot train: no GPU: buy one$"):
            train(recipe_of(), tmp_path / "run", progress=Printed())
        assert not (tmp_path / "run").exists()

    def test_the_embedded_user_is_no_reward_unless_it_is_allowed(self, tmp_path: Path) -> None:
        with pytest.raises(UseError, match="embedded"):
            launch.train(recipe_of(), tmp_path / "run", progress=Printed())
        assert not (tmp_path / "run").exists()
        assert train(recipe_of(), tmp_path / "run", progress=Printed()).code == 0
        other = recipe_of("dialogue.user=heartloop/reflector")
        assert launch.train(other, tmp_path / "other", progress=Printed()).code == 0


class TestGoingOn:
    def test_a_run_that_died_goes_on_from_its_last_checkpoint(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DIE_AFTER", "3")
        ended = train(recipe_of(), tmp_path / "run", progress=Printed())
        assert (ended.step, ended.code) == (3, 1)
        assert ended.why == "ValueError: the learning rate fell over"
        monkeypatch.delenv("DIE_AFTER")
        printed = Printed()
        ended = train(recipe_of(), tmp_path / "run", progress=printed)
        assert (ended.step, ended.code) == (4, 0)
        assert printed[0] == "Resuming after step 2."
        assert [text.split()[1] for text in printed.steps] == ["3/4", "4/4"]
        lines = read_steps(tmp_path / "run" / "metrics.jsonl")
        assert [(line["step"], line["attempt"]) for line in lines] == [(0, "001"), (1, "001"), (2, "001"), (3, "002"), (4, "002")]
        assert ended.failures == (0, 40)  # the third step's dialogues were played twice and count once

    def test_another_recipe_is_refused_but_it_may_be_watched_otherwise_and_run_elsewhere(self, tmp_path: Path) -> None:
        train(recipe_of(), tmp_path / "run", progress=Printed())
        with pytest.raises(SettingsMismatch, match=r"scenarios\.train, scenarios\.train_limit differ"):
            train(recipe_of("scenarios.train_limit=40"), tmp_path / "run", progress=Printed())
        printed = Printed()
        assert train(recipe_of("machine.workers=2", "watching.keep=1"), tmp_path / "run", progress=printed).step == 4
        assert printed == ["All 4 steps are done."]

    def test_a_folder_with_something_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "letters.txt").touch()
        with pytest.raises(UseError, match="holds no training run"):
            train(recipe_of(), tmp_path / "run", progress=Printed())
        (tmp_path / "run" / "settings.json").write_text('{"models": []}', encoding="utf-8")
        with pytest.raises(InputError, match="is not a training run's"):
            train(recipe_of(), tmp_path / "run", progress=Printed())
        with pytest.raises(UseError, match="is a file"):
            train(recipe_of(), tmp_path / "run" / "letters.txt", progress=Printed())


PROGRAM = """
import sys
from heartloop.training import launch
from heartloop.training.recipe import read_recipe
launch.missing = lambda recipe, *, allow_embedded: []
settings = ["policy.model=policy", "batch.steps=4", "watching.save_every=2"]
launch.train(read_recipe("rlver_ppo_tiny", settings=settings), launch.Path("run"), progress=lambda text: print(text, flush=True))
"""


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
    def test_who_stops_the_run_stops_verl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        if number == signal.SIGKILL and sys.platform != "linux":
            pytest.skip("only Linux tells a process that its parent died")
        monkeypatch.setenv("SLEEP_IN", "2")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'elsewhere'}{os.pathsep}{Path(heartloop.__file__).parents[1]}")
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )  # fmt: skip
        metrics = tmp_path / "run" / "metrics.jsonl"
        until(lambda: metrics.exists() and len(read_steps(tmp_path / "run" / "metrics.jsonl")) == 1 + 1)
        verl = int(read_steps(tmp_path / "run" / "metrics.jsonl")[-1]["data"]["pid"])
        assert alive(verl)
        with pytest.raises(UseError, match="another process trains in"):
            train(recipe_of(), tmp_path / "run", progress=Printed())
        process.send_signal(number)
        process.wait(20)
        until(lambda: not alive(verl))


def until(holds: Any) -> None:
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < 60
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestTheCommand:
    def run(self, *words: str) -> Any:
        return CliRunner().invoke(app, ["train", *words])

    def settings(self) -> list[str]:
        return ["--set", "policy.model=policy", "--set", "batch.steps=2", "--set", "watching.save_every=2", "--out", "run"]

    def test_it_trains_and_says_how_to_evaluate(self) -> None:
        done = self.run("rlver_ppo_tiny", "--allow-embedded", *self.settings())
        assert done.exit_code == 0, done.output
        assert "heartloop eval sage --model checkpoint:run/checkpoints/global_step_2 --user embedded" in done.output

    @pytest.mark.parametrize(("failed", "code"), [("0", 0), ("1", 1)])
    def test_more_than_5_percent_failed_dialogues_end_with_1(
        self, monkeypatch: pytest.MonkeyPatch, failed: str, code: int
    ) -> None:
        monkeypatch.setenv("FAILED", failed)  # of ten a step
        done = self.run("rlver_ppo_tiny", "--allow-embedded", *self.settings())
        assert done.exit_code == code
        assert ("2 of 20 dialogues failed (10.0%)" in done.output) == (failed == "1")

    def test_a_dry_run_says_what_will_run_and_what_is_missing(self) -> None:
        words = ["--dry-run", "--set", "scenarios.train=test", "--set", "scenarios.held_out_share=0.2"]
        done = self.run("ctc_grpo_tiny", "--allow-embedded", *words)
        assert "8 scenarios x 8 rollouts = 64 dialogues" in done.output
        assert "python -m verl.trainer.main_ppo" in done.output
        assert done.exit_code == 0  # where only the extra is missing, too
        assert not Path("runs").exists()

    def test_the_embedded_user_as_the_reward_is_refused(self) -> None:
        done = self.run("rlver_ppo_tiny", *self.settings())
        assert isinstance(done.exception, UseError)
        assert not Path("run").exists()
        dry = self.run("rlver_ppo_tiny", *self.settings(), "--dry-run")
        assert dry.exit_code == 2
        for text in (str(done.exception), dry.output):
            for named in ("the reward is the embedded user", "dialogue.user=service/model", "--allow-embedded"):
                assert named in text

    def test_people_that_are_not_here_are_missing_too(self) -> None:
        done = self.run("perm_grpo_qwen2.5_7b", "--dry-run")
        assert done.exit_code == 2
        assert "scenarios.train is 'perm_train.jsonl'" in done.output
        assert "--variant shipped trains" in done.output
        shipped = self.run("perm_grpo_qwen2.5_7b", "--dry-run", "--variant", "shipped")
        assert "scenarios.train is" not in shipped.output

    def test_the_sets_of_the_environment_are_named_where_no_variant_ships_scenarios(self) -> None:
        refused = self.run("ctc_grpo_tiny", "--allow-embedded", "--set", "scenarios.train=mine.jsonl")
        assert "no file here and no set of eibench (test or train)" in str(refused.exception)
        assert not Path("runs").exists()

    @pytest.mark.parametrize("recipe", recipe_names())
    def test_what_blocks_comes_before_the_command_in_at_most_25_lines(self, monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
        for name in ("OPENROUTER_API_KEY", "RAY_ADDRESS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr("heartloop.training.plan.find_spec", lambda name: None)
        before, _, command = self.run(recipe, "--dry-run").output.partition("\nverl's command:")
        problems = before[before.index(" to solve before it can start here:") :].splitlines()
        assert any("extra train is not installed" in line for line in problems)
        assert len(problems) <= 25
        assert max(map(len, problems)) <= 80
        assert "verl.trainer.main_ppo" in command


class TestTheLine:
    def test_it_tells_the_time_left_by_the_last_ten_steps(self) -> None:
        lines = [{"step": step, "data": {"timing_s/step": 100.0 if step < 5 else 3.0}} for step in range(1, 15)]
        assert step_line(lines, steps=1214) == "step 14/1214  3.0 s a step  1:00:00 left"

    def test_numbers_that_are_none_are_left_out(self) -> None:
        line = {"step": 2, "data": {"dialogue/score": None, "held_out/score": 0.25, "dialogue/failed": 3.0}}
        assert step_line([line], steps=2) == "step 2/2  held out +0.250  3 failed"

    @pytest.mark.parametrize(
        ("line", "said"), [("{\n", "line 2.*JSON"), ("[1]\n", "line 2.*step"), ('{"step": "x", "data": {}}\n', "line 2.*step")]
    )
    def test_a_broken_line_is_named_and_half_a_last_one_left_out(self, tmp_path: Path, line: str, said: str) -> None:
        file = tmp_path / "metrics.jsonl"
        file.write_text('{"step": 1, "data": {"a": NaN}}\n{"step": 2, "da', encoding="utf-8")
        assert [step["step"] for step in read_steps(file)] == [1]
        file.write_text('{"step": 1, "data": {}}\n' + line, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            read_steps(file)
