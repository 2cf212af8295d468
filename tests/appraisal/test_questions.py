"""What asks and what only ends in a question mark, as a specification."""

from __future__ import annotations

import pytest

from heartloop.appraisal.grammar import is_question
from heartloop.appraisal.words import read_sentence


@pytest.mark.parametrize(
    "text",
    [
        "What went through you?", "You sat there the whole night?", "And then?", "I take it you slept after that?",
        "I wonder whether she knew?", "I wonder what she said to you?", "I'm wrong there, aren't I?",
        "I could ring him, or would that be too much?", "I am listening; what happened then?", "Me too?", "Did you sleep?",
    ],
)  # fmt: skip
def test_a_question_asks(text: str) -> None:
    assert is_question(read_sentence(text))


@pytest.mark.parametrize(
    "text",
    [
        "I am listening, and I do not want to hurry you lightly?",
        "I'll do something about it today, the toolbox stands by the door with a new padlock on it?",
        "I am with you.",
    ],
)
def test_a_statement_about_oneself_asks_nothing_whatever_ends_it(text: str) -> None:
    """A policy in training earned the worth of a question with such."""
    assert not is_question(read_sentence(text))
