"""The jobs of `examples/kubernetes` and `examples/slurm`: their commands make the run that one process would have made."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from tests.commands import heartloop
from tests.write_docs import ROOT

SHIM = """#!/bin/sh
printf '%s\\0' "$@" >> "$COMMANDS"; printf '\\n' >> "$COMMANDS"
"""


class Jobs(NamedTuple):
    """The settings that shards play, and the commands of a shard and of the merge."""

    settings: dict[str, Any]
    shard: list[str]
    merge: list[str]

    def play(self, words: list[str], folder: Path, **variables: str) -> None:
        """Runs a script, whose commands of heartloop are run in this process when it has ended."""
        (folder / "bin").mkdir(exist_ok=True)
        shim, commands = folder / "bin" / "heartloop", folder / "commands"
        shim.write_text(SHIM, encoding="utf-8")
        shim.chmod(0o755)
        commands.write_bytes(b"")
        own = {"COMMANDS": str(commands), "PATH": f"{shim.parent}:{os.environ['PATH']}", "RUNS": str(folder / "runs")}
        subprocess.run(words, env={**own, "CONFIG": str(folder / "eval.yaml"), **variables}, check=True, timeout=30)
        for line in commands.read_bytes().split(b"\0\n")[:-1]:
            heartloop(*line.decode().split("\0"), cwd=folder, code=0)


def documents(file: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(ROOT / "examples" / "kubernetes" / file))


def container(job: Mapping[str, Any]) -> dict[str, Any]:
    [only] = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def kubernetes() -> Jobs:
    config, _, shards = documents("shards.yaml")
    [merge] = documents("merge.yaml")
    settings = YAML(typ="safe").load(config["data"]["eval.yaml"])
    return Jobs(settings, container(shards)["command"], container(merge)["command"])


def slurm() -> Jobs:
    folder = ROOT / "examples" / "slurm"
    return Jobs(
        YAML(typ="safe").load(folder / "eval.yaml"), ["bash", str(folder / "shards.sh")], ["bash", str(folder / "merge.sh")]
    )


def task(index: int, count: int) -> dict[str, str]:
    return {
        "JOB_COMPLETION_INDEX": str(index - 1), "SHARDS": str(count),
        "SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_COUNT": str(count),
    }  # fmt: skip


def dialogues(run: Path) -> list[dict[str, Any]]:
    lines = (run / "transcripts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "seconds"} for line in lines]


@pytest.mark.parametrize("jobs", [kubernetes(), slurm()], ids=["kubernetes", "slurm"])
def test_shards_one_of_them_killed_merge_into_the_run_of_one_process(jobs: Jobs, tmp_path: Path) -> None:
    with (tmp_path / "eval.yaml").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump({**jobs.settings, "limit": 5}, file)
    for index in (1, 2):
        jobs.play(jobs.shard, tmp_path, **task(index, 2))
    (tmp_path / "runs" / "shard-1.log").write_text("", encoding="utf-8")
    killed = tmp_path / "runs" / "shard-2" / "transcripts.jsonl"
    os.truncate(killed, killed.stat().st_size // 2)
    jobs.play(jobs.shard, tmp_path, **task(2, 2))
    heartloop("eval", "--config", "eval.yaml", "--out", "one", cwd=tmp_path, code=0)
    for _ in range(2):  # the second one replaces the first
        jobs.play(jobs.merge, tmp_path)
        merged = tmp_path / "runs" / "merged"
        assert sorted(dialogues(merged), key=str) == sorted(dialogues(tmp_path / "one"), key=str)
        assert (merged / "settings.json").read_text() == (tmp_path / "one" / "settings.json").read_text()
        assert (merged / "report" / "index.html").is_file()


def test_ray_on_slurm_has_all_cpus_of_its_task_and_finds_the_cluster_at_the_first_node(tmp_path: Path) -> None:
    for name, text in {"srun": SHIM, "scontrol": "#!/bin/sh\necho node3; echo node4\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    given = {
        "COMMANDS": str(tmp_path / "commands"), "CONFIG": "eval.yaml", "RUNS": "runs", "SLURM_JOB_NODELIST": "node[3-4]",
        "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "6", "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }  # fmt: skip
    subprocess.run(["bash", str(ROOT / "examples" / "slurm" / "ray.sh")], env=given, check=True, timeout=30)
    words = (tmp_path / "commands").read_text(encoding="utf-8").split("\0")
    srun, ray, run = (words[:2], words[2 : words.index("--")], words[words.index("--") + 1 :])
    assert srun == ["--cpus-per-task=6", "ray"]
    assert [ray[ray.index(name) + 1] for name in ("--address", "--min-nodes", "--num-cpus")] == ["node3:6379", "2", "6"]
    assert run[run.index("--ray") + 1] == "node3:6379"


def test_ray_on_kubernetes_runs_in_the_head_pod_with_the_settings_keys_and_volume_of_the_shards() -> None:
    page = (ROOT / "examples" / "kubernetes" / "README.md").read_text(encoding="utf-8").partition("## One run on Ray")[2]
    cluster = YAML(typ="safe").load(page.partition("```yaml\n")[2].partition("```")[0])["spec"]
    _, _, shards = documents("shards.yaml")
    of_shards = shards["spec"]["template"]["spec"]
    for pod in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        spec = pod["template"]["spec"]
        assert (spec["securityContext"], spec["volumes"]) == (of_shards["securityContext"], of_shards["volumes"])
        [here], there = spec["containers"], container(shards)
        assert all(here[name] == there[name] for name in ("image", "envFrom", "volumeMounts"))
    [command] = re.findall(r'kubectl exec "\$head" -- heartloop (.*)', page)
    assert "--config /config/eval.yaml --ray auto --out /runs/" in command


def test_the_shards_of_kubernetes_are_as_many_as_its_tasks_and_use_one_image_and_volume() -> None:
    _, volume, shards = documents("shards.yaml")
    [merge] = documents("merge.yaml")
    assert {"name": "SHARDS", "value": str(shards["spec"]["completions"])} in container(shards)["env"]
    assert container(merge)["image"] == container(shards)["image"]
    claim = {"name": "runs", "persistentVolumeClaim": {"claimName": volume["metadata"]["name"]}}
    assert all(claim in job["spec"]["template"]["spec"]["volumes"] for job in (shards, merge))
