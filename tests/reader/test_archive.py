"""Files of weights: the same bytes for the same model, and a hash that stays the same between versions."""

from __future__ import annotations

import hashlib

import numpy as np

from heartloop.environments.perm.users import RESONATION
from heartloop.reader.linear import SHIPPED, digest
from heartloop.reader.model import CombinedModel
from heartloop.reader.reader import EMBEDDED_WEIGHTS


def test_the_shipped_files_are_what_their_models_write() -> None:
    assert CombinedModel.load(EMBEDDED_WEIGHTS).to_bytes() == EMBEDDED_WEIGHTS.read_bytes()
    assert RESONATION.model.to_bytes(SHIPPED) == RESONATION.weights.read_bytes()


def test_the_hash_is_of_the_json_and_then_of_the_arrays() -> None:
    """Runs are told apart by it: weights that did not change keep theirs."""
    array = np.array([[1, 2], [3, 4]], np.int8)
    whole = hashlib.sha256(b'["one", {"a": 1, "b": 2}]' + bytes([1, 2, 3, 4]))
    assert digest(["one", {"b": 2, "a": 1}], [array]) == whole.hexdigest()[:12]
    assert digest(["one", {"b": 2, "a": 1}], [array.T]) != whole.hexdigest()[:12]
