"""A run computed anew from its stored transcripts: by another preset, with other bounds of success and failure.

Covers the new run directory, which names its source. Does not cover how one dialogue is computed
(`environments.sage.rescore`) or the score card (`heartloop.analysis`). Calls no model and leaves the source as it is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from heartloop.dialogue import Transcript, stored_transcripts, write_line
from heartloop.environments.sage.environment import PRESETS
from heartloop.environments.sage.rescore import RESCORING, out_of_range, rescored
from heartloop.errors import InputError, UseError
from heartloop.evaluation.run_directory import check_new, saved_settings
from heartloop.scoring.emotion import FAILURE_BELOW, SUCCESS_AT, summarise

__all__ = ["Rescored", "rescore_run"]


class Rescored(NamedTuple):
    """What came of it."""

    path: Path
    dialogues: int
    changed: int
    """Scores that are other than before, the newly unscored left aside."""
    unscored: dict[str, int]
    """Dialogues that the stored transcripts cannot score, by cause."""
    gained: int
    """Dialogues scored now that were not before."""
    asked_again: int
    """Dialogues now under `released` in which a change outside ±10 had been asked again instead of clamped."""

    @property
    def summary(self) -> str:
        """The same in a few sentences."""
        parts = [f"{self.dialogues} dialogues computed anew, {self.changed} scores changed."]
        if self.gained:
            parts.append(f"{self.gained} are scored now that were not.")
        if self.asked_again:
            parts.append(
                f"In {self.asked_again} a change outside ±10 was asked again; the later answer stands, "
                "where released would have clamped the first."
            )
        for cause, n in self.unscored.items():
            parts.append(f"{n} became unscored: {cause}.")
        if "not judged" in self.unscored:
            parts.append("Their last replies were never judged: `heartloop rejudge --preset corrected` asks a judge for it.")
        return " ".join(parts)


def rescore_run(
    run: Path,
    out: Path | None = None,
    *,
    preset: str | None = None,
    success_at: float | None = None,
    failure_below: float | None = None,
) -> Rescored:
    """Writes `run` as another preset or other bounds compute it into `out`, by default a directory beside it.

    Raises:
        UseError: nothing to change was asked for, a run of another environment than SAGE, an unknown preset,
            bounds that do not fit, a run that was rescored itself, or an `out` that is not empty.
        InputError: a directory that is no run, or a file of it that does not fit.
    """
    if preset is None and success_at is None and failure_below is None:
        raise UseError("nothing to compute anew; give --preset, --success-at or --failure-below")
    settings = saved_settings(run)
    if settings.get("environment", "sage") != "sage":
        raise UseError(f"rescore knows SAGE; {run} is of environment {settings['environment']!r}")
    if preset is not None and preset not in PRESETS:
        raise UseError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
    bounds = {"success_at": success_at, "failure_below": failure_below}
    summarise(  # refuses bounds that do not fit
        [],
        success_at=SUCCESS_AT if success_at is None else success_at,
        failure_below=FAILURE_BELOW if failure_below is None else failure_below,
    )
    if "rescored" in settings:
        raise UseError(f"{run} was itself rescored; rescore the run that it names in its settings.json")
    if "rejudged" in settings and preset is not None:
        raise UseError(
            f"{run} was rejudged; for another preset rejudge the run that it names in its settings.json, with --preset"
        )
    beside = run if run.name not in ("", "..") else run.resolve()
    out = out if out is not None else beside.with_name(f"{beside.name}-{preset or 'recounted'}")
    check_new(out)
    stored = run / "transcripts.jsonl"
    limit = settings.get("max_turns")
    if preset is not None and not isinstance(limit, int):
        raise InputError(f"{run / 'settings.json'}, max_turns: {limit!r}; expected the turn limit the dialogues were played with")
    played = {dialogue.key: (place, dialogue.preset) for place, dialogue in stored_transcripts(stored)}  # the last written
    presets = sorted({was for _, was in played.values()}) or [str(settings.get("preset"))]

    def pairs() -> Iterator[tuple[Transcript, Transcript]]:
        """Every dialogue as it was and as it is now, one at a time: all of them may not fit into memory."""
        for place, _ in played.values():
            dialogue = place.read()
            if preset is None or not isinstance(limit, int):
                yield dialogue, dialogue
            else:
                yield dialogue, rescored(dialogue, preset=preset, max_turns=limit)

    source = {"from": str(run), "preset": " and ".join(presets), "transcripts": _sha256(stored)}
    more = {name: value for name, value in bounds.items() if value is not None}
    told = _Told()
    _write(out, run, {**settings, **({"preset": preset} if preset else {}), **more, "rescored": source}, map(told.count, pairs()))
    return told.of(out)


def _write(out: Path, run: Path, settings: dict[str, object], dialogues: Iterable[Transcript]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "transcripts.jsonl").open("wb") as file:
            for dialogue in dialogues:
                file.write(write_line(dialogue).encode())
        (out / "settings.json").write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if (run / "log.jsonl").is_file():
            shutil.copyfile(run / "log.jsonl", out / "log.jsonl")
    except OSError as error:
        raise UseError(f"cannot write to {out}: {error.strerror}; choose another --out") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Told:
    """Counts what came of each dialogue."""

    def __init__(self) -> None:
        self.dialogues = self.changed = self.gained = self.asked_again = 0
        self.unscored: Counter[str] = Counter()

    def count(self, pair: tuple[Transcript, Transcript]) -> Transcript:
        """Counts one dialogue, as it was and as it is now; gives back the latter."""
        was, now = pair
        self.dialogues += 1
        self.changed += was.scored and now.scored and was.score != now.score
        self.gained += not was.scored and now.scored
        self.asked_again += now.scored and was.preset != now.preset and now.preset == "released" and out_of_range(now)
        if now.failure and now.failure.role == RESCORING:
            self.unscored[now.failure.kind] += 1
        return now

    def of(self, out: Path) -> Rescored:
        """The counts."""
        return Rescored(out, self.dialogues, self.changed, dict(self.unscored), self.gained, self.asked_again)
