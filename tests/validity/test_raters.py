"""Raters, the user simulator and judges (RLVER, Appendix E, Tables 6 and 7)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.errors import InputError
from heartloop.environments.report import published
from heartloop.environments.suites import Material
from heartloop.validity.calibration import CALIBRATION
from heartloop.validity.capabilities import load_capabilities
from heartloop.validity.raters import PUBLISHED, RATERS, RHO, with_people
from heartloop.validity.suites import dialogue_key
from tests.commands import heartloop

PACKAGE = "heartloop.environments.sage"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def directions(material: Material) -> list[tuple[tuple[str, str, int, int], float]]:
    """The replies of the first scenario with the simulator's change."""
    return [
        ((*one.key, turn.index), turn.change["emotion"])
        for one in material.dialogues
        if one.scenario == material.dialogues[0].scenario
        for turn in one.turns
        if turn.change is not None
    ]


def test_one_reply_by_hand() -> None:
    """Up against up, up, none, down: two of four agree, up leads, and of six pairs one is equal."""
    assert with_people(1, [1, 1, 0, -1]) == (0.5, 1.0, 1 / 6)
    assert with_people(-1, [1, 1, -1, -1]) == (0.5, None, 2 / 6)  # two up, two down: no majority
    assert with_people(1, [1]) == (1.0, 1.0, None)  # one rater agrees with nobody


def test_the_five_numbers_of_table_6(counsellor: Material, tmp_path: Path) -> None:
    """Two raters say as the simulator, the third always down, on replies of one scenario; two of three find it reasonable."""
    replies, rows = directions(counsellor), []
    for (model, scenario, repeat, turn), change in replies:
        own = "up" if change > 0 else "down" if change < 0 else "none"
        for rater, says, reasonable in (("a", own, "yes"), ("b", own, "yes"), ("c", "down", "no")):
            row = {"model": model, "scenario": scenario, "repeat": repeat, "turn": turn, "rater": rater}
            rows.append({**row, "direction": says, "reasonable": reasonable})
    falls = sum(change < 0 for _, change in replies)
    material = counsellor._replace(labels=write(tmp_path / "labels.csv", rows))
    assert RATERS.lacks(material) is None
    assert "raters" in (CALIBRATION.lacks(material) or "")
    record = RATERS.result(material, {}).record
    n = len(replies)
    expected = {
        "consistency": 100 * (3 * falls + 2 * (n - falls)) / (3 * n),
        "majority": 100,
        "agreement": 100 * (falls + (n - falls) / 3) / n,
        "reasonable": 200 / 3,
        "agreement on reasonable": 100 / 3,
    }
    assert {name: record[name]["mean"] for name in expected} == pytest.approx(expected)


def test_win_rates_and_levels_of_table_7_agree_as_printed(material: Material, tmp_path: Path) -> None:
    """The printed win rates as comparisons and the printed levels as a judge's answers: rho 0.899, p 5.2e-6."""
    models = dict(zip(("Qwen2.5-7B-Instruct", "PPO-thinking", "PPO-non-thinking"), material.models, strict=True))
    names = [one.name for one in load_capabilities()]
    answers: dict[str, dict[str, Any]] = {dialogue_key(one): {} for one in material.dialogues}
    rows: list[dict[str, Any]] = []
    for row in published(PACKAGE, "rlver_table07_judge_scores_and_human_win_rates"):
        values = [value for value in row.values() if isinstance(value, float)]
        model = models[str(row["model"])]
        for name, value in zip(("empathic depth", "core insight", "solution crafting", "dialogue guidance", "style adaptability"),
                               values, strict=True):  # fmt: skip
            if row["measure"] == "llm_judge_score":
                for one in (one for one in material.dialogues if one.model == model):
                    answers[dialogue_key(one)][name.replace(" ", "_")] = {"level": value}
            else:  # 1,000 comparisons with somebody else
                wins = round(10 * value)
                given = {"first": model, "second": "nobody", "capability": name.replace(" ", "_")}
                rows += [{"scenario": f"s{n}", **given, "winner": "first" if n < wins else "tie"} for n in range(1000)]
    given_all = material._replace(labels=write(tmp_path / "wins.csv", rows), earlier={"capabilities": {"lab/judge": answers}})
    result = RATERS.result(given_all, {})
    assert set(names) == set(result.record["win_rates"][material.models[0]])
    assert result.record["win_rates"][material.models[1]]["core insight"]["mean"] == pytest.approx(67.3)
    correlation = result.record["correlation"]
    assert (correlation["n"], round(correlation["rho"], 3)) == (15, RHO)
    assert correlation["p"] == pytest.approx(5.2e-6, rel=0.01)
    alone = RATERS.result(given_all._replace(earlier={}), {})
    assert alone.record["correlation"]["rho"] is None
    assert any("--suite capabilities" in note for note in alone.notes)


def test_table_6_as_printed_and_what_200_ratings_can_give() -> None:
    """95 % is 19 of 20. Twenty replies by ten raters give multiples of 0.5 %, and their 45 pairs multiples of 100 / 900 %:
    82.65, 88.35, 75.8 and 79.75 are none, so that ratings are missing or means are of something else."""
    rows = published(PACKAGE, "rlver_table06_human_evaluation_of_sage")
    printed = [float(str(row["percent"])) for row in rows]
    assert printed == list(PUBLISHED.values())
    consistency, majority, agreement, reasonable, alike = printed
    assert majority == 100 * 19 / 20
    assert [value % 0.5 == 0 for value in (consistency, reasonable)] == [False, False]
    for value in (agreement, alike):
        assert abs(value - round(value * 9) / 9) > 0.005  # printed to two decimals


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("model,scenario,turn,rater,direction", "m,s,0,a,sideways"),
        ("model,scenario,turn,rater,direction", "m,s,first,a,up"),
        ("model,scenario,turn,rater,direction", "m,s,0,a,up\nm,s,0,a,down"),
        ("model,scenario,turn,rater,direction", "m,s,0,a,up"),  # of no reply of the run
        ("scenario,first,second,capability,winner", "s,m,n,core insight,m"),
    ],
)
def test_a_file_with_an_error_is_refused(counsellor: Material, tmp_path: Path, head: str, line: str) -> None:
    (tmp_path / "labels.csv").write_text(f"{head}\n{line}\n")
    with pytest.raises(InputError, match=r"labels\.csv"):
        RATERS.result(counsellor._replace(labels=tmp_path / "labels.csv"), {})


def test_the_command(place: Path, counsellor: Material) -> None:
    names = ("model", "scenario", "repeat", "turn")
    rows = [{**dict(zip(names, reply, strict=True)), "rater": "a", "direction": "up"} for reply, _ in directions(counsellor)]
    write(place / "up.csv", rows)
    done = heartloop("validate", "run", "--suite", "raters", "--labels", "up.csv", "--out", "r", cwd=place)
    assert done.code == 0, done
    lacking = heartloop("validate", "run", "--suite", "raters", "--out", "r", cwd=place)
    assert (lacking.code, "--labels" in lacking.err) == (2, True)
