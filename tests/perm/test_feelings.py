"""Which feelings an analysis names: by family, denied or not, and whether they are the person's."""

from __future__ import annotations

import pytest

from heartloop.environments.perm.embedded_user import needs, resonated
from heartloop.environments.perm.environment import View
from heartloop.environments.perm.feelings import families, felt
from tests.one_turn_scenarios import SAMPLE

FEELINGS, MISREADINGS = ("scared", "ashamed", "afraid to push", "let down"), ("bored", "proud")


def seen(text: str) -> tuple[set[str], set[str], set[str]]:
    found = felt([text], FEELINGS, MISREADINGS, 4)
    return set(found.right), set(found.misread), set(found.beside)


@pytest.mark.parametrize(
    ("text", "right", "misread", "beside"),
    [
        ("She is scared.", {"fear"}, set(), set()),
        ("She is worried.", {"fear"}, set(), set()),  # of a right family
        ("She is worried, nervous and uneasy.", {"fear"}, set(), set()),  # one feeling, said three times
        ("She is embarrassed and anxious.", {"fear", "shame"}, set(), set()),
        ("She feels let down.", {"hurt"}, set(), set()),
        ("She is bored.", set(), {"bored"}, set()),
        ("She is proud.", set(), {"pride"}, set()),
        ("She is confident.", set(), set(), {"pride"}),  # near a misreading, and none itself
        ("She is angry.", set(), set(), {"anger"}),
        ("She is not angry, and never proud.", set(), set(), set()),
        ("She sold the shop.", set(), set(), set()),
    ],
)
def test_a_word_goes_by_the_samples_lists_and_else_by_its_family(
    text: str, right: set[str], misread: set[str], beside: set[str]
) -> None:
    assert seen(text) == (right, misread, beside)


def test_a_feeling_said_rightly_anywhere_is_right() -> None:
    assert felt(["She is angry.", "She is angry and scared."], ("angry",), (), 4).right == {"anger": "She is angry."}


def test_every_word_has_one_family_and_is_written_as_it_is_read() -> None:
    words = [word for words in needs()["feelings"].values() for word in words]
    assert len(words) == len(set(words)) == len(families())
    assert all(word == word.lower() and "-" not in word and len(word.split()) <= 2 for word in words)


class TestLevels:
    """On the sample of the tests: Ishaan is jealous and ashamed, and was not told that the post was open."""

    def level(self, analysis: str) -> tuple[int, str]:
        grade = resonated(View(SAMPLE, analysis, "Yes.", 0))
        return grade.score, grade.reason

    def test_two_words_of_one_family_are_no_finer_grain(self) -> None:
        assert self.level("He is jealous and envious, since he carried the monitor for the man he trained.")[0] == 3

    def test_more_wrong_than_right_costs_a_level(self) -> None:
        matter = "since he carried the monitor for the man he trained."
        assert self.level(f"He is jealous, {matter}")[0] == 3
        assert self.level(f"He is jealous or calm, {matter}")[0] == 3
        assert self.level(f"He is jealous, calm, or grateful, {matter}") == (2, needs()["reasons"]["scattershot"])

    def test_a_cue_of_the_need_that_was_told_is_no_sight_of_the_unsaid(self) -> None:
        analysis = "He is jealous, because a man he trained became team lead, and nobody asked him."
        assert self.level(analysis)[0] == 3
        cues = SAMPLE.need.model_copy(update={"cues": ("nobody asked",)})
        unsaid = SAMPLE.model_copy(update={"need": cues})
        told = unsaid.model_copy(update={"query": SAMPLE.query + " And nobody asked me."})
        assert resonated(View(unsaid, analysis, "Yes.", 0)).score == 4
        assert resonated(View(told, analysis, "Yes.", 0)).score == 3
