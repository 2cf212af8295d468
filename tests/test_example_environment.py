"""The example of a third party's environment: installed into a fresh environment, it takes part in every command.

The commands are those of docs/your-own-environment.md. Nothing is downloaded: the fresh environment sees this one's packages.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from heartloop.environments.episode import play
from heartloop.models.baselines import Baseline

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "environment"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the example installed; heartloop and its dependencies come from this one."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=120)
    python = folder / "venv" / "bin" / "python"
    paths = [str(ROOT / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "heartloop-of-this-checkout.pth").write_text("\n".join(dict.fromkeys(paths)) + "\n", encoding="utf-8")
    package = shutil.copytree(EXAMPLE, folder / "package", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", str(package)]
    subprocess.run([python, *install], check=True, timeout=120, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return folder


IN_ONE_PROCESS = """
import json, sys
from heartloop.cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["heartloop", *words]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""


def run(fresh: Path, *commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs commands in one process, which saves the start of Python; the first that fails ends it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [fresh / "venv" / "bin" / "python", "-c", IN_ONE_PROCESS, json.dumps(commands)],
        cwd=fresh, env={**environment, "COLUMNS": "120"}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_it_has_at_most_200_lines() -> None:
    modules = (EXAMPLE / "newcomer").glob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules) <= 200


async def test_its_scale_starts_where_its_dialogues_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    spec = import_module("newcomer.spec").SPEC
    ready = spec.make(spec.load()[:1], spec.players())
    played = await play(ready, ready.scenario_ids[0], Baseline("reflector"))
    assert spec.scale.start == spec.scale.course(played)[0]


def test_the_documented_commands_work_once_it_is_installed(fresh: Path) -> None:
    page = (ROOT / "docs" / "your-own-environment.md").read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    commands = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    commands = [words[1:] for words in commands if words and words[0] == "heartloop"]
    assert [words[0] for words in commands] == ["environments", "environments", "check", "eval", "rescore", "rejudge", "report"]
    done = run(fresh, *commands)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "newcomer" in done.stdout
    card = json.loads((fresh / "newcomer-run" / "scores.json").read_text(encoding="utf-8"))
    means = {row["model"]: row["headline"]["mean"] for row in card["models"]}
    assert means["heartloop/questioner"] == 100.0
    assert means["heartloop/questioner"] > means["heartloop/fixer"]
    html = (fresh / "newcomer-run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Does the newcomer arrive?" in html
    assert "Unasked advice" in html
    rescored = json.loads((fresh / "newcomer-run-good_from-5" / "settings.json").read_text(encoding="utf-8"))
    assert rescored["options"]["good_from"] == 5.0


def test_it_can_be_trained_on(fresh: Path) -> None:
    done = run(fresh, ["train", str(EXAMPLE / "recipe.yaml"), "--dry-run", "--allow-embedded"])
    assert "newcomer" in done.stdout
    missing = [line for line in done.stdout.partition("Problems:")[2].splitlines() if line.strip()]
    assert [line for line in missing if "the extra train is not installed" not in line] == [], done.stdout + done.stderr
