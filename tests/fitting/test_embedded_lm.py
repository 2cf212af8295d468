"""Fitting the second reader: what it learns from states, its thresholds, and states that are computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.features import Context
from heartloop.appraisal.states import WIDTH
from heartloop.fitting import embedded_lm
from heartloop.fitting.embedded_lm import fit_lm, states_of, tail_of
from tests.fitting.test_embedded import examples


def test_a_threshold_continues_the_highest_tenth() -> None:
    # the 0.9 quantile is 0.1; what lies above it is 0.9 or 2.9 higher, so 1.9 in the mean; ln(0.1 / 0.001) = 4.605
    assert tail_of(np.array([0.0] * 90 + [1.0] * 5 + [3.0] * 5)) == pytest.approx(0.1 + 1.9 * 4.605, abs=0.001)
    assert tail_of(np.zeros(10)) == 4.0


def test_it_learns_from_states_what_replies_are_worth() -> None:
    rows = examples()
    noise = np.random.default_rng(0).normal(0, 0.3, (len(rows), 12))
    understanding, hostility = (
        np.array([row.aspects[ASPECTS.index(name)] for row in rows]) for name in ("understanding", "hostility")
    )
    states = noise + np.column_stack([understanding, hostility, *[np.zeros(len(rows))] * 10])
    fitted = fit_lm(rows, states, [0.5] * len(ASPECTS), components=6)
    assert np.corrcoef(fitted.held_out[:, ASPECTS.index("understanding")], understanding)[0, 1] > 0.8
    assert fitted.model.support.shape == (len(rows), 6)
    again = fit_lm(rows, states, [0.5] * len(ASPECTS), components=6)
    assert again.model.hash == fitted.model.hash
    good, bad = (fitted.model.apply(states[n].astype(np.float32)) for n in (understanding.argmax(), understanding.argmin()))
    assert good[ASPECTS.index("understanding")] > bad[ASPECTS.index("understanding")] + 1


def test_states_are_computed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[str] = []

    class Model:
        def state(self, reply: str, context: Context) -> Any:
            read.append(reply)
            return np.full(WIDTH, len(reply), np.float32)

    monkeypatch.setattr(embedded_lm, "local_model", Model)
    rows, scratch = examples(6), tmp_path / "states.npz"
    assert states_of(rows[:4], scratch)[:, 0].tolist() == [len(row.reply) for row in rows[:4]]
    assert states_of(rows, scratch).shape == (6, WIDTH)
    assert sorted(read) == sorted(row.reply for row in rows)
