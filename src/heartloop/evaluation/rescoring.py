"""A run computed anew from its stored transcripts: by another preset, with other bounds of success and failure.

Covers the new run directory, which names its source. Does not cover how one dialogue is computed
(`environments.sage.rescore`) or the score card (`heartloop.analysis`). Calls no model and leaves the source as it is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from heartloop.dialogue import Transcript, read_transcripts, write_line
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
        UseError: nothing to change was asked for, an unknown preset, bounds that do not fit, a run that was rescored
            itself, or an `out` that is not empty.
        InputError: a directory that is no run, or a file of it that does not fit.
    """
    if preset is None and success_at is None and failure_below is None:
        raise UseError("nothing to compute anew; give --preset, --success-at or --failure-below")
    if preset is not None and preset not in PRESETS:
        raise UseError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
    bounds = {"success_at": success_at, "failure_below": failure_below}
    summarise(  # refuses bounds that do not fit
        [],
        success_at=SUCCESS_AT if success_at is None else success_at,
        failure_below=FAILURE_BELOW if failure_below is None else failure_below,
    )
    settings = saved_settings(run)
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
    played = list({dialogue.key: dialogue for dialogue in read_transcripts(stored)}.values())
    limit = settings.get("max_turns")
    if preset is not None and not isinstance(limit, int):
        raise InputError(f"{run / 'settings.json'}, max_turns: {limit!r}; expected the turn limit the dialogues were played with")
    done = (
        [rescored(d, preset=preset, max_turns=limit) for d in played] if preset is not None and isinstance(limit, int) else played
    )
    presets = sorted({d.preset for d in played}) or [str(settings.get("preset"))]
    source = {"from": str(run), "preset": " and ".join(presets), "transcripts": hashlib.sha256(stored.read_bytes()).hexdigest()}
    more = {name: value for name, value in bounds.items() if value is not None}
    _write(out, run, {**settings, **({"preset": preset} if preset else {}), **more, "rescored": source}, done)
    return _told(out, played, done)


def _write(out: Path, run: Path, settings: dict[str, object], dialogues: list[Transcript]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "transcripts.jsonl").write_bytes("".join(map(write_line, dialogues)).encode())
        (out / "settings.json").write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if (run / "log.jsonl").is_file():
            shutil.copyfile(run / "log.jsonl", out / "log.jsonl")
    except OSError as error:
        raise UseError(f"cannot write to {out}: {error.strerror}; choose another --out") from error


def _told(out: Path, played: list[Transcript], done: list[Transcript]) -> Rescored:
    both = list(zip(played, done, strict=True))
    return Rescored(
        path=out,
        dialogues=len(done),
        changed=sum(a.score != b.score for a, b in both if a.scored and b.scored),
        unscored=dict(Counter(b.failure.kind for _, b in both if b.failure and b.failure.role == RESCORING)),
        gained=sum(not a.scored and b.scored for a, b in both),
        asked_again=sum(b.scored and a.preset != b.preset and b.preset == "released" and out_of_range(b) for a, b in both),
    )
