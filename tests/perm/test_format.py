"""The form of an answer: two headings in their order, and a name for every other form."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.environments.perm.scenario import BROKEN, PLACEHOLDERS, PermAnswer, parse

GOOD = "# Analysis\nShe is proud.\n\n# Response\nIt floats!"


@pytest.mark.parametrize("text", [GOOD, "\n\n" + GOOD.replace("\n", " \r\n") + "\n\n"])
def test_the_parts_are_what_follows_the_headings_with_any_line_ends(text: str) -> None:
    assert parse(text) == PermAnswer("She is proud.", "It floats!")


@pytest.mark.parametrize("inside", ["## Analysis", "# Response time", "# analysis", "**# Response**", "#Response", " # Response"])
def test_what_only_resembles_a_heading_is_text(inside: str) -> None:
    assert parse(f"# Analysis\nA.\n{inside}\nB.\n# Response\nC.") == PermAnswer(f"A.\n{inside}\nB.", "C.")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("It floats!", "no analysis"),
        ("# Response\nIt floats!", "no analysis"),
        ("# analysis\nA.\n# Response\nIt floats!", "no analysis"),
        ("# Analysis\nShe is proud.", "no response"),
        ("# Analysis: she is proud.\n# Response\nIt floats!", "no analysis"),
        (f"{GOOD}\n# Response\nAgain.", "twice"),
        (f"# Analysis\n{GOOD}", "twice"),
        ("# Response\nIt floats!\n# Analysis\nShe is proud.", "wrong order"),
        (f"Sure:\n{GOOD}", "text before"),
        ("# Analysis\n\n# Response\nIt floats!", "empty part"),
        ("# Analysis\nShe is proud.\n# Response\n  ", "empty part"),
        ("# Analysis\nShe is proud.\n# Response\n(your words to them) ", "empty part"),
        ("# Analysis\n(what goes on in them)\n# Response\nIt floats!", "empty part"),
    ],
)
def test_another_form_has_a_name(text: str, kind: str) -> None:
    assert parse(text) == PermAnswer("", "", kind)
    assert kind in BROKEN


def test_the_placeholders_are_those_of_the_prompt() -> None:
    folder = files("heartloop.environments.perm") / "prompts"
    prompts = [(folder / f"{name}.md").read_text(encoding="utf-8") for name in ("policy", "message_paper")]
    for prompt in prompts:
        assert parse(prompt[prompt.index("# Analysis") :]).broken == "empty part"
    assert all(words in "".join(prompts) for words in PLACEHOLDERS)


words = st.text(alphabet=st.characters(codec="utf-8"), max_size=60).filter(
    lambda t: "# Analysis" not in t and "# Response" not in t
)


@given(words, words)
def test_two_parts_put_together_come_apart_again(analysis: str, response: str) -> None:
    found = parse(f"# Analysis\n{analysis}\n# Response\n{response}")
    if all(part.strip() and part.strip() not in PLACEHOLDERS for part in (analysis, response)):
        assert found == PermAnswer(analysis.strip(), response.strip())
    else:
        assert found.broken == "empty part"
