"""Rankings by several users and by others (SAGE, Table 1 and Figure 1a; EIBench, Table 5)."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import spearmanr

from heartloop.core.dialogue import Transcript, Usage
from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.environments.sage.report import arena
from heartloop.environments.suites import Material
from heartloop.validity.rankings import RANKINGS, own_preference, rank_p, read_ratings, scores_of


def scored(dialogue: Transcript, scores: dict[str, dict[str, list[float]]], **how: Any) -> Material:
    """Dialogues by user and model, with a score for each of some scenarios."""
    dialogues = tuple(
        dialogue.model_copy(update={"user": user, "model": model, "scenario": f"s{place}", "score": score})
        for user, models in scores.items()
        for model, each in models.items()
        for place, score in enumerate(each)
    )
    return Material(load_environment("sage"), dialogues, {}, **how)


@pytest.fixture
def dialogue(counsellor: Material) -> Transcript:
    return counsellor.dialogues[0]


SCORES = {
    "lab/strict": {"lab/strict": [60.0, 62.0], "a/x": [40.0, 42.0], "a/y": [50.0, 54.0], "a/z": [30.0, 28.0]},
    "lab/kind": {"lab/strict": [50.0, 50.0], "a/x": [52.0, 50.0], "a/y": [58.0, 60.0], "a/z": [44.0, 40.0]},
}


def test_agreement_generosity_and_self_preference_by_hand(dialogue: Transcript) -> None:
    record = RANKINGS.result(scored(dialogue, SCORES), {}).record
    agreement = record["agreement"]["lab/strict | lab/kind"]
    assert (agreement["rho"], agreement["n"]) == (pytest.approx(1.0), 3), "without lab/strict, second of four by lab/kind"
    assert agreement["p"] == pytest.approx(2 / 6)
    generosity = record["generosity"]["lab/kind | lab/strict"]
    assert generosity["mean"] == pytest.approx(((12 + 8 + 14) / 3 + (8 + 6 + 12) / 3) / 2)
    # lead by itself: 60 - 40, 62 - 124/3; by lab/kind: 50 - 154/3, 50 - 50
    own = record["own_preference"]["lab/strict"]
    assert own["mean"] == pytest.approx(((20 - (50 - 154 / 3)) + (62 - 124 / 3 - 0)) / 2)
    assert "lab/kind" not in record["own_preference"]
    alone = scores_of(scored(dialogue, {"u": {"u": [1.0], "m": [0.0]}, "v": {"m": [1.0]}}))
    assert own_preference(alone, "u") is None, "no other user scored its model"


def test_score_and_tokens_of_each_model_with_each_user(dialogue: Transcript) -> None:
    """SAGE, Figures 6 and 8. Tokens are those that the policy wrote; a dialogue without a count does not enter the mean."""
    made = scored(dialogue, SCORES)
    counted = {"lab/strict": Usage(completion_tokens=300), "lab/kind": Usage(completion_tokens=500, estimated=True)}
    made = made._replace(
        dialogues=tuple(
            one.model_copy(update={"usage": {"policy": counted[one.user]} if one.scenario == "s0" else {}})
            for one in made.dialogues
        )
    )
    result = RANKINGS.result(made, {})
    assert result.record["levels"]["a/x"] == (41.0, 300, 51.0, 500)
    assert any("estimates" in note for note in result.notes)


def test_scenarios_that_one_user_lacks_do_not_count(dialogue: Transcript) -> None:
    other = {model: cells[:1] for model, cells in SCORES["lab/kind"].items()}
    record = RANKINGS.result(scored(dialogue, {**SCORES, "lab/kind": other}), {}).record
    assert record["generosity"]["lab/kind | lab/strict"]["mean"] == pytest.approx((12 + 8 + 14) / 3)


def test_the_p_value_is_over_all_orders() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 1.0, 3.0, 5.0, 4.0]
    found = spearmanr(a, b).statistic
    reached = [abs(spearmanr(a, order).statistic) >= abs(found) - 1e-9 for order in permutations(b)]
    assert rank_p(a, b) == pytest.approx(sum(reached) / 120)
    assert rank_p([1, 2], [1, 2]) is None
    assert rank_p(list(range(12)), list(range(12))) == pytest.approx(0.0, abs=1e-9)


def test_an_external_ranking_counts_models_whose_names_match(dialogue: Transcript, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("model,rating\nX,3\ny,4\nother/Z,1\nw,9\n")
    one = {"lab/strict": SCORES["lab/strict"]}
    result = RANKINGS.result(scored(dialogue, one, ratings=file), {})
    found = result.record["external"]["mine.csv | lab/strict"]
    assert (found["rho"], sorted(found["models"])) == (pytest.approx(1.0), ["a/x", "a/y", "a/z"])


def test_the_shipped_arena_is_found_by_name(dialogue: Transcript) -> None:
    scores = {"u": {"google/gemini-2.5-pro": [60.0], "openai/o3": [50.0], "openai/gpt-4.1": [70.0], "openai/gpt-4.1-mini": [1.0]}}
    made = scored(dialogue, scores)
    assert RANKINGS.lacks(made) is None
    result = RANKINGS.result(made, {})
    assert result.record["external"]["Chatbot Arena | u"]["models"] == ["google/gemini-2.5-pro", "openai/o3", "openai/gpt-4.1"]
    assert any(arena().published in note for note in result.notes)


def test_the_arena_has_all_models_of_table_2_under_the_names_of_the_authors_files(dialogue: Transcript) -> None:
    """The eight released logs: by hand, ranks 1 to 8 by emotion and 1, 5, 6, 4, 8, 2, 7, 3 by Arena score.

    The differences are 0, -3, -3, 0, -3, 4, 0 and 5, their squares sum to 68, and rho is 1 - 6 * 68 / (8 * 63) = 0.19.
    """
    ranking = arena()
    assert len(ranking.ratings) == 18
    assert ranking.aliases.keys() <= ranking.ratings.keys()
    logs = {
        "gpt-4.1": 68.2, "claude3.7-think": 61.2, "claude3.7": 54.8, "deepseek-v3-1227": 37.5, "llama3.3-70b": 33.2,
        "gemini2.0-flash": 32.9, "gpt-4o-0808": 31.8, "openai-o1": 28.9,
    }  # fmt: skip
    made = scored(dialogue, {"u": {model: [score] for model, score in logs.items()}})
    found = RANKINGS.result(made, {}).record["external"]["Chatbot Arena | u"]
    assert found["models"] == list(logs)
    assert found["rho"] == pytest.approx(1 - 6 * 68 / (8 * 63))


@pytest.mark.parametrize(
    "text", ["", "model\nx\n", "model,rating\n", "model,rating\nx,high\n", "model,rating\nx,nan\n", "model,rating\nx,1\nx,2\n"]
)
def test_a_file_with_an_error_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(InputError, match=r"mine\.csv"):
        read_ratings(tmp_path / "mine.csv")


def test_one_user_is_not_enough(dialogue: Transcript) -> None:
    assert "two user simulators" in str(RANKINGS.lacks(scored(dialogue, {"u": SCORES["lab/kind"]})))
    assert RANKINGS.lacks(scored(dialogue, SCORES)) is None


def test_the_published_agreement_with_the_arena_is_that_of_its_rows() -> None:
    rows: Any = published("heartloop.environments.sage", "sage_table02_leaderboard")
    rho = spearmanr([row["arena_score"] for row in rows], [row["sentient_score"] for row in rows]).statistic
    assert arena().published.startswith(f"{rho:.2f} over these {len(rows)} models")
