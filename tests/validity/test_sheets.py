"""Sheets for people: EMPA section 3.2 (segments), EIBench section 3.2.2 (scenarios), RLVER Appendix E.1 (replies)."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.blocks import Estimate
from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import RawDialogue, RawTurn
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import load_attribute
from heartloop.environments.suites import Material
from heartloop.validity.raters import RATERS
from heartloop.validity.sheets import agreement_of, export_sheets, read_sheets
from heartloop.validity.suites import changes
from tests.authoring.scribe import Scribe, good, run_with
from tests.commands import heartloop

Cells = dict[str, str]


def read(path: Path) -> list[Cells]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path: Path, answer: Callable[[Cells], Cells], *, delimiter: str = ",") -> None:
    rows = [{**row, **answer(row)} for row in read(path)]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)


def filled(folder: Path, answers: dict[str, list[str]], *, n: int) -> dict[str, Any]:
    """A folder of `segment` sheets whose raters answer `fits` by item as listed, and what is found in it."""
    folder.mkdir()
    question = {"ask": "", "answers": ["yes", "no"]}
    key = {"questions": {"fits": question}, "items": {str(one): {"source": f"line {one}"} for one in range(1, n + 1)}}
    (folder / "key.json").write_text(json.dumps(key))
    for rater, given in answers.items():
        lines = [f"{item},{rater},{one}" for item, one in enumerate(given, start=1)]
        (folder / f"{rater}.csv").write_text("\n".join(["item,rater,fits", *lines]))
    return agreement_of(read_sheets(folder))["fits"]


def test_91_percent_of_200_has_wilsons_interval(tmp_path: Path) -> None:
    """EMPA, section 3.2. Of 0.91 and n = 200: centre (0.91 + z2 / 400) / (1 + z2 / 200) = 0.9023 with z2 = 3.8415,
    reach 1.96 sqrt(0.91 * 0.09 / 200 + z2 / 160000) / 1.0192 = 0.0400.

    A second rater with the same answers adds no item, so that the interval stays.
    """
    answers = ["yes"] * 182 + ["no"] * 18
    for name, raters in (("one", ("a",)), ("two", ("a", "b"))):
        found = filled(tmp_path / name, dict.fromkeys(raters, answers), n=200)
        assert found["share"][:3] == pytest.approx((0.91, 0.8622, 0.9423), abs=5e-5)
    assert (found["agreement"], found["kappa"], found["alpha"]) == (1, 1, 1)


def test_agreement_of_two_raters_by_hand(tmp_path: Path) -> None:
    """Both yes 20, yes and no 5, no and yes 10, both no 15: 35 of 50 agree. Chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5: kappa 0.4.

    Alpha: 55 yes and 45 no, 30 of 100 in unequal pairs, 2 * 55 * 45 / 99 expected: 1 - 30 / 50 = 0.4.
    A fifty-first item that the second rater left empty counts for the share alone.
    """
    first, second = ["yes"] * 25 + ["no"] * 25 + ["yes"], ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15 + [""]
    found = filled(tmp_path / "sheets", {"a": first, "b": second}, n=51)
    assert (found["agreement"], found["kappa"], found["alpha"]) == pytest.approx((0.7, 0.4, 0.4))
    assert found["share"].mean == pytest.approx(56 / 101)
    assert (found["items"], found["by all"], found["raters"], found["empty cells"]) == (51, 50, 2, 1)


def test_the_share_of_one_rater_or_of_equal_answers_has_no_kappa(tmp_path: Path) -> None:
    assert filled(tmp_path / "one", {"a": ["yes", "no"]}, n=2).keys() & {"agreement", "kappa", "alpha"} == set()
    same = filled(tmp_path / "same", {rater: ["yes", "yes"] for rater in "abc"}, n=2)
    assert same["agreement"] == 1
    assert "kappa" not in same


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("item,rater,fits\n1,a,maybe", ("line 2", "'maybe'", "yes, no")),
        ("item,rater,fits\n1,a,yes\n1,a,no", ("line 3", "'a'", "twice")),
        ("item,rater,fits\n7,a,yes", ("line 2", "'7'", "1 to 2")),
        ("item,rater,fits\n1,,yes", ("line 2", "rater ''")),
        ("item,rater,right\n1,a,yes", ("line 2", "right", "fits")),
        ("item,rater,fits\n1,a,", ("no answer",)),
    ],
)
def test_an_error_names_file_line_value_and_what_was_expected(tmp_path: Path, text: str, named: tuple[str, ...]) -> None:
    filled(tmp_path / "sheets", {"b": ["yes", "no"]}, n=2)
    (tmp_path / "sheets" / "b.csv").unlink()
    (tmp_path / "sheets" / "mine.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_sheets(tmp_path / "sheets")
    assert all(word in str(error.value) for word in (*named, "" if "no answer" in named else "mine.csv"))


def test_raters_get_the_same_scenarios_in_another_order_and_the_seed_decides(tmp_path: Path) -> None:
    export_sheets(Path("eibench"), tmp_path / "a", n=12)
    export_sheets(Path("eibench"), tmp_path / "c", n=12, seed=1)
    first, second = (read(tmp_path / "a" / f"scenario-{rater}.csv") for rater in (1, 2))
    assert {"plausible", "consistent", "anchors"} < first[0].keys()
    assert "success" in first[0]["scenario"]
    assert [row["item"] for row in first] != [row["item"] for row in second]
    assert {row["item"]: row["scenario"] for row in first} == {row["item"]: row["scenario"] for row in second}
    keys = {name: json.loads((tmp_path / name / "key.json").read_text())["items"] for name in "ac"}
    assert keys["a"] != keys["c"]
    scenes = Counter(one["scenario"].split("-")[0] for one in keys["a"].values())
    assert set(scenes.values()) == {3}, "stratified"
    with pytest.raises(UseError, match="not empty"):  # it may hold answers
        export_sheets(Path("eibench"), tmp_path / "a", n=12)
    with pytest.raises(UseError, match="9999"):
        export_sheets(Path("eibench"), tmp_path / "d", n=9999)


async def test_a_segment_shows_the_dialogue_and_what_was_extracted_from_it(tmp_path: Path) -> None:
    """Of two dialogues the filter finds a need in one."""
    turns = (
        RawTurn("person", "twenty two years on the night shift, and they gave it away without so much as a word to me"),
        RawTurn("supporter", "Who decided that?"),
    )
    dialogues = [RawDialogue(f"log.jsonl, line {n}", {"situation": f"case {n}"}, turns) for n in (1, 2)]

    def instead(stage: str, text: str, nth: int) -> str | None:
        return json.dumps(good(text) | {"needs": "case 1" in text}) if stage == "filter" else None

    make = load_attribute(load_environment("empa").writing["distil"])
    await run_with(
        tmp_path / "mine.jsonl", Scribe(instead), writing=make(dialogues, shipped=load_environment("empa").load()[:4]), n=2
    )
    written = export_sheets(tmp_path / "mine.steps.jsonl", tmp_path / "out", raters=1)
    (row,) = read(written[-1])
    assert "1 person: twenty two years" in row["dialogue"]
    assert {"needs: True", "trouble"} <= {
        line if line.startswith("needs") else line.split(":")[0] for line in row["extracted"].split("\n")
    }
    key = json.loads((tmp_path / "out" / "key.json").read_text())
    assert key["items"] == {"1": {"source": "log.jsonl, line 1"}}
    assert key["questions"]["fits"]["published"] == 91
    (tmp_path / "no.steps.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"no\.steps"):
        export_sheets(tmp_path / "no.steps.jsonl")


def test_table_6_follows_from_filled_sheets(place: Path, material: Material) -> None:
    """One rater sees the simulator's change in each reply, one always a rise; all but one find each reasonable."""
    assert heartloop("export", "run", "--to", "sheet", "--n", "9", "--raters", "3", "--out", "s", cwd=place).code == 0
    changed = {(*one.key, turn.index): change for one in material.dialogues for turn, change in changes(material.spec, one)}
    key = json.loads((place / "s" / "key.json").read_text())["items"]
    own = {item: changed[one["model"], one["scenario"], one["repeat"], one["turn"]] for item, one in key.items()}
    assert Counter(one["model"] for one in key.values()) == dict.fromkeys(material.models, 3)
    assert not {"thoughts", "change", "model"} & read(place / "s" / "direction-1.csv")[0].keys()
    for row in read(place / "s" / "direction-1.csv"):
        assert row["dialogue"].split("\n")[-1].startswith(("MODEL:", "    |")), "ends with the reply"
    for row in read(place / "s" / "reasonable-1.csv"):
        assert row["change"].split()[0] == ("up" if own[row["item"]] > 0 else "down" if own[row["item"]] < 0 else "none")

    def directions(row: Cells) -> Cells:
        return {"direction": "up" if row["rater"] == "2" or own[row["item"]] > 0 else "down" if own[row["item"]] < 0 else "none"}

    for rater in "12":
        fill(place / "s" / f"direction-{rater}.csv", directions, delimiter=";")
    for rater in "123":
        fill(place / "s" / f"reasonable-{rater}.csv", lambda row: {"reasonable": "No" if row["rater"] == "3" else "yes"})
    done = heartloop("import", "sheet", "s", "--out", "labels.csv", cwd=place)
    assert done.code == 0, done
    assert "66.7% yes" in done.out
    assert "published 88.35" in done.out
    record = RATERS.result(material._replace(labels=place / "labels.csv"), {}).record
    rises = sum(change > 0 for change in own.values()) / 9
    assert record["replies"] == 9
    assert record["consistency"]["mean"] == pytest.approx(100 * (1 + rises) / 2)
    assert record["agreement"]["mean"] == pytest.approx(100 * rises)
    assert record["reasonable"]["mean"] == pytest.approx(200 / 3)
    assert Estimate(**record["reasonable"]).low is not None
    refused = heartloop("import", "sheet", "s", "--limit", "3", cwd=place)
    assert (refused.code, "--limit" in refused.err) == (2, True)
