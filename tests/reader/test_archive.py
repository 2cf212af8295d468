"""Files of weights: the same content for the same model, and a hash that stays the same between versions."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from heartloop.environments.perm.users import RESONATION
from heartloop.reader.linear import SHIPPED, digest
from heartloop.reader.model import CombinedModel
from heartloop.reader.reader import EMBEDDED_WEIGHTS


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (CombinedModel.load(EMBEDDED_WEIGHTS).to_bytes(), EMBEDDED_WEIGHTS),
        (RESONATION.model.to_bytes(SHIPPED), RESONATION.weights),
    ],
    ids=["embedded", "resonation"],
)
def test_the_shipped_files_are_what_their_models_write(written: bytes, path: Path) -> None:
    """The bytes of the archive around the arrays differ between versions of Python."""
    with np.load(io.BytesIO(written)) as ours, np.load(path) as shipped:
        assert ours.files == shipped.files
        for name in ours.files:
            assert ours[name].dtype == shipped[name].dtype
            assert ours[name].tobytes() == shipped[name].tobytes(), name


def test_the_hash_is_of_the_json_and_then_of_the_arrays() -> None:
    """Runs are told apart by it: weights that did not change keep theirs."""
    array = np.array([[1, 2], [3, 4]], np.int8)
    whole = hashlib.sha256(b'["one", {"a": 1, "b": 2}]' + bytes([1, 2, 3, 4]))
    assert digest(["one", {"b": 2, "a": 1}], [array]) == whole.hexdigest()[:12]
    assert digest(["one", {"b": 2, "a": 1}], [array.T]) != whole.hexdigest()[:12]
