"""Training jobs: `heartloop train`, verl under Ray, two ranks, a policy of a few thousand weights.

Weights of a step that is repeated after a kill are equal up to rounding: verl promises nothing beyond what a checkpoint holds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import heartloop
from heartloop.core.dialogue import Message, Transcript, read_transcripts
from heartloop.core.system import read_steps
from heartloop.training.checkpoints import CheckpointModel, weights_in
from heartloop.training.spending import SharedMeter
from heartloop.training.verl_config import RunPaths
from tests.training import tiny_policy

LIMIT = 900
"""Seconds that a start may take; on two idle cores it takes about a minute."""

PATCHY = '''
"""A simulator that fails its first five calls, counted over processes, and is content afterwards. The last call of the third
step (of 7 + 12 + 12) waits while the file HOLD is there."""
import json, os, pathlib, threading, time
from heartloop.core.tags import tagged

LOCK = threading.Lock()
COUNT = pathlib.Path(os.environ["PATCHY_COUNT"])
HOLD = COUNT.with_name("hold")

def person(messages):
    with LOCK:
        number = len(COUNT.read_text()) if COUNT.exists() else 0
        COUNT.write_text("x" * (number + 1))
    if number < 5:
        raise RuntimeError("the simulator is down")
    while number == 30 and HOLD.exists():
        time.sleep(0.05)
    reflection = {step: "It is said." for step in ("need", "quality", "inertia", "changes", "tone")}
    change = sum(map(ord, messages[-1]["content"])) % 7 - 3
    answer = {"reflection": reflection, "strain_change": change, "relation_change": -change, "reply": "I see."}
    return tagged(json.dumps({**answer, "continue": "yes"}), messages[-1]["content"])
'''


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.save(tmp_path_factory.mktemp("policy"))


class Job:
    """A training run at the size of a test. `run` starts it, or goes on with it."""

    def __init__(self, recipe: str, folder: Path, policy: Path, *settings: str, **variables: str) -> None:
        self.paths = RunPaths(folder / "run")
        self.listening: set[str] = set()
        self._log = folder / "log.txt"
        size = (
            f"policy.model={policy}", "policy.max_prompt=3000", "policy.max_response=400", "dialogue.chat_format=template",
            "dialogue.reply_tokens=8", "environment.options.max_turns=2",
            "batch.scenarios=2", "batch.mini_batch=2", "batch.rollouts=3",
            "batch.tokens_per_device=6000", "machine.ranks=2", "watching.validate_every=0", "watching.transcripts_every=1",
            "watching.save_every=1", "optimiser.learning_rate=0.001", "optimiser.warmup_ratio=0", "optimiser.warmup_steps=0",
        )  # fmt: skip
        self._command = [sys.executable, "-m", "heartloop.cli", "train", recipe, "--out", str(self.paths.run)]
        self._command += [part for setting in (*size, *settings) for part in ("--set", setting)]
        self._mark = uuid.uuid4().hex
        source = str(Path(heartloop.__file__).parents[1])
        self._environment = {
            **os.environ, **variables, "PYTHONPATH": os.pathsep.join((source, str(folder))), "PYTHONWARNINGS": "ignore",
            "HEARTLOOP_TEST_JOB": self._mark, "RAY_worker_niceness": "0",
        }  # fmt: skip

    def run(self, *options: str, kill_when: Callable[[], bool] | None = None) -> int:
        """The exit status; with `kill_when`, the command is killed as soon as that holds."""
        with self._log.open("ab") as file:
            process = subprocess.Popen([*self._command, *options], env=self._environment, stdout=file, stderr=file)
        started = looked = time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - started < LIMIT:
                if time.monotonic() - looked > 5:
                    looked = time.monotonic()
                    self.listening |= {address for pid in self._alive() for address in _listening(pid)}
                if kill_when is not None and kill_when():
                    process.kill()
                time.sleep(0.2)
            until = time.monotonic() + 60
            while (left := list(self._alive())) and time.monotonic() < until:
                time.sleep(0.2)
            assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        finally:
            for pid in self._alive():
                os.kill(pid, signal.SIGKILL)
            process.wait()
        return process.returncode

    def why(self) -> str:
        """The ends of its logs."""
        logs = [self._log, *sorted(self.paths.attempts.glob("*/log.txt"))]
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)

    def metrics(self) -> dict[int, dict[str, Any]]:
        """By step."""
        return {line["step"]: line["data"] for line in read_steps(self.paths.metrics)}

    def _alive(self) -> Iterator[int]:
        """Processes of this job, by a variable that only they have."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (path / "environ").read_bytes() and b") Z " not in (path / "stat").read_bytes():
                    yield int(path.name)
            except OSError:
                continue

    def weights(self, step: int, role: str = "actor") -> Mapping[str, Any]:
        """Of the checkpoint after a step."""
        (file,) = (self.paths.checkpoint(step) / role / "huggingface").glob("*.safetensors")
        found: Mapping[str, Any] = load_file(file)
        return found

    def updates(self, step: int) -> set[int]:
        """Updates that the optimiser of the actor has made, by its own count, parameter by parameter."""
        folder = self.paths.checkpoint(step) / "actor"
        states = [torch.load(file, weights_only=False)["state"] for file in folder.glob("optim_*.pt")]
        assert len(states) == 2  # a rank each
        return {int(of["step"]) for state in states for of in state.values()}

    def transcripts(self, step: int) -> list[Transcript]:
        """Of a step, of all workers, in one order."""
        files = sorted(self.paths.transcripts.glob(f"train-{step:06d}-*.jsonl"))
        found = [transcript for file in files for transcript in read_transcripts(file)]
        return sorted(found, key=lambda transcript: (transcript.scenario, transcript.repeat))


def _listening(pid: int) -> Iterator[str]:
    """Local addresses on which a process listens, as the kernel writes them."""
    try:
        sockets = {str(link.readlink()).removeprefix("socket:[").removesuffix("]") for link in Path(f"/proc/{pid}/fd").iterdir()}
        tables = [Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
    except OSError:
        return
    for line in (line.split() for table in tables for line in table):
        if line[3] == "0A" and line[9] in sockets:
            yield line[1].rpartition(":")[0]


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return any(not before[name].equal(after[name]) for name in before if name in after)


def _words(transcripts: list[Transcript]) -> list[tuple[Any, ...]]:
    return [(t.scenario, t.seed, t.repeat, t.opening, tuple(turn.reply for turn in t.turns)) for t in transcripts]


def test_ctc_grpo_learns_drops_what_failed_and_goes_on_after_a_kill(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "patchy.py").write_text(PATCHY)
    job = Job(
        "ctc_grpo_tiny", tmp_path, policy, "scenarios.train=test", "scenarios.held_out=test", "scenarios.held_out_share=0.02",
        "scenarios.held_out_limit=null", "dialogue.user=python:patchy:person", "batch.steps=3", "dialogue.sample=turn",
        PATCHY_COUNT=str(tmp_path / "count"),
    )  # fmt: skip
    hold = tmp_path / "hold"
    hold.touch()
    status = job.run(kill_when=lambda: len(job.transcripts(3)) == 5 and 2 in job.metrics())
    hold.unlink()
    assert status == -signal.SIGKILL, job.why()
    made, cut_off = job.metrics(), _words(job.transcripts(3))
    start = load_file(policy / "model.safetensors")
    first, second = made[1], made[2]
    # five of six dialogues lost their simulator: of one group one rollout is left, of the other none
    assert (first["dialogue/failed"], first["dialogue/scored"], first["dialogue/lone_groups"]) == (5, 1, 1)
    assert first["training/skipped_updates"] == 1
    assert "actor/grad_norm" not in first
    assert not _moved(start, job.weights(1))
    assert sorted(transcript.scored for transcript in job.transcripts(1)) == [False] * 5 + [True]
    assert (second["dialogue/failed"], second["dialogue/scored"], second["training/skipped_updates"]) == (0, 6, 0)
    assert second["actor/grad_norm"] > 0
    assert second["user/calls"] == 12
    assert {"dialogue/score", "dialogue/group_std", "dialogue/reply_tokens/turn_2", "actor/entropy"} <= second.keys()
    assert _moved(start, job.weights(2))
    updates = job.updates(2)

    for file in job.paths.transcripts.glob("train-000003-*.jsonl"):
        file.unlink()
    status = job.run()
    assert status == 1, job.why()  # more than 5 % of the dialogues failed, which the command says
    again = job.metrics()
    assert {step: again[step] for step in (1, 2)} == {step: made[step] for step in (1, 2)}
    assert again.keys() == {1, 2, 3}
    words = _words(job.transcripts(3))
    assert len(words) == 6
    assert len(cut_off) == 5
    assert set(cut_off) < set(words)
    assert _moved(job.weights(2), job.weights(3))
    assert job.updates(3) == {2 * count for count in updates}  # as many in step 3 as in step 2, and none in step 1
    people = [{transcript.scenario for transcript in job.transcripts(step)} for step in (1, 2, 3)]
    assert [len(found) for found in people] == [2, 2, 2]
    assert len(set.union(*people)) == 6  # the deal goes on where it stopped
    _stays_at_home(job)


def test_limits_hold_over_all_workers_and_attempts_and_lose_no_step(policy: Path, tmp_path: Path) -> None:
    """Twelve calls a step. The first limit ends the first step, the second fits two steps and a half, the third the last."""
    (tmp_path / "calm.py").write_text(PATCHY.replace("number < 5", "False"))
    job = Job(
        "ctc_grpo_tiny", tmp_path, policy, "scenarios.train=test", "scenarios.held_out=test", "scenarios.held_out_share=0.02",
        "scenarios.held_out_limit=null", "dialogue.user=python:calm:person", "batch.steps=3", "watching.save_every=0",
        "machine.workers=2", PATCHY_COUNT=str(tmp_path / "count"),
    )  # fmt: skip
    assert job.run("--max-tokens", "12000") == 1, job.why()
    assert "--max-tokens 12000 is reached" in job.why()
    assert not job.metrics()
    spent = SharedMeter(job.paths.spending).spend()
    assert 0 < spent.calls < 12
    call = spent.tokens / spent.calls
    limit = round(spent.tokens + 30 * call)
    assert job.run("--max-tokens", str(limit)) == 1, job.why()
    assert "Stopped early after step 2: --max-tokens" in job.why()
    assert "too low for another step" in job.why()
    assert job.metrics().keys() == {1, 2}
    assert job.weights(2)  # the step has a checkpoint, which was not due
    spent = SharedMeter(job.paths.spending).spend()
    assert spent.tokens <= limit
    assert job.run() == 0, job.why()
    assert job.metrics().keys() == {1, 2, 3}
    assert SharedMeter(job.paths.spending).spend().calls == spent.calls + 12


def test_ppo_moves_actor_and_critic(policy: Path, tmp_path: Path) -> None:
    job = Job(
        "rlver_ppo_tiny", tmp_path, policy, "scenarios.held_out_share=0.05", "scenarios.held_out_limit=null", "batch.rollouts=1",
        "batch.scenarios=4", "batch.mini_batch=4", "batch.steps=2", "algorithm.critic_warmup=0",
        "verl.algorithm.rollout_correction.bypass_mode=false",
    )  # fmt: skip
    assert job.run("--allow-embedded") == 0, job.why()
    found = job.metrics()
    for step in (found[1], found[2]):
        assert step["dialogue/scored"] == 4
        assert step["critic/grad_norm"] > 0
        assert step["actor/grad_norm"] > 0
        assert step["actor/entropy"] > 0
        assert step["critic/returns/max"] <= 1.0  # of an outcome in [0, 1]
        assert step["training/rollout_probs_diff_mean"] < 1e-4  # the trainer's probabilities are those that the replies had
    assert found[1]["critic/vf_loss"] != found[2]["critic/vf_loss"]
    assert _moved(load_file(policy / "model.safetensors"), job.weights(1))
    assert _moved(job.weights(1), job.weights(2))
    _is_a_model_like_any(job, 2)
    assert all(len(transcript.turns) == 2 for step in (1, 2) for transcript in job.transcripts(step))
    _stays_at_home(job)


def _is_a_model_like_any(job: Job, step: int) -> None:
    """Plain transformers can load it, and it answers as a model under test."""
    step_folder = job.paths.checkpoint(step)
    folder = weights_in(step_folder)
    assert folder != step_folder
    assert "attn_implementation" not in json.loads((folder / "config.json").read_text())
    AutoModelForCausalLM.from_pretrained(folder)
    reply = asyncio.run(CheckpointModel(step_folder, max_tokens=5).complete([Message(role="user", content="Hello.")]))
    assert 1 <= reply.usage.completion_tokens <= 5


def _stays_at_home(job: Job) -> None:
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert job.listening
    assert job.listening <= loopback, job.listening
