"""SAGE scenarios: published counts, schema, rules of written lines, and reading from files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from heartloop.authoring.checks import problems_of_set
from heartloop.core.errors import InputError, UseError
from heartloop.environments.sage.scenario import (
    INTENTIONS,
    SCENARIOS,
    SETS,
    SageScenario,
    load_any,
    load_scenarios,
    problems_of,
)

PUBLISHED = {
    "dialectic": 12, "advice": 15, "motives": 11, "reflection": 13, "praise": 13, "listen": 12, "empathy": 13, "blameless": 11,
}  # fmt: skip
"""SAGE Table 3."""
CHAT = {"interest": 20, "passive": 20}
TRAINING = {
    "dialectic": 26, "advice": 24, "motives": 24, "reflection": 26, "praise": 24, "listen": 25, "empathy": 25, "blameless": 26,
}  # fmt: skip
TABLE_4 = {
    "dialectic": 66, "advice": 58, "motives": 60, "reflection": 66, "praise": 57, "listen": 63, "empathy": 64, "blameless": 66,
}  # fmt: skip
"""RLVER Table 4: 500 training scenarios."""
SUPPORT = load_scenarios("support")
ONE = SUPPORT[0]

GIVE_AWAYS = {
    "dialectic": "I just want to see both sides of this, because so far everybody only shouts.",
    "advice": "My boss moved my desk into the corridor again. What should I do about him?",
    "motives": "My best friend left my party early, and I keep asking why did she do that to me.",
    "reflection": "The third cook left this year. I would like to see my own part in it.",
    "praise": "I carried the whole truck through the flood. Nobody said well done to me, ever.",
    "listen": "Fourth night with no sleep. I just need to vent for a while, if that is fine.",
    "empathy": "My dog died on Sunday, and nobody seems to understand how I feel about him.",
    "blameless": "The buyer called me a butcher, and it was not my fault, whatever he says.",
    "interest": "I have forty-one moths on the kitchen wall tonight. Can we talk about moths?",
    "passive": "Long shift, feet up, tea is getting cold beside me. You talk, I listen.",
}
"""A first message for each intention that gives it away."""


def record_of(scenario: SageScenario) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(scenario.model_dump_json())
    return record


def changed(path: str, *values: object) -> dict[str, Any]:
    """The record of a scenario with another value at a path; without the field if no value is given."""
    record: Any = record_of(ONE)
    *before, last = path.split(".")
    holder = record
    for part in before:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    if values:
        holder[last] = values[0]
    else:
        del holder[last]
    return dict(record)


def problems_after(**changes: Any) -> str:
    return "\n".join(problems_of(SageScenario.model_validate(record_of(ONE) | changes)))


class TestShippedSets:
    def test_the_intentions_have_the_published_counts_and_kinds(self) -> None:
        assert {key: row.cases for key, row in INTENTIONS.items()} == PUBLISHED | CHAT
        assert sum(PUBLISHED.values()) == 100
        assert {key for key in PUBLISHED if INTENTIONS[key].rational} == {"dialectic", "advice", "motives", "reflection"}

    def test_the_training_set_has_the_published_spread(self) -> None:
        assert (sum(TRAINING.values()), sum(TABLE_4.values())) == (200, 500)
        assert all(abs(TRAINING[key] - 0.4 * n) < 1.5 for key, n in TABLE_4.items())

    @pytest.mark.parametrize("name", SETS)
    def test_a_shipped_set_has_the_published_size_and_passes_every_check(self, name: str) -> None:
        scenarios = load_any(name)
        assert Counter(s.intention for s in scenarios) == {"support": PUBLISHED, "chat": CHAT, "support-training": TRAINING}[name]
        assert problems_of_set(SCENARIOS, scenarios) == []
        assert all(s.id.startswith(f"{s.family}-{s.intention}-") for s in scenarios)
        for distinct in ({s.id for s in scenarios}, {s.persona.name for s in scenarios}, {s.first_message for s in scenarios}):
            assert len(distinct) == len(scenarios)


class TestSchema:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("intention", "revenge"), ("intention", "passive"), ("family", "fight"), ("tags", ["sadness"]), ("tags", []),
            ("id", "Support 1"), ("persona.age", 7), ("persona.temperament", "jolly"), ("persona.hobbies", ["only", "two"]),
            ("persona.name", "  "), ("beats.0.kind", "rumour"), ("beats.0.about", "weather"), ("beats.0.concern", "dragons"),
            ("concerns.0.depth", "abyss"), ("first_message", "x" * 321), ("lines.acks", []), ("background.timeline", []),
            ("shoe_size", 43), ("persona.shoe_size", 43), ("background.reactions.shoe_size", 43), ("beats.0.shoe_size", 43),
        ],
    )  # fmt: skip
    def test_a_value_outside_its_range_and_an_unknown_field_are_refused(self, field: str, value: object) -> None:
        with pytest.raises(ValidationError):
            SageScenario.model_validate(changed(field, value))

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("intention", "revenge", "intention 'revenge' is unknown; expected one of dialectic, advice"),
            ("intention", "passive", "belongs to family 'chat', not 'support'"),
            ("beats.3.concern", "dragons", "concerns that are not listed: dragons"),
            ("concerns.1.key", ONE.concerns[0].key, "concern keys repeat"),
            ("background.tried", record_of(ONE)["background"]["tried"][:1], r"at least two background\.tried"),
        ],
    )
    def test_an_inconsistent_scenario_is_refused_with_the_reason(self, field: str, value: object, said: str) -> None:
        with pytest.raises(ValidationError, match=said):
            SageScenario.model_validate(changed(field, value))

    def test_the_fingerprint_changes_when_any_word_does_and_only_then(self) -> None:
        record = record_of(ONE)
        assert SageScenario.model_validate(record).fingerprint == ONE.fingerprint
        record["lines"]["silence"][0] += " Hm."
        assert SageScenario.model_validate(record).fingerprint != ONE.fingerprint
        assert len({s.fingerprint for s in SUPPORT}) == len(SUPPORT)


class TestRules:
    @pytest.mark.parametrize("intention", INTENTIONS)
    def test_a_first_message_that_gives_its_own_intention_away_is_refused(self, intention: str) -> None:
        for other, refused in ((intention, True), ("passive" if intention != "passive" else "dialectic", False)):
            person = ONE.model_copy(update={"intention": other, "first_message": GIVE_AWAYS[intention]})
            assert any("gives the intention away" in problem for problem in problems_of(person)) is refused

    @pytest.mark.parametrize(
        ("group", "line", "problem"),
        [
            ("cold", f"So be it. {ONE.beats[2].text.upper()}", "sentence is spoken twice"),
            ("vague", ONE.first_message.split(". ")[0] + ".", "sentence is spoken twice"),
            ("thanks", "That is all I have to say, and I am leaving.", "closing line has no goodbye"),
            ("leave", "That is all I have to say, and I am leaving.", "closing line has no goodbye"),
        ],
    )
    def test_written_lines(self, group: str, line: str, problem: str) -> None:
        lines = record_of(ONE)["lines"]
        lines[group][0] = line
        assert problem in problems_after(lines=lines)

    def test_beats_that_do_not_end_at_the_core_are_refused(self) -> None:
        beats = record_of(ONE)["beats"]
        assert "end at the core" in problems_after(beats=beats[::-1])
        assert "at least two beats must be of kind core" in problems_after(
            beats=[beat | {"kind": "fact"} for beat in beats[:-1]] + beats[-1:]
        )

    @pytest.mark.parametrize("about", ["tried", "feeling", "other"])
    def test_a_support_scenario_without_a_beat_about_the_essentials_is_refused(self, about: str) -> None:
        beats = [beat | {"about": "event"} if beat["about"] == about else beat for beat in record_of(ONE)["beats"]]
        assert "no beat is about" in problems_after(beats=beats)

    def test_a_scenario_without_a_concern_at_the_core_is_refused(self) -> None:
        concerns = [concern | {"depth": "surface"} for concern in record_of(ONE)["concerns"]]
        assert "no concern of depth core" in problems_after(concerns=concerns)


class TestReading:
    def write(self, folder: Path, *lines: str) -> Path:
        path = folder / "mine.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def test_a_written_set_is_read_back_blank_lines_skipped(self, tmp_path: Path) -> None:
        lines = [s.model_dump_json() for s in SUPPORT[:3]]
        assert load_scenarios(self.write(tmp_path, lines[0], "", "  ", lines[1], lines[2])) == SUPPORT[:3]

    @pytest.mark.parametrize(
        ("broken", "where"),
        [
            ("{oops", "record: not JSON"),
            ("[]", "record: "),
            (json.dumps(changed("id", "x")), "id: "),
            (json.dumps(changed("id", SUPPORT[1].id)), "id: .* is already on line 1; ids must differ"),
            (json.dumps(changed("intention", "revenge")), "intention: .*'revenge' is unknown"),
            (json.dumps(changed("tags", ["sadness"])), r"tags\.0: "),
            (json.dumps(changed("goal")), "goal: is missing"),
        ],
    )
    def test_a_broken_line_is_named_with_file_number_and_field(self, tmp_path: Path, broken: str, where: str) -> None:
        path = self.write(tmp_path, SUPPORT[1].model_dump_json(), "", broken)
        with pytest.raises(InputError, match=rf"mine\.jsonl, line 3, {where}"):
            load_scenarios(str(path))

    @pytest.mark.parametrize(("data", "said"), [(b"\n", "no scenario"), (b"\xff\xfe\x00", "UTF-8 JSON lines")])
    def test_a_file_without_a_scenario_is_refused(self, tmp_path: Path, data: bytes, said: str) -> None:
        (tmp_path / "mine.jsonl").write_bytes(data)
        with pytest.raises(InputError, match=said):
            load_scenarios(tmp_path / "mine.jsonl")

    @pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
    def test_a_separator_inside_a_string_is_no_line_break(self, tmp_path: Path, separator: str) -> None:
        record = record_of(ONE) | {"goal": f"To see it clearly.{separator}And then to sleep."}
        (scenario,) = load_scenarios(self.write(tmp_path, json.dumps(record, ensure_ascii=False)))
        assert separator in scenario.goal

    @pytest.mark.parametrize("name", ["holidays", "", "/nowhere/mine.jsonl"])
    def test_an_unknown_set_is_refused_with_the_known_ones(self, name: str) -> None:
        with pytest.raises(UseError, match=f"unknown scenario set '{name}'; expected support or chat or .*, or the path"):
            load_scenarios(name)

    def test_excluded_tags(self, tmp_path: Path) -> None:
        remaining = load_scenarios("support", exclude_tags=["death", "illness"])
        assert remaining == [s for s in SUPPORT if not {"death", "illness"} & set(s.tags)]
        assert 0 < len(remaining) < len(SUPPORT)
        with pytest.raises(UseError, match="unknown tag 'ilness'; the nearest is 'illness'; expected one of self-harm, "):
            load_scenarios("support", exclude_tags=["death", "ilness"])
        path = self.write(tmp_path, json.dumps(changed("tags", ["death"])))
        with pytest.raises(UseError, match="leaves no scenario"):
            load_scenarios(str(path), exclude_tags=["death"])
