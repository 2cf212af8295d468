"""Fitting the embedded user: folds that hide what they predict, thresholds, and weights with bounded signs."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from heartloop.appraisal.aspects import ASPECTS, STRATEGIES
from heartloop.appraisal.effect import Output
from heartloop.appraisal.features import Context
from heartloop.appraisal.linear import LinearModel
from heartloop.appraisal.reader import EMBEDDED, MEMBERS
from heartloop.environments.reading import LearnedReading
from heartloop.fitting.embedded import change_of, fit_effect, fit_reader, folds, readings
from heartloop.fitting.examples import Example

VOICES, TIERS = ("plain", "warm", "odd"), ("good", "middling", "poor", "harmful")


def examples(count: int = 240) -> list[Example]:
    """Replies that say how good they are: the word `fine` for understanding, `rot` for hostility."""
    draw = np.random.default_rng(0)
    rows = []
    for n in range(count):
        tier = int(draw.integers(0, 4))
        understanding, hostility = 4.0 - tier, float(max(0, 2 * tier - 2))
        marks = {"understanding": understanding, "hostility": hostility}
        words = ["fine"] * (4 - tier) + ["rot"] * tier + [f"word{int(draw.integers(0, 40))}" for _ in range(4)]
        kind = "none" if n % 20 == 0 else TIERS[tier]
        rows.append(
            Example(
                f"r{n}", "sage", f"s{n % 15}", f"group{n % 2}", "attack" if kind == "none" else VOICES[n % 3], kind, "",
                "..." if n == 7 else " ".join(words), Context(("Hello.",)),
                np.array([marks.get(name, 1.0) for name in ASPECTS]), np.array([3.0 * understanding - 2.0 * hostility - 4.0]), 1,
            )
        )  # fmt: skip
    return rows


def test_nothing_is_predicted_by_a_fit_that_saw_its_scenario_or_its_voice() -> None:
    rows = examples()
    predicted = np.zeros(len(rows), int)
    for train, test in folds(rows):
        predicted += test
        for n in np.flatnonzero(test):
            assert rows[n].scenario not in {rows[m].scenario for m in np.flatnonzero(train)}
            if rows[n].tier != "none":
                assert rows[n].voice not in {rows[m].voice for m in np.flatnonzero(train)}
    assert set(predicted) == {1}


def test_a_change_as_one_number_is_a_share_of_the_range() -> None:
    outputs = (Output("a", -10.0, 10.0, better=-1), Output("level", 1.0, 5.0, neutral=2.0))
    row = examples(1)[0]._replace(change=np.array([5.0, 5.0]))
    assert change_of(row, outputs) == pytest.approx((-0.5 + 1.0) / 2)


def test_a_reader_learns_the_words_and_an_effect_learns_what_they_are_worth() -> None:
    rows = examples()
    labels = {row.id: ("A-1",) if "fine" in row.reply else ("F-4",) for row in rows[:120]}
    fitted = fit_reader(rows, labels)
    model = fitted.model
    assert model.outputs == (*ASPECTS, *(f"change-{n}" for n in range(MEMBERS)), *STRATEGIES)
    good, bad = (model.predict(text, Context(("Hello.",))) for text in ("fine fine fine fine word1", "rot rot rot word1"))
    place = {name: model.outputs.index(name) for name in ("understanding", "hostility", "A-1", "F-4")}
    assert good[place["understanding"]] > bad[place["understanding"]] + 1
    assert bad[place["hostility"]] > good[place["hostility"]] + 1
    assert good[place["A-1"]] > bad[place["A-1"]]
    assert model.card["silence"] == rows[7].aspects.tolist()
    table = fit_effect(rows, fitted.held_out, LearnedReading("none", lambda *_: Context(()), (Output("emotion", -10.0, 10.0),)))
    assert set(table["groups"]) == {"group0", "group1"}
    assert table["agreement"]["emotion"]["r"] > 0.8
    for group in table["groups"].values():
        assert group["weights"]["emotion"]["understanding"] > 0 >= group["weights"]["emotion"]["hostility"]


def test_the_file_keeps_the_weights_to_the_last_step() -> None:
    rows = examples(60)
    model = fit_reader(rows, {row.id: ("A-1",) for row in rows[:30]}).model
    text = "fine fine rot word3"
    assert np.array_equal(model.predict(text, Context(())), model.rounded().predict(text, Context(())))


def test_what_ships_fits_what_the_environments_declare() -> None:
    assert LinearModel.load(EMBEDDED).card["examples"] > 5_000
    for name, reading in readings().items():
        table = json.loads((resources.files(reading.package) / "effect.json").read_text(encoding="utf-8"))
        assert [Output(**row) for row in table["outputs"]] == list(reading.outputs), name
