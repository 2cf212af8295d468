"""What the embedded user is fitted on and measured with (benchmarks/embedded): nothing sealed, and numbers worked by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from benchmarks.embedded.analyses import fit_analyses, read_analyses
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
from benchmarks.embedded.measure import plain_table
from heartloop.environments.perm.users import RESONATION
from heartloop.environments.records import half_of
from heartloop.reader.features import Context


@pytest.fixture(scope="module")
def plain() -> list[Example]:
    return plain_replies()


def example(kind: str, where: str = "p1") -> Example:
    return Example("sage", "s", kind, where, "Oh.", Context(()), 0.0, 0.0, 0.0)


class TestSealed:
    def test_a_scenario_is_sealed_by_the_hash_of_its_id(self) -> None:
        for name in ("support-debt-01", "support-reflection-03", "a", "b", "c", "d"):
            assert sealed(name) == (int(hashlib.sha256(name.encode()).hexdigest()[:2], 16) % 3 == 0)
        assert all(row["sealed"] is sealed(row["scenario"]) for row in read_lines(PLAIN / "contexts.jsonl"))

    def test_nothing_sealed_is_read(self, plain: Sequence[Example]) -> None:
        dialogues = recorded()
        contexts = {row["id"]: row for row in read_lines(PLAIN / "contexts.jsonl") if not row["sealed"]}
        assert {one.where for one in plain} <= set(contexts)
        for scenarios in ({one.scenario for one in plain}, {one.scenario for one in dialogues}):
            assert scenarios
            assert not any(map(sealed, scenarios))
        lines = [(row["kind"], row["line"]) for row in read_lines(PLAIN / "one_liners.jsonl") if not row["sealed"]]
        assert list(one_liners()) == lines

    def test_aspects_are_of_open_scenarios_of_the_tuning_half(self) -> None:
        contexts = {row["id"]: row["scenario"] for row in read_lines(JUDGED / "contexts.jsonl")}
        used = {name for name, scenario in contexts.items() if half_of(scenario) == "tuning" and not sealed(scenario)}
        replies = {row["reply"] for row in read_lines(JUDGED / "replies.jsonl") if row["context"] in used}
        assert {one.reply for one in aspects()} <= replies


class TestWorths:
    @pytest.mark.parametrize(
        ("name", "outputs", "worth"),
        [
            ("sage", [2.5], 0.25),
            ("eibench", [-3.0, 5.0], 0.4),  # the mean of both gains
            ("empa", [1.0, 0.5, 0.0], 0.3),
            ("empa", [2.0, 3.0, 2.0], 0.8),  # 4 and more is the most
        ],
    )
    def test_a_worth_of_a_judges_numbers(self, name: str, outputs: Sequence[float], worth: float) -> None:
        assert worth_of(name, outputs) == pytest.approx(worth)

    @pytest.mark.parametrize("name", ["sage", "eibench", "perm", "daily"])
    def test_it_is_the_inverse_of_the_change(self, name: str) -> None:
        mine = readings()[name]
        for worth in np.linspace(mine.worths[0], mine.worths[-1], 7):
            assert worth_of(name, list(mine.change(None, float(worth)).values())) == pytest.approx(worth)

    def test_in_perm_levels_weigh_more_than_marks(self) -> None:
        """0.1 of 4 of a level at 0.3 is as much as 1.78125 of 19 of a mark at 0.08."""
        before = worth_of("perm", [2.6, 3.3, 15.0, 15.0, 14.0, 14.0, 14.0])
        assert worth_of("perm", [2.7, 3.3, 15.0 - 1.78125, 15.0, 14.0, 14.0, 14.0]) == pytest.approx(before)

    def test_an_example_is_the_mean_of_its_judgements(self, plain: Sequence[Example]) -> None:
        first = next(one for one in plain if one.environment == "sage")
        slots = {row["id"]: row for row in read_lines(PLAIN / "slots.jsonl") if row["context"] == first.where}
        [name] = [r["id"] for r in read_lines(PLAIN / "replies.jsonl") if r["id"] in slots and r["reply"] == first.reply]
        rows = [row for row in read_lines(PLAIN / "judgements.jsonl") if row["id"] == name]
        assert first.worth == pytest.approx(np.mean([row["change"][0] for row in rows]) / 10)
        assert first.insults == np.mean([row["insult"] for row in rows])
        assert first.kind == slots[name]["kind"]


class TestFit:
    def test_kind_replies_cost_most_among_plain_ones_and_recorded_ones_have_their_own_cost(self) -> None:
        assert [cost_of(example(kind)) for kind in ("plain", "rude", "cold")] == [COSTS["plain"], COSTS["rude"], OTHERS_COST]
        assert cost_of(example("rude")._replace(insults=np.nan)) == RECORDED_COST

    def test_no_fold_predicts_a_scenario_that_it_saw(self) -> None:
        names = np.array([f"s{n % 12}" for n in range(60)])
        folds = folds_of(list(names))
        assert np.sum([test for _, test in folds], axis=0).tolist() == [1] * 60
        assert not any(set(names[train]) & set(names[test]) for train, test in folds)

    def test_a_reader_fitted_on_a_part_separates_kind_from_rude(
        self, plain: Sequence[Example], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nothing_said = plain[0]._replace(reply="...")
        parts: dict[str, Iterable[object]] = {
            "plain_replies": [nothing_said, *plain[::30]],
            "recorded": [],
            "one_liners": [*one_liners()][::12],
            "aspects": aspects()[::40],
        }
        for name, part in parts.items():
            monkeypatch.setattr(f"benchmarks.embedded.fit.{name}", lambda part=part: part)
        monkeypatch.setattr("benchmarks.embedded.fit.LANDMARKS", 50)
        model, held_out, used = fit()
        assert len(held_out) == len(used)
        assert nothing_said not in used
        specific, rude = (held_out[[one.kind == kind for one in used]].mean() for kind in ("specific", "rude"))
        assert specific > rude
        assert all(0 <= model.linear.card["lean"][name] <= 0.3 for name in readings())
        assert len(model.landmarks.points) == 50


def test_order_and_direction_are_shares_of_pairs_and_of_replies() -> None:
    """Two contexts: pairs are within one; a tie is no order, and what equals silence moves nowhere."""
    examples = [*map(example, ("specific", "plain", "rude", "cold")), example("plain", "p2"), example("rude", "p2")]
    table = plain_table(examples, [3.0, 0.0, -1.0, 3.0, 1.0, 1.0])["sage"]
    assert (table["contexts"], table["replies"]) == (2, 6)
    assert table["kind above rude"] == pytest.approx(2 / 3)
    assert table["kind above cold"] == 0.0
    assert table["kind moves up"] == pytest.approx(2 / 3)
    assert table["rude moves down"] == 0.5


class TestAnalyses:
    def test_the_shipped_weights_are_those_of_the_data(self) -> None:
        analyses = read_analyses()
        assert {half_of(one.scenario.id) for one in analyses} == {"tuning"}
        model = fit_analyses(analyses)
        assert model.card == RESONATION.model.card
        for one in analyses[::10]:
            assert np.allclose(model.predict(one.text, one.context), RESONATION.model.predict(one.text, one.context), atol=0.05)

    def test_the_card_has_agreement_on_scenarios_that_were_not_seen(self) -> None:
        held_out = RESONATION.model.card["held_out"]
        assert held_out["r"] > abs(held_out["length_r"])
        low, middle, high = (held_out["mean_by_level"][level] for level in "135")
        assert held_out["mean_of_somebody_else"] < low < middle < high
