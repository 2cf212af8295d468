"""Documentation is executed: generated pages are current, and the commands of every page run as written.

The `sh` blocks of a page run in order in one fresh directory. Commands below a comment `# needs an endpoint`, `# needs the
extra ...` or `# needs the package ...` are only parsed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from heartloop.environments.registry import specs
from heartloop.training.recipe import Recipe, read_recipe
from tests.commands import Done, heartloop
from tests.write_docs import (
    OPTIONS,
    PROVIDERS,
    RECORDED,
    RESULTS,
    ROOT,
    SHOWN,
    cli_page,
    comparison_schema,
    recipe_page,
    results_table,
    settings_of,
    with_options,
    with_providers,
)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(page and number, text) of every fenced block of a language."""
    found = []
    for page in PAGES:
        for number, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), start=1):
            if match[1] == language:
                found.append((f"{page.name}-{number}", match[2]))
    return found


def test_cli_page_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == cli_page()


def test_the_schema_of_a_comparison_is_current() -> None:
    assert (ROOT / "docs" / "compare.schema.json").read_text(encoding="utf-8") == comparison_schema()


def test_the_page_of_a_recipes_settings_is_current_and_explains_each() -> None:
    assert (ROOT / "docs" / "recipe-settings.md").read_text(encoding="utf-8") == recipe_page()
    assert [name for name, _, meaning in settings_of(Recipe) if not meaning] == []


def test_the_tables_of_providers_are_current() -> None:
    page = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    assert with_providers(page) == page
    assert [found[1] for found in PROVIDERS.finditer(page)] == ["addresses", "habits", "limits", "examples"]


def test_every_shipped_environment_has_a_page_with_its_options() -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    assert [page.name for page, text in pages.items() if with_options(text) != text] == []
    shipped = [spec.name for spec in specs() if (ROOT / "src" / "heartloop" / "environments" / spec.name).is_dir()]
    assert sorted(found[1] for text in pages.values() for found in OPTIONS.finditer(text)) == sorted(shipped)


TRAIN = re.compile(r"^heartloop train (?!list)(.+?)(?: *#.*)?$", re.MULTILINE)


@pytest.mark.parametrize("words", sorted({found for page in PAGES for found in TRAIN.findall(page.read_text(encoding="utf-8"))}))
def test_a_documented_training_run_names_a_recipe_variants_and_settings_that_exist(words: str) -> None:
    name, *given = shlex.split(words)
    if name.endswith(".yaml"):
        return
    values = [(word, given[place + 1]) for place, word in enumerate(given[:-1])]
    variants = [value for word, value in values if word == "--variant"]
    read_recipe(name, variants=variants, settings=[value for word, value in values if word == "--set"])


def shell_pages() -> dict[str, str]:
    pages: dict[str, list[str]] = {}
    for where, text in blocks("sh"):
        pages.setdefault(where.rpartition("-")[0], []).append(f"# next block\n{text}")
    return {page: "".join(texts) for page, texts in pages.items()}


def commands_of(text: str) -> Iterator[tuple[list[str], bool]]:
    """The words of every command of heartloop or Inspect in a block, and whether it runs without an endpoint, extra or file."""
    needs = False
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.startswith("#"):
            new = any(f"needs {what}" in line for what in ("an endpoint", "the extra", "the package", "the authors' files"))
            needs = new or (needs and "no endpoint" not in line and line != "# next block")
            continue
        words = shlex.split(line, comments=True)
        if words and words[0] not in ("make", "git", "cd", "pip", "export") and not words[0].endswith("_KEY"):
            assert words[0] in ("heartloop", "inspect"), f"{line!r} is not a command of ours"
            yield words, not needs


def run(words: list[str], folder: Path) -> Done:
    if words[0] == "heartloop":
        return heartloop(*words[1:], cwd=folder, typed="I hear you.\n")  # typed: for `heartloop talk`
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(("where", "text"), shell_pages().items(), ids=list(shell_pages()))
def test_the_options_of_every_documented_command_exist(where: str, text: str, tmp_path: Path) -> None:
    for words, _ in commands_of(text):
        if words[0] == "heartloop":
            done = run([*words, "--help"], tmp_path)
            assert done.code == 0, f"{where}: {shlex.join(words)}\n{done.out}\n{done.err}"


@pytest.mark.documentation
@pytest.mark.parametrize(
    ("where", "text"),
    [pytest.param(*item, id=item[0], marks=() if item[0] == "README.md" else pytest.mark.slow) for item in shell_pages().items()],
)
def test_shell_blocks_run_as_written(where: str, text: str, tmp_path: Path) -> None:
    for words, here in commands_of(text):
        if here and (words[0] == "heartloop" or find_spec("inspect_ai")):
            done = run(words, tmp_path)
            assert done.code == 0, f"{where}: {shlex.join(words)}\n{done.out}\n{done.err}"


@pytest.mark.documentation
@pytest.mark.parametrize(("where", "text"), blocks("python"), ids=lambda value: value if len(value) < 30 else "")
def test_python_blocks_run_as_written(where: str, text: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{where}:\n{done.stderr}"


def test_every_document_link_leads_somewhere() -> None:
    for page in [*PAGES, *ROOT.glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md"), *(ROOT / "src").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_file_list_of_the_readme_is_the_package() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.search(r"^## The files\n\n```\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert listed is not None
    names = [line.split()[0].rstrip("/") for line in listed[1].splitlines() if line and not line.startswith(" ")]
    entries = {path.name for path in (ROOT / "src" / "heartloop").iterdir() if path.name != "__pycache__"}
    assert sorted(names) == sorted(entries)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "part", "shown", "kind"),
    [("README.md", RESULTS, SHOWN, ""), ("README.md", RECORDED, None, "recorded-"), ("docs/baselines.md", RESULTS, None, "")],
)
def test_the_results_are_those_of_the_demo(
    page: str, part: re.Pattern[str], shown: Sequence[str] | None, kind: str, demo_site: Path
) -> None:
    table = part.search((ROOT / page).read_text(encoding="utf-8"))
    assert table is not None
    assert table[0] == results_table(demo_site, shown, kind=kind)
