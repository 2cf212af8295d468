"""The judged replies, and how they become examples."""

from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from benchmarks.judged_replies.assignments import VOICES
from benchmarks.judged_replies.card import explained
from benchmarks.judged_replies.collect import problems_of_judgement
from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.judged_replies.seal import hashes
from heartloop.core.errors import InputError
from heartloop.environments.reading import LearnedReading
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec
from heartloop.fitting.data import read_examples, read_lines, standardised
from heartloop.fitting.embedded import TRAINED, UNFITTED_VOICES

CONTEXTS = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl")}
REPLIES = {row["id"]: row for row in read_lines(FOLDER / "replies.jsonl")}
JUDGEMENTS = read_lines(FOLDER / "judgements.jsonl")
NOBODY = {"baseline", "attack", "generic", "smollm2", "search", *TRAINED}


def reading_of(spec: EnvironmentSpec) -> LearnedReading:
    assert spec.reading is not None
    return spec.reading


class TestContexts:
    def test_a_concern_is_unsaid_until_a_beat_about_it_was_said(self) -> None:
        sage = load_environment("sage")
        scenario = sage.load("support")[0]
        beat = scenario.beats[-1]
        text = next(concern.text for concern in scenario.concerns if concern.key == beat.concern)
        before = reading_of(sage).context(scenario, [scenario.first_message], [])
        after = reading_of(sage).context(scenario, [scenario.first_message, beat.text], ["Go on."])
        assert any(line.startswith(text) for line in before.unsaid)
        assert not any(line.startswith(text) for line in after.unsaid)
        assert after.messages[-1] == beat.text
        assert after.replies == ("Go on.",)
        assert after.sore == tuple(scenario.background.sinks)

    def test_a_scene_gives_its_demand_its_ways_and_its_wrongs(self) -> None:
        eibench = load_environment("eibench")
        scenes = {scenario.scene: scenario for scenario in eibench.load("test")}
        contexts = {name: reading_of(eibench).context(scenario, [], []) for name, scenario in scenes.items()}
        assert {name for name, context in contexts.items() if context.demand} == {"defense"}
        assert {name for name, context in contexts.items() if context.wrongs} == {"repair"}
        assert contexts["charm"].known == tuple(scenes["charm"].model.knows)

    def test_a_note_that_bears_on_today_is_known_and_the_others_hurt(self) -> None:
        daily = load_environment("daily")
        scenario = next(s for s in daily.load() if {m.bearing for m in s.dialogue_memory} >= {"bears", "overtaken"})
        context = reading_of(daily).context(scenario, [scenario.query], [])
        for note in scenario.dialogue_memory:
            assert (note.text in context.known) == (note.bearing == "bears") != (note.text in context.sore)


class TestData:
    def test_every_reply_has_a_context_and_every_judgement_a_reply(self) -> None:
        slots = {row["id"] for row in read_lines(FOLDER / "slots.jsonl")}
        for name, reply in REPLIES.items():
            assert reply["context"] in CONTEXTS
            assert name in slots or reply["voice"] in NOBODY
            assert reply["reply"].strip() or reply["voice"] in NOBODY
        for row in JUDGEMENTS:
            assert row["environment"] == CONTEXTS[REPLIES[row["id"]]["context"]]["environment"]
            assert not problems_of_judgement(row, row["environment"]), row["id"]
        assert len({(row["id"], row["judge"]) for row in JUDGEMENTS}) == len(JUDGEMENTS)

    def test_a_context_has_as_many_earlier_replies_as_turns(self) -> None:
        for context in CONTEXTS.values():
            assert len(context["replies"]) == context["turn"]
            assert half_of(context["scenario"]) == context["half"]

    def test_the_sealed_part_has_its_own_voices_and_scenarios(self) -> None:
        sealed = {c["scenario"] for c in CONTEXTS.values() if c["half"] == "held-out"}
        assert not sealed & {c["scenario"] for c in CONTEXTS.values() if c["half"] == "tuning"}
        for half, voices in VOICES.items():
            mine = {r["voice"] for r in REPLIES.values() if CONTEXTS[r["context"]]["half"] == half}
            assert mine - NOBODY - set(UNFITTED_VOICES) == set(voices)

    def test_the_sealed_part_is_the_committed_one(self) -> None:
        committed = dict(line.split()[::-1] for line in (FOLDER / "SEALED.sha256").read_text().splitlines())
        assert hashes() == committed


class TestExamples:
    def test_an_example_is_the_mean_of_its_judgements(self) -> None:
        examples = {example.id: example for example in read_examples(FOLDER, "tuning")}
        twice = next(name for name, n in Counter(row["id"] for row in JUDGEMENTS).items() if n == 2 and name in examples)
        rows = [row for row in JUDGEMENTS if row["id"] == twice]
        assert examples[twice].judges == 2
        assert examples[twice].change.tolist() == [sum(pair) / 2 for pair in zip(*(row["change"] for row in rows), strict=True)]
        assert examples[twice].reply == REPLIES[twice]["reply"]
        assert all(CONTEXTS[REPLIES[name]["context"]]["half"] == "tuning" for name in examples)

    def test_voice_and_length_explain_little(self) -> None:
        """The design asks for less than 5 %."""
        written = [example for example in read_examples(FOLDER, "tuning") if example.tier != "none"]
        assert explained(written) < 0.05

    def test_values_are_standardised_by_environment(self) -> None:
        examples = read_examples(FOLDER, "tuning")
        values = standardised(examples, lambda example: float(example.aspects[0]) + 10 * (example.environment == "sage"))
        mine = np.array([example.environment == "sage" for example in examples])
        assert abs(values[mine].mean()) < 1e-9
        assert values[mine].std() == pytest.approx(1.0)

    def test_a_folder_without_data_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"contexts\.jsonl"):
            read_examples(tmp_path, "tuning")


def test_the_counsellor_answers_lines_of_held_out_scenarios() -> None:
    """One reply for a line, none of tuning scenarios."""
    rows = read_lines(Path(str(resources.files("heartloop.models.baselines"))) / "written" / "counsellor.jsonl")
    assert all(half_of(row["scenario"]) == "held-out" and row["reply"].strip() for row in rows)
    assert len({(row["scenario"], row["line"]) for row in rows}) == len(rows)
