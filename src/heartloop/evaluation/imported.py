"""Run directories of imported dialogues.

Covers settings from the transcripts, writing the directory, and reading scenarios from its source lines. Does not cover reading
released files (an environment's importers).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import Imported
from heartloop.environments.registry import load_environment
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.settings import EvaluationSettings

__all__ = ["RAW", "scenarios_of", "settings_of", "write_run"]

RAW = "raw.jsonl"
"""File of the source lines, unchanged: line n is the source of transcript n."""


def settings_of(transcripts: Sequence[Transcript], *, scenario_set: str) -> EvaluationSettings:
    """The settings of a run with these dialogues; a scenario with two texts gets the fingerprint of the first.

    Raises:
        UseError: no transcript.
    """
    if not transcripts:
        raise UseError("no dialogue to write; expected at least one")
    first = transcripts[0]
    scenarios: dict[str, str] = {}
    for transcript in transcripts:
        scenarios.setdefault(transcript.scenario, transcript.fingerprint)
    spec = load_environment(first.environment)
    default = spec.read_options(spec.stored.options(first))
    options = default.model_copy(update={"max_turns": max(default.max_turns, *(len(t.turns) for t in transcripts))})
    return EvaluationSettings(
        environment=first.environment,
        models=tuple(dict.fromkeys(t.model for t in transcripts)),
        roles=dict.fromkeys(spec.role_names, first.user),
        options=options.model_dump(mode="json"),
        scenario_set=scenario_set,
        scenarios=scenarios,
        repeats=1 + max(t.repeat for t in transcripts),
    )


def write_run(path: Path, imported: Imported, *, scenario_set: str) -> None:
    """Writes `settings.json`, `transcripts.jsonl`, `log.jsonl` and, with source lines, `raw.jsonl`.

    Raises:
        UseError: no transcript, or the directory is not empty or cannot be written.
    """
    settings = settings_of(imported.transcripts, scenario_set=scenario_set)
    if path.is_dir() and any(path.iterdir()):
        raise UseError(f"{path} exists and is not empty; choose another --out, or remove it")
    with RunDirectory(path, settings) as directory:
        if imported.raw:
            try:
                (path / RAW).write_bytes(b"".join(line + b"\n" for line in imported.raw))
            except OSError as error:
                raise UseError(f"cannot write {path / RAW}: {error.strerror}; choose another --out") from error
        for transcript in imported.transcripts:
            directory.append(transcript)
        counts = {name: n for name, n in imported.counts.items() if n}
        directory.note(imported=datetime.now(UTC).isoformat(timespec="seconds"), **counts)


def scenarios_of(run: Path, transcripts: Sequence[Transcript]) -> list[Any]:
    """The scenario of each imported dialogue, in order, read from the source lines of the run.

    Raises:
        InputError: the lines are missing, do not match the transcripts, or contain no scenarios; names file and line.
    """
    path = run / RAW
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; import the source again (heartloop import)") from error
    scenarios: list[Any] = []
    for number, (transcript, line) in enumerate(zip(transcripts, [*lines, *[b""] * len(transcripts)], strict=False), start=1):
        read = load_environment(transcript.environment).scenarios.imported
        if read is None:
            raise InputError(f"{path} contains no scenarios of {transcript.environment}; pass --scenarios with a set or file")
        try:
            scenarios.append(read(line))
        except InputError as error:
            raise InputError(
                f"{path}, line {number}: not scenario {transcript.scenario} ({error}); import the source again (heartloop import)"
            ) from error
    return scenarios
