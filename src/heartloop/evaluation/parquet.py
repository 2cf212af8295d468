"""Dialogues of a run as Parquet: `compacted.json` names the files, and the JSON lines that they hold.

A file has the exact JSON line of each dialogue (`transcript`), its digest, and columns for people who read it with other tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heartloop.core.dialogue import STORED, Transcript, first_problem, parsed, total_usage
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import install_command, readable
from heartloop.environments.registry import is_shipped
from heartloop.evaluation.digests import DIGEST_VERSION, Digest, Place, digest_of, packed, unpacked

INDEX = "compacted.json"
PART = 5_120
"""Dialogues of a file."""
GROUP = 128
"""Dialogues of a row group, which is read whole: about 2 MB."""
_KEPT_GROUPS = 64
_SAME = ("environment", "model", "scenario", "fingerprint", "preset", "variant", "user", "stop")
_TYPES = {
    **dict.fromkeys(_SAME, "string"),
    **dict.fromkeys(("repeat", "seed", "turns", "prompt_tokens", "completion_tokens"), "int64"),
    "scored": "bool_",
    **dict.fromkeys(("score", "points", "seconds"), "float64"),
    **dict.fromkeys(("digest", "transcript"), "string"),
}


class Compacted(BaseModel):
    """Content of `compacted.json`. Parts that it does not name are of a compaction that was killed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parts: tuple[Annotated[str, Field(pattern=r"^dialogues-\d{4,}/part-\d{5,}\.parquet$")], ...] = ()
    covered: Mapping[str, int] = {}
    """By JSON-lines file the number of its first bytes that the parts hold; sessions after it use other files."""

    @classmethod
    def of(cls, run: Path) -> Compacted:
        path = run / INDEX
        if not path.is_file():
            return cls()
        try:
            with readable(path, "what heartloop compact writes"):
                return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(f"{path}, {first_problem(error)}; expected what heartloop compact writes") from error


class TranscriptRow(NamedTuple):
    """A transcript's place on disk: a row of a Parquet file."""

    path: Path
    group: int
    row: int

    def __str__(self) -> str:
        return f"{self.path}, row {self.row} of group {self.group}"

    def read(self) -> Transcript:
        with readable(self.path, STORED):
            written = self.path.stat().st_mtime_ns
        return parsed(_group(self.path, written, self.group)[self.row].as_py(), self)


@lru_cache(_KEPT_GROUPS)
def _group(path: Path, written: int, group: int) -> Any:
    with _opened(path) as file:
        return _column(file, group, "transcript")


def parquet_lines(path: Path) -> Iterator[tuple[TranscriptRow, bytes]]:
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            for row, line in enumerate(_column(file, group, "transcript")):
                yield TranscriptRow(path, group, row), line.as_py() + b"\n"


def parquet_digests(path: Path) -> Iterator[Digest]:
    """Every digest, from the dialogue if heartloop or its environment may have another version than when it was stored."""
    with _opened(path) as file:
        same = (file.schema_arrow.metadata or {}).get(b"digest") == DIGEST_VERSION.encode()
        for group in range(file.num_row_groups):
            known = same and is_shipped(_column(file, group, "environment")[0].as_py().decode())
            for row, value in enumerate(_column(file, group, "digest" if known else "transcript")):
                place = TranscriptRow(path, group, row)
                yield unpacked(value.as_py(), place) if known else digest_of(parsed(value.as_py(), place), place)


def write_parts(folder: Path, lines: Iterable[tuple[Place, bytes]]) -> None:
    """Writes JSON lines as Parquet files of a folder, on the disk when this returns."""
    pyarrow = _pyarrow(folder)
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in _TYPES.items()])
    schema = schema.with_metadata({"digest": DIGEST_VERSION})
    short = [name for name in _TYPES if name not in ("digest", "transcript")]
    how = {"compression": "zstd", "use_dictionary": short, "write_statistics": short}
    source = iter(lines)
    for number in count():
        part = islice(source, PART)
        if not (group := list(islice(part, GROUP))):
            return
        path = folder / f"part-{number:05}.parquet"
        with pyarrow.parquet.ParquetWriter(path, schema, **how) as writer:
            while group:
                writer.write_table(pyarrow.Table.from_pylist([_row(*one) for one in group], schema))
                group = list(islice(part, GROUP))
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def _row(place: Place, line: bytes) -> dict[str, Any]:
    dialogue = parsed(line, place)
    digest, tokens = digest_of(dialogue), total_usage(dialogue.usage.values())
    return {
        **{name: getattr(dialogue, name) for name in (*_SAME, "scored", "score", "seconds")},
        **{name: n if abs(n := getattr(dialogue, name)) < 1 << 63 else None for name in ("repeat", "seed")},
        "turns": len(dialogue.turns),
        "points": digest.points,
        "prompt_tokens": tokens.prompt_tokens,
        "completion_tokens": tokens.completion_tokens,
        "digest": packed(digest),
        "transcript": line.removesuffix(b"\n"),
    }


def _column(file: Any, group: int, name: str) -> Any:
    return file.read_row_group(group, columns=[name]).column(0).cast("binary")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pyarrow = _pyarrow(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}; expected a file that heartloop compact wrote") from error


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UseError(f"{path} needs pyarrow, which is not installed: {install_command('parquet')}") from error
    return pyarrow
