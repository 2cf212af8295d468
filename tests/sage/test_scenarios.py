"""The people of SAGE: the schema of a scenario, the shipped sets, and what is refused.

1. The shipped sets load, hold the published number of cases for each hidden intention, and pass every check.
2. A scenario with a slot missing, empty or unknown is refused, with the place and the mend.
3. A first message may not give its intention away; no sentence is spoken twice; closings say goodbye.
4. A broken line, an unknown set, an unknown tag end in one clear sentence.

Do not fix one of these tests without a decision (docs/decisions).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from heartloop.authoring.checks import problems_of_set
from heartloop.core.errors import InputError, UseError
from heartloop.environments.records import half_of
from heartloop.environments.sage.scenario import (
    GIVE_AWAY_PATTERNS,
    INTENTIONS,
    SCENARIOS,
    SETS,
    SageScenario,
    load_scenarios,
    problems_of,
)

PUBLISHED = {
    "dialectic": 12, "advice": 15, "motives": 11, "reflection": 13, "praise": 13, "listen": 12, "empathy": 13, "blameless": 11,
}  # fmt: skip
"""SAGE Table 3."""
CHAT = {"interest": 20, "passive": 20}
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
"""A first message for each intention that says what its person secretly wants."""


def plain(scenario: SageScenario) -> dict[str, Any]:
    """A scenario as the dictionary that stands in its file."""
    found: dict[str, Any] = json.loads(scenario.model_dump_json())
    return found


def slots(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every named slot of a scenario, one element of each list standing for the rest."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from slots(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from slots(value[0], (*path, "0"))


ALL_SLOTS = [".".join(path) for path in slots(plain(ONE))]


def at(record: Any, path: list[str]) -> Any:
    for part in path:
        record = record[int(part)] if isinstance(record, list) else record[part]
    return record


def problems_after(**changes: Any) -> str:
    return "\n".join(problems_of(SageScenario.model_validate(plain(ONE) | changes)))


class TestShippedSets:
    """What ships."""

    def test_the_intentions_have_the_published_counts(self) -> None:
        assert {key: row.cases for key, row in INTENTIONS.items() if row.family == "support"} == PUBLISHED
        assert {key: row.cases for key, row in INTENTIONS.items() if row.family == "chat"} == CHAT
        assert sum(PUBLISHED.values()) == 100

    def test_four_intentions_are_rational_and_four_emotional(self) -> None:
        assert {key for key in PUBLISHED if INTENTIONS[key].rational} == {"dialectic", "advice", "motives", "reflection"}

    @pytest.mark.parametrize("name", SETS)
    def test_a_shipped_set_has_the_published_number_of_people_for_each_intention(self, name: str) -> None:
        assert Counter(s.intention for s in load_scenarios(name)) == (PUBLISHED if name == "support" else CHAT)

    @pytest.mark.parametrize("name", SETS)
    def test_a_shipped_set_passes_every_check(self, name: str) -> None:
        assert problems_of_set(SCENARIOS, load_scenarios(name)) == []

    @pytest.mark.parametrize("name", SETS)
    def test_ids_name_family_and_intention_and_differ(self, name: str) -> None:
        scenarios = load_scenarios(name)
        assert len({s.id for s in scenarios}) == len(scenarios)
        assert all(s.id.startswith(f"{name}-{s.intention}-") and s.family == name for s in scenarios)

    @pytest.mark.parametrize("name", SETS)
    def test_no_two_people_of_a_set_share_their_whole_name_or_their_first_message(self, name: str) -> None:
        scenarios = load_scenarios(name)
        assert len({s.persona.name for s in scenarios}) == len(scenarios)
        assert len({s.first_message for s in scenarios}) == len(scenarios)

    def test_the_people_are_of_many_ages_places_and_temperaments(self) -> None:
        ages = [s.persona.age for s in SUPPORT]
        assert min(ages) <= 18
        assert max(ages) >= 75
        assert len({s.persona.place.rpartition(",")[2].strip() for s in SUPPORT}) >= 30
        assert len({s.persona.temperament for s in SUPPORT}) == 7

    def test_the_halves_depend_on_the_id_alone_and_are_both_large(self) -> None:
        # sha256("support-listen-01") begins with an odd or even byte, and nobody chose which
        halves = Counter(half_of(s.id) for s in SUPPORT)
        assert set(halves) == {"tuning", "held-out"}
        assert min(halves.values()) >= 35
        assert half_of(ONE.id) == half_of(ONE.model_copy(update={"title": "Another title"}).id)


class TestSlots:
    """Every slot must be there, and nothing else."""

    @pytest.mark.parametrize("slot", ALL_SLOTS)
    def test_a_missing_slot_is_refused(self, slot: str) -> None:
        record = plain(ONE)
        *before, last = slot.split(".")
        del at(record, before)[last]
        with pytest.raises(ValidationError) as caught:
            SageScenario.model_validate(record)
        assert last in str(caught.value)

    @pytest.mark.parametrize("slot", [s for s in ALL_SLOTS if isinstance(at(plain(ONE), s.split(".")), str)])
    def test_an_empty_slot_is_refused(self, slot: str) -> None:
        record = plain(ONE)
        *before, last = slot.split(".")
        at(record, before)[last] = "  "
        with pytest.raises(ValidationError):
            SageScenario.model_validate(record)

    @pytest.mark.parametrize("slot", [s for s in ALL_SLOTS if isinstance(at(plain(ONE), s.split(".")), list)])
    def test_an_empty_list_is_refused(self, slot: str) -> None:
        record = plain(ONE)
        *before, last = slot.split(".")
        at(record, before)[last] = []
        with pytest.raises(ValidationError):
            SageScenario.model_validate(record)

    @pytest.mark.parametrize("where", ["", "persona", "background", "background.reactions", "lines", "beats.0", "concerns.0"])
    def test_an_unknown_slot_is_refused(self, where: str) -> None:
        record = plain(ONE)
        at(record, where.split(".") if where else [])["shoe_size"] = "43"
        with pytest.raises(ValidationError, match="shoe_size"):
            SageScenario.model_validate(record)

    @pytest.mark.parametrize(
        ("slot", "value"),
        [
            ("intention", "revenge"), ("family", "fight"), ("tags", ["sadness"]), ("id", "Support 1"), ("persona.age", 7),
            ("persona.temperament", "jolly"), ("persona.hobbies", ["only", "two"]), ("beats.0.kind", "rumour"),
            ("beats.0.about", "weather"), ("concerns.0.depth", "abyss"), ("first_message", "x" * 321),
        ],
    )  # fmt: skip
    def test_a_value_outside_its_range_is_refused(self, slot: str, value: object) -> None:
        record = plain(ONE)
        *before, last = slot.split(".")
        at(record, before)[last] = value
        with pytest.raises(ValidationError, match=last):
            SageScenario.model_validate(record)

    def test_an_unknown_intention_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(ValidationError, match="intention 'revenge' is unknown; expected one of dialectic, advice"):
            SageScenario.model_validate(plain(ONE) | {"intention": "revenge"})

    def test_an_intention_of_the_other_family_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="belongs to family 'chat', not 'support'"):
            SageScenario.model_validate(plain(ONE) | {"intention": "passive"})

    def test_a_beat_about_a_concern_nobody_has_is_refused(self) -> None:
        record = plain(ONE)
        record["beats"][3]["concern"] = "dragons"
        with pytest.raises(ValidationError, match="concerns that are not listed: dragons"):
            SageScenario.model_validate(record)

    def test_two_concerns_of_one_key_are_refused(self) -> None:
        record = plain(ONE)
        record["concerns"][1]["key"] = record["concerns"][0]["key"]
        with pytest.raises(ValidationError, match="concern keys repeat"):
            SageScenario.model_validate(record)

    def test_a_supportive_scenario_with_one_failed_attempt_is_refused(self) -> None:
        record = plain(ONE)
        record["background"]["tried"] = record["background"]["tried"][:1]
        with pytest.raises(ValidationError, match=r"at least two background\.tried"):
            SageScenario.model_validate(record)

    def test_the_fingerprint_changes_when_any_word_does_and_only_then(self) -> None:
        assert SageScenario.model_validate(plain(ONE)).fingerprint == ONE.fingerprint
        record = plain(ONE)
        record["lines"]["silence"][0] += " Hm."
        assert SageScenario.model_validate(record).fingerprint != ONE.fingerprint
        assert len({s.fingerprint for s in SUPPORT}) == len(SUPPORT)


class TestRules:
    """What the schema lets through and a shipped scenario may still not have."""

    @pytest.mark.parametrize("intention", INTENTIONS)
    def test_a_first_message_that_gives_its_intention_away_is_refused(self, intention: str) -> None:
        person = ONE.model_copy(update={"intention": intention, "first_message": GIVE_AWAYS[intention]})
        assert any("gives the intention away" in problem for problem in problems_of(person))

    @pytest.mark.parametrize("intention", INTENTIONS)
    def test_the_same_first_message_with_another_intention_may_be_harmless(self, intention: str) -> None:
        other = "passive" if intention != "passive" else "dialectic"
        person = ONE.model_copy(update={"intention": other, "first_message": GIVE_AWAYS[intention]})
        assert not any("gives the intention away" in problem for problem in problems_of(person))

    def test_every_intention_has_its_patterns(self) -> None:
        assert set(GIVE_AWAY_PATTERNS) == set(INTENTIONS) == set(GIVE_AWAYS)

    def test_a_sentence_said_twice_is_refused_punctuation_and_case_aside(self) -> None:
        lines = plain(ONE)["lines"]
        lines["cold"][0] = f"So be it. {ONE.beats[2].text.upper()}"
        assert "sentence is spoken twice" in problems_after(lines=lines)

    def test_a_sentence_of_the_first_message_may_not_come_again(self) -> None:
        lines = plain(ONE)["lines"]
        lines["vague"][0] = ONE.first_message.split(". ")[0] + "."
        assert "sentence is spoken twice" in problems_after(lines=lines)

    @pytest.mark.parametrize("closing", ["thanks", "leave"])
    def test_a_closing_without_a_goodbye_is_refused(self, closing: str) -> None:
        lines = plain(ONE)["lines"]
        lines[closing][0] = "That is all I have to say, and I am leaving."
        assert "closing line has no goodbye" in problems_after(lines=lines)

    def test_beats_that_do_not_end_at_the_core_are_refused(self) -> None:
        beats = plain(ONE)["beats"]
        assert "end at the core" in problems_after(beats=beats[::-1])
        for beat in beats[:-1]:
            beat["kind"] = "fact"
        assert "at least two beats must be of kind core" in problems_after(beats=beats)

    @pytest.mark.parametrize("about", ["tried", "feeling", "other"])
    def test_a_supportive_scenario_without_a_beat_about_the_essentials_is_refused(self, about: str) -> None:
        beats = plain(ONE)["beats"]
        for beat in beats:
            beat["about"] = "event" if beat["about"] == about else beat["about"]
        assert "no beat is about" in problems_after(beats=beats)

    def test_a_scenario_without_a_concern_at_the_core_is_refused(self) -> None:
        concerns = plain(ONE)["concerns"]
        for concern in concerns:
            concern["depth"] = "surface"
        assert "no concern of depth core" in problems_after(concerns=concerns)


class TestReading:
    """From a file, with the place and the mend in every refusal."""

    def write(self, path: Path, *lines: str) -> Path:
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def test_a_written_set_is_read_back_blank_lines_skipped(self, tmp_path: Path) -> None:
        lines = [s.model_dump_json() for s in SUPPORT[:3]]
        path = self.write(tmp_path / "mine.jsonl", lines[0], "", "  ", lines[1], lines[2])
        assert load_scenarios(path) == SUPPORT[:3]

    @pytest.mark.parametrize(
        ("broken", "where"),
        [
            ("{oops", "record: not JSON"),
            ("[]", "record: "),
            (json.dumps(plain(ONE) | {"id": "x"}), "id: "),
            (json.dumps(plain(ONE) | {"intention": "revenge"}), "intention: .*'revenge' is unknown"),
            (json.dumps(plain(ONE) | {"tags": ["sadness"]}), r"tags\.0: "),
            (json.dumps({k: v for k, v in plain(ONE).items() if k != "goal"}), "goal: is missing"),
        ],
        ids=["no JSON", "no object", "id", "intention", "tag", "slot"],
    )
    def test_a_broken_line_is_named_with_file_number_field_and_mend(self, tmp_path: Path, broken: str, where: str) -> None:
        path = self.write(tmp_path / "mine.jsonl", SUPPORT[1].model_dump_json(), "", broken)
        with pytest.raises(InputError, match=rf"mine\.jsonl, line 3, {where}"):
            load_scenarios(str(path))

    def test_two_equal_ids_are_refused_with_both_lines(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "mine.jsonl", ONE.model_dump_json(), ONE.model_dump_json())
        with pytest.raises(InputError, match=f"line 2, id: '{ONE.id}' is already on line 1; ids must differ"):
            load_scenarios(str(path))

    def test_a_file_without_a_scenario_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no scenario"):
            load_scenarios(self.write(tmp_path / "mine.jsonl", ""))

    def test_a_file_that_is_no_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "mine.jsonl").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match="expected UTF-8 JSON lines"):
            load_scenarios(tmp_path / "mine.jsonl")

    @pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
    def test_a_separator_inside_a_string_is_no_line_break(self, tmp_path: Path, separator: str) -> None:
        record = plain(ONE) | {"goal": f"To see it clearly.{separator}And then to sleep."}
        (scenario,) = load_scenarios(self.write(tmp_path / "mine.jsonl", json.dumps(record, ensure_ascii=False)))
        assert separator in scenario.goal

    @pytest.mark.parametrize("name", ["holidays", "", "/nowhere/mine.jsonl"])
    def test_an_unknown_set_is_refused_with_the_known_ones(self, name: str) -> None:
        with pytest.raises(UseError, match=f"unknown scenario set '{name}'; expected support or chat, or the path"):
            load_scenarios(name)

    def test_an_unknown_tag_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(
            UseError, match="unknown tag 'sadness'; the nearest is 'illness'; expected one of self-harm, suicide, "
        ):
            load_scenarios("support", exclude_tags=["death", "sadness"])

    def test_an_excluded_tag_leaves_out_everyone_who_carries_it(self) -> None:
        kept = load_scenarios("support", exclude_tags=["death", "illness"])
        assert kept == [s for s in SUPPORT if not {"death", "illness"} & set(s.tags)]
        assert 0 < len(kept) < len(SUPPORT)

    def test_excluding_everybody_is_refused(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "mine.jsonl", json.dumps(plain(ONE) | {"tags": ["death"]}))
        with pytest.raises(UseError, match="leaves no scenario"):
            load_scenarios(str(path), exclude_tags=["death"])
