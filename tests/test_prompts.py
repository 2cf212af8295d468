"""Prompts are text files with named blanks, filled in one pass and identified by hash.

1. Values are not searched for blanks.
2. A blank without a value and a value without a blank are both refused.
3. The hash changes when a word changes; the note at a file's head is neither sent nor hashed.
4. Every shipped prompt loads, and the LLM user fills exactly its blanks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.errors import PromptError
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.environments.sage.users import SageLLMUser

SAGE = "heartloop.environments.sage"
WRITER = {
    "sage_persona": {"age", "place", "name", "gender", "traits", "sentences"},
    "sage_scene": {"persona", "theme", "purpose", "intention", "conflict_form", "tried_form", "problem_form"},
    "sage_voice": {"persona", "scene", "intention", "beats_need"},
    "audit_sage": {"intention"},
}
"""The prompts of the scenario writer with their blanks."""
SHIPPED = WRITER | {
    "policy": set(),
    "policy_think": set(),
    "policy_direct": set(),
    "feel": {"purpose", "intention", "goal", "manner", "persona", "background"},
    "feel_turn": {"dialogue", "emotion"},
    "speak": {"purpose", "intention", "goal", "manner", "persona", "background"},
    "speak_turn": {"dialogue", "planning", "band", "emotion"},
    "purpose_support": set(),
    "purpose_chat": set(),
    "manner_vanilla": set(),
    "manner_challenging": set(),
}
"""Every prompt of a dialogue with the blanks that `LLMUser` fills; tests/sage/test_llm_user.py sees them filled."""


def prompt(text: str) -> Prompt:
    return Prompt("greet", text, "")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The prompts folder of a package made for the test, `letters`."""
    (tmp_path / "letters" / "prompts").mkdir(parents=True)
    (tmp_path / "letters" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "letters" / "prompts"
    sys.modules.pop("letters", None)


def test_a_value_that_holds_a_blank_stays_as_it_was_written() -> None:
    filled = prompt("{{reply}} / {{emotion}}").fill(reply="{{emotion}} {{reply}} {{other}}", emotion="40")
    assert filled == "{{emotion}} {{reply}} {{other}} / 40"


@given(st.text(), st.text())
def test_braces_and_backslashes_in_what_people_say_mean_nothing(first: str, second: str) -> None:
    assert prompt("<{{a}}|{{b}}|{{a}}>").fill(a=first, b=second) == f"<{first}|{second}|{first}>"


def test_a_blank_without_a_value_is_refused_by_name() -> None:
    with pytest.raises(PromptError, match=r"'greet'.*\['mood'\].*\[\]"):
        prompt("{{name}} {{mood}}").fill(name="Ana")


def test_a_value_without_a_blank_is_refused_by_name() -> None:
    with pytest.raises(PromptError, match=r"'greet'.*\[\].*\['mood'\]"):
        prompt("{{name}}").fill(name="Ana", mood="40")


def test_single_braces_are_text() -> None:
    assert prompt('{"change": 0} {x} {{ y }} {{name}}').fill(name="Ana") == '{"change": 0} {x} {{ y }} Ana'


def test_the_hash_changes_when_a_word_changes(package: Path) -> None:
    (package / "one.md").write_text("Be kind to {{name}}.")
    (package / "two.md").write_text("Be fair to {{name}}.")
    (package / "three.md").write_text("Be kind to {{name}}.")
    one, two, three = (load_prompt("letters", name) for name in ("one", "two", "three"))
    assert one.hash != two.hash
    assert one.hash == three.hash
    assert len(one.hash) == 12
    assert set(one.hash) <= set("0123456789abcdef")


def test_the_note_at_the_head_is_neither_sent_nor_hashed(package: Path) -> None:
    (package / "bare.md").write_text("Be kind.\n")
    (package / "noted.md").write_text("<!-- A note\nin two lines. -->\n\nBe kind.\n")
    bare, noted = load_prompt("letters", "bare"), load_prompt("letters", "noted")
    assert noted.text == "Be kind."
    assert noted.hash == bare.hash


def test_a_comment_further_down_is_part_of_the_prompt(package: Path) -> None:
    (package / "late.md").write_text("Be kind. <!-- really -->")
    assert load_prompt("letters", "late").text == "Be kind. <!-- really -->"


@pytest.mark.parametrize("package_name", [SAGE, "heartloop.environments.nowhere"])
def test_a_prompt_that_does_not_exist_is_a_prompt_error(package_name: str) -> None:
    with pytest.raises(PromptError, match=r"'sonnet'.*sonnet\.md"):
        load_prompt(package_name, "sonnet")


def test_every_shipped_prompt_file_is_known_to_this_specification() -> None:
    files = {Path(entry.name).stem for entry in (resources.files(SAGE) / "prompts").iterdir() if entry.name.endswith(".md")}
    assert files == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_prompt_has_exactly_the_blanks_that_are_filled_and_no_stray_ones(name: str) -> None:
    loaded = load_prompt(SAGE, name)
    assert loaded.blanks == SHIPPED[name]
    filled = loaded.fill(**dict.fromkeys(SHIPPED[name], "x"))
    assert "{{" not in filled  # a misspelt blank, such as {{Name}}, would be sent as it is
    assert "<!--" not in filled
    assert filled


@pytest.mark.parametrize("variant", ["vanilla", "challenging"])
def test_the_llm_user_names_the_hash_of_every_prompt_it_sends(variant: str) -> None:
    hashes = SageLLMUser(ScriptedChat([])).describe(variant)["prompts"]
    sent = set(SHIPPED) - set(WRITER) - {"policy", "policy_think", "policy_direct", "manner_vanilla", "manner_challenging"} | {
        f"manner_{variant}"
    }
    assert hashes == {name: load_prompt(SAGE, name).hash for name in sent}
