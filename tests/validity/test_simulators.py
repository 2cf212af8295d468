"""Simulated users and people (suite `simulator`, `scoring.effects`)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from heartloop.core.dialogue import write_line
from heartloop.core.errors import InputError
from heartloop.environments.suites import Material
from heartloop.scoring.effects import standardised_distance
from heartloop.validity.simulators import MEASURES, SIMULATOR, Talk, pleasantness, read_people
from tests.commands import heartloop


def measured(name: str, *dialogues: tuple[str, ...]) -> list[float | None]:
    values = {measure.name: measure.values for measure in MEASURES}[name]
    return values([Talk(str(number), messages) for number, messages in enumerate(dialogues)])


def test_the_first_message_counts_for_no_share_or_length() -> None:
    answers = ("I feel sad.", "Why? My day was bad.", "Thank you, I'll try.", "That won't work.")
    spoken = ("A first message? Thanks, no.", *answers)
    assert measured("Words", spoken) == [(3 + 5 + 4 + 3) / 4]
    assert measured("Questions", spoken) == [25.0]
    assert measured("Disclosure", spoken) == [50.0]  # "I feel sad", "My day was bad"
    assert measured("First person", spoken) == [100 * 3 / 15]  # I, my, I'll
    assert measured("Agreement", spoken) == [25.0]
    assert measured("Pushback", spoken) == [25.0]
    assert measured("Words", ("only one",)) == [None]
    assert measured("Disclosure", ("", "I went home. She was sad.", "People are sad")) == [0.0], (
        "person and feeling in one sentence"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("good", 1), ("bad", -1), ("not good", -1), ("I don't feel so bad", 1), ("sad, alone, glad", -1 / 3), ("No. Good", 1)],
)
def test_pleasantness_of_words(text: str, expected: float) -> None:
    assert pleasantness(text) == pytest.approx(expected)


def test_relief_is_the_slope_over_all_messages() -> None:
    assert measured("Relief", ("sad", "Monday", "happy")) == [pytest.approx(1.0)]
    assert measured("Relief", ("happy", "Monday", "sad", "Monday")) == [pytest.approx(-0.4)]  # -(1.5 + 0.5) / 5
    assert measured("Relief", ("sad", "happy")) == [None]


def test_variety_is_that_of_42_words_however_long_the_dialogue() -> None:
    # 42 words, all different; then each of 42 words twice: a word is missing from 42 of 84 with C(82,42)/C(84,42)
    words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(42)]
    assert measured("Variety", ("", " ".join(words))) == [pytest.approx(1.0)]
    missing = math.comb(82, 42) / math.comb(84, 42)
    assert measured("Variety", ("", " ".join(words * 2))) == [pytest.approx(1 - missing)]
    twice = [f"{word}{end}" for word in words for end in "xy"]
    assert measured("Variety", ("", " ".join(twice))) == [pytest.approx(1.0)]
    assert measured("Variety", ("", " ".join(words[:41]))) == [None]


def test_courses_and_words_are_compared_with_those_of_other_scenarios() -> None:
    rises, falls = ("sad", "Monday", "happy"), ("happy", "Monday", "sad")
    assert measured("Spread", rises, falls, rises) == [
        pytest.approx(math.sqrt(8 / 3) / 2), pytest.approx(math.sqrt(8 / 3)), pytest.approx(math.sqrt(8 / 3) / 2),
    ]  # fmt: skip
    spread = next(measure for measure in MEASURES if measure.name == "Spread")
    assert spread.values([Talk("a", rises), Talk("a", falls)]) == [None, None]
    one = " ".join(["yes we can"] * 14)
    other = " ".join(["yes we must"] * 14)
    # pairs: yes we, we can, can yes; yes we, we must, must yes: one of five shared
    assert measured("Unlike", ("", one), ("", other)) == [pytest.approx(80), pytest.approx(80)]


def test_the_distance_by_hand() -> None:
    # means 2 and 5, variances 2 and 8: -3 / sqrt(5)
    found = standardised_distance([1, 3], [3, 7])
    assert found is not None
    assert found.mean == pytest.approx(-3 / math.sqrt(5))
    assert standardised_distance([1], [3, 7]) is None
    assert standardised_distance([1, 1], [3, 3]) is None


def test_the_interval_of_the_distance_is_over_clusters() -> None:
    mine, theirs = [float(n % 7) for n in range(40)], [float(n % 5) for n in range(40)]
    each = standardised_distance(mine, theirs)
    pairs = standardised_distance(mine * 2, theirs, clusters=list(range(40)) * 2)
    one = standardised_distance(mine, theirs, clusters=["a"] * 40)
    assert each and pairs and one  # noqa: PT018
    assert each.low < each.mean < each.high
    assert pairs.high - pairs.low == pytest.approx(each.high - each.low, rel=0.1)
    assert math.isnan(one.low)


CHATS = [
    ["I had a row with my sister and I feel awful.", "What happened?", "She talk I never call. I was so angry.", "That hurts.",
     "It does. Thanks for asking.", "Could you call her?", "No, not yet. Maybe tomorrow?", "Fine.", "Yeah. I feel a bit better."],
    ["My boss wants a report by Monday.", "And?", "I am tired of it.", "Rest then.", "You don't know my boss, that won't work.",
     "Sorry.", "Whatever. I will write it tonight."],
    ["The cat is sick.", "Oh no.", "The vet costs so much. I am worried.", "Is there a fund?", "Is there one? I had no idea!",
     "Yes.", "Thank you, I will ask them. I feel hopeful."],
]  # fmt: skip


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("simulators") / "chats.jsonl"
    roles = ("user", "assistant")
    lines = [json.dumps({"messages": [{"role": roles[n % 2], "content": t} for n, t in enumerate(chat)]}) for chat in CHATS]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_people_are_read_from_logs_corpora_and_runs(place: Path, chats: Path, tmp_path: Path) -> None:
    for path in (chats, chats.parent):
        assert [talk.messages for talk in read_people(path)] == [tuple(chat[::2]) for chat in CHATS]
    seekers = ("seeker", "supporter")
    dialog = [{"speaker": seekers[n % 2], "content": text} for n, text in enumerate(CHATS[0])]
    (tmp_path / "ESConv.json").write_text(json.dumps([{"dialog": dialog}]), encoding="utf-8")
    (tmp_path / "dialogues.json").write_text("[]")
    assert [talk.messages for talk in read_people(tmp_path)] == [tuple(CHATS[0][::2])]
    assert len(read_people(place / "run")) == 12
    with pytest.raises(InputError, match="missing"):
        read_people(tmp_path / "missing.jsonl")


def test_the_command_makes_a_card_for_each_simulator(place: Path, chats: Path) -> None:
    done = heartloop("validate", "run", "--suite", "simulator", "--people", str(chats), "--out", "v", cwd=place)
    assert done.code == 0, done
    record = json.loads((place / "v" / "validity.json").read_text())["simulator"]
    assert record["people"] == {"dialogues": 3, "messages": 10}
    measures = record["simulators"]["embedded"]["measures"]
    assert set(measures) == {measure.name for measure in MEASURES}
    for one in MEASURES:
        for side in ("simulator", "people"):
            cell = measures[one.name][side]
            assert cell is None or one.bounds[0] <= cell["low"] <= cell["high"] <= one.bounds[1]
    assert measures["Words"]["people"]["mean"] == pytest.approx(
        sum(sum(map(len, map(str.split, chat[2::2]))) / len(chat[2::2]) for chat in CHATS) / 3
    )
    assert "User simulator: embedded" in (place / "v" / "report" / "index.html").read_text(encoding="utf-8")


def test_users_compared_with_themselves_are_not_apart(counsellor: Material, tmp_path: Path) -> None:
    people = tmp_path / "transcripts.jsonl"
    people.write_text("".join(map(write_line, counsellor.dialogues)), encoding="utf-8")
    record = SIMULATOR.result(counsellor._replace(people=people), {}).record
    distances = [one["distance"] for one in record["simulators"]["embedded"]["measures"].values() if one["distance"]]
    assert distances
    assert all(one["mean"] == pytest.approx(0, abs=1e-9) for one in distances)
    assert "--people FILE" in str(SIMULATOR.lacks(counsellor))
