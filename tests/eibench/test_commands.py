"""EIBench on the command line: settings and scenes, another relation weight, released records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer
from tests.released_eibench import REACTS, record

EVAL = ("eval", "eibench", "--user", "embedded", "--limit", "3", "-E", "max_turns=3", "--model", "heartloop/rigid")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert heartloop(*EVAL, "--out", "whole", cwd=folder).code == 0
    return folder


def bodies(run: Path) -> list[dict[str, Any]]:
    rows = [t.model_dump(exclude={"seconds"}) for t in read_transcripts(run / "transcripts.jsonl")]
    return sorted(rows, key=lambda row: (row["model"], row["scenario"]))


def test_a_run_has_its_settings_and_scores_over_the_scenes(place: Path) -> None:
    settings = json.loads((place / "whole" / "settings.json").read_text())
    assert settings["options"] == {"preset": "paper", "variant": "think", "max_turns": 3, "relation_weight": 0.5}
    assert (settings["roles"], settings["scenario_set"]) == ({"user": "embedded"}, "test")
    scores = json.loads((place / "whole" / "scores.json").read_text())
    assert (scores["environment"], scores["scored"]) == ("eibench", 3)
    scenes = {t["facts"]["scene"] for t in bodies(place / "whole")}
    assert len(scenes) == 3
    assert {group["key"] for group in scores["models"][0]["groups"]} == scenes


def test_another_weight_is_another_score_of_the_same_dialogue(place: Path) -> None:
    assert heartloop(*EVAL, "-E", "relation_weight=0", "--out", "w0", cwd=place).code == 0
    done = heartloop("rescore", "whole", "-E", "relation_weight=0", cwd=place)
    assert done.code == 0, done
    new = place / "whole-relation_weight-0"
    assert bodies(new) == bodies(place / "w0"), "as if it had been played with this weight"
    whole = bodies(place / "whole")
    assert [one["turns"] for one in bodies(new)] == [one["turns"] for one in whole]
    assert [one["score"] for one in bodies(new)] != [one["score"] for one in whole]
    settings = json.loads((new / "settings.json").read_text())
    assert (settings["options"]["relation_weight"], settings["rescored"]["options"]["relation_weight"]) == (0.0, 0.5)
    assert heartloop("rescore", new.name, "-E", "preset=released", cwd=place).code == 2


async def test_released_records_are_imported_played_and_judged(tmp_path: Path) -> None:
    broken = [record(number) for number in range(19)] + [record(19, target_anger=90)]
    (tmp_path / "data.json").write_text(json.dumps(broken, ensure_ascii=False), encoding="utf-8")
    done = heartloop("import", "eibench-scenarios", "data.json", "--out", "mine.jsonl", cwd=tmp_path)
    assert done.code == 0, done  # one of twenty is not more than 5 %
    assert "data.json, record 20: anchors of a are start 75" in done.err
    play = ("eval", "eibench", "--user", "lab/person", "--model", "heartloop/reflector", "--limit", "1", "-E", "max_turns=2")
    async with FaultyServer(answer=lambda _: REACTS) as server:
        words = (*play, "--scenarios", "mine.jsonl", "-E", "preset=released", "--out", "run", "--yes")
        assert (await over_http(server, *words, cwd=tmp_path)).code == 0
        rejudge = ("rejudge", "run", "--judge", "lab/other", "--yes", "--request", "judge.temperature=0")
        assert (await over_http(server, *rejudge, cwd=tmp_path)).code == 0
    (played,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert (played.scored, played.preset, played.opening) == (True, "released", "就差五分钟，你就不能等等吗？")
    assert [turn.change for turn in played.turns] == [{"a": -5.0, "t": 3.0}] * 2
    assert [call.role for call in played.calls] == ["policy", "user"] * 2  # one call of the user a turn
    (judged,) = read_transcripts(tmp_path / "run-judged-lab-other" / "transcripts.jsonl")
    assert [call.role for call in judged.calls] == ["policy", "judge"] * 2
    assert (judged.score, judged.models["judge"]) == (played.score, "lab/other")
    shown = heartloop("scenarios", "show", "scene_defense_03", "--scenarios", "mine.jsonl", cwd=tmp_path)
    assert "Success: 说清楚为什么不能开" in shown.out
    assert "渡口的末班船" in heartloop("scenarios", "list", "mine.jsonl", cwd=tmp_path).out
    assert heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path).code == 0
    refused = heartloop("rejudge", "run", "--judge", "embedded", cwd=tmp_path)
    assert refused.code == 2
    assert "the embedded user understands English only" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("text", "code", "written"), [(json.dumps(record(0)) + "\n7\n", 1, True), ("[7, 8]", 2, False)], ids=["half", "all"]
)
def test_an_import_with_too_much_refused_says_so_with_its_exit_code(text: str, code: int, written: bool, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(text, encoding="utf-8")
    done = heartloop("import", "eibench-scenarios", "data.jsonl", "--out", "mine.jsonl", cwd=tmp_path)
    assert (done.code, (tmp_path / "mine.jsonl").exists()) == (code, written)
