"""Training jobs, as a specification: verl's own entry point under Ray, two ranks, a policy of a few thousand weights.

1. CTC-GRPO: a step moves the weights, and a run that was stopped goes on from its checkpoint with the next people.
2. Dialogues whose simulator failed are left out and counted; where one rollout of a group is left, nothing is learned from it.
3. PPO: actor and critic both move; the value of a token is that of its turn and all that follow.
4. The numbers of the dialogues stand in verl's log, and the dialogues themselves in files.
5. Nothing listens on the network, and nothing is left behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import heartloop
from heartloop.dialogue import Transcript, read_transcripts
from heartloop.training.dataset import cast_of, dialogue_settings, rows, write_parquet
from heartloop.training.dialogue_settings import write_agent_loops
from heartloop.training.recipe import Recipe, read_recipe
from heartloop.training.verl_config import RunPaths, environment_of, overrides
from tests.training import tiny_policy

LIMIT = 600
"""Seconds that a job may take; on two idle cores it takes about a minute."""

PATCHY = '''
"""A simulator that fails its first five calls, counted over processes, and is content afterwards."""
import json, os, pathlib, threading

LOCK = threading.Lock()
COUNT = pathlib.Path(os.environ["PATCHY_COUNT"])

def person(messages):
    with LOCK:
        number = len(COUNT.read_text()) if COUNT.exists() else 0
        COUNT.write_text("x" * (number + 1))
    if number < 5:
        raise RuntimeError("the simulator is down")
    reflection = {step: "It is said." for step in ("need", "quality", "inertia", "changes", "tone")}
    change = sum(map(ord, messages[-1]["content"])) % 7 - 3
    return json.dumps({"reflection": reflection, "emotion_change": change, "relation_change": -change,
                       "reply": "I see.", "continue": "yes"})
'''


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.save(tmp_path_factory.mktemp("policy"))


def recipe_of(name: str, policy: Path, *settings: str) -> Recipe:
    """A shipped recipe at the size of a test."""
    return read_recipe(
        name,
        settings=[
            f"policy.model={policy}", "policy.max_prompt=3000", "policy.max_response=64", "dialogue.chat_format=template",
            "dialogue.reply_tokens=8", "dialogue.max_turns=3", "batch.scenarios=2", "batch.mini_batch=2", "batch.rollouts=3",
            "batch.tokens_per_device=6000", "machine.ranks=2", "watching.validate_every=0", "watching.transcripts_every=1",
            "watching.save_every=1", "optimiser.learning_rate=0.001", "optimiser.warmup_ratio=0",
            "optimiser.warmup_steps=0", *settings,
        ],
    )  # fmt: skip


class Job:
    """One start of verl over a run's folder."""

    def __init__(self, recipe: Recipe, folder: Path, policy: Path, **variables: str) -> None:
        self.paths = RunPaths(folder)
        self._mark = uuid.uuid4().hex
        self._metrics = folder / f"metrics-{self._mark}.jsonl"
        cast = cast_of(recipe)
        write_parquet(rows(cast.train, recipe, split="train"), self.paths.train)
        write_parquet(rows(cast.held_out, recipe, split="held_out"), self.paths.held_out)
        write_agent_loops(dialogue_settings(recipe, self.paths), self.paths.agent_loops)
        arguments = overrides(recipe, self.paths, model=str(policy), train_rows=len(cast.train))
        source = str(Path(heartloop.__file__).parents[1])
        self._environment = {
            **os.environ, **environment_of(recipe), **variables, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore",
            "VERL_FILE_LOGGER_PATH": str(self._metrics), "HEARTLOOP_TEST_JOB": self._mark, "RAY_worker_niceness": "0",
        }  # fmt: skip
        self._command = [sys.executable, "-m", "verl.trainer.main_ppo", *arguments]

    def run(self) -> list[dict[str, Any]]:
        """The metrics of every step."""
        log = self.paths.run / f"log-{self._mark}.txt"
        with log.open("wb") as file:
            process = subprocess.Popen(self._command, cwd=self.paths.run, env=self._environment, stdout=file, stderr=file)
            listening: set[str] = set()
            started = time.monotonic()
            try:
                while process.poll() is None and time.monotonic() - started < LIMIT:
                    listening |= {address for pid in self._alive() for address in _listening(pid)}
                    time.sleep(3)
            finally:
                for pid in self._alive():
                    if process.poll() is None or time.monotonic() - started > LIMIT:
                        os.kill(pid, 9)
                process.wait()
        text = log.read_text(errors="replace")
        assert process.returncode == 0, text[-6000:]
        self.listening = listening
        until = time.monotonic() + 20
        while (left := list(self._alive())) and time.monotonic() < until:
            time.sleep(0.2)
        assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        return [json.loads(line)["data"] for line in self._metrics.read_text().splitlines()]

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
        (file,) = (self.paths.checkpoints / f"global_step_{step}" / role / "huggingface").glob("*.safetensors")
        found: Mapping[str, Any] = load_file(file)
        return found

    def transcripts(self, step: int) -> list[Transcript]:
        """Of a step, of all workers."""
        files = sorted(self.paths.transcripts.glob(f"train-{step:06d}-*.jsonl"))
        return [transcript for file in files for transcript in read_transcripts(file)]


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


def test_ctc_grpo_learns_drops_what_failed_and_goes_on_from_its_checkpoint(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "patchy.py").write_text(PATCHY)
    settings = ["people.train=test", "people.held_out=test", "people.held_out_share=0.02", "people.held_out_limit=null",
                "dialogue.user=python:patchy:person"]  # fmt: skip
    patchy = {"PATCHY_COUNT": str(tmp_path / "count")}
    job = Job(recipe_of("ctc_grpo_tiny", policy, *settings, "batch.steps=1"), tmp_path, policy, **patchy)
    (first,) = job.run()
    start = load_file(policy / "model.safetensors")
    # five of six dialogues lost their simulator: of one group one rollout is left, of the other none
    assert (first["dialogue/failed"], first["dialogue/scored"], first["dialogue/lone_groups"]) == (5, 1, 1)
    assert first["training/skipped_updates"] == 1
    assert "actor/grad_norm" not in first
    assert not _moved(start, job.weights(1))
    assert sorted(transcript.scored for transcript in job.transcripts(1)) == [False] * 5 + [True]

    job = Job(recipe_of("ctc_grpo_tiny", policy, *settings, "batch.steps=2"), tmp_path, policy, **patchy)
    (second,) = job.run()
    assert second["training/global_step"] == 2
    assert (second["dialogue/failed"], second["dialogue/scored"], second["training/skipped_updates"]) == (0, 6, 0)
    assert second["actor/grad_norm"] > 0
    assert second["simulator/calls"] == 18
    assert {"dialogue/score", "dialogue/group_std", "dialogue/reply_tokens/turn_3", "actor/entropy"} <= second.keys()
    assert second["training/rollout_probs_diff_mean"] < 1e-4  # the trainer's probabilities are those that the replies had
    assert _moved(start, job.weights(2))
    people = [{transcript.scenario for transcript in job.transcripts(step)} for step in (1, 2)]
    assert [len(found) for found in people] == [2, 2]
    assert not people[0] & people[1]  # the deal goes on where it stopped
    _stays_at_home(job)


def test_ppo_moves_actor_and_critic(policy: Path, tmp_path: Path) -> None:
    settings = ["people.held_out_share=0.05", "people.held_out_limit=null", "batch.rollouts=1", "batch.scenarios=4",
                "batch.mini_batch=4", "batch.steps=2", "algorithm.critic_warmup=0"]  # fmt: skip
    job = Job(recipe_of("rlver_ppo_tiny", policy, *settings), tmp_path, policy)
    first, second = job.run()
    for step in (first, second):
        assert step["dialogue/scored"] == 4
        assert step["critic/grad_norm"] > 0
        assert step["actor/grad_norm"] > 0
        assert step["critic/returns/max"] <= 1.0  # of an outcome in [0, 1]
    assert first["critic/vf_loss"] != second["critic/vf_loss"]
    assert _moved(load_file(policy / "model.safetensors"), job.weights(1))
    assert _moved(job.weights(1), job.weights(2))
    assert all(len(transcript.turns) == 3 for step in (1, 2) for transcript in job.transcripts(step))
    _stays_at_home(job)


def _stays_at_home(job: Job) -> None:
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert job.listening
    assert job.listening <= loopback, job.listening
