"""The sections of an answer: found as the released code finds them, odd cuts and all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.environments.eqbench.scenario import as_judged, sections_of

HEADINGS = ("I'm feeling", "Side-taking", "I say")
WHOLE = "# I'm feeling\nsad\n\n# Side-taking\nhe is lonely\n\n# I say\nStay.\n"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (WHOLE, ("sad", "he is lonely", "Stay.")),
        (WHOLE.upper(), ("SAD", "HE IS LONELY", "STAY.")),
        (WHOLE.replace("'", "’").replace("-", " "), ("sad", "he is lonely", "Stay.")),
        ("## I'm feeling  \n\n\nsad\n#Side-taking\nlonely", ("sad", "lonely", "")),
        ("Well. # I say\nStay.", ("", "", "Stay.")),
        ("# I'm feeling: sad\n# I say:\nStay.", ("", "", "")),
        ("**I'm feeling**\nsad\n**I say**\nStay.", ("", "", "")),
        ("Stay.", ("", "", "")),
        ("", ("", "", "")),
    ],
)
def test_headings_are_found_in_any_case_with_any_apostrophe_and_nothing_is_guessed(answer: str, found: tuple[str, ...]) -> None:
    assert tuple(sections_of(answer, HEADINGS).values()) == found


def test_a_section_ends_at_a_number_sign_and_the_last_at_two_hyphens() -> None:
    found = sections_of("# I'm feeling\nin room #4\n# I say\nStay -- please.\n--\nDone.", HEADINGS)
    assert found == {"I'm feeling": "in room", "Side-taking": "", "I say": "Stay"}


def test_a_judge_reads_the_sections_alone_or_the_whole_answer_where_it_has_none() -> None:
    shown = as_judged("Preface.\n" + WHOLE, sections_of("Preface.\n" + WHOLE, HEADINGS[::2]))
    assert shown == "# I'm feeling\nsad\n\n# I say\nStay.\n\n--"
    assert as_judged("Stay.", sections_of("Stay.", HEADINGS)) == "# I'm feeling\n\n\n# Side-taking\n\n\n# I say\n\n\n--"
    assert as_judged("# I say\nStay.", {}) == "# I say\nStay."


@given(
    st.text(max_size=80) | st.lists(st.sampled_from([*(f"# {h}" for h in HEADINGS), "--", "#", "x"]), max_size=8).map("\n".join)
)
def test_every_section_stands_in_the_answer_and_none_holds_what_ends_it(answer: str) -> None:
    found = sections_of(answer, HEADINGS)
    assert list(found) == list(HEADINGS)
    assert all(text in answer for text in found.values())
    assert all("#" not in found[heading] for heading in HEADINGS[:-1])
    assert "--" not in found["I say"]
