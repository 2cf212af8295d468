"""A run computed anew from its stored transcripts: by another preset, other bounds of success and failure, another weight,
other parts.

Covers the new run directory, which names its source. Does not cover how one dialogue is computed (the environments' own
`rescore`) or the score card (`heartloop.report`). Calls no model and leaves the source as it is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.dialogue import Transcript, stored_transcripts, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.wording import amount
from heartloop.environments.catalogue import Entry, entry_of
from heartloop.environments.sage.scoring import FAILURE_BELOW, SUCCESS_AT, summarise
from heartloop.environments.stored import RESCORING
from heartloop.evaluation.run_directory import check_new, saved_settings

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
    copied: bool = False
    """Whether nothing is other than before: every dialogue was played by these rules."""

    @property
    def summary(self) -> str:
        """The same in a few sentences."""
        parts = [f"{amount(self.dialogues, 'dialogue')} computed anew, {amount(self.changed, 'score')} changed."]
        if self.copied:
            parts.append("Nothing changes: the run was played by these rules already, and the new one is its copy.")
        if self.gained:
            parts.append(f"{self.gained} {'is scored now that was' if self.gained == 1 else 'are scored now that were'} not.")
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
    relation_weight: float | None = None,
    bystander_weight: float | None = None,
    without: Sequence[str] | None = None,
) -> Rescored:
    """Writes `run` as another preset, bounds, weight or parts compute it into `out`, by default a directory beside it.

    Raises:
        UseError: nothing to change was asked for, an unknown preset, bounds or a weight that the environment does not have,
            bounds or parts that do not fit, a run that was rescored itself, or an `out` that is not empty.
        InputError: a directory that is no run, a file of it that does not fit, or a weight outside [0, 1].
    """
    asked: dict[str, Any] = {
        "preset": preset, "relation_weight": relation_weight, "bystander_weight": bystander_weight,
        "without": None if without is None else list(without),
    }  # fmt: skip
    asked = {name: value for name, value in asked.items() if value is not None}
    if not asked and success_at is None and failure_below is None:
        raise UseError(
            "nothing to compute anew; give --preset, --relation-weight, --bystander-weight, --without, --success-at or "
            "--failure-below"
        )
    settings = saved_settings(run)
    entry = entry_of(str(settings.get("environment", "sage")))
    bounds = {"success_at": success_at, "failure_below": failure_below}
    _check(entry, preset, bounds, relation_weight)
    entry.check_rules(bystander_weight, without)
    if "rescored" in settings:
        raise UseError(f"{run} was itself rescored; rescore the run that it names in its settings.json")
    if "rejudged" in settings and preset is not None:
        raise UseError(
            f"{run} was rejudged; for another preset rejudge the run that it names in its settings.json, with --preset"
        )
    out = out if out is not None else _beside(run, asked)
    check_new(out)
    stored = run / "transcripts.jsonl"
    limit = settings.get("max_turns")
    if asked and not isinstance(limit, int):
        raise InputError(f"{run / 'settings.json'}, max_turns: {limit!r}; expected the turn limit the dialogues were played with")
    played = {dialogue.key: (place, dialogue.preset) for place, dialogue in stored_transcripts(stored)}  # the last written
    presets = sorted({was for _, was in played.values()}) or [str(settings.get("preset"))]

    def pairs() -> Iterator[tuple[Transcript, Transcript]]:
        """Every dialogue as it was and as it is now, one at a time: all of them may not fit into memory."""
        for place, _ in played.values():
            dialogue = place.read()
            how = {**asked, "preset": preset or dialogue.preset}
            yield dialogue, entry.rescored(dialogue, max_turns=limit, **how) if asked else dialogue

    source: dict[str, Any] = {"from": str(run), "preset": " and ".join(presets), "transcripts": _sha256(stored)}
    source |= {name: settings.get(name) for name in asked if name != "preset"}
    more = {name: value for name, value in bounds.items() if value is not None}
    told = _Told(entry, bounded=bool(more))
    _write(out, run, {**settings, **asked, **more, "rescored": source}, map(told.count, pairs()))
    return told.of(out)


def _check(entry: Entry, preset: str | None, bounds: dict[str, float | None], relation_weight: float | None) -> None:
    """Refuses what the environment does not have, or what does not fit."""
    entry.check_preset(preset)
    entry.check_weight(relation_weight)
    given = [f"--{name.replace('_', '-')}" for name, value in bounds.items() if value is not None]
    if given and not entry.bounds:
        raise UseError(f"{' and '.join(given)} count final emotions; {entry.name} counts outcomes by bounds of its own")
    success_at, failure_below = bounds["success_at"], bounds["failure_below"]
    summarise(  # refuses bounds that do not fit
        [],
        success_at=SUCCESS_AT if success_at is None else success_at,
        failure_below=FAILURE_BELOW if failure_below is None else failure_below,
    )
    if relation_weight is not None and not 0.0 <= relation_weight <= 1.0:
        raise InputError(f"relation_weight is {relation_weight:g}; expected a number from 0 to 1")


def _beside(run: Path, asked: Mapping[str, Any]) -> Path:
    """The new run's directory where none is named."""
    here = run if run.name not in ("", "..") else run.resolve()
    weights = (f"weight-{asked[name]:g}" for name in ("relation_weight", "bystander_weight") if name in asked)
    left = f"without-{'-'.join(asked['without']) or 'nothing'}" if "without" in asked else ""
    parts = [asked.get("preset", ""), *weights, left]
    return here.with_name(f"{here.name}-{'-'.join(filter(None, parts)) or 'recounted'}")


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
    """Counts what came of each dialogue.

    Args:
        bounded: other bounds were asked for, which change no dialogue and yet the run.
    """

    def __init__(self, entry: Entry, *, bounded: bool) -> None:
        self._entry = entry
        self.copied = not bounded
        self.dialogues = self.changed = self.gained = self.asked_again = 0
        self.unscored: Counter[str] = Counter()

    def count(self, pair: tuple[Transcript, Transcript]) -> Transcript:
        """Counts one dialogue, as it was and as it is now; gives back the latter."""
        was, now = pair
        self.dialogues += 1
        self.copied = self.copied and (now is was or now == was)
        self.changed += was.scored and now.scored and was.score != now.score
        self.gained += not was.scored and now.scored
        switched = was.preset != now.preset == "released"
        self.asked_again += now.scored and switched and self._entry.asked_again(now)
        if now.failure and now.failure.role == RESCORING:
            self.unscored[now.failure.kind] += 1
        return now

    def of(self, out: Path) -> Rescored:
        """The counts."""
        copied = self.copied and self.dialogues > 0
        return Rescored(out, self.dialogues, self.changed, dict(self.unscored), self.gained, self.asked_again, copied)
