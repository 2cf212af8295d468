"""Samples drawn from EmpatheticDialogues: which, in what order, without what, and who can judge them. The CSV is invented."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import RawDialogue, RawTurn, read_dialogues
from heartloop.environments.perm.environment import Perm
from heartloop.environments.perm.importers import LEAST_WORDS, draw
from heartloop.environments.perm.scenario import EMOTIONS, DrawnScenario, load_scenarios
from heartloop.environments.perm.users import PermEmbeddedUser, PermLLMUser
from heartloop.environments.registry import owner_of

HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags"
LINES = [
    "hit:1_conv:1,1,proud,I built a boat_comma_ alone.,0,I finally built a boat_comma_ and it floats.,5|5|5_5|5|5,",
    'hit:1_conv:1,2,proud,I built a boat_comma_ alone.,1,Well done! "Alone" you say?,5|5|5_5|5|5,',
    'hit:2_conv:2,1,sad,My bird left.,2,The cage is "open" and my bird is gone_comma_ I think.,4|4|4_4|4|4,',
    "hit:2_conv:2,2,sad,My bird left.,3,I am sorry to hear it.,4|4|4_4|4|4,,one|two_comma_ three",
    "hit:3_conv:3,1,sad,It rains.,2,It rains.,4|4|4_4|4|4,",
    "hit:3_conv:3,2,sad,It rains.,3,Oh no.,4|4|4_4|4|4,",
    "hit:4_conv:4,1,moody,It is late and I sit here.,2,I sit here and it is late again.,4|4|4_4|4|4,",
    "hit:4_conv:4,2,moody,It is late and I sit here.,3,Why?,4|4|4_4|4|4,",
    "hit:5_conv:5,1,sad,My sister Ingrid moved.,2,My sister Ingrid moved away_comma_ her mail is i@example.org now.,4|4|4_4|4|4,",
    "hit:5_conv:5,2,sad,My sister Ingrid moved.,3,Far?,4|4|4_4|4|4,",
    "hit:6_conv:6,1,lonely,I want to die some days.,2,Some days I want to die and nobody asks.,4|4|4_4|4|4,",
    "hit:6_conv:6,2,lonely,I want to die some days.,3,I am here.,4|4|4_4|4|4,",
    "hit:7_conv:7,1,proud,I built a boat_comma_ alone.,8,I finally built a boat_comma_ and it floats.,5|5|5_5|5|5,",
    "hit:7_conv:7,2,proud,I built a boat_comma_ alone.,9,Great.,5|5|5_5|5|5,",
]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("\n".join([HEADER, *LINES]) + "\n", encoding="utf-8")
    return path


def dialogue(number: int, emotion: str) -> RawDialogue:
    turns = (RawTurn("person", f"This is what I say as number {number}."), RawTurn("supporter", "Yes?"))
    return RawDialogue(f"train.csv, {number}", {"emotion": emotion, "situation": f"It was number {number}."}, turns)


def test_which_are_drawn_with_their_words_restored_and_why_others_are_not(source: Path) -> None:
    drawn = draw(read_dialogues(source, "empathetic").dialogues)
    found = {s.source: s for s in drawn.scenarios}
    boat = found["train.csv, hit:1_conv:1"]
    assert (boat.emotion, boat.query) == ("proud", "I finally built a boat, and it floats.")
    assert boat.scenario == "I built a boat, alone."
    assert found["train.csv, hit:2_conv:2"].query == 'The cage is "open" and my bird is gone, I think.'
    assert drawn.counts == {
        f"skipped: query has fewer than {LEAST_WORDS} words": 1,
        "skipped: label is not one of the 32 emotions": 1,
        "skipped: same situation and query as another dialogue": 1,
    }
    whole = "".join(s.model_dump_json() for s in drawn.scenarios)
    assert not any(personal in whole for personal in ("Ingrid", "example.org"))
    assert any("1 email" in note for note in drawn.notes)


def test_what_is_said_outright_of_suicide_is_a_tag_and_can_be_excluded(source: Path) -> None:
    dialogues = read_dialogues(source, "empathetic").dialogues
    assert [s.tags for s in draw(dialogues).scenarios if s.emotion == "lonely"] == [("suicide",)]
    without = draw(dialogues, exclude_tags=["suicide"])
    assert not any(s.emotion == "lonely" for s in without.scenarios)
    assert without.counts["skipped: excluded tag: suicide"] == 1
    with pytest.raises(UseError, match="unknown tag"):
        draw(dialogues, exclude_tags=["sadness"])


def test_a_limit_is_spread_over_the_emotions_and_a_larger_one_includes_the_smaller() -> None:
    dialogues = [dialogue(n, EMOTIONS[n % 32] if n % 3 else "sad") for n in range(200)]
    some, more = (draw(dialogues, limit=n, seed=4).scenarios for n in (32, 64))
    assert set(Counter(s.emotion for s in some).values()) == {1}
    assert {s.id for s in some} <= {s.id for s in more}
    assert {s.id for s in draw(dialogues, limit=32, seed=5).scenarios} != {s.id for s in some}
    assert draw(dialogues[::-1], limit=32, seed=4).scenarios == some


def test_nothing_that_fits_is_an_error_that_says_why() -> None:
    with pytest.raises(InputError, match="2 x label is not one of the 32 emotions"):
        draw([dialogue(1, "moody"), dialogue(2, "moody")])


@pytest.fixture
def out(source: Path, tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    found = CliRunner().invoke(app, ["import", "perm-samples", str(source), "--out", str(path)], catch_exceptions=False)
    assert (found.exit_code, "4 scenarios written" in found.output) == (0, True), found.output
    return path


def test_other_commands_know_the_file_and_the_embedded_judges_refuse_it(out: Path) -> None:
    spec = owner_of(str(out))
    assert spec.name == "perm"
    people = load_scenarios(str(out))
    assert all(isinstance(one, DrawnScenario) and one.persona is None for one in people)
    assert all(one.query in spec.scenarios.text(one) and one.id in spec.scenarios.line(one) for one in people)
    checked = CliRunner().invoke(app, ["scenarios", "check", str(out)], catch_exceptions=False)
    assert (checked.exit_code, "checked for their form only" in checked.output) == (0, True)
    with pytest.raises(InputError, match="--judge MODEL"):
        Perm(people, PermEmbeddedUser())
    assert Perm(people, PermLLMUser(ScriptedChat([]))).scenario_ids
    assert all("no more is known" in one.who for one in people)
