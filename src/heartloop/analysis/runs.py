"""A run directory as values: its settings and its dialogues, and which runs may share a table.

Covers reading `settings.json` and `transcripts.jsonl`. Does not cover writing them (`heartloop.evaluation`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.analysis.scores import latest
from heartloop.dialogue import Transcript, read_transcripts
from heartloop.errors import InputError

__all__ = ["Measurement", "Run", "comparable", "read_run"]


class Run(NamedTuple):
    """One run directory; `transcripts` as written, retried dialogues included."""

    path: Path
    settings: Mapping[str, Any]
    transcripts: tuple[Transcript, ...]


class Measurement(NamedTuple):
    """Runs whose numbers may stand in one table: the same environment, user, rules and prompts."""

    runs: tuple[Run, ...]
    settings: Mapping[str, Any]
    transcripts: tuple[Transcript, ...]


def read_run(path: Path) -> Run:
    """A run directory; a run without a finished dialogue is a run with no transcripts.

    Raises:
        InputError: it is no run directory, or one of its files does not fit.
    """
    settings_path, transcripts_path = path / "settings.json", path / "transcripts.jsonl"
    if not settings_path.is_file() and not transcripts_path.is_file():
        raise InputError(f"{path} is no run directory; expected settings.json and transcripts.jsonl in it")
    settings: Any = {}
    if settings_path.is_file():
        try:
            settings = json.loads(settings_path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {settings_path}: {error}; expected a JSON object") from error
        if not isinstance(settings, dict):
            raise InputError(f"{settings_path} holds {type(settings).__name__}; expected a JSON object")
    transcripts = tuple(read_transcripts(transcripts_path)) if transcripts_path.is_file() else ()
    return Run(path, settings, transcripts)


def comparable(runs: Sequence[Run]) -> list[Measurement]:
    """Runs put together where their numbers compare, in the order of their first appearance.

    A dialogue found in several of them counts once, as the last run has it.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_rules(run), []).append(run)
    return [_together(members) for members in groups.values()]


def _rules(run: Run) -> tuple[object, ...]:
    """What decides a score besides the model: two runs that differ here must not share a table."""
    rules = [run.settings.get("max_turns"), run.settings.get("start")]
    if not run.transcripts:
        settings = run.settings
        user = "embedded" if settings.get("user") == "embedded" else settings.get("simulator")
        return ("empty", settings.get("environment"), user, settings.get("preset"), settings.get("variant"), *map(str, rules))
    first = run.transcripts[0]
    prompts = tuple(sorted(first.prompts.items()))
    return (first.environment, first.simulator, first.preset, first.variant, prompts, *map(str, rules))


def _together(runs: list[Run]) -> Measurement:
    settings = dict(runs[0].settings)
    if len(runs) > 1:
        for key in ("models", "scenarios"):
            settings[key] = _union(run.settings.get(key) for run in runs)
        # the repeats of a union cannot be told from the files, so nothing is called unfinished
        settings["repeats"] = None
    return Measurement(tuple(runs), settings, tuple(t for run in runs for t in latest(run.transcripts)))


def _union(lists: Iterable[object]) -> list[Any]:
    merged: list[Any] = []
    for entries in lists:
        if isinstance(entries, (list, tuple, dict)):
            merged += [entry for entry in entries if entry not in merged]
    return merged
