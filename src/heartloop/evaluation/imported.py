"""A run directory for dialogues that were played elsewhere.

Covers settings worked out from the transcripts, the directory written whole, and the people out of its raw lines. Does not
cover reading foreign files (`heartloop.authoring`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.released import FORM, ReleasedProfile, ReleasedScenario
from heartloop.evaluation.run_directory import RunDirectory
from heartloop.evaluation.settings import EvaluationSettings

__all__ = ["RAW", "keep_run", "people_of", "settings_of"]

RAW = "raw.jsonl"
"""The foreign lines, byte for byte: line n is what transcript n was made of."""


def settings_of(transcripts: Sequence[Transcript], *, scenario_set: str) -> EvaluationSettings:
    """What a run with these dialogues would have been asked for. A scenario met with two texts keeps the first's fingerprint.

    Raises:
        UseError: no transcript.
    """
    if not transcripts:
        raise UseError("no dialogue to keep; expected at least one")
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


def keep_run(
    path: Path,
    transcripts: Sequence[Transcript],
    *,
    scenario_set: str,
    raw: Sequence[bytes] = (),
    counts: Mapping[str, int] | None = None,
) -> None:
    """Writes `settings.json`, `transcripts.jsonl`, `log.jsonl` and, with `raw`, `raw.jsonl`.

    Raises:
        UseError: the directory exists and is not empty, or cannot be written.
    """
    settings = settings_of(transcripts, scenario_set=scenario_set)
    if path.is_dir() and any(path.iterdir()):
        raise UseError(f"{path} is not empty; choose another --out, or remove it")
    with RunDirectory(path, settings) as directory:
        if raw:
            try:
                (path / RAW).write_bytes(b"".join(line + b"\n" for line in raw))
            except OSError as error:
                raise UseError(f"cannot write {path / RAW}: {error.strerror}; choose another --out") from error
        for transcript in transcripts:
            directory.append(transcript)
        directory.note(imported=datetime.now(UTC).isoformat(timespec="seconds"), **dict(counts or {}))


def people_of(run: Path, transcripts: Iterable[Transcript]) -> list[ReleasedScenario]:
    """The person of each imported dialogue, in order, as `raw.jsonl` tells them.

    Raises:
        InputError: the file is missing or does not fit the transcripts; names file and line.
    """
    path = run / RAW
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; import the logs again (heartloop import sage-logs)") from error
    found: list[ReleasedScenario] = []
    for number, transcript in enumerate(transcripts, start=1):
        try:
            log = json.loads(lines[number - 1])
            profile = ReleasedProfile(
                id=log["id"], player=log["player"], scene=log["scene"], main_cha=log.get("character", ""), cha_group=(),
                task=log.get("task", ""), first_talk=log["history"][0]["content"],
            )  # fmt: skip
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number}: not the dialogue with {transcript.scenario}; import the logs again "
                "(heartloop import sage-logs)"
            ) from error
        found.append(ReleasedScenario(form=FORM, source=RAW, record=profile))
    return found
