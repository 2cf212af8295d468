"""`heartloop export`: each format is read back, and a run that gives nothing is refused with the reason."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import heartloop
from heartloop.core.dialogue import Failure, Transcript, read_transcripts, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import from_csv_cell
from heartloop.environments.records import yaml_value
from heartloop.integrations import FORMATS, export_run
from heartloop.integrations.export import _table_content, export_dpo, export_sft
from tests.commands import heartloop as command

FIXER, REFLECTOR = "heartloop/fixer", "heartloop/reflector"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "run"
    models = [FIXER, REFLECTOR]
    options = {"max_turns": 3}
    return heartloop.evaluate("sage", models, user="embedded", limit=2, options=options, out=folder, progress=False).path


def changed(run: Path, to: Path, change: Callable[[Transcript], Transcript]) -> Path:
    """A copy of a run with other dialogues."""
    to.mkdir()
    (to / "settings.json").write_bytes((run / "settings.json").read_bytes())
    lines = [write_line(change(dialogue)) for dialogue in read_transcripts(run / "transcripts.jsonl")]
    (to / "transcripts.jsonl").write_text("".join(lines), encoding="utf-8")
    return to


def unscored(dialogue: Transcript) -> Transcript:
    failure = Failure(role="user", kind="TransportError", detail="gone")
    return dialogue.model_copy(update={"score": None, "rewards": (), "stop": "failed", "failure": failure})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def dialogues(run: Path) -> dict[tuple[str, str], Transcript]:
    return {(one.scenario, one.model): one for one in read_transcripts(run / "transcripts.jsonl")}


def test_csv_holds_the_rows_as_text(run: Path, tmp_path: Path) -> None:
    export_run(run, "csv", tmp_path / "out")
    for name in ("dialogues", "turns", "calls"):
        with (tmp_path / "out" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        expected = heartloop.load_run(run).table(name)
        assert rows == [{key: "" if value is None else str(value) for key, value in row.items()} for row in expected]


def test_jsonl_and_parquet_hold_the_rows_with_their_types(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export_run(run, "jsonl", tmp_path / "lines", table=["turns"])
    export_run(run, "parquet", tmp_path / "parquet", table=["turns"])
    expected = heartloop.load_run(run).table("turns")
    assert lines(tmp_path / "lines" / "turns.jsonl") == expected
    assert parquet.read_table(tmp_path / "parquet" / "turns.parquet").to_pylist() == expected
    assert not (tmp_path / "lines" / "calls.jsonl").exists()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UseError, match=r"pip install pyarrow.*csv"):
        export_run(run, "parquet")


def test_whole_numbers_stay_whole_and_digits_stay_where_some_are_missing() -> None:
    """As pandas would not by itself: a column of whole numbers with a gap is one of fractions there."""
    content = _table_content(
        [{"n": 3, "x": 0.1 + 0.2, "s": "a,b", "f": True}, {"n": None, "x": None, "s": None, "f": None}], "csv"
    )
    assert content == b'n,x,s,f\r\n3,0.30000000000000004,"a,b",True\r\n,,,\r\n'


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "a=1"]
    content = _table_content([{"s": text, "n": -1.5} for text in texts], "csv").decode()
    rows = list(csv.DictReader(content.splitlines(keepends=True)))
    assert [row["s"] for row in rows] == [f"'{text}" for text in texts[:-1]] + texts[-1:]
    assert [from_csv_cell(row["s"]) for row in rows] == texts
    assert {row["n"] for row in rows} == {"-1.5"}


def test_unscored_dialogues_are_rows_without_a_score(run: Path, tmp_path: Path) -> None:
    export_run(changed(run, tmp_path / "run", unscored), "jsonl", tmp_path / "out")
    rows = lines(tmp_path / "out" / "dialogues.jsonl")
    assert {(row["scored"], row["points"], row["failure_kind"]) for row in rows} == {(False, None, "TransportError")}


def test_the_card_names_the_files_the_licence_of_each_part_and_the_provenance(run: Path, tmp_path: Path) -> None:
    card, *_ = export_run(run, "hf", tmp_path / "out")
    header = yaml_value(card.read_text(encoding="utf-8").split("---\n")[1])
    for config in header["configs"]:
        assert (card.parent / config["data_files"]).is_file()
    assert [config["config_name"] for config in header["configs"]] == ["dialogues", "turns", "calls"]
    provenance = json.loads((card.parent / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["settings"]["scenarios"] == json.loads((run / "settings.json").read_text())["scenarios"]
    assert provenance["user_simulators"] == ["embedded"]
    (licensed,) = (part for part, terms in provenance["licence"].items() if "CC BY 4.0, credit" in terms)
    assert licensed.startswith("scenarios")
    for row in lines(tmp_path / "out" / "data" / "dialogues.jsonl"):
        played = dialogues(run)[row["scenario"], row["model"]]
        assert [message["role"] for message in row["messages"]][:3] == ["system", "user", "assistant"]
        assert [m["content"] for m in row["messages"] if m["role"] == "assistant"] == [turn.reply for turn in played.turns]


def test_texts_of_models_keep_their_terms_and_foreign_scenarios_their_licence(run: Path, tmp_path: Path) -> None:
    def by_others(dialogue: Transcript) -> Transcript:
        models = {**dialogue.models, "policy": "lab/one", "user": "lab/two"}
        return dialogue.model_copy(update={"model": "lab/one", "user": "lab/two", "models": models})

    foreign = changed(run, tmp_path / "run", by_others)
    settings = json.loads((foreign / "settings.json").read_text())
    (foreign / "settings.json").write_text(json.dumps({**settings, "scenario_set": "/private/mine.jsonl"}))
    card, provenance, *_ = export_run(foreign, "hf", tmp_path / "out")
    licence = json.loads(provenance.read_text())["licence"]
    assert not any("CC BY" in terms for terms in licence.values())
    assert "the terms of that model" in licence["messages, thoughts and judgements of lab/two"]
    assert "/private" not in provenance.read_text() + card.read_text()


def test_a_second_export_replaces_the_first_and_a_foreign_folder_is_refused(run: Path, tmp_path: Path) -> None:
    export_run(run, "csv", tmp_path / "out")
    export_run(run, "csv", tmp_path / "out", table=["turns"])
    assert [path.name for path in (tmp_path / "out").glob("*.csv")] == ["turns.csv"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(UseError, match="not empty"):
        export_run(run, "csv", tmp_path / "mine")


def test_sft_holds_the_best_dialogue_of_each_scenario(run: Path, tmp_path: Path) -> None:
    export_sft(run, tmp_path / "out")
    rows = lines(tmp_path / "out" / "train.jsonl")
    played = dialogues(run)
    assert {row["scenario"] for row in rows} == {scenario for scenario, _ in played}
    for row in rows:
        scores = {model: one.score or 0.0 for (scenario, model), one in played.items() if scenario == row["scenario"]}
        assert row["points"] == max(scores.values()) == scores[row["model"]]
        assert row["messages"][-1]["role"] == "assistant"
        assert row["candidates"] == 2


def test_sft_takes_thresholds(run: Path, tmp_path: Path) -> None:
    export_sft(run, tmp_path / "one", best_of=1, model=[FIXER])
    assert {row["model"] for row in lines(tmp_path / "one" / "train.jsonl")} == {FIXER}
    with pytest.raises(InputError, match="fewer than 99 points"):
        export_sft(run, tmp_path / "two", min_points=99)
    with pytest.raises(InputError, match="fewer than 3 scored dialogues"):
        export_sft(run, tmp_path / "two", best_of=3)
    assert not (tmp_path / "two").exists()


def test_a_silent_or_truncated_reply_is_no_example(run: Path, tmp_path: Path) -> None:
    def cut(dialogue: Transcript) -> Transcript:
        if dialogue.model == FIXER:
            return dialogue
        turns = (dialogue.turns[0].model_copy(update={"truncated": True}), *dialogue.turns[1:])
        return dialogue.model_copy(update={"turns": turns})

    copy = changed(run, tmp_path / "run", cut)
    export_sft(copy, tmp_path / "out")
    assert {row["model"] for row in lines(tmp_path / "out" / "train.jsonl")} == {FIXER}
    with pytest.raises(InputError, match="no pair"):
        export_dpo(copy, tmp_path / "pairs")


def test_replies_are_paired_by_what_they_changed_and_dialogues_by_their_score(run: Path, tmp_path: Path) -> None:
    export_dpo(run, tmp_path / "out")

    def pairs(name: str) -> Iterator[tuple[dict[str, Any], Transcript, Transcript]]:
        for row in lines(tmp_path / "out" / f"{name}.jsonl"):
            chosen, rejected = (dialogues(run)[row["scenario"], row[f"{side}_model"]] for side in ("chosen", "rejected"))
            yield row, chosen, rejected

    assert list(pairs("replies"))
    for row, *played in pairs("replies"):
        turns = [one.turns[row["turn"]] for one in played]
        replies = [[{"role": "assistant", "content": turn.reply}] for turn in turns]
        assert [row["chosen"], row["rejected"]] == replies
        better, worse = (turn.change["emotion"] for turn in turns if turn.change)
        assert row["prompt"][-1]["role"] == "user"
        assert row["margin"] == pytest.approx(better - worse)
        assert row["margin"] > 0
    for row, chosen, rejected in pairs("dialogues"):
        assert (row["score_chosen"], row["score_rejected"]) == (chosen.score, rejected.score)
        assert row["margin"] == row["score_chosen"] - row["score_rejected"] > 0
        assert row["prompt"][-1] == {"role": "user", "content": chosen.opening}
        assert [m["content"] for m in row["rejected"] if m["role"] == "assistant"] == [turn.reply for turn in rejected.turns]


def test_a_pair_has_at_least_the_margin_and_an_unscored_dialogue_is_in_none(run: Path, tmp_path: Path) -> None:
    export_dpo(run, tmp_path / "all")
    margins = sorted(row["margin"] for row in lines(tmp_path / "all" / "dialogues.jsonl"))
    export_dpo(run, tmp_path / "wide", min_difference=margins[-1])
    assert [row["margin"] for row in lines(tmp_path / "wide" / "dialogues.jsonl")] == margins[-1:]
    again = changed(run, tmp_path / "again", lambda one: one.model_copy(update={"repeat": 1}))
    with (again / "transcripts.jsonl").open("a", encoding="utf-8") as file:
        file.write((run / "transcripts.jsonl").read_text(encoding="utf-8"))
    export_dpo(again, tmp_path / "twice")
    assert sorted(row["margin"] for row in lines(tmp_path / "twice" / "dialogues.jsonl")) == margins, "counts once"
    broken = changed(run, tmp_path / "run", lambda one: unscored(one) if one.model == FIXER else one)
    with pytest.raises(InputError, match="2 scored dialogues of 2 scenarios"):
        export_dpo(broken)


def test_a_run_without_a_dialogue_or_a_score_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes((run / "settings.json").read_bytes())
    for to in set(FORMATS) - {"inspect"}:
        with pytest.raises(InputError, match="no finished dialogue"):
            export_run(tmp_path, to)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    failed = changed(run, tmp_path / "run", unscored)
    for export in (export_sft, export_dpo):
        with pytest.raises(InputError, match="4 unscored ones"):
            export(failed)


def test_the_command_writes_and_refuses_options_of_other_formats(run: Path, tmp_path: Path) -> None:
    done = command("export", str(run), "--to", "csv", "--table", "turns", "--out", "out", cwd=tmp_path)
    assert (done.code, (tmp_path / "out" / "turns.csv").is_file()) == (0, True)
    for words, named in (
        (("--to", "csv", "--min-difference", "3"), "--min-difference"),
        (("--to", "inspct"), "'inspect'"),
        (("--to", "jsonl", "--table", "turn"), "'turns'"),
        (("--to", "dpo", "--min-difference", "-1"), "-1"),
        (("--to", "sft", "--model", "nobody"), "'nobody'"),
        (("--to", "csv", "--raters", "3"), "--raters"),
        (("--to", "sheet", "--n", "5"), "4 replies"),
    ):
        done = command("export", str(run), *words, cwd=tmp_path)
        assert done.code == 2
        assert named in done.err
