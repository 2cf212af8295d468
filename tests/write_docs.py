"""Writes the generated documentation: `python -m tests.write_docs`; `tests/test_docs.py` compares.

Covers docs/cli.md, the help of every command, and docs/recipe-settings.md, the settings of a training recipe. Does not cover
prose.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from heartloop.cli.main import app
from heartloop.core.dialogue import Sampling
from heartloop.training.recipe import Recipe

ROOT = Path(__file__).parents[1]
RUN_SETS = ("dialogue.scenarios", "dialogue.transcripts", "dialogue.transcripts_every", "dialogue.seed")
"""What a run fills in; no recipe says it."""


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below `command` with its path, itself first."""
    yield path, command
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from commands(child, (*path, name))


def cli_page() -> str:
    """docs/cli.md as it should be."""
    parts = ["# The command line\n\nWritten by `make docs` from the commands' own help; a test compares.\n"]
    root = typer.main.get_command(app)
    for path, command in commands(root, ("heartloop",)):
        context = command.make_context(" ".join(path), [], resilient_parsing=True, terminal_width=100, max_content_width=100)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"## {' '.join(path)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def settings_of(section: type[BaseModel], before: str = "") -> Iterator[tuple[str, str, str]]:
    """Every setting below a section: its dotted name, its default, what it means."""
    for name, field in section.model_fields.items():
        whole = f"{before}{name}"
        kinds = (field.annotation, *get_args(field.annotation))
        inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if inner not in (None, Sampling):
            optional = inner is not field.annotation
            for below, default, meaning in settings_of(inner, f"{whole}."):
                yield below, "–" if optional else default, f"{field.description} {meaning}" if optional else meaning
        elif whole not in RUN_SETS:
            meaning = " ".join((field.description or "").split())
            choices = [value for kind in kinds for value in get_args(kind) if isinstance(value, str)]
            words = [f"`{value}`" for value in dict.fromkeys(choices) if f"`{value}`" not in meaning]
            yield whole, _default(field), f"{meaning} ({', '.join(words)})" if words else meaning


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "to be given"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return "–"
    return f"`{value:g}`" if isinstance(value, float) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def recipe_page() -> str:
    """docs/recipe-settings.md as it should be."""
    lines = [
        "# Settings of a training recipe\n",
        "Written by `make docs` from `recipe_sections.py` and `dialogue_settings.py` of the training room; a test compares.",
        "Each can be given in a recipe's YAML, in its sections, or on the command line: `--set batch.steps=20`.",
        "[What they do together](training.md).\n",
        "| setting | default | |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in settings_of(Recipe)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "recipe-settings.md").write_text(recipe_page(), encoding="utf-8")
    (ROOT / "docs" / "cli.md").write_text(cli_page(), encoding="utf-8")
