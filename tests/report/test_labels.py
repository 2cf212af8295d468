"""Labels of replies in reports of runs with a user simulator.

1. They are made with a report, not during the run; a transcript holds none, and they change no score.
2. They are what the embedded user would have noted: the same reader, the same dialogue so far.
3. They are made once. Another reply, scenario or rule makes them again; a torn line of the file costs nothing.
4. A reply that is not English, or whose scenario is not there any more, has none; the second is reported.
5. Many are shared among processes, with the same result.
6. An environment without labels, or one that is not installed, leaves a run as it is.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.llm_user import LLMUser
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.evaluation.settings import settings_of
from heartloop.evaluation.store import RunDirectory, StoredRun, read_run, write_scores
from heartloop.models.baselines import Baseline
from heartloop.report import labels
from heartloop.report.labels import LABELS, labelled
from heartloop.report.site import write_site

SPEC = load_environment("sage")
RULES: Any = SPEC.labels
PEOPLE = load_scenarios("support")[:3]
FEEL = json.dumps({"content": "c", "fit": "f", "activity": "a", "feeling": "g", "change": 1})
SPEAK = json.dumps({"attitude": "a", "aim": "b", "tone": "c", "matter": "d", "reply": "And then he left.", "leaves": False})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three dialogues of three replies with a simulator model."""
    return made(tmp_path / "run")


def made(path: Path, *, replies: list[str] | None = None, scenario_set: str = "support") -> Path:
    simulator = ScriptedChat(lambda asked: FEEL if "Take in" in asked[-1].content else SPEAK, name="lab/sim")
    sage = Sage(PEOPLE, LLMUser(simulator), max_turns=3)
    settings = settings_of(sage, ["heartloop/assistant"], roles={"user": "lab/sim"}, scenario_set=scenario_set)
    policy = ScriptedChat(replies, name="heartloop/assistant") if replies else Baseline("assistant")
    with RunDirectory(path, settings) as directory:
        for scenario in PEOPLE[: 1 if replies else 3]:
            directory.append(asyncio.run(play(sage, scenario.id, policy)))
    return path


def evidence(run: StoredRun) -> list[list[dict[str, Any]]]:
    return [[turn.evidence for turn in dialogue.turns] for dialogue in run.transcripts]


def test_a_transcript_holds_none_and_a_report_shows_them(run: Path, tmp_path: Path) -> None:
    assert evidence(read_run(run)) == [[{}, {}, {}]] * 3
    before = write_scores(run)
    write_site([run], tmp_path / "site")
    assert "strategies" in (tmp_path / "site" / "data" / "1" / "dialogues-0.js").read_text().partition('"turns"')[2]
    assert write_scores(run) == before
    assert evidence(read_run(run)) == [[{}, {}, {}]] * 3


def test_they_are_what_the_rules_note_in_a_talk_with_the_embedded_user(run: Path) -> None:
    """The same talk, once played with the embedded user, once as if a model had played it."""
    sage = Sage(PEOPLE, EmbeddedUser(), max_turns=4)
    played = asyncio.run(play(sage, PEOPLE[0].id, Baseline("assistant"), seed=1))
    as_model = [turn.model_copy(update={"evidence": {}}) for turn in played.turns]
    lent = played.model_copy(update={"turns": tuple(as_model), "user": "lab/sim"})
    (found,) = evidence(labelled(read_run(run)._replace(transcripts=(lent,))))
    for turn, mine in zip(played.turns, found, strict=True):
        assert mine
        assert mine.items() <= turn.evidence.items()


@pytest.mark.parametrize("user", ["embedded", "embedded-lm"])
def test_embedded_dialogues_keep_their_own(run: Path, user: str) -> None:
    """Also where an appraisal has no evidence, as a reply that a later version would label."""
    played = asyncio.run(play(Sage(PEOPLE, EmbeddedUser(), max_turns=2), PEOPLE[0].id, Baseline("assistant")))
    bare = tuple(turn.model_copy(update={"evidence": {}}) for turn in played.turns)
    played = played.model_copy(update={"user": user, "turns": bare})
    given = read_run(run)._replace(transcripts=(played,))
    assert labelled(given) is given
    assert not (run / LABELS).exists()


def test_they_are_made_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = labelled(read_run(run))
    assert all(found for dialogue in evidence(first) for found in dialogue)
    monkeypatch.setattr(SPEC, "labels", RULES._replace(label=None))
    assert labelled(read_run(run)) == first


@pytest.mark.parametrize("change", ["reply", "rules", "story"])
def test_another_reply_story_or_rule_makes_them_anew(run: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    labelled(read_run(run))
    kept = (run / LABELS).read_text().splitlines()
    asked = 0

    def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return RULES.label(*args)

    changed = RULES._replace(label=counted)
    if change == "rules":
        changed = changed._replace(rules_hash=lambda: "other rules")
    monkeypatch.setattr(SPEC, "labels", changed)
    given = read_run(run)
    first = given.transcripts[0]
    if change != "rules":
        turns = (first.turns[0].model_copy(update={"reply": "I am sorry."}), *first.turns[1:])
        update: dict[str, Any] = {"turns": turns} if change == "reply" else {"fingerprint": "0" * 16}
        given = given._replace(transcripts=(first.model_copy(update=update), *given.transcripts[1:]))
    labelled(given)
    # a story that is not there any more cannot be read again; every rule can
    assert asked == {"reply": 1, "rules": 3, "story": 0}[change]
    after = (run / LABELS).read_text().splitlines()
    assert len(after) == 3
    assert len(set(kept) & set(after)) == {"reply": 2, "rules": 0, "story": 3}[change]


def test_a_torn_or_strange_line_costs_nothing(run: Path) -> None:
    first = labelled(read_run(run))
    lines = (run / LABELS).read_bytes().splitlines(keepends=True)
    (run / LABELS).write_bytes(b'{"key": 1}\n[]\n\xff\n' + lines[0] + b'{"key":"x","turns":[7]}\n' + lines[1] + lines[2][:20])
    assert labelled(read_run(run)) == first


def test_a_reply_in_another_language_carries_none(tmp_path: Path) -> None:
    said = ["我在这里，慢慢说，不着急，我听着呢。", "So he left, and you stood there. What did you want to say?", "嗯"]
    (found,) = evidence(labelled(read_run(made(tmp_path / "run", replies=said))))
    assert (found[0], found[2]) == ({}, {})
    assert any(name.startswith("A") for name in found[1]["strategies"])


def test_a_dialogue_whose_person_is_gone_carries_none_and_that_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    run = made(tmp_path / "run", scenario_set="people-that-were.jsonl")
    assert evidence(labelled(read_run(run), tell=told.append)) == [[{}, {}, {}]] * 3
    assert len(told) == 1
    assert "3 dialogues" in told[0]
    assert "people-that-were.jsonl" in told[0]


def test_a_folder_that_cannot_be_written_is_no_reason_to_go_without(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "LABELS", "no/such/folder/labels.jsonl")
    assert all(found for dialogue in evidence(labelled(read_run(run))) for found in dialogue)


def test_processes_give_the_same_and_long_work_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = labelled(read_run(run))
    (run / LABELS).unlink()
    monkeypatch.setattr(labels, "_WORKERS_FROM", 1)
    monkeypatch.setattr(labels, "_SOON", 5)
    told: list[str] = []
    assert labelled(read_run(run), tell=told.append) == alone
    assert told[0].startswith("Labelling 9 replies for the report on ")


def test_a_worker_that_dies_is_done_without(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = labelled(read_run(run))
    (run / LABELS).unlink()
    monkeypatch.setattr(labels, "_WORKERS_FROM", 1)
    monkeypatch.setattr(labels, "_COMMAND", ["-c", "import sys; sys.exit(3)"])
    assert labelled(read_run(run)) == alone


def test_a_reply_left_unjudged_carries_none(run: Path) -> None:
    given = read_run(run)
    turns = list(given.transcripts[0].turns)
    turns[-1] = turns[-1].model_copy(update={"state": None, "change": None})
    cut: Transcript = given.transcripts[0].model_copy(update={"turns": tuple(turns)})
    (found,) = evidence(labelled(given._replace(transcripts=(cut,))))
    assert found[0]
    assert found[1]
    assert found[2] == {}


@pytest.mark.parametrize("environment", ["eibench", "not-installed"])
def test_an_environment_without_labels_leaves_a_run_as_it_is(run: Path, environment: str) -> None:
    given = read_run(run)
    other = given._replace(transcripts=tuple(d.model_copy(update={"environment": environment}) for d in given.transcripts))
    assert labelled(other) is other
