"""Fitting the embedded user: folds that hide what they predict, thresholds, and weights with bounded signs."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from heartloop.environments.reading import LearnedReading
from heartloop.fitting import fits as network
from heartloop.fitting.data import JudgedReply
from heartloop.fitting.embedded import change_of, fit_effect, fit_reader, folds, readings
from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.features import Context
from heartloop.reader.model import WIDTH, CombinedModel, Network, starting_vectors
from heartloop.reader.reader import EMBEDDED_WEIGHTS, MEMBERS, Output
from heartloop.reader.word_vectors import Tokens, WordTable

WORDS = ("fine", "hello", "rot")
TABLE = WordTable(WORDS, np.random.default_rng(0).integers(-127, 128, (3, 128)).astype(np.int8), np.ones(3, np.float16))
VOICES, TIERS = ("plain", "warm", "odd"), ("good", "middling", "poor", "harmful")


def examples(count: int = 240) -> list[JudgedReply]:
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
            JudgedReply(
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
    model, held_out = fit_reader(rows, labels, TABLE, networks=0)
    assert model.linear.outputs == (*ASPECTS, *(f"change-{n}" for n in range(MEMBERS)), *STRATEGIES)
    good, bad = (model.predict(text, Context(("Hello.",))) for text in ("fine fine fine fine word1", "rot rot rot word1"))
    place = {name: model.linear.outputs.index(name) for name in ("understanding", "hostility", "A-1", "F-4")}
    assert good[place["understanding"]] > bad[place["understanding"]] + 1
    assert bad[place["hostility"]] > good[place["hostility"]] + 1
    assert good[place["A-1"]] > bad[place["A-1"]]
    assert model.linear.card["silence"] == rows[7].aspects.tolist()
    table = fit_effect(rows, held_out, LearnedReading("none", lambda *_: Context(()), (Output("emotion", -10.0, 10.0),)))
    assert set(table["groups"]) == {"group0", "group1"}
    assert table["agreement"]["emotion"]["r"] > 0.8
    for group in table["groups"].values():
        assert group["weights"]["emotion"]["understanding"] > 0 >= group["weights"]["emotion"]["hostility"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EPOCHS", 2)
    rows = examples(60)
    labels = {row.id: ("A-1",) for row in rows[:30]}
    first, again, other = (fit_reader(rows, labels, TABLE, 1, processes, seed) for processes, seed in ((1, 0), (2, 0), (1, 1)))
    np.testing.assert_array_equal(first[1], again[1])
    assert np.isfinite(first[1]).all()
    assert first[0].hash == again[0].hash != other[0].hash


def test_a_network_learns_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    ids = [draw.integers(0, 9, int(length)) for length in draw.integers(1, 12, 300)]
    marked = np.array([[3.0 if 4 in row else 1.0] for row in ids])
    tokens = [Tokens(row, np.zeros((len(row), 2), np.float32), np.zeros(0, np.float32)) for row in ids]
    start = starting_vectors(draw.normal(size=(9, WIDTH)).astype(np.float32))
    fitted = network.fit_network(tokens, np.zeros((300, 3), np.float32), marked, np.ones(1), start, 8, 0).wide()
    vectors = start + fitted.moves * fitted.size
    predicted = [fitted.apply(vectors[row], np.zeros((len(row), 2), np.float32), np.zeros(3, np.float32))[0] for row in ids]
    assert np.corrcoef(predicted, marked[:, 0])[0, 1] > 0.8


def test_the_gradient_is_that_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_CHANNELS", 5), ("_HIDDEN", 4), ("_DROPOUT", 0.0), ("_UNKNOWN", 0.0)):
        monkeypatch.setattr(network, name, value)
    draw = np.random.default_rng(0)
    layers = network._initial(draw.normal(size=(9, 3)).astype(np.float32), 2, 3, 2, draw)
    ids = [draw.integers(0, 9, length) for length in (1, 4, 2, 6)]
    features = [draw.normal(size=(len(row), 2)).astype(np.float32) for row in ids]
    dense, goals = draw.normal(size=(4, 3)).astype(np.float32), draw.normal(size=(4, 2)).astype(np.float32)
    importance = np.array([0.5, 1.5], np.float32)
    gradient = network._gradient(layers, network._packed(ids, features, dense), goals, importance, 0, draw)

    def loss() -> float:
        applied = Network(np.zeros((9, 3), np.int8), np.zeros((), np.float32), *layers[1:])
        rows = zip(ids, features, dense, strict=True)
        errors = np.array([applied.apply(layers[0][row], some, counts) for row, some, counts in rows]) - goals
        return float((errors.astype(np.float64) ** 2 * importance).sum() / len(goals))

    for layer, slopes in zip(layers, gradient, strict=True):
        close = []
        for _ in range(20):
            place = tuple(int(draw.integers(0, size)) for size in layer.shape)
            before, step = float(layer[place]), 2e-3
            layer[place] = before + step
            above = loss()
            layer[place] = before - step
            below = loss()
            layer[place] = before
            close.append(abs((above - below) / (2 * step) - float(slopes[place])) < 2e-3)
        assert np.mean(close) >= 0.9  # all but where a step changes which token is the highest


def test_what_ships_fits_what_the_environments_declare() -> None:
    assert CombinedModel.load(EMBEDDED_WEIGHTS).linear.card["examples"] > 5_000
    for name, reading in readings().items():
        table = json.loads((resources.files(reading.package) / "effect.json").read_text(encoding="utf-8"))
        assert [Output(**row) for row in table["outputs"]] == list(reading.outputs), name
