"""Files of weights: the same content for the same model, and a hash that stays the same between versions."""

from __future__ import annotations

import hashlib
import io

import numpy as np

from heartloop.environments.perm.users import RESONATION
from heartloop.reader.model import SHIPPED, CombinedModel, digest
from heartloop.reader.reader import EMBEDDED_WEIGHTS


def content(archive: bytes) -> dict[str, object]:
    """The arrays of an archive, and of one within it: the bytes around them differ between versions of Python."""
    with np.load(io.BytesIO(archive)) as opened:
        arrays = {name: opened[name] for name in opened.files}
    return {
        name: content(array.tobytes()) if array.tobytes()[:2] == b"PK" else (str(array.dtype), array.shape, array.tobytes())
        for name, array in arrays.items()
    }


def test_the_shipped_files_are_what_their_models_write() -> None:
    assert content(CombinedModel.load(EMBEDDED_WEIGHTS).to_bytes()) == content(EMBEDDED_WEIGHTS.read_bytes())
    assert content(RESONATION.model.to_bytes(SHIPPED)) == content(RESONATION.weights.read_bytes())


def test_the_hash_is_of_the_json_and_then_of_the_arrays() -> None:
    """Runs are told apart by it: weights that did not change keep theirs."""
    array = np.array([[1, 2], [3, 4]], np.int8)
    whole = hashlib.sha256(b'["one", {"a": 1, "b": 2}]' + bytes([1, 2, 3, 4]))
    assert digest(["one", {"b": 2, "a": 1}], [array]) == whole.hexdigest()[:12]
    assert digest(["one", {"b": 2, "a": 1}], [array.T]) != whole.hexdigest()[:12]
