"""Writes the generated documentation: `python -m tests.write_docs`; `tests/test_docs.py` compares.

Covers docs/cli.md, the help of every command. Does not cover prose.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from heartloop.cli import app

ROOT = Path(__file__).parents[1]


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


if __name__ == "__main__":
    (ROOT / "docs" / "cli.md").write_text(cli_page(), encoding="utf-8")
