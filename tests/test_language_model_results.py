"""The measurement of a trained language model; no model is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.blind_pairs import judged, write_pairs
from benchmarks.language_model_page import table
from benchmarks.language_model_replies import counted
from heartloop.core.dialogue import Call, Transcript, Turn, Usage


def transcript(scenario: str, replies: Sequence[str], *, cut: Sequence[int] = (), tokens: int = 10) -> Transcript:
    """A scored dialogue; the person says "Go on." between replies."""
    last = len(replies) - 1
    return Transcript(
        environment="sage", scenario=scenario, fingerprint="f", model="m", preset="corrected", user="embedded", opening="Hello.",
        start={"emotion": 40.0}, stop="turn_limit", score=30.0,
        turns=tuple(
            Turn(index=number, reply=reply, truncated=number in cut, message=None if number == last else "Go on.")
            for number, reply in enumerate(replies)
        ),
        calls=tuple(
            Call(role="policy", purpose="reply", turn=number, text=reply, usage=Usage(completion_tokens=tokens))
            for number, reply in enumerate(replies)
        ),
    )  # fmt: skip


def played(scores: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Scores by scenario, one a repeat."""
    rows = [[scenario, repeat, score] for scenario, of in scores.items() for repeat, score in enumerate(of)]
    dialogue = {"scenario": "a", "opening": "Nobody <called>.", "turns": [["# Oh.", "Yes."], ["", None]]}
    result = {"scores": rows, "counted": counted([transcript("s", ["Yes."])]), "dialogues": [dialogue]}
    return {"result": result, "seconds": 1800, "load": 1.5, "machine": {"machine": "2 cores of a kind", "torch": "2"}}


def test_the_page_pairs_scenarios_and_repeats() -> None:
    """Differences 2, 4 and 0 of two scenarios, a mean of 2; one dialogue is unscored on one side."""
    parts = {
        "play/start/sage/embedded": played({"a": [10.0, 20.0], "b": [30.0, None]}),
        "play/headline-0/sage/embedded": played({"a": [12.0, 24.0], "b": [30.0, 50.0]}),
        "play/shuffled-0/sage/embedded": played({"a": [10.0, 20.0], "b": [29.0, 50.0]}),
    }
    text = table({"parts": parts})
    # residual sums of the two scenarios 6 - 4 and 0 - 2: error sqrt(2 * 8) / 3 = 1.333, t 12.71
    assert "| SAGE, held out | headline-0 | 3 | 20.00 | 22.00 | +2.00 (-14.94 to +18.94) | 1 |" in text
    assert "| headline against shuffled | 1 of 3 seeds | 4 | 27.25 | 29.00 | +1.75 (-14.13 to +17.63) | 0 |" in text
    assert "train/headline-0" in text.partition("Missing: ")[2]
    assert "play/headline-0/sage/embedded," not in text


def test_replies_are_counted() -> None:
    """Six replies of two dialogues; words: i see . i see / oh dear / oh dear ... 2-grams within a reply."""
    found = counted(
        [
            transcript("a", ["I see it.", "", "I see it.", "And then the"], cut=[2, 3]),
            transcript("b", ["i see  it.", "Oh."], tokens=40),
        ]
    )
    assert (found["dialogues"], found["replies"], found["tokens"]) == (2, 6, 20.0)  # (4 x 10 + 2 x 40) / 6
    assert found["empty"] == pytest.approx(1 / 6)
    assert found["cut"] == pytest.approx(1 / 6)  # the third ends a sentence
    assert found["said before"] == pytest.approx(1 / 6)
    assert found["said to others"] == pytest.approx(3 / 6)
    assert found["distinct-1"] == pytest.approx(7 / 13)  # i see it. and then the oh.
    assert found["distinct-2"] == pytest.approx(4 / 8)


class TestBlindPairs:
    def test_the_judges_do_not_see_which_is_which(self, tmp_path: Path) -> None:
        pairs = [(transcript(f"s{n}", [f"before {n}."]), transcript(f"s{n}", [f"after {n}."]), "headline-0") for n in range(40)]
        write_pairs(pairs, tmp_path, seed="x")
        rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
        key = json.loads((tmp_path / "key.json").read_text())
        assert [row.keys() for row in rows] == [{"pair", "A", "B"}] * 40
        sides = [line["after"] for line in key]
        assert 10 < sides.count("A") < 30
        assert [line["scenario"] for line in key] != sorted(line["scenario"] for line in key)
        for row, line in zip(rows, key, strict=True):
            number = line["scenario"].removeprefix("s")
            assert row[line["after"]] == [["person", "Hello."], ["partner", f"after {number}."]]
        assert "headline" not in (tmp_path / "pairs.md").read_text()

    def test_answers_are_counted_against_the_key(self) -> None:
        key = [{"pair": n, "after": side} for n, side in enumerate("AABB", start=1)]
        one = [{"pair": n, "better": side} for n, side in enumerate(["A", "B", "B", "same"], start=1)]
        other = [{"pair": n, "better": side} for n, side in enumerate(["A", "A", "B", "A"], start=1)]
        found = judged(key, {"one": one, "other": other})
        assert found["judges"]["one"] == {"after": 2, "before": 1, "same": 1, "p": 1.0}
        assert found["judges"]["other"] == {"after": 3, "before": 1, "same": 0, "p": 0.625}  # 2 (4 + 1) / 16
        assert found["agreement"] == 0.5
        assert found["both"] == {"after": 2, "before": 0, "same": 0}
        with pytest.raises(SystemExit, match="one has 3 answers"):
            judged(key, {"one": one[:3]})
