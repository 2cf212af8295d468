"""What the embedded user is fitted on and tested with: nothing sealed, and worths worked by hand."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from benchmarks.embedded.examples import (
    JUDGED,
    PLAIN,
    Example,
    aspects,
    one_liners,
    plain_replies,
    read_lines,
    readings,
    recorded,
    sealed,
    worth_of,
)
from benchmarks.embedded.fit import COSTS, OTHERS_COST, RECORDED_COST, cost_of, fit, folds_of
from benchmarks.embedded.measure import plain_table, value_of
from heartloop.environments.records import half_of
from heartloop.reader.features import Context


@pytest.fixture(scope="module")
def plain() -> list[Example]:
    return plain_replies()


class TestSealed:
    def test_a_scenario_is_sealed_by_the_hash_of_its_id(self) -> None:
        names = [f"scenario-{n}" for n in range(600)]
        assert [sealed(name) for name in names] == [
            int(hashlib.sha256(name.encode()).hexdigest()[:2], 16) % 3 == 0 for name in names
        ]
        assert 150 < sum(map(sealed, names)) < 250
        assert all(row["sealed"] is sealed(row["scenario"]) for row in read_lines(PLAIN / "contexts.jsonl"))

    def test_nothing_sealed_is_read(self, plain: Sequence[Example]) -> None:
        open_contexts = {row["id"] for row in read_lines(PLAIN / "contexts.jsonl") if not row["sealed"]}
        assert plain
        assert {one.where for one in plain} <= open_contexts
        assert not any(sealed(one.scenario) for one in plain)
        dialogues = recorded()
        assert dialogues
        assert not any(sealed(one.scenario) for one in dialogues)
        assert {one.scenario for dialogue in dialogues for one in dialogue.replies} <= {one.scenario for one in dialogues}
        lines = read_lines(PLAIN / "one_liners.jsonl")
        assert list(one_liners()) == [(row["kind"], row["line"]) for row in lines if not row["sealed"]]

    def test_aspects_are_those_of_open_scenarios_of_the_tuning_half(self) -> None:
        contexts = {row["id"]: row for row in read_lines(JUDGED / "contexts.jsonl")}
        used = [row for row in contexts.values() if half_of(row["scenario"]) == "tuning" and not sealed(row["scenario"])]
        replies = {row["reply"] for row in read_lines(JUDGED / "replies.jsonl") if contexts[row["context"]] in used}
        assert {one.reply for one in aspects()} <= replies


class TestWorths:
    @pytest.mark.parametrize(
        ("name", "outputs", "worth"),
        [
            ("sage", [2.5], 0.25),
            ("eibench", [-3.0, 5.0], 0.4),  # the mean of both gains
            ("empa", [1.0, 0.5, 0.0], 0.3),
            ("empa", [2.0, 3.0, 2.0], 0.8),  # 4 and more is the most
            ("daily", [1.0, 1.0, 1.5, 1.0, 1.0, 1.0], -0.05),
            ("daily", [5.0] * 6, 1.0),
            ("perm", [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], -0.5),
            # 0.3 each for the levels, 0.08 for each of five marks: between the second and the third row of its levels
            ("perm", [1.8, 2.45, 8.0, 9.0, 11.0, 12.0, 10.5], 0.25),
        ],
    )
    def test_a_worth_of_a_judges_numbers(self, name: str, outputs: Sequence[float], worth: float) -> None:
        assert worth_of(name, outputs) == pytest.approx(worth)

    @pytest.mark.parametrize("name", ["sage", "eibench", "perm", "daily"])
    def test_it_is_the_inverse_of_the_change(self, name: str) -> None:
        mine = readings()[name]
        for worth in np.linspace(mine.worths[0], mine.worths[-1], 7):
            change = list(mine.change(None, float(worth)).values())
            assert worth_of(name, change) == pytest.approx(worth)

    def test_an_example_is_the_mean_of_its_judgements(self, plain: Sequence[Example]) -> None:
        judged = defaultdict(list)
        for row in read_lines(PLAIN / "judgements.jsonl"):
            judged[row["id"]].append(row)
        slots = {row["id"]: row for row in read_lines(PLAIN / "slots.jsonl")}
        texts = {row["id"]: row["reply"] for row in read_lines(PLAIN / "replies.jsonl")}
        example = next(one for one in plain if one.environment == "sage")
        [name] = [name for name, text in texts.items() if (slots[name]["context"], text) == (example.where, example.reply)]
        assert example.worth == pytest.approx(np.mean([row["change"][0] for row in judged[name]]) / 10)
        assert example.insults == np.mean([row["insult"] for row in judged[name]])
        assert example.kind == slots[name]["kind"]


def examples(environment: str, kinds: Iterable[str], where: str = "p1", scenario: str = "s") -> list[Example]:
    return [Example(environment, scenario, kind, where, "Oh.", Context(()), 0.0, 0.0, 0.0) for kind in kinds]


class TestFit:
    def test_kind_replies_cost_most_among_plain_ones_and_recorded_ones_have_their_own_cost(self) -> None:
        specific, rude, cold = examples("sage", ("specific", "rude", "cold"))
        assert (cost_of(specific), cost_of(rude), cost_of(cold)) == (COSTS["specific"], COSTS["rude"], OTHERS_COST)
        assert cost_of(rude._replace(insults=np.nan)) == RECORDED_COST

    def test_no_fold_predicts_a_scenario_that_it_saw(self) -> None:
        names = np.array([f"s{n % 12}" for n in range(60)])
        folds = folds_of(list(names))
        assert np.sum([test for _, test in folds], axis=0).tolist() == [1] * 60
        assert not any(set(names[train]) & set(names[test]) for train, test in folds)

    def test_a_reader_fitted_on_a_part_learns_kind_from_rude(
        self, plain: Sequence[Example], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nothing_said = plain[0]._replace(reply="...")
        parts = {
            "plain_replies": [nothing_said, *plain[::30]],
            "recorded": [],
            "one_liners": [*one_liners()][::3],
            "aspects": aspects()[::30],
        }
        for name, part in parts.items():
            monkeypatch.setattr(f"benchmarks.embedded.fit.{name}", lambda part=part: part)
        monkeypatch.setattr("benchmarks.embedded.fit.LANDMARKS", 50)
        model, held_out, used = fit()
        assert len(held_out) == len(used)
        assert nothing_said not in used
        assert np.isfinite(held_out).all()
        by_kind = {kind: held_out[[one.kind == kind for one in used]].mean() for kind in ("specific", "rude")}
        assert by_kind["specific"] > by_kind["rude"]
        card = model.linear.card
        assert set(card["lean"]) == set(readings())
        assert all(0 <= value <= 0.3 for value in card["lean"].values())
        assert len(model.landmarks.points) == 50


def test_order_and_direction_are_shares_of_pairs_and_of_replies() -> None:
    """Two contexts: pairs are within one; a tie is no order, and what equals silence moves nowhere."""
    first = examples("sage", ("specific", "plain", "rude", "cold"))
    second = examples("sage", ("plain", "rude"), where="p2")
    table = plain_table([*first, *second], [3.0, 0.0, -1.0, 3.0, 1.0, 1.0])["sage"]
    assert (table["contexts"], table["replies"]) == (2, 6)
    assert table["kind above rude"] == pytest.approx(2 / 3)
    assert table["kind above cold"] == 0.0
    assert table["kind moves up"] == pytest.approx(2 / 3)
    assert table["rude moves down"] == 0.5


def test_in_environments_of_one_answer_a_user_sees_whole_grades() -> None:
    assert value_of("sage", 0.123) == pytest.approx(0.123)
    assert value_of("daily", 0.0) == value_of("daily", 0.01) < value_of("daily", 0.3)
