"""`heartloop scenarios stats`: EIBench Table 3 for any file, next to what was printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heartloop.authoring.spread import spread_of
from heartloop.environments.eibench.composer import SCENARIOS, load_set
from tests.commands import heartloop
from tests.released_eibench import record, released


def test_means_and_deviations_worked_by_hand() -> None:
    of_defense = [released(n, initial_anger=anger, target_trust=trust) for n, (anger, trust) in enumerate([(70, 40), (80, 60)])]
    spread = spread_of(SCENARIOS, [*of_defense, released(2, scene_tag="repair", initial_anger=60)])
    assert spread.groups == {"defense": 2, "repair": 1, "all": 3}
    assert spread.numbers["defense"]["start a"] == pytest.approx((75, 7.0711), abs=1e-4)  # 5 each side: sqrt(50 / 1)
    assert spread.numbers["defense"]["success t"] == pytest.approx((50, 14.1421), abs=1e-4)  # 10 each side: sqrt(200)
    assert spread.numbers["defense"]["fail t"] == (0, 0)
    assert spread.numbers["repair"]["start a"] == (60, 0)
    assert spread.numbers["all"]["start a"] == (70, 10)  # 70, 80, 60: sqrt(200 / 2)
    assert spread.counts == {}, "released records do not hold their seed"


def test_a_users_own_file_is_printed_above_the_table_of_the_paper(tmp_path: Path) -> None:
    records = [record(n, initial_anger=anger) for n, anger in enumerate((70, 80))]
    (tmp_path / "train.json").write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    assert heartloop("import", "eibench-scenarios", "train.json", "--out", "mine.jsonl", cwd=tmp_path).code == 0
    done = heartloop("scenarios", "stats", "mine.jsonl", cwd=tmp_path)
    assert done.code == 0, done
    title, head, ours, theirs = done.out.splitlines()
    assert title.startswith("mine.jsonl: 2 scenarios")
    assert head.split() == ["n", "start", "a", "start", "t", "success", "a", "success", "t", "fail", "a", "fail", "t"]
    assert ours.split("  ")[0] == "defense"
    assert "75 ± 7" in ours
    assert [cell.strip() for cell in theirs.strip().split("  ") if cell][2:] == [
        "75 ± 14", "16 ± 11", "30 ± 7", "46 ± 7", "97 ± 6", "0 ± 2",
    ]  # fmt: skip
    assert theirs.split()[:2] == ["published", "496/64"]


def test_the_composed_training_set_lies_near_table_3() -> None:
    """Means within 3 and deviations within 5 of the published: the composer draws where the authors' writer answers."""
    spread = spread_of(SCENARIOS, load_set("train"))
    for scene, printed in SCENARIOS.printed().items():
        assert spread.groups[scene] == int(printed["n"].split("/")[0])
        for name, (mean, deviation) in spread.numbers[scene].items():
            theirs = [float(number) for number in printed[name].split(" ± ")]
            assert abs(mean - theirs[0]) <= 3, (scene, name)
            assert abs(deviation - theirs[1]) <= 5, (scene, name)


def test_other_environments_give_counts_by_group(tmp_path: Path) -> None:
    done = heartloop("scenarios", "stats", "chat", cwd=tmp_path)
    assert (done.code, done.out.splitlines()[1:]) == (0, ["           n", "interest  20", "passive   20", "all       40"])
