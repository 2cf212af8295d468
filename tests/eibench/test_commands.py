"""EIBench on the command line, as a user meets it.

1. eval, resume, shards and merge, compare, report: as for SAGE.
2. What an environment does not have is refused in one sentence, with exit code 2.
3. A model over HTTP plays the person; an answer that lacks a field leaves the dialogue unscored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.environments.eibench.scenario import load_scenarios
from tests.commands import heartloop, over_http
from tests.faulty_server import FaultyServer
from tests.released_eibench import record

EVAL = ("eval", "eibench", "--user", "embedded", "--limit", "3", "-E", "max_turns=3")
BOTH = ("--model", "heartloop/counsellor", "--model", "heartloop/rigid")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run whole, and the same in two shards, merged."""
    folder = tmp_path_factory.mktemp("runs")
    assert heartloop(*EVAL, *BOTH, "--report", "--out", "whole", cwd=folder).code == 0
    for index in ("1", "2"):
        assert heartloop(*EVAL, *BOTH, "--shard", f"{index}/2", "--out", index, cwd=folder).code == 0
    done = heartloop("merge", "1", "2", "--out", "merged", cwd=folder)
    assert done.code == 0, done
    assert "Outcome, -100 to 100" in done.out
    return folder


def bodies(run: Path) -> list[dict[str, Any]]:
    rows = [t.model_dump(exclude={"seconds"}) for t in read_transcripts(run / "transcripts.jsonl")]
    return sorted(rows, key=lambda row: (row["model"], row["scenario"]))


def test_a_run_has_its_settings_scores_and_report(place: Path) -> None:
    settings = json.loads((place / "whole" / "settings.json").read_text())
    assert settings["options"] == {"preset": "paper", "variant": "think", "max_turns": 3, "relation_weight": 0.5}
    assert (settings["roles"], settings["scenario_set"]) == ({"user": "embedded"}, "test")
    scores = json.loads((place / "whole" / "scores.json").read_text())
    assert (scores["environment"], scores["scored"]) == ("eibench", 6)
    assert {group["key"] for group in scores["models"][0]["groups"]} == {t["facts"]["scene"] for t in bodies(place / "whole")}
    assert (place / "whole" / "report" / "index.html").exists()


def test_the_limit_is_spread_over_the_scenes(place: Path) -> None:
    scenes = {t["facts"]["scene"] for t in bodies(place / "whole")}
    assert len(scenes) == 3


def test_shards_merge_into_the_run_that_one_command_makes_and_it_finds_nothing_left(place: Path) -> None:
    assert bodies(place / "merged") == bodies(place / "whole")
    done = heartloop(*EVAL, *BOTH, "--out", "merged", cwd=place)
    assert done.code == 0, done
    assert "0 dialogues played" in done.out


def test_compare_speaks_of_outcomes(place: Path) -> None:
    done = heartloop("compare", "whole", "--model-a", "heartloop/rigid", "--model-b", "heartloop/counsellor", cwd=place)
    assert done.code == 0, done
    assert "mean outcome" in done.out
    assert "by scene" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "eibench", "--user", "embedded", "-m", "heartloop/counsellor", "-E", "relation_weight=2"), "relation_weight"),
        (("eval", "sage", "--user", "embedded", "-m", "heartloop/counsellor", "-E", "relation_weight=1"), "'relation_weight'"),
        (("eval", "chess", "--user", "embedded", "-m", "heartloop/counsellor"), "'chess'"),
        (("eval", "eibench", "--user", "embedded", "-m", "heartloop/counsellor", "--scenarios", "chat"), "'chat'"),
        (("scenarios", "show", "charm-nowhere-99"), "'charm-nowhere-99'"),
        (("scenarios", "list", "nothing"), "'nothing'"),
        (("rescore", "whole", "-E", "preset=corrected"), "'corrected'"),
        (("rescore", "whole", "-E", "success_at=50"), "'success_at'"),
        (("rescore", "whole", "-E", "relation_weight=2"), "relation_weight"),
        (("rescore", "whole", "-E", "max_turns=2"), "max_turns"),
        (("rejudge", "whole", "--judge", "embedded", "-E", "preset=corrected"), "'corrected'"),
        (("rejudge", "whole", "--judge", "embedded", "-E", "relation_weight=1"), "relation_weight"),
        (("rejudge", "whole", "--judge", "embedded", "--request", "judge.seed=1"), "--request"),
        (("import", "eibench-scenarios", "nothing.json", "--out", "x.jsonl"), "nothing.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_what_does_not_exist_is_said_in_a_sentence(words: tuple[str, ...], said: str, place: Path) -> None:
    done = heartloop(*words, cwd=place)
    assert done.code == 2, done
    assert said in done.err


def test_another_weight_is_another_score_of_the_same_talk(place: Path) -> None:
    for weight in ("0", "1"):
        words = (*EVAL, *BOTH, "-E", f"relation_weight={weight}", "--out", f"w{weight}")
        assert heartloop(*words, cwd=place).code == 0
    only_a, only_t = bodies(place / "w0"), bodies(place / "w1")
    assert [talk["turns"] for talk in only_a] == [talk["turns"] for talk in only_t]
    assert {talk["facts"]["relation_weight"] for talk in only_a} == {"0"}
    assert [talk["score"] for talk in only_a] != [talk["score"] for talk in only_t]


def test_rescore_recounts_the_outcome_and_says_when_nothing_changes(place: Path) -> None:
    done = heartloop("rescore", "whole", "-E", "relation_weight=0", cwd=place)
    assert done.code == 0, done
    new = place / "whole-relation_weight-0"
    assert f"Run: {new.name}" in done.out
    assert [talk["turns"] for talk in bodies(new)] == [talk["turns"] for talk in bodies(place / "whole")]
    assert bodies(new) == bodies(place / "w0"), "as if it had been played with this weight"
    settings = json.loads((new / "settings.json").read_text())
    assert (settings["options"]["relation_weight"], settings["rescored"]["options"]["relation_weight"]) == (0.0, 0.5)
    same = heartloop("rescore", "whole", "-E", "preset=paper", cwd=place)
    assert "0 scores changed" in same.out
    assert heartloop("rescore", new.name, "-E", "preset=released", cwd=place).code == 2
    page = heartloop("report", new.name, cwd=place)
    assert page.code == 0, page
    assert "heartloop rescore whole -E relation_weight=0" in (new / "report" / "settings.html").read_text()


def test_rejudge_finds_the_same_with_the_same_judge(place: Path) -> None:
    done = heartloop("rejudge", "whole", "--judge", "embedded", cwd=place)
    assert done.code == 0, done
    assert "embedded against embedded, on 6 dialogues scored by both:" in done.out
    assert "mean difference +0.0" in done.out
    assert "equal after 100% of" in done.out
    was, now = bodies(place / "whole"), bodies(place / "whole-judged-embedded")
    assert [talk["turns"] for talk in was] == [talk["turns"] for talk in now]
    assert heartloop("compare", "whole", "whole-judged-embedded", "--model-a", "heartloop/rigid", "--model-b", "heartloop/rigid",
                     cwd=place).code == 0  # fmt: skip


def test_the_training_set_is_played_by_name(tmp_path: Path) -> None:
    words = (*EVAL[:4], "--model", "heartloop/reflector", "--scenarios", "train", "--limit", "4", "-E", "max_turns=1")
    assert heartloop(*words, "--shard", "1/2", "--out", "one", cwd=tmp_path).code == 0
    assert {t["facts"]["scene"] for t in bodies(tmp_path / "one")} == {"charm", "repair"}
    settings = json.loads((tmp_path / "one" / "settings.json").read_text())
    assert (settings["scenario_set"], len(settings["scenarios"])) == ("train", 2)


def test_scenarios_of_both_environments_are_listed_shown_and_checked(tmp_path: Path) -> None:
    assert "charm-allotment-01" in heartloop("scenarios", "list", "test", cwd=tmp_path).out
    shown = heartloop("scenarios", "show", "charm-allotment-01", cwd=tmp_path)
    assert "The model speaks first." in shown.out
    assert "Negative emotion a: 30, success 5, failure 75" in shown.out
    assert "Secretly wants" in heartloop("scenarios", "show", "support-listen-01", cwd=tmp_path).out
    (tmp_path / "mine.jsonl").write_text(load_scenarios("test")[0].model_dump_json() + "\n", encoding="utf-8")
    assert heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path).out.strip() == "1 scenario (charm 1): no problem found"
    played = heartloop(
        *EVAL[:4], "--model", "heartloop/counsellor", "--scenarios", "mine.jsonl", "-E", "max_turns=2", cwd=tmp_path
    )
    assert played.code == 0, played


def test_check_tries_every_preset_and_variant(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(load_scenarios("test")[0].model_dump_json() + "\n", encoding="utf-8")
    done = heartloop("check", "eibench", "--scenarios", "mine.jsonl", cwd=tmp_path)
    assert (done.code, done.out.count("PASS")) == (0, 4), done


def person(lacks: str = "") -> Callable[[Any], str]:
    """A model that plays the person; `lacks` is a field its answers do not have."""
    body = {
        "reflection": {"need": "n", "quality": "q", "inertia": "i", "changes": "c", "tone": "t"},
        "emotion_change": -5, "relation_change": 3, "reply": "Go on, then.", "continue": "yes",
    }  # fmt: skip
    return lambda _: json.dumps({name: value for name, value in body.items() if name != lacks})


PLAYED = (
    "eval", "eibench", "--user", "lab/person", "--model", "heartloop/reflector", "--limit", "1", "-E", "max_turns=2", "--out",
    "run", "--yes",
)  # fmt: skip


async def test_released_records_are_imported_played_and_judged(tmp_path: Path) -> None:
    broken = [record(number) for number in range(19)] + [record(19, target_anger=90)]
    (tmp_path / "data.json").write_text(json.dumps(broken, ensure_ascii=False), encoding="utf-8")
    done = heartloop("import", "eibench-scenarios", "data.json", "--out", "mine.jsonl", cwd=tmp_path)
    assert done.code == 0, done  # one of twenty is not more than 5 %
    assert "19 scenarios written to mine.jsonl; 1 of 20 records refused" in done.out
    assert "data.json, record 20: anchors of a are start 75" in done.err
    assert "mine.jsonl exists" in heartloop("import", "eibench-scenarios", "data.json", "--out", "mine.jsonl", cwd=tmp_path).err
    async with FaultyServer(answer=person()) as server:
        assert (await over_http(server, *PLAYED, "--scenarios", "mine.jsonl", cwd=tmp_path)).code == 0
        words = ("rejudge", "run", "--judge", "lab/other", "--yes", "--request", "judge.temperature=0")
        assert (await over_http(server, *words, cwd=tmp_path)).code == 0
    (talk,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert (talk.scored, talk.opening, len(talk.turns)) == (True, "就差五分钟，你就不能等等吗？", 2)
    assert heartloop("report", "run", cwd=tmp_path).code == 0
    shown = heartloop("scenarios", "show", "scene_defense_03", "--from", "mine.jsonl", cwd=tmp_path)
    assert "Success: 说清楚为什么不能开" in shown.out
    assert "渡口的末班船" in heartloop("scenarios", "list", "mine.jsonl", cwd=tmp_path).out
    assert "checked for their form only" in heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path).out
    refused = heartloop("rejudge", "run", "--judge", "embedded", cwd=tmp_path)
    assert refused.code == 2
    assert "the embedded user understands English only" in " ".join(refused.err.split())
    (judged,) = read_transcripts(tmp_path / "run-judged-lab-other" / "transcripts.jsonl")
    assert [call.role for call in judged.calls] == ["policy", "judge"] * 2
    assert (judged.score, judged.models["judge"]) == (talk.score, "lab/other")


def test_an_import_with_too_much_refused_says_so_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(json.dumps(record(0)) + "\n7\n", encoding="utf-8")
    done = heartloop("import", "eibench-scenarios", "data.jsonl", "--out", "mine.jsonl", cwd=tmp_path)
    assert (done.code, (tmp_path / "mine.jsonl").exists()) == (1, True)
    (tmp_path / "none.json").write_text("[7, 8]")
    done = heartloop("import", "eibench-scenarios", "none.json", "--out", "none.jsonl", cwd=tmp_path)
    assert (done.code, (tmp_path / "none.jsonl").exists()) == (2, False)
    assert "contains nothing to import (2 records refused)" in done.err


async def test_a_model_plays_the_person(tmp_path: Path) -> None:
    async with FaultyServer(answer=person()) as server:
        assert (await over_http(server, *PLAYED, "-E", "preset=released", cwd=tmp_path)).code == 0
    (talk,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert (talk.scored, talk.preset, len(talk.turns)) == (True, "released", 2)
    assert [turn.change for turn in talk.turns] == [{"a": -5.0, "t": 3.0}] * 2
    assert len([call for call in talk.calls if call.role == "user"]) == 2  # one a turn


@pytest.mark.parametrize("lacks", ["continue", "emotion_change"])
async def test_an_answer_without_a_field_is_asked_again_once_then_unscored(lacks: str, tmp_path: Path) -> None:
    async with FaultyServer(answer=person(lacks)) as server:
        assert (await over_http(server, *PLAYED, cwd=tmp_path)).code == 1
    (talk,) = read_transcripts(tmp_path / "run" / "transcripts.jsonl")
    assert talk.score is None
    assert talk.failure is not None
    assert (talk.failure.role, talk.failure.kind) == ("user", "AnswerError")
    assert talk.turns == ()
    assert talk.counts["re-asks"] == 1


def test_the_training_set_is_written_once_and_never_over_another_file(tmp_path: Path) -> None:
    done = heartloop("scenarios", "save", "train", "--out", "train.jsonl", cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, "2,009 scenarios written to train.jsonl")
    assert len(load_scenarios(tmp_path / "train.jsonl")) == 2009
    again = heartloop("scenarios", "save", "train", "--out", "train.jsonl", cwd=tmp_path)
    assert again.code == 2
    assert "train.jsonl exists" in again.err
