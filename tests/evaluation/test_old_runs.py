"""Runs made before options and roles were mappings (`tests/data/old_runs`, played by that version).

1. Settings are read with `roles` and `options`, transcripts with the role `user`; everything else stays.
2. Such runs are reported, rescored, rejudged and compared; what the earlier version rescored comes out the same.
3. Resuming one is refused.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript, read_transcripts, write_line
from heartloop.core.errors import SettingsMismatch, UseError
from heartloop.core.renames import current_transcript, is_old_settings
from heartloop.environments.registry import load_environment
from heartloop.evaluation.comparison import choose_sides, compare
from heartloop.evaluation.old_runs import current_settings
from heartloop.evaluation.rejudging import Rejudging
from heartloop.evaluation.rescoring import rescore_run
from heartloop.evaluation.run_directory import RunDirectory, played_settings, saved_settings
from heartloop.evaluation.runs import read_run, write_scores
from heartloop.report.site import write_site
from tests.commands import heartloop

STORED = Path(__file__).parents[1] / "data" / "old_runs"
OLD = {
    "sage": {"preset": "corrected", "max_turns": 2, "start": 40.0, "leaves_at": None, "success_at": 100.0},
    "eibench": {"preset": "paper", "variant": "think", "max_turns": 2, "relation_weight": 0.3},
    "empa": {"preset": "released", "max_turns": 4, "window": 2, "to_the_end": False},
    "perm": {"preset": "released", "max_turns": 1, "bystander_weight": 1.0, "without": ["length"]},
    "http": {"preset": "corrected", "max_turns": 2},
    "http-judged": {"preset": "corrected", "max_turns": 2},
    "sage-released": {"preset": "released", "max_turns": 2},
    "imported": {"preset": "released", "max_turns": 10},
}
"""Options that the settings of each run stand for."""
PLAYED = [name for name in OLD if name not in ("http-judged", "sage-released")]
EMBEDDED = ["sage", "eibench", "empa", "perm"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED, tmp_path / "old"))


def raw(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "transcripts.jsonl").read_text(encoding="utf-8").splitlines()]


def dialogues(run: Path) -> list[Transcript]:
    return list(read_transcripts(run / "transcripts.jsonl"))


def test_every_run_stored_here_is_of_the_old_form() -> None:
    assert {path.name for path in STORED.iterdir()} == set(OLD)
    assert all(row["schema_version"] == 1 and "simulator" in row for name in OLD for row in raw(STORED / name))


class TestReading:
    @pytest.mark.parametrize(
        ("settings", "old"),
        [({"simulator": "x"}, True), ({"preset": "paper"}, True), ({"preset": "paper", "options": {}}, False), ({}, False)],
    )
    def test_settings_are_old_by_their_fields(self, settings: dict[str, Any], old: bool) -> None:
        assert is_old_settings(settings) is old

    @pytest.mark.parametrize("name", OLD)
    def test_settings_have_options_and_roles(self, name: str) -> None:
        settings = saved_settings(STORED / name)
        spec = load_environment(settings["environment"])
        assert {key: settings["options"][key] for key in OLD[name]} == OLD[name]
        assert spec.read_options(settings["options"]).model_dump(mode="json") == settings["options"]
        assert not {"user", "simulator", "preset", "window", "bystander_weight"} & set(settings)
        assert set(settings["roles"]) == ({"judge"} if name == "http-judged" else set(spec.role_names))
        before = json.loads((STORED / name / "settings.json").read_text())
        assert set(settings["roles"].values()) == {before["simulator"]}
        assert settings["scenarios"] == before["scenarios"]
        assert read_run(STORED / name).settings == settings

    @pytest.mark.parametrize("name", OLD)
    def test_transcripts_have_the_role_user_and_are_else_as_they_were(self, name: str) -> None:
        for before, now in zip(raw(STORED / name), dialogues(STORED / name), strict=True):
            assert (now.schema_version, now.user) == (2, before["simulator"])
            assert now.score == before["score"]
            assert [turn.model_dump() for turn in now.turns] == [turn.model_dump() for turn in _turns(before)]
            assert "simulator" not in {*now.models, *now.sampling, *now.usage, *(call.role for call in now.calls)}
            assert list(now.models.values()) == list(before["models"].values())
            assert Transcript.model_validate_json(write_line(now)) == now

    def test_calls_usage_sampling_and_failure_of_a_model_are_the_users(self) -> None:
        (now, _), (before, _) = dialogues(STORED / "http"), raw(STORED / "http")
        assert (now.user, now.models["user"], now.sampling["user"].temperature) == ("lab/person", "lab/person", 0.2)
        assert now.usage["user"].model_dump() == before["usage"]["simulator"]
        assert [call.role for call in now.calls] == [call["role"].replace("simulator", "user") for call in before["calls"]]
        assert "user" in {call.role for call in now.calls}
        failed = {**before, "failure": {"role": "simulator", "kind": "AnswerError", "detail": "none"}, "score": None}
        assert Transcript.model_validate(failed).failure == Transcript.model_validate(current_transcript(failed)).failure
        assert current_transcript(failed)["failure"]["role"] == "user"

    def test_sampling_of_the_simulator_is_that_of_every_role_it_played(self) -> None:
        settings = saved_settings(STORED / "http")
        assert settings["sampling"]["user"]["temperature"] == 0.2
        saved = json.loads((STORED / "empa" / "settings.json").read_text())
        saved |= {"simulator": "lab/x", "sampling": {"simulator": {"temperature": 0.2}, "policy": {"seed": 1}}}
        now = current_settings(saved)
        assert now["roles"] == dict.fromkeys(("user", "judge", "director"), "lab/x")
        played = {role: {"temperature": 0.2} for role in ("user", "judge", "director")}
        assert now["sampling"] == {"policy": {"seed": 1}, **played}

    def test_of_a_rejudged_run_the_judge_is_the_role_and_the_sampling_stays_the_users(self) -> None:
        settings = saved_settings(STORED / "http-judged")
        assert (settings["roles"], settings["rejudged"]["user"]) == ({"judge": "lab/judge"}, "lab/person")
        assert {role: values["temperature"] for role, values in settings["sampling"].items()} == {"user": 0.2}

    def test_settings_of_an_environment_that_is_not_installed_keep_their_options(self) -> None:
        now = current_settings({"environment": "gone", "simulator": "embedded", "preset": "p", "window": 3, "without": None})
        assert (now["options"], now["roles"]) == ({"preset": "p", "window": 3}, {"user": "embedded"})

    def test_present_settings_stay_as_they_are(self) -> None:
        settings = saved_settings(STORED / "sage")
        assert current_settings(settings) == settings


def _turns(before: dict[str, Any]) -> tuple[Any, ...]:
    return Transcript.model_validate(before).turns


class TestUse:
    @pytest.mark.parametrize("name", OLD)
    def test_its_scores_are_those_of_its_dialogues(self, old: Path, name: str) -> None:
        card = write_scores(old / name)
        scored = [row for row in raw(old / name) if row["score"] is not None]
        assert (card.played, card.scored) == (len(raw(old / name)), len(scored))
        stored = json.loads((old / name / "settings.json").read_text())
        assert (card.presets, card.simulators) == ((stored["preset"],), (stored["simulator"],))

    def test_all_are_reported(self, old: Path) -> None:
        page = write_site([old / name for name in OLD], old / "site").read_text(encoding="utf-8")
        assert all(load_environment(name).title in page for name in EMBEDDED)

    def test_rescored_it_is_what_the_earlier_version_computed(self, old: Path) -> None:
        done = rescore_run(old / "sage", old / "again", options={"preset": "released"})
        assert dialogues(done.path) == dialogues(old / "sage-released")
        assert saved_settings(done.path)["rescored"]["preset"] == "corrected"
        with pytest.raises(UseError, match="rescored"):
            rescore_run(old / "sage-released", options={"preset": "corrected"})

    @pytest.mark.parametrize(
        ("name", "options", "back"),
        [
            ("eibench", {"relation_weight": 0.5}, {"relation_weight": 0.3}),
            ("perm", {"without": [], "bystander_weight": 0.5}, {"without": ["length"], "bystander_weight": 1.0}),
            ("perm", {"preset": "unit"}, {"preset": "released"}),
            ("empa", {"preset": "paper"}, {"preset": "released"}),
        ],
    )
    def test_rescored_by_other_options_and_back(
        self, old: Path, name: str, options: dict[str, Any], back: dict[str, Any]
    ) -> None:
        done = rescore_run(old / name, old / "new", options=options)
        assert done.changed > 0
        spec, saved = load_environment(name), saved_settings(old / "new")
        assert {key: saved["options"][key] for key in options} == options
        again = spec.read_options({**saved["options"], **back})
        assert [spec.stored.rescored(t, again) for t in dialogues(old / "new")] == dialogues(old / name)

    @pytest.mark.parametrize("name", EMBEDDED)
    async def test_rejudged_by_the_embedded_judge(self, old: Path, name: str) -> None:
        job = Rejudging(old / name, load_environment(name).judge())
        assert job.settings.roles == {"judge": "embedded"}
        for played, before in zip([await job.play(one) for one in job.jobs], dialogues(old / name), strict=True):
            assert played.scored
            assert [turn.reply for turn in played.turns] == [turn.reply for turn in before.turns]
            assert played.facts == before.facts

    @pytest.mark.parametrize("name", ["http", "imported"])
    async def test_rejudged_by_a_model(self, old: Path, name: str) -> None:
        feels = json.dumps({"content": "c", "fit": "f", "activity": "a", "feeling": "g", "change": 3})
        job = Rejudging(old / name, load_environment("sage").judge(ScriptedChat([feels], name="lab/j", cycle=True)))
        judged = [await job.play(one) for one in job.jobs]
        assert {t.models["judge"] for t in judged} == {"lab/j"}
        assert all(turn.change == {"emotion": 3.0} for t in judged for turn in t.turns if turn.change)
        with pytest.raises(UseError, match="rejudged"):
            played_settings(old / "http-judged")

    def test_compared(self, old: Path) -> None:
        model = "heartloop/listener"
        found = compare(*choose_sides(read_run(old / "sage"), read_run(old / "sage-released"), model, model))
        assert (found.pairs, found.warnings != ()) == (2, True)
        found = compare(*choose_sides(read_run(old / "http"), read_run(old / "http-judged"), None, None))
        assert found.pairs == 2
        assert any("lab/person" in warning and "lab/judge" in warning for warning in found.warnings)


class TestResuming:
    @pytest.mark.parametrize("name", OLD)
    def test_is_refused_and_leaves_the_run_as_it_was(self, old: Path, name: str) -> None:
        before = {path.name: path.read_bytes() for path in (old / name).iterdir()}
        settings = played_settings(old / "sage")
        with pytest.raises(SettingsMismatch), RunDirectory(old / name, settings):
            pass
        assert {path.name: path.read_bytes() for path in (old / name).iterdir() if path.name != ".lock"} == before

    def test_the_command_says_so_in_a_sentence(self, old: Path) -> None:
        words = ("eval", "sage", "--user", "embedded", "-m", "heartloop/reflector", "--limit", "2", "-E", "max_turns=2")
        done = heartloop(*words, "--out", "sage", cwd=old)
        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert "--out" in done.err
