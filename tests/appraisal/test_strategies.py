"""Strategies, as a specification.

1. There are 24, in seven groups, as in SAGE Table 4.
2. On the tuning half of the labelled sentences the group is right in at least 80 of 100.
3. On sentences written afresh the rules hold as well. They came in five rounds, each written before the rules were run
   on it, and then used to mend them. Right at first sight: 72 of 72 (written just before the rules, so no evidence),
   37 of 72 (chosen to be hard), 38 of 48, 33 of 48, 35 of 48. What the rules know by now says less than those numbers.
4. Confidences are graded, sorted, and never below 0.3; nonsense has none.
5. Advice that takes up what was told is another strategy than advice that does not.

Do not mend a test by its sentence: the sealed half decides (docs/decisions/0001-labelled-sentences.md).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from heartloop.appraisal import STRATEGIES, strategies_of

HERE = Path(__file__).parent
TUNING = HERE.parent / "data" / "strategies_tuning.jsonl"
FRESH = HERE / "fresh.jsonl"


def _right(path: Path) -> tuple[float, Counter[str]]:
    """The share of sentences whose best strategy is of the labelled group, and the misses by group."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    missed: Counter[str] = Counter()
    for row in rows:
        found = strategies_of(row["text"], row["context"])
        if not found or found[0][0][0] != row["strategy"][0]:
            missed[row["strategy"][0]] += 1
    return 1 - missed.total() / len(rows), missed


def test_there_are_24_strategies_in_seven_groups() -> None:
    assert len(STRATEGIES) == 24
    assert Counter(s.group for s in STRATEGIES.values()) == Counter(A=5, B=3, C=2, D=3, E=4, F=5, G=2)
    assert all(key == strategy.id and key.startswith(strategy.group) for key, strategy in STRATEGIES.items())
    assert len({s.name for s in STRATEGIES.values()}) == 24


@pytest.mark.parametrize("path", [TUNING, FRESH], ids=lambda p: p.stem)
def test_the_group_is_right_in_at_least_80_of_100(path: Path) -> None:
    share, missed = _right(path)
    assert share >= 0.8, missed


def test_confidences_are_graded_and_sorted() -> None:
    for line in FRESH.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = strategies_of(row["text"], row["context"])
        values = [confidence for _, confidence in found]
        assert values == sorted(values, reverse=True)
        assert all(0.3 <= value <= 1 for value in values)
        assert all(name in STRATEGIES for name, _ in found)


@pytest.mark.parametrize("text", ["", "...", "table carpet moon", "🙏"])
def test_nonsense_has_no_strategy(text: str) -> None:
    assert strategies_of(text) == ()


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("What happened after she left?", "A-1"),
        ("How did that feel?", "A-2"),
        ("Have you tried talking to her about it?", "A-3"),
        ("Do you agree with him?", "A-4"),
        ("I'm so sorry, that sounds awful.", "B-1"),
        ("Me too, I'd have walked out.", "C-1"),
        ("When I was nineteen I lost my own father.", "C-2"),
        ("Don’t worry, it will pass.", "D-1"),
        ("Tell me everything, I'm listening.", "D-2"),
        ("How dare he treat her like that!", "D-3"),
        ("Well done for telling him.", "E-3"),
        ("I'm here with you, whatever happens.", "E-4"),
        ("Take a few deep breaths.", "F-2"),
        ("You should see a therapist about this.", "F-3"),
        ("Studies show that grief often comes in waves.", "G-1"),
    ],
)
def test_plain_cases(text: str, strategy: str) -> None:
    assert strategies_of(text)[0][0] == strategy


def test_advice_cut_to_the_person_is_told_from_general_advice() -> None:
    advice = "Write to the landlord about the boiler and name a date."
    assert strategies_of(advice, "The boiler has been dead for a week and the landlord won't answer.")[0][0] == "F-5"
    assert strategies_of(advice)[0][0] == "F-4"


def test_a_curly_apostrophe_changes_nothing() -> None:
    assert strategies_of("I’m so sorry, that’s awful.") == strategies_of("I'm so sorry, that's awful.")
