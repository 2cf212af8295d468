"""Files of fitted weights: NPZ archives with a head in JSON.

Covers writing, reading with one set of errors, and the hash. What the head and the arrays mean is in `linear` and `combined`.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from heartloop.core.errors import InputError

__all__ = ["Form", "Head", "Rows", "digest", "opened", "packed"]

Head: TypeAlias = dict[str, Any]
Rows: TypeAlias = Mapping[str, NDArray[Any]]


class Form(NamedTuple):
    """A form of archive. A file of another form is refused."""

    origin: str
    """What writes such files, for errors."""
    fixed: Mapping[str, Any]
    """Entries that the head of every file of the form has: `format`, and the names of the features that the weights belong to."""


def packed(form: Form, head: Mapping[str, Any], arrays: Rows) -> bytes:
    """The file: the same bytes for the same head and arrays."""
    text = json.dumps({**form.fixed, **head}, sort_keys=True)
    file = io.BytesIO()
    named: dict[str, Any] = {"head": np.frombuffer(text.encode(), np.uint8), **arrays}
    np.savez_compressed(file, **named)
    return file.getvalue()


@contextmanager
def opened(form: Form, path: Path, within: bytes | None = None) -> Iterator[tuple[Head, Rows]]:
    """Head and arrays of a file that `packed` made.

    Args:
        within: the content of a file that lies within that of the path, which errors name.

    Raises:
        InputError: no such file, another form, or an entry or array that the body of the `with` statement does not find.
    """
    try:
        content = path.read_bytes() if within is None else within
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(arrays.pop("head").tobytes())
        for name, value in json.loads(json.dumps(form.fixed)).items():
            if head.get(name) != value:
                other = f"format {head.get(name)}; expected {value}," if name == "format" else f"other {name} than this version,"
                raise InputError(f"{path} has {other} as {form.origin} writes: make it again")
        yield head, arrays
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, BadZipFile, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such archive of weights"
        raise InputError(f"cannot read {path}: {reason}; expected a file that {form.origin} wrote") from None


def digest(head: Any, arrays: Iterable[NDArray[Any]]) -> str:
    """First 12 hex digits of the SHA-256 of a value in JSON and of arrays."""
    content = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:12]
