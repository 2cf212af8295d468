"""Agreement of two judges, worked by hand."""

from __future__ import annotations

from heartloop.core.dialogue import StopReason, Transcript
from heartloop.evaluation.compare import agreement, agreement_text
from tests.report.sage_bench import talk as sage_talk


def talk(scenario: str, *changes: float | None, stop: StopReason = "turn_limit", scored: bool = True) -> Transcript:
    dialogue = sage_talk("m", scenario, changes, stop=stop)
    return dialogue if scored else dialogue.model_copy(update={"score": None})


def test_worked_by_hand() -> None:
    # scores 45, 50, 30 against 44, 48, 46: differences -1, -2, +16; ranks 2 3 1 against 1 3 2: rho = 1 - 6 * 2 / 24 = 0.5
    first = [talk("a", 5, 0), talk("b", 5, 5), talk("c", -5, -5), talk("d", 1)]
    second = [talk("a", 4, 0), talk("b", 5, 3, stop="cut"), talk("c", 6), talk("d", 1, scored=False), talk("e", 1)]
    found = agreement(first, second)
    assert (found.dialogues, found.replies, found.cut) == (3, 5, 1)
    assert found.signs == 0.8  # the first reply to c is worse to one, better to the other
    assert found.spearman == 0.5
    assert found.difference is not None
    assert round(found.difference.mean, 2) == 4.33
    # means 41.67 and 46: products (3.33)(-2) + (8.33)(2) + (-11.67)(0) = 10; r = 10 / sqrt(216.67 * 8) = 0.24
    assert found.pearson is not None
    assert round(found.pearson, 2) == 0.24
    text = agreement_text(found, first="one", second="two")
    assert "two against one, on 3 dialogues scored by both:" in text
    assert "scores: Pearson 0.24 and Spearman 0.50" in text
    assert "equal after 80% of 5 replies" in text
    assert "1 dialogue cut: two would have continued, but no further reply is stored" in text


def test_what_is_not_defined_is_not_shown() -> None:
    alike = agreement([talk("a", 5), talk("b", 5)], [talk("a", 5), talk("b", None)])
    assert (alike.pearson, alike.spearman, alike.replies) == (None, None, 1)
    assert "correlation not defined" in agreement_text(alike, first="x", second="y")
    nothing = agreement([talk("a", 5)], [talk("b", 5)])
    assert agreement_text(nothing, first="x", second="y") == "No dialogue is scored by both x and y."
