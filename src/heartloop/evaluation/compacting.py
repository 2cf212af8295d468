"""A run's JSON lines written as Parquet. `compacted.json` is replaced last: before that, and without it, the JSON lines count."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from heartloop.core.errors import InputError
from heartloop.core.system import replacing, reported
from heartloop.core.text import amount
from heartloop.evaluation.digests import Place
from heartloop.evaluation.parquet import INDEX, Compacted, parquet_lines, write_parts
from heartloop.evaluation.store import compacted_in, json_lines, locked, new_lines, saved_settings

_FOLDER = re.compile(r"dialogues-(\d+)(?:\.part)?")


def compact_run(run: Path) -> str:
    """Writes the dialogues that are in JSON lines as further Parquet files, removes the JSON lines, and says what it did."""
    if isinstance(saved_settings(run).get("recipe"), dict):
        raise InputError(f"{run} is a training run; expected the run directory of an evaluation")
    lock = locked(run, "wait for it, then compact")
    try:
        with reported(f"write to {run}", "every dialogue is kept as it was; free some space, then rerun the command"):
            return _compact(run)
    finally:
        lock.release()


def _compact(run: Path) -> str:
    before = compacted_in(run, files := json_lines(run))
    _remove_unnamed(run)
    covered = dict(before.covered)
    dialogues = size = 0
    written = hashlib.sha256()

    def lines() -> Iterator[tuple[Place, bytes]]:
        nonlocal dialogues, size
        for place, line in new_lines(run, files, before):
            yield place, line
            dialogues, size = dialogues + 1, size + len(line)
            written.update(line)
            covered[place.path.relative_to(run).as_posix()] = place.start + len(line)

    folder = run / f"dialogues-{1 + max((int(part.split('/')[0].split('-')[1]) for part in before.parts), default=0):04}"
    try:
        with replacing(folder) as unfinished:
            unfinished.mkdir()
            write_parts(unfinished, lines())
            parts = sorted(unfinished.iterdir())
            read = hashlib.sha256()
            for part in parts:
                for _, line in parquet_lines(part):
                    read.update(line)
            if read.digest() != written.digest():
                raise OSError(None, "what was written reads otherwise")
            taken = sum(part.stat().st_size for part in parts)
        names = [f"{folder.name}/{part.name}" for part in parts]
        if dialogues:
            with replacing(run / INDEX) as index, index.open("w", encoding="utf-8") as file:
                file.write(Compacted(parts=(*before.parts, *names), covered=covered).model_dump_json(indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
    finally:
        _remove_unnamed(run)
    after = Compacted.of(run)
    for path in files:
        name = path.relative_to(run).as_posix()
        if name in after.covered and not any(new_lines(run, [path], after)):
            path.unlink()
    with contextlib.suppress(OSError):  # not empty, or never there
        (run / "transcripts").rmdir()
    if not dialogues:
        return f"{run} has no new dialogue to compact."
    return f"{run}: {amount(dialogues, 'dialogue')} compacted, {size / 1e6:,.2f} MB of JSON lines into {taken / 1e6:,.2f} MB."


def _remove_unnamed(run: Path) -> None:
    """Removes the folders of compactions that did not finish."""
    named = {part.split("/")[0] for part in Compacted.of(run).parts}
    for path in run.iterdir():
        if _FOLDER.fullmatch(path.name) and path.name not in named:
            shutil.rmtree(path)
