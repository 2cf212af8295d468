"""The package that `heartloop environments new` writes: installed into a fresh environment, it takes part in every command.

The commands are those of docs/your-own-environment.md. Nothing is downloaded: the fresh environment sees this one's packages.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from heartloop.environments.episode import play
from heartloop.environments.template import write_package
from heartloop.environments.template.newcomer.spec import SPEC
from heartloop.models.baselines import Baseline
from tests.commands import heartloop, refused

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with two new packages installed; heartloop and its dependencies come from this one."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=120)
    python = folder / "venv" / "bin" / "python"
    paths = [str(ROOT / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "heartloop-of-this-checkout.pth").write_text("\n".join(dict.fromkeys(paths)) + "\n", encoding="utf-8")
    for name in ("newcomer", "tea_house"):
        write_package(name, folder / name)
    packages = [str(folder / "newcomer"), str(folder / "tea_house")]
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", *packages]
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


def test_it_has_about_200_lines(fresh: Path) -> None:
    modules = (fresh / "newcomer" / "newcomer").glob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules) <= 210


async def test_its_scale_starts_where_its_dialogues_do() -> None:
    ready = SPEC.make(SPEC.load()[:1], SPEC.players())
    played = await play(ready, ready.scenario_ids[0], Baseline("reflector"))
    assert SPEC.scale.start == SPEC.scale.course(played)[0]


def test_under_any_name_it_passes_the_conformance_test_unedited(fresh: Path) -> None:
    done = run(
        fresh, ["environments", "tea_house"], ["check", "tea_house"], ["check", "newcomer"], ["scenarios", "check", "tea_house"]
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "PASS: tea_house" in done.stdout
    assert "Tea house" in done.stdout
    assert not list((fresh / "tea_house").rglob("*newcomer*"))
    words = [str(fresh / "venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tea_house"]
    tested = subprocess.run(words, cwd=fresh, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr


def test_a_name_that_is_taken_or_no_package_name_and_a_folder_that_exists_are_refused(tmp_path: Path) -> None:
    for name, said in (("Tea-House", "tea_house"), ("class", "first_day"), ("json", "module"), ("sage", "environment")):
        refused("environments", "new", name, cwd=tmp_path, said=(name, said))
    assert list(tmp_path.iterdir()) == []
    assert "heartloop check tea" in heartloop("environments", "new", "tea", cwd=tmp_path, code=0).out
    refused("environments", "new", "tea", cwd=tmp_path, said="tea exists")


def test_the_documented_commands_work_once_it_is_installed(fresh: Path) -> None:
    page = (ROOT / "docs" / "your-own-environment.md").read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    commands = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    (made, *commands) = [words[1:] for words in commands if words and words[0] == "heartloop"]
    assert made == ["environments", "new", "newcomer"]  # as in `fresh`
    assert [words[0] for words in commands] == ["environments", "environments", "check", "eval", "rescore", "rejudge", "report"]
    done = run(fresh, *commands)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "newcomer" in done.stdout
    card = json.loads((fresh / "newcomer-run" / "scores.json").read_text(encoding="utf-8"))
    means = {row["model"]: row["headline"]["mean"] for row in card["models"]}
    # four arrive; with the one who trusts less, four questions lead from ease 4 to 8: (4 * 100 + 50 + 50 / 3) / 5
    assert means["heartloop/questioner"] == pytest.approx(93.33, abs=0.01)
    assert means["heartloop/questioner"] > means["heartloop/fixer"]
    html = (fresh / "newcomer-run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Does the newcomer arrive?" in html
    assert "Unasked advice" in html
    rescored = json.loads((fresh / "newcomer-run-good_from-5" / "settings.json").read_text(encoding="utf-8"))
    assert rescored["options"]["good_from"] == 5.0


def test_it_can_be_trained_on(fresh: Path) -> None:
    done = run(fresh, ["train", str(fresh / "newcomer" / "recipe.yaml"), "--dry-run", "--allow-embedded"])
    assert "newcomer" in done.stdout
    missing = [line for line in done.stdout.partition("Problems:")[2].splitlines() if line.strip()]
    assert [line for line in missing if "the extra train is not installed" not in line] == [], done.stdout + done.stderr
