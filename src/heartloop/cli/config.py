"""`--config`: a file that names the options of a command, by their names, or the settings of a finished run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from heartloop.core.errors import InputError
from heartloop.core.text import nearest


def options_of_file(context: typer.Context, path: Path | None) -> Path | None:
    """Makes the values of the file the command's defaults; returns the path of a finished run's settings, which are none."""
    from pydantic import ValidationError

    from heartloop.environments.records import plain
    from heartloop.evaluation.settings import is_of_run, read_config

    if path is None or context.resilient_parsing or is_of_run(read := read_config(path)):
        return path
    taken = {str(one.name): one for one in context.command.params if one.name != "config"}
    context.default_map = {}
    for name, value in read.values.items():
        where = read.place(name)
        if name not in taken:
            raise InputError(f"{where}: unknown key {name!r}{nearest(name, taken)}, and all are {', '.join(taken)}")
        if value is None:
            continue
        typed: Any = _texts(value) if getattr(taken[name], "multiple", False) else _text(value)
        try:
            taken[name].process_value(context, typed)
        except typer.BadParameter as error:
            cause = error.__cause__ or error.__context__
            wrong = plain(cause.errors()[0]) if isinstance(cause, ValidationError) else f"is {typed}: {error.message}"
            wrong = wrong if isinstance(value, str) else wrong.replace(repr(typed), str(typed))
            raise InputError(f"{where}, {name} {wrong}") from error
        context.default_map[name] = typed
    return None


def from_command_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _texts(value: object) -> list[str]:
    """The values of an option that is repeatable, as in the command; of `name=value`, a mapping too."""
    if isinstance(value, Mapping):
        return [f"{name}={_text(one)}" for name, one in value.items()]
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
