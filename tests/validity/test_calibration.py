"""Human labels that correct scores (`scoring.calibration`, suite `calibration`)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.core.errors import InputError, UseError
from heartloop.environments.suites import Material
from heartloop.scoring.calibration import calibrated_mean, labels_to_halve
from heartloop.validity.calibration import CALIBRATION, read_labels, to_label
from tests.commands import heartloop
from tests.validity.judges import play


def test_the_estimate_worked_by_hand() -> None:
    # labels 1 to 5 with scores 10 to 50; others score 60 to 100. cov(label, score) = 25, variance of all ten scores 916.67;
    # weight = 25 / ((1 + 5/5) * 916.67) = 3/220. mean(label) + weight * (80 - 30) = 3 + 150/220
    found = calibrated_mean([1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [60, 70, 80, 90, 100])
    assert found.weight == pytest.approx(3 / 220)
    assert found.powered.mean == pytest.approx(3 + 150 / 220)
    # labels alone: mean 3, variance 2.5, standard error sqrt(2.5 / 5), t(4) = 2.7764
    assert found.labels_only.high == pytest.approx(3 + 2.776445 * math.sqrt(0.5))
    # labels less weighted scores deviate by 19/22 * k, k = -2 to 2, each times 1/5 + (80 - 30) * 10 k / 1000 = (2 + 5 k) / 10:
    # (1.6, 0.3, 0, 0.7, 2.4) * 19/22, squares 8.9 * (19/22)^2. Others deviate by 3/22 * k, over 5: squares 0.4 * (3/22)^2.
    # 5/3 for the three degrees of freedom that weight and mean leave, t(3) = 3.1824
    squares = (8.9 * 19**2 + 0.4 * 3**2) / 22**2
    assert found.powered.high - found.powered.mean == pytest.approx(3.182446 * math.sqrt(5 / 3 * squares))
    assert (found.labelled, found.items) == (5, 10)


def test_scores_that_know_nothing_change_nothing() -> None:
    flat = calibrated_mean([1, 2, 3, 4], [5, 5, 5, 5], [5, 5, 5])
    assert flat.weight == 0
    assert flat.powered == flat.labels_only
    alone = calibrated_mean([1, 2, 3, 4], [1, 2, 3, 4], [])
    assert alone.powered == alone.labels_only


def test_dialogues_of_one_scenario_count_together() -> None:
    each = calibrated_mean([1, 1, 3, 3], [0, 0, 0, 0], [])
    pairs = calibrated_mean([1, 1, 3, 3], [0, 0, 0, 0], [], clusters=["a", "a", "b", "b"])
    # two clusters: half of the items each, (1 - 2) * 2/4 and (3 - 2) * 2/4; variance 2 * (0.25 + 0.25), t(1) = 12.706
    assert pairs.powered.high - 2 == pytest.approx(12.706205)
    assert each.powered.high < pairs.powered.high


@pytest.mark.parametrize("labelled", [3, 5, 10, 30])
def test_few_labels_are_covered_as_often_as_many(labelled: int) -> None:
    draw = np.random.default_rng(1)
    covered = 0
    for _ in range(800):
        truth = draw.normal(size=100)
        scores = (0.6 * truth + 0.8 * draw.normal(size=100)).tolist()
        powered = calibrated_mean(truth[:labelled].tolist(), scores[:labelled], scores[labelled:]).powered
        covered += powered.low <= 0 <= powered.high
    assert covered / 800 >= 0.935  # 0.95 less twice its deviation


@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_the_interval_covers_and_good_scores_narrow_it(noise: float) -> None:
    draw = np.random.default_rng(0)
    covered, widths, alone = 0, [], []
    for _ in range(600):
        truth = draw.normal(size=400)
        scores = (5 * truth + draw.normal(size=400) * 5 * noise + 20).tolist()
        found = calibrated_mean(truth[:40].tolist(), scores[:40], scores[40:])
        covered += found.powered.low <= 0 <= found.powered.high
        widths.append(found.powered.high - found.powered.low)
        alone.append(found.labels_only.high - found.labels_only.low)
    assert 0.925 <= covered / 600 <= 0.975
    share = np.mean(widths) / np.mean(alone)
    assert share < 0.5 if noise < 1 else 0.9 < share < 1.03


def test_labels_that_halve_the_interval() -> None:
    # scores know nothing: the width goes with t(n - 1) / sqrt(n), from 2.262/sqrt(10) = 0.715 at 10 labels; half of it lies
    # between 32 labels, 2.0395/sqrt(32) = 0.3605, and 33, 2.0369/sqrt(33) = 0.3546
    labels = [0.0, 1.0] * 5
    assert labels_to_halve(labels, [1.0] * 10, [1.0] * 90) == 33
    assert labels_to_halve(labels, [1.0] * 10, [1.0] * 5) is None


def test_wrong_use_is_named() -> None:
    with pytest.raises(UseError, match="2 labels and 1 scores"):
        calibrated_mean([1, 2], [1], [])
    with pytest.raises(UseError, match="1 scenario;"):
        calibrated_mean([1, 2], [1, 2], [], clusters=["a", "a"])


def test_labels_are_read_and_annotators_averaged(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("scenario,model,label,annotator\na,m,4,x\na,m,5,y\nb,m,,x\n", encoding="utf-8")
    assert read_labels(table) == {("m", "a", 0): 4.5}
    lines = tmp_path / "labels.jsonl"
    lines.write_text('{"model": "m", "scenario": "a", "repeat": 2, "label": 3}\n', encoding="utf-8")
    assert read_labels(lines) == {("m", "a", 2): 3.0}
    table.write_text("scenario,model,label\na,m,4\nb,m,good\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3.*'good'"):
        read_labels(table)
    table.write_text("dialogue,label\na,4\n", encoding="utf-8")
    with pytest.raises(InputError, match="model, scenario, label"):
        read_labels(table)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration")
    play(folder, "counsellor", "hostile", limit=24, turns=2)
    return folder


def test_every_dialogue_has_the_same_chance_to_be_labelled(played: Path) -> None:
    dialogues = list(read_transcripts(played / "run" / "transcripts.jsonl"))
    chosen = to_label(dialogues, 8)
    assert chosen == to_label(dialogues[::-1], 8)
    assert [one.model for one in chosen].count("heartloop/hostile") == 4
    assert len({one.key for one in chosen}) == 8
    assert to_label(dialogues, 100) == to_label(dialogues, 48)


def test_the_command_estimates_labels_and_names_the_next_to_label(played: Path) -> None:
    dialogues = list(read_transcripts(played / "run" / "transcripts.jsonl"))
    labelled = to_label(dialogues, 16)
    rows = [
        f"{one.scenario},{one.model},{1 + 4 * one.model.endswith('counsellor') - 0.1 * (i % 3)}" for i, one in enumerate(labelled)
    ]
    (played / "labels.csv").write_text("\n".join(["scenario,model,label", *rows]), encoding="utf-8")
    done = heartloop("validate", "run", "--labels", "labels.csv", "--suite", "calibration", "--out", "v", cwd=played)
    assert done.code == 0, done
    record = json.loads((played / "v" / "validity.json").read_text())["calibration"]
    counsellor, hostile = record["models"]["heartloop/counsellor"], record["models"]["heartloop/hostile"]
    assert 4.7 < counsellor["powered"]["mean"] < 5.1
    assert 0.7 < hostile["powered"]["mean"] < 1.1
    taken = {one.key for one in labelled}
    assert record["label_next"]
    assert not taken & {tuple(key) for key in record["label_next"]}
    (played / "labels.csv").write_text("scenario,model,label\nnowhere,nobody,3\n", encoding="utf-8")
    nobody = heartloop("validate", "run", "--labels", "labels.csv", "--suite", "calibration", "--out", "v", cwd=played)
    assert (nobody.code, "heartloop/counsellor" in nobody.err) == (2, True)


def test_labels_correct_the_scores_of_one_user_only(material: Material, tmp_path: Path) -> None:
    assert "--labels" in str(CALIBRATION.lacks(material))
    material = material._replace(labels=tmp_path / "labels.csv")
    assert CALIBRATION.lacks(material) is None
    other = [one.model_copy(update={"user": "lab/strict"}) for one in material.dialogues]
    assert "embedded, lab/strict" in str(CALIBRATION.lacks(material._replace(dialogues=(*material.dialogues, *other))))
