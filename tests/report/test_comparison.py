"""One model against another on the dialogues scored in both."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from heartloop.core.dialogue import Failure, Sampling, StopReason, Transcript
from heartloop.core.errors import UseError
from heartloop.evaluation.compare import (
    Comparison,
    Side,
    agreement,
    choose_sides,
    compare,
    comparison_text,
)
from heartloop.evaluation.digests import digested
from heartloop.evaluation.gate import comparison_file, gate, junit
from heartloop.evaluation.store import read_run
from heartloop.scoring.power import sample_size_for
from heartloop.scoring.statistics import Interval, Shape
from tests.report.talks import HOSTILE, WriteRun, talk
from tests.write_docs import ROOT

BROKEN = Failure(role="user", kind="AnswerError", detail="no number")


def side(model: str, dialogues: Sequence[Transcript], **settings: Any) -> Side:
    return Side(f"runs/{model}", model, settings, tuple(digested(dialogues)))


def against(a: Sequence[Transcript], b: Sequence[Transcript]) -> Comparison:
    return compare(side(a[0].model, a), side(b[0].model, b))


def by_ends(model: str, ends: Mapping[str, float], **more: Any) -> list[Transcript]:
    return [talk(model, scenario, [end - 40], **more) for scenario, end in ends.items()]


@pytest.fixture
def found() -> Comparison:
    a = by_ends("a", {"s1": 60, "s2": 50, "s3": 40})
    b = by_ends("b", {"s1": 50, "s2": 30, "s3": 37})
    a += [talk("a", "s4", [1]), talk("a", "s5", [1]), talk("a", "s6", [1], fingerprint="old")]
    b += [talk("b", "s4", [1], stop="failed", failure=BROKEN), talk("b", "s6", [1]), talk("b", "s7", [1])]
    return against(a, b)


def test_a_comparison_worked_by_hand(found: Comparison) -> None:
    # differences -10, -20, -3: mean -11, deviations 1, -9, 8, variance 146 / 2 = 73
    assert (found.pairs, found.scenarios) == (3, 3)
    assert (found.mean_a, found.mean_b) == (50.0, 39.0)
    reach = 4.30265 * (73 / 3) ** 0.5  # 97.5 % quantile of t with 2 degrees of freedom
    assert found.difference[:3] == pytest.approx((-11.0, -11.0 - reach, -11.0 + reach), rel=1e-5)
    assert found.sd == pytest.approx(73**0.5)
    assert found.effect == pytest.approx(-11 / 73**0.5)
    assert found.rank_biserial == -1.0
    assert (found.p, found.exact) == (0.25, True)  # only --- and +++ of 8
    assert found.needed == 7  # 7.849 * 73 / 121 = 4.74 by the normal approximation; the t test with so few needs more
    assert [(p.a.scenario, p.difference) for p in found.extremes] == [("s2", -20.0), ("s1", -10.0), ("s3", -3.0)]


def test_what_is_left_out_is_counted_with_its_reason(found: Comparison) -> None:
    assert dict(found.left_out) == {
        "unscored in B (user: AnswerError)": 1, "not played in B": 1, "not played in A": 1, "the scenario's text differs": 1,
    }  # fmt: skip


def test_a_model_with_its_own_copy_differs_by_nothing() -> None:
    mine = by_ends("a", {"s1": 60, "s2": 50})
    same = against(mine, mine)
    assert same.difference == Interval(0, 0, 0, Shape.CONSTANT)
    assert (same.p, same.effect, same.needed, same.extremes) == (1.0, 0.0, None, ())
    assert "B - A: 0.0" in comparison_text(same)


def test_repeats_pair_with_repeats_and_count_as_one_person() -> None:
    a = [talk("a", "s1", [5], repeat=r) for r in range(3)]
    b = [talk("b", "s1", [7], repeat=r) for r in (1, 2, 3)]
    found = against(a, b)
    assert (found.pairs, found.scenarios, found.difference.mean) == (2, 1, 2.0)
    assert dict(found.left_out) == {"not played in A": 1, "not played in B": 1}
    assert "Only one scenario: no interval and no test." in found.warnings


def test_the_smallest_difference_that_matters_sets_the_sample_size() -> None:
    ends = {f"s{number}": 50.0 + number % 2 * 2 - 1 for number in range(6)}  # 49 and 51, three times each: variance 6 / 5
    a, b = by_ends("a", dict.fromkeys(ends, 50.0)), by_ends("b", ends)
    found = compare(side("a", a), side("b", b), min_difference=3.0)
    assert found.needed == 4
    assert "Equivalent: " in comparison_text(found, min_difference=3.0)
    assert against(a, b).needed is None  # the difference found is 0
    with pytest.raises(UseError, match=r"--min-difference is 0\.0"):
        compare(side("a", a), side("b", b), min_difference=0.0)


class TestWarnings:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"user": "openai/x"}, "openai/x in B"),
            ({"preset": "released"}, "released in B"),
            ({"variant": "challenging"}, "challenging in B"),
            ({"prompts": {"feel": "new", "speak": "x"}}, "Prompts or rules differ: feel, speak."),
            ({"start": {"emotion": 30.0}}, "start state differs"),
            ({"sampling": {"user": Sampling(temperature=1.0)}}, "user's sampling settings differ"),
            ({"seed": 9}, "Seeds differ"),
        ],
    )
    def test_of_the_dialogues(self, change: dict[str, Any], said: str) -> None:
        a = by_ends("a", {"s1": 50, "s2": 50})
        b = [d.model_copy(update=change) for d in by_ends("b", {"s1": 50, "s2": 50})]
        assert said in " ".join(against(a, b).warnings)

    def test_of_the_runs(self) -> None:
        talks = by_ends("a", {"s1": 50, "s2": 50})
        other = side("b", talks, options={"max_turns": 8}, rescored={"from": "x"})
        warnings = " ".join(compare(side("a", talks, options={"max_turns": 10}), other).warnings)
        assert "max_turns differs: 10 in A, 8 in B" in warnings
        assert "B was rescored" in warnings

    def test_of_a_run_that_is_unfinished_also_where_the_other_lacks_the_same(self) -> None:
        a, b = (by_ends(name, {"s1": 50, "s2": 50}) for name in "ab")
        planned = {"models": ["a", "b", "c"], "scenarios": ["s1", "s2", "s3"]}
        warnings = compare(side("a", a, **planned), side("b", b, **planned, repeats=2)).warnings
        assert [note for note in warnings if "unfinished" in note] == [
            "A (runs/a) is unfinished: 1 of 3 dialogues is missing.",
            "B (runs/b) is unfinished: 4 of 6 dialogues are missing.",
        ]

    @pytest.mark.parametrize(("lost", "warns"), [(1, False), (2, True)])
    def test_of_more_than_one_in_twenty_unscored(self, lost: int, warns: bool) -> None:
        a, b = (by_ends(name, {f"s{n}": 50 for n in range(20)}) for name in "ab")
        b[:lost] = [d.model_copy(update={"score": None}) for d in b[:lost]]
        assert ("Unscored in one or both" in " ".join(against(a, b).warnings)) == warns


def fall(scenarios: int, **changed: Any) -> Comparison:
    """Differences -10, -11, -12, -10, ..."""
    a = by_ends("a", {f"s{number}": 50.0 for number in range(scenarios)})
    b = by_ends("b", {f"s{number}": 40.0 - number % 3 for number in range(scenarios)})
    return against(a, [d.model_copy(update=changed) for d in b])


def test_few_scenarios_get_no_interval_by_group_and_no_effect_size() -> None:
    """Two scenarios have t = 12.7, so that an interval leaves the scale; d_z of few is mostly "large"."""
    ends = {"listen": (60, 50), "vent": (55, 45, 30)}
    names = {f"{group}{n}": (group, end) for group, of_group in ends.items() for n, end in enumerate(of_group)}
    a, b = (
        [talk(model, name, [end - 40 + gain * n], intention=group) for n, (name, (group, end)) in enumerate(names.items())]
        for model, gain in (("a", 0), ("b", 3))
    )
    few = against(a, b)
    assert [(one.key, math.isnan(one.difference.low)) for one in few.groups] == [("listen", True), ("vent", False)]
    assert "d_z left out below 10 scenarios" in comparison_text(few)
    more = [[talk(model, f"s{n}", [gain * n % 7]) for n in range(10)] for model, gain in (("a", 1), ("b", 3))]
    assert re.search(r"d_z [+-]\d", comparison_text(against(*more)))


@pytest.fixture
def twelve() -> Comparison:
    """Differences -10, -11, -12, four times each: variance 8 / 11, error sqrt(8 / 11 / 12), t 2.201: -11.54 to -10.46."""
    return fall(12)


class TestGate:
    @pytest.mark.parametrize(
        ("threshold", "outcome"),
        [(0.0, "worse"), (10.4, "worse"), (10.5, "not shown"), (11.0, "not shown"), (11.5, "not shown"), (11.6, "not worse")],
    )
    def test_where_the_whole_interval_lies_decides(self, threshold: float, outcome: str, twelve: Comparison) -> None:
        free, strict = (gate(twelve, threshold, require_shown=strict) for strict in (False, True))
        assert (free.outcome, strict.outcome) == (outcome, outcome)
        assert (free.passed, strict.passed) == (outcome != "worse", outcome == "not worse")
        assert "-11.5 to -10.5" in free.reason

    def test_what_is_not_shown_names_the_scenarios_that_would_show_it(self, twelve: Comparison) -> None:
        assert (
            f"about {sample_size_for(11.0, (8 / 11) ** 0.5)} scenarios show it; this comparison has 12"
            in gate(twelve, 11.0).reason
        )

    @pytest.mark.parametrize(("lost", "outcome"), [(1, "not worse"), (2, "not shown"), (3, "not shown")])
    def test_unscored_shares_more_than_5_points_apart_show_nothing(self, lost: int, outcome: str) -> None:
        a, b = (by_ends(name, {f"s{n}": 50 for n in range(20)}) for name in "ab")
        b[:lost] = [d.model_copy(update={"score": None}) for d in b[:lost]]
        assert gate(against(a, b), 2.0).outcome == outcome  # 1 of 20 is 5 points
        both = [d.model_copy(update={"score": None}) for d in a[:lost]] + a[lost:]
        assert gate(against(both, b), 2.0).outcome == "not worse"

    @pytest.mark.parametrize(("scenarios", "outcome"), [(2, "not shown"), (9, "not shown"), (10, "not worse")])
    def test_few_scenarios_without_a_difference_show_nothing(self, scenarios: int, outcome: str) -> None:
        mine = by_ends("a", {f"s{number}": 50.0 for number in range(scenarios)})
        assert gate(against(mine, mine), 0.0).outcome == outcome

    @pytest.mark.parametrize(("scenarios", "outcome"), [(2, "not shown"), (9, "not shown"), (10, "not worse")])
    def test_fewer_than_ten_scenarios_never_show_that_b_is_not_worse(self, scenarios: int, outcome: str) -> None:
        found = gate(fall(scenarios), 90.0)
        assert found.outcome == outcome
        assert outcome == "not worse" or "needs 10 scenarios" in found.reason
        assert gate(fall(9), 2.0).outcome == "worse"

    @pytest.mark.parametrize(
        ("changed", "words"),
        [
            ({"user": "openai/x"}, "user simulator"),
            ({"models": {"policy": "b", "user": "embedded", "judge": "openai/x"}}, "judge"),
            ({"preset": "released"}, "preset"),
            ({"sampling": {"user": Sampling(temperature=1.0)}}, "user's sampling"),
            ({"prompts": {"feel": "new"}}, "feel"),
        ],
    )
    def test_where_what_measures_differs_neither_is_shown(self, changed: dict[str, Any], words: str) -> None:
        for threshold in (2.0, 90.0):
            found = gate(fall(12, **changed), threshold)
            assert found.outcome == "not shown"
            assert words in found.reason

    @pytest.mark.parametrize(
        "changed",
        [{"sampling": {"policy": Sampling(temperature=1.0)}}, {"prompts": {"feel": "0123456789ab", "policy": "new"}}],
    )
    def test_how_the_model_is_sampled_and_prompted_is_part_of_what_is_compared(self, changed: dict[str, Any]) -> None:
        assert [gate(fall(12, **changed), threshold).outcome for threshold in (2.0, 90.0)] == ["worse", "not worse"]

    def test_other_options_measure_otherwise(self) -> None:
        a, b = (by_ends(name, {f"s{number}": 50.0 + number for number in range(12)}) for name in "ab")
        found = gate(compare(side("a", a, options={"max_turns": 10}), side("b", b, options={"max_turns": 8})), 2.0)
        assert (found.outcome, "max_turns" in found.reason) == ("not shown", True)

    @pytest.mark.parametrize(("failed", "outcome"), [(1, "not worse"), (2, "not shown"), (20, "not shown")])
    @pytest.mark.parametrize("both", [True, False])
    def test_a_bot_that_fails_more_than_one_reply_in_20_is_never_shown_not_worse(
        self, failed: int, outcome: str, both: bool
    ) -> None:
        a, b = (by_ends(name, {f"s{n}": 50.0 for n in range(20)}) for name in "ab")  # one reply each
        broken = [d.model_copy(update={"turns": (d.turns[0].model_copy(update={"error": "it raised"}),)}) for d in b]
        b = broken[:failed] + b[failed:]
        assert gate(against(b if both else a, b), 2.0).outcome == outcome
        assert gate(against(b, a), 2.0).outcome == outcome

    def test_a_bot_that_fails_may_be_worse(self) -> None:
        error = {"turns": (talk("b", "s", [0]).turns[0].model_copy(update={"error": "it raised"}),)}
        assert gate(fall(12, **error), 2.0).outcome == "worse"

    def test_one_person_decides_nothing(self) -> None:
        one = against([talk("a", "s1", [10])], [talk("b", "s1", [-10])])
        with pytest.raises(UseError, match="needs an interval"):
            gate(one, 0.0)

    @pytest.mark.parametrize("threshold", [-1.0, float("nan"), 101.0])
    def test_a_threshold_that_is_none_is_refused(self, found: Comparison, threshold: float) -> None:
        with pytest.raises(UseError, match="--worse-than is"):
            gate(found, threshold)


class TestFiles:
    def test_the_json_file_is_that_of_the_schema(self, found: Comparison, twelve: Comparison) -> None:
        schema = json.loads((ROOT / "docs" / "compare.schema.json").read_text(encoding="utf-8"))
        with_gate, without = (
            json.loads(comparison_file(*given).model_dump_json()) for given in ((twelve, gate(twelve, 2.0)), (found,))
        )
        for written in (with_gate, without):
            jsonschema.validate(written, schema)
            assert written["difference"]["mean"] == -11.0
        assert (with_gate["gate"]["outcome"], with_gate["gate"]["passed"]) == ("worse", False)
        assert (without["gate"], without["a"]["unscored"], without["b"]["unscored"]) == (None, 0, 1)

    def test_a_number_that_is_not_defined_is_null(self) -> None:
        one = against([talk("a", "s1", [10])], [talk("b", "s1", [-10])])
        written = json.loads(comparison_file(one).model_dump_json())
        assert (written["difference"]["low"], written["effect"], written["sd"]) == (None, None, None)

    @pytest.mark.parametrize(
        ("threshold", "strict", "child"),
        [(11.0, False, "skipped"), (11.0, True, "failure"), (2.0, False, "failure"), (90.0, True, None)],
    )
    def test_the_junit_file_has_the_gate_as_a_test_case(
        self, threshold: float, strict: bool, child: str | None, twelve: Comparison
    ) -> None:
        suite = ElementTree.fromstring(junit(twelve, gate(twelve, threshold, require_shown=strict), HOSTILE))[0]
        counts = {name: suite.get(name) for name in ("tests", "failures", "skipped")}
        assert counts == {"tests": "1", "failures": str(int(child == "failure")), "skipped": str(int(child == "skipped"))}
        assert [part.tag for part in suite[0]] == [*([child] if child else []), "system-out"]


def test_replies_that_a_bot_failed_to_give_are_counted() -> None:
    a, b = (by_ends(name, {"s1": 50, "s2": 50}) for name in "ab")
    b[0] = b[0].model_copy(update={"turns": (b[0].turns[0].model_copy(update={"error": "it raised"}),)})
    found = against(a, b)
    assert found.failed_replies == (0, 1)
    assert any("0 of 2 replies in A, 1 of 2 replies in B" in warning for warning in found.warnings)


class TestSides:
    def test_two_models_of_one_run(self, dialogues: list[Transcript], write_run: WriteRun) -> None:
        a, b = choose_sides(read_run(write_run(dialogues)), None, "x/good", "x/plain")
        assert compare(a, b).difference.mean == -40.0  # 37.5 - 77.5 on s1 and s2

    def test_what_is_not_clear_is_refused(self, dialogues: list[Transcript], write_run: WriteRun) -> None:
        run = read_run(write_run(dialogues))
        for second, a, b, words in (
            (run, None, None, "several models; expected --model-a"),
            (run, None, "x/good", "A and B are both"),
            (run, "x/good", "x/none", "no model 'x/none'; expected --model-b"),
            (None, "x/good", None, "expected a second run, or two models"),
            (None, "x/good", "x/good", "A and B are both"),
            (run, "x/good", "x/good", "A and B are both"),
        ):
            with pytest.raises(UseError, match=words):
                choose_sides(run, second, a, b)

    @pytest.mark.parametrize(
        ("in_a", "in_b", "model_a"),
        [("mn", "m", None), ("m", "mn", None), ("mn", "mo", None), ("mn", "mn", "m"), ("m", "n", None)],
    )
    def test_models_of_two_runs_need_no_names_where_they_match(
        self, in_a: str, in_b: str, model_a: str | None, write_run: WriteRun
    ) -> None:
        run_a, run_b = (
            read_run(write_run([talk(model, "s1", [5]) for model in models], name=side))
            for side, models in (("a", in_a), ("b", in_b))
        )
        a, b = choose_sides(run_a, run_b, model_a, None)
        assert (a.model, b.model) == ("m", "n" if in_b == "n" else "m")

    def test_nothing_in_common_is_refused_with_the_reasons(self) -> None:
        with pytest.raises(UseError, match=r"share no scored dialogue .*not played in B: 1"):
            against([talk("a", "s1", [5])], [talk("b", "s2", [5])])


def test_hostile_titles_do_not_move_the_terminal() -> None:
    a = [talk("a", s, [5], facts={"title": HOSTILE + "\n\x1b[2J"}) for s in ("s1", "s2")]
    b = [talk("b", s, [9], facts={"title": HOSTILE}) for s in ("s1", "s2")]
    text = comparison_text(against(a, b))
    assert [line.split()[0] for line in text.split("\n")[-2:]] == ["s1", "s2"]  # a title is one line
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)


def test_runs_judged_by_different_weights_are_refused() -> None:
    """The same reply has another score under other weights; runs of which one has no such weights can be compared."""

    def by(weights: dict[str, str]) -> list[Transcript]:
        return [d.model_copy(update={"prompts": {"policy": "1", **weights}}) for d in by_ends("x/a", {"one": 50.0, "two": 60.0})]

    old, new = by({"weights.reader": "aaa"}), by({"weights.reader": "bbb"})
    with pytest.raises(UseError, match=r"reader aaa and bbb"):
        against(old, new)
    assert against(old, old).pairs == 2
    assert against(old, by({})).pairs == 2


def judged(scenario: str, *changes: float | None, stop: StopReason = "turn_limit", scored: bool = True) -> Transcript:
    dialogue = talk("m", scenario, changes, stop=stop)
    return dialogue if scored else dialogue.model_copy(update={"score": None})


def test_agreement_of_two_judges_worked_by_hand() -> None:
    # scores 45, 50, 30 against 44, 48, 46: differences -1, -2, +16; ranks 2 3 1 against 1 3 2: rho = 1 - 6 * 2 / 24 = 0.5
    first = [judged("a", 5, 0), judged("b", 5, 5), judged("c", -5, -5), judged("d", 1)]
    second = [judged("a", 4, 0), judged("b", 5, 3, stop="cut"), judged("c", 6), judged("d", 1, scored=False), judged("e", 1)]
    found = agreement(first, second)
    assert (found.dialogues, found.replies, found.cut) == (3, 5, 1)
    assert found.signs == 0.8  # the first reply to c is worse to one, better to the other
    assert found.spearman == 0.5
    assert found.difference is not None
    assert round(found.difference.mean, 2) == 4.33
    # means 41.67 and 46: products (3.33)(-2) + (8.33)(2) + (-11.67)(0) = 10; r = 10 / sqrt(216.67 * 8) = 0.24
    assert found.pearson is not None
    assert round(found.pearson, 2) == 0.24
    assert "Pearson 0.24 and Spearman 0.50" in str(found)


def test_judges_of_other_replies_have_no_agreement() -> None:
    with pytest.raises(UseError, match="rejudged from it"):
        agreement([judged("a", 5)], [talk("m", "a", [5], text="Another reply.")])


def test_an_agreement_that_is_not_defined_is_not_shown() -> None:
    alike = agreement([judged("a", 5), judged("b", 5)], [judged("a", 5), judged("b", None)])
    assert (alike.pearson, alike.spearman, alike.replies) == (None, None, 1)
    assert agreement([judged("a", 5)], [judged("b", 5)]).dialogues == 0
