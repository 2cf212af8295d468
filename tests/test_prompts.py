"""Prompts are text files with named blanks, filled in one pass and identified by hash."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import PromptError
from heartloop.core.prompts import Prompt, load_prompt
from tests.environments.shipped import SHIPPED


def prompt(text: str) -> Prompt:
    return Prompt("greet", text, "")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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


def test_a_blank_without_a_value_and_a_value_without_a_blank_are_refused_by_name() -> None:
    with pytest.raises(PromptError, match=r"'greet'.*\['mood'\].*\['day'\]"):
        prompt("{{name}} {{mood}}").fill(name="Ana", day="Friday")


def test_single_braces_are_text() -> None:
    assert prompt('{"change": 0} {x} {{ y }} {{name}}').fill(name="Ana") == '{"change": 0} {x} {{ y }} Ana'


def test_the_hash_changes_when_a_word_changes(package: Path) -> None:
    (package / "one.md").write_text("Be kind to {{name}}.")
    (package / "two.md").write_text("Be fair to {{name}}.")
    one, two = (load_prompt("letters", name) for name in ("one", "two"))
    assert one.hash != two.hash
    assert len(one.hash) == 12


def test_the_note_at_the_head_is_neither_sent_nor_hashed(package: Path) -> None:
    (package / "bare.md").write_text("Be kind.\n")
    (package / "noted.md").write_text("<!-- A note\nin two lines. -->\n\nBe kind.\n")
    bare, noted = load_prompt("letters", "bare"), load_prompt("letters", "noted")
    assert noted.text == "Be kind."
    assert noted.hash == bare.hash


@pytest.mark.parametrize("package_name", ["heartloop.environments.sage", "heartloop.environments.nowhere"])
def test_a_prompt_that_does_not_exist_is_a_prompt_error(package_name: str) -> None:
    with pytest.raises(PromptError, match=r"'sonnet'.*sonnet\.md"):
        load_prompt(package_name, "sonnet")


def test_no_shipped_prompt_has_a_misspelt_blank_or_a_comment() -> None:
    packages = [f"heartloop.{entry}" for entry in ("authoring", *(f"environments.{name}" for name in SHIPPED))]
    folders = [(package, resources.files(package) / "prompts") for package in packages]
    files = [(package, Path(entry.name).stem) for package, folder in folders if folder.is_dir() for entry in folder.iterdir()]
    assert len(files) > 30
    for package, name in files:
        loaded = load_prompt(package, name)
        filled = loaded.fill(**dict.fromkeys(loaded.blanks, "x"))
        assert "{{" not in filled, name  # a misspelt blank, such as {{Name}}, would be sent as it is
        assert "<!--" not in filled, name
        assert filled
