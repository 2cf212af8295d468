"""A checkout of EQ-Bench3 as scenarios: every text is read as it was written, or refused with its place; no line is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError, UseError
from heartloop.environments.eqbench.scenario import EQBenchScenario, load_scenarios, read_notes, read_prompts
from heartloop.environments.registry import load_environment
from tests.eqbench_checkout import CRITERIA, FILES, PROMPTS, SECTIONS, write_checkout

HERE = Path("scenario_prompts.txt")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_checkout(tmp_path / "checkout")


def by_id(checkout: Path) -> dict[str, EQBenchScenario]:
    return {scenario.id: scenario for scenario in load_scenarios(checkout)}


def test_scenarios_in_the_files_order_with_their_prompts_and_notes(checkout: Path) -> None:
    assert [(s.id, s.kind, s.category, s.title) for s in load_scenarios(checkout)] == [
        ("1", "role-play", "Neighbours", "The borrowed ladder"),
        ("2", "drafting", "Neighbours", "The note on the door"),
        ("3", "conversation", "Café", "The regular guest"),
        ("401", "analysis", "Reading it", "The ladder again"),
        ("409", "analysis", "Reading it", "The note again"),
    ]
    found = by_id(checkout)
    assert len(found["1"].official) == 2
    assert found["1"].official[1].startswith("He laughs at you over the fence.  You are")
    assert found["401"].official[0].startswith("# Act 1\nHe laughed over the fence, and she was ashamed.\n\n# Participant:\n")
    assert found["1"].notes == "He is lonely, and the ladder was a reason to talk."
    assert found["2"].notes == ""
    (checkout / "data" / "scenario_notes.txt").unlink()
    assert by_id(checkout)["1"].notes == ""


def test_each_kind_has_its_own_form_and_criteria(checkout: Path) -> None:
    form = {scenario.kind: scenario.form for scenario in by_id(checkout).values()}
    sections = {kind: one.sections for kind, one in form.items()}
    assert sections == {"role-play": SECTIONS, "drafting": ("Who reads it", "The note"), "conversation": (), "analysis": ()}
    assert form["conversation"].master == "{scenario_prompt}"
    assert form["analysis"].debrief is None
    assert form["conversation"].debrief == form["role-play"].debrief == FILES["data/debrief_prompt.txt"]
    rubric, analysis = form["role-play"].rubric, form["analysis"].rubric
    assert rubric.criteria == CRITERIA
    assert rubric.counted == set(CRITERIA) - {"warmth", "bluntness"}
    assert analysis.counted == {"depth_of_insight", "emotional_reasoning", "accuracy"}
    assert analysis.output_format == (
        '{\n  "chain_of_thought_reasoning": "why, at length",\n  "depth_of_insight": 0-20,\n'
        '  "emotional_reasoning": 0-20,\n  "accuracy": 0-20\n}'
    )


@pytest.mark.parametrize("stem", ["scenario_master_prompt", "debrief_prompt", "scenario_prompts"])
def test_the_fingerprint_changes_with_any_word_that_the_model_is_asked(tmp_path: Path, stem: str) -> None:
    name = f"data/{stem}.txt"
    other = write_checkout(tmp_path / "other", **{stem: FILES[name].replace(".", "!", 1)})
    assert by_id(other)["1"].fingerprint != by_id(write_checkout(tmp_path / "same"))["1"].fingerprint


def test_the_judges_texts_change_a_hash_and_no_fingerprint(tmp_path: Path) -> None:
    changed = FILES["data/rubric_scoring_prompt.txt"] + "Be strict."
    other, same = write_checkout(tmp_path / "other", rubric_scoring_prompt=changed), write_checkout(tmp_path / "same")
    left, right = by_id(other)["1"], by_id(same)["1"]
    assert left.fingerprint == right.fingerprint
    assert left.form.files["rubric_scoring_prompt"] != right.form.files["rubric_scoring_prompt"]


def test_officially_the_scenario_is_not_there_and_repaired_it_is(checkout: Path) -> None:
    scenario = by_id(checkout)["409"]
    assert scenario.official == ()
    assert scenario.repaired == ("# Act 1\nThey wrote a note to the family upstairs, and were sorry at once.",)
    spec = load_environment("eqbench")
    assert [s.id for s in spec.load(str(checkout))] == ["1", "2", "3", "401"]
    assert [s.id for s in spec.load(str(checkout), variant="repaired")] == ["1", "2", "3", "401", "409"]


@pytest.mark.parametrize(
    ("first", "second", "official"),
    [("Prompt1", "2", ("One.\n####### 2\nTwo.",)), ("1", "Prompt2", ("Two.",))],
    ids=["after a good one it is text", "before a good one it is lost"],
)
def test_officially_beside_a_good_header(first: str, second: str, official: tuple[str, ...]) -> None:
    text = f"######## 5 | a | b\n####### {first}\nOne.\n####### {second}\nTwo.\n"
    ((_, _, _, as_released, repaired),) = read_prompts(HERE, text)
    assert (as_released, repaired) == (official, ("One.", "Two."))


BROKEN_PROMPTS = {
    "no scenario": ("Hello.\n", 1),
    "nothing": ("\n\n", None),
    "text before": ("Hello.\n######## 5 | a | b\n####### Prompt1\nOne.\n", 1),
    "no title": ("######## 5 | a\n####### Prompt1\nOne.\n", 1),
    "two words for an id": ("######## 5 6 | a | b\n####### Prompt1\nOne.\n", 1),
    "an id twice": ("######## 5 | a | b\n####### Prompt1\nOne.\n######## 5 | a | b\n####### Prompt1\nTwo.\n", 4),
    "no prompt": ("######## 5 | a | b\n\n######## 6 | a | b\n####### Prompt1\nOne.\n", 1),
    "text before the prompt": ("######## 5 | a | b\nOne.\n####### Prompt1\nTwo.\n", 2),
    "a header of another form": ("######## 5 | a | b\n####### Prompt1\nOne.\n####### Question 2\nTwo.\n", 4),
    "too many signs": ("######## 5 | a | b\n######### Prompt1\nOne.\n", 2),
    "a number left out": ("######## 5 | a | b\n####### Prompt1\nOne.\n####### Prompt3\nThree.\n", 4),
    "a bare number left out": ("######## 5 | a | b\n####### Prompt1\nOne.\n####### 3\nThree.\n", 4),
    "an empty prompt": ("######## 5 | a | b\n####### Prompt1\n\n####### Prompt2\nTwo.\n", 1),
}


@pytest.mark.parametrize(("text", "line"), BROKEN_PROMPTS.values(), ids=BROKEN_PROMPTS)
def test_a_scenario_file_says_where_and_what_was_expected(text: str, line: int | None) -> None:
    with pytest.raises(InputError, match=r"expected|must") as caught:
        read_prompts(HERE, text)
    assert str(caught.value).startswith("scenario_prompts.txt")
    if line is not None:
        assert re.search(rf"line {line}\b", str(caught.value))


@pytest.mark.parametrize("text", ["Hm.\n# 1\nA.", "# 1 2\nA.", "# 1\nA.\n# 1\nB.", "# \nA."])
def test_a_note_file_too(text: str) -> None:
    with pytest.raises(InputError, match=r"notes.txt, line \d"):
        read_notes(Path("notes.txt"), text)


@pytest.mark.parametrize(
    ("stem", "text", "said"),
    [
        ("debrief_prompt", None, "missing"),
        ("debrief_prompt", " \n", "empty"),
        ("scenario_master_prompt", "Say it.\n# I say\n", "no blank; expected {scenario_prompt}"),
        ("scenario_master_prompt", "{scenario_prompt} and {more}\n# I say\n", "{more}, {scenario_prompt}"),
        ("scenario_master_prompt", "{scenario_prompt} }\n# I say\n", "braces doubled"),
        ("scenario_master_prompt", "{scenario_prompt}\nIn sections.\n", "no heading"),
        ("scenario_master_prompt", "{scenario_prompt.__class__}\n# I say\n", "scenario_prompt.__class__"),
        ("scenario_master_prompt", "{scenario_prompt:>9}\n# I say\n", "{scenario_prompt:>9}; expected"),
        ("scenario_master_prompt", "{scenario_prompt!r}\n# I say\n", "{scenario_prompt!r}; expected"),
        ("rubric_scoring_prompt", "{transcript} {output_format}", "expected {debrief}"),
        (
            "rubric_scoring_prompt_analysis",
            "{transcript} {debrief} {output_format}",
            "expected {output_format}, {transcript}",
        ),
        ("rubric_scoring_criteria", "warmth\n", "no criterion that counts"),
        ("rubric_scoring_criteria", "warmth\ndepth of insight\n", "line 2"),
        ("rubric_scoring_criteria", "accuracy\nwarmth\naccuracy\n", "line 3"),
        ("rubric_scoring_criteria", "accuracy\nchain_of_thought_reasoning\n", "line 2"),
        ("constants", None, "missing"),
        ("constants", "NO_RP_SCENARIO_IDS = {1 +}", "line 1: assignment of a set to NO_RP_SCENARIO_IDS is no literal"),
        ("constants", "X = 1\n", "NO_RP_SCENARIO_IDS"),
        ("constants", FILES["utils/constants.py"].replace('"2"', "2"), "line 4: MESSAGE_DRAFTING_SCENARIO_IDS"),
        ("benchmark", "x = {}\n", "STANDARD_ALLOWED_RUBRIC_CRITERIA"),
        ("benchmark", FILES["core/benchmark.py"].replace("chain_of", "chains_of"), "chain_of_thought_reasoning"),
    ],
)
def test_any_other_file_too(tmp_path: Path, stem: str, text: str | None, said: str) -> None:
    root = write_checkout(tmp_path / "checkout", **{stem: text})
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        load_scenarios(root)
    assert stem in str(caught.value)


def test_other_bytes_another_folder_and_a_tag_to_exclude(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(UseError, match="no tags"):
        load_scenarios(checkout, exclude_tags=["death"])
    with pytest.raises(UseError, match="EQ-bench/eqbench3"):
        load_scenarios(tmp_path / "nowhere")
    (checkout / "data" / "debrief_prompt.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="debrief_prompt"):
        load_scenarios(checkout)


LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30).filter(
    lambda line: bool(line.strip()) and not line.strip().startswith("#######")
)
PROMPTS_OF_ONE = st.lists(st.lists(LINE, min_size=1, max_size=4).map("\n".join), min_size=1, max_size=3)
WORDS = st.text("abcdefghij -–é", min_size=1, max_size=12).filter(str.strip)
IDS = st.from_regex(r"[0-9a-z]{1,4}", fullmatch=True)


@given(st.dictionaries(IDS, st.tuples(WORDS, WORDS, PROMPTS_OF_ONE), min_size=1, max_size=4))
def test_what_is_written_is_what_is_read(written: dict[str, tuple[str, str, list[str]]]) -> None:
    parts = [
        f"########  {id}  |  {category}| {title}\n"
        + "".join(f"####### Prompt{n}  \n{said}\n\n" for n, said in enumerate(texts, 1))
        for id, (category, title, texts) in written.items()
    ]
    found = read_prompts(HERE, "\n".join(parts))
    assert [id for id, *_ in found] == list(written)
    for id, category, title, official, repaired in found:
        assert (category, title) == (written[id][0].strip(), written[id][1].strip())
        assert official == repaired == tuple(said.strip() for said in written[id][2])


def refusal(read: Callable[[Path, str], Any], text: str) -> str:
    try:
        read(HERE, text)
    except InputError as error:
        return str(error)
    return ""


PIECES = st.sampled_from(
    [*PROMPTS.splitlines(), "########", "####### ", "####### Prompt", "######## 1", "####### 2", "| | |", "######## a|b|c", ""]
)


@given(st.lists(PIECES | LINE, max_size=12).map("\n".join))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    said = refusal(read_prompts, text)
    if said:
        assert re.match(r"scenario_prompts.txt(, line \d+| holds no)", said)
        return
    for *_, official, repaired in read_prompts(HERE, text):
        assert repaired
        assert all((*repaired, *official))
